"""Equal configs have equal fingerprints in every process; different ones do not."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from teacher_families import Noting

from tacit.teachers import KernelRidgeTeachers, Recipe
from tacit.teachers.checkpoints import canonical
from tacit.teachers.tasks import Job

HERE = Path(__file__).parent


def written(value) -> bytes:
    return b"".join(canonical(value))


def scaled(batch, factor=2):
    return batch * factor


class Adder:
    """A callable with a state, and neither parameters nor a name of its own."""

    def __init__(self, state):
        self.state = state

    def __call__(self, batch):
        return batch + self.state


def closing_over(value):
    return lambda batch: batch * value


CONFIGS = [
    None,
    0,
    0.0,
    False,
    "",
    b"",
    [],
    {},
    [0, 1],
    [[0], 1],
    [0, [1]],
    ["01"],
    ["0", "1"],
    {"a": 1},
    {"a": 2},
    {"b": 1},
    {1, 2},
    {1, 3},
    np.array([1, 2]),
    np.array([1.0, 2.0]),
    np.array([[1, 2]]),
    np.array(["a", None], dtype=object),
    np.float64(0.5),
    np.zeros((0, 3)),
    KernelRidgeTeachers(),
    KernelRidgeTeachers(gamma=2),
    LogisticRegression(),
    LogisticRegression(C=2),
    RandomForestClassifier(max_depth=3),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(with_mean=False), LogisticRegression()),
    Recipe(),
    Recipe(augment=scaled),
    Recipe(augment=partial(scaled, factor=3)),
    scaled,
    closing_over(1),
    closing_over(2),
    np.mean,
    np.sum,
    KernelRidgeTeachers,
    range(3),
    range(4),
    Adder(1),
    Adder(2),
    "x".join,
    "y".join,
]


def test_different_configs_are_written_differently():
    forms = [written(config) for config in CONFIGS]
    assert len(set(forms)) == len(CONFIGS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"one", "two", "three"}, {"three", "two", "one"}),
        (LogisticRegression(C=1.0, tol=1e-4), LogisticRegression()),
        (np.arange(4), np.arange(8)[::2] // 2),
        (closing_over(5), closing_over(5)),
        (Adder(5), Adder(5)),
        ([1, 2], (1, 2)),
    ],
)
def test_equal_configs_are_written_alike(one, other):
    assert written(one) == written(other)


@pytest.mark.long
def test_the_same_in_another_process():
    """Also where strings hash differently, as they do from process to process."""
    code = (
        f"import sys; sys.path.append({str(HERE.parent)!r}); "
        "from test_checkpoints_fingerprints import example_job; "
        "print(example_job().fingerprint().hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=HERE,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop()) == 128


def example_job() -> Job:
    config = (Noting("log"), LogisticRegression(class_weight={"a": 1, "b": 2}), {"x", "y", "z"})
    return Job(config, np.arange(6.0).reshape(3, 2), 3)


def test_queries_and_classes_count():
    job = example_job()
    assert job.fingerprint() == example_job().fingerprint()
    others = [
        Job(job.family, job.X_query + 1, 3),
        Job(job.family, job.X_query.astype(np.float32), 3),
        Job(job.family, job.X_query.reshape(2, 3), 3),
        Job(job.family, job.X_query, 4),
        Job(Noting("log"), job.X_query, 3),
    ]
    assert len({one.fingerprint() for one in (job, *others)}) == 6
