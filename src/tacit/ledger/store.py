"""Storage of a ledger: one SQLite file, append-only, one writer at a time across processes.

A writer takes its turn and the write lock (BEGIN IMMEDIATE), verifies under it the lines behind the
remembered head, or all of them, and commits with full synchronisation to a write-ahead log: after
`append` returns, the entry survives a crash. Readers never write, but for removing a temporary name
that a killed creation left. No other code may open the file: closing any descriptor of it in this
process would drop SQLite's locks. Bursts: `tacit.ledger.connections`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tacit._checks import refuse
from tacit._files import name_without_overwriting, remove_temporaries_of, sync, temporary_beside
from tacit.errors import LedgerDamaged, LedgerError, LedgerUnavailable
from tacit.ledger import reading
from tacit.ledger.chain import Chain, Entry, canonical, digest, read_json
from tacit.ledger.connections import Connections
from tacit.ledger.head_file import HeadFile, Remembered
from tacit.ledger.reading import TOTALS, Seen, Wanted
from tacit.ledger.schema import (
    APPLICATION_ID,
    CREATE,
    MIGRATIONS,
    SCHEMA_VERSION,
    checked_version,
    pragma,
)

Read = TypeVar("Read")
BUSY_SECONDS = 30.0

_COLUMNS = ("sequence", "hash", "previous", "time", "purpose", "cost", "confidence_delta", "kind")


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
        """Whether there is something at the path, ledger or not."""
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
        remembered = self._head.read()  # before the database, as in `_read_from`
        return self._at_rest_or_locked(lambda base: reading.load(base, remembered))

    def walk(
        self, wanted: Iterable[str], collect: Callable[[Iterator[Entry]], Read]
    ) -> tuple[Chain, Read]:
        """Read and verify everything, one entry in memory at a time, which `collect` reads."""
        remembered = self._head.read()
        return self._at_rest_or_locked(lambda base: reading.walk(base, remembered, wanted, collect))

    def read_end(self, wanted: Wanted = TOTALS) -> Chain:
        """Read and verify the lines behind the remembered head, or as many as are wanted."""
        return self._read_from(lambda base, head: reading.load_end(base, head, wanted))

    def read_since(self, head: str, seen: Seen) -> Chain:
        """Read and verify the lines from the entry of this hash on, or all if it is not there."""
        return self._read_from(lambda base, end: reading.load_since(base, end, head, seen))

    def _read_from(self, load: Callable[[sqlite3.Connection, Remembered | None], Chain]) -> Chain:
        # Before the database: the head is written after the entry, so what it names is there.
        remembered = self._head.read()

        def read(database: sqlite3.Connection) -> Chain:
            self._check_size(database)
            checked_version(database)
            return load(database, remembered)

        with self._translated("read"):
            self._refuse_wrong_file()
            found = self._connections.read(read)
        return self._at_rest_or_locked(read) if found is None else found

    def texts(self) -> list[str]:
        """Return the header and the lines as they were written, all of them verified."""
        remembered = self._head.read()
        return self._at_rest_or_locked(lambda base: reading.texts(base, remembered))

    def _at_rest_or_locked(self, read: Callable[[sqlite3.Connection], Read]) -> Read:
        """Read the file as immutable, without a trace, if no log waits to be merged."""
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
        self,
        draft: Callable[[Chain], Mapping[str, Any]],
        wanted: Wanted = TOTALS,
        *,
        study: str | None = None,
    ) -> Entry:
        """Append the line that `draft` makes of the verified end of the chain; durable on return.

        `draft` gets as much as is `wanted`, and all entries where one may have charged for the
        `study`. What it raises is raised here, with nothing written.
        """
        with self._head.turn(self._mode()) as turn, self._writing(turn.waited) as database:
            # Locked before the chain is read: nobody may append between a price and its entry.
            database.execute("BEGIN IMMEDIATE")
            try:
                if self._is_at_rest():  # and stays so: nobody else writes now
                    self._check_size(database)
                _migrate(database)
                remembered = turn.remembered()
                if study is not None and reading.may_be_charged(database, study):
                    chain = reading.load(database, remembered)
                else:
                    chain = reading.load_end(database, remembered, wanted)
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
        pages = pragma(database, "page_count")
        told = int(pages) * int(pragma(database, "page_size"))
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
    def _writing(self, crowded: bool) -> Iterator[sqlite3.Connection]:
        with self._translated("write to"):
            self._refuse_wrong_file()
            with self._connections.lent(self._opened, crowded=crowded) as database:
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
        """Refuse a directory, and a file with two names: each has its own log and lock.

        What is spent through one name would not be seen through the other. The temporary name of a
        killed creation is removed.
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
        except UnicodeDecodeError:  # a damaged name, in what SQLite says of it
            raise LedgerDamaged(
                f"The ledger {str(self.path)!r} is damaged; restore it from a copy."
            ) from None

    def _is_at_rest(self) -> bool:
        """Whether no log waits to be merged: then the file alone is the whole ledger."""
        logs = (_status(f"{self.path}{end}") for end in ("-wal", "-journal"))
        return all(log is None or log.st_size == 0 for log in logs)


def _status(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:  # whoever opens it will say what is wrong
        return None


def _stamp(path: Path) -> tuple[int, ...]:
    """Return enough of a file's status to notice a write."""
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
        database.executescript(CREATE)
        database.execute(
            "INSERT INTO header VALUES (1, ?, ?, ?, ?, ?)",
            (text, digest(text), header["epsilon"], header["delta"], header["reserved_delta"]),
        )
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        database.execute("PRAGMA journal_mode = WAL")


def _migrate(database: sqlite3.Connection) -> None:
    """Migrate an older file to this schema, inside the transaction of the append."""
    version = checked_version(database)
    while version < SCHEMA_VERSION:
        for step in MIGRATIONS[version]:
            database.execute(step)
        version += 1
        database.execute(f"PRAGMA user_version = {version}")


def _insert(database: sqlite3.Connection, chain: Chain, text: str) -> Entry:
    """Write the line, having read it as every later reader will."""
    entry = Entry.read(read_json(text), digest(text))
    if not chain.takes(entry):
        raise LedgerError("Expected a line that continues the ledger. Nothing was written.")
    row = {"payload": text, **{name: getattr(entry, name) for name in _COLUMNS}}
    marks = ", ".join(f":{name}" for name in row)
    database.execute(f"INSERT INTO entries ({', '.join(row)}) VALUES ({marks})", row)
    # Read back before it is committed, under the write lock: whatever swallows or changes a line
    # does so within the insert, and then nothing is written at all.
    behind = "SELECT * FROM entries WHERE sequence >= ?"
    if database.execute(behind, (entry.sequence,)).fetchall() != [row]:
        raise LedgerDamaged(
            "Expected the ledger to keep the entry that was written to it: its file does not. "
            "Nothing was released; restore it from a copy."
        )
    return entry


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
