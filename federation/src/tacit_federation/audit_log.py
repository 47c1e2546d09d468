"""The audit log: what happened, in order, as a chain of hashes like the ledger's.

Lines say who enrolled, approved, answered (by sharing id), what was opened, closed and released,
the day, never the hour; never votes or digests. Polls carry the head, so that a server that goes
back to an earlier log is found out by every site.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tacit.errors import Refused
from tacit.ledger import canonical, digest
from tacit_federation.database import Database, append_only, tables

TABLES = tables("audit") + append_only("audit")
START = digest("tacit-audit/1")


class Head(NamedTuple):
    """How long a log is, and the hash of its last line."""

    length: int
    hash: str


def note(database: sqlite3.Connection, now: float, event: str, **about: Any) -> None:
    """Append a line, inside a transaction that does what the line says."""
    last = database.execute("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1")
    found = last.fetchone() or {"sequence": 0, "hash": START}
    line = canonical(
        {
            "sequence": found["sequence"] + 1,
            "previous": found["hash"],
            "day": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d"),
            "event": event,
            "about": about,
        }
    )
    row = (found["sequence"] + 1, line, digest(line))
    database.execute("INSERT INTO audit VALUES (?, ?, ?)", row)


def head(database: Database) -> Head:
    """Return where the log ends."""
    found = database.row("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1")
    return Head(0, START) if found is None else Head(found["sequence"], found["hash"])


def hash_at(database: Database, count: int) -> str | None:
    """Return the hash that the log had when it was that long; None if it never was."""
    if count == 0:
        return START
    found = database.row("SELECT hash FROM audit WHERE sequence = ?", count)
    return None if found is None else str(found["hash"])


def audit_lines(database: Database) -> list[str]:
    """Return every line of an audit log, once its chain was verified.

    Parameters
    ----------
    database : Database
        A coordinator's state.

    Returns
    -------
    list of str
        JSON, in order; a chain that does not hold raises `Refused`.
    """
    previous, found = START, database.rows("SELECT * FROM audit ORDER BY sequence")
    for place, row in enumerate(found, start=1):
        if row["sequence"] != place or digest(row["line"]) != row["hash"]:
            raise Refused("The audit log does not hold together: a line was altered or removed.")
        if f'"previous":"{previous}"' not in row["line"]:
            raise Refused("The audit log does not hold together: a line was altered or removed.")
        previous = row["hash"]
    return [row["line"] for row in found]
