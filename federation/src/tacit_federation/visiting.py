"""One visit of a site to one server: what is new there, what is due here, what was released.

Outbound only. A server that went back to an earlier audit log, answers out of protocol or releases
something else than was sent is refused; nothing that it says makes more leave than was approved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tacit.errors import InvalidArgument, Refused, TacitError
from tacit_federation.client import Client
from tacit_federation.database import Row
from tacit_federation.fetching import frame_of
from tacit_federation.releasing import most_of_release, read_release
from tacit_federation.sending import send_parcels, tell_decision
from tacit_federation.site_folder import SiteFolder
from tacit_federation.study import Study

MOST_SKEW = 300
"""Seconds between a site's clock and a server's from which the site warns."""
_MOST_DOCUMENT = 2 << 20


def visit(site: SiteFolder, url: str) -> list[str]:
    """Ask one server what there is, and bring each study forward; return what happened."""
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
    """Return the studies of which nothing is left to do here, with how they ended there."""
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
    """Bring one study forward by what the server says of it."""
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
    """Read a study for the first time; what does not concern this site is left alone."""
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
    """Return the studies that a server lists, each with a hash, a state and when it closes."""
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
