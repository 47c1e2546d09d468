"""The checked inputs of a run: records in shards, public queries, a seed for each teacher."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, at_least, own_floats
from tacit.errors import InvalidArgument
from tacit.teachers.tasks import Shard, Task


@dataclass(frozen=True, slots=True)
class Run:
    """The checked inputs; `order` lists the records shard by shard, `first` where each begins."""

    X: NDArray[Any] = field(repr=False)
    y: Integers = field(repr=False)
    X_query: NDArray[Any] = field(repr=False)
    n_teachers: int
    n_classes: int
    random_state: int
    order: Integers = field(repr=False)
    first: Integers = field(repr=False)

    def shard(self, number: int) -> Shard:
        """Return a teacher's records, in the order of the data, and its own seed.

        As float64, always: the type of all records may be one record's doing.
        """
        records = self.order[self.first[number] : self.first[number + 1]]
        seed = np.random.SeedSequence([self.random_state, number]).generate_state(1)[0]
        return Shard(own_floats(X=self.X[records]), self.y[records], int(seed))

    def tasks(self, size: int, done: Container[int]) -> Iterator[Task]:
        """Yield what is left to do; a task's records are copied only when it is asked for."""
        left = [number for number in range(self.n_teachers) if number not in done]
        for start in range(0, len(left), size):
            numbers = tuple(left[start : start + size])
            yield Task(numbers, tuple(self.shard(number) for number in numbers))


def checked_run(
    X: ArrayLike,
    y: ArrayLike,
    shards: ArrayLike,
    n_teachers: int,
    X_query: ArrayLike,
    n_classes: int,
    random_state: int,
) -> Run:
    """Check shapes and ranges; messages quote no record, label or shard."""
    records, queries = _table("X", X), _table("X_query", X_query)
    if not len(queries) or records.shape[1:] != queries.shape[1:]:
        raise InvalidArgument(
            f"Expected X_query of shape (queries, *{records.shape[1:]}) as X has, with at least "
            f"one query, got shape {queries.shape}."
        )
    teachers = at_least(1, n_teachers=n_teachers)
    classes = at_least(2, n_classes=n_classes)
    labels = _indices("y", y, len(records), classes)
    places = _indices("shards", shards, len(records), teachers)
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], np.arange(teachers + 1))
    seed = at_least(0, random_state=random_state)
    queries = own_floats(X_query=queries)
    return Run(records, labels, queries, teachers, classes, seed, order, first)


def _table(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"Expected {name} to be an array of numbers of at least two dimensions, one row a "
            f"record, got dtype {array.dtype} and {array.ndim} dimensions."
        )
    return array


def _indices(name: str, values: ArrayLike, length: int, limit: int) -> Integers:
    array = np.asarray(values)
    if array.shape != (length,):
        raise InvalidArgument(f"Expected {name} of shape ({length},), one for each row of X.")
    if length and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= limit):
        raise InvalidArgument(f"Expected {name} to hold integers 0 .. {limit - 1}.")
    return array.astype(np.int64)
