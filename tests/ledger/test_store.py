"""The file: what creation, damage, migration, full disks and other people's files do to it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from ledger_shared import APPLICATION_ID, edit, spend, sql

from tacit import _files
from tacit.errors import (
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    LedgerUnavailable,
)
from tacit.ledger import Budget, Ledger, reading, store
from tacit.ledger.chain import canonical, digest

BUDGET = Budget(2.0, 1e-5)


# Creation


def test_a_new_ledger_is_one_file_with_its_marks(ledger, path):
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ledger"]
    assert sql(path, "PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode") == [
        [(APPLICATION_ID,)],
        [(3,)],
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


def test_a_second_name_is_refused(ledger, path, plan, votes, tmp_path):
    """SQLite's log and locks belong to a name: through two of them a budget is spent twice."""
    spend(ledger, plan, votes)
    other = tmp_path / "other.ledger"
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(LedgerError, match="hard link"):
            Ledger(name)
    with pytest.raises(LedgerError, match="hard link"):
        spend(ledger, plan, votes)
    other.unlink()
    spend(ledger, plan, votes)
    assert len(Ledger(path)) == 2


def test_the_temporary_name_that_a_killed_creation_left_is_removed(ledger, path, plan, votes):
    """Killed between naming the file and forgetting its temporary name."""
    path.with_name(f".{path.name}.0123456789abcdef.tmp").hardlink_to(path)
    strange = path.with_name(f".{path.name}.of-another-file.tmp")
    strange.write_text("not a link")
    spend(ledger, plan, votes)
    assert len(Ledger(path)) == 1
    names = sorted(entry.name for entry in path.parent.iterdir())
    assert names == [strange.name, path.name, f"{path.name}-head"]


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
    sql(path, "CREATE TABLE notes (text)", "PRAGMA user_version = 3")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="another program"):
        Ledger(path, budget=BUDGET)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("version", "message"), [(4, "upgrade"), (0, "known schema")])
def test_another_schema_is_refused(ledger, path, version, message):
    sql(path, f"PRAGMA user_version = {version}")
    with pytest.raises(LedgerError, match=message):
        Ledger(path)
    with pytest.raises(LedgerError, match=message):
        ledger.spent()


@pytest.mark.parametrize("keep", [10, 60, 512, 4096, 9000, -4096, -1])
def test_a_truncated_file_is_never_read_as_a_shorter_ledger(ledger, path, plan, votes, keep):
    """Not even where the pages that are missing hold no entry."""
    spend(ledger, plan, votes, times=2)
    content = path.read_bytes()
    assert len(content) > keep
    path.write_bytes(content[:keep])
    with pytest.raises(LedgerError):
        Ledger(path)
    with pytest.raises(LedgerError), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")


@pytest.mark.parametrize(
    ("change", "statement"), [(sql, "DROP TABLE entries"), (edit, "DELETE FROM header")]
)
def test_missing_parts_are_damage(ledger, path, change, statement):
    change(path, statement)
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


ALTERED = [
    "UPDATE entries SET cost = 0 WHERE sequence = {}",
    "UPDATE entries SET payload = replace(payload, '40.0', '90.0') WHERE sequence = {}",
    "UPDATE entries SET payload = CAST(x'ff' AS TEXT) WHERE sequence = {}",
    "DELETE FROM entries WHERE sequence = {}",
]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE header SET payload = replace(payload, '2.6', '9.6')",
        *(statement.format(2) for statement in ALTERED),
    ],
)
def test_tampering_with_header_or_last_line_stops_every_use(ledger, path, plan, votes, statement):
    spend(ledger, plan, votes, times=2)
    edit(path, statement)
    for use in (ledger.verify, ledger.spent, ledger.statement, lambda: Ledger(path)):
        with pytest.raises(LedgerDamaged):
            use()
    with pytest.raises(LedgerDamaged), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")


@pytest.mark.parametrize("statement", ALTERED)
def test_an_old_line_that_was_altered_changes_no_total_and_stops_every_statement(
    ledger, path, plan, votes, statement
):
    """The last line states the totals, and its hash is remembered outside the database."""
    spend(ledger, plan, votes, times=2)
    before = ledger.spent()
    edit(path, statement.format(1))
    assert Ledger(path).spent() == before
    assert ledger.would_exceed(*[plan] * 3)
    for use in (ledger.verify, ledger.statement, ledger.entries, ledger.snapshot, ledger.extract):
        with pytest.raises(LedgerDamaged):
            use()
    path.with_name("run.ledger-head").unlink()
    for use in (ledger.spent, lambda: Ledger(path)):
        with pytest.raises(LedgerDamaged):
            use()


def test_a_last_line_rewritten_with_its_hash_is_found_by_the_remembered_head(
    ledger, path, plan, votes
):
    """The chain alone would take it: nothing follows."""
    spend(ledger, plan, votes, times=2)
    (row,) = sql(path, "SELECT payload FROM entries WHERE sequence = 2")[0]
    line = json.loads(row[0])
    first = json.loads(sql(path, "SELECT payload FROM entries WHERE sequence = 1")[0][0][0])
    line["cost"], line["totals"] = 0.0, first["totals"]
    text = canonical(line)
    edit(
        path,
        f"UPDATE entries SET cost = 0, hash = '{digest(text)}', payload = '{text}' "
        "WHERE sequence = 2",
    )
    with pytest.raises(LedgerDamaged):
        Ledger(path)
    path.with_name("run.ledger-head").unlink()
    Ledger(path).verify()  # without the head it is a chain like any other


def test_a_ledger_that_was_removed_is_not_begun_anew_in_silence(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    path.unlink()
    with pytest.raises(LedgerError, match="remembers"):
        Ledger(path, budget=BUDGET)
    assert not path.exists()
    path.with_name("run.ledger-head").unlink()
    Ledger(path, budget=BUDGET)


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
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "run.ledger",
        "run.ledger-head",
    ]


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
    names = sorted(entry.name for entry in path.parent.iterdir())
    assert names == ["run.ledger", "run.ledger-head", "run.ledger-wal"]


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
    honest = reading.load_end
    written = []

    def overtaken(database, *asked):
        chain = honest(database, *asked)
        if not written:
            written.append(True)
            monkeypatch.setattr(reading, "load_end", honest)
            spend(Ledger(path), plan, votes)
        return chain

    monkeypatch.setattr(reading, "load_end", overtaken)
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
