"""Neighbourhoods of queries, and fresh Poisson samples of them, drawn lazily.

Coins are independent of the order, so only as many are tossed as the first k heads need; geometric
skips stand for the tails (docs/theory/private-knn.md#a-walk-instead-of-coins). Beyond the stored
ranks the skips stay and the search goes on: to toss again, or to stop, would be another mechanism
at another price.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, as_array, at_least, blocks, probability, sampling_rate
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.neighbours.ranking import Ranking, Vectors
from tacit.noise import Noise

# Entries looked at together: bounds the temporary arrays of a draw.
_ENTRIES_AT_ONCE = 2**22
_MOST_NEIGHBOURS = 2**30


class Ranked(Protocol):
    """Records that can be ranked around queries: `NeighbourIndex`, or a reader of blocks.

    Positions are those in `targets`; a farther ranking may add to its end.
    """

    @property
    def n_units(self) -> int:
        """How many units there are, at the most. Secret."""

    @property
    def votes_per_unit(self) -> int:
        """How many of a query's neighbours may be one unit's."""

    @property
    def targets(self) -> NDArray[Any]:
        """The targets of the records that were ranked. Secret."""

    def ranking(self, asked: Vectors, reach: int) -> Ranking:
        """Rank the nearest `reach` units for `questions`. Secret."""


class Neighbourhoods(Secret):
    """The records around each of some public queries, nearest first. Secret.

    Made by `NeighbourIndex.search`. Each draw tosses new coins: a check and an answer, or two
    queries, never share a sample. What a draw returns and how far it walked are for a mechanism
    alone. Its time depends on the data too, and is not hidden. Source:
    docs/theory/private-knn.md#a-walk-instead-of-coins.

    Parameters
    ----------
    index : NeighbourIndex or alike, the records
    asked : array of shape (queries, dimensions + 1), quantised queries, from `questions`
    reach : int, units ranked in advance, for speed and memory only
    """

    __slots__ = ("_asked", "_index", "_ranking", "_reach")

    def __init__(self, index: Ranked, asked: Vectors, reach: int) -> None:
        self._index = index
        self._asked = asked
        self._reach = min(reach, index.n_units)
        self._ranking = index.ranking(asked, self._reach)

    @property
    def n_queries(self) -> int:
        """How many queries these are; public."""
        return len(self._asked)

    @property
    def votes_per_unit(self) -> int:
        """How many of a query's neighbours may be one unit's; public."""
        return self._index.votes_per_unit

    @property
    def targets(self) -> NDArray[Any]:
        """The records' targets, (n, ...), at the positions that `draw` returns. Secret."""
        return self._index.targets

    def draw(self, k: int, rate: float, noise: Noise, rows: ArrayLike | None = None) -> Integers:
        """Draw the k nearest of a fresh Poisson sample for each query, as positions. Secret.

        The skips g_1, g_2, ... of a row are geometric, so the units at ranks g_1 + ... + g_j + j -
        1 are those whose coins fell heads, whatever the records are.

        Parameters
        ----------
        k : int, how many neighbours, at most 2**30
        rate : float
            Probability of each unit's coin, independent for each row and call; in (0, 1]. 1 means
            all units, and no coins.
        noise : Noise, the source of the coins
        rows : array of int, optional
            Which of the queries; one that is named twice gets two samples. None for all.

        Returns
        -------
        array of int of shape (rows, k), -1 where fewer than k were found; secret
        """
        count = at_least(1, k=k)
        if count > _MOST_NEIGHBOURS:
            raise InvalidArgument(f"Expected k={count} to be at most 2**30.")
        chance = sampling_rate(rate=rate)
        chosen = self._rows(rows)
        result = np.full((chosen.size, count), -1, dtype=np.int64)
        entries = max(count, self._ranking.positions.shape[1])
        for block in blocks(chosen.size, _ENTRIES_AT_ONCE // entries):
            # All coins fall before anybody is looked up: no record decides how many are tossed.
            heads = _heads(noise, chance, (block.stop - block.start, count), self._index.n_units)
            self._fill(result[block], chosen[block], heads)
        return result

    def _rows(self, rows: ArrayLike | None) -> Integers:
        if rows is None:
            return np.arange(self.n_queries)
        chosen = as_array(rows)
        listed = chosen.ndim == 1 and chosen.dtype.kind in ("iu" if chosen.size else "iuf")
        if not listed or ((chosen < 0) | (chosen >= self.n_queries)).any():
            raise InvalidArgument(
                f"Expected rows to be a list of integers from 0 to {self.n_queries - 1}."
            )
        return chosen.astype(np.int64)

    def _fill(self, result: Integers, rows: Integers, heads: Integers) -> None:
        """Look up the units at the ranks that took part; search farther where that is needed."""
        _look_up(self._ranking.of(rows), heads, result)
        n_units = self._index.n_units
        if self._reach >= n_units:
            return
        short = np.flatnonzero(result[:, -1] < 0)
        for block in blocks(short.size, _ENTRIES_AT_ONCE // (n_units * self.votes_per_unit)):
            some = short[block]
            # Up to a row's last head, k units take part: that is as far as k records can be.
            reach = min(int(heads[some, -1].max()) + 1, n_units)
            farther = self._index.ranking(self._asked[rows[some]], reach)
            found = np.full((some.size, heads.shape[1]), -1, dtype=np.int64)
            _look_up(farther, heads[some], found)
            result[some] = found

    def __repr__(self) -> str:
        return f"Neighbourhoods(n_queries={self.n_queries}, secret)"


def _heads(noise: Noise, rate: float, shape: tuple[int, int], n_units: int) -> Integers:
    """Draw the ranks of the first k units whose coins fall heads; n_units or more means none."""
    if rate == 1.0:
        return np.broadcast_to(np.arange(shape[1]), shape)
    skips = noise.geometric(rate, shape)
    # Beyond the end is beyond the end: this only keeps the sums from overflowing.
    return np.cumsum(np.minimum(skips, n_units) + 1, axis=1) - 1


def _look_up(ranking: Ranking, heads: Integers, result: Integers) -> None:
    """Write the first k entries whose units have heads into rows of -1."""
    width = ranking.positions.shape[1]
    row, column = np.nonzero(heads < width)
    if ranking.unit_ranks is None:
        result[row, column] = ranking.positions[row, heads[row, column]]
        return
    # A padding entry has rank -1 and so finds the last column, where no coin ever falls heads.
    took_part = np.zeros((len(heads), width + 1), dtype=np.bool_)
    took_part[row, heads[row, column]] = True
    included = np.take_along_axis(took_part, ranking.unit_ranks.astype(np.int64), axis=1)
    turn = np.cumsum(included, axis=1)
    included &= turn <= heads.shape[1]
    row, column = np.nonzero(included)
    result[row, turn[row, column] - 1] = ranking.positions[row, column]


def default_reach(k: int, rate: float, failure: float = 1e-6) -> int:
    """Return how many units to rank so that a draw seldom has to search farther.

    Of public numbers alone; for speed and memory only.

    Parameters
    ----------
    k : int, neighbours that a draw looks for
    rate : float, probability with which a unit takes part, in (0, 1]
    failure : float, how often, at most, a row may have to search farther; strictly between 0 and 1

    Returns
    -------
    int, the least M with P(Binomial(M, rate) < k) <= failure

    Examples
    --------
    >>> default_reach(300, 0.15)
    2551
    """
    count, chance = at_least(1, k=k), sampling_rate(rate=rate)
    return _reach(count, chance, probability(failure=failure))


@lru_cache(maxsize=64)  # answers that come one by one ask for the same number
def _reach(count: int, chance: float, failure: float) -> int:
    from scipy.stats import nbinom

    return count + int(nbinom.isf(failure, count, chance))
