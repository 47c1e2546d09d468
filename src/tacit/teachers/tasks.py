"""One task: train some teachers and return their answers, as a pure function.

A teacher's answers follow from (config, its shard, its seed, the public queries) alone, on one
thread, so that a task may run anywhere, and again. Training is silenced and errors are reported by
their type alone: any text may quote records.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument
from tacit.teachers.checkpoints import fingerprint

_T = TypeVar("_T")

_ALONE = threading.RLock()  # the limits of threads belong to the whole process
_seen: tuple[int, Any] | None = None

EMPTY_SHARD_VOTES = 0
"""The class that a teacher without records votes: fixed and public."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A teacher's records, the class index of each, and the seed of its training. Secret.

    Parameters
    ----------
    X : array of shape (records, ...), the records
    y : array of int of shape (records,) or (records, ...)
        Classes 0 .. n_classes - 1. Where records are scans (n, [channels,] *spatial), masks: a
        class for each voxel.
    seed : int, all randomness of this teacher's training, and of nothing else
    """

    X: NDArray[Any] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    seed: int

    def fingerprint(self, shared: bytes) -> str:
        """Hash all that this teacher's answers follow from.

        Parameters
        ----------
        shared : bytes, hash of what all teachers share: config, classes, queries

        Returns
        -------
        str
            32 hexadecimal digits, for a checkpoint. Secret: anyone who can guess a shard could
            confirm the guess.
        """
        return fingerprint(shared, self.seed, self.X, self.y).hex()[:32]


@runtime_checkable
class TeacherFamily(Protocol):
    """Teachers of one kind. Row t of the result depends on shard t and public things alone.

    Privacy requires this: no statistic, scale or padding may be shared between shards.
    `teachers_per_task` (1 where absent) is how many are trained at a time. An optional method
    `validate(X_query, n_classes=...)` checks the public queries first.
    """

    def predict_shards(
        self, shards: Sequence[Shard], X_query: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return each teacher's class for each query; every shard holds at least two classes.

        Parameters
        ----------
        shards : sequence of Shard, the teachers' records; secret
        X_query : array of shape (queries, ...), public queries
        n_classes : int, public

        Returns
        -------
        array of int of shape (shards, queries), secret
        """


class AnyJob(Protocol):
    """What all tasks of a run share, and how a worker answers one of them: a pure function."""

    def answer(self, shards: Sequence[Shard]) -> list[Answer]:
        """Train one teacher on each shard and let it answer every query."""

    def fingerprint(self) -> bytes:
        """Hash what all tasks share."""


class TeachersJob(AnyJob, Protocol):
    """A job of teachers."""

    @property
    def family(self) -> Any:
        """Teachers of one kind."""


@dataclass(frozen=True, slots=True)
class Job:
    """Teachers of classes: their config and the public queries."""

    family: TeacherFamily
    X_query: NDArray[Any] = field(repr=False)
    n_classes: int

    def answer(self, shards: Sequence[Shard]) -> list[Answer]:
        """Train one teacher on each shard and let it answer every query.

        An empty shard votes `EMPTY_SHARD_VOTES`; a shard of one class votes that class, untrained.
        """
        known = [_without_training(self, shard) for shard in shards]
        rest = [shard for shard, answer in zip(shards, known, strict=True) if answer is None]
        trained = iter(on_one_thread(lambda: _train(self, rest)))
        return [next(trained) if answer is None else answer for answer in known]

    def fingerprint(self) -> bytes:
        """Hash what all teachers share."""
        return fingerprint(self.family, self.n_classes, self.X_query)


@dataclass(frozen=True, slots=True)
class Task:
    """Some teachers, by number, and their shards."""

    numbers: tuple[int, ...]
    shards: tuple[Shard, ...] = field(repr=False)

    def alone(self) -> list[Task]:
        """Return a task for each teacher, to find the one that kills workers."""
        return [Task((self.numbers[k],), (self.shards[k],)) for k in range(len(self.numbers))]


@dataclass(frozen=True, slots=True)
class Answer:
    """One teacher's answers (secret), or the type of its error."""

    predictions: NDArray[Any] | None = field(default=None, repr=False)
    failure: str | None = None


def attempt(work: Callable[[], _T]) -> tuple[_T | None, str | None]:
    """Return the result of work on private records, or the type of its error, silenced."""
    with quiet():
        try:
            return work(), None
        except BaseException as error:
            return None, kind_of(error)


def label_dtype(n_classes: int) -> np.dtype[Any]:
    """Return the smallest type for class indices.

    >>> label_dtype(10).name, label_dtype(150_000).name
    ('uint8', 'uint32')
    """
    return np.min_scalar_type(n_classes - 1)


def _without_training(job: Job, shard: Shard) -> Answer | None:
    if shard.y.size and (shard.y != shard.y[0]).any():
        return None
    vote = shard.y[0] if shard.y.size else EMPTY_SHARD_VOTES
    return Answer(np.full(len(job.X_query), vote, dtype=label_dtype(job.n_classes)))


def _train(job: Job, shards: Sequence[Shard]) -> list[Answer]:
    if not shards:
        return []
    predictions, failure = attempt(lambda: _predictions(job, shards))
    if predictions is not None:
        return [Answer(row) for row in predictions]
    if len(shards) == 1:
        return [Answer(failure=failure)]
    # One of them failed: find out which, and keep the others.
    return [one for shard in shards for one in _train(job, [shard])]


def _predictions(job: Job, shards: Sequence[Shard]) -> NDArray[Any]:
    """Return predictions in their smallest type; error messages stay inside the task."""
    said = job.family.predict_shards(shards, job.X_query, n_classes=job.n_classes)
    array = np.asarray(said)
    if array.shape != (len(shards), len(job.X_query)) or array.dtype.kind not in "iu":
        raise InvalidArgument("Expected one class index for each shard and query.")
    if array.size and (array.min() < 0 or array.max() >= job.n_classes):
        raise InvalidArgument("Expected predictions to be class indices.")
    return array.astype(label_dtype(job.n_classes))


def on_one_thread(work: Callable[[], _T]) -> _T:
    """Do the work with every BLAS and OpenMP library at one thread, one such work at a time.

    Work that loads a library is done again, with that one limited: it must be a pure function.
    """
    with _ALONE:
        while True:
            pools = _pools()
            with pools.limit(limits=1):
                result = work()
            if _libraries(_pools()) == _libraries(pools):
                return result


def _pools() -> Any:
    """Find the loaded libraries; slow (milliseconds), so only after new imports."""
    global _seen  # noqa: PLW0603 - a process has one set of libraries
    from threadpoolctl import ThreadpoolController

    if _seen is None or _seen[0] != len(sys.modules):
        _seen = (len(sys.modules), ThreadpoolController())
    return _seen[1]


def _libraries(pools: Any) -> set[str]:
    return {library.filepath for library in pools.lib_controllers}
