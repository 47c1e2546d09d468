"""The SQLite schema of a ledger's file: tables, indexes and triggers, by their text.

A trigger that swallows an insert, a unique index or a view in place of a table would let a release
out unpaid. So every read and every append refuses a file whose schema is not tacit's own, word for
word; a file migrated from an older schema reads as a new one.
"""

from __future__ import annotations

import functools
import json
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from tacit.errors import LedgerDamaged, LedgerError

APPLICATION_ID = 0x74616369  # "taci"
SCHEMA_VERSION = 3
MIGRATIONS: Mapping[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE header ADD COLUMN reserved_delta REAL NOT NULL DEFAULT 0",
        "ALTER TABLE entries ADD COLUMN confidence_delta REAL NOT NULL DEFAULT 0",
    ),
    2: ("ALTER TABLE entries ADD COLUMN kind TEXT NOT NULL DEFAULT 'release'",),
}
"""How to bring a file of an older schema one step forward. Lines of the chain stay as they are:
schema 1 has no reserve of delta, and what schemas 1 and 2 wrote are releases."""
_TABLES = {
    "header": """CREATE TABLE header (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    payload TEXT NOT NULL,
    hash TEXT NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    reserved_delta REAL NOT NULL DEFAULT 0
)""",
    "entries": """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY CHECK (sequence > 0),
    payload TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    previous TEXT NOT NULL,
    time TEXT NOT NULL,
    purpose TEXT NOT NULL,
    cost REAL NOT NULL CHECK (cost >= 0),
    confidence_delta REAL NOT NULL DEFAULT 0,
    kind TEXT NOT NULL DEFAULT 'release'
)""",
}
_GUARDS = {
    f"{table}_never_{action.lower()}": (
        f"CREATE TRIGGER {table}_never_{action.lower()} BEFORE {action} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    )
    for table in _TABLES
    for action in ("UPDATE", "DELETE")
}
CREATE = ";\n".join((*_TABLES.values(), *_GUARDS.values())) + ";\n"
"""Makes tables and triggers of a new ledger."""
STUDY = "json_extract(payload, '$.about.study')"
_CHARGES = f"CREATE INDEX charges ON entries ({STUDY}) WHERE kind = 'charge'"
INDEX_CHARGES = _CHARGES.replace("INDEX", "INDEX IF NOT EXISTS", 1)
"""Makes the one index that a ledger may have or not."""
# Of the file and of the connection: a temporary trigger fires as any other.
_OBJECTS = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master UNION ALL "
    "SELECT type, 'temp.' || name, tbl_name, sql FROM sqlite_temp_master"
)


def pragma(database: sqlite3.Connection, name: str) -> Any:
    """Return a pragma of the database."""
    return database.execute(f"PRAGMA {name}").fetchone()[name]


def checked_version(database: sqlite3.Connection) -> int:
    """Return the file's schema version; refuse one whose schema is not exactly what tacit makes."""
    version = _version(database)
    found = {
        row["name"]: (row["type"], row["tbl_name"], row["sql"] and _words(row["sql"]))
        for row in database.execute(_OBJECTS)
    }
    ours = _ours(version)
    strange = {name for name in found if found[name] != ours.get(name)}
    missing = ours.keys() - found.keys() - {"charges"}
    if missing == _GUARDS.keys() and _written_by_schema_1(database):
        missing = set()
    if strange or missing:
        what = f"{min(strange)[:60]!r} is none" if strange else f"{min(missing)!r} is missing, one"
        raise LedgerDamaged(
            f"Expected the tables, indexes and triggers of the ledger as tacit makes them: {what} "
            "of them. Such a file may hide what is spent; restore it from a copy."
        )
    return version


def _version(database: sqlite3.Connection) -> int:
    """Return the schema version; refuse a file of another program or of a newer tacit."""
    version = int(pragma(database, "user_version"))
    if pragma(database, "schema_version") == 0:
        raise LedgerDamaged("Expected a ledger, got an empty file; restore it from a copy.")
    if pragma(database, "application_id") != APPLICATION_ID:
        raise LedgerError("Expected a ledger, got the SQLite database of another program.")
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"Expected a ledger of schema {SCHEMA_VERSION} or older, got schema {version}; "
            "upgrade tacit."
        )
    if version not in (*MIGRATIONS, SCHEMA_VERSION):
        raise LedgerError(f"Expected a ledger of a known schema, got schema {version}.")
    return version


@functools.cache
def _ours(version: int) -> dict[str, tuple[str, str, str | None]]:
    """Return the schema of this version, by name."""
    steps = [step for old, each in MIGRATIONS.items() if old >= version for step in each]
    ours: dict[str, tuple[str, str, str | None]] = {
        "sqlite_autoindex_entries_1": ("index", "entries", None),
        "charges": ("index", "entries", _words(_CHARGES)),
    }
    for table, text in _TABLES.items():
        added = [step.partition("ADD COLUMN ")[2] for step in steps if f" {table} " in step]
        words = functools.reduce(lambda left, one: left.replace(f",{one}", ""), added, _words(text))
        ours[table] = ("table", table, words)
    for name, text in _GUARDS.items():
        ours[name] = ("trigger", name.split("_")[0], _words(text))
    return ours


@functools.lru_cache(maxsize=32)
def _words(text: str) -> str:
    """Normalise white space: one between words, none beside brackets and commas."""
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(text.split()))


def _written_by_schema_1(database: sqlite3.Connection) -> bool:
    """Whether the hashed header is of schema 1: such a file never had the triggers."""
    row = database.execute("SELECT payload FROM header").fetchone()
    try:
        return bool(json.loads(row["payload"])["schema"] == 1)
    except (KeyError, TypeError, ValueError):
        return False
