"""Noise for the neighbours' answers, chosen before the run from public information alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tacit._checks import at_least, one_of
from tacit._checks import sampling_rate as checked_rate
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.mechanisms import (
    Mechanism,
    NoisyScreening,
    Plan,
    SampledLabels,
    SampledMax,
    SampledMean,
    SampledMedian,
    SampledVotes,
)
from tacit.methods.calibration import calibrate
from tacit.methods.pate_planning import AGREEMENT, CHECK_SHARE, rounded_up

MECHANISMS = ("sampled-votes", "sampled-max", "noisy-screening")
ANSWERED = 0.75
"""Share of the queries that noisy screening may answer at the most."""
_MOST_ON_GRID = 2.0**19
"""Beyond, a rounded Gaussian would be too wide for the grid on which sums are counted."""

Grid = tuple[float, float, int]


@dataclass(frozen=True, slots=True)
class Neighbourly:
    """How neighbours are asked: all public. `n_classes` None: not a matter of classes."""

    k: int
    sampling_rate: float
    votes_per_unit: int
    n_classes: int | None
    order: float | None = None
    """Renyi order of a ledger that exists, None for one that is to be made."""

    def plan(self, mechanism: Mechanism, queries: int, max_answers: int | None = None) -> Plan:
        """Return so many uses of the mechanism."""
        return Plan(mechanism, queries, max_answers=max_answers, n_classes=self.n_classes)

    @property
    def sample(self) -> dict[str, Any]:
        """What every mechanism on neighbours wants to know."""
        return {
            "k": self.k,
            "sampling_rate": self.sampling_rate,
            "votes_per_unit": self.votes_per_unit,
        }


def plan_classes(
    mechanism: Any, asked: Neighbourly, queries: int, budget: Budget, *, listed: bool
) -> Plan:
    """Return the plan of `queries` questions that spends the budget and not more.

    `mechanism` is a name, whose noise is chosen here, or a mechanism with its own noise. `listed`
    says that the plans are known in advance and priced as one list, with a cap on the answers of a
    screening; otherwise each answer is paid as it comes from a ledger with one Renyi order, and the
    noise has to be larger.
    """
    if not isinstance(mechanism, str):
        if any(getattr(mechanism, key, None) != value for key, value in asked.sample.items()):
            raise InvalidArgument(
                f"Expected mechanism={mechanism!r} to have k={asked.k}, sampling_rate="
                f"{asked.sampling_rate} and votes_per_unit={asked.votes_per_unit}."
            )
        return asked.plan(mechanism, queries)
    one_of(*MECHANISMS, mechanism=mechanism)
    if mechanism == "noisy-screening":
        return calibrate(
            lambda sigma: _screening(asked, queries, sigma, capped=listed),
            budget,
            listed=listed,
            order=asked.order,
        )
    kind = SampledVotes if mechanism == "sampled-votes" else SampledMax
    return calibrate(
        lambda sigma: asked.plan(kind(sigma=sigma, **asked.sample), queries),
        budget,
        listed=listed,
        order=asked.order,
    )


def _screening(asked: Neighbourly, queries: int, sigma: float, *, capped: bool) -> Plan:
    """Split what is spent between checks and answers as if every record took part."""
    cap = max(1, math.ceil(ANSWERED * queries)) if capped else queries
    # mu^2 of the checks, queries/s^2, to that of the answers, 2 cap/sigma^2, as the shares.
    screen = sigma * math.sqrt(queries / (2 * cap) * (1 - CHECK_SHARE) / CHECK_SHARE)
    mechanism = NoisyScreening(
        threshold=round(AGREEMENT * asked.k), sigma_screen=screen, sigma=sigma, **asked.sample
    )
    return asked.plan(mechanism, queries, max_answers=cap if capped else None)


def propose_neighbours(
    queries: int, budget: Budget, classes: int, *, k: int, sampling_rate: float = 1.0
) -> list[Plan]:
    """Return plans that spend the budget: label, histogram, screening; noise with four digits.

    They are priced as a student's run is: the whole list at once.
    """
    asked = Neighbourly(at_least(1, k=k), checked_rate(sampling_rate=sampling_rate), 1, classes)
    label, screened = (
        _readable(plan_classes(name, asked, queries, budget, listed=True), budget)
        for name in ("sampled-max", "noisy-screening")
    )
    # The histogram costs what its plurality costs.
    votes = SampledVotes(sigma=label.mechanism.sigma, **asked.sample)  # type: ignore[attr-defined]
    return [label, asked.plan(votes, queries), screened]


def _readable(plan: Plan, budget: Budget) -> Plan:
    """Round noise up to four digits, so that it may be typed as printed."""
    mechanism: Any = plan.mechanism
    sigmas = [name for name in ("sigma", "sigma_screen") if hasattr(mechanism, name)]
    rounded = replace(mechanism, **{name: rounded_up(getattr(mechanism, name)) for name in sigmas})
    readable = Plan(rounded, plan.queries, max_answers=plan.max_answers, n_classes=plan.n_classes)
    return readable if readable.epsilon(budget.delta) <= budget.epsilon else plan


def plan_mean(
    asked: Neighbourly, queries: int, budget: Budget, *, low: float, high: float, listed: bool
) -> Plan:
    """Return the plan of `queries` clipped means that spends the budget and not more."""
    one = (high - low) / asked.k  # what a displaced record can change: the noise is in its units

    def plan_with(noise: float) -> Plan:
        mechanism = SampledMean(sigma=noise * one, low=low, high=high, **asked.sample)
        return asked.plan(mechanism, queries)

    return calibrate(plan_with, budget, listed=listed, order=asked.order, most=_MOST_ON_GRID)


def plan_median(
    asked: Neighbourly, queries: int, budget: Budget, *, grid: Grid, listed: bool
) -> Plan:
    """Return the plan of `queries` medians that spends the budget and not more."""

    def plan_with(noise: float) -> Plan:
        mechanism = SampledMedian(epsilon_per_query=1 / noise, grid=grid, **asked.sample)
        return asked.plan(mechanism, queries)

    return calibrate(plan_with, budget, listed=listed, order=asked.order, least=0.01, most=2.0**12)


def plan_labels(
    asked: Neighbourly, queries: int, budget: Budget, *, tau: float, clip: str, listed: bool
) -> Plan:
    """Return the plan of `queries` counts of labels that spends the budget and not more."""

    def plan_with(sigma: float) -> Plan:
        mechanism = SampledLabels(sigma=sigma, tau=tau, clip=clip, **asked.sample)
        return asked.plan(mechanism, queries)

    return calibrate(plan_with, budget, listed=listed, order=asked.order, most=_MOST_ON_GRID)
