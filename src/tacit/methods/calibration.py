"""The way from a budget to noise: the least with which a plan costs what may be spent.

Votes and noisy sums, whose cost is that of a Gaussian, have it in closed form (`for_budget` of
their mechanisms, `plan_rounds`); everything else is searched for here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tacit.errors import InvalidArgument
from tacit.ledger import Budget, RdpAccountant, best_order
from tacit.mechanisms import Plan, price_of_list
from tacit.privacy import calibrate_steps, gaussian_epsilon

_PRECISE = 1e-5
_FAR = 50.0
_LEAST, _MOST = 2.0**-10, 2.0**30


def calibrate(
    plan_with: Callable[[float], Plan],
    budget: Budget,
    *,
    listed: bool,
    order: float | None = None,
    before: Sequence[Plan] = (),
    least: float = _LEAST,
    most: float = _MOST,
) -> Plan:
    """Return the plan with the least noise that stays within the budget, to about four digits.

    More noise must cost less. `listed`: the plan, with those `before` it, is priced as one list;
    otherwise it is paid from a ledger, which may have a Renyi order, as it comes. `least` and
    `most` are the ends of what the mechanism can do.
    """
    from scipy.optimize import brentq

    steps = plan_with(1.0).sampled_steps() if listed else None
    if steps is not None and steps.noise_multiplier == 1 and steps.sampling_rate < 1:
        # Noisy steps on samples are composed by their losses, whose search is certified.
        _, rate, count = steps
        spent = math.fsum(plan.mu_squared() or 0.0 for plan in before)
        found = calibrate_steps(
            budget.epsilon, budget.delta, steps=count, rate=rate, mu_squared=spent
        )
        return plan_with(found)
    excess = _excess(budget, before, listed=listed, order=order)
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


def _excess(
    budget: Budget, before: Sequence[Plan], *, listed: bool, order: float | None
) -> Callable[[Plan], float]:
    """Return log(cost/budget) as the ledger will see it: a plan fits where it is at most 0."""
    if listed:
        return lambda plan: _log_ratio(
            price_of_list([*before, plan], budget.delta).epsilon, budget.epsilon
        )

    def one_by_one(plan: Plan) -> float:
        mu_squared = plan.mu_squared()
        # A ledger of Gaussians adds up mu^2 and knows no other price.
        if mu_squared is not None and order is None:
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
