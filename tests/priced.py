"""Plans of one Gaussian release that spend a budget."""

from __future__ import annotations

import math
from typing import Any

from tacit import Budget, Plan, calibrate
from tacit.mechanisms import NoisySum


def for_budget(kind: Any, epsilon: float, delta: float, share: float = 1.0, **numbers: Any) -> Plan:
    """Return the plan of a mean or a sum that spends this share of mu^2."""

    def plans_with(noise: float) -> list[Plan]:
        if kind is NoisySum:
            return [Plan(NoisySum(noise, **numbers), 1)]
        return [kind.with_noise(noise, **numbers)]

    (plan,) = calibrate(plans_with, Budget(epsilon, delta))
    (part,) = plans_with(1 / math.sqrt(plan.mu_squared() * share))
    return part
