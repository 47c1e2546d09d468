"""From sealed to confirmed: each server gets its parcel, as sealed, until its receipt has come.

The receipt must be signed by the key that the study pins. What was not confirmed is sent again as
it was; what nobody takes any more is deleted.
"""

from __future__ import annotations

from contextlib import suppress

from tacit.errors import NotYet, Refused, TacitError, Unreachable
from tacit.ledger import canonical, digest
from tacit_federation.client import Client, Reply
from tacit_federation.database import Row
from tacit_federation.messages import (
    APPROVAL,
    MOST_PART,
    RECEIPT,
    check_signed,
    read_note,
    signed,
)
from tacit_federation.site_folder import SiteFolder, SiteStudy
from tacit_federation.statements import WITHDRAWN
from tacit_federation.study import Server, Study

_TAKEN, _TOO_LATE, _KEPT = (200, 201), (409, 410), 202
_DROPPED, _CLOSED = 200, 410


def send_parcels(site: SiteFolder, row: Row) -> list[str]:
    """Send what is sealed to every server that has not confirmed it; one that is down waits."""
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
    """Keep a receipt; the last one confirms the study, in the same write."""
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
    """Send the approval or refusal, signed, or the withdrawal, until the server has it."""
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
    """Tell everybody who may have been told of an approval; whoever has answers drops them.

    True once nobody is left to be told: whoever closed with this site's answers keeps them.
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
    """Let one receiver at least drop what it has: then it is in no sum; otherwise it stays."""
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
    """Let the site's ledger warn of it in every later statement, once."""
    said = digest(canonical({"study": known.hash, "decision": "withdrawn"}))
    noted = (each.about.get("sha256") for each in site.ledger.entries())
    if said not in noted:
        purpose = f"withdraw from study {known.hash[:16]}: {known.study.title}"
        site.ledger.publish(said, purpose=purpose, faults=[WITHDRAWN])


def withdraw_study(site: SiteFolder, known: SiteStudy) -> None:
    """Take back what was approved, sealed or sent; servers that have it must drop it first.

    The site's own ledger says so before anything else does, in every later statement, even if it
    was asked too late: whoever stops in between must not have withdrawn unseen. A server that
    cannot be reached now is told at the next visit.
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
