"""The records nearest to some queries, updated block by block.

The nearest of all records are among the nearest of their part, so it is enough to store each part's
nearest and to join parts. The order (distance, key, unit, target) of two records does not depend on
others: any blocks, in any order, leave the same records.
Theory: docs/theory/private-knn.md#records-in-blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers, blocks
from tacit.neighbours.index import fixed_order, numbered
from tacit.neighbours.ranking import (
    Distances,
    Positions,
    Ranking,
    Units,
    Vectors,
    first_of_units,
    packed_order,
    padded,
    rank_rows,
    ranks_of_units,
    stacked,
)

_DISTANCES = 2**22  # numbers at a time
_NOBODY = np.iinfo(np.int64).max

Keys = Callable[[Integers], NDArray[np.bytes_]]
"""Makes the keys of some records of a block, by their indices in it."""


@dataclass(frozen=True, slots=True, repr=False)
class Nearest:
    """The records nearest to each query among those seen so far. Secret; plain arrays for workers.

    `places` (queries, entries) holds indices of the stored records in order, -1 at the end, at
    these `distances`; `full`: no record beyond the last is needed. `units` is None where each is
    its own.
    """

    keys: NDArray[np.bytes_]
    targets: NDArray[Any]
    units: NDArray[Any] | None
    places: Positions
    distances: Distances
    full: NDArray[np.bool_]

    def bounds(self) -> Distances:
        """Return the distance beyond which each query needs no record."""
        if not self.places.shape[1]:
            return np.full(len(self.full), np.inf, dtype=np.float32)
        last = (self.places >= 0).sum(axis=1) - 1
        farthest = self.distances[np.arange(len(last)), last]
        return np.where(self.full, farthest, np.float32(np.inf))

    def ranking(self, votes: int) -> Ranking:
        """Return the beginnings of a full index's orders, `votes` records a unit. Secret."""
        if self.units is None or votes == 1:
            return Ranking(self.places, None)
        owners = numbered(self.units, len(self.keys))
        rows = [ranks_of_units(owners[row[row >= 0]]) for row in self.places]
        return Ranking(self.places, padded(rows))

    def compact(self) -> Nearest:
        """Return them without records that no query needs."""
        used, places = np.unique(self.places, return_inverse=True)
        places = places.reshape(self.places.shape)
        if used.size and used[0] < 0:
            used, places = used[1:], places - 1
        return replace(
            self,
            keys=self.keys[used],
            targets=self.targets[used],
            units=None if self.units is None else self.units[used],
            places=places.astype(np.int32),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Search:
    """Public queries (from `questions`), how many units to store for each, votes per unit."""

    asked: Vectors
    reach: int
    votes: int

    def look(
        self,
        known: Nearest | None,
        vectors: Vectors,
        targets: NDArray[Any],
        units: NDArray[Any] | None,
        keys: Keys,
    ) -> Nearest:
        """Update the nearest records with a further block, in any order of blocks. Secret.

        `vectors` are from `extended`; `keys` makes keys of some of the block's records, for most
        are too far away to need one.
        """
        close = np.arange(len(vectors)) if known is None else self._close(vectors, known.bounds())
        if known is not None and not close.size:
            return known
        owners = None if units is None else units[close]
        found = self._ranked(vectors[close], targets[close], owners, keys(close))
        return found if known is None else self.join(known, found)

    def join(self, one: Nearest, other: Nearest) -> Nearest:
        """Return the nearest records of two disjoint parts, the same in either order. Secret."""
        keys = np.concatenate([one.keys, other.keys])
        targets = np.concatenate([one.targets, other.targets])
        units, owners = None, None
        if one.units is not None and other.units is not None:
            units = np.concatenate([one.units, other.units])
            owners = numbered(units, len(keys))
        order = fixed_order(keys, owners, targets)
        turned = np.empty(len(order), dtype=np.int64)
        turned[order] = np.arange(len(order))
        shifted = np.where(other.places < 0, -1, other.places + len(one.keys))
        places = np.hstack([one.places, shifted])
        packed: Integers = np.full(places.shape, _NOBODY)
        there = places >= 0
        distances = np.hstack([one.distances, other.distances])
        packed[there] = packed_order(distances[there], turned[places[there]])
        packed.sort(axis=1)
        full = one.full | other.full
        if owners is None:
            packed = packed[:, : self.reach]
            if packed.shape[1] == self.reach:
                full = full | (packed[:, -1] != _NOBODY)
        else:
            packed, full = self._by_units(packed, owners[order], full)
        beyond = packed == _NOBODY
        found = np.where(beyond, -1, packed & (2**32 - 1)).astype(np.int32)
        far = np.where(beyond, 0, packed >> 32).astype(np.float32)
        kept_units = None if units is None else units[order]
        return Nearest(keys[order], targets[order], kept_units, found, far, full).compact()

    def _close(self, vectors: Vectors, bounds: Distances) -> Integers:
        """Return the records that may be needed by some query."""
        close = np.zeros(len(vectors), dtype=np.bool_)
        for some in blocks(len(self.asked), _DISTANCES // max(1, len(vectors))):
            close |= (self.asked[some] @ vectors.T <= bounds[some, None]).any(axis=0)
        return np.flatnonzero(close)

    def _ranked(
        self, vectors: Vectors, targets: NDArray[Any], units: NDArray[Any] | None, keys: Any
    ) -> Nearest:
        """Return the nearest of one block."""
        owners = None if units is None else numbered(units, len(keys))
        order = fixed_order(keys, owners, targets)
        vectors = vectors[order]
        total = len(order) if owners is None else int(owners.max(initial=-1)) + 1
        known = None if owners is None else Units(owners[order], total, self.votes)
        rankings, far = [], []
        for some in blocks(len(self.asked), _DISTANCES // max(1, len(order))):
            distances = self.asked[some] @ vectors.T
            rankings.append(rank_rows(distances, self.reach, known))
            places = rankings[-1].positions
            # A row of -1 takes any number, which nobody looks at.
            far += list(np.take_along_axis(distances, places, axis=1) if len(order) else distances)
        places = stacked(rankings).positions
        whole = total > self.reach or (total == self.reach and self.votes == 1)
        full = np.full(len(self.asked), whole)
        numbers = np.zeros(places.shape, dtype=np.float32)
        for row, its_far in zip(numbers, far, strict=True):
            row[: its_far.size] = its_far
        kept = None if units is None else units[order]
        return Nearest(keys[order], targets[order], kept, places, numbers, full).compact()

    def _by_units(
        self, packed: Integers, owners: Integers, full: NDArray[np.bool_]
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """Select the sorted entries that `reach` units need, and flag complete rows."""
        rows, ends = [], full.copy()
        for place, row in enumerate(packed):
            entries = row[: int(np.searchsorted(row, _NOBODY))]
            mine = owners[entries & (2**32 - 1)]
            kept, found = first_of_units(mine, self.reach, self.votes, more=bool(full[place]))
            ends[place] |= found > self.reach or (found == self.reach and self.votes == 1)
            rows.append(entries[kept])
        width = max(row.size for row in rows)
        cut = np.full((len(rows), width), _NOBODY)
        for place, row in zip(cut, rows, strict=True):
            place[: row.size] = row
        return cut, ends
