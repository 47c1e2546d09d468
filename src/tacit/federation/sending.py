"""From sealed to confirmed: each server gets its parcel, as sealed, until its receipt has come.

The receipt must be signed by the key that the study pins. What was not confirmed is sent again as
it was; what nobody takes any more is deleted.
"""

from __future__ import annotations

from tacit.errors import NotYet, Refused, TacitError, Unreachable
from tacit.federation.client import Client, Reply
from tacit.federation.database import Row
from tacit.federation.messages import APPROVAL, RECEIPT, check_signed, read_note, signed
from tacit.federation.site_folder import SiteFolder, SiteStudy
from tacit.federation.study import Server, Study

_TAKEN, _TOO_LATE = (200, 201), (409, 410)


def send_parcels(site: SiteFolder, row: Row) -> list[str]:
    """Send what is sealed to every server that has not confirmed it; one that is down waits."""
    study, said = Study.read(row["text"]), []
    if row["state"] == "sealed":
        site.move(study.hash, "sent")
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
    reply = put_parcel(site.client(server.url), study, server, path.read_bytes())
    if reply.status in _TAKEN:
        _confirm(site, row, study, server, reply)
        return [f"{study.hash[:8]}: answers confirmed by the {server.role}"]
    if reply.status in _TOO_LATE:
        site.move(study.hash, "absent")
        site.sweep()
        return [f"{study.hash[:8]}: too late, or not taken ({reply.status})"]
    return [f"{study.hash[:8]}: not taken ({reply.status}); tried again later"]


def put_parcel(client: Client, study: Study, server: Server, body: bytes) -> Reply:
    """Send one parcel to its server."""
    return client.ask("PUT", f"/studies/{study.hash}/{server.takes}", body)


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
    """Send the approval or refusal, signed, until the server has it."""
    decision = "refused" if row["state"] == "refused" else "approved"
    if row["told"] or row["state"] in ("seen", "absent"):
        return []
    name = site.servers()[row["server"]]["name"]
    said = {"study": row["hash"], "site": name, "decision": decision}
    path = f"/studies/{row['hash']}/approval"
    if client.ask("PUT", path, signed(site.key, APPROVAL, said)).status not in _TAKEN:
        return []
    with site.database.writing() as rows:
        query = "UPDATE studies SET told = ? WHERE hash = ?"
        rows.execute(query, (decision, row["hash"]))
    return [f"{row['hash'][:8]}: {decision}"]


def withdraw_study(site: SiteFolder, known: SiteStudy) -> None:
    """Take back what was approved, sealed or sent; servers that have it must drop it first."""
    if known.state in ("sent", "confirmed"):
        for server in known.study.receivers:
            reply = site.client(server.url).ask("DELETE", f"/studies/{known.hash}/{server.takes}")
            if reply.status != 200:
                raise Refused("Expected a study that is still open: its answers stay.")
    with site.database.writing() as rows:
        query = "UPDATE studies SET state = 'withdrawn' WHERE hash = ? AND state = ?"
        if not rows.execute(query, (known.hash, known.state)).rowcount:
            raise NotYet("Expected nothing to be sent at this very moment; withdraw it again.")
    site.sweep()
