"""What members send to a server: approvals, answers, withdrawals; the first one stays.

What is not taken inside a transaction is not taken. Why presence and clock alone may decide:
docs/theory/federation.md#who-takes-part.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit._files import sync_directory
from tacit.errors import InvalidArgument, Refused
from tacit.federation.audit_log import note
from tacit.federation.database import Connection, Row
from tacit.federation.messages import (
    APPROVAL,
    RECEIPT,
    check_signed,
    read_header,
    signed,
)
from tacit.federation.server_folder import ServerFolder, drop_answer
from tacit.federation.study import Study


def keep_decision(server: ServerFolder, name: str, member: Row, sent: Mapping[str, Any]) -> bool:
    """Keep a site's approval or refusal; the first one stays.

    Parameters
    ----------
    server : ServerFolder
        Who takes it.
    name : str
        The study's hash.
    member : dict
        Who sends it.
    sent : mapping
        The signed note.

    Returns
    -------
    bool
        Whether this is what was kept.
    """
    study, row = server.open_study(name)
    site = study.site(member["id"])
    if site is None:
        raise Refused("Expected a site that the study names.")
    plain = check_signed(site.key, APPROVAL, sent)
    decision = plain.get("decision")
    expected = {"study": name, "site": site.id, "decision": decision}
    if plain != expected or decision not in ("approved", "refused"):
        raise InvalidArgument("Expected an approval or a refusal of this study.")
    text = json.dumps(dict(sent), sort_keys=True)
    with server.database.writing() as rows:
        query = "SELECT decision FROM approvals WHERE study = ? AND site = ?"
        kept = rows.execute(query, (name, site.id)).fetchone()
        if kept is None:
            new = (name, site.id, decision, text)
            rows.execute("INSERT INTO approvals VALUES (?, ?, ?, ?)", new)
            note(rows, server.now(), str(decision), study=name, site=site.id)
            close_early(rows, study, row["closes"], server.now())
    return kept is None or kept["decision"] == decision


def receipt_of(
    server: ServerFolder, name: str, site: str, sharing: str | None = None
) -> bytes | None:
    """Return the receipt of a site's answer, if there is one (by this id).

    Parameters
    ----------
    server : ServerFolder
        Who takes it.
    name : str
        The study's hash.
    site : str
        Whose.
    sharing : str, optional
        Any, if not given.

    Returns
    -------
    bytes or None
        As it was given the first time.
    """
    query = "SELECT * FROM answers WHERE study = ? AND site = ?"
    row = server.database.row(query, name, site)
    if row is None or sharing not in (None, row["sharing"]):
        return None
    return bytes(row["receipt"].encode())


def take_answers(server: ServerFolder, name: str, member: Row, upload: Path) -> tuple[int, bytes]:
    """Take a complete upload: the first one wins for ever, the same again gets the same.

    Parameters
    ----------
    server : ServerFolder
        Who takes it.
    name : str
        The study's hash.
    member : dict
        Who sends it.
    upload : path
        A file, synchronised, which is moved or removed.

    Returns
    -------
    tuple of int and bytes
        201 and a receipt; 200 and the same receipt; 409 (another answer, or no approval); 410
        (too late).
    """
    study, _ = server.open_study(name)
    site = study.site(member["id"])
    if site is None:
        raise Refused("Expected a site that the study names.")
    with upload.open("rb") as file:
        header = read_header(file)
        payload = file.read()
    sharing = server.check_parcel(study, site, header, payload)
    place = server.answers_of(name, site.id, sharing)
    receipt = signed(server.key, RECEIPT, {"study": name, "site": site.id, "sharing": sharing})
    if same := receipt_of(server, name, site.id, sharing):
        return 200, same

    def move() -> None:
        server.check_new(study, site.id, payload)
        os.replace(upload, place)
        sync_directory(place.parent)  # the row must never outlive the file's name

    code = _record(server, study, site.id, (sharing, receipt.decode()), move)
    if code != 201:
        again = receipt_of(server, name, site.id, sharing)
        return (200, again) if again else (code, b"")
    return code, receipt


def _record(
    server: ServerFolder,
    study: Study,
    site: str,
    told_by: tuple[str, str],
    move: Callable[[], None],
) -> int:
    """Put an answer on record; its file is moved under the write lock alone.

    Of two uploads of one answer at once, the loser must neither replace nor remove the file.
    """
    now, key = server.now(), (study.hash, site)
    with server.database.writing() as rows:
        row = rows.execute("SELECT * FROM studies WHERE hash = ?", key[:1]).fetchone()
        told = "SELECT sharing FROM answers WHERE study = ? AND site = ?"
        decision = _decided(rows, key) if server.APPROVES else None
        shut_out = "SELECT 1 FROM members WHERE id = ? AND revoked IS NOT NULL"
        if rows.execute(shut_out, (site,)).fetchone() is not None:
            raise Refused("Expected a member that was not revoked while it sent.")
        if rows.execute(told, key).fetchone() is not None:
            return 409
        if row["state"] != "open" or not study.window.opens <= now < row["closes"]:
            return 410
        if server.APPROVES and (decision is None or decision["decision"] != "approved"):
            return 409
        move()
        rows.execute("INSERT INTO answers VALUES (?, ?, ?, ?, NULL)", (*key, *told_by))
        rows.execute("UPDATE clock SET latest = MAX(latest, ?)", (now,))
        note(rows, now, "answered", study=study.hash, site=site, sharing=told_by[0])
        close_early(rows, study, row["closes"], now, refusals=server.APPROVES)
    return 201


def _decided(rows: Connection, key: tuple[str, str]) -> Row | None:
    query = "SELECT decision FROM approvals WHERE study = ? AND site = ?"
    found: Row | None = rows.execute(query, key).fetchone()
    return found


def withdraw_answers(server: ServerFolder, name: str, member: Row) -> bool:
    """Drop a site's answer, as long as the study is open; the release then warns of it.

    Parameters
    ----------
    server : ServerFolder
        Who takes it.
    name : str
        The study's hash.
    member : dict
        Whose answer.

    Returns
    -------
    bool
        False if the study is closed: what was summed stays.
    """
    with server.database.writing() as rows:
        row = rows.execute("SELECT state FROM studies WHERE hash = ?", (name,)).fetchone()
        if row is None or row["state"] != "open":
            return False
        if drop_answer(rows, name, member["id"], "withdrawn"):
            note(rows, server.now(), "withdrawn", study=name, site=member["id"])
    server.sweep()
    return True


def present_sites(rows: Connection, study: str) -> list[str]:
    """Return who has answered, by name: the order tells nothing of when."""
    query = "SELECT site FROM answers WHERE study = ? AND dropped IS NULL ORDER BY site"
    return [row["site"] for row in rows.execute(query, (study,)).fetchall()]


def close_early(
    rows: Connection, study: Study, closes: int, now: float, *, refusals: bool = True
) -> None:
    """Once nobody is left to answer, let the study close at the next slot."""
    refused: set[str] = set()
    if refusals:  # an aggregator hears of shares alone
        silent = "SELECT site FROM approvals WHERE study = ? AND decision = 'refused'"
        refused = {row["site"] for row in rows.execute(silent, (study.hash,)).fetchall()}
    told = rows.execute("SELECT site FROM answers WHERE study = ?", (study.hash,)).fetchall()
    if refused | {row["site"] for row in told} >= {each.id for each in study.sites}:
        earlier = min(closes, study.window.next_slot(now))
        rows.execute("UPDATE studies SET closes = ? WHERE hash = ?", (earlier, study.hash))
