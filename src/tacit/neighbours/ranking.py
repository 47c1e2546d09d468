"""Exact distances, and the order of records around a query: (distance, position).

Which of two records is nearer may depend on these two alone
(docs/theory/private-knn.md#what-one-unit-can-move). Ordinary float32 products round by the shapes
of matrices, so that one record more could move many neighbours at once: vectors are on a grid whose
products are exact, and ties go to the lower position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, as_array, blocks, positive
from tacit.errors import InvalidArgument

GRID_RADIUS = 2048
"""No quantised vector is longer: 2^11, the most for which all products are exact."""

Vectors = NDArray[np.float32]

# A block's few float64 arrays stay in the processor's cache.
BLOCK_NUMBERS = 2**17

# A row with a larger coordinate (16 radii) is shortened first; then all sums of squares are exact.
_LARGEST_COORDINATE = 2**15
_MOST_DIMENSIONS = 2**20

# What is too long is shortened by a little more than needed: see quantise.
_SHORTER = 1.0 - 2.0**-40


def quantise(features: ArrayLike, radius: float) -> Vectors:
    """Return integer vectors of length at most 2048, in float32: x 2048 / radius, rounded.

    Unit: one record; its result depends on its own row alone. Products are exact: by Cauchy and
    Schwarz the sum of x_i q_i over *any* set of coordinates is at most |x| |q| <= 2^22 in
    magnitude, an integer below 2^24, which float32 holds in every block, thread or fused operation;
    so are |x|^2 <= 2^22 and ||x|^2 - 2 x.q| <= 3 x 2^22 (`extended`, `questions`). This holds for
    libraries that add up float32 products, as BLAS does; not for Strassen's algorithm, nor for
    TF32. Every step is elementwise and correctly rounded, a maximum, or a sum of squares of
    integers of at most 2^15 in at most 2^20 dimensions, below 2^53 and so exact in float64. A
    rounded row of length n > 2048 is multiplied by 2048 (1 - 2^-40) / n and rounded towards zero;
    the errors of root, division and product are below 2^-50 together, so the length stays below
    2048.

    Parameters
    ----------
    features : array of shape (rows, dimensions), finite numbers, in at most 2**20 dimensions
    radius : float, expected largest length; longer vectors are scaled down to it; public

    Returns
    -------
    array of float32 of shape (rows, dimensions), whole numbers; as secret as the features

    Examples
    --------
    >>> quantise([[0.5, 0.0], [3.0, 4.0]], radius=1.0)
    array([[1024.,    0.],
           [1228., 1638.]], dtype=float32)
    """
    unit = positive(radius=radius)
    rows = feature_rows("features", features)
    result = np.empty(rows.shape, dtype=np.float32)
    for block in blocks(len(rows), BLOCK_NUMBERS // rows.shape[1]):
        result[block] = _quantise_block(rows[block], unit)
    return result


def extended(features: NDArray[np.generic], radius: float) -> Vectors:
    """Quantise records and append |x|^2: with `questions`, a product is |x|^2 - 2 x.q.

    Parameters
    ----------
    features : array of shape (rows, dimensions), of the records
    radius : float, as for `quantise`; public

    Returns
    -------
    array of float32 of shape (rows, dimensions + 1), whole numbers; as secret as the features

    Examples
    --------
    >>> extended(np.array([[0.5]]), 1.0) @ questions(np.array([[0.25]]), 1.0).T
    array([[0.]], dtype=float32)
    """
    vectors = quantise(features, radius)
    # Exact in any order: integers whose sum is at most 2^22.
    squares = np.einsum("ij,ij->i", vectors, vectors)
    return np.column_stack([vectors, squares])


def questions(features: ArrayLike, radius: float) -> Vectors:
    """Quantise queries as (-2 q, 1), the other half of `extended`.

    Parameters
    ----------
    features : array of shape (rows, dimensions), of the queries
    radius : float, as for `quantise`: the records' own; public

    Returns
    -------
    array of float32 of shape (rows, dimensions + 1), whole numbers
    """
    vectors = quantise(features, radius)
    return np.column_stack([-2.0 * vectors, np.ones(len(vectors), dtype=np.float32)])


def feature_rows(name: str, features: ArrayLike) -> NDArray[np.generic]:
    """Return features as an array (rows, dimensions) of numbers; errors never quote them."""
    rows = as_array(features)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= _MOST_DIMENSIONS:
        raise InvalidArgument(
            f"Expected {name} to be an array (rows, dimensions) of at least one dimension and at "
            f"most 2**20."
        )
    if rows.dtype.kind not in "iuf":
        raise InvalidArgument(f"Expected {name} to be an array of numbers.")
    return rows


def _quantise_block(rows: NDArray[np.generic], radius: float) -> NDArray[np.float64]:
    scaled = rows.astype(np.float64, order="C")
    largest = np.maximum(scaled.max(axis=1), -scaled.min(axis=1))
    if not np.isfinite(largest).all():
        raise InvalidArgument("Expected features to hold finite numbers only; remove NaN and inf.")
    # In this order nothing overflows.
    far = largest > radius * (_LARGEST_COORDINATE / GRID_RADIUS)
    scaled /= np.where(far, largest, radius)[:, None]
    scaled *= np.where(far, float(_LARGEST_COORDINATE), GRID_RADIUS)[:, None]
    np.rint(scaled, out=scaled)
    squares = np.einsum("ij,ij->i", scaled, scaled)
    long = squares > float(GRID_RADIUS**2)
    scaled[long] = np.trunc(scaled[long] * (GRID_RADIUS * _SHORTER / np.sqrt(squares[long, None])))
    return scaled


Positions = NDArray[np.int32]
Distances = NDArray[np.float32]

_POSITION_BITS = 32
_SAMPLED_ONE_IN = 16


class Ranking(NamedTuple):
    """The beginnings of some queries' orders; short rows end in -1. Secret.

    `unit_ranks`: how many other units came before each entry, the order of the coins; None where
    each entry is a unit of its own, and its rank is its column.
    """

    positions: Positions
    unit_ranks: Positions | None

    def of(self, rows: Integers) -> Ranking:
        """Return the orders of some of the queries."""
        ranks = None if self.unit_ranks is None else self.unit_ranks[rows]
        return Ranking(self.positions[rows], ranks)


class Units(NamedTuple):
    """Each record's unit, as a number below `total`, and how many records may represent one."""

    of_record: Integers
    total: int
    votes: int


def nearest(distances: Distances, reach: int) -> Integers:
    """Return the first `reach` positions in the order of (distance, position).

    A number below 2^24 and a position are packed into one integer, and integers have no ties.
    """
    candidates = np.flatnonzero(distances <= _likely_bound(distances, reach))
    if candidates.size < reach:  # the guess was too low
        last = min(reach, distances.size) - 1
        candidates = np.flatnonzero(distances <= np.partition(distances, last)[last])
    packed = packed_order(distances[candidates], candidates)
    packed.sort()
    packed &= 2**_POSITION_BITS - 1
    return packed[:reach]


def packed_order(distances: Distances, positions: Integers) -> Integers:
    """Return one integer for each (distance, position), in the same order.

    >>> packed_order(np.array([-1, 2], dtype=np.float32), np.array([7, 7])).tolist()
    [-4294967289, 8589934599]
    """
    packed = distances.astype(np.int64)
    packed <<= _POSITION_BITS
    packed |= positions
    return packed


def _likely_bound(distances: Distances, reach: int) -> np.float32:
    """Guess a distance that `reach` records do not exceed, from one in sixteen, unproved."""
    sample = distances[::_SAMPLED_ONE_IN]
    share = reach // _SAMPLED_ONE_IN
    place = share + 4 * math.isqrt(share) + 8
    if place >= sample.size // 2:
        return np.float32(-np.inf)
    return np.float32(np.partition(sample, place)[place])


def _nearest_units(distances: Distances, reach: int, units: Units) -> tuple[Integers, Integers]:
    """Return the order up to the first entry of the `reach`-th unit, and the units' ranks.

    An order that proves to hold too few units is begun again, longer, from the same distances.
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
    kept = _in_turn(owners, ranks, units.votes)
    if reach < units.total:
        kept[int(np.argmax(ranks == reach - 1)) + 1 :] = False
    return order[kept], ranks[kept]


def _in_turn(owners: Integers, ranks: Integers, votes: int) -> NDArray[np.bool_]:
    """Return which entries are among the first `votes` of their units."""
    return np.asarray(_turns(owners) < votes) if votes > 1 else _is_first(ranks)


def first_of_units(
    owners: Integers, reach: int, votes: int, *, more: bool
) -> tuple[NDArray[np.bool_], int]:
    """Return which entries `reach` units need, and the number of units; `more` may follow.

    >>> first_of_units(np.array([7, 3, 7, 7, 5, 3]), 2, 2, more=False)
    (array([ True,  True, False, False, False, False]), 3)
    """
    if not owners.size:
        return np.zeros(0, dtype=np.bool_), 0
    ranks = ranks_of_units(owners)
    found = int(ranks.max()) + 1
    kept = _in_turn(owners, ranks, votes)
    if found > reach or (more and found == reach):
        kept[int(np.argmax(ranks == reach - 1)) + 1 :] = False
    return kept, found


def ranks_of_units(owners: Integers) -> Integers:
    """For each entry: how many other units began before its own."""
    if not owners.size:
        return owners
    known = np.unique(owners, return_inverse=True)[1]
    return _unit_ranks(known, int(known.max()) + 1)


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
    """For each entry: how many of its own unit's came before it."""
    by_unit = np.argsort(owners, kind="stable")
    _, starts, lengths = np.unique(owners[by_unit], return_index=True, return_counts=True)
    turns = np.empty(owners.size, dtype=np.int64)
    turns[by_unit] = np.arange(owners.size) - np.repeat(starts, lengths)
    return turns


def rank_rows(distances: Distances, reach: int, units: Units | None) -> Ranking:
    """Rank the records for each row of distances; `reach` counts units."""
    if units is None or units.total == 0:
        reach = min(reach, distances.shape[1])
        positions = np.empty((len(distances), reach), dtype=np.int32)
        for row, its_distances in zip(positions, distances, strict=True):
            row[:] = nearest(its_distances, reach)
        return Ranking(positions, None)
    orders = [_nearest_units(its_distances, reach, units) for its_distances in distances]
    positions = padded([order for order, _ in orders])
    if units.votes == 1:
        return Ranking(positions, None)
    return Ranking(positions, padded([ranks for _, ranks in orders]))


def padded(rows: Sequence[NDArray[Any]]) -> Positions:
    """Stack rows of different lengths; what is missing is -1."""
    result = np.full((len(rows), max((row.size for row in rows), default=0)), -1, dtype=np.int32)
    for place, row in zip(result, rows, strict=True):
        place[: row.size] = row
    return result


def stacked(rankings: list[Ranking]) -> Ranking:
    """Join the rankings of blocks of queries into one."""
    positions = padded([row for each in rankings for row in each.positions])
    if rankings[0].unit_ranks is None:
        return Ranking(positions, None)
    ranks = [row for each in rankings if each.unit_ranks is not None for row in each.unit_ranks]
    return Ranking(positions, padded(ranks))
