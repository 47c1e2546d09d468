"""The file: what creation, damage, migration, full disks and other people's files do to it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from tacit import _files
from tacit.errors import (
    BudgetExceeded,
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    LedgerUnavailable,
)
from tacit.ledger import Budget, Ledger, store
from tacit.mechanisms import GNMax, Plan

BUDGET = Budget(2.0, 1e-5)
APPLICATION_ID = 0x74616369


def sql(path, *statements: str) -> list:
    """Do what no part of tacit would do."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        return [database.execute(statement).fetchall() for statement in statements]


def without_guards(path) -> list[str]:
    names = sql(path, "SELECT name FROM sqlite_master WHERE type = 'trigger'")[0]
    return [f"DROP TRIGGER {name}" for (name,) in names]


def spend(ledger, plan, votes, times: int = 1) -> None:
    for _ in range(times):
        with ledger.release(plan, purpose="test") as grant:
            grant.release(votes)


# Creation


def test_a_new_ledger_is_one_file_with_its_marks(ledger, path):
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ledger"]
    assert sql(path, "PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode") == [
        [(APPLICATION_ID,)],
        [(2,)],
        [("wal",)],
    ]


def test_a_crash_before_naming_leaves_no_ledger(path, monkeypatch):
    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "name_without_overwriting", crash)
    with pytest.raises(KeyboardInterrupt):
        Ledger(path, budget=BUDGET)
    assert list(path.parent.iterdir()) == []


def test_who_creates_second_opens_the_first(path, monkeypatch):
    """Two processes find no file; the slower one must not replace the faster one's ledger."""
    slow = store.Store.create

    def interrupted(self, header):
        monkeypatch.undo()
        Ledger(path, budget=BUDGET, dataset="first")
        slow(self, header)

    monkeypatch.setattr(store.Store, "create", interrupted)
    assert Ledger(path, budget=BUDGET).dataset == "first"
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ledger"]


def test_who_creates_second_with_other_terms_is_told(path, monkeypatch):
    slow = store.Store.create

    def interrupted(self, header):
        monkeypatch.undo()
        Ledger(path, budget=Budget(1.0, 1e-6))
        slow(self, header)

    monkeypatch.setattr(store.Store, "create", interrupted)
    with pytest.raises(LedgerError, match="budget"):
        Ledger(path, budget=BUDGET)


def test_creation_works_without_hard_links(path, monkeypatch):
    def no_links(*_):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(_files.os, "link", no_links)
    assert Ledger(path, budget=BUDGET).spent() == 0.0
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ledger"]


def test_creation_in_a_missing_directory_is_refused(tmp_path):
    with pytest.raises(LedgerUnavailable, match="create"):
        Ledger(tmp_path / "missing" / "run.ledger", budget=BUDGET)


@pytest.mark.parametrize("path", [None, 3, "nul\0byte"])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(InvalidArgument, match="path="):
        Ledger(path, budget=BUDGET)


def test_a_directory_is_not_a_ledger(tmp_path):
    with pytest.raises(LedgerError, match="directory"):
        Ledger(tmp_path, budget=BUDGET)


def test_odd_names_and_links_lead_to_the_same_ledger(tmp_path, monkeypatch):
    name = "a b#c?d%20é&mode=memory"
    ledger = Ledger(tmp_path / name, budget=BUDGET)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / name)
    assert Ledger(link).head == ledger.head
    monkeypatch.chdir(tmp_path)
    relative = Ledger(name)
    monkeypatch.chdir("/")
    assert relative.verify() == ledger.head


# Files of others, and damage


def test_text_is_not_a_ledger(path):
    path.write_text("epsilon,delta\n" * 100)
    with pytest.raises(LedgerError, match="not a SQLite database"):
        Ledger(path, budget=BUDGET)


def test_an_empty_file_is_not_a_ledger(path):
    path.touch()
    with pytest.raises(LedgerDamaged, match="empty"):
        Ledger(path, budget=BUDGET)
    assert path.stat().st_size == 0


def test_a_database_of_another_program_is_left_alone(path):
    sql(path, "CREATE TABLE notes (text)", "PRAGMA user_version = 2")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="another program"):
        Ledger(path, budget=BUDGET)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("version", "message"), [(3, "upgrade"), (0, "known schema")])
def test_another_schema_is_refused(ledger, path, version, message):
    sql(path, f"PRAGMA user_version = {version}")
    with pytest.raises(LedgerError, match=message):
        Ledger(path)
    with pytest.raises(LedgerError, match=message):
        ledger.spent()


@pytest.mark.parametrize("keep", [10, 60, 512, 4096, 9000])
def test_a_truncated_file_is_never_read_as_a_shorter_ledger(ledger, path, plan, votes, keep):
    spend(ledger, plan, votes, times=2)
    content = path.read_bytes()
    assert len(content) > keep
    path.write_bytes(content[:keep])
    with pytest.raises(LedgerError):
        Ledger(path)
    with pytest.raises(LedgerError), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")


@pytest.mark.parametrize("statement", ["DROP TABLE entries", "DELETE FROM header"])
def test_missing_parts_are_damage(ledger, path, statement):
    sql(path, *without_guards(path), statement)
    with pytest.raises(LedgerDamaged):
        ledger.entries()


def test_the_file_itself_refuses_to_forget(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    for statement in (
        "DELETE FROM entries",
        "UPDATE entries SET cost = 0",
        "DELETE FROM header",
        "UPDATE header SET epsilon = 9",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            sql(path, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET cost = 0 WHERE sequence = 1",
        "UPDATE entries SET payload = replace(payload, '40.0', '90.0') WHERE sequence = 1",
        "UPDATE entries SET payload = CAST(x'ff' AS TEXT) WHERE sequence = 1",
        "UPDATE header SET payload = replace(payload, '2.6', '9.6')",
        "DELETE FROM entries WHERE sequence = 1",
    ],
)
def test_tampering_stops_every_use(ledger, path, plan, votes, statement):
    spend(ledger, plan, votes, times=2)
    sql(path, *without_guards(path), statement)
    for use in (ledger.verify, ledger.spent, ledger.statement, lambda: Ledger(path)):
        with pytest.raises(LedgerDamaged):
            use()
    with pytest.raises(LedgerDamaged), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")


def test_verify_looks_at_the_pages_too(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    (root,) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex%'")[0]
    content = bytearray(path.read_bytes())
    page = slice((root[0] - 1) * 4096, root[0] * 4096)
    content[page] = content[page].replace(b"a", b"b").replace(b"0", b"1")
    path.write_bytes(bytes(content))
    with pytest.raises(LedgerDamaged):
        ledger.verify()


# Readers


def test_reading_leaves_no_trace(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    before = path.read_bytes(), path.stat().st_mtime_ns
    reader = Ledger(path)
    for use in (reader.spent, reader.entries, reader.verify, reader.statement, reader.remaining):
        use()
    reader.would_exceed(plan)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ledger"]


def test_entries_still_in_the_log_count(ledger, path, plan, votes):
    """Somebody keeps the file open, so the log is not merged: reading the file alone would lie."""
    with contextlib.closing(sqlite3.connect(path)) as holder:
        holder.execute("SELECT * FROM entries").fetchall()
        spend(ledger, plan, votes)
        assert Path(f"{path}-wal").stat().st_size > 0
        assert len(Ledger(path)) == 1


def test_an_empty_log_is_no_log(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    Path(f"{path}-wal").touch()
    assert len(Ledger(path)) == 1
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["run.ledger", "run.ledger-wal"]


def test_the_log_of_a_removed_ledger_is_not_replayed_into_a_new_one(ledger, path, plan, votes):
    with contextlib.closing(sqlite3.connect(path)) as holder:
        holder.execute("SELECT * FROM entries").fetchall()
        spend(ledger, plan, votes)
        log = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    with pytest.raises(LedgerError, match="-wal"):
        Ledger(path, budget=BUDGET)
    assert not path.exists()


def test_a_writer_during_a_read_is_noticed(ledger, path, plan, votes, monkeypatch):
    honest = store._load
    written = []

    def overtaken(database):
        chain = honest(database)
        if not written:
            written.append(True)
            monkeypatch.setattr(store, "_load", honest)
            spend(Ledger(path), plan, votes)
        return chain

    monkeypatch.setattr(store, "_load", overtaken)
    assert len(ledger) == 1


def test_a_ledger_that_vanished_is_unavailable(ledger, path, plan):
    path.unlink()
    with pytest.raises(LedgerUnavailable, match="read"):
        ledger.spent()
    with pytest.raises(LedgerUnavailable), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")
    assert not path.exists()


def test_a_ledger_that_is_held_too_long_is_unavailable(ledger, path, plan, monkeypatch):
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.05)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="locked"), ledger.release(plan, purpose="test"):
            pytest.fail("a grant was given")
        assert ledger.spent() == 0.0


# Full disks and read-only directories

SCRIPT = """
import os, resource, signal, sys
from pathlib import Path
from tacit.errors import LedgerUnavailable
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, Plan

path = Path(sys.argv[1])
plan = Plan(GNMax(40.0), queries=1)
def attempt(purpose):
    try:
        with ledger.release(plan, purpose=purpose) as grant:
            print("RELEASED", grant.release([[9, 1]]).labels)
    except LedgerUnavailable as error:
        print("REFUSED", error)
"""


def run(body: str, folder: str) -> str:
    command = [sys.executable, "-c", SCRIPT + textwrap.dedent(body), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_read_only_directory_is_read_and_not_released_from():
    """As root permissions mean nothing, so the script becomes nobody first."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/run.ledger", budget=BUDGET)
        with ledger.release(Plan(GNMax(40.0), queries=1), purpose="before") as grant:
            grant.release([[9, 1]])
        os.chmod(folder, 0o555)
        os.chmod(f"{folder}/run.ledger", 0o444)
        output = run(
            """
            import tacit.noise, tacit.privacy, scipy.special
            from mpmath import libmp
            if os.geteuid() == 0:
                os.setgid(65534), os.setuid(65534)
            ledger = Ledger(path / "run.ledger")
            print("READ", len(ledger), ledger.verify() == ledger.head, ledger.spent() > 0)
            attempt("test")
            try:
                Ledger(path / "new.ledger", budget=Budget(1.0, 1e-5))
            except LedgerUnavailable:
                print("NOT CREATED")
            print("AFTER", len(ledger), sorted(os.listdir(path)))
            """,
            folder,
        )
        os.chmod(folder, 0o755)
    lines = output.splitlines()
    assert lines[0] == "READ 1 True True"
    assert lines[1].startswith("REFUSED Cannot write to the ledger")
    assert lines[2:] == ["NOT CREATED", "AFTER 1 ['run.ledger']"]


def test_a_log_that_a_read_only_place_cannot_merge_is_not_ignored():
    """A killed writer left its entry in the log: a reader must count it or say that it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        Ledger(f"{folder}/run.ledger", budget=BUDGET)
        run(
            """
            import sqlite3
            ledger = Ledger(path / "run.ledger")
            holder = sqlite3.connect(path / "run.ledger")
            holder.execute("SELECT * FROM entries").fetchall()
            attempt("in the log")
            os._exit(0)
            """,
            folder,
        )
        os.unlink(f"{folder}/run.ledger-shm")
        os.chmod(folder, 0o555)
        for name in os.listdir(folder):
            os.chmod(f"{folder}/{name}", 0o444)
        output = run(
            """
            import tacit.noise, tacit.privacy, scipy.special
            from tacit.ledger.store import Store
            if os.geteuid() == 0:
                os.setgid(65534), os.setuid(65534)
            try:
                print(len(Ledger(path / "run.ledger")))
            except LedgerUnavailable:
                print("UNAVAILABLE")
            """,
            folder,
        )
        os.chmod(folder, 0o755)
        assert output.split() in (["1"], ["UNAVAILABLE"])
        assert len(Ledger(f"{folder}/run.ledger")) == 1


def test_a_full_disk_releases_nothing_and_spends_nothing(tmp_path):
    Ledger(tmp_path / "run.ledger", budget=BUDGET)
    output = run(
        """
        ledger = Ledger(path / "run.ledger")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = (path / "run.ledger").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        attempt("x" * 100_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        print("SPENT", len(ledger), ledger.spent())
        attempt("there is space again")
        print("SPENT", len(ledger))
        """,
        str(tmp_path),
    )
    lines = output.splitlines()
    assert lines[0].startswith("REFUSED Cannot write to the ledger")
    assert lines[1] == "SPENT 0 0.0"
    assert lines[2].startswith("RELEASED")
    assert lines[3] == "SPENT 1"


def test_a_full_database_releases_nothing_and_spends_nothing(ledger, plan, monkeypatch):
    honest = store._migrate

    def filled(database):
        honest(database)
        pages = database.execute("PRAGMA page_count").fetchone()["page_count"]
        database.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(store, "_migrate", filled)
    with (
        pytest.raises(LedgerUnavailable, match="full"),
        ledger.release(plan, purpose="x" * 100_000),
    ):
        pytest.fail("a grant was given")
    assert (len(ledger), ledger.spent()) == (0, 0.0)


def test_a_failing_commit_releases_nothing_and_spends_nothing(ledger, plan, monkeypatch):
    class Failing(sqlite3.Connection):
        def execute(self, statement, *parameters):
            if statement in ("COMMIT", "ROLLBACK"):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(statement, *parameters)

    honest = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: honest(*a, **k, factory=Failing))
        with (
            pytest.raises(LedgerUnavailable, match="disk is full"),
            ledger.release(plan, purpose="test"),
        ):
            pytest.fail("a grant was given")
    assert (len(ledger), ledger.spent()) == (0, 0.0)


# Migration: schema 1, written as schema 1 was, by nothing of ours

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
    assert version(path) == 2
    assert [entry.hash for entry in ledger.entries()][:2] == hashes[1:]
    assert ledger.verify(head=hashes[0]) == ledger.head
    assert ledger.would_exceed(plan)
    columns = sql(path, "SELECT confidence_delta FROM entries", "SELECT reserved_delta FROM header")
    assert columns == [[(0.0,)] * 3, [(0.0,)]]


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

    def half(database):
        database.execute("ALTER TABLE header ADD COLUMN reserved_delta REAL NOT NULL DEFAULT 0")
        raise sqlite3.OperationalError("database or disk is full")

    ledger = Ledger(path)
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", {1: half})
        with pytest.raises(LedgerUnavailable), ledger.release(plan, purpose="x"):
            pytest.fail("a grant was given")
    assert version(path) == 1
    assert len(ledger) == 2
