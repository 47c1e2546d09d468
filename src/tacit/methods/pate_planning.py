"""Noise for a budget, chosen before the run from public information alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.mechanisms import ConfidentGNMax, GNMax, InteractiveGNMax, Mechanism, NoisyVotes, Plan
from tacit.privacy import calibrate_gaussian, gaussian_mu

CHECK_SHARE = 0.1
"""Share of mu^2 that a selective mechanism spends on its checks."""
AGREEMENT = 0.6
"""Share of the teachers that a check asks for."""
ROUND_ONE_SHARE = 0.6
"""Share of mu^2 for the first of two rounds."""


def plan_rounds(
    mechanism: Any,
    *,
    queries: Sequence[int],
    budget: Budget,
    n_teachers: int,
    n_classes: int,
) -> list[Plan]:
    """Return one plan per round, which together spend the budget in the worst case.

    `mechanism` is a name ("noisy-votes", "gnmax", "confident-gnmax"), whose noise is chosen here,
    or a mechanism with its own noise. A second round is Interactive-GNMax.
    """
    public = {"n_teachers": n_teachers, "n_classes": n_classes}
    if not isinstance(mechanism, str):
        if len(queries) > 1:
            raise InvalidArgument("Expected mechanism= a name where rounds=2: its noise is chosen.")
        return [Plan(mechanism, queries[0], **public)]
    whole = gaussian_mu(budget.epsilon, budget.delta) ** 2
    shares = [1.0] if len(queries) == 1 else [ROUND_ONE_SHARE, 1 - ROUND_ONE_SHARE]
    plans = [_first(mechanism, queries[0], shares[0] * whole, public)]
    if len(queries) > 1:
        plans.append(_second(queries[1], shares[1] * whole, public))
    return plans


def _first(name: str, queries: int, mu_squared: float, public: dict[str, int]) -> Plan:
    every = _noise(2 * queries, mu_squared)
    simple: dict[str, type] = {"noisy-votes": NoisyVotes, "gnmax": GNMax}
    if name in simple:
        return Plan(simple[name](every), queries, **public)
    if name != "confident-gnmax":
        raise InvalidArgument(
            f"Expected mechanism={name!r} to be 'noisy-votes', 'gnmax', 'confident-gnmax' or a "
            "mechanism such as GNMax(sigma=40)."
        )
    cap = math.ceil(0.75 * queries)
    checked: Mechanism = ConfidentGNMax(
        threshold=round(AGREEMENT * public["n_teachers"]),
        sigma_check=_noise(queries, CHECK_SHARE * mu_squared),
        sigma_answer=_noise(2 * cap, (1 - CHECK_SHARE) * mu_squared),
    )
    return Plan(checked, queries, max_answers=cap, **public)


def _second(queries: int, mu_squared: float, public: dict[str, int]) -> Plan:
    cap = math.ceil(queries / 2)
    mechanism = InteractiveGNMax(
        threshold=round(0.3 * public["n_teachers"]),
        sigma_check=_noise(queries, CHECK_SHARE * mu_squared),
        sigma_answer=_noise(2 * cap, (1 - CHECK_SHARE) * mu_squared),
        confidence=0.95,
    )
    return Plan(mechanism, queries, max_answers=cap, **public)


def _noise(sensitivity_squared: float, mu_squared: float) -> float:
    """Smallest sigma with sensitivity^2/sigma^2 <= mu^2, rounded up."""
    return math.sqrt(sensitivity_squared / mu_squared) * (1 + 1e-9)


def propose_votes(queries: int, budget: Budget, classes: int, *, n_teachers: int) -> list[Plan]:
    """Return plans that spend the budget: GNMax, NoisyVotes, and Confident-GNMax with a cap.

    Confident-GNMax spends a tenth of mu^2 on its checks, asks for 60 % of the teachers, and answers
    at most half of the queries.
    """
    epsilon, delta = budget.epsilon, budget.delta
    sigma = sigma_for(queries, budget)
    mu_squared = gaussian_mu(epsilon, delta) ** 2 * (1 - 1e-9)
    if mu_squared <= 0:
        raise InvalidArgument(f"Expected epsilon={epsilon} and delta={delta} to allow any release.")
    cap = math.ceil(queries / 2)
    confident = ConfidentGNMax(
        threshold=round(AGREEMENT * n_teachers),
        sigma_check=rounded_up(math.sqrt(queries / (CHECK_SHARE * mu_squared))),
        sigma_answer=rounded_up(math.sqrt(2 * cap / ((1 - CHECK_SHARE) * mu_squared))),
    )
    public = {"n_teachers": n_teachers, "n_classes": classes}
    return [
        Plan(GNMax(sigma), queries, **public),
        Plan(NoisyVotes(sigma), queries, **public),
        Plan(confident, queries, max_answers=cap, **public),
    ]


def sigma_for(queries: int, budget: Budget) -> float:
    """Noise with which so many GNMax answers cost exactly epsilon: sensitivity sqrt(2 queries)."""
    return rounded_up(calibrate_gaussian(math.sqrt(2 * queries), budget.epsilon, budget.delta))


def rounded_up(sigma: float) -> float:
    """Return noise with four digits, never less: typed as printed, it stays within the budget.

    >>> rounded_up(71.33219), rounded_up(0.0123411)
    (71.34, 0.01235)
    """
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 3)
    return float(f"{math.ceil(sigma / unit) * unit:.4g}")
