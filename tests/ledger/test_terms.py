"""What is fixed at creation: defaults, refusals, and arguments that contradict the header."""

from __future__ import annotations

import math

import pytest

from tacit.errors import BudgetExceeded, InvalidArgument, LedgerDamaged, LedgerError
from tacit.ledger import Budget, Ledger
from tacit.ledger.terms import Terms, new_terms
from tacit.mechanisms import GNMax, Plan

BUDGET = Budget(2.0, 1e-5)


def test_a_new_ledger_has_the_documented_defaults():
    terms = new_terms(budget=BUDGET)
    assert (terms.unit, terms.dataset, terms.accountant) == ("record", "", "gaussian")
    assert (terms.order, terms.plans, terms.price) == (None, (), None)
    assert (terms.reserved_delta, terms.n_units, terms.allow_large_delta) == (0.0, None, False)


def test_a_new_ledger_needs_a_budget(path):
    with pytest.raises(InvalidArgument, match="budget=Budget"):
        Ledger(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"budget": 2.0}, "budget=2.0"),
        ({"unit": ""}, "unit=''"),
        ({"unit": "  "}, "unit"),
        ({"unit": 3}, "unit=3"),
        ({"unit": "two\nlines"}, "unit"),
        ({"dataset": "tab\there"}, "dataset"),
        ({"accountant": "pld"}, "accountant='pld'"),
        ({"accountant": "rdp", "order": 1.0}, "order=1.0"),
        ({"accountant": "rdp", "order": math.nan}, "order=nan"),
        ({"accountant": "rdp", "order": 1.05}, "order=1.05"),
        ({"accountant": "gaussian", "order": 8.0}, "order=8.0"),
        ({"accountant": "fixed"}, "without plans"),
        ({"accountant": "rdp", "plans": [Plan(GNMax(40.0), queries=1)]}, "with plans"),
        ({"plans": []}, r"plans=\[\]"),
        ({"plans": ["gnmax"]}, "plans="),
        ({"plans": Plan(GNMax(40.0), queries=1)}, "plans="),
        ({"reserved_delta": -1e-9}, "reserved_delta=-1e-09"),
        ({"reserved_delta": 1e-5}, "reserved_delta=1e-05"),
        ({"n_units": 0}, "n_units=0"),
        ({"n_units": 10.5}, "n_units=10.5"),
        ({"allow_large_delta": "no"}, "allow_large_delta='no'"),
        ({"n_units": 100_000}, r"1/n_units=1e-05.*allow_large_delta"),
        ({"n_units": 10**6}, "1/n_units"),
    ],
)
def test_unsound_terms_are_refused_by_name_and_nothing_is_created(path, arguments, named):
    with pytest.raises(InvalidArgument, match=named):
        Ledger(path, **{"budget": BUDGET, **arguments})
    assert list(path.parent.iterdir()) == []


def test_a_delta_below_one_over_n_is_fine():
    assert not new_terms(budget=BUDGET, n_units=99_999).large_delta


def test_a_large_delta_can_be_allowed_and_is_remembered():
    terms = new_terms(budget=BUDGET, n_units=10**6, allow_large_delta=True)
    assert terms.large_delta
    assert Terms.from_header(terms.as_header()).allow_large_delta


def test_a_fixed_list_over_the_budget_is_refused(path):
    plans = [Plan(GNMax(40.0), queries=100)] * 3
    with pytest.raises(BudgetExceeded, match=r"epsilon=2\.5"):
        Ledger(path, budget=BUDGET, plans=plans)
    assert list(path.parent.iterdir()) == []


def test_a_fixed_list_over_the_reserve_is_refused(path, fakes):
    plans = [Plan(fakes.Confident(failure=1e-7), queries=2)]
    with pytest.raises(BudgetExceeded, match=r"reserved_delta=1e-07.*2e-07"):
        Ledger(path, budget=BUDGET, plans=plans, reserved_delta=1e-7)
    assert Ledger(path, budget=BUDGET, plans=plans, reserved_delta=2e-7).accountant == "fixed"


def test_every_header_is_unique():
    terms = new_terms(budget=BUDGET)
    ids = {terms.as_header()["id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(bytes.fromhex(one)) == 16 for one in ids)


FIRST = {
    "budget": BUDGET,
    "unit": "person",
    "dataset": "scans",
    "accountant": "rdp",
    "order": 8.0,
    "reserved_delta": 1e-6,
    "n_units": 1000,
    "allow_large_delta": False,
}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("budget", Budget(3.0, 1e-5)),
        ("unit", "record"),
        ("dataset", "other scans"),
        ("accountant", "gaussian"),
        ("order", 9.0),
        ("plans", [Plan(GNMax(40.0), queries=1)]),
        ("reserved_delta", 0.0),
        ("n_units", 1001),
        ("allow_large_delta", True),
    ],
)
def test_the_header_decides_and_a_contradiction_is_named(path, name, other):
    created = Ledger(path, **FIRST)
    again = Ledger(path, **FIRST)
    assert again.verify() == created.head
    assert Ledger(path).budget == BUDGET
    with pytest.raises(LedgerError, match=name):
        Ledger(path, **{name: other})


def test_a_fixed_ledger_is_reopened_with_its_list_or_without(path):
    plans = [Plan(GNMax(40.0), queries=10), Plan(GNMax(50.0), queries=10)]
    Ledger(path, budget=BUDGET, plans=plans)
    assert Ledger(path, plans=plans).accountant == Ledger(path).accountant == "fixed"
    with pytest.raises(LedgerError, match="plans"):
        Ledger(path, plans=plans[::-1])


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("unit"),
        lambda header: header.update(epsilon=0.0),
        lambda header: header.update(plans=None),
        lambda header: header.update(price=[1.0]),
    ],
)
def test_an_incomplete_header_is_damage(change):
    header = new_terms(budget=BUDGET).as_header()
    change(header)
    with pytest.raises(LedgerDamaged, match="header"):
        Terms.from_header(header)


@pytest.mark.parametrize("accountant", ["rdp", "fixed", "barter"])
def test_a_header_without_a_usable_accountant_is_damage(accountant):
    header = {**new_terms(budget=BUDGET).as_header(), "accountant": accountant}
    with pytest.raises(LedgerDamaged, match="accountant"):
        Terms.from_header(header).make_accountant()


def test_a_new_ledger_says_how_its_records_are_read_and_an_older_one_nothing():
    header = new_terms(budget=BUDGET).as_header()
    assert header["record_rules"] == Terms.from_header(header).record_rules == 2
    del header["record_rules"]
    assert Terms.from_header(header).record_rules == 1
