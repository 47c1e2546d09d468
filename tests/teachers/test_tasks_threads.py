"""One thread inside a task, also for libraries that the task itself brings along."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tacit.teachers import tasks
from tacit.teachers.tasks import on_one_thread


def limits() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info()]


def test_one_thread_inside_and_as_many_as_before_outside():
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2):
        before = limits()
        assert set(on_one_thread(limits)) == {1}
        assert limits() == before
        with pytest.raises(ZeroDivisionError):
            on_one_thread(lambda: 1 / 0)
        assert limits() == before


def test_work_that_brings_a_library_is_done_again(monkeypatch):
    """The library arrives during the first attempt, with all its threads."""
    loaded = {"blas"}
    calls = []

    def work():
        calls.append(set(loaded))
        loaded.add("openmp")
        return len(calls)

    monkeypatch.setattr(tasks, "_libraries", lambda pools: pools.names)
    monkeypatch.setattr(tasks, "_pools", lambda: _Pools(frozenset(loaded)))
    assert on_one_thread(work) == 2
    assert calls == [{"blas"}, {"blas", "openmp"}]


class _Pools:
    def __init__(self, names):
        self.names = names

    def limit(self, limits):
        return threadpool_limits(limits=limits)


def test_new_imports_are_noticed(monkeypatch):
    import sys
    import types

    first = tasks._pools()
    assert tasks._pools() is first
    monkeypatch.setitem(sys.modules, "newly_imported", types.ModuleType("newly_imported"))
    assert tasks._pools() is not first


def test_two_threads_of_a_process_take_turns():
    """A limit that one lifts while the other still works would be none."""
    inside, most = [], []

    def work():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    crew = [threading.Thread(target=on_one_thread, args=(work,)) for _ in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert max(most) == 1
