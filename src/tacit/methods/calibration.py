"""From a budget to noise: the least noise with which plans cost what may be spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any

import numpy as np

from tacit._checks import Floats
from tacit.errors import InvalidArgument
from tacit.ledger import Budget, GaussianAccountant, Ledger, RdpAccountant, best_order
from tacit.mechanisms import NoisySum, Plan, SelectiveMechanism, price_of_list
from tacit.privacy import DEFAULT_ORDERS, calibrate_gaussian, calibrate_steps

_PRECISE = 1e-5
_EXACT = 1e-6
_FAR = 50.0
# Of so many orders each search takes one, and as many beside the best one of the search before.
_STRIDES, _BESIDE = (16, 4), 4
_ROUGH = 1e-2  # how close a search comes that is not the last
_ROUNDS = 4
_ROUNDING = 1 + 2.0**-40  # so that shares, rounded, do not add up to more
_LEAST, _MOST = 2.0**-10, 2.0**30

PlansWith = Callable[[float], Sequence[Plan]]
"""From a level of noise to the plans of a run; more noise must cost less."""


def calibrate(
    plans_with: PlansWith,
    budget: Budget,
    *,
    ledger: Ledger | None = None,
    listed: bool = False,
    least: float = _LEAST,
    most: float = _MOST,
) -> list[Plan]:
    """Return the plans with the least noise that together stay within the budget.

    Parameters
    ----------
    plans_with : callable
        From a level of noise to the plans of a run, from public numbers alone; more noise must
        cost less. Plans whose price does not depend on it are part of the budget.
    budget : Budget
        Epsilon and delta that all plans may cost together.
    ledger : Ledger, optional
        An existing one: plans are priced as it adds up entries, at its own Renyi order, if any.
        None: one that is to be made.
    listed : bool
        True: a ledger to be made is made for these plans as one fixed list, priced more tightly.
        No effect with `ledger`.
    least, most : float
        The range of the mechanism's noise.

    Returns
    -------
    list of Plan
        `plans_with` at the noise found, whose price is never above the budget.

    Raises
    ------
    InvalidArgument
        If no noise up to `most` is enough.

    Notes
    -----
    Gaussians in closed form (`docs/theory/gaussian.md#the-exact-curve`), others by search, to
    about four digits (`docs/theory/ledger.md#a-fixed-list`). What a ledger has spent already is
    not considered: it refuses by itself.

    Examples
    --------
    >>> from tacit import Budget, GNMax, Plan, calibrate
    >>> (plan,) = calibrate(lambda sigma: [Plan(GNMax(sigma), queries=100)], Budget(1.0, 1e-5))
    >>> round(plan.epsilon(1e-5), 3)
    1.0
    """
    listed = listed and ledger is None
    order = None if ledger is None else ledger.order
    first = list(plans_with(1.0))
    squares = [plan.mu_squared() for plan in first]
    excess = partial(_excess, budget=budget, listed=listed, order=order)
    selects = any(isinstance(plan.mechanism, SelectiveMechanism) for plan in first)
    if None not in squares and order is None and not (listed and selects):
        # A mechanism that selects may cost less as a list than the sum of its Gaussians.
        noise = _closed_form([square or 0.0 for square in squares], plans_with(2.0), budget)
        if least <= noise <= most and -_EXACT <= excess(plans := list(plans_with(noise))) <= 0:
            return plans
    steps = first[-1].sampled_steps() if listed and _are_fixed(squares[:-1], plans_with) else None
    if steps is not None and steps.noise_multiplier == 1 and steps.sampling_rate < 1:
        # Noisy steps on samples are composed by their losses, whose search is certified; beside
        # them Gaussians of a fixed price alone.
        spent = math.fsum(square or 0.0 for square in squares[:-1])
        terms = {"steps": steps.steps, "rate": steps.sampling_rate, "mu_squared": spent}
        return list(plans_with(calibrate_steps(budget.epsilon, budget.delta, **terms)))
    if listed:
        return list(plans_with(_least_of_list(plans_with, budget, least, most)))
    low, high = _bracket(lambda noise: excess(plans_with(noise)), budget, least, most)
    return list(plans_with(_least_fitting(lambda noise: excess(plans_with(noise)), low, high)))


def _are_fixed(squares: Sequence[float | None], plans_with: PlansWith) -> bool:
    """Check whether the first plans are Gaussians whose price does not depend on the noise."""
    doubled = [plan.mu_squared() for plan in plans_with(2.0)][: len(squares)]
    return None not in squares and doubled == list(squares)


def _closed_form(squares: list[float], doubled: Sequence[Plan], budget: Budget) -> float:
    """Return the noise of Gaussian plans, some of which may have a fixed price."""
    fixed = [one for one, plan in zip(squares, doubled, strict=True) if plan.mu_squared() == one]
    whole = 1 / calibrate_gaussian(1.0, budget.epsilon, budget.delta) ** 2
    if not fixed or (left := whole - math.fsum(fixed)) <= 0:
        return calibrate_gaussian(math.sqrt(math.fsum(squares)), budget.epsilon, budget.delta)
    return math.sqrt((math.fsum(squares) - math.fsum(fixed)) / left) * _ROUNDING


def _least_of_list(plans_with: PlansWith, budget: Budget, least: float, most: float) -> float:
    """Return the least noise with which a list fits: by few orders, then by those near the best.

    A price at some orders is never below the price at all of them, so what fits there fits;
    missing the best order would give more noise than is needed, never less.
    """

    def excess_at(orders: Floats, noise: float) -> float:
        price = price_of_list(plans_with(noise), budget.delta, orders)
        return _log_ratio(price.epsilon, budget.epsilon)

    orders = DEFAULT_ORDERS[:: _STRIDES[0]]
    few = cache(partial(excess_at, orders))
    found = _least_fitting(few, *_bracket(few, budget, least, most), _ROUGH)
    for stride in (*_STRIDES[1:], *[1] * _ROUNDS):
        looked_at = orders
        orders = _beside_best(plans_with(found), budget.delta, orders, stride)
        if np.array_equal(orders, looked_at):
            break
        near = cache(partial(excess_at, orders))
        precise = _ROUGH if stride > 1 else _PRECISE
        found = _least_fitting(near, *_bracket(near, budget, least, found, found, 1.02), precise)
    return found


def _beside_best(plans: Sequence[Plan], delta: float, orders: Floats, stride: int) -> Floats:
    """Return orders, `stride` apart, around the one of these that prices best."""
    costs = [plan.cost(orders) for plan in plans]
    best = sum(costs[1:], start=costs[0]).best_order(delta)
    place, reach = int(np.searchsorted(DEFAULT_ORDERS, best)), _BESIDE * stride
    return DEFAULT_ORDERS[max(0, place - reach) : place + reach + 1 : stride]


def _bracket(
    excess: Callable[[float], float],
    budget: Budget,
    least: float,
    most: float,
    start: float = 1.0,
    factor: float = 4.0,
) -> tuple[float, float]:
    """Return noise that does not fit and noise that does, or twice the least if that fits."""
    high = min(max(start, least), most)
    if excess(high) > 0:
        while high < most:
            low, high = high, min(factor * high, most)
            if excess(high) <= 0:
                return low, high
        raise InvalidArgument(
            f"Expected epsilon={budget.epsilon!r} at delta={budget.delta!r} to be within "
            "reach of some noise; ask fewer queries."
        )
    while high > least:
        low = max(high / factor, least)
        if excess(low) > 0:
            return low, high
        high, factor = low, factor * factor
    return least, least


def _least_fitting(
    excess: Callable[[float], float], low: float, high: float, precise: float = _PRECISE
) -> float:
    """Return the least noise whose excess is at most 0; that of `high` is."""
    from scipy.optimize import brentq

    if low == high:
        return low
    first, last = math.log(low), math.log(high)
    ends = {first: low, last: high}  # whose excess is known
    root = brentq(lambda log: excess(ends.get(log, math.exp(log))), first, last, xtol=precise)
    noise = math.exp(float(root))
    while noise < high:  # the root may lie on either side: only what fits is returned
        if excess(noise) <= 0:
            return noise
        noise *= 1 + precise
    return high


def _excess(plans: Sequence[Plan], budget: Budget, *, listed: bool, order: float | None) -> float:
    """Return log(cost/budget) as the ledger will count it: plans fit where it is at most 0."""
    if listed:
        return _log_ratio(price_of_list(plans, budget.delta).epsilon, budget.epsilon)
    squares = [plan.mu_squared() for plan in plans]
    # A ledger of Gaussians adds up mu^2 and knows no other price.
    if None not in squares and order is None:
        capacity = GaussianAccountant.within(budget, budget.delta).capacity
        return _log_ratio(math.fsum(square or 0.0 for square in squares), capacity)
    one = best_order(budget, budget.delta) if order is None else order
    accountant = RdpAccountant.within(budget, budget.delta, one)
    cost = math.fsum(float(plan.cost([one]).total().values[0]) for plan in plans)
    return _log_ratio(cost, accountant.capacity)


def _log_ratio(cost: float, budget: float) -> float:
    """Return log(cost/budget), finite even where the cost is 0 or infinite."""
    if cost <= budget * math.exp(-_FAR):
        return -_FAR
    return min(math.log(cost) - math.log(budget), _FAR)


def accountant_terms(plans: Sequence[Plan], *, listed: bool = False) -> dict[str, Any]:
    """Return arguments of a new `Ledger` that can price these plans: none for Gaussians.

    `listed`: they are all that it will ever release, and a list has the lowest price.
    """
    adds_up = all(plan.mu_squared() is not None for plan in plans)
    # A mechanism that selects may cost less as a list than the sum of its Gaussians.
    selects = any(isinstance(plan.mechanism, SelectiveMechanism) for plan in plans)
    if adds_up and not (listed and selects):
        return {}
    return {"plans": list(plans)} if listed else {"accountant": "rdp"}


def shared_sums(budget: Budget, *sums: tuple[float, int, int]) -> list[Plan]:
    """Return a `NoisySum` for each (share of mu^2, rows, columns), which together cost the budget.

    >>> [round(plan.mechanism.sigma, 1) for plan in shared_sums(Budget(1.0, 1e-5), (1.0, 3, 2))]
    [3.7]
    """
    (whole,) = calibrate(lambda noise: [Plan(NoisySum(noise, 1, 1), 1)], budget)
    mu = math.sqrt(whole.mu_squared() or math.nan)
    return [
        Plan(NoisySum(_ROUNDING / (mu * math.sqrt(share)), rows, columns), 1)
        for share, rows, columns in sums
    ]


def proposed(
    plan_with: Callable[[float], Plan], budget: Budget, beside: Sequence[Plan] = (), **how: Any
) -> Plan:
    """Return the plan that spends the budget; noise has four digits, to be typed as printed.

    What is released `beside` it, at its own price, is part of the budget.
    """
    plan, *_ = calibrate(lambda noise: [plan_with(noise), *beside], budget, **how)
    mechanism: Any = plan.mechanism
    sigmas = [item.name for item in fields(mechanism) if item.name.startswith("sigma")]
    rounded = replace(mechanism, **{name: rounded_up(getattr(mechanism, name)) for name in sigmas})
    made = replace(plan, mechanism=rounded)
    return made if _fits([made, *beside], budget) else plan


def _fits(plans: Sequence[Plan], budget: Budget) -> bool:
    """Check whether a list is within the budget: at some of the orders, else at all of them."""
    orders = DEFAULT_ORDERS[:: _STRIDES[0]]
    for stride in (*_STRIDES[1:], 1):
        orders = _beside_best(plans, budget.delta, orders, stride)
    prices = (price_of_list(plans, budget.delta, each) for each in (orders, DEFAULT_ORDERS))
    return any(price.epsilon <= budget.epsilon for price in prices)


def rounded_up(sigma: float) -> float:
    """Return noise with four digits, never less: typed as printed, it stays within the budget.

    >>> rounded_up(71.33219), rounded_up(0.0123411)
    (71.34, 0.01235)
    """
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 3)
    return float(f"{math.ceil(sigma / unit) * unit:.4g}")
