"""A table of class by score bin: one count a record, Gaussian noise on every cell.

A record adds 1 to the cell (its class, its bin of public edges), so adding or removing it moves
the table by exactly 1. Of a person's m records each adds 1/m, rounded down in whole steps of a
public grid; noise is exactly rounded (docs/theory/evaluation.md#one-count-a-record).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, blocks, count, finite_array, noise_scale, refuse, set_checked
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import Shift, Suspicion, small
from tacit.mechanisms.base import Plan
from tacit.mechanisms.released_once import (
    A_RECORD,
    AT_ONCE,
    STEP,
    ExactlySummed,
    check_records,
    copied,
)
from tacit.noise import check_ratio

_MOST_CELLS = 2**20
NOWHERE = -1
"""The bin of a score that is not a number: such a record is counted nowhere."""


def score_bins(scores: ArrayLike, edges: ArrayLike) -> Integers:
    """Return the bin of each score: how many of the public edges are at most the score.

    Parameters
    ----------
    scores : array of shape (records,)
        Output of a public model for each record, computed from that record alone. Secret.
    edges : array of shape (bins - 1,)
        Strictly rising, fixed by public inputs or earlier releases alone.

    Returns
    -------
    array of int64, of shape (records,)
        0 .. bins - 1; `NOWHERE` (-1) where the score is NaN. Secret.

    Examples
    --------
    >>> score_bins([0.1, 0.5, 0.9, float("nan")], [0.2, 0.5]).tolist()
    [0, 2, 2, -1]
    """
    limits = finite_array(edges=edges)
    if limits.ndim != 1 or (np.diff(limits) <= 0).any():
        raise InvalidArgument("Expected edges= to be numbers that rise strictly.")
    values = np.asarray(scores, dtype=np.float64)
    places = np.searchsorted(limits, values, side="right")
    return np.where(np.isnan(values), NOWHERE, places).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScoredRecords(Secret):
    """Class and bin of each private record, and whose it is. Secret.

    Parameters
    ----------
    classes : array of int of shape (records,)
        Index of each record's label among the public classes.
    bins : array of int of shape (records,)
        From `score_bins`. A record whose class or bin is not in the table is not counted.
    units : array of shape (records,), optional
        Whose each record is: integers, strings or bytes. By default each record is a unit.
    """

    classes: Integers
    bins: Integers
    units: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for values in (self.classes, self.bins):
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
                raise InvalidArgument("Expected classes and bins to be arrays of whole numbers.")
        if self.classes.ndim != 1 or self.classes.shape != self.bins.shape:
            raise InvalidArgument("Expected one class and one bin for each record.")
        check_records(len(self.classes))
        if self.units is None:
            return
        if np.shape(self.units) != self.classes.shape:
            raise InvalidArgument("Expected units to have one entry for each record.")
        # Objects may differ from themselves, as NaN does: each record would be a unit of its own.
        if len(self.classes) and np.asarray(self.units).dtype.kind not in "iuSU":
            raise InvalidArgument("Expected units to be integers, strings or bytes.")

    def __len__(self) -> int:
        return len(self.classes)

    def steps(self) -> Integers:
        """Return what each record adds; a person's records add at most one count in all.

        Returns
        -------
        array of int64, of shape (records,)
            Whole steps of 2^-28. Secret.
        """
        if self.units is None:
            return np.full(len(self.classes), A_RECORD, dtype=np.int64)
        _, owner, records = np.unique(self.units, return_inverse=True, return_counts=True)
        return np.asarray(A_RECORD // records[owner], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ScoreHistogram(ExactlySummed):
    """Release how many records of each class have a score in each bin, + N(0, sigma^2).

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each cell; one unit moves the table by at most 1.
    classes, bins : int
        Shape of the table.

    Notes
    -----
    mu^2 = 1/sigma^2 for a unit added or removed, whatever the number of cells. Answers:
    `ScoredRecords`. Unit: one record; one person where the records name units. One use releases
    one table: `Plan(mechanism, 1)`. Proof: docs/theory/evaluation.md#one-count-a-record.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> records = ScoredRecords(np.array([0, 0, 1]), np.array([0, 0, 1]))
    >>> release = ScoreHistogram(sigma=0.01, classes=2, bins=2).release(records, InsecureNoise(0))
    >>> release.values.round().astype(int).tolist()
    [[2, 0], [0, 1]]
    """

    name: ClassVar[str] = "score-histogram"
    assumes: ClassVar[str] = (
        "each record was scored by itself, by models that were fixed, as the edges of the bins "
        "were, without the private records or from earlier releases alone"
    )
    said: ClassVar[type] = ScoredRecords
    sigma: float
    classes: int
    bins: int

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, classes=count, bins=count)
        if self.classes * self.bins > _MOST_CELLS:
            raise refuse("bins", self.bins, f"at most {_MOST_CELLS // self.classes}")
        check_ratio(self.sigma, STEP**2)

    @property
    def shape(self) -> tuple[int, int]:
        """Classes and bins of the table."""
        return self.classes, self.bins

    def _added(self, said: ScoredRecords) -> Integers:
        table = np.zeros(self.classes * self.bins, dtype=np.int64)
        steps = said.steps()
        for some in blocks(len(said), AT_ONCE):
            classes, bins = said.classes[some], said.bins[some]
            known = (classes >= 0) & (classes < self.classes) & (bins >= 0) & (bins < self.bins)
            cells = classes[known].astype(np.int64) * self.bins + bins[known].astype(np.int64)
            # Whole numbers whose sum, of a block, is below 2^53: exact in any order.
            table += np.bincount(cells, steps[some][known], table.size).astype(np.int64)
        return table.reshape(self.shape)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield one record in a cell, or a person's four records there; against none."""
        small(**{"classes x bins": self.classes * self.bins})
        nobody = ScoredRecords(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        cell = (1.0,) + (0.0,) * (self.classes * self.bins - 1)
        shift = Shift(cell, 0.0, 1.0, self.sigma)
        for what, records in (("a record", 1), ("a person's records", 4)):
            zeros = np.zeros(records, dtype=np.int64)
            there = ScoredRecords(zeros, zeros, zeros)
            looks = shift.looks(Plan(self, 1))
            yield copied(what, self, (there, nobody), looks, 2 * len(cell))
