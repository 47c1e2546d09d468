"""The order of records around a query: (distance, position), and one unit's few representatives.

The total order of docs/theory/private-knn.md#what-one-unit-can-move. Distances are exact
(`tacit.neighbours.quantising`) and ties go to the lower position, so that partial selection gives
the very beginning of the full order. Where a unit has several records, only its nearest
`votes_per_unit` stand in the order; which they are depends on its own records alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers

Positions = NDArray[np.int32]
Distances = NDArray[np.float32]

_POSITION_BITS = 32
_SAMPLED_ONE_IN = 16


class Ranking(NamedTuple):
    """The beginnings of some queries' orders; short rows end in -1. Secret.

    `unit_ranks` says, for each entry, how many other units came first in the row: these are the
    coins that a Poisson sample of units tosses, in order. It is None where every entry is a unit
    of its own, and its rank is its column.
    """

    positions: Positions
    unit_ranks: Positions | None

    def of(self, rows: Integers) -> Ranking:
        """Return the orders of some of the queries."""
        ranks = None if self.unit_ranks is None else self.unit_ranks[rows]
        return Ranking(self.positions[rows], ranks)


class Units(NamedTuple):
    """Whose each record is, as a number below `total`, and how many records may stand for one."""

    of_record: Integers
    total: int
    votes: int


def nearest(distances: Distances, reach: int) -> Integers:
    """Return the first `reach` positions in the order of (distance, position).

    A number below 2^24 and a position are packed into one integer, and integers have no ties.

    >>> nearest(np.array([3, 1, 2, 1], dtype=np.float32), 2).tolist()
    [1, 3]
    """
    candidates = _within(distances, _likely_bound(distances, reach))
    if candidates.size < reach < distances.size:
        candidates = _within(distances, np.partition(distances, reach - 1)[reach - 1])
    elif candidates.size < reach:
        candidates = np.arange(distances.size)
    packed = distances[candidates].astype(np.int64)
    packed <<= _POSITION_BITS
    packed |= candidates
    packed.sort()
    packed &= 2**_POSITION_BITS - 1
    return packed[:reach]


def _within(distances: Distances, bound: np.float32) -> Integers:
    """Return all positions no farther than the bound, ties included."""
    return np.flatnonzero(distances <= bound)


def _likely_bound(distances: Distances, reach: int) -> np.float32:
    """Guess a distance that `reach` records do not exceed, from one record in sixteen.

    Where the guess is too low, too few records lie within it, and the caller notices.
    """
    sample = distances[::_SAMPLED_ONE_IN]
    share = reach // _SAMPLED_ONE_IN
    place = share + 4 * math.isqrt(share) + 8
    if place >= sample.size // 2:
        return np.float32(-np.inf)
    return np.float32(np.partition(sample, place)[place])


def nearest_units(distances: Distances, reach: int, units: Units) -> tuple[Integers, Integers]:
    """Return the order up to where the `reach`-th unit first stands in it, and the units' ranks.

    All of the order if there are no more units than that. An order that proves to hold too few
    units is begun again, longer, from the same distances.
    """
    reach = min(reach, units.total)
    length = reach * distances.size // units.total
    while True:
        length = min(length, distances.size) if reach < units.total else distances.size
        order = nearest(distances, length)
        owners = units.of_record[order]
        ranks = _unit_ranks(owners, units.total)
        found = int(ranks.max()) + 1
        if found >= reach:
            break
        # A little more than in proportion, so that this seldom happens twice.
        length = length + 16 + length * 5 * (reach - found) // (4 * found)
    kept = _turns(owners) < units.votes if units.votes > 1 else _is_first(ranks)
    if reach < units.total:
        kept[int(np.argmax(ranks == reach - 1)) + 1 :] = False
    return order[kept], ranks[kept]


def _unit_ranks(owners: Integers, total: int) -> Integers:
    """For each entry: how many other units began before its own.

    >>> _unit_ranks(np.array([7, 3, 7, 7, 5, 3]), 8).tolist()
    [0, 1, 0, 0, 2, 1]
    """
    entries = np.arange(owners.size)
    first_entry = np.full(total, owners.size)
    np.minimum.at(first_entry, owners, entries)
    begins = first_entry[owners]
    return np.asarray((np.cumsum(begins == entries) - 1)[begins])


def _is_first(unit_ranks: Integers) -> NDArray[np.bool_]:
    """Whether a unit has its first entry here: ranks rise there, and only there."""
    return np.asarray(np.diff(np.maximum.accumulate(unit_ranks), prepend=-1) > 0)


def _turns(owners: Integers) -> Integers:
    """For each entry: how many of its own unit's came before it.

    >>> _turns(np.array([7, 3, 7, 7, 5, 3])).tolist()
    [0, 0, 1, 2, 0, 1]
    """
    by_unit = np.argsort(owners, kind="stable")
    ordered = owners[by_unit]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, ordered.size])
    turns = np.empty(ordered.size, dtype=np.int64)
    turns[by_unit] = np.arange(ordered.size) - np.repeat(starts, lengths)
    return turns


def rank_rows(distances: Distances, reach: int, units: Units | None) -> Ranking:
    """Rank the records for each row of distances; `reach` counts units."""
    if units is None or units.total == 0:
        reach = min(reach, distances.shape[1])
        positions = np.empty((len(distances), reach), dtype=np.int32)
        for row, its_distances in zip(positions, distances, strict=True):
            row[:] = nearest(its_distances, reach)
        return Ranking(positions, None)
    orders = [nearest_units(its_distances, reach, units) for its_distances in distances]
    positions = _padded([order for order, _ in orders])
    if units.votes == 1:
        return Ranking(positions, None)
    return Ranking(positions, _padded([ranks for _, ranks in orders]))


def _padded(rows: list[Integers]) -> Positions:
    """Stack rows of different lengths; what is missing is -1."""
    result = np.full((len(rows), max((row.size for row in rows), default=0)), -1, dtype=np.int32)
    for place, row in zip(result, rows, strict=True):
        place[: row.size] = row
    return result


def stacked(rankings: list[Ranking]) -> Ranking:
    """Join the rankings of blocks of queries into one."""
    if len(rankings) == 1:
        return rankings[0]
    positions = _joined([each.positions for each in rankings])
    if rankings[0].unit_ranks is None:
        return Ranking(positions, None)
    return Ranking(
        positions, _joined([r for each in rankings if (r := each.unit_ranks) is not None])
    )


def _joined(blocks: list[Positions]) -> Positions:
    width = max(block.shape[1] for block in blocks)
    result = np.full((sum(map(len, blocks)), width), -1, dtype=np.int32)
    start = 0
    for block in blocks:
        result[start : start + len(block), : block.shape[1]] = block
        start += len(block)
    return result
