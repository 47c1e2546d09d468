"""Wherever they are trained, teachers answer the same, and a killed worker loses nothing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from teacher_families import (
    CANARY,
    Failing,
    KillingAlways,
    KillingOnce,
    Noting,
    Packed,
    seed_of,
)
from teacher_tables import module

from tacit.errors import InvalidArgument, TeacherFailed
from tacit.teachers import (
    DaskCluster,
    KernelRidgeTeachers,
    LocalProcesses,
    Recipe,
    Serial,
    TorchTeacher,
    executors,
)
from tacit.teachers.executors import choose_executor

PROC = "/proc/self/task"


def children() -> set[str]:
    """Processes that this one started and has not buried."""
    found: set[str] = set()
    for thread in os.listdir(PROC):
        try:
            with open(f"{PROC}/{thread}/children") as file:
                found.update(file.read().split())
        except FileNotFoundError:
            pass
    return found


@pytest.mark.long
def test_local_processes_answer_bit_for_bit_as_one_process(table, mixed, tmp_path):
    """And one of them is killed with SIGKILL in the middle of training.

    One at a time, and the killed one before it loads a library: loading them is what takes long.
    """
    serial = table.predict(mixed, executor=Serial())
    assert len({row.tobytes() for row in serial}) > 6  # the teachers do differ
    killing = KillingOnce(Packed(pickle.dumps(mixed)), seed_of(0), str(tmp_path / "killed"))
    local = table.predict(killing, executor=LocalProcesses(1))
    assert (tmp_path / "killed").exists()
    assert local.dtype == serial.dtype
    assert local.tobytes() == serial.tobytes()


def test_a_batch_of_teachers_in_one_task_survives_a_kill_as_well(table, tmp_path):
    family = Noting(str(tmp_path / "log"), teachers_per_task=5)
    killing = KillingOnce(family, seed_of(2), str(tmp_path / "killed"))
    expected = table.predict(replace(family, log=str(tmp_path / "other")))
    assert (table.predict(killing, executor=LocalProcesses(2)) == expected).all()
    assert (tmp_path / "killed").exists()
    assert family.trained() == 10  # twelve, less the empty and the one-class shard


@pytest.mark.skipif(not os.path.isdir(PROC), reason="needs /proc")
def test_a_teacher_that_kills_every_worker_is_reported_and_the_others_are_kept(
    table, tmp_path, monkeypatch
):
    monkeypatch.setattr(executors, "ATTEMPTS", 2)
    family = Noting(str(tmp_path / "log"))
    before = children()
    with pytest.raises(TeacherFailed, match=r"^Some teachers failed \(WorkerDied\);"):
        table.predict(
            KillingAlways(family, seed_of(4), teachers_per_task=3),
            executor=LocalProcesses(1),
            checkpoint=tmp_path / "kept",
        )
    assert family.trained() == 9
    assert children() == before


@pytest.mark.skipif(not os.path.isdir(PROC), reason="needs /proc")
def test_a_run_that_is_stopped_leaves_no_worker_behind(table, tmp_path):
    before, threads = children(), threading.active_count()
    family = Noting(str(tmp_path / "log"))
    tasks = []
    run = LocalProcesses(2).run(*_job(family, table, tasks))
    next(run)
    assert children() != before
    run.close()
    assert children() == before
    assert threading.active_count() == threads


def _job(family, table, tasks):
    from tacit.teachers import sharded
    from tacit.teachers.tasks import Job

    run = sharded(table.X, table.y, table.shards, table.n_teachers, n_classes=3, random_state=0)
    return Job(family, table.X_query, 3), _noted(run.tasks(range(run.n_teachers)), tasks)


def _noted(tasks, seen):
    for task in tasks:
        seen.append(task.numbers)
        yield task


def test_shards_are_copied_only_when_there_is_room(table, tmp_path):
    asked: list[tuple[int, ...]] = []
    run = LocalProcesses(1).run(*_job(Noting(str(tmp_path / "log")), table, asked))
    next(run)
    copied = len(asked)
    # Read afterwards: a worker may have begun more meanwhile, never less.
    begun = len((tmp_path / "log").read_text().splitlines())
    assert copied <= begun + 2
    assert len(list(run)) == 11
    assert asked == [(number,) for number in range(12)]


def test_a_failure_in_a_worker_tells_its_type_and_nothing_else(table, tmp_path, capfd):
    table.X[np.flatnonzero(table.shards == 8)[0], 0] = CANARY
    with pytest.raises(TeacherFailed, match=r"^Some teachers failed \(Planted\);"):
        table.predict(Failing(str(tmp_path / "log")), executor=LocalProcesses(1))
    out, err = capfd.readouterr()
    assert "4815162" not in out + err


def test_what_a_worker_prints_is_not_shown_nor_disturbs_its_answers(table, capfd):
    class Chatty:
        """Defined here, so that a worker cannot import it: it travels by value."""

        def predict_shards(self, shards, X_query, *, n_classes):
            print("training", flush=True)
            sys.stdout.buffer.write(b"\0" * 100)
            os.write(1, b"bytes")
            return np.ones((len(shards), len(X_query)), dtype=int)

    predictions = table.predict(Chatty(), executor=LocalProcesses(1))
    assert (np.delete(predictions, [5, 7], axis=0) == 1).all()
    assert capfd.readouterr() == ("", "")


def test_a_worker_has_one_thread_and_ends_with_its_parent(tmp_path):
    script = (
        "import os, sys, time, numpy as np\n"
        "from tacit.teachers import LocalProcesses, predict_with_teachers\n"
        "class Waiting:\n"
        "    def predict_shards(self, shards, X_query, *, n_classes):\n"
        "        import threadpoolctl\n"
        "        parent = os.getppid()\n"
        "        limits = [pool['num_threads'] for pool in threadpoolctl.threadpool_info()]\n"
        f"        with open({str(tmp_path / 'pid')!r} + '.new', 'w') as file:\n"
        "            file.write(f'{os.getpid()} {max(limits)}')\n"
        f"        os.rename({str(tmp_path / 'pid')!r} + '.new', {str(tmp_path / 'pid')!r})\n"
        "        while os.getppid() == parent:\n"
        "            time.sleep(0.01)\n"
        "        return np.zeros((1, 1), dtype=int)\n"
        "predict_with_teachers(Waiting(), np.zeros((2, 1)), [0, 1], [0, 0], 1, [[0]],\n"
        "                      n_classes=2, executor=LocalProcesses(1))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        _wait((tmp_path / "pid").exists)
    finally:
        parent.kill()
        parent.wait()
    pid, threads = map(int, (tmp_path / "pid").read_text().split())
    assert threads == 1
    _wait(lambda: not _alive(pid))


def _wait(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Unloadable:
    """Can be sent and not be received."""

    def predict_shards(self, shards, X_query, *, n_classes):
        return np.zeros((len(shards), len(X_query)), dtype=int)

    def __reduce__(self):
        return (__import__, ("no_such_module_anywhere",))


def test_workers_that_cannot_load_the_teachers_end_the_run(table, capfd, monkeypatch):
    monkeypatch.setattr(executors, "ATTEMPTS", 2)
    with pytest.raises(TeacherFailed, match="could not load the teachers"):
        table.predict(Unloadable(), executor=LocalProcesses(1))
    assert "no_such_module_anywhere" in capfd.readouterr().err


def test_words_and_objects_that_stand_for_executors():
    assert isinstance(choose_executor("serial"), Serial)
    assert isinstance(choose_executor("local"), LocalProcesses)
    assert isinstance(choose_executor("tcp://10.0.0.1:8786"), DaskCluster)
    mine = LocalProcesses(3)
    assert choose_executor(mine) is mine
    for wrong in ("parallel", None, 3, LocalProcesses):
        with pytest.raises(InvalidArgument, match="Expected executor="):
            choose_executor(wrong)
    with pytest.raises(InvalidArgument, match="workers=0"):
        LocalProcesses(0)


def test_a_family_as_it_travels_is_the_same_family(mixed):
    """The fingerprint of a config must not change by being sent to a worker."""
    import cloudpickle

    from tacit.teachers.checkpoints import canonical

    for family in (*mixed.families, TorchTeacher(module, Recipe()), KernelRidgeTeachers()):
        sent = cloudpickle.loads(cloudpickle.dumps(family))
        assert b"".join(canonical(sent)) == b"".join(canonical(family))
