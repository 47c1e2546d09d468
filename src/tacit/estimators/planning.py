"""Noise for a budget, chosen before the run from public information alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tacit._checks import positive
from tacit.errors import InvalidArgument
from tacit.mechanisms import ConfidentGNMax, GNMax, InteractiveGNMax, Mechanism, NoisyVotes, Plan
from tacit.privacy import gaussian_mu

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
    epsilon: float,
    delta: float,
    n_teachers: int,
    n_classes: int,
) -> list[Plan]:
    """Return one plan per round, which together spend (epsilon, delta) in the worst case.

    `mechanism` is a name ("noisy-votes", "gnmax", "confident-gnmax"), whose noise is chosen here,
    or a mechanism with its own noise. A second round is Interactive-GNMax.
    """
    public = {"n_teachers": n_teachers, "n_classes": n_classes}
    if not isinstance(mechanism, str):
        if len(queries) > 1:
            raise InvalidArgument("Expected mechanism= a name where rounds=2: its noise is chosen.")
        return [Plan(mechanism, queries[0], **public)]
    budget = gaussian_mu(positive(epsilon=epsilon), delta) ** 2
    shares = [1.0] if len(queries) == 1 else [ROUND_ONE_SHARE, 1 - ROUND_ONE_SHARE]
    plans = [_first(mechanism, queries[0], shares[0] * budget, public)]
    if len(queries) > 1:
        plans.append(_second(queries[1], shares[1] * budget, public))
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
