"""Schema 1, written as schema 1 was, by nothing of ours, and schema 2, by tacit 0.1.0."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from ledger_shared import APPLICATION_ID, forge, spend, sql

from tacit.errors import BudgetExceeded, LedgerDamaged, LedgerUnavailable
from tacit.ledger import LARGE_DELTA, Budget, Ledger, store
from tacit.mechanisms import GNMax, Plan

PLAN_1 = {
    "mechanism": "gnmax",
    "parameters": {"sigma": 40.0},
    "queries": 100,
    "max_answers": None,
    "n_teachers": None,
    "n_classes": None,
}


def write_schema_1(path) -> list[str]:
    """Create a ledger of schema 1 with two entries; return all hashes."""
    header = {
        "schema": 1,
        "id": "00" * 16,
        "created": "2024-01-01T00:00:00+00:00",
        "library": "0.0.9",
        "epsilon": 2.6,
        "delta": 1e-5,
        "unit": "person",
        "dataset": "scans",
        "accountant": "gaussian",
        "order": None,
        "plans": [],
        "price": None,
        "n_units": None,
        "allow_large_delta": False,
    }
    lines, hashes = [header], []
    for sequence in (0, 1, 2):
        if sequence:
            lines.append(
                {
                    "sequence": sequence,
                    "previous": hashes[-1],
                    "time": "2024-01-02T00:00:00+00:00",
                    "purpose": f"old {sequence}",
                    "plan": PLAN_1,
                    "cost": 0.125,
                    "noise": "csprng",
                    "library": "0.0.9",
                }
            )
        text = json.dumps(lines[-1], sort_keys=True, separators=(",", ":"))
        hashes.append(hashlib.sha256(text.encode()).hexdigest())
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            CREATE TABLE header (one INTEGER PRIMARY KEY CHECK (one = 1), payload TEXT NOT NULL,
                hash TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL);
            CREATE TABLE entries (sequence INTEGER PRIMARY KEY CHECK (sequence > 0),
                payload TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, previous TEXT NOT NULL,
                time TEXT NOT NULL, purpose TEXT NOT NULL, cost REAL NOT NULL CHECK (cost >= 0));
            """
        )
        for place, (line, own) in enumerate(zip(lines, hashes, strict=True)):
            text = json.dumps(line, sort_keys=True, separators=(",", ":"))
            if place == 0:
                database.execute("INSERT INTO header VALUES (1, ?, ?, 2.6, 1e-5)", (text, own))
            else:
                database.execute(
                    "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (place, text, own, line["previous"], line["time"], line["purpose"], 0.125),
                )
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute("PRAGMA user_version = 1")
        database.commit()
        database.execute("PRAGMA journal_mode = WAL")
    return hashes


def version(path) -> int:
    return sql(path, "PRAGMA user_version")[0][0][0]


def test_schema_1_is_read_without_being_changed(path):
    hashes = write_schema_1(path)
    before = path.read_bytes()
    ledger = Ledger(path, budget=Budget(2.6, 1e-5), reserved_delta=0.0)
    assert ledger.verify(head=hashes[1]) == hashes[2]
    assert [entry.confidence_delta for entry in ledger.entries()] == [0.0, 0.0]
    assert ledger.spent() > 1.9
    assert path.read_bytes() == before


def test_schema_1_is_migrated_by_its_next_entry_and_every_hash_stays(path, plan, votes):
    hashes = write_schema_1(path)
    ledger = Ledger(path)
    spend(ledger, plan, votes)
    assert version(path) == 3
    assert [entry.hash for entry in ledger.entries()][:2] == hashes[1:]
    assert ledger.verify(head=hashes[0]) == ledger.head
    assert ledger.would_exceed(plan)
    columns = sql(
        path,
        "SELECT confidence_delta, kind FROM entries",
        "SELECT reserved_delta FROM header",
    )
    assert columns == [[(0.0, "release")] * 3, [(0.0,)]]


def test_a_refused_entry_leaves_schema_1_as_it_was(path):
    write_schema_1(path)
    before = path.read_bytes()
    ledger = Ledger(path)
    with pytest.raises(BudgetExceeded), ledger.release(Plan(GNMax(1.0), queries=9), purpose="x"):
        pytest.fail("a grant was given")
    assert version(path) == 1
    assert path.read_bytes() == before


def test_a_migration_that_fails_half_way_changes_nothing(path, plan, monkeypatch):
    write_schema_1(path)

    def half():
        yield "ALTER TABLE header ADD COLUMN reserved_delta REAL NOT NULL DEFAULT 0"
        raise sqlite3.OperationalError("database or disk is full")

    ledger = Ledger(path)
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", {1: half()})
        with pytest.raises(LedgerUnavailable), ledger.release(plan, purpose="x"):
            pytest.fail("a grant was given")
    assert version(path) == 1
    assert len(ledger) == 2


SECOND = Path(__file__).with_name("schema-2.sqlite")
"""Two releases of mu^2 = 0.125 under a reserve, as tacit 0.1.0 wrote them."""
SECOND_FIXED = Path(__file__).with_name("schema-2-fixed.sqlite")
"""The first of a fixed list of two, with seeded noise and allow_large_delta."""


def test_schema_2_is_read_without_being_changed(path):
    shutil.copy(SECOND, path)
    ledger = Ledger(path, budget=Budget(2.6, 1e-5), reserved_delta=1e-6)
    assert ledger.head == "63623ebc1b8f4cc44ca36c81ede244d3ea20c48daa97b88692eaa36936341277"
    assert ledger.spent() == pytest.approx(2.005687066612885, rel=1e-9)
    for entry in ledger.entries():
        assert (entry.kind, entry.faults, entry.totals, entry.behind) == ("release", (), None, None)
        assert entry.library == "0.1.0"
        assert entry.priced_by == {}
    assert path.read_bytes() == SECOND.read_bytes()
    assert version(path) == 2


def test_schema_2_is_migrated_by_its_next_entry_and_every_line_stays(path, plan, votes):
    shutil.copy(SECOND, path)
    lines = "SELECT payload, hash FROM entries ORDER BY sequence"
    before = sql(path, lines)[0]
    ledger = Ledger(path)
    spend(ledger, plan, votes, faults=["asked for"])
    assert version(path) == 3
    assert sql(path, lines)[0][:2] == before
    last = ledger.entries()[2]
    assert last.faults == ("asked for",)
    assert [float.fromhex(last.totals[each]) for each in ("cost", "confidence_delta")] == [0.375, 0]
    assert ledger.statement().warnings == ("asked for",)
    assert ledger.would_exceed(plan)
    assert Ledger(path).verify() == ledger.head


def test_a_fixed_list_of_schema_2_goes_on_where_it_was(path, plan, votes):
    shutil.copy(SECOND_FIXED, path)
    ledger = Ledger(path)
    assert LARGE_DELTA in ledger.statement().warnings
    spend(ledger, plan, votes)
    assert [entry.cost > 0 for entry in ledger.entries()] == [True, False]
    assert ledger.spent() == pytest.approx(1.9930914044151198, rel=1e-9)
    with pytest.raises(BudgetExceeded), ledger.release(plan, purpose="x"):
        pytest.fail("a grant was given")


def test_an_older_line_cannot_follow_a_newer_one(path, plan, votes):
    """Its totals would be missing, and with them what a reader of the last line relies on."""
    shutil.copy(SECOND, path)
    ledger = Ledger(path)
    spend(ledger, plan, votes)
    new = ("schema", "kind", "faults", "priced_by", "totals", "behind", "about")
    forge(path, **dict.fromkeys(new, ...))
    with pytest.raises(LedgerDamaged, match="Entry 4"):
        Ledger(path)
