"""A file whose tables, indexes or triggers are not tacit's own is refused, whatever it holds."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
from ledger_shared import spend, sql
from test_store_migration import SECOND, SECOND_FIXED, write_schema_1

from tacit.errors import LedgerDamaged
from tacit.ledger import Ledger, store
from tacit.ledger.schema import CREATE, MIGRATIONS, SCHEMA_VERSION, checked_version

SWALLOW = "CREATE TRIGGER t BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END"
DELETE = (
    "CREATE TRIGGER t AFTER INSERT ON entries "
    "BEGIN DELETE FROM entries WHERE sequence = NEW.sequence; END"
)
GUARDS = [f"{t}_never_{a}" for t in ("header", "entries") for a in ("update", "delete")]
TEXT = "SELECT sql FROM sqlite_master WHERE name = 'entries'"


def rewritten(path, old, new):
    """Change the text of a table, as a hex editor would."""
    change = f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = 'entries'"
    sql(path, "PRAGMA writable_schema = ON", change)
    assert new in sql(path, TEXT)[0][0][0]


HOSTILE = {
    "swallowed": lambda path: sql(path, SWALLOW),
    "deleted again": lambda path: sql(path, "DROP TRIGGER entries_never_delete", DELETE),
    "deleted, with guards": lambda path: sql(path, DELETE),
    "a view": lambda path: sql(
        path,
        "DROP TRIGGER entries_never_update",
        "DROP TRIGGER entries_never_delete",
        "ALTER TABLE entries RENAME TO hidden",
        "CREATE VIEW entries AS SELECT * FROM hidden",
        "CREATE TRIGGER t INSTEAD OF INSERT ON entries BEGIN SELECT 1; END",
    ),
    "another column": lambda path: sql(path, "ALTER TABLE entries ADD COLUMN more TEXT"),
    "a column renamed": lambda path: sql(path, "ALTER TABLE entries RENAME COLUMN time TO moment"),
    "a conflict ignored": lambda path: rewritten(path, "UNIQUE", "UNIQUE ON CONFLICT IGNORE"),
    "a check removed": lambda path: rewritten(path, "CHECK (cost >= 0)", "CHECK (cost >= -9)"),
    "a unique index": lambda path: sql(path, "CREATE UNIQUE INDEX i ON entries (kind)"),
    "another index": lambda path: sql(path, "CREATE INDEX charges ON entries (kind)"),
    "another table": lambda path: sql(path, "CREATE TABLE notes (text)"),
    "statistics": lambda path: sql(path, "ANALYZE"),
    "no guard": lambda path: sql(path, "DROP TRIGGER entries_never_update"),
    "no guards": lambda path: sql(
        path,
        *(
            f"DROP TRIGGER {t}_never_{a}"
            for t in ("header", "entries")
            for a in ("update", "delete")
        ),
    ),
    "an idle guard": lambda path: sql(
        path,
        "DROP TRIGGER entries_never_update",
        "CREATE TRIGGER entries_never_update BEFORE UPDATE ON entries BEGIN SELECT 1; END",
    ),
}


@pytest.fixture
def used(path, ledger, plan, votes):
    spend(ledger, plan, votes)
    return ledger


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("with_head", [True, False])
def test_another_schema_stops_every_use(used, path, plan, change, with_head):
    change(path)
    if not with_head:
        path.with_name("run.ledger-head").unlink()
    for use in (used.verify, used.spent, used.statement, used.entries, lambda: Ledger(path)):
        with pytest.raises(LedgerDamaged):
            use()
    with pytest.raises(LedgerDamaged), used.release(plan, purpose="test"):
        pytest.fail("a grant was given")
    with pytest.raises(LedgerDamaged):
        used.publish("ab" * 32, purpose="publish")


def test_what_is_strange_is_named(used, path):
    sql(path, SWALLOW)
    with pytest.raises(LedgerDamaged, match=r"'t' is none of them.*restore"):
        used.verify()
    sql(path, "DROP TRIGGER t", "DROP TRIGGER header_never_update")
    with pytest.raises(LedgerDamaged, match="'header_never_update' is missing"):
        used.verify()


@pytest.mark.parametrize("place", ["", "TEMP "])
@pytest.mark.parametrize("trigger", [SWALLOW, DELETE])
def test_a_line_that_the_file_does_not_keep_is_found_before_it_is_committed(
    used, path, plan, monkeypatch, place, trigger
):
    """Even where the schema is believed: what was written is read back."""
    opened = store.Store._opened

    def hostile(self):
        database = opened(self)
        database.execute("DROP TRIGGER entries_never_delete")
        database.execute(trigger.replace("TRIGGER", f"{place}TRIGGER", 1))
        return database

    before = used.verify()
    monkeypatch.setattr(store.Store, "_opened", hostile)
    monkeypatch.setattr(store, "checked_version", lambda _: SCHEMA_VERSION)
    with (
        pytest.raises(LedgerDamaged, match="Nothing was released"),
        used.release(plan, purpose="x"),
    ):
        pytest.fail("a grant was given")
    assert sql(path, "SELECT max(hash) FROM entries") == [[(before,)]]


@pytest.mark.parametrize(
    "what", [SWALLOW, "CREATE TABLE entries (payload)", "CREATE VIEW v AS SELECT 1"]
)
def test_what_a_connection_brings_of_its_own_is_strange_as_well(
    used, path, plan, monkeypatch, what
):
    opened = store.Store._opened

    def hostile(self):
        database = opened(self)
        database.execute(what.replace("CREATE ", "CREATE TEMP ", 1))
        return database

    monkeypatch.setattr(store.Store, "_opened", hostile)
    with pytest.raises(LedgerDamaged, match="temp"), used.release(plan, purpose="x"):
        pytest.fail("a grant was given")


def test_a_charge_makes_the_one_index_that_may_be_there(used, plan):
    used.charge(plan, purpose="answer", study="ab" * 32, entrusted=["somebody"])
    assert Ledger(used.path).verify() == used.head


@pytest.mark.parametrize("old", ["first", SECOND, SECOND_FIXED])
def test_older_files_are_ours_before_and_after_they_are_brought_forward(path, old):
    write_schema_1(path) if old == "first" else shutil.copy(old, path)
    Ledger(path).verify()
    Ledger(path).publish("ab" * 32, purpose="publish")
    assert sql(path, "PRAGMA user_version") == [[(SCHEMA_VERSION,)]]
    Ledger(path).verify()
    sql(path, SWALLOW)
    with pytest.raises(LedgerDamaged):
        Ledger(path)


@pytest.mark.parametrize("old", [1, 2])
def test_a_file_brought_forward_reads_as_a_new_one(old):
    """Word for word: so whoever looks needs one text for each table."""
    new = sqlite3.connect(":memory:")
    new.executescript(CREATE)
    before = sqlite3.connect(":memory:")
    before.executescript(CREATE)
    steps = [step for version in range(old, SCHEMA_VERSION) for step in MIGRATIONS[version]]
    for step in reversed(steps):
        table, column = step.split()[2], step.split()[5]
        before.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    for step in steps:
        before.execute(step)
    texts = (
        "SELECT name, replace(replace(sql, char(10), ''), ' ', '') FROM sqlite_master ORDER BY name"
    )
    assert before.execute(texts).fetchall() == new.execute(texts).fetchall()


def test_the_text_of_a_new_file_is_known(ledger, path):
    assert checked_version(ledger._store._connected("mode=ro")) == SCHEMA_VERSION
