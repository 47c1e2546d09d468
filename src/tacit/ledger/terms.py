"""The terms of a ledger, fixed when it is created and written in its header.

An accountant adds costs that are functions of the plan alone, the worst case over all data, and the
ledger refuses before the release that would exceed its capacity: stopping on a cost that depends on
the data would disclose the data. Each counts in a currency that adds even if every plan is chosen
in the light of earlier releases (proofs: docs/theory/ledger.md):

    gaussian   mu^2, exactly                  (Smith and Thakurta 2022)
    rdp        RDP at ONE order fixed before  (Feldman and Zrnic 2021; Lecuyer 2021)
    fixed      one list of plans, priced as a whole before it begins; nothing is chosen later
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tacit import __version__
from tacit._checks import (
    count,
    flag,
    non_negative,
    one_of,
    positive,
    probability,
    refuse,
    renyi_order,
    set_checked,
)
from tacit.errors import BudgetExceeded, InvalidArgument, LedgerDamaged, LedgerError
from tacit.ledger.chain import canonical, one_line
from tacit.mechanisms import Plan, price_of_list
from tacit.privacy import (
    DEFAULT_ORDERS,
    WorstCase,
    conversion_term,
    gaussian_epsilon,
    gaussian_mu,
    priced_with,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a ledger may ever spend: (epsilon, delta)-differential privacy.

    Unit: that of the ledger, under "add or remove one unit".

    Parameters
    ----------
    epsilon : float > 0
        The odds of any guess about one unit change by at most the factor e^epsilon.
    delta : float in (0, 1), the probability with which that may fail

    Examples
    --------
    >>> Budget(epsilon=2, delta=1e-5)
    Budget(epsilon=2.0, delta=1e-05)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        set_checked(self, epsilon=positive, delta=probability)


@dataclass(frozen=True, slots=True)
class GaussianAccountant:
    """Adds mu^2: capacity mu(epsilon, delta)^2, Gaussian mechanisms only.

    mu^2 adds even if plans depend on earlier releases: Smith and Thakurta 2022,
    docs/theory/ledger.md.

    Parameters
    ----------
    delta : float, the budget's, less what is reserved for confidence bounds
    capacity : float
        The largest sum of mu^2 that the budget buys at that delta; `within` computes it.
    """

    bound: ClassVar[str] = "gaussian"
    delta: float
    capacity: float

    @classmethod
    def within(cls, budget: Budget, delta: float) -> GaussianAccountant:
        """Return the accountant whose capacity is what the budget buys at this delta.

        Parameters
        ----------
        budget : Budget
        delta : float, the part of the budget's delta that pays for noise

        Returns
        -------
        GaussianAccountant
        """
        return cls(delta, gaussian_mu(budget.epsilon, delta) ** 2)

    def cost(self, plan: Plan, position: int) -> float:
        """Return mu^2 of the plan: worst case over all data.

        Parameters
        ----------
        plan : Plan, refused if its mechanism is not Gaussian
        position : int, number of entries paid for before it; ignored here

        Returns
        -------
        float
        """
        mu_squared = plan.mu_squared()
        if mu_squared is None:
            raise InvalidArgument(
                f"Expected a plan of Gaussian mechanisms for a ledger with accountant='gaussian', "
                f"got {plan.mechanism.name!r}; create a ledger with accountant='rdp'."
            )
        return non_negative(mu_squared=mu_squared)

    def epsilon(self, total: Any) -> Any:
        """Return epsilon on the exact curve of one Gaussian with this mu^2, or with each of these.

        Parameters
        ----------
        total : float or array, sums of mu^2

        Returns
        -------
        float or array
        """
        return gaussian_epsilon(self.delta, np.sqrt(total))


@dataclass(frozen=True, slots=True)
class RdpAccountant:
    """Adds RDP at one order: capacity epsilon - conversion(order, delta), any mechanism.

    RDP adds at ONE order fixed before, even if plans depend on earlier releases: Feldman and Zrnic
    2021, Lecuyer 2021, docs/theory/ledger.md.

    Parameters
    ----------
    delta : float, the budget's, less what is reserved for confidence bounds
    capacity : float
        The largest sum of RDP at the order that the budget buys; `within` computes it.
    order : float > 1, fixed before the first release
    """

    bound: ClassVar[str] = "rdp"
    delta: float
    capacity: float
    order: float

    @classmethod
    def within(cls, budget: Budget, delta: float, order: float) -> RdpAccountant:
        """Return the accountant of this order; refuse one that leaves nothing to spend.

        Parameters
        ----------
        budget : Budget
        delta : float, the part of the budget's delta that pays for noise
        order : float > 1

        Returns
        -------
        RdpAccountant
        """
        capacity = budget.epsilon - conversion(order, delta)
        if capacity <= 0:
            raise InvalidArgument(
                f"Expected order={order:g} to leave something to spend at epsilon="
                f"{budget.epsilon!r} and delta={delta!r}; choose a larger order or omit it."
            )
        return cls(delta, capacity, order)

    def cost(self, plan: Plan, position: int) -> float:
        """Return the RDP of the plan at the ledger's order: worst case over all data.

        Parameters
        ----------
        plan : Plan, `BudgetExceeded` if its cost is infinite at this order
        position : int, number of entries paid for before it; ignored here

        Returns
        -------
        float
        """
        cost = float(plan.cost([self.order]).total().values[0])
        if not math.isfinite(cost):
            raise BudgetExceeded(
                f"Expected a plan with a finite cost at the ledger's order {self.order:g}: "
                f"{plan.mechanism.name!r} guarantees nothing there. Nothing was spent."
            )
        return cost

    def epsilon(self, total: Any) -> Any:
        """Return epsilon by the improved conversion at the ledger's order, at least 0.

        Parameters
        ----------
        total : float or array, sums of RDP at that order

        Returns
        -------
        float or array
        """
        return np.maximum(0.0, np.add(total, conversion(self.order, self.delta)))


def conversion(order: float, delta: float) -> float:
    """Return what the improved conversion adds to RDP at one order."""
    return float(conversion_term(np.array([order]), delta)[0])


def best_order(budget: Budget, delta: float) -> float:
    """Return the order at which the budget buys most Gaussian noise: the largest capacity/order.

    A Gaussian costs order mu^2/2, so this order admits the largest mu.

    Parameters
    ----------
    budget : Budget, refused if it buys nothing at any order
    delta : float, the part of the budget's delta that pays for noise

    Returns
    -------
    float, one of `tacit.privacy.DEFAULT_ORDERS`

    Examples
    --------
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


ACCOUNTANTS = ("gaussian", "rdp", "fixed")
_AS_THEY_ARE = ("unit", "dataset", "accountant", "order", "n_units", "allow_large_delta")
"""Terms that a header holds under their own names, as they are."""
RECORD_RULES = 2
"""How a new ledger's private records are read: each cell by itself. Before 0.3 (1, where a header
says nothing), one record could change how others were read."""


def _budget(budget: Any) -> None:
    if not isinstance(budget, Budget):
        raise refuse("budget", budget, "a Budget, e.g. Budget(epsilon=2, delta=1e-5)")


def _plans(plans: Any) -> None:
    listed = isinstance(plans, list | tuple) and len(plans) > 0
    if not listed or not all(isinstance(plan, Plan) for plan in plans):
        raise refuse("plans", plans, "a non-empty list of Plan")


_CHECKS: Mapping[str, Callable[..., Any]] = {
    "budget": _budget,
    "unit": lambda unit: one_line("unit", unit),
    "dataset": lambda dataset: one_line("dataset", dataset, may_be_empty=True),
    "accountant": partial(one_of, *ACCOUNTANTS),
    "order": renyi_order,
    "plans": _plans,
    "reserved_delta": non_negative,
    "n_units": count,
    "allow_large_delta": flag,
}
"""What each argument of `Ledger(...)` must be, where it is given."""


def requested(**asked: Any) -> dict[str, Any]:
    """Return the terms given to `Ledger(...)`: those that are not None."""
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        _CHECKS[name](**{name: value})
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The header of a ledger, as read from disk."""

    budget: Budget
    unit: str = "record"
    dataset: str = ""
    accountant: str
    order: float | None
    plans: tuple[Mapping[str, Any], ...]
    price: WorstCase | None
    list_priced_by: Mapping[str, str] | None
    reserved_delta: float
    n_units: int | None = None
    allow_large_delta: bool = False
    record_rules: int = 1

    @property
    def delta(self) -> float:
        """The budget's delta less the reserve."""
        return self.budget.delta - self.reserved_delta

    @property
    def large_delta(self) -> bool:
        """Whether delta would allow the publication of one unit in full."""
        return self.n_units is not None and self.budget.delta >= 1 / self.n_units

    def make_accountant(self) -> Accountant:
        """Return the accountant that these terms name."""
        if self.accountant == "gaussian":
            return GaussianAccountant.within(self.budget, self.delta)
        if self.accountant == "rdp" and self.order is not None:
            return RdpAccountant.within(self.budget, self.delta, self.order)
        if self.accountant == "fixed" and self.price is not None:
            return FixedAccountant(
                self.budget.epsilon, self.price, tuple(canonical(plan) for plan in self.plans)
            )
        raise LedgerDamaged("The header of the ledger names no usable accountant; restore it.")

    def priced_by(self) -> dict[str, str]:
        """Return the accountant and the versions of tacit and of libraries that price an entry."""
        return dict(self.list_priced_by or _pricing(self.accountant))

    def as_header(self) -> dict[str, Any]:
        """Return the header of a new ledger: the terms, and what makes this ledger unique."""
        return {
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            "schema": 3,
            "id": secrets.token_hex(16),
            "created": datetime.now(UTC).isoformat(timespec="microseconds"),
            "library": __version__,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "plans": list(self.plans),
            "price": None if self.price is None else list(self.price),
            "priced_by": self.list_priced_by,
            "reserved_delta": self.reserved_delta,
            "record_rules": self.record_rules,
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Terms:
        """Read the terms; older headers lack the reserve, versions, or the rules of records."""
        try:
            price = header["price"]
            return cls(
                **{name: header[name] for name in _AS_THEY_ARE},
                budget=Budget(header["epsilon"], header["delta"]),
                plans=tuple(header["plans"]),
                price=None if price is None else WorstCase(*price),
                list_priced_by=_read_pricing(header),
                reserved_delta=header.get("reserved_delta", 0.0),
                record_rules=int(header.get("record_rules", 1)),
            )
        except (KeyError, TypeError, ValueError, InvalidArgument):
            raise LedgerDamaged("The header of the ledger is incomplete; restore it.") from None

    def agree_with(self, asked: Mapping[str, Any]) -> None:
        """Raise `LedgerError` if the caller gave other terms than these."""
        for name, value in asked.items():
            fixed = getattr(self, name)
            if name == "plans":
                if canonical([plan.as_dict() for plan in value]) != canonical(fixed):
                    raise LedgerError(
                        "Expected plans to be those that the ledger was created for; omit plans."
                    )
            elif value != fixed:
                raise LedgerError(
                    f"Expected {name}={value!r} to be {fixed!r}, as fixed when the ledger was "
                    f"created; omit it, or create another ledger."
                )


def _pricing(accountant: str) -> dict[str, str]:
    """Return the versions that price by this bound in this process."""
    return {"accountant": accountant, "tacit": __version__, **priced_with(accountant)}


def _read_pricing(header: Mapping[str, Any]) -> Mapping[str, str] | None:
    if header["price"] is None:
        return None
    _, bound = header["price"]
    return dict(header.get("priced_by") or {"accountant": bound, "tacit": header["library"]})


def new_terms(
    *,
    budget: Budget | None = None,
    accountant: str | None = None,
    order: float | None = None,
    plans: Sequence[Plan] | None = None,
    reserved_delta: float = 0.0,
    **others: Any,
) -> Terms:
    """Make the terms of a new ledger, with the defaults filled in; refuse unsound ones."""
    if budget is None:
        raise InvalidArgument(
            "Expected a budget for a new ledger, e.g. budget=Budget(epsilon=2, delta=1e-5)."
        )
    reserved = float(reserved_delta)
    if reserved >= budget.delta:
        raise refuse("reserved_delta", reserved, f"less than the budget's delta={budget.delta!r}")
    chosen = accountant or ("gaussian" if plans is None else "fixed")
    price = _price(chosen, plans, budget, reserved)
    terms = Terms(
        budget=budget,
        accountant=chosen,
        order=_order(chosen, order, budget, budget.delta - reserved),
        plans=tuple(plan.as_dict() for plan in plans or ()),
        price=price,
        list_priced_by=None if price is None else _pricing(price.accountant),
        reserved_delta=reserved,
        record_rules=RECORD_RULES,
        **others,
    )
    if terms.large_delta and not terms.allow_large_delta:
        raise InvalidArgument(
            f"Expected delta={budget.delta!r} to be below 1/n_units={1 / others['n_units']:g}: a "
            "larger delta would allow one unit to be published in full; choose a smaller delta "
            "(or, knowing this, allow_large_delta=True)."
        )
    terms.make_accountant()  # refuses an order that leaves nothing to spend
    return terms


def _order(accountant: str, order: float | None, budget: Budget, delta: float) -> float | None:
    if accountant == "rdp":
        return best_order(budget, delta) if order is None else float(order)
    if order is not None:
        raise refuse("order", order, "omitted: only accountant='rdp' has an order")
    return None


def _price(
    accountant: str, plans: Sequence[Plan] | None, budget: Budget, reserved_delta: float
) -> WorstCase | None:
    """Price the fixed list, and refuse one that exceeds the budget."""
    if (accountant == "fixed") != (plans is not None):
        raise InvalidArgument(
            f"Expected plans=[...] with accountant='fixed' and with no other, got "
            f"accountant={accountant!r} {'without' if plans is None else 'with'} plans."
        )
    if plans is None:
        return None
    price = price_of_list(plans, budget.delta - reserved_delta)
    confidence = math.fsum(confidence_of(plan) for plan in plans)
    if confidence > reserved_delta:
        raise BudgetExceeded(
            f"Expected reserved_delta={reserved_delta!r} to be at least {confidence!r}, the "
            "confidence delta of the plans. No ledger was created."
        )
    if price.epsilon > budget.epsilon:
        raise BudgetExceeded(
            f"Expected plans within the budget: together they cost epsilon={price.epsilon:.4g} of "
            f"{budget.epsilon!r} at delta={budget.delta!r}. No ledger was created."
        )
    return price
