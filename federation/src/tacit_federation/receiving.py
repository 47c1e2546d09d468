"""Uploads of members to a server: approvals, answers, withdrawals; the first one stays.

Everything is taken inside a transaction. Presence and clock alone decide
(docs/theory/federation.md#who-takes-part). From aggregators a coordinator takes signatures and two
opened sums, which are public: it can refuse service, and nothing else, for readers of the release
check both signatures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit._files import sync_directory
from tacit.errors import InvalidArgument, NotYet, Refused
from tacit_federation.database import Connection, Row, note
from tacit_federation.keys import check_signature
from tacit_federation.messages import (
    APPROVAL,
    RECEIPT,
    VOID,
    check_signed,
    read_parcel,
    signed,
)
from tacit_federation.server_folder import ServerFolder, drop_answer
from tacit_federation.study import AGGREGATORS, SIGNED_AS, Study, StudySite
from tacit_federation.sums import both_sums, read_sum


def keep_decision(server: ServerFolder, name: str, member: Row, sent: Mapping[str, Any]) -> int:
    """Store a site's signed approval or refusal; the first one stays, and none after closing.

    Returns 201; 200 if it was stored before, 409 if another one was; 410 if the study has closed.
    """
    study, site = _named(server, name, member)
    plain = check_signed(site.key, APPROVAL, sent)
    decision = plain.get("decision")
    expected = {"study": name, "site": site.id, "decision": decision}
    if plain != expected or decision not in ("approved", "refused"):
        raise InvalidArgument("Expected an approval or a refusal of this study.")
    text, now = json.dumps(dict(sent), sort_keys=True), server.now()
    with server.database.writing() as rows:
        query = "SELECT decision FROM approvals WHERE study = ? AND site = ?"
        kept = rows.execute(query, (name, site.id)).fetchone()
        if kept is not None:
            return 200 if kept["decision"] == decision else 409
        if not _is_open(rows, study, now):
            return 410
        new = (name, site.id, decision, text)
        rows.execute("INSERT INTO approvals VALUES (?, ?, ?, ?)", new)
        note(rows, now, str(decision), study=name, site=site.id)
        close_early(rows, study, now)
    return 201


def _named(server: ServerFolder, name: str, member: Row) -> tuple[Study, StudySite]:
    """Return an opened study, and this member's site in it."""
    study, _ = server.open_study(name)
    site = study.site(member["id"])
    if site is None:
        raise Refused("Expected a site that the study names.")
    return study, site


def _is_open(rows: Connection, study: Study, now: float) -> bool:
    """Whether a study takes decisions and answers now."""
    query = "SELECT state, closes FROM studies WHERE hash = ?"
    row = rows.execute(query, (study.hash,)).fetchone()
    return bool(row["state"] == "open" and now < row["closes"])


def receipt_of(
    server: ServerFolder, name: str, site: str, sharing: str | None = None
) -> bytes | None:
    """Return the first receipt of a site's answer (with this sharing id), if there is one."""
    query = "SELECT * FROM answers WHERE study = ? AND site = ?"
    row = server.database.row(query, name, site)
    if row is None or sharing not in (None, row["sharing"]):
        return None
    return bytes(row["receipt"].encode())


def take_answers(server: ServerFolder, name: str, member: Row, upload: Path) -> tuple[int, bytes]:
    """Take a complete, synchronised upload, which is moved or removed; the first one wins.

    Returns 201 and a receipt; 200 and the same receipt; 409 (another answer, or no approval); 410.
    """
    study, site = _named(server, name, member)
    header, payload = read_parcel(upload)
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
    """Record an answer and move its file, under the write lock.

    Of two uploads of one answer at once, the loser must neither replace nor remove the file.
    """
    now, key = server.now(), (study.hash, site)
    with server.database.writing() as rows:
        if _has(rows, "SELECT 1 FROM members WHERE id = ? AND revoked IS NOT NULL", site):
            raise Refused("Expected a member that was not revoked while it sent.")
        if _has(rows, "SELECT 1 FROM answers WHERE study = ? AND site = ?", *key):
            return 409
        if not _is_open(rows, study, now) or now < study.window.opens:
            return 410
        approved = "SELECT 1 FROM approvals WHERE study = ? AND site = ? AND decision = 'approved'"
        withdrew = "SELECT 1 FROM withdrawals WHERE study = ? AND site = ?"
        if server.APPROVES and not _has(rows, approved, *key):
            return 409
        if _has(rows, withdrew, *key):
            return 409
        move()
        rows.execute("INSERT INTO answers VALUES (?, ?, ?, ?, NULL)", (*key, *told_by))
        rows.execute("UPDATE clock SET latest = MAX(latest, ?)", (now,))
        note(rows, now, "answered", study=study.hash, site=site, sharing=told_by[0])
        close_early(rows, study, now, refusals=server.APPROVES)
    return 201


def _has(rows: Connection, query: str, *values: str) -> bool:
    return rows.execute(query, values).fetchone() is not None


def withdraw_site(server: ServerFolder, name: str, member: Row) -> bool:
    """Record a site's withdrawal, of which every result warns.

    False if its answer is in a sum that has closed: that stays.
    """
    study, site = _named(server, name, member)
    now, key = server.now(), (study.hash, site.id)
    with server.database.writing() as rows:
        is_open = _has(rows, "SELECT 1 FROM studies WHERE hash = ? AND state = 'open'", name)
        counted = "SELECT 1 FROM answers WHERE study = ? AND site = ? AND dropped IS NULL"
        stays = not is_open and _has(rows, counted, *key)
        if not stays:
            drop_answer(rows, *key, "withdrawn")
        if rows.execute("INSERT OR IGNORE INTO withdrawals VALUES (?, ?)", key).rowcount:
            note(rows, now, "withdrawn", study=name, site=site.id)
        if is_open:
            close_early(rows, study, now, refusals=server.APPROVES)
    server.sweep()
    return not stays


def close_early(rows: Connection, study: Study, now: float, *, refusals: bool = True) -> None:
    """Close the study at the next slot, once no site is left to answer."""
    query = (
        "SELECT site FROM answers WHERE study = :study "
        "UNION SELECT site FROM withdrawals WHERE study = :study"
    )
    if refusals:  # an aggregator hears of shares alone
        query += " UNION SELECT site FROM approvals WHERE study = :study AND decision = 'refused'"
    done = {row["site"] for row in rows.execute(query, {"study": study.hash}).fetchall()}
    if done >= {each.id for each in study.sites}:
        query = "UPDATE studies SET closes = MIN(closes, ?) WHERE hash = ?"
        rows.execute(query, (study.window.next_slot(now), study.hash))


def _shared_study(place: ServerFolder, name: str) -> tuple[Study, Row]:
    row = place.database.row("SELECT * FROM studies WHERE hash = ?", name)
    if row is None or row["state"] == "draft":
        raise InvalidArgument("Expected the hash of a study that was signed here.")
    study = Study.read(row["text"])
    if study.mode != "two-aggregators":
        raise InvalidArgument("Expected a study of two aggregators.")
    return study, row


def keep_agreement(place: ServerFolder, name: str, sent: Mapping[str, Any]) -> None:
    """Store an aggregator's signature of a study; it must be the pinned key's."""
    study, _ = _shared_study(place, name)
    role = sent.get("role")
    if set(sent) != {"role", "signature"} or role not in AGGREGATORS:
        raise InvalidArgument("Expected role and signature of an aggregator.")
    check_signature(study.server(str(role)).key, SIGNED_AS, study.hash, sent["signature"])
    with place.database.writing() as rows:
        new = (study.hash, role, sent["signature"])
        if rows.execute("INSERT OR IGNORE INTO agreed VALUES (?, ?, ?)", new).rowcount:
            note(rows, place.now(), "agreed", study=study.hash, role=role)


def take_sum(place: ServerFolder, name: str, body: bytes) -> None:
    """Store an aggregator's opened sum; with both the study is released."""
    study, row = _shared_study(place, name)
    if row["state"] not in ("open", "closed", "released"):
        raise NotYet("Expected a study that was opened, and has not ended void.")
    role = _role_of(study, body)
    with place.database.writing() as rows:
        query = "SELECT role, body FROM sums WHERE study = ?"
        kept = {each["role"]: bytes(each["body"]) for each in rows.execute(query, (study.hash,))}
        if kept.get(role, body) != body:
            raise Refused("Expected the sum that was kept before: this one is another.")
        if role not in kept:
            rows.execute("INSERT INTO sums VALUES (?, ?, ?)", (study.hash, role, body))
            note(rows, place.now(), "opened", study=study.hash, role=role)
        kept[role] = body
        if set(kept) == set(AGGREGATORS) and row["release"] is None:
            stored = both_sums(study, *(kept[each] for each in AGGREGATORS))
            _release_sums(place, rows, study, stored)


def _role_of(study: Study, body: bytes) -> str:
    """Return the role whose pinned key signed a sum."""
    for role in AGGREGATORS:
        try:
            read_sum(study, role, body)
        except (InvalidArgument, Refused):
            continue
        return role
    raise Refused("Expected the sum of one of this study's aggregators.")


def _release_sums(place: ServerFolder, rows: Any, study: Study, stored: bytes) -> None:
    query = "UPDATE studies SET state = 'closed' WHERE hash = ? AND state = 'open'"
    rows.execute(query, (study.hash,))
    query = "UPDATE studies SET state = 'released', release = ? WHERE hash = ? AND state = 'closed'"
    if rows.execute(query, (stored, study.hash)).rowcount:
        note(rows, place.now(), "released", study=study.hash)


def take_void(place: ServerFolder, name: str, sent: Mapping[str, Any]) -> None:
    """End a study that an aggregator has ended without a sum."""
    study, _ = _shared_study(place, name)
    role = sent.get("role")
    if role not in AGGREGATORS:
        raise InvalidArgument("Expected a note of an aggregator.")
    plain = check_signed(study.server(str(role)).key, VOID, sent)
    if plain != {"study": study.hash, "role": role}:
        raise InvalidArgument("Expected a note on this study.")
    for state in ("open", "closed"):
        place.move(study.hash, state, "void", about={"role": role})
