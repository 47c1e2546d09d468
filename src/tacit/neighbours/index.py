"""Exact search among private records in a public feature space, in bounded memory.

One fixed total order on (distance, record key) that other records do not affect
(docs/theory/private-knn.md#what-one-unit-can-move). No tree, no hashing, nothing fitted to the
private records: blocks of matrix products and partial selection.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, as_array, at_least, blocks, positive
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.neighbours.neighbourhoods import Neighbourhoods
from tacit.neighbours.ranking import (
    BLOCK_NUMBERS,
    Ranking,
    Units,
    Vectors,
    extended,
    feature_rows,
    questions,
    rank_rows,
    stacked,
)

_MIB = 2**20
_MOST_RECORDS = 2**31 - 1
_KINDS = {
    "b": "bits",
    "i": "integers",
    "u": "unsigned integers",
    "f": "floats",
    "S": "bytes",
    "U": "strings",
}


class NeighbourIndex(Secret):
    """Private records, their targets, and their order around any query. Secret.

    Unit: one record, or one person with all records. Adding or removing it displaces at most
    `votes_per_unit` of any query's neighbours.
    Source: docs/theory/private-knn.md#what-one-unit-can-move.

    Parameters
    ----------
    X : array of shape (n, dimensions)
        Public features of the private records; there may be none: then noise alone answers.
        Features, a normalisation or a `radius` fitted to private records break the guarantee.
        Secret.
    targets : array of shape (n, ...), a class, a row of 0/1 labels, or a number each; secret
    keys : array of uint64 or bytes of shape (n,)
        Each record's own: a keyed hash of the record (or of its id), which breaks ties before unit
        and target. Never a position or a running number: those change with the other records.
    radius : float, expected largest length of features; longer ones are scaled down to it; public
    units : array of int, str or bytes of shape (n,), optional
        The person of each record, where a person has several. For each query a unit is represented
        by its `votes_per_unit` nearest records, and sampled by one coin.
    votes_per_unit : int, how many of a query's neighbours may be one unit's; public
    memory_mib : float
        Limit of a search, beside records and result (at least one query's distances, 4 bytes per
        record, and the memory to sort them).
    """

    __slots__ = ("_memory", "_radius", "_records", "_targets", "_units")

    def __init__(
        self,
        X: ArrayLike,
        targets: ArrayLike,
        *,
        keys: ArrayLike,
        radius: float,
        units: ArrayLike | None = None,
        votes_per_unit: int = 1,
        memory_mib: float = 256,
    ) -> None:
        rows = feature_rows("X", X)
        if len(rows) > _MOST_RECORDS:
            raise InvalidArgument("Expected X to hold fewer than 2**31 records.")
        self._radius = positive(radius=radius)
        self._memory = int(positive(memory_mib=memory_mib) * _MIB)
        votes = at_least(1, votes_per_unit=votes_per_unit)
        if units is None and votes > 1:
            raise InvalidArgument("Expected units where votes_per_unit is above 1: whose records.")
        said = _per_record("targets", targets, "biufSU", len(rows))
        tags = _per_record("keys", keys, "iuS", len(rows), flat=True)
        owners = None if units is None else numbered(units, len(rows))
        order = fixed_order(tags, owners, said)
        # Column after column: products with few questions read it in half the time.
        self._records = np.empty((len(rows), rows.shape[1] + 1), dtype=np.float32, order="F")
        for block in blocks(len(rows), BLOCK_NUMBERS // rows.shape[1]):  # nothing is copied whole
            self._records[block] = extended(rows[order[block]], self._radius)
        self._targets = said[order]
        self._targets.flags.writeable = False
        self._units = None
        if owners is not None:
            self._units = Units(owners[order], int(owners.max(initial=-1)) + 1, votes)

    @property
    def votes_per_unit(self) -> int:
        """How many of a query's neighbours may be one unit's."""
        return 1 if self._units is None else self._units.votes

    @property
    def targets(self) -> NDArray[Any]:
        """The records' targets, in this index's own order. Secret."""
        return self._targets

    @property
    def n_units(self) -> int:
        """How many units there are. Secret: adjacency adds or removes one."""
        return len(self._records) if self._units is None else self._units.total

    def search(self, queries: ArrayLike, reach: int) -> Neighbourhoods:
        """Rank the records around each query, the nearest `reach` units at once.

        Parameters
        ----------
        queries : array of shape (queries, dimensions), public rows in the records' feature space
        reach : int, units ranked in advance (`default_reach`): decides speed, never a result

        Returns
        -------
        Neighbourhoods, secret
        """
        rows = feature_rows("queries", queries)
        if len(rows) < 1 or rows.shape[1] != self._records.shape[1] - 1:
            raise InvalidArgument(
                f"Expected queries to be at least one row with the records' "
                f"{self._records.shape[1] - 1} dimensions, got shape {rows.shape}."
            )
        return Neighbourhoods(self, questions(rows, self._radius), at_least(1, reach=reach))

    def ranking(self, asked: Vectors, reach: int) -> Ranking:
        """Rank the nearest `reach` units for `questions`, block by block. Secret.

        Parameters
        ----------
        asked : array of shape (queries, dimensions + 1), quantised queries, from `questions`
        reach : int, how many units are ranked

        Returns
        -------
        Ranking, positions in the index's own order, nearest first, and the ranks of their units
        """
        n = len(self._records)
        # A block's distances, and the sorting of one row, fit into the memory allowed.
        sorting = 5 * n + 24 * min(n, reach)
        rows = blocks(len(asked), (self._memory - sorting) // (4 * max(n, 1)))
        distances = np.empty((rows[0].stop, n), dtype=np.float32)
        rankings = []
        for block in rows:
            some = asked[block]
            found = np.matmul(some, self._records.T, out=distances[: len(some)])
            rankings.append(rank_rows(found, reach, self._units))
        return stacked(rankings)


def _per_record(
    name: str, values: ArrayLike, kinds: str, count: int, *, flat: bool = False
) -> NDArray[Any]:
    """Return an array with one entry per record; errors quote neither it nor their number."""
    array = as_array(values)
    if array.ndim < 1 or (flat and array.ndim > 1) or len(array) != count:
        raise InvalidArgument(f"Expected {name} to have one entry for each record of X.")
    if isinstance(values, list | tuple) and array.dtype.kind in "SU":
        # An array would rewrite all the others as text, and sort them otherwise.
        kind = str if array.dtype.kind == "U" else bytes
        if not all(isinstance(one, kind) for one in np.array(values, dtype=object).ravel()):
            raise InvalidArgument(f"Expected {name} to be all of one type.")
    if array.dtype.kind not in kinds:
        allowed = ", ".join(_KINDS[kind] for kind in kinds)
        raise InvalidArgument(f"Expected {name} to hold {allowed}; got dtype {array.dtype}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidArgument(f"Expected {name} to hold finite numbers only; remove NaN and inf.")
    return array


def numbered(units: ArrayLike, count: int) -> Integers:
    """Return numbers of the units, in the order of their ids, which others do not change."""
    owners = _per_record("units", units, "iuSU", count, flat=True)
    return np.unique(owners, return_inverse=True)[1].astype(np.int64)


def fixed_order(keys: NDArray[Any], units: Integers | None, targets: NDArray[Any]) -> Integers:
    """Sort records by key, then unit, then the bytes of the target, all their own data."""
    said = _as_bytes(targets)
    if targets.dtype.kind in "biuf":  # whole numbers may be equal as float64: then their own bytes
        said += _as_bytes(targets.astype(np.float64))
    owners = [] if units is None else [units]
    return np.lexsort((*said, *owners, keys))


def _as_bytes(targets: NDArray[Any]) -> list[NDArray[np.bytes_]]:
    flat = np.ascontiguousarray(targets).reshape(len(targets), math.prod(targets.shape[1:]))
    width = flat.shape[1] * flat.itemsize
    return [flat.view(f"S{width}")[:, 0]] if width else []
