"""A burst of appends keeps its connection; afterwards, and before a fork, nothing is open."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
import time

import pytest
from ledger_shared import spend

from tacit.errors import LedgerDamaged
from tacit.ledger import Budget, Ledger, connections
from tacit.ledger.head_file import HeadFile
from tacit.ledger.store import Store
from tacit.mechanisms import Plan


def burst(ledger, fakes):
    spend(ledger, Plan(fakes.Base(1e-6), queries=1), [0], times=connections.BURST + 2)


def logs(path):
    return sorted(each.name for each in path.parent.iterdir() if each.name.endswith(("wal", "shm")))


def test_few_appends_leave_the_file_alone_as_the_whole_ledger(path, fakes):
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    spend(ledger, Plan(fakes.Base(1e-6), queries=1), [0], times=connections.BURST - 1)
    assert logs(path) == []


def test_what_a_burst_kept_is_closed_soon(path, fakes, monkeypatch):
    monkeypatch.setattr(connections, "MOMENT", 60.0)  # no load may end the burst before it is seen
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    assert ledger._store._connections._kept is not None
    assert len(Ledger(path).entries()) == connections.BURST + 2  # others read what is in the log
    monkeypatch.setattr(connections, "MOMENT", 0.0)
    assert ledger._store._connections.close_if_idle()
    assert logs(path) == []


def test_the_watcher_closes_it_by_itself(path, fakes):
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    patience = time.monotonic() + 30
    while logs(path) and time.monotonic() < patience:
        time.sleep(0.05)
    assert logs(path) == []


def test_whoever_had_to_wait_keeps_it_at_once(path, fakes, monkeypatch):
    """Eight writers would else merge the log after each of their first appends."""
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger, plan = Ledger(path, budget=Budget(2.0, 1e-5)), Plan(fakes.Base(1e-6), queries=1)
    spend(ledger, plan, [0])
    with HeadFile(path).turn(0o600):
        writer = threading.Thread(target=spend, args=(ledger, plan, [0]))
        writer.start()
        time.sleep(0.05)
        assert len(ledger) == 1
    writer.join()
    assert len(ledger) == 2
    assert ledger._store._connections._kept is not None


def test_a_burst_reads_the_end_through_what_it_keeps(path, fakes, monkeypatch):
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger, plan = Ledger(path, budget=Budget(2.0, 1e-5)), Plan(fakes.Base(1e-6), queries=1)
    burst(ledger, fakes)
    kept = ledger._store._connections._kept
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Store, "_connected", pytest.fail)
        spent = ledger.spent()
    spend(Ledger(path), plan, [0])  # what others append is seen
    assert ledger.spent() > spent
    assert ledger._store._connections._kept is kept


def test_a_read_that_fails_leaves_nothing_open(path, fakes, monkeypatch):
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    end = HeadFile(path).read()
    HeadFile(path).path.write_text(end._replace(hash="0" * 64).as_line())
    with pytest.raises(LedgerDamaged, match="does not continue"):
        ledger.spent()
    assert ledger._store._connections._kept is None
    HeadFile(path).path.write_text(end.as_line())
    assert ledger.spent() > 0


def test_nor_is_a_file_that_was_exchanged_read_through_it(path, fakes, monkeypatch):
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    Ledger(path.with_name("other.ledger"), budget=Budget(2.0, 1e-5))
    path.with_name("other.ledger").replace(path)
    with pytest.raises(LedgerDamaged, match="exchanged"):
        ledger.spent()
    assert ledger._store._connections._kept is None


def test_a_reader_does_not_wait_for_a_writer_in_another_thread(path, fakes, monkeypatch):
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    lender, found = ledger._store._connections, []
    reader = threading.Thread(target=lambda: found.append(ledger.spent()))
    with lender.lock:
        reader.start()
        reader.join(timeout=30)
        assert found


def test_without_a_watcher_nothing_is_kept_and_nothing_fails(path, fakes, monkeypatch):
    """What was charged is granted, also where no thread can be started."""

    def no_more(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(connections, "_watcher", [])
    monkeypatch.setattr(connections.threading.Thread, "start", no_more)
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    assert ledger._store._connections._kept is None
    assert logs(path) == []


def _child(ledger, plan):
    with ledger.release(plan, purpose="in the child") as grant:
        grant.release([0])


def test_nothing_open_crosses_a_fork(path, fakes, monkeypatch):
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    plan = Plan(fakes.Base(1e-6), queries=1)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(ledger, plan))
    process.start()
    assert ledger._store._connections._kept is None
    process.join()
    assert process.exitcode == 0
    spend(ledger, plan, [0])
    assert len(ledger.entries()) == connections.BURST + 4


def test_a_file_that_was_exchanged_is_not_written_through_the_old_connection(
    path, fakes, monkeypatch
):
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    burst(ledger, fakes)
    Ledger(path.with_name("other.ledger"), budget=Budget(2.0, 1e-5))
    path.with_name("other.ledger").replace(path)
    lender = ledger._store._connections
    with lender.lent(lambda: sqlite3.connect(":memory:")) as database:
        assert database.execute("PRAGMA database_list").fetchone()[2] == ""
