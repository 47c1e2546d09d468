"""The filter's arithmetic, against mpmath and formulas written out again."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_shared import conversion, gaussian_delta

from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.ledger import Budget
from tacit.ledger.chain import canonical, nearest, steps_of
from tacit.ledger.terms import (
    FixedAccountant,
    GaussianAccountant,
    RdpAccountant,
    best_order,
    confidence_of,
)
from tacit.mechanisms import GNMax, Plan, price_of_list
from tacit.privacy import DEFAULT_ORDERS, WorstCase

BUDGETS = st.builds(
    Budget, epsilon=st.floats(0.05, 20.0), delta=st.floats(1e-12, 1e-2, exclude_min=True)
)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 0, "delta": 1e-5}, "epsilon=0"),
        ({"epsilon": -1, "delta": 1e-5}, "epsilon=-1"),
        ({"epsilon": math.nan, "delta": 1e-5}, "epsilon=nan"),
        ({"epsilon": math.inf, "delta": 1e-5}, "epsilon=inf"),
        ({"epsilon": "much", "delta": 1e-5}, "epsilon='much'"),
        ({"epsilon": 1, "delta": 0}, "delta=0"),
        ({"epsilon": 1, "delta": 1}, "delta=1"),
        ({"epsilon": 1, "delta": -0.1}, "delta=-0.1"),
        ({"epsilon": 1, "delta": math.nan}, "delta=nan"),
    ],
)
def test_a_budget_that_is_none_is_refused_by_name(arguments, named):
    with pytest.raises(InvalidArgument, match=named):
        Budget(**arguments)


def test_a_budget_is_a_frozen_value():
    budget = Budget(2, 1e-5)
    assert budget == Budget(np.float64(2.0), 1e-5)
    with pytest.raises(AttributeError):
        budget.epsilon = 3.0


@settings(deadline=None, max_examples=40)
@given(budget=BUDGETS)
def test_the_gaussian_capacity_is_the_largest_that_keeps_delta(budget):
    capacity = GaussianAccountant.within(budget, budget.delta).capacity
    tolerance = 1e-9
    assert gaussian_delta(budget.epsilon, math.sqrt(capacity)) <= budget.delta * (1 + tolerance)
    assert gaussian_delta(budget.epsilon, math.sqrt(capacity) * (1 + 1e-6)) > budget.delta


@settings(deadline=None, max_examples=100)
@given(budget=BUDGETS, order=st.floats(1.5, 500.0))
def test_the_rdp_capacity_converts_to_exactly_the_budget(budget, order):
    room = budget.epsilon - conversion(order, budget.delta)
    if room <= 0:
        with pytest.raises(InvalidArgument, match="order="):
            RdpAccountant.within(budget, budget.delta, order)
        return
    accountant = RdpAccountant.within(budget, budget.delta, order)
    assert accountant.capacity == pytest.approx(room, rel=1e-12, abs=1e-12)
    spent = accountant.epsilon(accountant.capacity)
    assert spent == pytest.approx(budget.epsilon, rel=1e-12, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(budget=BUDGETS)
def test_no_other_order_buys_more_gaussian(budget):
    def worth(order: float) -> float:
        return (budget.epsilon - conversion(order, budget.delta)) / order

    best = best_order(budget, budget.delta)
    assert worth(best) >= max(worth(float(order)) for order in DEFAULT_ORDERS) * (1 - 1e-12)


def test_a_budget_too_small_for_rdp_says_what_to_do():
    with pytest.raises(InvalidArgument, match="gaussian"):
        best_order(Budget(1e-9, 1e-5), 1e-5)


@given(costs=st.lists(st.floats(0, 10), max_size=30))
def test_the_total_is_the_exact_sum_rounded_once(costs):
    assert nearest(sum(map(steps_of, costs))) == float(sum(map(Fraction, costs), Fraction(0)))


@settings(deadline=None, max_examples=30)
@given(squares=st.lists(st.floats(0, 0.3), min_size=1, max_size=8), delta=st.floats(1e-9, 1e-3))
def test_epsilon_grows_with_the_total(squares, delta):
    budget = Budget(5.0, delta)
    for accountant in (
        GaussianAccountant.within(budget, delta),
        RdpAccountant.within(budget, delta, best_order(budget, delta)),
    ):
        totals = [math.fsum(squares[:count]) for count in range(len(squares) + 1)]
        spent = [accountant.epsilon(total) for total in totals]
        assert all(a <= b for a, b in pairwise(spent))


def test_gaussian_costs_are_the_plan_s_mu_squared():
    accountant = GaussianAccountant.within(Budget(2, 1e-5), 1e-5)
    assert accountant.cost(Plan(GNMax(40.0), queries=100), 0) == pytest.approx(100 * 2 / 40**2)


def test_a_gaussian_ledger_names_the_accountant_that_a_laplacian_needs(fakes):
    accountant = GaussianAccountant.within(Budget(2, 1e-5), 1e-5)
    with pytest.raises(InvalidArgument, match=r"'laplace'.*accountant='rdp'"):
        accountant.cost(Plan(fakes.Laplace(), queries=1), 0)


@pytest.mark.parametrize("square", [math.nan, math.inf, -0.1])
def test_a_cost_that_is_no_cost_is_refused(fakes, square):
    accountant = GaussianAccountant.within(Budget(2, 1e-5), 1e-5)
    with pytest.raises(InvalidArgument, match="mu_squared"):
        accountant.cost(Plan(fakes.Base(square), queries=1), 0)


def test_rdp_costs_are_taken_at_the_one_order(fakes):
    accountant = RdpAccountant.within(Budget(2, 1e-5), 1e-5, 12.5)
    plan = Plan(fakes.Laplace(0.02), queries=7)
    assert accountant.cost(plan, 3) == pytest.approx(7 * 12.5 * 0.02 / 2)


def test_a_mechanism_without_guarantee_is_refused(fakes):
    accountant = RdpAccountant.within(Budget(2, 1e-5), 1e-5, 12.5)
    with pytest.raises(BudgetExceeded, match="unbounded"):
        accountant.cost(Plan(fakes.Unbounded(), queries=1), 0)


def test_a_list_is_priced_as_a_whole_by_the_tightest_accountant(fakes):
    gaussian = [Plan(fakes.Base(0.05), queries=2), Plan(fakes.Base(0.15), queries=1)]
    price = price_of_list(gaussian, 1e-5)
    assert price.accountant == "gaussian"
    assert gaussian_delta(price.epsilon, math.sqrt(0.25)) == pytest.approx(1e-5, rel=1e-6)
    mixed = price_of_list([*gaussian, Plan(fakes.Laplace(0.05), queries=1)], 1e-5)
    assert mixed.accountant == "rdp"
    expected = min(
        float(order) * 0.30 / 2 + conversion(float(order), 1e-5) for order in DEFAULT_ORDERS
    )
    assert mixed.epsilon == pytest.approx(expected, rel=1e-12)


def test_a_fixed_list_is_paid_for_once_and_in_order(fakes):
    plans = [Plan(fakes.Base(0.05), queries=2), Plan(fakes.Base(0.15), queries=1)]
    texts = tuple(canonical(plan.as_dict()) for plan in plans)
    accountant = FixedAccountant(3.0, WorstCase(2.5, "gaussian"), texts)
    assert [accountant.cost(plan, place) for place, plan in enumerate(plans)] == [2.5, 0.0]
    with pytest.raises(BudgetExceeded, match="plan 1 of"):
        accountant.cost(plans[1], 0)
    with pytest.raises(BudgetExceeded, match="All 2 plans"):
        accountant.cost(plans[0], 2)
    assert (accountant.epsilon(2.5), accountant.bound) == (2.5, "gaussian")


@pytest.mark.parametrize("failure", [math.nan, -1e-9])
def test_a_confidence_delta_that_is_none_is_refused(fakes, failure):
    with pytest.raises(InvalidArgument, match="confidence_delta"):
        confidence_of(Plan(fakes.Confident(failure=failure), queries=1))


def test_confidence_deltas_add_over_queries(fakes):
    assert confidence_of(Plan(fakes.Confident(failure=1e-7), queries=3)) == pytest.approx(3e-7)
