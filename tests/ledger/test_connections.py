"""A burst of appends keeps its connection; afterwards, and before a fork, nothing is open."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time

from ledger_shared import spend

from tacit.ledger import Budget, Ledger, connections
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
