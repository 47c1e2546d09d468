"""Private records as neighbours of public queries: held in an index, or passed block by block.

A fit that trains a student makes one pass over the records, in memory or from a table, and stores
the nearest of each query only. A fit that answers later holds the records in an index.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit._checks import count, sampling_rate, set_checked
from tacit._quiet import Secret
from tacit.errors import RecordsUnread
from tacit.mechanisms import Mechanism, Plan
from tacit.neighbours import (
    Nearest,
    Neighbourhoods,
    NeighbourIndex,
    Ranking,
    Search,
    default_reach,
    extended,
    questions,
)
from tacit.records import PrivateRecords, PublicSpace, StreamedRecords
from tacit.teachers import record_ids


@dataclass(frozen=True, slots=True)
class Neighbourly:
    """How neighbours are queried: all public. `n_classes` is None where targets are no classes."""

    k: int
    sampling_rate: float
    votes_per_unit: int
    n_classes: int | None

    def __post_init__(self) -> None:
        set_checked(self, k=count, sampling_rate=sampling_rate, votes_per_unit=count)

    def plan(self, mechanism: Mechanism, queries: int, max_answers: int | None = None) -> Plan:
        """Return so many uses of the mechanism."""
        return Plan(mechanism, queries, max_answers=max_answers, n_classes=self.n_classes)

    @property
    def sample(self) -> dict[str, Any]:
        """The fields that every mechanism on neighbours has."""
        names = ("k", "sampling_rate", "votes_per_unit")
        return {name: getattr(self, name) for name in names}

    @property
    def reach(self) -> int:
        """How many units are ranked around a query before sampling."""
        return default_reach(self.k, self.sampling_rate)


_Answer = TypeVar("_Answer")


class Turns:
    """A queue of answers: threads take turns; an event loop is not blocked while it waits.

    Work cancelled in the queue is never started; started work is finished. A copy has its own
    queue.
    """

    __slots__ = ("_thread", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # One thread, so that whoever waits takes none from the event loop's own pool.
        self._thread: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()

    async def taken(self, work: Callable[[], _Answer]) -> _Answer:
        """Run the work in one thread, after all that came before; the event loop goes on."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tacit-answers")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


@dataclass(frozen=True, slots=True, repr=False)
class RecordIndex(Secret):
    """Private records ready to be queried. Secret; it refuses to be pickled."""

    space: PublicSpace
    index: NeighbourIndex
    asked: Neighbourly

    def around(self, inputs: NDArray[Any]) -> Neighbourhoods:
        """Rank the records around public inputs. Secret."""
        return self.index.search(self.space.view(inputs), self.asked.reach)


def index_records(private: PrivateRecords, space: PublicSpace, asked: Neighbourly) -> RecordIndex:
    """Index the records in a public feature space; without finite features: left out. Secret."""
    seen, placed = space.seen(private.rows, np.asarray)
    left = private if placed.all() else private.only(placed)
    index = NeighbourIndex(
        seen,
        left.targets,
        keys=record_ids(left.rows),
        units=left.people,
        votes_per_unit=asked.votes_per_unit,
        radius=space.radius,
    )
    return RecordIndex(space, index, asked)


class PassingRecords(Secret):
    """Private records that are read block by block whenever their order is needed. Secret.

    The order is that of a `NeighbourIndex` of all records, whatever the blocks. One pass is
    enough, unless a draw needs records beyond `asked.reach` (a chance of 1e-6 a query; never
    without sampling): then a second pass looks farther.
    """

    __slots__ = ("_asked", "_passes", "_private", "_space", "_targets")

    def __init__(
        self, private: PrivateRecords | StreamedRecords, space: PublicSpace, asked: Neighbourly
    ) -> None:
        self._private, self._space, self._asked = private, space, asked
        self._targets: NDArray[Any] = np.empty(0)
        self._passes = 0

    def around(self, inputs: NDArray[Any]) -> Neighbourhoods:
        """Rank the records around public inputs: one pass over them. Secret."""
        vectors = questions(self._space.view(inputs), self._space.radius)
        return Neighbourhoods(self, vectors, self._asked.reach)

    @property
    def n_units(self) -> int:
        """An upper bound on the number of units: some may have no finite features. Secret."""
        return self._private.n_units

    @property
    def votes_per_unit(self) -> int:
        """How many of a query's neighbours may be one unit's."""
        return self._asked.votes_per_unit

    @property
    def targets(self) -> NDArray[Any]:
        """Targets of the records found near. Secret."""
        return self._targets

    def ranking(self, asked: NDArray[np.float32], reach: int) -> Ranking:
        """Rank the nearest `reach` units in one pass; return positions in `targets`. Secret."""
        search = Search(asked, reach, self.votes_per_unit)
        found = self._found(search)
        ranking = found.ranking(self.votes_per_unit)
        known = len(self._targets) if self._passes else 0
        shifted = np.where(ranking.positions < 0, -1, ranking.positions + known).astype(np.int32)
        self._targets = np.concatenate([self._targets, found.targets]) if known else found.targets
        self._passes += 1
        return Ranking(shifted, ranking.unit_ranks)

    def _found(self, search: Search) -> Nearest:
        found: Nearest | None = None
        try:
            for parts in self._private.parts(partial(_nearest, search, self._space.sent())):
                for part in parts:
                    found = part if found is None else search.join(found, part)
        except RecordsUnread:
            if self._passes:  # coins have been tossed, so it has been paid for
                raise RecordsUnread(
                    "Private records could not be read a second time, which an answer needed."
                ) from None
            raise
        assert found is not None  # there is one record at least
        return found


def _nearest(search: Search, space: PublicSpace, some: Iterator[PrivateRecords]) -> list[Nearest]:
    """Return the nearest of these records, if there are any: a pure function. Secret."""
    found: Nearest | None = None
    for records in some:
        vectors, placed = space.seen(records.rows, partial(extended, radius=space.radius))
        left = records if placed.all() else records.only(placed)
        found = search.look(found, vectors, left.targets, left.people, partial(_keys, left.rows))
    return [] if found is None else [found]


def _keys(rows: NDArray[Any], places: NDArray[np.int64]) -> NDArray[np.bytes_]:
    return record_ids(rows[places])
