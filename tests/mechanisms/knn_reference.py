"""Neighbours by subsample-then-search, by definition, and wrong ways to draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.noise import InsecureNoise

Array = np.ndarray[Any, Any]


class Reference:
    """Records in one order around every query, nearest first; all coins are tossed, then k taken.

    `owners` says whose each record is; an owner has one coin and `votes_per_unit` records at most.
    """

    def __init__(
        self, targets: Any, n_queries: int = 1, owners: Any = None, votes_per_unit: int = 1
    ) -> None:
        self.targets = np.asarray(targets)
        self.n_queries = n_queries
        self.votes_per_unit = votes_per_unit
        everyone = np.arange(len(self.targets)) if owners is None else np.asarray(owners)
        self.owners = everyone
        turn = [int((everyone[:place] == who).sum()) for place, who in enumerate(everyone)]
        self.records = np.flatnonzero(np.array(turn, dtype=np.int64) < votes_per_unit)
        self.calls: list[tuple[int, float, Array]] = []

    def draw(self, k: int, rate: float, noise: Any, rows: Any = None) -> Array:
        chosen = np.arange(self.n_queries) if rows is None else np.asarray(rows)
        self.calls.append((k, rate, chosen))
        return nearest(self.records, self.sampled(k, rate, noise, chosen.size), k)

    def sampled(self, k: int, rate: float, noise: Any, count: int) -> Array:
        """Which of `records` are sampled, for each row."""
        units, unit_of = np.unique(self.owners, return_inverse=True)
        coins = noise.poisson_mask(rate, (count, units.size))
        return coins[:, unit_of[self.records]]


def nearest(records: Array, sampled: Array, k: int) -> Array:
    """The first k sampled records of each row, -1 where there are fewer."""
    turn = np.cumsum(sampled, axis=1)
    row, column = np.nonzero(sampled & (turn <= k))
    positions = np.full((len(sampled), k), -1, dtype=np.int64)
    positions[row, turn[row, column] - 1] = records[column]
    return positions


class Spoilt(Reference):
    """Returns something else than it should."""

    spoil: Callable[[Array], Array]

    def draw(self, k: int, rate: float, noise: Any, rows: Any = None) -> Array:
        return self.spoil(super().draw(k, rate, noise, rows))


class Silent(InsecureNoise):
    """Fair coins, and no noise at all."""

    def gaussian(self, sigma, size):
        return 0.0 * super().gaussian(sigma, size)

    def rounded_gaussian_steps(self, sigma, grid, size):
        return 0 * super().rounded_gaussian_steps(sigma, grid, size)


class Redrawing(Reference):
    """Mutant: draws again where fewer than k were sampled."""

    def sampled(self, k: int, rate: float, noise: Any, count: int) -> Array:
        found = super().sampled(k, rate, noise, count)
        while (short := np.flatnonzero(found.sum(axis=1) < min(k, len(self.records)))).size:
            found[short] = super().sampled(k, rate, noise, short.size)
        return found


class WithReplacement(Reference):
    """Mutant: int(rate n) records, each drawn from all of them (the public Private-kNN code)."""

    def draw(self, k: int, rate: float, noise: Any, rows: Any = None) -> Array:
        count = self.n_queries if rows is None else len(rows)
        size = int(rate * len(self.targets))
        uniform = noise.gaussian(1.0, (count, size, 8)).view(np.uint64).sum(axis=2)
        drawn = np.sort((uniform >> np.uint64(8)) % np.uint64(len(self.targets)), axis=1)[:, :k]
        positions = np.full((count, k), -1, dtype=np.int64)
        positions[:, : drawn.shape[1]] = drawn
        return positions
