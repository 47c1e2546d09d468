"""Reading a ledger's tables, verified as far as needed.

A statement reads everything. A price reads the lines from the remembered head on, whose totals
count all before it; other needs (paid entries, begun steps) read from a line verified before.
docs/theory/ledger.md#what-is-checked-when.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from tacit.errors import LedgerDamaged
from tacit.ledger.chain import ABOUT_AN_ENTRY, Chain, Entry, read_json
from tacit.ledger.head_file import Remembered
from tacit.ledger.schema import INDEX_CHARGES, STUDY, checked_version

Found = TypeVar("Found")

_ENTRY = {"payload", "hash", "sequence"}
_ALL = "SELECT * FROM entries ORDER BY sequence"
_CHARGED = f"SELECT 1 FROM entries WHERE kind = 'charge' AND {STUDY} = ?"


class Seen(NamedTuple):
    """A line that this process verified: number, hash, and paid entries up to it, if known."""

    sequence: int
    hash: str
    paid: int | None


class Wanted(NamedTuple):
    """What the end of a chain must have: `seen`, all lines behind `since`, kinds of `also`."""

    seen: Seen | None = None
    since: Seen | None = None
    also: tuple[str, ...] = ()


TOTALS = Wanted()
"""Nothing beside the totals."""


def load(database: sqlite3.Connection, remembered: Remembered | None) -> Chain:
    """Read and verify everything, pages included, and that it holds the remembered end."""
    checked_version(database)
    _check_pages(database)
    chain = Chain.verified(_header(database), _rows(database, _ALL))
    _check_holds(chain, remembered)
    return chain


def walk(
    database: sqlite3.Connection,
    remembered: Remembered | None,
    wanted: Iterable[str],
    collect: Callable[[Iterator[Entry]], Found],
) -> tuple[Chain, Found]:
    """Verify everything as `load` does, one entry in memory at a time, which `collect` reads.

    The returned chain has its last entry alone, and knows the `wanted` hashes it holds.
    """
    checked_version(database)
    _check_pages(database)
    chain = Chain.verified(_header(database), ())
    ends = () if remembered is None else (remembered.hash,)
    entries = _one_by_one(database, chain, (*wanted, *ends))
    found = collect(entries)
    for _ in entries:  # what nobody looked at is verified as well
        pass
    _check_holds(chain, remembered)
    return chain, found


def _one_by_one(
    database: sqlite3.Connection, chain: Chain, wanted: tuple[str, ...]
) -> Iterator[Entry]:
    for row in _rows(database, _ALL):
        _look_up(database, chain, _subjects([row]))
        chain.append(row)
        yield chain.entries[-1]
        chain.forget(wanted)


def load_end(
    database: sqlite3.Connection, remembered: Remembered | None, wanted: Wanted = TOTALS
) -> Chain:
    """Verify what stands behind the remembered entry, whose own line has the totals up to it.

    Where that is too little, read from what is `wanted` (a fixed list counts its entries, as does a
    ledger without paid entries yet), or everything. The caller has checked the schema's version.
    """
    chain = None if remembered is None else _from_remembered(database, remembered)
    if chain is not None and wanted.since is not None:
        chain = _from_seen(database, chain, wanted.since)
    elif chain is not None and _must_count(chain):
        counted = wanted.seen is not None and wanted.seen.paid is not None
        chain = _from_seen(database, chain, wanted.seen) if counted else None
    if chain is None or remembered is None:
        return load(database, remembered)
    query = "SELECT * FROM entries WHERE sequence > ? ORDER BY sequence"
    behind = _rows(database, query, chain.length).fetchall()
    _look_up(database, chain, (*_subjects(behind), *wanted.also))
    for row in behind:
        chain.append(row)
    if wanted.seen is not None:
        _look_up(database, chain, [wanted.seen.hash])
    if chain.skipped < remembered.sequence:
        _check_holds(chain, remembered)
    return chain


def _must_count(chain: Chain) -> bool:
    return chain.header.get("accountant") == "fixed" or not chain.totals.cost


def _from_remembered(database: sqlite3.Connection, remembered: Remembered) -> Chain | None:
    chain = Chain.verified(_header(database), ())
    rows = _at(database, remembered.sequence)
    if chain.genesis != remembered.genesis or not rows:
        raise _not_held(remembered)
    return chain.beginning_at(rows[0], remembered.sequence, remembered.hash)


def _from_seen(database: sqlite3.Connection, chain: Chain, seen: Seen | None) -> Chain | None:
    """Begin at a line that was seen before; None if it is not there any more."""
    rows = [] if seen is None else _at(database, seen.sequence)
    if seen is None or not rows or rows[0]["hash"] != seen.hash:
        return None  # whoever reads everything says what is wrong
    return chain.beginning_at(rows[0], seen.sequence, seen.hash, paid=seen.paid)


def _at(database: sqlite3.Connection, sequence: int) -> list[dict[str, Any]]:
    return _rows(database, "SELECT * FROM entries WHERE sequence = ?", sequence).fetchall()


def _subjects(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the entries that notes refer to: they may stand before these rows."""
    notes = (read_json(row["payload"]) for row in rows if row.get("kind") in ABOUT_AN_ENTRY)
    subjects = (note["about"].get("entry") for note in notes if isinstance(note.get("about"), dict))
    return [subject for subject in subjects if isinstance(subject, str)]


def _look_up(database: sqlite3.Connection, chain: Chain, hashes: Iterable[str]) -> None:
    """Take note of entries that stand before those that were read."""
    for text_hash in set(hashes) - set(chain.kinds):
        query = "SELECT * FROM entries WHERE hash = ? AND sequence <= ?"
        for row in _rows(database, query, text_hash, chain.skipped):
            chain.know(row)


def _check_holds(chain: Chain, remembered: Remembered | None) -> None:
    if remembered is None:
        return
    if chain.genesis != remembered.genesis or not chain.holds(remembered.hash):
        raise _not_held(remembered)


def _not_held(remembered: Remembered) -> LedgerDamaged:
    return LedgerDamaged(
        f"Expected the ledger to hold entry {remembered.sequence}, which its -head file "
        "remembers: it was rolled back, cut short or exchanged. Put the newer file back; what "
        "was spent since cannot be known from this one."
    )


def load_since(
    database: sqlite3.Connection, remembered: Remembered | None, head: str, seen: Seen
) -> Chain:
    """Verify from the entry of this hash on; everything where it is not there, or the header's."""
    rows = _rows(database, "SELECT * FROM entries WHERE hash = ?", head).fetchall()
    if not rows:
        return load(database, remembered)
    since = Seen(rows[0]["sequence"], head, None)
    return load_end(database, remembered, Wanted(seen, since))


def may_be_charged(database: sqlite3.Connection, study: str) -> bool:
    """Whether an index lists an entry that charged for a study; only reading all entries is sure.

    The index is unverified; a wrong "no" means that the study is paid for twice, never less.
    """
    try:
        database.execute(INDEX_CHARGES)
        return database.execute(_CHARGED, (study,)).fetchone() is not None
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no JSON here, or none in a line
            return True
        raise


def _header(database: sqlite3.Connection) -> dict[str, Any]:
    header = _rows(database, "SELECT * FROM header", needed={"payload", "hash"}).fetchall()
    if len(header) != 1:
        raise LedgerDamaged("Expected one header in the ledger; restore it from a copy.")
    return dict(header[0])


def texts(database: sqlite3.Connection, remembered: Remembered | None) -> list[str]:
    """Return the header and the lines as they were written, all of them verified."""
    load(database, remembered)
    lines = database.execute("SELECT payload FROM entries ORDER BY sequence").fetchall()
    return [row["payload"] for row in (*database.execute("SELECT payload FROM header"), *lines)]


def _rows(
    database: sqlite3.Connection, query: str, *asked: str | int, needed: set[str] = _ENTRY
) -> sqlite3.Cursor:
    """Query rows, which must have these columns: damage may change the names as well."""
    try:
        rows = database.execute(query, asked)
        if needed <= {column[0] for column in rows.description}:
            return rows
    except UnicodeDecodeError:  # in a name, which no text factory reads
        pass
    raise LedgerDamaged("Expected the ledger's tables as tacit makes them; restore it from a copy.")


def _check_pages(database: sqlite3.Connection) -> None:
    try:
        problem = database.execute("PRAGMA integrity_check(1)").fetchone()["integrity_check"]
    except UnicodeDecodeError:  # in a name, which no text factory reads
        problem = "a name is not text"
    if problem != "ok":
        raise LedgerDamaged("The pages of the ledger file do not agree; restore it from a copy.")
