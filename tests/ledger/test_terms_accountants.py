"""The three accountants of a ledger: what each adds, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_shared import BUDGET, conversion, gaussian_delta, spend

from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, Plan


def test_an_rdp_ledger_takes_any_mechanism_at_one_order(path, fakes):
    ledger = Ledger(path, budget=BUDGET, accountant="rdp", order=10.0)
    room = 2.6 - conversion(10.0, 1e-5)
    plan = Plan(fakes.Laplace(room / 2 / 5.0 * 0.999), queries=1)  # a bit less than half
    for count in (1, 2):
        spend(ledger, plan, [0])
        expected = count * 0.999 * room / 2 + conversion(10.0, 1e-5)
        assert ledger.spent() == pytest.approx(expected, rel=1e-12)
    assert ledger.would_exceed(plan)
    assert ledger.would_exceed(Plan(fakes.Unbounded(), queries=1))
    assert (ledger.order, ledger.statement().accountant) == (10.0, "rdp")


def test_a_gaussian_ledger_refuses_other_mechanisms(ledger, fakes):
    plan = Plan(fakes.Laplace(), queries=1)
    with pytest.raises(InvalidArgument, match="accountant='rdp'"):
        ledger.would_exceed(plan)
    with pytest.raises(InvalidArgument), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")
    assert len(ledger) == 0


def test_a_fixed_ledger_is_priced_as_a_whole_by_its_first_release(path, fakes):
    plans = [Plan(GNMax(40.0), queries=100), Plan(fakes.Laplace(0.01), queries=1)]
    ledger = Ledger(path, budget=BUDGET, plans=plans)
    assert (ledger.accountant, ledger.spent()) == ("fixed", 0.0)
    assert ledger.would_exceed(plans[1])
    with pytest.raises(BudgetExceeded, match="plan 1"), ledger.release(plans[1], purpose="test"):
        pytest.fail("a grant was given")
    spend(ledger, plans[0], np.tile([9, 1], (100, 1)))
    whole = ledger.spent()
    curve = plans[0].cost() + plans[1].cost()
    assert whole == pytest.approx(curve.epsilon(1e-5), rel=1e-12)
    spend(Ledger(path), plans[1], [0])
    assert ledger.spent() == whole
    assert ledger.statement().accountant == "rdp"
    for plan in plans:
        assert ledger.would_exceed(plan)


def test_a_fixed_ledger_of_gaussians_says_gaussian(path, plan, votes):
    ledger = Ledger(path, budget=BUDGET, plans=[plan, plan])
    spend(ledger, plan, votes)
    assert gaussian_delta(ledger.spent(), 0.5) == pytest.approx(1e-5, rel=1e-6)
    assert ledger.statement().accountant == "gaussian"


def test_confidence_comes_out_of_the_reserve_only(path, fakes):
    ledger = Ledger(path, budget=BUDGET, reserved_delta=2.5e-7)
    plan = Plan(fakes.Confident(failure=1e-7), queries=1)
    for _ in range(2):
        spend(ledger, plan, [0])
    assert [entry.confidence_delta for entry in ledger.entries()] == [1e-7, 1e-7]
    assert ledger.would_exceed(plan)
    with pytest.raises(BudgetExceeded, match=r"Ledger\(path, budget=…, reserved_delta=…\)"):
        spend(ledger, plan, [0])
    spend(ledger, Plan(fakes.Base(), queries=1), [0])  # needs no confidence, so it still fits
    # The noise is accounted at what the reserve leaves; the statement gives the whole delta.
    assert gaussian_delta(ledger.spent(), math.sqrt(0.03)) == pytest.approx(9.75e-6, rel=1e-6)
    assert ledger.statement().delta == 1e-5


def test_without_a_reserve_confidence_is_refused(ledger, fakes):
    with pytest.raises(BudgetExceeded, match=r"reserved_delta=0\.0"):
        spend(ledger, Plan(fakes.Confident(), queries=1), [0])
    assert len(ledger) == 0


@settings(deadline=None, max_examples=25)
@given(
    squares=st.lists(st.floats(1e-6, 0.2), min_size=1, max_size=12),
    accountant=st.sampled_from(["gaussian", "rdp"]),
    epsilon=st.floats(0.3, 4.0),
)
def test_no_order_of_plans_exceeds_the_budget(
    tmp_path_factory, fakes, squares, accountant, epsilon
):
    path = tmp_path_factory.mktemp("ledger") / "run.ledger"
    ledger = Ledger(path, budget=Budget(epsilon, 1e-6), accountant=accountant)
    taken, before = [], 0.0
    for square in squares:
        plan = Plan(fakes.Base(square), queries=1)
        exceeds = ledger.would_exceed(plan)
        try:
            spend(ledger, plan, [0])
            taken.append(square)
            assert not exceeds
        except BudgetExceeded:
            assert exceeds
            # Refused for a reason: with it, even the exact curve is beyond the budget, or RDP is.
            if accountant == "gaussian":
                mu = math.sqrt(math.fsum([*taken, square]))
                assert gaussian_delta(epsilon, mu) > 1e-6 * (1 - 1e-9)
        assert before <= ledger.spent() <= epsilon
        before = ledger.spent()
    if taken:
        assert gaussian_delta(epsilon, math.sqrt(math.fsum(taken))) <= 1e-6 * (1 + 1e-9)


def test_a_plan_that_costs_exactly_the_rest_fits(path, fakes):
    ledger = Ledger(path, budget=BUDGET)
    capacity = ledger._accountant.capacity
    spend(ledger, Plan(fakes.Base(capacity), queries=1), [0])
    assert ledger.spent() <= 2.6
    assert ledger.spent() == pytest.approx(2.6, rel=1e-9)
    assert ledger.remaining() >= 0.0
    assert ledger.would_exceed(Plan(fakes.Base(1e-15), queries=1))


def test_a_total_beyond_the_capacity_is_told_as_it_is(ledger, plan, votes):
    """As a later version might find, should it correct the curve: never hide an overdraft."""
    spend(ledger, plan, votes)
    object.__setattr__(ledger._accountant, "capacity", 0.01)
    assert ledger.spent() == pytest.approx(1.3564673, rel=1e-6)
