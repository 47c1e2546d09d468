"""The one way from private records to teachers' answers, for labels as for masks.

Records in shards, a seed for each teacher, tasks for an executor; no teacher is ever left out
(their number is public and fixed). A failure stops the run before anything is released and shows
its type alone: its text may quote records, and which teachers failed, or how many, depends on them.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, at_least, blocks, own_floats
from tacit._files import PathLike
from tacit._progress import training_bar
from tacit.errors import InvalidArgument, TeacherFailed
from tacit.teachers.checkpoints import Checkpoints
from tacit.teachers.executors import LocalProcesses, choose_executor
from tacit.teachers.families import as_family, may_print
from tacit.teachers.tasks import Job, Shard, Task, TeachersJob, label_dtype


@dataclass(frozen=True, slots=True)
class Shards(ABC):
    """Private records, shard by shard: in memory (`Run`) or on disk. Secret.

    n_teachers: how many shards, with records or without. random_state: of all teachers' seeds.
    """

    n_teachers: int
    random_state: int

    @abstractmethod
    def records(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a teacher's records and their classes."""

    def own(self, number: int) -> int:
        """Return the part of a teacher's seed that is its own."""
        return number

    def shard(self, number: int) -> Shard:
        """Return a teacher's records and its own seed."""
        own = [self.random_state, self.own(number)]
        seed = np.random.SeedSequence(own).generate_state(1)[0]
        X, y = self.records(number)
        return Shard(X, y.astype(np.int64), int(seed))

    def tasks(self, numbers: Sequence[int], size: int = 1) -> Iterator[Task]:
        """Yield these teachers' tasks; records are copied only when a task is taken."""
        for block in blocks(len(numbers), size):
            some = tuple(numbers[block])
            yield Task(some, tuple(self.shard(number) for number in some))


@dataclass(frozen=True, slots=True)
class Run(Shards):
    """Private records in memory; `sharded` makes one. Secret.

    order, first: the rows shard by shard, and where each begins. names: of teachers, for their
    seeds where each unit is one, whose number depends on the other units. floats: turns a shard's
    records into numbers by themselves: the type of all records may depend on one.
    """

    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    order: Integers = field(repr=False)
    first: Integers = field(repr=False)
    names: Sequence[bytes] | None = field(default=None, repr=False)
    floats: Callable[..., NDArray[Any]] = own_floats

    def records(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a teacher's records, in their order, and their classes."""
        places = self.order[self.first[number] : self.first[number + 1]]
        return self.floats(X=self.X[places]), self.y[places]

    def own(self, number: int) -> int:
        """Return the part of a teacher's seed that is its own: its name, where it has one."""
        return number if self.names is None else zlib.crc32(self.names[number])

    def with_records(self) -> list[int]:
        """Return the numbers of the teachers that have records."""
        return [int(number) for number in np.flatnonzero(np.diff(self.first))]


def sharded(
    X: NDArray[Any],
    y: ArrayLike,
    shards: ArrayLike,
    n_teachers: int,
    *,
    n_classes: int,
    random_state: int,
    names: Sequence[bytes] | None = None,
    floats: Callable[..., NDArray[Any]] = own_floats,
    called: str = "y",
    order: Integers | None = None,
) -> Run:
    """Check the classes `y`, of records or of each voxel, and shards; errors quote neither.

    `order` lists the records, teacher by teacher (`teaching_order`), by default in the data's
    order; records that it omits are not used.
    """
    labels, places = np.asarray(y), np.asarray(shards)
    if labels.shape[:1] != X.shape[:1] or places.shape != X.shape[:1]:
        raise InvalidArgument(f"Expected {called} and shards to have one entry for each record.")
    teachers = at_least(1, n_teachers=n_teachers)
    for name, values, limit in ((called, labels, n_classes), ("shards", places, teachers)):
        if values.size and (
            values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= limit
        ):
            raise InvalidArgument(f"Expected {name} to hold integers 0 .. {limit - 1}.")
    order = np.argsort(places, kind="stable") if order is None else order
    first = np.searchsorted(places[order], np.arange(teachers + 1))
    seed = at_least(0, random_state=random_state)
    if names is not None and len(names) != teachers:
        raise InvalidArgument("Expected one name for each teacher.")
    return Run(teachers, seed, X, labels, order, first, names, floats)


def ask_teachers(
    job: TeachersJob,
    run: Shards,
    numbers: Sequence[int],
    take: Callable[[int, NDArray[Any] | None], None],
    *,
    executor: Any,
    checkpoint: PathLike | None,
    look: str,
    size: int = 1,
) -> None:
    """Query these teachers; `take` gets each one's number and SECRET answers, None of a failed one.

    `size`: teachers per task. `look` tells the owner how to find the cause of a failure, raised
    once, at the end.
    """
    where = choose_executor(executor)
    if isinstance(executor, str) and executor == "serial" and may_print(job.family):
        where = LocalProcesses(1)  # silent, descriptors included
    failures: set[str] = set()
    hashes: dict[int, str] = {}
    if checkpoint is not None:
        shared = job.fingerprint()
        hashes = {number: run.shard(number).fingerprint(shared) for number in numbers}
    with Checkpoints(checkpoint, hashes) as kept:
        for number, found in kept.found.items():
            take(number, found)
        left = [number for number in numbers if number not in kept.found]
        missing = set(left)
        for task, answers in where.run(job, run.tasks(left, size)):
            for number, one in zip(task.numbers, answers, strict=True):
                missing.discard(number)
                if one.predictions is not None:
                    kept.add(number, one.predictions)
                if one.failure is not None:
                    failures.add(one.failure)
                take(number, one.predictions)
    # Once and at the end: when a run stops must not tell which teacher failed.
    if missing:
        raise TeacherFailed("The executor did not answer for every teacher. Nothing was released.")
    if failures:
        others = "no checkpoint was kept"
        if checkpoint is not None:
            others = "the others are kept in the checkpoint"
        raise TeacherFailed(
            f"Some teachers failed ({', '.join(sorted(failures))}); {others}. Nothing was "
            f"released. To see the cause, for your own eyes, {look}."
        )


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
    """Train a teacher on each shard and return its class for each query.

    A shard without records votes class 0, one with a single class votes that. Unit: what a shard
    holds the records of.

    Parameters
    ----------
    teacher : estimator or family
        A scikit-learn classifier or pipeline, a `TorchTeacher`, or a family such as
        `KernelRidgeTeachers()`.
    X : array of shape (records, ...), private records, numbers only; secret
    y : array of int of shape (records,), class indices 0 .. n_classes - 1; secret
    shards : array of int of shape (records,), each record's teacher, from `shard_of`; secret
    n_teachers : int, how many teachers there are, with records or without; public
    X_query : array of shape (queries, ...), public queries, of the records' shape
    n_classes : int, how many classes there are, at least 2; public
    executor : str, Client or Executor
        "serial" (this process, or one worker where other packages' native code may print), "local"
        (processes of one thread), a dask.distributed Client or its address; the answers are the
        same bit for bit.
    random_state : int, seeds the teachers, each in its own way; never noise
    checkpoint : path, optional
        A directory (mode 0700) of finished teachers, from which a stopped run resumes. It holds
        secret answers.
    progress : bool, whether a bar is shown

    Returns
    -------
    array of int of shape (teachers, queries)
        SECRET: only a mechanism, through a ledger, may release it.

    Raises
    ------
    TeacherFailed
        Where a teacher failed, by the error's type alone. Nothing was released.

    Examples
    --------
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
    records, queries = _table("X", X), _table("X_query", X_query)
    if not len(queries) or records.shape[1:] != queries.shape[1:]:
        raise InvalidArgument(
            f"Expected X_query of shape (queries, *{records.shape[1:]}) as X has, with at least "
            f"one query, got shape {queries.shape}."
        )
    queries, classes = own_floats(X_query=queries), at_least(2, n_classes=n_classes)
    run = sharded(records, y, shards, n_teachers, n_classes=classes, random_state=random_state)
    return predict_with_shards(
        teacher,
        run,
        queries,
        n_classes=classes,
        executor=executor,
        checkpoint=checkpoint,
        progress=progress,
    )


def predict_with_shards(
    teacher: Any,
    run: Shards,
    queries: NDArray[Any],
    *,
    n_classes: int,
    executor: Any,
    checkpoint: PathLike | None,
    progress: bool = True,
) -> NDArray[Any]:
    """Do what `predict_with_teachers` does with records in shards, in memory or not. SECRET."""
    family = as_family(teacher)
    if hasattr(family, "validate"):  # a public rehearsal: its errors may say everything
        family.validate(queries, n_classes=n_classes)
    predictions = np.zeros((run.n_teachers, len(queries)), dtype=label_dtype(n_classes))
    with training_bar("Training teachers", run.n_teachers, shown=progress) as step:

        def take(number: int, row: NDArray[Any] | None) -> None:
            if row is not None:
                predictions[number] = row
            step()

        ask_teachers(
            Job(family, queries, n_classes),
            run,
            range(run.n_teachers),
            take,
            executor=executor,
            checkpoint=checkpoint,
            look="fit the teacher on the records of one shard after another",
            size=at_least(1, teachers_per_task=getattr(family, "teachers_per_task", 1)),
        )
    return predictions


def _table(name: str, values: ArrayLike) -> NDArray[Any]:
    """Check records or queries, which the message does not quote."""
    array = np.asarray(values)
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"Expected {name} to be an array of numbers of at least two dimensions, one row a "
            f"record, got dtype {array.dtype} and {array.ndim} dimensions."
        )
    return array
