"""From private records to what every teacher answers: the secret that a mechanism will count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least, own_floats
from tacit._files import PathLike
from tacit._quiet import terminal
from tacit.errors import InvalidArgument
from tacit.teachers.pipeline import ask_teachers, sharded
from tacit.teachers.sklearn_teacher import as_family
from tacit.teachers.tasks import Job, label_dtype


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
    records, queries, classes = _tables(X, X_query, n_classes)
    run = sharded(records, y, shards, n_teachers, n_classes=classes, random_state=random_state)
    family = as_family(teacher)
    if hasattr(family, "validate"):  # a public rehearsal: its errors may say everything
        family.validate(queries, n_classes=classes)
    predictions = np.zeros((run.n_teachers, len(queries)), dtype=label_dtype(classes))
    with _bar(run.n_teachers, progress) as advance:

        def take(number: int, row: NDArray[Any] | None) -> None:
            if row is not None:
                predictions[number] = row
            advance(1)

        ask_teachers(
            Job(family, queries, classes),
            run,
            range(run.n_teachers),
            take,
            executor=executor,
            checkpoint=checkpoint,
            look="fit the teacher on the records of one shard after another",
            size=at_least(1, teachers_per_task=getattr(family, "teachers_per_task", 1)),
        )
    return predictions


def _tables(
    X: ArrayLike, X_query: ArrayLike, n_classes: int
) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Check records and queries; messages quote neither."""
    records, queries = _table("X", X), _table("X_query", X_query)
    if not len(queries) or records.shape[1:] != queries.shape[1:]:
        raise InvalidArgument(
            f"Expected X_query of shape (queries, *{records.shape[1:]}) as X has, with at least "
            f"one query, got shape {queries.shape}."
        )
    return records, own_floats(X_query=queries), at_least(2, n_classes=n_classes)


def _table(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"Expected {name} to be an array of numbers of at least two dimensions, one row a "
            f"record, got dtype {array.dtype} and {array.ndim} dimensions."
        )
    return array


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
