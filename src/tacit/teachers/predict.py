"""From private records to what every teacher answers: the secret that a mechanism will count.

Shards in, predictions out, whatever the executor: finished teachers are kept on disk, failed ones
are reported by type, and none is ever left out (the number of teachers is public and fixed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least
from tacit._files import PathLike
from tacit._quiet import terminal
from tacit.teachers.checkpoints import Checkpoints, NoCheckpoints
from tacit.teachers.executors import choose_executor
from tacit.teachers.fingerprints import job_fingerprint, shard_fingerprint
from tacit.teachers.runs import Run, checked_run
from tacit.teachers.sklearn_teacher import as_family
from tacit.teachers.tasks import Job, label_dtype
from tacit.teachers.trouble import Trouble


def predict_with_teachers(
    teacher: Any,
    X: ArrayLike,
    y: ArrayLike,
    shards: ArrayLike,
    n_teachers: int,
    X_query: ArrayLike,
    *,
    n_classes: int,
    executor: Any = "serial",
    random_state: int = 0,
    checkpoint: PathLike | None = None,
    progress: bool = True,
) -> NDArray[Any]:
    """Train a teacher on each shard and return its class for each query: (teachers, queries).

    `teacher`: a scikit-learn classifier or pipeline, a `TorchTeacher`, or a family such as
    `KernelRidgeTeachers()`. `y`: class indices 0 .. n_classes - 1. `shards`: each record's teacher,
    from `shard_of`. `executor`: "serial", "local" (processes of one thread), a dask.distributed
    Client or its address; the answers are the same bit for bit. `checkpoint`: a directory (mode
    0700) of finished teachers, from which a run that was stopped goes on. A shard without records
    votes class 0, one with a single class votes that. The result is SECRET; unit: what a shard
    holds the records of.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from tacit import count_votes
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> X = rng.normal(size=(300, 2)) + 5 * y[:, None]
    >>> from tacit.teachers import record_ids, shard_key, shard_of
    >>> shards = shard_of(record_ids(X), 10, shard_key(0))
    >>> queries = [[0, 0], [5, 5], [10, 10]]
    >>> count_votes(predict_with_teachers(GaussianNB(), X, y, shards, 10, queries, n_classes=3), 3)
    array([[10,  0,  0],
           [ 0, 10,  0],
           [ 0,  0, 10]])
    """
    run = checked_run(X, y, shards, n_teachers, X_query, n_classes, random_state)
    family = as_family(teacher)
    if hasattr(family, "validate"):  # a public rehearsal: its errors may say everything
        family.validate(run.X_query, n_classes=run.n_classes)
    job = Job(family, run.X_query, run.n_classes)
    where = choose_executor(executor)
    predictions = np.zeros((run.n_teachers, len(run.X_query)), dtype=label_dtype(run.n_classes))
    trouble = Trouble()
    with _checkpoints(checkpoint, run, job) as kept, _bar(run.n_teachers, progress) as advance:
        for number, row in kept.found.items():
            predictions[number] = row
            advance(1)
        size = at_least(1, teachers_per_task=getattr(family, "teachers_per_task", 1))
        for task, answers in where.run(job, run.tasks(size, kept.found)):
            for number, one in zip(task.numbers, answers, strict=True):
                trouble.note(one)
                if one.predictions is not None:
                    predictions[number] = one.predictions
                    kept.add(number, one.predictions)
            advance(len(task.numbers))
    trouble.report(
        kept=checkpoint is not None,
        look="fit the teacher on the records of one shard after another",
    )
    return predictions


def _checkpoints(directory: PathLike | None, run: Run, job: Job) -> NoCheckpoints:
    if directory is None:
        return NoCheckpoints()
    shared = job_fingerprint(job)
    numbers = range(run.n_teachers)
    return Checkpoints(
        directory, {number: shard_fingerprint(shared, run.shard(number)) for number in numbers}
    )


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many teachers have finished, where standard error is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with terminal() as stream:
        console = Console(file=stream)
        bar = Progress(
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with bar:
            task = bar.add_task("Training teachers", total=total)
            yield lambda count: bar.advance(task, count)
