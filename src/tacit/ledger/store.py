"""Where a ledger lives: one SQLite file, append-only, one writer at a time across processes.

A writer waits for its turn, takes the write lock (BEGIN IMMEDIATE), verifies under it the lines
behind the head that is remembered outside the database, or all of them where none is, and commits
with full synchronisation to a write-ahead log: after `append` returns, the entry survives a crash.
Readers never write; all that they may remove is a temporary name that a killed creation left. No
other code may open the file: closing any descriptor of it in this process would drop SQLite's
locks.

Connections are closed after each operation, so that the file alone is the whole ledger and can be
copied; only a burst of appends keeps its connection for a moment (`tacit.ledger.connections`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tacit._checks import refuse
from tacit._files import name_without_overwriting, remove_temporaries_of, sync, temporary_beside
from tacit.errors import LedgerDamaged, LedgerError, LedgerUnavailable
from tacit.ledger.chain import Chain, Entry, canonical, digest, read_json
from tacit.ledger.connections import Connections
from tacit.ledger.head_file import HeadFile, Remembered

Read = TypeVar("Read")
APPLICATION_ID = 0x74616369  # "taci"
SCHEMA_VERSION = 3
BUSY_SECONDS = 30.0

_TABLES = """
CREATE TABLE header (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    payload TEXT NOT NULL,
    hash TEXT NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    reserved_delta REAL NOT NULL DEFAULT 0
);
CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY CHECK (sequence > 0),
    payload TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    previous TEXT NOT NULL,
    time TEXT NOT NULL,
    purpose TEXT NOT NULL,
    cost REAL NOT NULL CHECK (cost >= 0),
    confidence_delta REAL NOT NULL DEFAULT 0,
    kind TEXT NOT NULL DEFAULT 'release'
);
"""
_COLUMNS = ("sequence", "hash", "previous", "time", "purpose", "cost", "confidence_delta", "kind")
_APPEND_ONLY = "".join(
    f"CREATE TRIGGER {table}_never_{action.lower()} BEFORE {action} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;\n"
    for table in ("header", "entries")
    for action in ("UPDATE", "DELETE")
)


MIGRATIONS: Mapping[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE header ADD COLUMN reserved_delta REAL NOT NULL DEFAULT 0",
        "ALTER TABLE entries ADD COLUMN confidence_delta REAL NOT NULL DEFAULT 0",
    ),
    2: ("ALTER TABLE entries ADD COLUMN kind TEXT NOT NULL DEFAULT 'release'",),
}
"""How to bring a file of an older schema one step forward. Lines of the chain stay as they are:
schema 1 has no reserve of delta, and what schemas 1 and 2 wrote are releases."""


class Store:
    """The file of one ledger."""

    __slots__ = ("_connections", "_head", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            # Resolved once: a later chdir or a moved link must not lead to another ledger.
            self.path = Path(os.path.realpath(os.fsdecode(path)))
        except (TypeError, ValueError):
            raise refuse("path", path, "the path of a ledger file") from None
        self._head = HeadFile(self.path)
        self._connections = Connections(self.path)

    def exists(self) -> bool:
        """Tell whether there is something at the path, ledger or not."""
        return os.path.lexists(self.path)

    def create(self, header: Mapping[str, Any]) -> None:
        """Create the ledger in one step, unless another process was faster."""
        # Beside the log of a ledger that was removed, SQLite would replay it.
        if not self._is_at_rest() and not self.exists():
            raise LedgerError(
                f"Expected no log beside the new ledger {str(self.path)!r}: a ledger of that name "
                "was removed while in use; put it back, or remove its -wal and -journal files."
            )
        if self._head.read() is not None and not self.exists():
            raise LedgerError(
                f"Expected {str(self.path)!r} to be a new ledger: {self._head.path.name!r} beside "
                "it remembers one of that name, which was moved or removed; put it back, choose "
                "another name, or remove that file as well."
            )
        with self._translated("create"), temporary_beside(self.path) as temporary:
            _build(temporary, canonical(header), header)
            sync(temporary, os.O_RDWR)
            name_without_overwriting(temporary, self.path)

    def read(self) -> Chain:
        """Read and verify pages and chain, without writing anything."""
        return self._at_rest_or_locked(_load)

    def read_end(self, *asked: str) -> Chain:
        """Read and verify the lines behind the remembered head, or all where none is remembered.

        `asked` are hashes of entries that may stand before them: those that do are in its `kinds`.
        """
        # Before the database: the head is written after the entry, so what it names is there.
        remembered = self._head.read()

        def read(database: sqlite3.Connection) -> Chain:
            self._check_size(database)
            return _load_end(database, remembered, asked)

        return self._at_rest_or_locked(read)

    def texts(self) -> list[str]:
        """Return the header and the lines as they were written, all of them verified."""
        return self._at_rest_or_locked(_texts)

    def _at_rest_or_locked(self, read: Callable[[sqlite3.Connection], Read]) -> Read:
        """Read from the file alone if no log waits to be merged, otherwise under locks.

        A database whose log is merged is read as an immutable file, which leaves no trace and works
        in a read-only directory. Should a writer come in between, it is read again under locks.
        """
        problem: LedgerError | None = None
        if self._is_at_rest():
            before = _stamp(self.path)
            try:
                found = self._read("mode=ro&immutable=1", read)
                if self._is_at_rest() and _stamp(self.path) == before:
                    return found
            except LedgerError as error:
                problem = error
        try:
            return self._read("mode=ro", read)
        except LedgerUnavailable as error:
            raise problem or error from None

    def _read(self, options: str, read: Callable[[sqlite3.Connection], Read]) -> Read:
        with self._connection(options, "read") as database:
            database.execute("BEGIN")
            return read(database)

    def append(
        self, draft: Callable[[Chain], Mapping[str, Any]], *asked: str, whole: bool = False
    ) -> Entry:
        """Append the line that `draft` makes of the verified end of the chain; durable on return.

        `asked` are hashes that `draft` looks for, as in `read_end`; with `whole` it is given all
        entries. Whatever `draft` raises is raised here, and nothing is written.
        """
        with self._head.turn(self._mode()) as turn, self._writing() as database:
            # Locked before the chain is read: nobody may append between a price and its entry.
            database.execute("BEGIN IMMEDIATE")
            try:
                self._check_size(database)
                _migrate(database)
                chain = _load_end(database, turn.remembered(), asked)
                if whole and chain.skipped:
                    chain = _load(database)
                entry = _insert(database, chain, chain.following(draft(chain)))
                database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
            # Only now: a head that ran ahead of the database would accuse it of a roll-back.
            turn.remember(Remembered(chain.genesis, entry.sequence, entry.hash))
        return entry

    def _check_size(self, database: sqlite3.Connection) -> None:
        """Refuse a file that was cut, also where the missing pages hold nothing that is read."""
        told = int(_pragma(database, "page_count")) * int(_pragma(database, "page_size"))
        # Asked second: as long as this reader looks at a log, nobody merges and removes it.
        if not self._is_at_rest():
            return  # the newest pages are in the log
        status = _status(self.path)
        if status is not None and status.st_size != told:
            raise LedgerDamaged("The ledger file was cut short; restore it from a copy.")

    def _mode(self) -> int:
        status = _status(self.path)
        return 0 if status is None else status.st_mode

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translated("write to"):
            self._refuse_wrong_file()
            with self._connections.lent(self._opened) as database:
                yield database

    def _opened(self) -> sqlite3.Connection:
        database = self._connected("mode=rw")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA fullfsync = ON")  # on macOS, fsync alone is not enough
        return database

    @contextlib.contextmanager
    def _connection(self, options: str, verb: str) -> Iterator[sqlite3.Connection]:
        with self._translated(verb):
            self._refuse_wrong_file()
            with contextlib.closing(self._connected(options)) as database:
                yield database

    def _connected(self, options: str) -> sqlite3.Connection:
        database = sqlite3.connect(
            f"{self.path.as_uri()}?{options}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # a kept connection is lent to one thread at a time
        )
        database.row_factory = _as_dict
        database.text_factory = _as_text
        return database

    def _refuse_wrong_file(self) -> None:
        """Refuse a directory, and a file with two names, each with its own log and lock.

        What is spent through one name would not be seen through the other.

        A file that is being created has a temporary name for a moment; if its process was killed
        just then, that name is removed here.
        """
        status = _status(self.path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise LedgerError(f"Expected {str(self.path)!r} to be a file: it is a directory.")
        if status is not None and status.st_nlink > 1:
            remove_temporaries_of(self.path)
            status = _status(self.path)
        if status is not None and status.st_nlink > 1:
            raise LedgerError(
                f"Expected the ledger {str(self.path)!r} to have one name: it has a hard link, and "
                "what is spent through one name is not seen through the other; remove the link."
            )

    @contextlib.contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise _translate(error, self.path, verb) from error

    def _is_at_rest(self) -> bool:
        """Tell whether no log waits to be merged: then the file alone is the whole ledger."""
        logs = (_status(f"{self.path}{end}") for end in ("-wal", "-journal"))
        return all(log is None or log.st_size == 0 for log in logs)


def _status(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:  # whoever opens it will say what is wrong
        return None


def _stamp(path: Path) -> tuple[int, ...]:
    """Return enough of a file's status to notice that somebody wrote to it."""
    status = _status(path)
    return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _as_text(raw: bytes) -> str:
    """Decode what was written; damaged bytes change the text, and so fail its hash."""
    return raw.decode("utf-8", "replace")


def _build(path: Path, text: str, header: Mapping[str, Any]) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")  # synchronised once, before it gets its name
        database.executescript(_TABLES + _APPEND_ONLY)
        database.execute(
            "INSERT INTO header VALUES (1, ?, ?, ?, ?, ?)",
            (text, digest(text), header["epsilon"], header["delta"], header["reserved_delta"]),
        )
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        database.execute("PRAGMA journal_mode = WAL")


def _migrate(database: sqlite3.Connection) -> None:
    """Bring an older file to this schema, inside the transaction that goes on to append."""
    version = _schema_version(database)
    while version < SCHEMA_VERSION:
        for step in MIGRATIONS[version]:
            database.execute(step)
        version += 1
        database.execute(f"PRAGMA user_version = {version}")


def _schema_version(database: sqlite3.Connection) -> int:
    """Return the file's schema version; refuse a file of another program or of a newer tacit."""
    version = int(_pragma(database, "user_version"))
    if _pragma(database, "schema_version") == 0:
        raise LedgerDamaged("Expected a ledger, got an empty file; restore it from a copy.")
    if _pragma(database, "application_id") != APPLICATION_ID:
        raise LedgerError("Expected a ledger, got the SQLite database of another program.")
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"Expected a ledger of schema {SCHEMA_VERSION} or older, got schema {version}; "
            "upgrade tacit."
        )
    if version not in (*MIGRATIONS, SCHEMA_VERSION):
        raise LedgerError(f"Expected a ledger of a known schema, got schema {version}.")
    return version


def _pragma(database: sqlite3.Connection, name: str) -> Any:
    return database.execute(f"PRAGMA {name}").fetchone()[name]


def _load(database: sqlite3.Connection) -> Chain:
    _schema_version(database)
    _check_pages(database)
    entries = _rows(database, "SELECT * FROM entries ORDER BY sequence", _ENTRY)
    return Chain.verified(_header(database), entries)


def _load_end(
    database: sqlite3.Connection, remembered: Remembered | None, asked: tuple[str, ...]
) -> Chain:
    """Verify what stands behind the remembered entry, whose own line states the totals up to it.

    Everything is read where that would not tell enough: a fixed list counts its entries, and so
    does a ledger whose entries cost nothing yet; a note of begun steps behind a head that lags is
    about a release that may stand before it.
    """
    _schema_version(database)
    chain = None if remembered is None else _from_remembered(database, remembered)
    if chain is None or chain.header.get("accountant") == "fixed" or not chain.totals.cost:
        return _load(database)
    query = "SELECT * FROM entries WHERE sequence > ? ORDER BY sequence"
    behind = _rows(database, query, _ENTRY, chain.length).fetchall()
    if any(row.get("kind") == "began" for row in behind):
        return _load(database)
    for row in behind:
        chain.append(row)
    for text_hash in set(asked) - set(chain.kinds):
        for row in _rows(database, "SELECT * FROM entries WHERE hash = ?", _ENTRY, text_hash):
            chain.know(row)
    return chain


def _from_remembered(database: sqlite3.Connection, remembered: Remembered) -> Chain | None:
    chain = Chain.verified(_header(database), ())
    found = "SELECT * FROM entries WHERE sequence = ?"
    rows = _rows(database, found, _ENTRY, remembered.sequence).fetchall()
    if chain.genesis != remembered.genesis or not rows:
        raise LedgerDamaged(
            f"Expected the ledger to hold entry {remembered.sequence}, which its -head file "
            "remembers: it was rolled back, cut short or exchanged. Put the newer file back; what "
            "was spent since cannot be known from this one."
        )
    return chain.beginning_at(rows[0], remembered.sequence, remembered.hash)


def _header(database: sqlite3.Connection) -> dict[str, Any]:
    header = _rows(database, "SELECT * FROM header", {"payload", "hash"}).fetchall()
    if len(header) != 1:
        raise LedgerDamaged("Expected one header in the ledger; restore it from a copy.")
    return dict(header[0])


def _texts(database: sqlite3.Connection) -> list[str]:
    _load(database)
    lines = database.execute("SELECT payload FROM entries ORDER BY sequence").fetchall()
    return [row["payload"] for row in (*database.execute("SELECT payload FROM header"), *lines)]


_ENTRY = {"payload", "hash", "sequence"}


def _rows(
    database: sqlite3.Connection, query: str, needed: set[str], *asked: str | int
) -> sqlite3.Cursor:
    """Ask for rows, which must have these columns: damage may change the names as well."""
    try:
        rows = database.execute(query, asked)
        if needed <= {column[0] for column in rows.description}:
            return rows
    except UnicodeDecodeError:  # in a name, which no text factory reads
        pass
    raise LedgerDamaged("Expected the ledger's tables as tacit makes them; restore it from a copy.")


def _insert(database: sqlite3.Connection, chain: Chain, text: str) -> Entry:
    """Write the line, having read it as every later reader will."""
    entry = Entry.read(read_json(text), digest(text))
    if not chain.takes(entry):
        raise LedgerError("Expected a line that continues the ledger. Nothing was written.")
    row = {"payload": text, **{name: getattr(entry, name) for name in _COLUMNS}}
    marks = ", ".join(f":{name}" for name in row)
    database.execute(f"INSERT INTO entries ({', '.join(row)}) VALUES ({marks})", row)
    return entry


def _check_pages(database: sqlite3.Connection) -> None:
    try:
        problem = database.execute("PRAGMA integrity_check(1)").fetchone()["integrity_check"]
    except UnicodeDecodeError:  # in a name, which no text factory reads
        problem = "a name is not text"
    if problem != "ok":
        raise LedgerDamaged("The pages of the ledger file do not agree; restore it from a copy.")


def _translate(error: sqlite3.Error | OSError, path: Path, verb: str) -> LedgerError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return LedgerError(f"Expected {str(path)!r} to be a ledger: it is not a SQLite database.")
    if code == sqlite3.SQLITE_CORRUPT or (
        isinstance(error, sqlite3.Error) and code == sqlite3.SQLITE_ERROR
    ):
        return LedgerDamaged(
            f"The ledger {str(path)!r} is damaged ({error}); restore it from a copy."
        )
    return LedgerUnavailable(
        f"Cannot {verb} the ledger {str(path)!r} ({error}): check that its directory exists, can "
        "be written and has space, and that no other process holds it. Nothing was released."
    )
