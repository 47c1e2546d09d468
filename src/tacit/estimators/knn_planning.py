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
from tacit.privacy import gaussian_epsilon

MECHANISMS = ("sampled-votes", "sampled-max", "noisy-screening")
ANSWERED = 0.75
"""Share of the queries that noisy screening may answer at the most."""
_PRECISE = 1e-5
_FAR = 50.0
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
        return fit_noise(
            lambda sigma: _screening(asked, queries, sigma, capped=listed),
            budget,
            listed=listed,
            order=asked.order,
        )
    kind = SampledVotes if mechanism == "sampled-votes" else SampledMax
    return fit_noise(
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


def plan_mean(
    asked: Neighbourly, queries: int, budget: Budget, *, low: float, high: float, listed: bool
) -> Plan:
    """Return the plan of `queries` clipped means that spends the budget and not more."""
    one = (high - low) / asked.k  # what a displaced record can change: the noise is in its units

    def plan_with(noise: float) -> Plan:
        mechanism = SampledMean(sigma=noise * one, low=low, high=high, **asked.sample)
        return asked.plan(mechanism, queries)

    return fit_noise(plan_with, budget, listed=listed, order=asked.order, most=_MOST_ON_GRID)


def plan_median(
    asked: Neighbourly, queries: int, budget: Budget, *, grid: Grid, listed: bool
) -> Plan:
    """Return the plan of `queries` medians that spends the budget and not more."""

    def plan_with(noise: float) -> Plan:
        mechanism = SampledMedian(epsilon_per_query=1 / noise, grid=grid, **asked.sample)
        return asked.plan(mechanism, queries)

    return fit_noise(plan_with, budget, listed=listed, order=asked.order, least=0.01, most=2.0**12)


def plan_labels(
    asked: Neighbourly, queries: int, budget: Budget, *, tau: float, clip: str, listed: bool
) -> Plan:
    """Return the plan of `queries` counts of labels that spends the budget and not more."""

    def plan_with(sigma: float) -> Plan:
        mechanism = SampledLabels(sigma=sigma, tau=tau, clip=clip, **asked.sample)
        return asked.plan(mechanism, queries)

    return fit_noise(plan_with, budget, listed=listed, order=asked.order, most=_MOST_ON_GRID)


def fit_noise(
    plan_with: Callable[[float], Plan],
    budget: Budget,
    *,
    listed: bool,
    order: float | None = None,
    least: float = _LEAST,
    most: float = _MOST,
) -> Plan:
    """Return the plan with the least noise that stays within the budget, to about four digits.

    More noise must cost less. `least` and `most` are the ends of what the mechanism can do.
    """
    from scipy.optimize import brentq

    excess = _excess(budget, listed=listed, order=order)
    low, high = least, 1.0
    while excess(plan_with(high)) > 0:
        if high >= most:
            raise InvalidArgument(
                f"Expected epsilon={budget.epsilon!r} at delta={budget.delta!r} to be within "
                "reach of some noise; ask fewer queries."
            )
        low, high = high, min(4 * high, most)
    if low == least and excess(plan_with(least)) <= 0:
        return plan_with(least)
    root = brentq(
        lambda log: excess(plan_with(math.exp(log))), math.log(low), math.log(high), xtol=_PRECISE
    )
    noise = math.exp(float(root))
    while noise < high:  # the root may lie on either side: only what fits is returned
        if excess(plan_with(noise)) <= 0:
            return plan_with(noise)
        noise *= 1 + _PRECISE
    return plan_with(high)


def _excess(budget: Budget, *, listed: bool, order: float | None) -> Callable[[Plan], float]:
    """Return log(cost/budget) as the ledger will see it: a plan fits where it is at most 0."""
    if listed:
        return lambda plan: _log_ratio(plan.epsilon(budget.delta), budget.epsilon)

    def one_by_one(plan: Plan) -> float:
        mu_squared = plan.mu_squared()
        if (
            mu_squared is not None and order is None
        ):  # such a ledger adds up mu^2 and knows no other price
            epsilon = gaussian_epsilon(budget.delta, math.sqrt(mu_squared))
            return _log_ratio(float(epsilon), budget.epsilon)
        one = best_order(budget, budget.delta) if order is None else order
        capacity = RdpAccountant.within(budget, budget.delta, one).capacity
        return _log_ratio(float(plan.cost([one]).total().values[0]), capacity)

    return one_by_one


def _log_ratio(cost: float, budget: float) -> float:
    """Return log(cost/budget), finite even where the cost is 0 or infinite."""
    if cost <= budget * math.exp(-_FAR):
        return -_FAR
    return min(math.log(cost) - math.log(budget), _FAR)
