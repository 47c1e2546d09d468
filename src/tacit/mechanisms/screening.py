"""Noisy screening: neighbours answer only where enough of them agree.

Screening and answer each draw a Poisson sample of their own. With one sample for both, as in the
paper, the pair would show more than the two amplified costs add up to
(docs/theory/private-knn.md#noisy-screening).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least, finite, noise_scale
from tacit.mechanisms.auditing import Suspicion, at_deltas, at_orders, cut, labelled, small
from tacit.mechanisms.base import NO_ANSWER, Release
from tacit.mechanisms.crowds import FINE, SAME, VOTES, World, crowd, split, with_and_without
from tacit.mechanisms.neighbours import ClassNeighbours, count_classes
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.sampled_votes import SampledMax
from tacit.mechanisms.votes import VoteReading
from tacit.noise import admit
from tacit.privacy import RdpCurve, sampled_screening_rdp, sampled_threshold_rdp
from tacit.privacy.auditing import Event

if TYPE_CHECKING:
    from tacit.noise import Noise

_COMPANY = 64
"""With more others than that, their coins hide from an audit what the unit does."""


@dataclass(frozen=True, slots=True)
class ScreeningCheck(ClassNeighbours):
    """Release the bit 1[max_j votes_j + N(0, sigma^2) >= threshold] of a Poisson sample.

    The largest count lies in [0, k], for a sample may be small, and one unit moves it by at most
    `votes_per_unit`. mu^2 = (votes_per_unit/sigma)^2 where every record takes part.

    >>> check = ScreeningCheck(threshold=210, sigma=85, k=300, sampling_rate=0.25)
    >>> float(f"{check.cost([8]).values[0]:.10g}")
    2.203150303e-05
    """

    name: ClassVar[str] = "screening-check"
    noise_level: ClassVar[str] = "csprng"
    threshold: float
    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", finite(threshold=self.threshold))
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        self._validate_sample()

    def passes(self, answers: Any, noise: Noise, n_classes: int | None) -> NDArray[np.bool_]:
        """Draw a sample and noise for each query; return which comparisons hold."""
        classes = self._targets(answers, n_classes)
        passed = np.empty(answers.n_queries, dtype=np.bool_)
        for places, positions in self._drawn(answers, noise):
            top = count_classes(classes, positions, int(n_classes or 0)).max(axis=1)
            noisy = noise.gaussian(self.sigma, top.shape)
            noisy += top
            passed[places] = noisy >= self.threshold
        return passed

    def release(self, answers: Any, noise: Noise, *, n_classes: int | None = None) -> Release:
        """Return 1 for each query that passes, else 0."""
        entry = admit(noise)
        labels = self.passes(answers, noise, n_classes).astype(np.int64)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case over every value of the statistic, exactly amplified."""
        values = sampled_threshold_rdp(
            self.k, self.threshold, self.sigma, self.sampling_rate, orders, self.votes_per_unit
        )
        return RdpCurve(orders, values)

    def gaussian_cost(self) -> float | None:
        """mu^2 = (votes_per_unit/sigma)^2 if every record takes part, else None."""
        return None if self.sampling_rate < 1.0 else (self.votes_per_unit / self.sigma) ** 2

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a check that the unit's votes, or those that it displaces, decide."""
        return _checks("the check", self, self.sigma, (labelled(1),))


@dataclass(frozen=True, slots=True)
class NoisyScreening(ClassNeighbours):
    """Answer only where a noisy check finds enough neighbours agreeing (Private-kNN, Algorithm 1).

    If max_j votes_j + N(0, sigma_screen^2) >= threshold, release argmax_j votes_j + N(0, sigma^2)
    of the votes of *another* Poisson sample, else -1. A plan needs n_classes. Unit: one with at
    most `votes_per_unit` records among a query's neighbours.

    >>> from tacit import Plan
    >>> mechanism = NoisyScreening(210, sigma_screen=85, sigma=25, k=300, sampling_rate=0.15)
    >>> round(Plan(mechanism, 1000, max_answers=500, n_classes=10).epsilon(1e-5), 3)
    0.776
    """

    name: ClassVar[str] = "noisy-screening"
    noise_level: ClassVar[str] = "csprng"
    threshold: float
    sigma_screen: float
    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "threshold", finite(threshold=self.threshold))
        put(self, "sigma_screen", noise_scale(sigma_screen=self.sigma_screen))
        put(self, "sigma", noise_scale(sigma=self.sigma))
        self._validate_sample()

    @property
    def check(self) -> ScreeningCheck:
        """What every query pays."""
        return ScreeningCheck(
            self.threshold, self.sigma_screen, self.k, self.sampling_rate, self.votes_per_unit
        )

    @property
    def answer(self) -> SampledMax:
        """What a query that passes pays on top."""
        return SampledMax(self.sigma, self.k, self.sampling_rate, self.votes_per_unit)

    def release(
        self,
        answers: Any,
        noise: Noise,
        *,
        n_classes: int | None = None,
        max_answers: int | None = None,
    ) -> Release:
        """Return one label per query, -1 where unanswered; after `max_answers` all are -1."""
        entry = admit(noise)
        passed = self.check.passes(answers, noise, n_classes)
        cap = passed.size if max_answers is None else at_least(0, max_answers=max_answers)
        # The first that passed: a choice among them by votes would release more than was priced.
        rows = np.nonzero(passed)[0][:cap]
        labels = np.full(passed.size, NO_ANSWER, dtype=np.int64)
        if rows.size:
            # On samples of their own: that a query passed tells who was in the sample of its check.
            labels[rows] = self.answer.labels(answers, noise, n_classes, rows)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case for one query, screened and possibly answered."""
        values = sampled_screening_rdp(
            self.k,
            self.threshold,
            self.sigma_screen,
            self.answer.cost(orders).values,
            self.sampling_rate,
            orders,
            self.votes_per_unit,
        )
        return RdpCurve(orders, values)

    def gaussian_cost(self) -> float | None:
        """mu^2 of one query that is checked and answered, if every record takes part."""
        check, answer = self.check.gaussian_cost(), self.answer.gaussian_cost()
        return None if check is None or answer is None else check + answer

    def reading(self) -> VoteReading:
        """Gaussian noise, where a check was passed."""
        return VoteReading.gaussian(self.sigma, check=(self.threshold, self.sigma_screen))

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield what decides the check and, where everybody takes part, what decides the answer."""
        events = labelled(0, 1), labelled(0)
        yield from _checks("check and answer", self, self.sigma_screen, events)
        if self.sampling_rate == 1:
            one, world = Plan(self, 1, n_classes=2), split(self, self.votes_per_unit)
            yield with_and_without("the answer", one, world, at_deltas(*events))


def _checks(
    what: str, mechanism: ScreeningCheck | NoisyScreening, sigma: float, events: tuple[Event, ...]
) -> Iterator[Suspicion]:
    small(threshold=mechanism.threshold, k=mechanism.k)
    one, votes = Plan(mechanism, 1, n_classes=2), mechanism.votes_per_unit
    if mechanism.sampling_rate < 1:
        looks = at_orders(*events)
        yield with_and_without(f"{what}, alone", one, World(VOTES, votes), looks)
        yield with_and_without(f"{what}, in a crowd", one, crowd(VOTES, votes), looks)
        company = round((mechanism.threshold - votes / 2) / mechanism.sampling_rate)
        if 0 < company <= _COMPANY:
            world = World(VOTES, votes, (SAME,) * company)
            yield with_and_without(f"{what}, in company", one, world, looks)
        return
    away = cut(votes / sigma, one.epsilon(FINE)) * sigma
    tops = {round(mechanism.threshold - each) for each in (votes, away)}
    for top in sorted({min(max(0, top), mechanism.k - votes) for top in tops}):
        world = World(VOTES, votes, (SAME,) * top)
        yield with_and_without(what, one, world, at_deltas(*events))
