"""A plan: what is priced, refused or granted, before any answer is looked at.

The price is the worst case over all data, so it is public and known in advance. For a mechanism
that answers only some queries it never depends on how many were in fact answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import at_least, order_array
from tacit.errors import InvalidArgument
from tacit.mechanisms.base import (
    ClassMechanism,
    Mechanism,
    SampledGaussian,
    SelectiveMechanism,
)
from tacit.privacy import (
    DEFAULT_ORDERS,
    RdpCurve,
    SampledSteps,
    WorstCase,
    sampled_steps_pld,
    worst_case_epsilon,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """`queries` uses of `mechanism`, of which at most `max_answers` are answered.

    `max_answers` is for mechanisms that select (rows go in order; after the cap the rest are -1
    and unchecked). `n_teachers` and `n_classes` are needed where the price depends on them.

    >>> from tacit import GNMax
    >>> plan = Plan(GNMax(sigma=40), queries=100)
    >>> round(plan.epsilon(delta=1e-5), 3), plan.price(delta=1e-5).accountant
    (1.356, 'gaussian')
    """

    mechanism: Mechanism
    queries: int
    max_answers: int | None = None
    n_teachers: int | None = None
    n_classes: int | None = None

    def __init__(
        self,
        mechanism: Mechanism,
        queries: int,
        *,
        max_answers: int | None = None,
        n_teachers: int | None = None,
        n_classes: int | None = None,
    ) -> None:
        if not all(hasattr(mechanism, part) for part in ("release", "cost", "secret_cost")):
            raise InvalidArgument(
                f"Expected mechanism={mechanism!r} to be a mechanism, for example GNMax(sigma=40)."
            )
        if max_answers is not None:
            if not isinstance(mechanism, SelectiveMechanism):
                raise InvalidArgument(
                    f"Expected max_answers=None for {mechanism.name}, which answers every query; "
                    "lower queries instead."
                )
            max_answers = at_least(0, max_answers=max_answers)
        if n_classes is None and isinstance(mechanism, ClassMechanism):
            raise InvalidArgument(
                f"Expected n_classes for {mechanism.name}: its answers do not tell how many "
                "classes there are; give it to Plan(...)."
            )
        set_field = object.__setattr__
        set_field(self, "mechanism", mechanism)
        set_field(self, "queries", at_least(1, queries=queries))
        set_field(self, "max_answers", max_answers)
        if n_teachers is not None:
            n_teachers = at_least(1, n_teachers=n_teachers)
        if n_classes is not None:
            n_classes = at_least(2, n_classes=n_classes)
        set_field(self, "n_teachers", n_teachers)
        set_field(self, "n_classes", n_classes)

    @property
    def answers(self) -> int:
        """How many queries are answered at the most."""
        cap = self.queries if self.max_answers is None else self.max_answers
        return min(cap, self.queries)

    def mu_squared(self) -> float | None:
        """Sum of (sensitivity/sigma)^2 over all releases; None unless every one is Gaussian."""
        if not isinstance(self.mechanism, SelectiveMechanism):
            each = self.mechanism.gaussian_cost()
            return None if each is None else self.queries * each
        check, answer = self.mechanism.check.gaussian_cost(), self.mechanism.answer.gaussian_cost()
        if check is None or answer is None:
            return None
        return self.queries * check + self.answers * answer

    def cost(self, orders: ArrayLike = DEFAULT_ORDERS) -> RdpCurve:
        """Worst-case RDP of the whole plan.

        A selective mechanism costs, at each order, the lesser of "every query checked, `answers`
        of them answered" and the per-query composite, which needs no cap
        (docs/theory/selective.md#what-a-plan-costs).
        """
        orders = order_array(orders)
        composite = self._cost_of(self.mechanism, orders) * self.queries
        if not isinstance(self.mechanism, SelectiveMechanism):
            return composite
        checks = self._cost_of(self.mechanism.check, orders) * self.queries
        answers = self._cost_of(self.mechanism.answer, orders) * self.answers
        return RdpCurve(orders, np.minimum(composite.values, (checks + answers).values))

    def _cost_of(self, mechanism: Mechanism, orders: ArrayLike) -> RdpCurve:
        return mechanism.cost(orders, n_teachers=self.n_teachers, n_classes=self.n_classes)

    def price(self, delta: float) -> WorstCase:
        """Return the worst-case epsilon at `delta` and the accountant that proves it."""
        return price_of_list([self], delta)

    def epsilon(self, delta: float) -> float:
        """Return the worst-case epsilon at `delta`, known before the run."""
        return self.price(delta).epsilon

    def sampled_steps(self) -> SampledSteps | None:
        """Return the plan as Gaussian releases on Poisson samples; None if it is something else."""
        if not isinstance(self.mechanism, SampledGaussian):
            return None
        return SampledSteps(*self.mechanism.sampled_gaussian(), self.queries)

    def confidence_delta(self) -> float:
        """Return what the plan takes from the budget's delta for its own confidence bounds."""
        return self.queries * self.mechanism.confidence_delta()

    def accept(self, answers: Any) -> None:
        """Raise `InvalidArgument` unless the answers are what this plan priced."""
        self.mechanism.accept(
            answers, queries=self.queries, n_teachers=self.n_teachers, n_classes=self.n_classes
        )

    def release_arguments(self) -> dict[str, Any]:
        """Return what the plan fixes about a release, beside the answers and the noise."""
        fixed: dict[str, Any] = {}
        if isinstance(self.mechanism, SelectiveMechanism):
            fixed["max_answers"] = self.max_answers
        if isinstance(self.mechanism, ClassMechanism):
            fixed["n_classes"] = self.n_classes
        return fixed

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data: what a ledger entry records."""
        parameters = {
            field.name: getattr(self.mechanism, field.name)
            for field in fields(self.mechanism)  # type: ignore[arg-type]  # a dataclass by contract
        }
        return {
            "mechanism": self.mechanism.name,
            "parameters": parameters,
            "queries": self.queries,
            "max_answers": self.max_answers,
            "n_teachers": self.n_teachers,
            "n_classes": self.n_classes,
        }


def price_of_list(plans: Sequence[Plan], delta: float) -> WorstCase:
    """Price a whole list of plans by the tightest worst-case accountant.

    Which they are: docs/theory/gaussian.md#which-accountant.

    >>> from tacit import GNMax
    >>> price_of_list([Plan(GNMax(sigma=40), 60), Plan(GNMax(sigma=40), 40)], 1e-5).accountant
    'gaussian'
    """
    curve = plans[0].cost()
    for plan in plans[1:]:
        curve = curve + plan.cost()
    squares = [plan.mu_squared() for plan in plans]
    exact = _sum_or_none(squares)
    loss = None if exact is not None else _loss_of(plans, squares, delta)
    return worst_case_epsilon(delta, mu_squared=exact, rdp=curve, pld=loss)


def _loss_of(plans: Sequence[Plan], squares: Sequence[float | None], delta: float) -> Any:
    """Compose steps on Poisson samples with Gaussian releases; None where anything is else."""
    sampled = [
        plan.sampled_steps() for plan, square in zip(plans, squares, strict=True) if square is None
    ]
    steps = [one for one in sampled if one is not None]
    if len(steps) < len(sampled):
        return None
    gaussian = math.fsum(square for square in squares if square is not None)
    return sampled_steps_pld(steps, delta, gaussian)


def _sum_or_none(squares: Sequence[float | None]) -> float | None:
    known = [square for square in squares if square is not None]
    return math.fsum(known) if len(known) == len(squares) else None
