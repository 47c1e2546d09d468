"""Between two aggregators: lists of shares, one locked sum each, then both are opened.

Lists of (site, sharing id) are exchanged and intersected; each draws its noise, stores its sum and
deletes its shares; only with the other's signed lock over the same sites is the stored sum shown. A
second, different note of the other one proves that it equivocates: it is refused and stored.
docs/theory/federation.md#a-sum-is-opened-once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from tacit.errors import BudgetExceeded, InvalidArgument, NotYet, Refused
from tacit.ledger import canonical
from tacit.noise import Shares
from tacit_federation.aggregator import HELD, LOCK, Aggregator
from tacit_federation.database import Row, alone, note
from tacit_federation.messages import (
    VOID,
    array_file,
    check_signed,
    is_sharing_id,
    read_note,
    read_parcel,
    signed_frame,
)
from tacit_federation.messages import signed as signed_note
from tacit_federation.study import AGGREGATORS, Study
from tacit_federation.sums import (
    SUM,
    Opened,
    check_share,
    most_of_sum,
    read_sum,
    share_of,
    signed_part,
)

MOST_NOTE = 4 << 20
"""Bytes of a list of who is held."""
KINDS = ("held", "lock", "sum")
ENDS = "void"
"""The note of an aggregator that ends a study without a sum."""
MOST_PROOFS = 3
"""Notes that contradict the first are kept up to here: one is proof enough."""
Pairs = list[list[str]]


def hash_of(pairs: Pairs) -> str:
    """Return the hash of a set of sites, for two aggregators to agree on."""
    return hashlib.sha256(canonical(sorted(pairs)).encode()).hexdigest()


def advance(place: Aggregator, name: str) -> str:
    """Take every step that this aggregator can take alone, under a lock; return the state."""
    with alone(place.folder / "locking.lock"):
        row = place.find(name)
        if row["state"] == "closed" and row["peer_held"] is not None:
            _lock(place, row)
            row = place.find(name)
        if row["state"] == "locked" and row["peer_lock"] is not None:
            _open(place, row)
            row = place.find(name)
        if row["state"] == "opened" and row["peer_sum"] is not None:
            place.move(row["hash"], "opened", "released")
    place.sweep()
    return str(place.find(name)["state"])


def _lock(place: Aggregator, row: Row) -> None:
    """Agree on the sites of the sum, pay, draw, and store sum and lock in one write."""
    study = Study.read(row["text"])
    if place.has_just_tried(study.hash):
        return
    mine, theirs = (json.loads(row[key])["held"] for key in ("held", "peer_held"))
    both = {(site, sharing) for site, sharing in theirs}
    pairs = sorted(pair for pair in mine if tuple(pair) in both)
    if not study.reached([site for site, _ in pairs]):
        place.move(study.hash, "closed", "void", about={"why": "no quorum of sites that both hold"})
        return
    total = _total(place, study, row["role"], pairs)
    warnings = place.warnings_of(study.hash)
    purpose = f"study {study.hash[:16]}: {study.title}"
    place.rehearse_write(study)
    place.tries_now(study.hash)
    try:
        with place.ledger.release(study.plan, purpose=purpose, faults=warnings) as grant:
            released = grant.release(total)
    except BudgetExceeded:
        place.move(study.hash, "closed", "void", about={"why": "no room in this ledger"})
        return
    assert released.shares is not None
    header: dict[str, Any] = {"study": study.hash, "role": row["role"], "survivors": pairs}
    header |= {"entry": released.entry, "warnings": warnings, "salt": secrets.token_hex(32)}
    stored = signed_frame(place.key, SUM, header, array_file(released.shares, "<u8"))
    locked: dict[str, Any] = {"study": study.hash, "role": row["role"]}
    locked |= {"survivors": hash_of(pairs), "sum": hashlib.sha256(stored).hexdigest()}
    lock = signed_note(place.key, LOCK, locked).decode()
    paid = {"entry": released.entry}
    written = {**paid, "survivors": canonical(pairs), "sum": stored, "lock": lock}
    place.move(study.hash, "closed", "locked", about=paid, columns=written)


def _total(place: Aggregator, study: Study, role: str, pairs: Pairs) -> Shares:
    """Add up the shares of these sites, each once, checked once more. Secret."""
    total = np.zeros(study.shape, dtype=np.uint64)
    for name, sharing in pairs:
        site = study.site(name)
        if site is None:
            raise Refused("Expected every survivor to be a site of the study.")
        header, payload = read_parcel(place.answers_of(study.hash, name, sharing))
        if check_share(study, site, role, header, payload) != sharing:
            raise Refused("Expected the share that was taken.")
        total += share_of(study, role, payload)  # mod 2^64
    return total


def _open(place: Aggregator, row: Row) -> None:
    """Show the sum from now on, if the other one has locked its own over the same sites."""
    mine, theirs = json.loads(row["lock"]), json.loads(row["peer_lock"])
    if mine["survivors"] != theirs["survivors"]:
        place.move(
            row["hash"], "locked", "void", about={"why": "the other aggregator locked other sites"}
        )
        return
    place.move(row["hash"], "locked", "opened")


def peer_of(role: str) -> str:
    """Return the other aggregator's role."""
    return AGGREGATORS[1 - AGGREGATORS.index(role)]


def take_note(place: Aggregator, name: str, kind: str, raw: bytes) -> None:
    """Store the other aggregator's note, once; a different second one is evidence.

    `Refused`, with nothing changed, if its key did not sign it.
    """
    study, row = place.open_study(name)
    if kind == ENDS:
        _take_end(place, study, row, raw)
        return
    if kind == "sum":
        _take_sum(place, study, row, raw)
        return
    text, column = _checked_note(study, row, kind, raw), f"peer_{kind}"
    with place.database.writing() as rows:
        query = f"SELECT state, {column} AS kept FROM studies WHERE hash = ?"
        found = rows.execute(query, (study.hash,)).fetchone()
        if found["kept"] is None and found["state"] != "void":
            rows.execute(f"UPDATE studies SET {column} = ? WHERE hash = ?", (text, study.hash))
        if found["kept"] in (None, text):
            return
    _accuse(place, study, kind, found["kept"], text)


def _take_sum(place: Aggregator, study: Study, row: Row, raw: bytes) -> None:
    """Store the sum that the other aggregator locked; another signed one is evidence."""
    if row["peer_lock"] is None or row["state"] not in ("opened", "released"):
        raise NotYet("Expected a sum after both were locked.")
    told: Opened = read_sum(study, peer_of(row["role"]), raw)
    lock = json.loads(row["peer_lock"])
    locked = (lock["sum"], lock["survivors"])
    if (hashlib.sha256(raw).hexdigest(), hash_of(told.pairs)) != locked:
        _accuse(place, study, "sum", row["peer_lock"], signed_part(raw))
    with place.database.writing() as rows:
        query = "UPDATE studies SET peer_sum = ? WHERE hash = ? AND peer_sum IS NULL"
        rows.execute(query, (raw, study.hash))


def _accuse(place: Aggregator, study: Study, kind: str, kept: str, another: str) -> NoReturn:
    """Store two contradicting signed notes, and refuse the second."""
    with place.database.writing() as rows:
        query = "SELECT COUNT(*) AS n FROM evidence WHERE study = ? AND kind = ?"
        if rows.execute(query, (study.hash, kind)).fetchone()["n"] < MOST_PROOFS:
            query = "INSERT OR IGNORE INTO evidence VALUES (?, ?, ?, ?)"
            if rows.execute(query, (study.hash, kind, kept, another)).rowcount:
                note(rows, place.now(), "equivocation", study=study.hash, kind=kind)
    raise Refused(f"Expected the {kind} that was signed before: this one is another, and is kept.")


def _take_end(place: Aggregator, study: Study, row: Row, raw: bytes) -> None:
    """End a study that the other aggregator has ended; an opened sum stays public."""
    peer = peer_of(row["role"])
    plain = check_signed(study.server(peer).key, VOID, read_note(raw))
    if plain != {"study": study.hash, "role": peer}:
        raise InvalidArgument("Expected a note on this study, of the other aggregator.")
    for state in ("open", "closed", "locked"):
        place.move(study.hash, state, "void", about={"why": "the other aggregator ended it"})
    place.sweep()


def _checked_note(study: Study, row: Row, kind: str, raw: bytes) -> str:
    peer = peer_of(row["role"])
    sent = read_note(raw, most=MOST_NOTE)
    plain = check_signed(study.server(peer).key, HELD if kind == "held" else LOCK, sent)
    if (plain.get("study"), plain.get("role")) != (study.hash, peer):
        raise InvalidArgument("Expected a note on this study, of the other aggregator.")
    if kind == "held" and not _is_held(study, plain):
        raise InvalidArgument("Expected a list of sites of this study and their sharing ids.")
    hashes = [plain.get(name) for name in ("survivors", "sum")]
    if kind == "lock" and not all(isinstance(one, str) and len(one) == 64 for one in hashes):
        raise InvalidArgument("Expected the hashes of sites and sum.")
    return raw.decode()


def _is_held(study: Study, plain: Mapping[str, Any]) -> bool:
    pairs = plain.get("held")
    if set(plain) != {"study", "role", "held"} or not isinstance(pairs, list):
        return False
    proper = all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and study.site(pair[0]) is not None
        and is_sharing_id(pair[1])
        for pair in pairs
    )
    return proper and len({pair[0] for pair in pairs}) == len(pairs)


def shown(place: Aggregator, name: str, kind: str) -> bytes:
    """Return this one's note for the other aggregator: `NotYet` before its time."""
    study, row = place.open_study(name)
    if kind == ENDS and row["state"] == "void":
        return signed_note(place.key, VOID, {"study": study.hash, "role": row["role"]})
    allowed = {
        ENDS: False,
        "held": row["held"] is not None,
        "lock": row["lock"] is not None,
        "sum": row["state"] in ("opened", "released"),
    }
    if not allowed[kind]:
        raise NotYet("Expected a study that has come that far here.")
    stored = row[kind]
    return stored.encode() if isinstance(stored, str) else bytes(stored)


def exchange(place: Aggregator, name: str) -> list[str]:
    """As the first aggregator, send and fetch what is due: lists, locks, sums; return what came."""
    said: list[str] = []
    for kind in KINDS:
        row = place.find(name)
        study = Study.read(row["text"])
        if row["role"] != AGGREGATORS[0] or row["state"] == "released":
            break
        if row["state"] == "void":
            return said + _tell_end(place, study, row)
        try:
            mine = shown(place, row["hash"], kind)
        except NotYet:
            break
        client = place.client(study.server(AGGREGATORS[1]).url)
        path = f"/studies/{study.hash}/{kind}"
        reply = client.ask("PUT", path, mine)
        if reply.status not in (200, 201):
            break
        got = client.ask("GET", path, most=most_of_sum(study) if kind == "sum" else MOST_NOTE)
        if got.status != 200:
            ended = client.ask("GET", f"/studies/{study.hash}/{ENDS}")
            if ended.status == 200:
                take_note(place, study.hash, ENDS, ended.body)
                said.append(f"{study.hash[:8]}: ended by the other aggregator")
            break
        take_note(place, study.hash, kind, got.body)
        state = advance(place, study.hash)
        said.append(f"{study.hash[:8]}: {kind} exchanged; {state}")
    return said


def _tell_end(place: Aggregator, study: Study, row: Row) -> list[str]:
    """Tell the second aggregator, once, that the first has ended a study."""
    if "end" in row["told"].split():
        return []
    client = place.client(study.server(AGGREGATORS[1]).url)
    note_of_end = shown(place, study.hash, ENDS)
    if client.ask("PUT", f"/studies/{study.hash}/{ENDS}", note_of_end).status != 201:
        return []
    with place.database.writing() as rows:
        query = "UPDATE studies SET told = told || 'end ' WHERE hash = ?"
        rows.execute(query, (study.hash,))
    return [f"{study.hash[:8]}: end told"]
