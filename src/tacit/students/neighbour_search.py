"""Nearest public inputs: exact search by blocks, and lists where they are very many.

`nearest` is exact; `graph_neighbours` is exact up to `EXACT` inputs and beyond that searches the
lists of the nearest centres only, n^1.5 instead of n^2 steps. So does `nearest_in_lists`, where a
query's answer does not depend on other queries (`python -m benchmarks.student_search`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers, blocks

Features = NDArray[np.float32]

EXACT = 50_000
"""Up to so many inputs, a graph has the exact neighbours."""
LISTED = 20_000
"""With more points, new inputs are searched for in lists."""
_BLOCK = 1 << 22  # distances held at a time: 16 MiB
_GROUPS = 16  # numbers of which only the least is looked at first
_PROBES = 8
_PER_CENTRE = 40  # inputs for each centre, from which the centres are learned


def nearest(
    queries: NDArray[Any],
    rows: NDArray[Any],
    n_neighbors: int,
    *,
    same: bool = False,
    precise: bool = False,
) -> tuple[Integers, Features]:
    """Return the nearest rows of each query and their squared Euclidean distances, nearest first.

    `same`: queries and rows are one array, and no row is its own neighbour. In float32, |q|^2 - 2 q
    x + |x|^2 of centred rows; `precise` recomputes candidates in float64, so that the order does
    not depend on the machine. Of equally near rows, the first are taken.
    """
    if same and precise:
        raise ValueError("Expected same or precise, not both.")
    centre = rows.mean(axis=0, dtype=np.float64)
    points: Features = np.asarray(rows - centre, dtype=np.float32)
    squares = np.einsum("ij,ij->i", points, points)
    found = np.empty((len(queries), n_neighbors), dtype=np.int64)
    distances = np.empty((len(queries), n_neighbors), dtype=np.float32)
    for block in blocks(len(queries), _BLOCK // len(points)):
        some: Features = np.asarray(queries[block] - centre, dtype=np.float32)
        lengths = np.einsum("ij,ij->i", some, some)
        gaps = _gaps(some, lengths, points, squares)
        if same:
            gaps[np.arange(len(some)), np.arange(block.start, block.stop)] = np.inf
        if precise:
            slack = _rounding(lengths, squares, points.shape[1])
            columns, values = _lowest(gaps, min(4 * n_neighbors + 4, len(points)))
            beyond = values.max(axis=1) - slack  # what was left out is no nearer than this
            found[block], distances[block] = _precise(
                queries[block], rows, columns, beyond, n_neighbors, lambda _: np.arange(len(rows))
            )
        else:
            found[block], distances[block] = _smallest(gaps, n_neighbors)
    return found, distances


def _gaps(some: Features, lengths: Features, points: Features, squares: Features) -> Features:
    gaps: Features = some @ points.T
    gaps *= -2
    gaps += squares
    gaps += lengths[:, None]
    return gaps


def _smallest(gaps: Features, count: int) -> tuple[Integers, Features]:
    columns, values = _lowest(gaps, count)
    # Where more are as near as the last of them, a partition takes any; the first ones are meant.
    crowded = (gaps <= values.max(axis=1, keepdims=True)).sum(axis=1) > count
    columns[crowded] = np.argsort(gaps[crowded], axis=1, kind="stable")[:, :count]
    values[crowded] = np.take_along_axis(gaps[crowded], columns[crowded], axis=1)
    return _in_order(columns, values, count)


def _lowest(gaps: Features, count: int) -> tuple[Integers, Features]:
    """Return the columns and values of the lowest of each row, in any order.

    They are in the `count` groups with the lowest minima: only those are searched.
    """
    groups = gaps.shape[1] // _GROUPS
    if groups <= 2 * count:
        columns = np.argpartition(gaps, count - 1, axis=1)[:, :count]
        return columns, np.take_along_axis(gaps, columns, axis=1)
    grouped = groups * _GROUPS
    # Not min: what overflowed to no number must not hide the rest of its group.
    least = np.fmin.reduce(gaps[:, :grouped].reshape(len(gaps), _GROUPS, groups), axis=1)
    chosen = np.argpartition(least, count - 1, axis=1)[:, :count, None]
    columns = (chosen + groups * np.arange(_GROUPS)).reshape(len(gaps), -1)
    rest = np.broadcast_to(np.arange(grouped, gaps.shape[1]), (len(gaps), gaps.shape[1] - grouped))
    columns = np.concatenate([columns, rest], axis=1)
    values = np.take_along_axis(gaps, columns, axis=1)
    kept = np.argpartition(values, count - 1, axis=1)[:, :count]
    return np.take_along_axis(columns, kept, axis=1), np.take_along_axis(values, kept, axis=1)


def _in_order(columns: Integers, values: NDArray[Any], count: int) -> tuple[Integers, Features]:
    order = np.lexsort((columns, values), axis=1)[:, :count]  # ties by row number
    smallest = np.take_along_axis(values, order, axis=1)
    return np.take_along_axis(columns, order, axis=1), np.maximum(smallest, 0)


def _rounding(lengths: Features, squares: Features, dimension: int) -> Floats:
    """Return a bound on the float32 error of a gap: (d + 8) 2^-23 (|q| + max |x|)^2.

    Each sum of d products errs by at most (d + 1) 2^-24 of its absolute terms (Higham, "Accuracy
    and Stability of Numerical Algorithms", 3.1), in all (|q| + |x|)^2; the rest is for other
    roundings.
    """
    reach = np.sqrt(lengths, dtype=np.float64) + np.sqrt(squares.max(), dtype=np.float64)
    return np.asarray((dimension + 8) * 2.0**-23 * reach**2)


def _precise(
    queries: NDArray[Any],
    rows: NDArray[Any],
    columns: Integers,
    beyond: Floats,
    count: int,
    every: Callable[[int], Integers],
) -> tuple[Integers, Features]:
    """Take the nearest by float64 among some rows of each query.

    Its other rows are no nearer than `beyond`; where that does not exclude them, `every` is
    compared.
    """
    found, distances = _in_order(columns, _squared(queries, rows, columns), count)
    for query in np.flatnonzero(~(distances[:, -1] < beyond.astype(np.float32))):
        others = every(int(query))[None]
        exact = _squared(queries[query : query + 1], rows, others)
        found[query], distances[query] = (part[0] for part in _in_order(others, exact, count))
    return found, distances


def _squared(queries: NDArray[Any], rows: NDArray[Any], columns: Integers) -> Features:
    """Return sum (q - x)^2 for some rows of each query, summed in float64."""
    squared = np.empty(columns.shape, dtype=np.float32)  # a column below 0 stands for none
    for part in blocks(len(columns), _BLOCK // (columns.shape[1] * rows.shape[1] + 1)):
        apart = rows[columns[part]].astype(np.float64) - queries[part][:, None]
        squared[part] = np.einsum("ijk,ijk->ij", apart, apart)
    squared[columns < 0] = np.inf
    return squared


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Points, each in the list of its nearest centre.

    `members`: row numbers, list by list; `starts`: where each begins; `centred`, `squares`: the
    points less their `middle`, in that order, and their squared lengths.
    """

    points: Features
    centres: Features
    members: Integers
    starts: Integers
    middle: Floats
    centred: Features
    squares: Features

    @classmethod
    def around(cls, centres: Features, points: Features) -> Lists:
        """Put points into lists; of equally near centres a point goes to the first."""
        members, starts = _grouped(nearest(points, centres, 1, precise=True)[0][:, 0], len(centres))
        middle = points.mean(axis=0, dtype=np.float64)
        centred: Features = np.asarray(points[members] - middle, dtype=np.float32)
        squares = np.einsum("ij,ij->i", centred, centred)
        return cls(points, centres, members, starts, middle, centred, squares)

    @classmethod
    def of(cls, points: Features) -> Lists | None:
        """Return sqrt(n) lists; None for few points, where comparing with all is as quick."""
        if len(points) <= LISTED:
            return None
        middle = points.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls.around(_centres(points - middle, round(np.sqrt(len(points)))) + middle, points)

    def near(self, look: Integers) -> Integers:
        """Return the rows of the points in some lists."""
        parts = (self.members[self.starts[each] : self.starts[each + 1]] for each in look)
        return np.concatenate(list(parts))


def nearest_in_lists(
    queries: NDArray[Any], lists: Lists, n_neighbors: int
) -> tuple[Integers, Features]:
    """Return what `nearest(precise=True)` does, among the points of a query's nearest lists alone.

    All in float64: a query's answer is a function of the query. Too short lists are replaced by
    all.
    """
    looks = nearest(queries, lists.centres, min(_PROBES, len(lists.centres)), precise=True)[0]
    some: Features = np.asarray(queries - lists.middle, dtype=np.float32)
    lengths = np.einsum("ij,ij->i", some, some)
    columns, values = _shortlist(some, lengths, looks, lists, 4 * n_neighbors + 4)
    beyond = values.max(axis=1) - _rounding(lengths, lists.squares, some.shape[1])

    def every(query: int) -> Integers:
        near = lists.near(looks[query])
        return near if len(near) >= n_neighbors else np.arange(len(lists.points))

    return _precise(queries, lists.points, columns, beyond, n_neighbors, every)


def _shortlist(
    some: Features, lengths: Features, looks: Integers, lists: Lists, wide: int
) -> tuple[Integers, Features]:
    """Return the `wide` points of each query's lists that seem nearest; -1 and inf for none."""
    pairs, starts = _grouped(looks.reshape(-1), len(lists.centres))
    columns = np.full((looks.size, wide), -1)
    gaps = np.full((looks.size, wide), np.inf, dtype=np.float32)
    for each in range(len(lists.centres)):
        asking = pairs[starts[each] : starts[each + 1]]
        held = slice(lists.starts[each], lists.starts[each + 1])
        listed, squares = lists.members[held], lists.squares[held]
        for part in blocks(len(asking) * bool(len(listed)), _BLOCK // max(1, len(listed))):
            rows, visitors = asking[part], asking[part] // looks.shape[1]
            new = _gaps(some[visitors], lengths[visitors], lists.centred[held], squares)
            kept, new = _lowest(new, min(wide, len(listed)))
            columns[rows, : new.shape[1]], gaps[rows, : new.shape[1]] = listed[kept], new
    kept, values = _lowest(gaps.reshape(len(looks), -1), wide)
    return np.take_along_axis(columns.reshape(len(looks), -1), kept, axis=1), values


def graph_neighbours(points: Features, n_neighbors: int) -> Integers:
    """Return the neighbours of each point among the others: exactly up to `EXACT` points.

    Beyond, each point searches the lists of its eight nearest of sqrt(n) centres and misses about
    one neighbour in a hundred on images. Deterministic.
    """
    if len(points) <= EXACT:
        return nearest(points, points, n_neighbors, same=True)[0]
    return _by_lists(points, n_neighbors, round(np.sqrt(len(points))))


def _by_lists(points: Features, n_neighbors: int, n_lists: int) -> Integers:
    """Update the best of each point, list by list."""
    centred = points - points.mean(axis=0, dtype=np.float64).astype(np.float32)
    looks = nearest(centred, _centres(centred, n_lists), _PROBES)[0]
    squares = np.einsum("ij,ij->i", centred, centred)
    members, starts = _grouped(looks[:, 0], n_lists)
    best = np.full((len(points), n_neighbors), -1)
    gaps = np.full((len(points), n_neighbors), np.inf, dtype=np.float32)
    for look in range(_PROBES):
        visitors, their_starts = _grouped(looks[:, look], n_lists)
        for each in range(n_lists):
            asking = visitors[their_starts[each] : their_starts[each + 1]]
            listed = members[starts[each] : starts[each + 1]]
            for part in blocks(len(asking), _BLOCK // max(1, len(listed))):
                some = asking[part]
                new = _gaps(centred[some], squares[some], centred[listed], squares[listed])
                if look == 0:  # a point is in its own nearest list, and in no other
                    new[some[:, None] == listed] = np.inf
                _keep_best(best, gaps, some, listed, new)
    return _filled(best)


def _centres(points: Features, n_lists: int) -> Features:
    from sklearn.cluster import MiniBatchKMeans

    rng = np.random.default_rng(0)
    some = rng.choice(len(points), min(len(points), _PER_CENTRE * n_lists), replace=False)
    means = MiniBatchKMeans(
        n_lists, batch_size=4096, n_init=1, max_iter=8, random_state=0, compute_labels=False
    )
    return np.asarray(means.fit(points[some]).cluster_centers_, dtype=np.float32)


def _grouped(homes: Integers, n_lists: int) -> tuple[Integers, Integers]:
    """Return the points in the order of their lists, and where each list begins."""
    order = np.argsort(homes, kind="stable")
    return order, np.searchsorted(homes[order], np.arange(n_lists + 1))


def _keep_best(
    best: Integers, gaps: Features, some: Integers, listed: Integers, new: Features
) -> None:
    count = best.shape[1]
    if new.shape[1] > count:
        columns = np.argpartition(new, count - 1, axis=1)[:, :count]
        new, candidates = np.take_along_axis(new, columns, axis=1), listed[columns]
    else:
        candidates = np.broadcast_to(listed, new.shape)
    both = np.concatenate([gaps[some], new], axis=1)
    names = np.concatenate([best[some], candidates], axis=1)
    kept = np.argpartition(both, count - 1, axis=1)[:, :count]
    gaps[some] = np.take_along_axis(both, kept, axis=1)
    best[some] = np.take_along_axis(names, kept, axis=1)


def _filled(best: Integers) -> Integers:
    """Fill rows of too few neighbours with their first one again, or the next point."""
    alone = (np.arange(len(best)) + 1) % len(best)
    first = np.where(best.max(axis=1) >= 0, best.max(axis=1), alone)
    return np.where(best < 0, first[:, None], best)
