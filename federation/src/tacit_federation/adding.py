"""A coordinator's part where two aggregators add: their signatures, their sums, one release.

It learns nothing that is not public: two sums that both aggregators have opened. It can refuse
service, and nothing else: whoever reads the release checks both signatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.errors import InvalidArgument, NotYet, Refused
from tacit_federation.audit_log import note
from tacit_federation.database import Row
from tacit_federation.exchanging import VOID
from tacit_federation.keys import check_signature
from tacit_federation.messages import check_signed
from tacit_federation.server_folder import ServerFolder
from tacit_federation.study import AGGREGATORS, SIGNED_AS, Study
from tacit_federation.sums import both_sums, read_sum


def _found(place: ServerFolder, name: str) -> tuple[Study, Row]:
    row = place.database.row("SELECT * FROM studies WHERE hash = ?", name)
    if row is None or row["state"] == "draft":
        raise InvalidArgument("Expected the hash of a study that was signed here.")
    study = Study.read(row["text"])
    if study.mode != "two-aggregators":
        raise InvalidArgument("Expected a study of two aggregators.")
    return study, row


def keep_agreement(place: ServerFolder, name: str, sent: Mapping[str, Any]) -> None:
    """Keep an aggregator's signature under a study; it must be the pinned key's."""
    study, _ = _found(place, name)
    role = sent.get("role")
    if set(sent) != {"role", "signature"} or role not in AGGREGATORS:
        raise InvalidArgument("Expected role and signature of an aggregator.")
    check_signature(study.server(str(role)).key, SIGNED_AS, study.hash, sent["signature"])
    with place.database.writing() as rows:
        new = (study.hash, role, sent["signature"])
        if rows.execute("INSERT OR IGNORE INTO agreed VALUES (?, ?, ?)", new).rowcount:
            note(rows, place.now(), "agreed", study=study.hash, role=role)


def take_sum(place: ServerFolder, name: str, body: bytes) -> None:
    """Keep an aggregator's opened sum; once both are here, the study is released."""
    study, row = _found(place, name)
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
            _release(place, rows, study, both_sums(study, *(kept[each] for each in AGGREGATORS)))


def _role_of(study: Study, body: bytes) -> str:
    """Return whose sum it is: signed by that one's pinned key."""
    for role in AGGREGATORS:
        try:
            read_sum(study, role, body)
        except (InvalidArgument, Refused):
            continue
        return role
    raise Refused("Expected the sum of one of this study's aggregators.")


def _release(place: ServerFolder, rows: Any, study: Study, stored: bytes) -> None:
    query = "UPDATE studies SET state = 'closed' WHERE hash = ? AND state = 'open'"
    rows.execute(query, (study.hash,))
    query = "UPDATE studies SET state = 'released', release = ? WHERE hash = ? AND state = 'closed'"
    if rows.execute(query, (stored, study.hash)).rowcount:
        note(rows, place.now(), "released", study=study.hash)


def take_void(place: ServerFolder, name: str, sent: Mapping[str, Any]) -> None:
    """End a study that an aggregator has ended without a sum."""
    study, _ = _found(place, name)
    role = sent.get("role")
    if role not in AGGREGATORS:
        raise InvalidArgument("Expected a note of an aggregator.")
    plain = check_signed(study.server(str(role)).key, VOID, sent)
    if plain != {"study": study.hash, "role": role}:
        raise InvalidArgument("Expected a note on this study.")
    for state in ("open", "closed"):
        place.move(study.hash, state, "void", about={"role": role})
