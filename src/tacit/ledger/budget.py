"""Budgets, and the accountants that say how much of one is spent.

A filter adds costs that are functions of the plan alone, the worst case over all data, and refuses
before the release that would exceed its capacity. Stopping on a cost that depends on the data
would itself disclose the data. Each accountant counts in one currency in which costs add even when
every plan is chosen in the light of earlier releases:

    gaussian   mu^2, exactly                  (Smith and Thakurta 2022)
    rdp        RDP at ONE order fixed before  (Feldman and Zrnic 2021; Lecuyer 2021)
    fixed      one list of plans, priced as a whole before it begins; nothing is chosen later

Proofs: docs/theory/ledger.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacit._checks import non_negative, positive, probability
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.ledger.chain import canonical
from tacit.mechanisms import Plan
from tacit.privacy import (
    DEFAULT_ORDERS,
    WorstCase,
    conversion_term,
    gaussian_epsilon,
    gaussian_mu,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a ledger may ever spend: (epsilon, delta)-differential privacy.

    Unit: that of the ledger, under "add or remove one unit".

    >>> Budget(epsilon=2, delta=1e-5)
    Budget(epsilon=2.0, delta=1e-05)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon=self.epsilon))
        object.__setattr__(self, "delta", probability(delta=self.delta))


@dataclass(frozen=True, slots=True)
class GaussianAccountant:
    """Adds mu^2: capacity mu(epsilon, delta)^2, Gaussian mechanisms only."""

    bound: ClassVar[str] = "gaussian"
    delta: float
    capacity: float

    @classmethod
    def within(cls, budget: Budget, delta: float) -> GaussianAccountant:
        """Return the accountant whose capacity is what the budget buys at this delta."""
        return cls(delta, gaussian_mu(budget.epsilon, delta) ** 2)

    def cost(self, plan: Plan, position: int) -> float:
        """mu^2 of the plan."""
        del position
        mu_squared = plan.mu_squared()
        if mu_squared is None:
            raise InvalidArgument(
                f"Expected a plan of Gaussian mechanisms for a ledger with accountant='gaussian', "
                f"got {plan.mechanism.name!r}; create a ledger with accountant='rdp'."
            )
        return non_negative(mu_squared=mu_squared)

    def epsilon(self, total: Any) -> Any:
        """Exact curve of one Gaussian with this mu^2, or with each of these."""
        return gaussian_epsilon(self.delta, np.sqrt(total))


@dataclass(frozen=True, slots=True)
class RdpAccountant:
    """Adds RDP at one order: capacity epsilon - conversion(order, delta), any mechanism."""

    bound: ClassVar[str] = "rdp"
    delta: float
    capacity: float
    order: float

    @classmethod
    def within(cls, budget: Budget, delta: float, order: float) -> RdpAccountant:
        """Return the accountant of this order; refuse one that leaves nothing to spend."""
        capacity = budget.epsilon - _conversion(order, delta)
        if capacity <= 0:
            raise InvalidArgument(
                f"Expected order={order:g} to leave something to spend at epsilon="
                f"{budget.epsilon!r} and delta={delta!r}; choose a larger order or omit it."
            )
        return cls(delta, capacity, order)

    def cost(self, plan: Plan, position: int) -> float:
        """RDP of the plan at the ledger's order."""
        del position
        cost = float(plan.cost([self.order]).total().values[0])
        if not math.isfinite(cost):
            raise BudgetExceeded(
                f"Expected a plan with a finite cost at the ledger's order {self.order:g}: "
                f"{plan.mechanism.name!r} guarantees nothing there. Nothing was spent."
            )
        return cost

    def epsilon(self, total: Any) -> Any:
        """Improved conversion at the ledger's order."""
        return np.maximum(0.0, np.add(total, _conversion(self.order, self.delta)))


def _conversion(order: float, delta: float) -> float:
    return float(conversion_term(np.array([order]), delta)[0])


def best_order(budget: Budget, delta: float) -> float:
    """Return the order at which the budget buys most Gaussian noise: the largest capacity/order.

    A Gaussian costs order mu^2/2, so this order admits the largest mu that RDP at one order can.

    >>> best_order(Budget(epsilon=2, delta=1e-5), 1e-5)
    10.2
    """
    worth = (budget.epsilon - conversion_term(DEFAULT_ORDERS, delta)) / DEFAULT_ORDERS
    best = int(np.argmax(worth))
    if worth[best] <= 0:
        raise InvalidArgument(
            f"Expected epsilon={budget.epsilon!r} to buy something at delta={delta!r} with "
            "accountant='rdp'; raise epsilon or delta, or use accountant='gaussian'."
        )
    return float(DEFAULT_ORDERS[best])


@dataclass(frozen=True, slots=True)
class FixedAccountant:
    """One list of plans, each once and in order, priced as a whole by the tightest accountant.

    The first entry pays for the whole list, so stopping early changes nothing.
    """

    capacity: float
    price: WorstCase
    plans: tuple[str, ...]

    def cost(self, plan: Plan, position: int) -> float:
        """Price of the list for its first plan, 0 for the others; refuse any other plan."""
        if position >= len(self.plans):
            raise BudgetExceeded(
                f"All {len(self.plans)} plans of this ledger's fixed list were released; a further "
                "plan needs a ledger of its own. Nothing was spent."
            )
        if canonical(plan.as_dict()) != self.plans[position]:
            raise BudgetExceeded(
                f"Expected plan {position + 1} of this ledger's fixed list of {len(self.plans)}; "
                "it was opened for that list, in that order. Nothing was spent."
            )
        return self.price.epsilon if position == 0 else 0.0

    @property
    def bound(self) -> str:
        """Which accountant gave the minimum."""
        return self.price.accountant

    def epsilon(self, total: Any) -> Any:
        """Price of the list."""
        return total


Accountant = GaussianAccountant | RdpAccountant | FixedAccountant
"""A currency in which costs add: the price of a plan as the entry after so many others (`cost`),
how much the budget buys (`capacity`), and epsilon of totals, by which `bound`."""


def confidence_of(plan: Plan) -> float:
    """Return what a plan takes from the reserved delta."""
    return non_negative(confidence_delta=plan.confidence_delta())


def total_of(costs: Sequence[float]) -> float:
    """Add costs with one rounding at the end, so that many small costs never vanish.

    >>> total_of([0.1] * 10), sum([0.1] * 10)
    (1.0, 0.9999999999999999)
    """
    return math.fsum(costs)
