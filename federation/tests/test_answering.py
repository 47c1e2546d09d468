"""Teachers of a site: processes of their own, and constant answers for whatever goes wrong."""

from __future__ import annotations

import os
import select
import threading

import numpy as np
import pytest
from spoiled import Spoiled

from tacit.errors import InvalidArgument
from tacit.teachers import KernelRidgeTeachers, shard_of
from tacit_federation import answering
from tacit_federation.answering import (
    Limits,
    _one_teacher,
    _run,
    ask_teachers,
    counts_of_answers,
)

KEY = b"k" * 32
INPUTS = np.eye(4, 3)
PATIENTS = np.array([f"patient-{number}" for number in range(40)])
X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 3
LIMITS = Limits(seconds=20, megabytes=4096)


def asked(rows, teachers=2, limits=LIMITS, y=Y):
    sizes = {"n_teachers": teachers, "n_classes": 3}
    return ask_teachers(Spoiled(), (rows, y, PATIENTS), INPUTS, **sizes, key=KEY, limits=limits)


def test_a_teacher_that_fails_answers_class_0_and_touches_no_other():
    """Every way to fail at once, each in the shard of one teacher; the last one is well."""
    teachers = 4
    shards = shard_of(PATIENTS, teachers, KEY)
    assert set(shards) == set(range(teachers))
    rows = X.copy()
    for teacher, way in enumerate((666.0, 667.0, 669.0)):
        rows[np.flatnonzero(shards == teacher)[0], 0] = way
    told = asked(rows, teachers)
    single = [len(set(Y[shards == teacher])) == 1 for teacher in range(teachers)]
    assert not any(single)  # a shard of one class is not trained, and would not fail
    assert (told[:3] == 0).all()
    assert (told[3] == 2).all()


def test_a_teacher_that_takes_too_long_is_ended_and_says_nothing(tmp_path, monkeypatch):
    waiting = tmp_path / "waiting"
    waiting.write_text("#!/bin/sh\nsleep 600\n")
    waiting.chmod(0o700)
    monkeypatch.setattr(answering.sys, "executable", str(waiting))
    monkeypatch.setattr(answering, "WALL_PER_CPU", 0)
    monkeypatch.setattr(answering, "WALL_EXTRA", 1)
    assert _one_teacher(("a job",), Limits(seconds=1, megabytes=4096)) is None


def test_a_record_that_cannot_be_read_is_left_out_and_no_other(capfd):
    sizes = {"n_teachers": 2, "n_classes": 3, "key": KEY, "limits": LIMITS}
    apart = (9 * np.eye(3)[Y] + X).tolist()
    less = ask_teachers(
        KernelRidgeTeachers(), (apart[1:], Y[1:], PATIENTS[1:]), np.array(apart[:5]), **sizes
    )
    odd = [{"X": [1.0]}, {"X": [1.0, "c4n4ry", 2.0]}, {"y": 17}, {"y": "c4n4ry"}, {"groups": None}]
    for cell in odd:
        X_odd = [cell.get("X", apart[0]), *apart[1:]]
        y_odd = [cell.get("y", Y[0]), *Y[1:]]
        people = [cell.get("groups", PATIENTS[0]), *PATIENTS[1:]]
        told = ask_teachers(
            KernelRidgeTeachers(), (X_odd, y_odd, people), np.array(apart[:5]), **sizes
        )
        assert np.array_equal(told, less)
    assert capfd.readouterr() == ("", "")


def test_a_family_trains_in_a_process_as_well():
    sizes = {"n_teachers": 1, "n_classes": 3, "key": KEY, "limits": LIMITS}
    apart = 9 * np.eye(3)[Y] + X
    told = ask_teachers(KernelRidgeTeachers(), (apart, Y, None), apart[:5], **sizes)
    assert (told[0] == Y[:5]).all()


def test_a_teacher_that_cannot_work_at_all_is_refused_before_any_record_is_used():
    sizes = {"n_teachers": 2, "n_classes": 3, "key": KEY, "limits": LIMITS}
    with pytest.raises(InvalidArgument, match="rehearsal"):
        ask_teachers(Spoiled(fails=True), (X, Y, PATIENTS), INPUTS, **sizes)
    with pytest.raises(InvalidArgument, match="rehearsal"):  # it cannot be sent to its process
        ask_teachers(threading.Lock(), (X, Y, PATIENTS), INPUTS, **sizes)
    with pytest.raises(InvalidArgument, match=r"of shape \(rows, 3\)"):
        ask_teachers(Spoiled(), (X[:, :2], Y, PATIENTS), INPUTS, **sizes)


def test_shapes_are_public_and_refused():
    with pytest.raises(InvalidArgument, match="one row for each record"):
        asked(X[:5])
    with pytest.raises(InvalidArgument, match="shape"):
        counts_of_answers(np.zeros((2, 3), int), teachers=2, queries=4, classes=3)


def test_given_answers_are_counted_and_odd_rows_are_class_0():
    told = [[0, 1, 2], [2, 2, -1], [1, 1, 1]]
    counts = counts_of_answers(np.array(told), teachers=3, queries=3, classes=3)
    assert counts.tolist() == [[2, 1, 0], [1, 2, 0], [1, 1, 1]]


def test_what_a_teacher_leaves_behind_ends_with_it(tmp_path):
    """A process that goes on would take time from the next teacher."""
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    script = f"exec 3>'{tmp_path}/held'; sleep 40 >/dev/null & echo said"
    try:
        assert _run(["/bin/sh", "-c", script], b"", dict(os.environ), LIMITS) == b"said\n"
        ended, _, _ = select.select([held], [], [], 10)  # readable once nobody holds the other end
        assert ended
    finally:
        os.close(held)
