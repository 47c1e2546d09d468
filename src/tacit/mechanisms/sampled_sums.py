"""Bounded sums over sampled neighbours: label counts and a clipped mean.

What a record adds is rounded towards zero to whole steps of a public grid, so that its bound still
holds; sums are whole numbers, and the noise is a Gaussian rounded to the same grid, exactly
sampled. Nothing is ever divided by the number of records that were sampled, which is secret.
Proofs: docs/theory/private-knn.md#several-labels and #numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers, finite, noise_scale, one_of, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Shift, Suspicion, small
from tacit.mechanisms.base import Release
from tacit.mechanisms.crowds import crowd, shifted
from tacit.mechanisms.neighbours import GRID, GaussianNeighbours, check_grid, number_targets
from tacit.mechanisms.plan import Plan
from tacit.noise import admit

if TYPE_CHECKING:
    from tacit.noise import Noise

_STEPS = round(1 / GRID)


@dataclass(frozen=True, slots=True)
class SampledLabels(GaussianNeighbours):
    """Release, for each label, how many of the sampled neighbours bear it, clipped and noisy.

    Targets are 0/1 vectors; one with s ones is scaled by min(1, tau/s) (clip="l1", the paper's
    tau-approximation) or by min(1, sqrt(tau/s)) (clip="l2", which keeps more). Either way its norm
    is at most sqrt(tau), and because votes are never negative a displaced record moves the sum by
    L2 <= sqrt(2 tau). Only the counts of ones are released; counts of zeros would cost as much
    again (erratum to the public code). Values (queries, labels) are multiples of 2^-20. Unit: one
    with at most `votes_per_unit` records among a query's neighbours.

    >>> round(SampledLabels(sigma=20, k=300, tau=2).gaussian_cost(), 9) == 2 * 2 / 20**2
    True
    """

    name: ClassVar[str] = "sampled-labels"
    noise_level: ClassVar[str] = "exact"
    sigma: float
    k: int
    sampling_rate: float = 1.0
    tau: float = 1.0
    clip: str = "l2"
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        object.__setattr__(self, "tau", noise_scale(tau=self.tau))
        one_of("l1", "l2", clip=self.clip)
        self._validate_sample()
        check_grid(self.sigma, GRID)

    @property
    def noise_multiplier(self) -> float:
        """Sigma over votes_per_unit sqrt(2 tau)."""
        return self.sigma / (self.votes_per_unit * math.sqrt(2 * self.tau))

    def weights(self, n_labels: int) -> Integers:
        """Return, in steps of the grid, what each one counts in a vector with 0 .. n_labels ones.

        The largest whole w <= 1/GRID with s w <= tau/GRID (l1), s w^2 <= tau/GRID^2 (l2), in
        rational arithmetic.
        """
        tau = Fraction(self.tau)
        by_l1 = [int(tau * _STEPS / s) for s in range(1, n_labels + 1)]
        by_l2 = [math.isqrt(int(tau * _STEPS**2 / s)) for s in range(1, n_labels + 1)]
        scaled = by_l1 if self.clip == "l1" else by_l2
        return np.array([_STEPS, *(min(w, _STEPS) for w in scaled)], dtype=np.int64)

    def _targets(self, answers: Any, n_classes: int | None) -> NDArray[Any]:
        labels = np.asarray(self._answers(answers).targets)
        if labels.ndim != 2 or labels.shape[1] < 1 or labels.dtype.kind not in "biuf":
            raise InvalidArgument("Expected targets of shape (records, labels), each 0 or 1.")
        if n_classes is not None and labels.shape[1] != n_classes:
            raise InvalidArgument(
                f"Expected targets for the {n_classes} labels of the plan, got {labels.shape[1]}."
            )
        if not ((labels == 0) | (labels == 1)).all():
            raise InvalidArgument("Expected targets to be 0 or 1: signed votes cost twice as much.")
        return labels.astype(np.int64)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return noisy clipped counts (queries, labels); some are negative."""
        entry = admit(noise)
        labels = self._targets(answers, None)
        n_labels = labels.shape[1]
        shares = labels * self.weights(n_labels)[labels.sum(axis=1)][:, None]
        values = np.empty((answers.n_queries, n_labels))
        for places, positions in self._drawn(answers, noise, width=n_labels):
            sums = summed(shares, positions)
            sums += noise.rounded_gaussian_steps(self.sigma, GRID, sums.shape)
            values[places] = sums * GRID
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit that bears half of the labels, among others who bear the other half."""
        small(k=self.k, tau=self.tau)
        half = max(1, math.floor(self.tau) if self.clip == "l1" else math.ceil(self.tau))
        each = self.tau / half
        each = min(1.0, each if self.clip == "l1" else math.sqrt(each))
        mine, other = [1] * half + [0] * half, [0] * half + [1] * half
        world = crowd([mine, mine, other], self.votes_per_unit)
        shift = Shift(
            (1.0,) * half + (-1.0,) * half,
            start=-self.k * half * each,
            by=2 * half * each * self.votes_per_unit,
            spread=math.sqrt(2 * half) * self.sigma,
            rate=self.sampling_rate,
        )
        yield shifted("the counts", Plan(self, 1), world, shift, width=2 * half)


@dataclass(frozen=True, slots=True)
class SampledMean(GaussianNeighbours):
    """Release mid + (1/k) sum (y - mid) over the sampled neighbours, y clipped to [low, high].

    mid = (low + high)/2. It is divided by k, never by the number of neighbours found, which is
    secret: a missing one counts as mid. A displaced record moves it by at most (high - low)/k, so
    mu = votes_per_unit (high - low)/(k sigma). `sigma` is the noise of the released mean, in the
    units of y. Unit: one with at most `votes_per_unit` records among a query's neighbours.

    >>> round(SampledMean(sigma=0.1, k=100, low=0, high=5).gaussian_cost(), 9)
    0.25
    """

    name: ClassVar[str] = "sampled-mean"
    noise_level: ClassVar[str] = "exact"
    sigma: float
    k: int
    sampling_rate: float = 1.0
    low: float = 0.0
    high: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        object.__setattr__(self, "low", finite(low=self.low))
        object.__setattr__(self, "high", finite(high=self.high))
        if not self.low < self.high or not 0 < self._half < math.inf:
            raise refuse("low", self.low, f"well below high={self.high!r}")
        self._validate_sample()
        check_grid(self._relative_sigma, GRID)

    @property
    def _half(self) -> float:
        return self.high / 2 - self.low / 2

    @property
    def _relative_sigma(self) -> float:
        """Noise of the sum, in units of half the range: the most that one record adds."""
        return self.sigma / self._half * self.k

    @property
    def noise_multiplier(self) -> float:
        """Sigma over votes_per_unit (high - low)/k."""
        return self._relative_sigma / (2 * self.votes_per_unit)

    def _targets(self, answers: Any, n_classes: int | None) -> Floats:
        return number_targets(self._answers(answers).targets)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one noisy clipped mean per query; some lie outside [low, high]."""
        entry = admit(noise)
        middle = self.low + self._half
        with np.errstate(over="ignore"):  # too far out is clipped
            relative = np.clip((self._targets(answers, None) - middle) / self._half, -1.0, 1.0)
        shares = np.trunc(relative / GRID).astype(np.int64)[:, None]
        values = np.empty(answers.n_queries)
        for places, positions in self._drawn(answers, noise):
            sums = summed(shares, positions)[:, 0]
            sums += noise.rounded_gaussian_steps(self._relative_sigma, GRID, sums.shape)
            values[places] = middle + sums * GRID * (self._half / self.k)
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit at one end of the range, among others at the other."""
        small(k=self.k)
        by = self.votes_per_unit * (self.high - self.low) / self.k
        shift = Shift((1.0,), self.low, by, self.sigma, self.sampling_rate)
        world = crowd([self.high, self.high, self.low], self.votes_per_unit)
        yield shifted("the mean", Plan(self, 1), world, shift)


def summed(shares: Integers, positions: Integers) -> Integers:
    """Add up the shares `(records, width)` of the drawn records for each row of positions."""
    padded = np.vstack([shares, np.zeros((1, shares.shape[1]), dtype=np.int64)])
    return np.asarray(padded[positions].sum(axis=1))  # a position of -1 is the last row: nothing
