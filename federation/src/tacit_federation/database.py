"""Persistent state: one SQLite file, one writer at a time, every step on disk before the next.

Write-ahead log, full synchronisation; triggers refuse changes of final rows. The audit log is a
table, chained by hashes like the ledger: who enrolled, approved, answered (by sharing id), what was
opened, closed and released, the day, never the hour; never votes or digests. Polls carry its head,
so that every site detects a server that was rolled back.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tacit._files import locked
from tacit.errors import InvalidArgument, Refused, TacitError
from tacit.ledger import canonical, digest

Row = dict[str, Any]
Connection = sqlite3.Connection
_BUSY_SECONDS = 30.0


class StateUnavailable(TacitError):
    """A party's state cannot be read or written: check its folder and the disk."""


def tables(name: str) -> str:
    """Return the SQL of `tables/NAME.sql` beside this module."""
    return (Path(__file__).with_name("tables") / f"{name}.sql").read_text(encoding="utf-8")


def write_once(table: str, *columns: str) -> str:
    """Return triggers that refuse to change columns once they are set."""
    return "".join(
        f"CREATE TRIGGER IF NOT EXISTS {table}_{column}_once BEFORE UPDATE OF {column} ON {table} "
        f"WHEN OLD.{column} IS NOT NULL AND OLD.{column} IS NOT NEW.{column} "
        f"BEGIN SELECT RAISE(ABORT, '{table}.{column} is written once'); END;\n"
        for column in columns
    )


def append_only(*names: str) -> str:
    """Return triggers that refuse to change or delete a row of these tables."""
    return "".join(
        f"CREATE TRIGGER IF NOT EXISTS {table}_never_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;\n"
        for table in names
        for verb in ("UPDATE", "DELETE")
    )


def forward(table: str, order: dict[str, tuple[str, ...]]) -> str:
    """Return a trigger that allows only the listed transitions of a state."""
    allowed = " OR ".join(
        f"(OLD.state = '{old}' AND NEW.state IN ({', '.join(repr(new) for new in news)}))"
        for old, news in order.items()
        if news
    )
    return (
        f"CREATE TRIGGER IF NOT EXISTS {table}_forward BEFORE UPDATE OF state ON {table} "
        f"WHEN OLD.state <> NEW.state AND NOT ({allowed}) "
        f"BEGIN SELECT RAISE(ABORT, '{table}.state never goes back'); END;\n"
    )


class Database:
    """One file of state; safe between threads and between processes."""

    def __init__(self, path: Path, tables: str, *, version: int = 1) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._process = os.getpid()
        new = not path.exists()
        self._connection = self._open()
        with on_disk(self.path):
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            if new:
                path.chmod(0o600)
            with self.writing() as database:
                found = int(database.execute("PRAGMA user_version").fetchone()["user_version"])
                if found not in (0, version):
                    raise InvalidArgument(
                        f"Expected state of version {version}, got {found}; upgrade tacit."
                    )
                if found == 0:
                    for statement in _statements(tables):
                        database.execute(statement)
                    database.execute(f"PRAGMA user_version = {version}")

    def _open(self) -> sqlite3.Connection:
        with on_disk(self.path):
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = _as_row
            return connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection inside one synchronised transaction."""
        with self._lock, on_disk(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[Row]:
        """Return rows of one query."""
        with self._lock, on_disk(self.path):
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> Row | None:
        """Return the first row of a query, or None."""
        found = self.rows(query, *values)
        return found[0] if found else None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn disk errors into one line."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StateUnavailable(
            f"Cannot use the state in {str(path)!r} ({error}): check its folder, its "
            "permissions and the disk. Nothing was done."
        ) from error


@contextmanager
def new_folder(place: Path) -> Iterator[None]:
    """Create a party's folder, which must be new or empty; undo it if that fails."""
    if place.exists() and any(place.iterdir()):
        raise InvalidArgument(f"Expected {str(place)!r} to be new or empty.")
    try:
        with on_disk(place):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o700)
            yield
    except BaseException:
        for made in place.iterdir() if place.exists() else ():
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        raise


def alone(path: Path) -> AbstractContextManager[None]:
    """Wait for the exclusive lock of this file, between threads and processes."""
    return locked(path, os.O_RDWR | os.O_CREAT)


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements; triggers contain semicolons."""
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""


def _as_row(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


AUDIT_TABLES = tables("audit") + append_only("audit")
AUDIT_START = digest("tacit-audit/1")


class Head(NamedTuple):
    """Length of a log, and the hash of its last line."""

    length: int
    hash: str


def note(database: sqlite3.Connection, now: float, event: str, **about: Any) -> None:
    """Append a line, inside the transaction of the event that it records."""
    last = database.execute("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1")
    found = last.fetchone() or {"sequence": 0, "hash": AUDIT_START}
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


def log_head(database: Database) -> Head:
    """Return where the log ends."""
    found = database.row("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1")
    return Head(0, AUDIT_START) if found is None else Head(found["sequence"], found["hash"])


def log_hash_at(database: Database, count: int) -> str | None:
    """Return the hash that the log had at this length, or None."""
    if count == 0:
        return AUDIT_START
    found = database.row("SELECT hash FROM audit WHERE sequence = ?", count)
    return None if found is None else str(found["hash"])


def audit_lines(database: Database) -> list[str]:
    """Return every line of an audit log, after verifying its chain.

    Parameters
    ----------
    database : Database, a coordinator's state

    Returns
    -------
    list of JSON str, in order; a broken chain raises `Refused`
    """
    previous, found = AUDIT_START, database.rows("SELECT * FROM audit ORDER BY sequence")
    for place, row in enumerate(found, start=1):
        if row["sequence"] != place or digest(row["line"]) != row["hash"]:
            raise Refused("The audit log does not hold together: a line was altered or removed.")
        if f'"previous":"{previous}"' not in row["line"]:
            raise Refused("The audit log does not hold together: a line was altered or removed.")
        previous = row["hash"]
    return [row["line"] for row in found]
