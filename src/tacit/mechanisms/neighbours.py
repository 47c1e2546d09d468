"""What mechanisms on neighbours share: their answers, their sample and its price.

The private records vote themselves. A mechanism asks for the k nearest records of a fresh Poisson
sample of the units, for each query and each step of it, and the coins come from the noise of its
own grant. One unit has at most `votes_per_unit` records among a query's neighbours and one coin.
Proofs: docs/theory/private-knn.md#what-one-unit-can-move.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, at_least, refuse, sampling_rate
from tacit.errors import InvalidArgument
from tacit.mechanisms.base import BLOCK, Mechanism
from tacit.noise.exact import check_ratio
from tacit.noise.waiting import check_rate
from tacit.privacy import RdpCurve, poisson_gaussian_rdp

if TYPE_CHECKING:
    from tacit.noise import Noise

GRID = 2.0**-20
"""Sums of real contributions are counted in steps of this size, of what one record may give."""


@runtime_checkable
class NeighbourAnswers(Protocol):
    """The secret answers of private records to some queries; `tacit.neighbours` makes them."""

    @property
    def n_queries(self) -> int:
        """How many queries there are."""

    @property
    def votes_per_unit(self) -> int:
        """How many records of one unit can be among the neighbours of a query, at the most."""

    @property
    def targets(self) -> NDArray[Any]:
        """What each record says, `(records, ...)`: a class, 0/1 labels or a number. Secret."""

    def draw(self, k: int, rate: float, noise: Noise, rows: Integers | None = None) -> Integers:
        """Return positions `(rows, k)` in `targets` of the k nearest in a fresh Poisson sample.

        -1 where fewer than k were sampled; a rate of 1 means the plain k nearest. The order of two
        records for a query must depend on these two alone. Secret.
        """


class NeighbourMechanism(Mechanism):
    """What every mechanism on neighbours has: k, a sampling rate and votes per unit."""

    __slots__ = ()
    assumes: ClassVar[str] = (
        "the features, their scale and the keys that break ties were fixed without the private "
        "records, so that no unit changes the order in which any query meets the others, and that "
        "nobody learns which records were sampled"
    )
    k: int
    sampling_rate: float
    votes_per_unit: int

    def _validate_sample(self) -> None:
        put = object.__setattr__
        put(self, "k", at_least(1, k=self.k))
        put(self, "sampling_rate", sampling_rate(sampling_rate=self.sampling_rate))
        put(self, "votes_per_unit", at_least(1, votes_per_unit=self.votes_per_unit))
        check_rate(sampling_rate=self.sampling_rate)
        if self.votes_per_unit > self.k:
            raise refuse("votes_per_unit", self.votes_per_unit, f"at most k={self.k}")

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each query: sampling amplifies nothing else.

        Amplification needs a bound that holds for every sample; a data-dependent one holds for the
        sample that was drawn.
        """
        queries, one = self._answers(answers).n_queries, self.cost(orders)
        return RdpCurve(one.orders, np.tile(one.values, (queries, 1)))

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless these are neighbours of as many queries, with the targets priced."""
        found = self._answers(answers).n_queries
        if found != queries:
            raise InvalidArgument(f"Expected neighbours of {queries} queries, got {found}.")
        self._targets(answers, n_classes)

    def _answers(self, answers: Any) -> NeighbourAnswers:
        if not isinstance(answers, NeighbourAnswers):
            raise InvalidArgument(
                "Expected answers to be the neighbourhoods that a search of tacit.neighbours "
                f"returns, got {type(answers).__name__}."
            )
        if answers.votes_per_unit != self.votes_per_unit:
            raise InvalidArgument(
                f"Expected neighbours with votes_per_unit={self.votes_per_unit}, as priced, got "
                f"{answers.votes_per_unit}."
            )
        return answers

    @abstractmethod
    def _targets(self, answers: Any, n_classes: int | None) -> NDArray[Any]:
        """Return the targets as this mechanism uses them, or raise without quoting them."""

    def _drawn(
        self, answers: Any, noise: Noise, rows: Integers | None = None, width: int = 1
    ) -> Iterator[tuple[slice, Integers]]:
        """Draw fresh samples, some queries at a time: places among `rows`, and positions.

        `width` numbers are made of each position, so that blocks stay small.
        """
        answers = self._answers(answers)
        wanted = np.arange(answers.n_queries) if rows is None else rows
        step = max(1, 4 * BLOCK // (self.k * width))
        for start in range(0, wanted.size, step):
            part = wanted[start : start + step]
            # Drawn anew by each step of each query: the amplified price holds for fresh coins only.
            positions = np.asarray(
                answers.draw(self.k, self.sampling_rate, noise, rows=part), dtype=np.int64
            )
            if positions.shape != (part.size, self.k):
                raise InvalidArgument(f"Expected k={self.k} positions for each query drawn.")
            if positions.min(initial=-1) < -1 or positions.max(initial=-1) >= len(answers.targets):
                raise InvalidArgument("Expected positions of records, or -1, from each draw.")
            yield slice(start, start + part.size), positions


class ClassNeighbours(NeighbourMechanism):
    """Neighbours that say a class each; how many classes there are, the plan must tell."""

    __slots__ = ()
    counts_classes: ClassVar[bool] = True

    def _targets(self, answers: Any, n_classes: int | None) -> Integers:
        return class_targets(self._answers(answers).targets, n_classes)


class GaussianNeighbours(NeighbourMechanism):
    """Gaussian noise on a sum over the sampled neighbours."""

    __slots__ = ()

    @property
    @abstractmethod
    def noise_multiplier(self) -> float:
        """Sigma over the L2 sensitivity of the sum to one sampled unit."""

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case for one query: the Poisson-subsampled Gaussian."""
        values = poisson_gaussian_rdp(self.sampling_rate, self.noise_multiplier, orders)
        return RdpCurve(orders, values)

    def gaussian_cost(self) -> float | None:
        """mu^2 = (sensitivity/sigma)^2 if every record takes part, else None."""
        return None if self.sampling_rate < 1.0 else self.noise_multiplier**-2


def histogram_multiplier(sigma: float, votes_per_unit: int) -> float:
    """Sigma over sqrt(2) votes_per_unit: so many votes are added, and as many displaced."""
    return sigma / (math.sqrt(2) * votes_per_unit)


def check_grid(sigma: float, grid: float) -> None:
    """Refuse, before anything is paid, a sigma with which `grid` cannot be sampled exactly."""
    check_ratio(np.array([sigma]), grid)


def class_targets(targets: Any, n_classes: int | None) -> Integers:
    """Return the records' classes, which must lie in 0 .. n_classes - 1; they are never quoted."""
    if n_classes is None:
        raise InvalidArgument("Expected n_classes: neighbours do not tell how many there are.")
    n_classes = at_least(2, n_classes=n_classes)
    array = np.asarray(targets)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgument("Expected targets to be one integer class for each record.")
    if array.size and (array.min() < 0 or array.max() >= n_classes):
        raise InvalidArgument(f"Expected targets to lie in 0 .. {n_classes - 1}.")
    return array.astype(np.int64, copy=False)


def number_targets(targets: Any) -> NDArray[np.float64]:
    """Return one finite number for each record; they are never quoted."""
    array = np.asarray(targets)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InvalidArgument("Expected targets to be one finite number for each record.")
    return array.astype(np.float64, copy=False)


def count_classes(classes: Integers, positions: Integers, n_classes: int) -> Integers:
    """Count the classes of the drawn records: votes `(rows, classes)`; nobody votes for a -1."""
    rows, places = np.nonzero(positions >= 0)
    bins = rows * n_classes + classes[positions[rows, places]]
    return np.bincount(bins, minlength=len(positions) * n_classes).reshape(-1, n_classes)
