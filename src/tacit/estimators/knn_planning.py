"""Noise for the neighbours' answers, chosen before the run from public information alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit._checks import one_of
from tacit.errors import InvalidArgument
from tacit.estimators.planning import AGREEMENT, CHECK_SHARE
from tacit.ledger import Budget
from tacit.ledger.budget import RdpAccountant, best_order
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

MECHANISMS = ("sampled-votes", "sampled-max", "noisy-screening")
ANSWERED = 0.75
"""Share of the queries that noisy screening may answer at the most."""
_PRECISE = 1e-4
_LEAST, _MOST = 2.0**-10, 2.0**30
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
        return fit_noise(
            lambda sigma: _screening(asked, queries, sigma, capped=listed), budget, listed=listed
        )
    kind = SampledVotes if mechanism == "sampled-votes" else SampledMax
    return fit_noise(
        lambda sigma: asked.plan(kind(sigma=sigma, **asked.sample), queries), budget, listed=listed
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


def plan_mean(
    asked: Neighbourly, queries: int, budget: Budget, *, low: float, high: float, listed: bool
) -> Plan:
    """Return the plan of `queries` clipped means that spends the budget and not more."""
    one = (high - low) / asked.k  # what a displaced record can change: the noise is in its units

    def plan_with(noise: float) -> Plan:
        mechanism = SampledMean(sigma=noise * one, low=low, high=high, **asked.sample)
        return asked.plan(mechanism, queries)

    return fit_noise(plan_with, budget, listed=listed, most=_MOST_ON_GRID)


def plan_median(
    asked: Neighbourly, queries: int, budget: Budget, *, grid: Grid, listed: bool
) -> Plan:
    """Return the plan of `queries` medians that spends the budget and not more."""

    def plan_with(noise: float) -> Plan:
        mechanism = SampledMedian(epsilon_per_query=1 / noise, grid=grid, **asked.sample)
        return asked.plan(mechanism, queries)

    return fit_noise(plan_with, budget, listed=listed, least=0.01, most=2.0**12)


def plan_labels(
    asked: Neighbourly, queries: int, budget: Budget, *, tau: float, clip: str, listed: bool
) -> Plan:
    """Return the plan of `queries` counts of labels that spends the budget and not more."""

    def plan_with(sigma: float) -> Plan:
        mechanism = SampledLabels(sigma=sigma, tau=tau, clip=clip, **asked.sample)
        return asked.plan(mechanism, queries)

    return fit_noise(plan_with, budget, listed=listed, most=_MOST_ON_GRID)


def fit_noise(
    plan_with: Callable[[float], Plan],
    budget: Budget,
    *,
    listed: bool,
    least: float = _LEAST,
    most: float = _MOST,
) -> Plan:
    """Return the plan with the least noise that stays within the budget, to four digits, above.

    More noise must cost less. `least` and `most` are the ends of what the mechanism can do.
    """
    fits = _within(budget, listed=listed)
    low, high = least, 1.0
    while not fits(plan_with(high)):
        if high >= most:
            raise InvalidArgument(
                f"Expected epsilon={budget.epsilon!r} at delta={budget.delta!r} to be within "
                "reach of some noise; ask fewer queries."
            )
        low, high = high, min(4 * high, most)
    if low == least and fits(plan_with(least)):
        return plan_with(least)
    while high > low * (1 + _PRECISE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(plan_with(middle)) else (middle, high)
    return plan_with(high)


def _within(budget: Budget, *, listed: bool) -> Callable[[Plan], bool]:
    """Return the test that the ledger will make."""

    def as_list(plan: Plan) -> bool:
        return plan.epsilon(budget.delta) <= budget.epsilon

    def one_by_one(plan: Plan) -> bool:
        if plan.mu_squared() is not None:
            return as_list(plan)
        order = best_order(budget, budget.delta)
        accountant = RdpAccountant.within(budget, budget.delta, order)
        return accountant.cost(plan, 0) <= accountant.capacity

    return as_list if listed else one_by_one
