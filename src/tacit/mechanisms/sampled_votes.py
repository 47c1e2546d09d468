"""The votes of sampled neighbours: their noisy plurality, and the noisy histogram.

A sampled unit adds at most c = `votes_per_unit` votes and displaces at most c: L2 = sqrt(2) c.
Proof: docs/theory/private-knn.md#noisy-plurality-and-histogram.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._checks import Integers, noise_scale
from tacit.mechanisms.auditing import Shift, Suspicion, at_deltas, at_orders, cut, labelled, small
from tacit.mechanisms.base import Release
from tacit.mechanisms.crowds import (
    FINE,
    OTHER,
    VOTES,
    World,
    crowd,
    shifted,
    split,
    with_and_without,
)
from tacit.mechanisms.neighbours import (
    ClassNeighbours,
    GaussianNeighbours,
    check_grid,
    count_classes,
    histogram_multiplier,
)
from tacit.mechanisms.noisy_max import noisy_argmax
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.votes import VoteReading
from tacit.noise import admit

if TYPE_CHECKING:
    from tacit.noise import Noise

_NEAR = 4.0
"""A lead of more deviations than that is never made up for an audit."""


class _Votes(ClassNeighbours, GaussianNeighbours):
    """Votes of the sampled neighbours with Gaussian noise."""

    __slots__ = ()
    sigma: float

    @property
    def noise_multiplier(self) -> float:
        """Sigma over sqrt(2) votes_per_unit."""
        return histogram_multiplier(self.sigma, self.votes_per_unit)

    def reading(self) -> VoteReading:
        """Gaussian noise on each count."""
        return VoteReading.gaussian(self.sigma)


@dataclass(frozen=True, slots=True)
class SampledMax(_Votes):
    """Release argmax_j (votes_j + N(0, sigma^2)) of the k nearest records of a Poisson sample.

    One query costs the subsampled Gaussian with mu = sqrt(2) votes_per_unit/sigma. A plan needs
    n_classes. Unit: one with at most `votes_per_unit` records among a query's neighbours.

    >>> float(f"{SampledMax(sigma=5, k=30, sampling_rate=0.05).cost([8]).values[0]:.10g}")
    0.0008536918171
    """

    name: ClassVar[str] = "sampled-max"
    noise_level: ClassVar[str] = "csprng"
    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        self._validate_sample()

    def release(self, answers: Any, noise: Noise, *, n_classes: int | None = None) -> Release:
        """Return one label per query."""
        entry = admit(noise)
        labels = self.labels(answers, noise, n_classes)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def labels(
        self, answers: Any, noise: Noise, n_classes: int | None, rows: Integers | None = None
    ) -> Integers:
        """Draw a sample and noise for each of these queries; return the noisy pluralities."""
        classes = self._targets(answers, n_classes)
        labels = np.empty(answers.n_queries if rows is None else rows.size, dtype=np.int64)
        for places, positions in self._drawn(answers, noise, rows):
            votes = count_classes(classes, positions, int(n_classes or 0))
            labels[places] = noisy_argmax(votes, lambda shape: noise.gaussian(self.sigma, shape))
        return labels

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit that is alone, or that displaces a vote for the class which is ahead."""
        small(k=self.k)
        one, votes = Plan(self, 1, n_classes=2), self.votes_per_unit
        spread = math.sqrt(2) * self.sigma
        if self.sampling_rate < 1:
            looks = at_orders(labelled(0))
            yield with_and_without("the label, alone", one, World(VOTES, votes), looks)
            if self.k <= _NEAR * spread:
                world = World(VOTES, votes, crowd=OTHER)
                yield with_and_without("the label, in a crowd", one, world, looks)
            return
        gap = cut(2 * votes / spread, one.epsilon(FINE)) * spread
        for behind in sorted({votes, round(gap)}):
            world = split(self, behind)
            yield with_and_without("the label", one, world, at_deltas(labelled(0)))


@dataclass(frozen=True, slots=True)
class SampledVotes(_Votes):
    """Release the histogram of the k nearest of a Poisson sample plus a rounded Gaussian.

    It costs what `SampledMax` costs, whose label is a post-processing of it. The noise is a
    Gaussian rounded to the integers, exactly sampled. A plan needs n_classes. Unit: one with at
    most `votes_per_unit` records among a query's neighbours.

    >>> round(SampledVotes(sigma=20, k=300).gaussian_cost(), 9) == 2 / 20**2
    True
    """

    name: ClassVar[str] = "sampled-votes"
    noise_level: ClassVar[str] = "exact"
    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        self._validate_sample()
        check_grid(self.sigma, 1.0)

    def release(self, answers: Any, noise: Noise, *, n_classes: int | None = None) -> Release:
        """Return noisy counts (queries, classes); some are negative."""
        entry = admit(noise)
        classes, width = self._targets(answers, n_classes), int(n_classes or 0)
        values = np.empty((answers.n_queries, width))
        for places, positions in self._drawn(answers, noise):
            votes = count_classes(classes, positions, width)
            votes += noise.rounded_gaussian_steps(self.sigma, 1.0, votes.shape)
            values[places] = votes
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the difference of two counts, of which everyone else has filled the second."""
        small(k=self.k)
        votes, spread = self.votes_per_unit, math.sqrt(2) * self.sigma
        shift = Shift((1.0, -1.0), -self.k, 2 * votes, spread, self.sampling_rate)
        yield shifted("the counts", Plan(self, 1, n_classes=2), crowd(VOTES, votes), shift)
