"""One visit of a site to one server: fetch what is new, send what is due.

Outbound only. A server with an earlier audit log, malformed replies, or a release of something else
than was sent is refused; it can never make more leave than was approved. Each server gets its
parcel, as sealed, until a receipt has come that is signed by the pinned key. Public inputs are
fetched once, in parts, and checked each time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tacit._files import sync_directory, write_atomically
from tacit.errors import InvalidArgument, NotYet, Refused, TacitError, Unreachable
from tacit.ledger import canonical, digest
from tacit_federation.client import Client, Reply
from tacit_federation.database import Row, alone, on_disk
from tacit_federation.inputs import check_frame, check_inputs
from tacit_federation.messages import (
    APPROVAL,
    MOST_PART,
    RECEIPT,
    check_signed,
    read_note,
    signed,
)
from tacit_federation.releasing import most_of_release, read_release
from tacit_federation.site_folder import SiteFolder, SiteStudy
from tacit_federation.statements import WITHDRAWN
from tacit_federation.study import Server, Study

MOST_SKEW = 300
"""Seconds between a site's clock and a server's from which the site warns."""
_MOST_DOCUMENT = 2 << 20
_TAKEN, _TOO_LATE, _KEPT = (200, 201), (409, 410), 202
_DROPPED, _CLOSED = 200, 410


def visit(site: SiteFolder, url: str) -> list[str]:
    """Query one server, and advance each study; return what happened."""
    client, server = site.client(url), site.servers()[url]
    client.renew(server["name"])
    said = site.listing(url)
    lines = _check_skew(site, url, said.get("time"))
    settled = _settled(site)
    problem: TacitError | None = None
    for each in _listed(said.get("studies")):
        if settled.get(each["hash"]) == each["state"]:
            continue
        try:
            lines += _follow(site, url, client, each)
        except TacitError as error:  # of this study: the others go on
            problem = error
    if problem is not None:
        raise problem
    return lines


def _settled(site: SiteFolder) -> dict[str, str]:
    """Return the finished studies with their final state here."""
    query = (
        "SELECT hash, remote FROM studies WHERE (told <> '' OR state IN ('seen', 'absent')) "
        "AND (told = 'withdrawn' OR state <> 'withdrawn') "
        "AND (remote = 'void' AND state NOT IN ('seen', 'approved', 'sealed', 'sent') "
        "OR release IS NOT NULL AND state <> 'sent')"
    )
    return {row["hash"]: row["remote"] for row in site.database.rows(query)}


def _check_skew(site: SiteFolder, url: str, theirs: Any) -> list[str]:
    proper = isinstance(theirs, int | float) and 0 <= theirs < 1 << 53
    skew = abs(site.clock() - theirs) if proper else 0.0
    if skew < MOST_SKEW:
        return []
    return [f"The clocks here and at {url} differ by {skew / 60:.0f} minutes; theirs counts."]


def _follow(site: SiteFolder, url: str, client: Client, each: Mapping[str, Any]) -> list[str]:
    """Advance one study by the server's state."""
    name, remote, closes = (each[key] for key in ("hash", "state", "closes"))
    row = site.database.row("SELECT * FROM studies WHERE hash = ?", name)
    if row is None:
        return _meet(site, url, client, each)
    if row["server"] != url:
        return []
    if (row["remote"], row["closes"]) != (remote, closes):  # most studies ended long ago
        with site.database.writing() as rows:
            query = "UPDATE studies SET remote = ?, closes = ? WHERE hash = ?"
            rows.execute(query, (remote, closes, name))
    said = tell_decision(site, client, row)
    if (remote, row["state"]) == ("void", "confirmed") and row["remote"] != "void":
        said.append(f"{name[:8]}: ended without a release; what it cost here stays charged")
    row = site.row(name)
    unsent = row["state"] in ("seen", "approved", "sealed")
    if unsent and remote in ("closed", "released", "void"):  # what nobody needs never leaves
        site.step(name, row["state"], "absent")
        site.sweep()
        said.append(f"{name[:8]}: closed without this site")
    elif row["state"] in ("sealed", "sent") and row["told"] and site.clock() >= row["send_at"]:
        said += send_parcels(site, row)
    if remote == "released" and row["release"] is None:
        said += _fetch_release(site, client, site.row(name))
    return said


def _meet(site: SiteFolder, url: str, client: Client, each: Mapping[str, Any]) -> list[str]:
    """Read a study for the first time; one without this site is ignored."""
    name, remote = each["hash"], each["state"]
    if remote != "open":
        return []
    said = client.ask("GET", f"/studies/{name}/document", most=_MOST_DOCUMENT).json()
    try:
        study = Study.read(str(said.get("document")))
    except InvalidArgument as error:  # perhaps of a newer tacit: the others go on
        return [f"{name[:8]}: not understood. {error}"]
    if study.hash != name or study.site(site.servers()[url]["name"]) is None:
        return []
    if study.server("coordinator").url != url:  # answers go to whom it names, and nobody else
        return [f"{name[:8]}: not a study of {url}, which showed it; left alone"]
    agreed = json.dumps(said.get("agreed") or {}, sort_keys=True)
    row = (name, url, study.text, str(said.get("officer")), str(said.get("signature")), agreed)
    with site.database.writing() as rows:
        query = (
            "INSERT OR IGNORE INTO studies (hash, server, text, officer, signature, agreed, "
            "state, closes, remote) VALUES (?, ?, ?, ?, ?, ?, 'seen', ?, ?)"
        )
        rows.execute(query, (*row, each["closes"], remote))
    return [f"{name[:8]}: new study, {study.title!r}; `tacit site approve {name[:8]}`"]


def _fetch_release(site: SiteFolder, client: Client, row: Row) -> list[str]:
    study = Study.read(row["text"])
    reply = client.ask("GET", f"/studies/{study.hash}/release", most=most_of_release(study))
    if reply.status != 200:
        return []
    found = read_release(study, reply.body, frame_of(site, study) if study.codes else None)
    counted = found.sharing.get(site.servers()[row["server"]]["name"])
    if row["state"] == "confirmed" and counted != row["sharing"]:
        raise Refused("Expected the release to count what this site sent: it does not.")
    if row["state"] != "confirmed" and counted not in (None, row["sharing"]):
        raise Refused("Expected the release to count nothing that this site did not send.")
    with site.database.writing() as rows:
        query = "UPDATE studies SET release = ? WHERE hash = ?"
        rows.execute(query, (reply.body, row["hash"]))
    return [f"{row['hash'][:8]}: released over {len(found.survivors)} sites"]


def _listed(studies: Any) -> list[Mapping[str, Any]]:
    """Return the studies that a server lists, each with a hash, a state and a closing time."""
    proper = isinstance(studies, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("hash"), str)
        and isinstance(each.get("state"), str)
        and each["hash"].isalnum()
        and each["state"].isalnum()
        and type(each.get("closes")) is int
        and 0 <= each["closes"] < 1 << 53
        for each in studies
    )
    if not proper:
        raise Refused("Expected the server to answer as its protocol says.")
    return list(studies)


def send_parcels(site: SiteFolder, row: Row) -> list[str]:
    """Send sealed parcels to every server that has not confirmed; one that is down waits."""
    study, said = Study.read(row["text"]), []
    if row["state"] == "sealed" and not site.step(study.hash, "sealed", "sent"):
        return []  # withdrawn at this very moment
    problem: TacitError | None = None
    for server in site.unconfirmed(study):
        try:
            said += _send_one(site, row, study, server)
        except Unreachable as error:
            problem = error
        if site.row(study.hash)["state"] != "sent":
            break
    if problem is not None:
        raise problem
    return said


def _send_one(site: SiteFolder, row: Row, study: Study, server: Server) -> list[str]:
    path = site.sealed(study.hash, server.role)
    if not path.exists():
        return []
    if server.role != "coordinator":  # whose log was just read: it is the one that is visited
        site.listing(server.url)  # refuses a log that went back
    reply = put_parcel(site.client(server.url), study, server, path.read_bytes())
    if reply.status in _TAKEN:
        _confirm(site, row, study, server, reply)
        return [f"{study.hash[:8]}: answers confirmed by the {server.role}"]
    if reply.status in _TOO_LATE:
        site.step(study.hash, "sent", "absent")
        site.sweep()
        return [f"{study.hash[:8]}: too late, or not taken ({reply.status})"]
    return [f"{study.hash[:8]}: not taken ({reply.status}); tried again later"]


def put_parcel(client: Client, study: Study, server: Server, body: bytes) -> Reply:
    """Send one parcel to its server, in parts if it is long; the last one brings the receipt."""
    address = f"/studies/{study.hash}/{server.takes}"
    if len(body) <= MOST_PART:
        return client.ask("PUT", address, body)
    reply = Reply(422, b"")
    for number in range(-(-len(body) // MOST_PART)):
        part = body[number * MOST_PART : (number + 1) * MOST_PART]
        reply = client.ask("PUT", f"{address}/parts/{number}", part)
        if reply.status not in (*_TAKEN, _KEPT):
            break
    return reply


def _confirm(site: SiteFolder, row: Row, study: Study, server: Server, reply: Reply) -> None:
    """Store a receipt; the last one confirms the study, in the same write."""
    plain = check_signed(server.key, RECEIPT, read_note(reply.body))
    name = site.servers()[server.url]["name"]
    if plain != {"study": study.hash, "site": name, "sharing": row["sharing"]}:
        raise Refused("Expected a receipt for what this site sent.")
    with site.database.writing() as rows:
        query = "UPDATE parcels SET receipt = ? WHERE study = ? AND role = ?"
        rows.execute(query, (reply.body.decode(), study.hash, server.role))
        query = "SELECT COUNT(*) AS n FROM parcels WHERE study = ? AND receipt IS NULL"
        if rows.execute(query, (study.hash,)).fetchone()["n"] == 0:
            query = "UPDATE studies SET state = 'confirmed' WHERE hash = ? AND state = 'sent'"
            rows.execute(query, (study.hash,))
    site.sweep()


def tell_decision(site: SiteFolder, client: Client, row: Row) -> list[str]:
    """Send the signed approval or refusal, or the withdrawal, until the server has it."""
    name, state = row["hash"], row["state"]
    if state == "withdrawn":
        told = row["told"] != "withdrawn" and _tell_withdrawal(site, Study.read(row["text"]))
        return [f"{name[:8]}: withdrawn"] if told else []
    if row["told"] or state in ("seen", "absent"):
        return []
    decision = "refused" if state == "refused" else "approved"
    here = site.servers()[row["server"]]["name"]
    said = {"study": name, "site": here, "decision": decision}
    reply = client.ask("PUT", f"/studies/{name}/approval", signed(site.key, APPROVAL, said))
    if reply.status not in (*_TAKEN, *_TOO_LATE):
        return []
    late = reply.status in _TOO_LATE
    _note_told(site, name, "too late" if late else decision)
    return [f"{name[:8]}: {decision}{', too late' if late else ''}"]


def _note_told(site: SiteFolder, name: str, what: str) -> None:
    with site.database.writing() as rows:
        rows.execute("UPDATE studies SET told = ? WHERE hash = ?", (what, name))


def _tell_withdrawal(site: SiteFolder, study: Study) -> bool:
    """Report a withdrawal to every server that may know the approval, to drop the answers.

    True once all are informed: a server that closed with this site's answers keeps them.
    """
    told = [_tell_one(site, study, each) for each in study.receivers]
    coordinator = study.server("coordinator")
    if coordinator not in study.receivers:
        told.append(_tell_one(site, study, coordinator))
    if not set(told) <= {_DROPPED, _CLOSED}:
        return False
    _note_told(site, study.hash, "withdrawn")
    return True


def _tell_one(site: SiteFolder, study: Study, server: Server) -> int:
    address = f"/studies/{study.hash}/{server.takes}"
    return site.client(server.url).ask("DELETE", address).status


def _take_back(site: SiteFolder, study: Study) -> None:
    """Let at least one receiver drop the answers: then they are in no sum."""
    problem: TacitError = NotYet("Expected a server that can drop it now; withdraw it again.")
    kept = 0
    for server in study.receivers:
        try:
            reply = _tell_one(site, study, server)
        except Unreachable as error:
            problem = error
            continue
        if reply == _DROPPED:
            return
        kept += reply == _CLOSED
    if kept == len(study.receivers):
        raise Refused("Expected a study that is still open: its answers stay.")
    raise problem


def _note_withdrawal(site: SiteFolder, known: SiteStudy) -> None:
    """Record a permanent warning in the site's ledger, once."""
    said = digest(canonical({"study": known.hash, "decision": "withdrawn"}))
    noted = (each.about.get("sha256") for each in site.ledger.entries())
    if said not in noted:
        purpose = f"withdraw from study {known.hash[:16]}: {known.study.title}"
        site.ledger.publish(said, purpose=purpose, faults=[WITHDRAWN])


def withdraw_study(site: SiteFolder, known: SiteStudy) -> None:
    """Take back what was approved, sealed or sent; servers that have it must drop it first.

    The site's own ledger records it before anything else, even if it is too late: nobody may
    withdraw unseen. An unreachable server is informed at the next visit.
    """
    if known.state == "withdrawn":
        return
    if known.state not in ("approved", "sealed", "sent", "confirmed"):
        raise Refused(f"Expected a study that was approved: this one is {known.state}.")
    if known.remote in ("released", "void"):
        raise Refused(f"Expected a study that is still open: this one is {known.remote}.")
    _note_withdrawal(site, known)
    if known.state in ("sent", "confirmed"):
        _take_back(site, known.study)
    if not site.step(known.hash, known.state, "withdrawn"):
        raise NotYet("Expected nothing to be sent at this very moment; withdraw it again.")
    site.sweep()
    with suppress(TacitError):
        _tell_withdrawal(site, known.study)


def inputs_of(site: SiteFolder, study: Study) -> bytes:
    """Return the study's inputs as a file; partial downloads are resumed."""
    path = site.folder / "inputs" / f"{study.hash}.npy"
    with alone(site.folder / "fetching.lock"):
        if not path.exists():
            with closing(site.client(study.server("coordinator").url)) as client:
                _download(client, study, path)
    file = path.read_bytes()
    check_inputs(study, file)
    return file


def _download(client: Client, study: Study, path: Path) -> None:
    part = path.with_suffix(".part")
    try:
        with on_disk(path), part.open("ab") as file:
            _fetch_pieces(client, study, file)
            file.flush()
            os.fsync(file.fileno())
        check_inputs(study, part.read_bytes())
    except Refused:
        part.unlink(missing_ok=True)  # whatever it is, it is not what the study names
        raise
    with on_disk(path):
        os.replace(part, path)
        sync_directory(path.parent)


def _fetch_pieces(client: Client, study: Study, file: BinaryIO) -> None:
    size = int(study.inputs["bytes"])
    while (have := file.tell()) < size:
        last = min(have + MOST_PART, size) - 1
        wanted = {"Range": f"bytes={have}-{last}"}
        address = f"/studies/{study.hash}/inputs"
        reply = client.ask("GET", address, most=MOST_PART, more=wanted)
        if reply.status != 206 or len(reply.body) != last + 1 - have:
            raise Refused("Expected the piece of the study's inputs that was asked for.")
        file.write(reply.body)


def frame_of(site: SiteFolder, study: Study) -> bytes:
    """Return the centres and weights of a study of codes, fetched once and checked each time."""
    path = site.folder / "inputs" / f"{study.hash}.frame.npy"
    if path.exists():
        file = path.read_bytes()
    else:
        most = 1024 + 16 * study.shape[0] * study.shape[1]
        with closing(site.client(study.server("coordinator").url)) as client:
            file = client.ask("GET", f"/studies/{study.hash}/frame", most=most).body
    check_frame(study, file)
    if not path.exists():
        with on_disk(path):
            write_atomically(path, file)
    return file
