"""Numbers from sampled neighbours: label counts, a clipped mean, a median on a grid.

What a record adds is rounded towards zero to a public grid, so its bound still holds; the noise is
a Gaussian rounded to the same grid, exactly sampled. Nothing is divided by the number of records
sampled, which is secret. Proofs: docs/theory/private-knn.md#several-labels and #numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import (
    Floats,
    Integers,
    at_least,
    finite,
    noise_scale,
    one_of,
    positive,
    refuse,
    set_checked,
)
from tacit.errors import InvalidArgument
from tacit.mechanisms import audit_cases
from tacit.mechanisms.audit_cases import Shift, Suspicion, World, small, with_and_without
from tacit.mechanisms.base import Plan, Release
from tacit.mechanisms.neighbours import GaussianNeighbours, NeighbourMechanism
from tacit.noise import Noise, admit, check_ratio
from tacit.privacy import RdpCurve, sampled_exponential_rdp

# Sums of real contributions are counted in steps of this size, of what one record may give.
GRID = 2.0**-20
_STEPS = round(1 / GRID)
_MOST_POINTS = 4096
_UNIFORM_BITS = 62
_TOP = 2.0**49  # the weight of utility 0: 4096 of them sum to 2^61
_DEEPEST = 18.0  # utilities are clipped where the weight is e^-18 of the top, still above 2^22
_SLACK = 2.0**-22  # what rounding two weights of at least 2^22 can add to their log-ratio
_LEAST_EPSILON, _MOST_EPSILON = 2.0**-12, 100.0
_SHALLOW = 16.0  # log-weights deeper than that are cut off, and tell an audit nothing
_WORDS = {"low": 0.0, "high": 1.0, "points": 101}  # what stands for the grid in a description


class _Sums(GaussianNeighbours):
    """A sum over the sampled neighbours, in whole steps of the grid."""

    __slots__ = ()
    noise_level: ClassVar[str] = "exact"

    def _noisy_sums(
        self, answers: Any, read: Callable[[], Integers], width: int, sigma: float, noise: Noise
    ) -> Floats:
        """Add the shares `(records, width)` of each query's sample, and noise on the same grid."""
        values = np.empty((self._answers(answers).n_queries, width))
        for places, positions, shares in self._drawn(answers, noise, read, width=width):
            sums = summed(shares, positions)
            sums += noise.rounded_gaussian_steps(sigma, GRID, sums.shape)
            values[places] = sums * GRID
        return values


@dataclass(frozen=True, slots=True)
class SampledLabels(_Sums):
    """Release how many of the sampled neighbours have each label, clipped and noisy.

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each count.
    k : int
        How many sampled neighbours vote on a query.
    sampling_rate : float, optional
        Chance of each unit to be in the sample of a query, in (0, 1]; 1 takes all.
    tau : float, optional
        Bound on the squared norm of one record's vector.
    clip : {"l1", "l2"}, optional
        A vector with s ones is scaled by min(1, tau/s) (l1, the paper's tau-approximation) or by
        min(1, sqrt(tau/s)) (l2, which leaves more).
    votes_per_unit : int, optional
        Most records of one unit among the neighbours of a query, from 1 to k.

    Notes
    -----
    Targets are 0/1 vectors. Either way of clipping leaves a norm of at most sqrt(tau), and because
    votes are never negative a displaced record moves the sum by L2 <= sqrt(2 tau). Only the counts
    of ones are released; counts of zeros would cost as much again (erratum to the public code).
    Unit: one with at most `votes_per_unit` records among a query's neighbours.
    Proof: docs/theory/private-knn.md#several-labels.

    Examples
    --------
    >>> round(SampledLabels(sigma=20, k=300, tau=2).gaussian_cost(), 9) == 2 * 2 / 20**2
    True
    """

    name: ClassVar[str] = "sampled-labels"
    sigma: float
    k: int
    sampling_rate: float = 1.0
    tau: float = 1.0
    clip: str = "l2"
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, tau=noise_scale)
        one_of("l1", "l2", clip=self.clip)
        self._validate_sample()
        check_ratio(self.sigma, GRID)

    @property
    def noise_multiplier(self) -> float:
        """Sigma over votes_per_unit sqrt(2 tau)."""
        return self.sigma / (self.votes_per_unit * math.sqrt(2 * self.tau))

    def weights(self, n_labels: int) -> Integers:
        """Return, in steps of the grid, the weight of each one in a vector with 0 .. n_labels ones.

        Parameters
        ----------
        n_labels : int
            Length of a target.

        Returns
        -------
        array of int of shape (n_labels + 1,)
            By the number of ones s, the largest whole w <= 1/GRID with s w <= tau/GRID (l1) or
            s w^2 <= tau/GRID^2 (l2), in rational arithmetic; public.
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
        n_labels = self._targets(answers, None).shape[1]
        weights = self.weights(n_labels)

        def shares() -> Integers:
            labels = self._targets(answers, None)
            # Each record is bounded before the sum: clipped counts bound nobody's part in them.
            return np.asarray(labels * weights[labels.sum(axis=1)][:, None], dtype=np.int64)

        values = self._noisy_sums(answers, shares, n_labels, self.sigma, noise)
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit that has half of the labels, among others that have the other half."""
        small(k=self.k, tau=self.tau)
        half = max(1, math.floor(self.tau) if self.clip == "l1" else math.ceil(self.tau))
        each = self.tau / half
        each = min(1.0, each if self.clip == "l1" else math.sqrt(each))
        mine, other = [1] * half + [0] * half, [0] * half + [1] * half
        world = audit_cases.crowd(self.votes_per_unit, [mine, mine, other])
        start, by = -self.k * half * each, 2 * half * each * self.votes_per_unit
        spread, direction = math.sqrt(2 * half) * self.sigma, (1.0,) * half + (-1.0,) * half
        looks = Shift(direction, start, by, spread, self.sampling_rate).looks(Plan(self, 1))
        yield with_and_without("the counts", Plan(self, 1), world, looks, width=2 * half)


@dataclass(frozen=True, slots=True)
class SampledMean(_Sums):
    """Release mid + (1/k) sum (y - mid) over the sampled neighbours, y clipped to [low, high].

    Parameters
    ----------
    sigma : float
        Deviation of the noise of the released mean, in the units of y.
    k : int
        How many sampled neighbours contribute to a query.
    sampling_rate : float, optional
        Chance of each unit to be in the sample of a query, in (0, 1]; 1 takes all.
    low, high : float, optional
        Public range to which y is clipped.
    votes_per_unit : int, optional
        Most records of one unit among the neighbours of a query, from 1 to k.

    Notes
    -----
    mid = (low + high)/2; the divisor is k, never the number of neighbours found, which is secret:
    a missing one counts as mid. A displaced record moves it by at most (high - low)/k, so mu =
    votes_per_unit (high - low)/(k sigma). Unit: one with at most `votes_per_unit` records among a
    query's neighbours. Proof: docs/theory/private-knn.md#numbers.

    Examples
    --------
    >>> round(SampledMean(sigma=0.1, k=100, low=0, high=5).gaussian_cost(), 9)
    0.25
    """

    name: ClassVar[str] = "sampled-mean"
    sigma: float
    k: int
    sampling_rate: float = 1.0
    low: float = 0.0
    high: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, low=finite, high=finite)
        if not self.low < self.high or not 0 < self._half < math.inf:
            raise refuse("low", self.low, f"well below high={self.high!r}")
        self._validate_sample()
        check_ratio(self._relative_sigma, GRID)

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

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one noisy clipped mean per query; some lie outside [low, high]."""
        entry = admit(noise)
        middle = self.low + self._half

        def shares() -> Integers:
            with np.errstate(over="ignore"):  # too far out is clipped
                relative = np.clip((self._targets(answers, None) - middle) / self._half, -1.0, 1.0)
            return np.asarray(np.trunc(relative / GRID).astype(np.int64)[:, None])

        sums = self._noisy_sums(answers, shares, 1, self._relative_sigma, noise)[:, 0]
        values = middle + sums * (self._half / self.k)
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit at one end of the range, among others at the other."""
        small(k=self.k)
        by = self.votes_per_unit * (self.high - self.low) / self.k
        shift = Shift((1.0,), self.low, by, self.sigma, self.sampling_rate)
        world = audit_cases.crowd(self.votes_per_unit, [self.high, self.high, self.low])
        yield with_and_without("the mean", Plan(self, 1), world, shift.looks(Plan(self, 1)))


def summed(shares: Integers, positions: Integers) -> Integers:
    """Add up the shares `(records, width)` of the drawn records for each row of positions."""
    padded = np.vstack([shares, np.zeros((1, shares.shape[1]), dtype=np.int64)])
    return np.asarray(padded[positions].sum(axis=1))  # a position of -1 is the last row: nothing


@dataclass(frozen=True, slots=True)
class SampledMedian(NeighbourMechanism):
    """Release a point of a public grid near the median of the sampled neighbours' numbers.

    Parameters
    ----------
    epsilon_per_query : float
        e0, the epsilon of one answer without sampling, from 2^-12 to 100; sampling lowers it to
        log(1 + rate (e^e0 - 1)).
    k : int
        How many sampled neighbours contribute to a query.
    sampling_rate : float, optional
        Chance of each unit to be in the sample of a query, in (0, 1]; 1 takes all.
    grid : tuple (low, high, points), optional
        Public and evenly spaced; one of its points is released.
    votes_per_unit : int, optional
        Most records of one unit among the neighbours of a query, from 1 to k.

    Notes
    -----
    The exponential mechanism: a point x has probability proportional to exp(e0 u(x)/(2c)) with
    u(x) = -|#{y < x} - #{y > x}|/2, which c = `votes_per_unit` displaced records move by at most
    c. Privacy rests on a public table of whole weights, one for each 2|u| in 0 .. k, sampled
    exactly: utilities are clipped at weight e^-18 and scaled down by what rounding can add, so
    that displaced votes change no log-weight by more than e0/2, and no log-probability ratio
    ranges over more than e0. Unit: one with at most `votes_per_unit` records among a query's
    neighbours. Proof: docs/theory/private-knn.md#numbers.

    Examples
    --------
    >>> SampledMedian(0.5, k=100, sampling_rate=0.2, grid=(0, 10, 101)).gaussian_cost() is None
    True
    """

    name: ClassVar[str] = "sampled-median"
    noise_parameter: ClassVar[str] = "epsilon_per_query"
    noise_level: ClassVar[str] = "exact"
    epsilon_per_query: float
    k: int
    sampling_rate: float = 1.0
    grid: tuple[float, float, int] = (0.0, 1.0, 101)
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        epsilon = positive(epsilon_per_query=self.epsilon_per_query)
        if not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
            raise refuse("epsilon_per_query", epsilon, f"from 2**-12 to {_MOST_EPSILON:g}")
        object.__setattr__(self, "epsilon_per_query", epsilon)
        object.__setattr__(self, "grid", _checked_grid(self.grid))
        self._validate_sample()

    @property
    def points(self) -> Floats:
        """The public points, of which one is released."""
        low, high, count = self.grid
        return np.linspace(low, high, count)

    def weights(self) -> Integers:
        """Return the weight of a point that has 0 .. k more records on one side than the other.

        Returns
        -------
        array of int of shape (k + 1,)
            Whole numbers; public.
        """
        rate = (self.epsilon_per_query / 2 - _SLACK) / (2 * self.votes_per_unit)
        depth = np.minimum(rate * np.arange(self.k + 1), _DEEPEST)
        return np.asarray(np.rint(_TOP * np.exp(-depth)), dtype=np.int64)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one query: the exponential mechanism on a Poisson sample; public."""
        values = sampled_exponential_rdp(self.epsilon_per_query, self.sampling_rate, orders)
        return RdpCurve(orders, values)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one grid point per query."""
        entry = admit(noise)
        points, weights = self.points, self.weights()
        values = np.empty(self._answers(answers).n_queries)
        width = math.ceil((2 * points.size + _UNIFORM_BITS) / self.k) + 1
        read = partial(self._targets, answers, None)
        for places, positions, numbers in self._drawn(answers, noise, read, width=width):
            cumulative = np.cumsum(weights[imbalance(numbers, positions, points)], axis=1)
            drawn = uniform_below(cumulative[:, -1], noise)
            values[places] = points[(cumulative <= drawn[:, None]).sum(axis=1)]
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit below all points, which moves the balance at the lowest of them.

        Without sampling: from (-2c, 0) at the lower and the upper points to (0, 2c). On a sample,
        from (-k, k) to (-k + 2c, k) if the table of weights reaches that far; else the unit is
        alone.
        """
        small(k=self.k)
        points, votes, k = self.points, self.votes_per_unit, self.k
        lowest = max(1, points.size // 16)
        between = (points[lowest - 1] + points[lowest]) / 2
        above, below = points[-1] + 1, points[0] - 1
        if self.sampling_rate == 1:
            others = (audit_cases.SAME,) * max(0, k - k // 2 - votes) + (3,) * min(votes, k)
            values = np.array([below, below, above, between])
            world = World(values, votes, others, audit_cases.OTHER)
        elif self.epsilon_per_query * k / (4 * votes) < _SHALLOW:
            world = World(np.array([below, below, between]), votes, crowd=audit_cases.OTHER)
        else:
            lowest, world = 1, World(np.array([points[0]]), votes)
        middle = (points[lowest - 1] + points[lowest]) / 2
        looks = audit_cases.at_orders(audit_cases.beyond((-1.0,), -middle))
        width = math.ceil((points.size + 62) / k)
        yield with_and_without("the point", Plan(self, 1), world, looks, width)

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Name the three numbers of the grid one by one."""
        shown: dict[str, Any] = {}
        for name, default in super(SampledMedian, cls).parameters().items():
            shown |= _WORDS if name == "grid" else {name: default}
        return shown

    @classmethod
    def from_parameters(cls, **given: Any) -> SampledMedian:
        """Make one of what `parameters` names."""
        grid = tuple(given.pop(name, default) for name, default in _WORDS.items())
        return cls(**given, grid=grid)


def imbalance(numbers: Floats, positions: Integers, points: Floats) -> Integers:
    """|#{y < x} - #{y > x}| over the drawn records, for each row and each point x."""
    rows, places = np.nonzero(positions >= 0)
    found = numbers[positions[rows, places]]
    # y < points[i] from i = right on; y <= points[i], so not y > points[i], from i = left on.
    balance = -(positions >= 0).sum(axis=1)[:, None]
    for side in ("left", "right"):
        first = np.searchsorted(points, found, side=side)
        bins = rows * (points.size + 1) + first
        counts = np.bincount(bins, minlength=len(positions) * (points.size + 1))
        balance = balance + np.cumsum(counts.reshape(-1, points.size + 1), axis=1)[:, :-1]
    return np.asarray(np.abs(balance))


def uniform_below(limits: Integers, noise: Noise) -> Integers:
    """Draw a whole number uniformly from 0 .. limit - 1 for each limit <= 2^61, exactly.

    Of uniform numbers below 2^62, those from the largest multiple of the limit on are drawn again.
    """
    drawn = np.empty(limits.size, dtype=np.int64)
    powers = np.left_shift(1, np.arange(_UNIFORM_BITS, dtype=np.int64))
    waiting = np.arange(limits.size)
    while waiting.size:
        numbers = noise.bernoulli(0.5, (waiting.size, _UNIFORM_BITS)) @ powers
        limit = limits[waiting]
        good = numbers < (1 << _UNIFORM_BITS) // limit * limit
        drawn[waiting[good]] = (numbers % limit)[good]
        waiting = waiting[~good]
    return drawn


def _checked_grid(grid: Any) -> tuple[float, float, int]:
    try:
        low, high, points = grid
    except (TypeError, ValueError):
        raise InvalidArgument("Expected grid=(low, high, points).") from None
    low, high, points = finite(low=low), finite(high=high), at_least(2, points=points)
    if not low < high or not math.isfinite(high - low):
        raise refuse("low", low, f"below high={high!r}")
    if points > _MOST_POINTS:
        raise refuse("points", points, f"at most {_MOST_POINTS}")
    return low, high, points
