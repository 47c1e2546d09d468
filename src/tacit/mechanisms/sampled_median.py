"""The median of sampled neighbours, by the exponential mechanism on a public grid.

A noisy median itself would need noise of the whole range. Instead a grid point x is drawn with
probability proportional to exp(e0 u(x)/(2c)), u(x) = -|#{y < x} - #{y > x}|/2 over the sampled
neighbours, which c = `votes_per_unit` displaced records move by at most c. A missing neighbour
stands on neither side; with all k present and no ties, u is -|#{y < x} - k/2|. Proof:
docs/theory/private-knn.md#numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, at_least, finite, positive, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Suspicion, at_orders, beyond, small
from tacit.mechanisms.base import Release
from tacit.mechanisms.crowds import OTHER, SAME, World, with_and_without
from tacit.mechanisms.neighbours import NeighbourMechanism, number_targets
from tacit.mechanisms.plan import Plan
from tacit.noise import admit
from tacit.privacy import RdpCurve, sampled_exponential_rdp

if TYPE_CHECKING:
    from tacit.noise import Noise

_MOST_POINTS = 4096
_UNIFORM_BITS = 62
_TOP = 2.0**49  # the weight of utility 0: 4096 of them sum to 2^61
_DEEPEST = 18.0  # utilities are clipped where the weight is e^-18 of the top, still above 2^22
_SLACK = 2.0**-22  # what rounding two weights of at least 2^22 can add to their log-ratio
_LEAST_EPSILON, _MOST_EPSILON = 2.0**-12, 100.0
_SHALLOW = 16.0  # log-weights deeper than that are cut off, and tell an audit nothing
_WORDS = {"low": 0.0, "high": 1.0, "points": 101}  # what stands for the grid in a description


@dataclass(frozen=True, slots=True)
class SampledMedian(NeighbourMechanism):
    """Release a point of a public grid near the median of the sampled neighbours' numbers.

    `epsilon_per_query` is e0, the epsilon of one answer if every record took part; sampling lowers
    it to log(1 + rate (e^e0 - 1)). `grid` = (low, high, points) is public and evenly spaced. Unit:
    one with at most `votes_per_unit` records among a query's neighbours.

    Exact sampling: the weights are a public table of whole numbers, one for each value of
    2|u| in 0 .. k, and a point is drawn by a uniform whole number below their sum, made of fair
    bits by rejection. The table's log-ratios, not the ideal ones, are what privacy rests on:
    utilities are clipped at weight e^-18 (clipping brings two utilities no farther apart) and
    scaled down by what rounding can add, so that displaced votes change no log-weight by more
    than e0/2, and no log-probability ratio ranges over more than e0.

    >>> SampledMedian(0.5, k=100, sampling_rate=0.2, grid=(0, 10, 101)).gaussian_cost() is None
    True
    """

    name: ClassVar[str] = "sampled-median"
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
        """Return the weight of a point that has 0 .. k more records on one side than the other."""
        rate = (self.epsilon_per_query / 2 - _SLACK) / (2 * self.votes_per_unit)
        depth = np.minimum(rate * np.arange(self.k + 1), _DEEPEST)
        return np.asarray(np.rint(_TOP * np.exp(-depth)), dtype=np.int64)

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case for one query: the exponential mechanism on a Poisson sample."""
        values = sampled_exponential_rdp(self.epsilon_per_query, self.sampling_rate, orders)
        return RdpCurve(orders, values)

    def _targets(self, answers: Any, n_classes: int | None) -> Floats:
        return number_targets(self._answers(answers).targets)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one grid point per query."""
        entry = admit(noise)
        numbers, points, weights = self._targets(answers, None), self.points, self.weights()
        values = np.empty(answers.n_queries)
        width = math.ceil((2 * points.size + _UNIFORM_BITS) / self.k) + 1
        for places, positions in self._drawn(answers, noise, width=width):
            cumulative = np.cumsum(weights[imbalance(numbers, positions, points)], axis=1)
            drawn = uniform_below(cumulative[:, -1], noise)
            values[places] = points[(cumulative <= drawn[:, None]).sum(axis=1)]
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit below all points, which moves the balance at the lowest of them.

        Where everybody takes part: from (-2c, 0) at the lower and the upper points to (0, 2c). On a
        sample, from (-k, k) to (-k + 2c, k), while a table of weights reaches that far; else the
        unit is alone, at the lowest point.
        """
        small(k=self.k)
        points, votes, k = self.points, self.votes_per_unit, self.k
        lowest = max(1, points.size // 16)
        between = (points[lowest - 1] + points[lowest]) / 2
        above, below = points[-1] + 1, points[0] - 1
        if self.sampling_rate == 1:
            others = (SAME,) * max(0, k - k // 2 - votes) + (3,) * min(votes, k)
            world = World(np.array([below, below, above, between]), votes, others, OTHER)
        elif self.epsilon_per_query * k / (4 * votes) < _SHALLOW:
            world = World(np.array([below, below, between]), votes, crowd=OTHER)
        else:
            lowest, world = 1, World(np.array([points[0]]), votes)
        middle = (points[lowest - 1] + points[lowest]) / 2
        looks, width = at_orders(beyond((-1.0,), -middle)), math.ceil((points.size + 62) / k)
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

    62 fair bits make a uniform number below 2^62; those at or above the largest multiple of the
    limit are drawn again, so that the remainder is uniform.
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
