"""Subsample, then search: Private-kNN by its definition, one record at a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from tacit.neighbours import Neighbourhoods, NeighbourIndex


@dataclass(frozen=True)
class Table:
    """Records whose features are whole numbers, so that their distances need no rounding."""

    X: np.ndarray
    keys: np.ndarray
    units: np.ndarray
    votes_per_unit: int = 1
    targets: np.ndarray = field(default_factory=lambda: np.empty(0))

    def without(self, unit: int) -> Table:
        keep = self.units != unit
        return Table(
            self.X[keep], self.keys[keep], self.units[keep], self.votes_per_unit, self.targets[keep]
        )

    def index(self, **options: object) -> NeighbourIndex:
        """An index whose targets are the records' own keys, and whose grid holds X exactly."""
        return NeighbourIndex(
            self.X,
            self.keys,
            keys=self.keys,
            units=self.units,
            radius=2048.0,
            votes_per_unit=self.votes_per_unit,
            **options,  # type: ignore[arg-type]
        )

    def order(self, query: np.ndarray) -> list[int]:
        """Rows sorted by (distance, key), all of them."""
        far = [sum((int(a) - int(b)) ** 2 for a, b in zip(x, query, strict=True)) for x in self.X]
        return sorted(range(len(far)), key=lambda row: (far[row], int(self.keys[row])))

    def unit_order(self, query: np.ndarray) -> list[int]:
        """Units in the order of their nearest records."""
        return list(dict.fromkeys(int(self.units[row]) for row in self.order(query)))

    def nearest(self, query: np.ndarray, k: int, sample: Collection[int]) -> list[int]:
        """Keys of the k nearest records of a sample of units; at most so many of each unit."""
        taken: list[int] = []
        votes = dict.fromkeys(sample, 0)
        for row in self.order(query):
            unit = int(self.units[row])
            if unit in votes and votes[unit] < self.votes_per_unit and len(taken) < k:
                votes[unit] += 1
                taken.append(int(self.keys[row]))
        return taken


def crowded_table(seed: int, units: int, records: int, votes_per_unit: int = 1) -> Table:
    """Few places for many records: ties in distance, and duplicates, everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(records, 2))
    owner = np.concatenate([np.arange(units), rng.integers(0, units, size=records - units)])
    keys = rng.permutation(10 * records)[:records]
    return Table(X, keys, owner, votes_per_unit, keys)


class ScriptedNoise:
    """Coins chosen in advance: row i of a draw sees heads at the ranks heads[i] and nowhere else.

    After the last head comes a skip beyond every table.
    """

    secure = False

    def __init__(self, heads: list[list[int]]) -> None:
        self.heads = list(heads)

    def geometric(self, rate: float, size: tuple[int, int]) -> np.ndarray:
        rows, k = size
        mine, self.heads = self.heads[:rows], self.heads[rows:]
        skips = np.full(size, 2**62)
        for row, ranks in zip(skips, mine, strict=True):
            gaps = np.diff([-1, *sorted(ranks)]) - 1
            row[: len(gaps)] = gaps[:k]
        return skips


def drawn(
    around: Neighbourhoods, k: int, rate: float, noise: object, rows: list[int]
) -> list[list[int]]:
    """Keys of what was drawn; that -1 stands only at the end is checked on the way."""
    positions = around.draw(k, rate, noise, rows)  # type: ignore[arg-type]
    result = []
    for row in positions:
        found = [int(place) for place in row if place >= 0]
        assert [int(place) for place in row[len(found) :]] == [-1] * (k - len(found))
        result.append([int(around.targets[place]) for place in found])
    return result


def all_subsets(things: Collection[int]) -> list[tuple[int, ...]]:
    return [s for size in range(len(things) + 1) for s in combinations(things, size)]


def subset_chance(subset: Collection[int], total: int, rate: Fraction) -> Fraction:
    return rate ** len(subset) * (1 - rate) ** (total - len(subset))


def all_rows(*values: Collection[int]) -> np.ndarray:
    return np.array(list(product(*values)))
