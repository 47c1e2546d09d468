"""Plans: prices before the run, against numbers that were computed apart from this code.

The formulas: docs/theory/selective.md#what-a-plan-costs.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from tacit.errors import InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyVotes,
    Plan,
    Sanitise,
    ThresholdCheck,
)
from tacit.noise import InsecureNoise
from tacit.privacy import DEFAULT_ORDERS

ORDERS = [1.5, 4.0, 20.0]


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of Table 1 of PATE 2018, and what its plans cost."""

    mechanism: ConfidentGNMax
    queries: int
    answered: int
    n_teachers: int
    n_classes: int
    delta: float
    composite: float  # per query, by the improved conversion
    all_answered: float  # as exact Gaussian releases
    capped: float  # likewise, with the answered count as a cap

    def plan(self, max_answers=None):
        sizes = {"n_teachers": self.n_teachers, "n_classes": self.n_classes}
        return Plan(self.mechanism, self.queries, max_answers=max_answers, **sizes)


ROWS = {
    "MNIST": Row(ConfidentGNMax(200, 150, 40), 640, 286, 250, 10, 1e-5, 3.32, 3.93, 2.54),
    "SVHN": Row(ConfidentGNMax(300, 200, 40), 8500, 3098, 250, 10, 1e-6, 12.5, 20.5, 11.14),
    "Adult": Row(ConfidentGNMax(300, 200, 40), 1500, 524, 250, 2, 1e-5, 4.16, 6.40, 3.54),
    "Glyph": Row(ConfidentGNMax(1000, 500, 100), 12000, 10762, 5000, 150, 1e-8, 9.96, 9.58, 9.01),
}
TABLE = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def gaussian_epsilon(mu_squared, delta):
    """The exact curve of one Gaussian, by root finding on its textbook formula."""
    mu = math.sqrt(mu_squared)

    def excess(epsilon):
        tail = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return norm.cdf(-epsilon / mu + mu / 2) - tail - delta

    return brentq(excess, 0, 100)


def digits(number, printed):
    """Whether the number rounds to what was printed, whose list of orders was a little coarser."""
    decimals = len(str(printed).partition(".")[2])
    return abs(number - printed) <= 0.501 * 10**-decimals


@TABLE
def test_per_query_composite(row):
    sizes = {"n_teachers": row.n_teachers, "n_classes": row.n_classes}
    composite = row.mechanism.cost(DEFAULT_ORDERS, **sizes) * row.queries
    assert digits(composite.epsilon(row.delta), row.composite)


@TABLE
def test_all_queries_answered(row):
    every = row.queries * (1 / row.mechanism.sigma_check**2 + 2 / row.mechanism.sigma_answer**2)
    assert row.plan().mu_squared() == pytest.approx(every)
    assert digits(gaussian_epsilon(row.plan().mu_squared(), row.delta), row.all_answered)


@TABLE
def test_price_without_a_cap_is_the_lesser_of_both(row):
    price = row.plan().price(row.delta)
    assert digits(price.epsilon, min(row.composite, row.all_answered))
    assert price.accountant == ("rdp" if row.composite < row.all_answered else "gaussian")


@TABLE
def test_price_with_a_cap(row):
    plan = row.plan(max_answers=row.answered)
    check, answer = 1 / row.mechanism.sigma_check**2, 2 / row.mechanism.sigma_answer**2
    assert plan.mu_squared() == pytest.approx(row.queries * check + row.answered * answer)
    exact = gaussian_epsilon(plan.mu_squared(), row.delta)
    assert digits(exact, row.capped)
    assert plan.epsilon(row.delta) <= exact * (1 + 1e-9)
    assert plan.epsilon(row.delta) == pytest.approx(row.capped, rel=0.02)


def test_a_realised_count_is_never_a_cap(tmp_path):
    """However few were answered, the price and what was spent are those of the plan."""
    plan = ROWS["MNIST"].plan()
    assert plan.answers == 640
    assert plan.epsilon(1e-5) > ROWS["MNIST"].plan(max_answers=286).epsilon(1e-5) * 1.2
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(5.0, 1e-5))
    votes = np.tile([25] * 10, (640, 1))
    with ledger.release(plan, purpose="nobody agrees", noise=InsecureNoise(0)) as grant:
        labels = np.asarray(grant.release(votes))
    assert (labels == -1).sum() > 300
    assert ledger.entries()[0].cost == pytest.approx(plan.mu_squared())
    assert ledger.spent() == pytest.approx(3.93, abs=0.005)


def test_a_cap_of_zero_still_pays_for_the_checks():
    plan = ROWS["MNIST"].plan(max_answers=0)
    assert plan.mu_squared() == pytest.approx(640 / 150**2)
    assert plan.epsilon(1e-5) > 0


def test_a_cap_beyond_the_queries_is_no_cap():
    assert ROWS["MNIST"].plan(max_answers=10**6).answers == 640
    assert ROWS["MNIST"].plan(max_answers=10**6).epsilon(1e-5) == ROWS["MNIST"].plan().epsilon(1e-5)


@pytest.mark.parametrize("mechanism", [GNMax(9.0), NoisyVotes(9.0), LNMax(0.1)])
def test_price_of_a_mechanism_that_answers_everything(mechanism):
    plan = Plan(mechanism, 7)
    assert plan.cost(ORDERS).values == pytest.approx(7 * mechanism.cost(ORDERS).values)
    assert plan.answers == 7
    assert plan.confidence_delta() == 0.0
    if mechanism.gaussian_cost() is not None:
        assert plan.mu_squared() == pytest.approx(7 * 2 / 81)
        assert plan.price(1e-5).accountant == "gaussian"
    else:
        assert plan.price(1e-5).accountant == "rdp"


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-10, 80),
    st.floats(0.5, 60),
    st.floats(0.5, 60),
    st.integers(1, 50),
    st.integers(0, 60),
)
def test_selective_price_is_the_lesser_bound_at_every_order(threshold, check, answer, queries, cap):
    mechanism = ConfidentGNMax(threshold, check, answer)
    sizes = {"n_teachers": 40, "n_classes": 3}
    composite = queries * mechanism.cost(ORDERS, **sizes).values
    checks = queries * ThresholdCheck(threshold, check).cost(ORDERS, **sizes).values
    answers = min(cap, queries) * np.array(ORDERS) / answer**2
    found = Plan(mechanism, queries, max_answers=cap, **sizes).cost(ORDERS).values
    assert found == pytest.approx(np.minimum(composite, checks + answers))


def test_interactive_needs_no_number_of_classes():
    mechanism = InteractiveGNMax(200, 150, 40, 0.9)
    alone = Plan(mechanism, 10, n_teachers=250)
    assert alone.epsilon(1e-5) == Plan(mechanism, 10, n_teachers=250, n_classes=10).epsilon(1e-5)
    with pytest.raises(InvalidArgument, match="n_teachers"):
        Plan(mechanism, 10).cost(ORDERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": "gnmax", "queries": 1}, "mechanism='gnmax'"),
        ({"mechanism": GNMax(1.0), "queries": 0}, "queries=0"),
        ({"mechanism": GNMax(1.0), "queries": 1.5}, "queries=1.5"),
        ({"mechanism": GNMax(1.0), "queries": True}, "queries=True"),
        ({"mechanism": GNMax(1.0), "queries": 5, "max_answers": 2}, "max_answers=None"),
        ({"mechanism": ROWS["MNIST"].mechanism, "queries": 5, "max_answers": -1}, "max_answers=-1"),
        ({"mechanism": GNMax(1.0), "queries": 5, "n_teachers": 0}, "n_teachers=0"),
        ({"mechanism": GNMax(1.0), "queries": 5, "n_classes": 1}, "n_classes=1"),
    ],
)
def test_plans_with_wrong_parts_are_refused_by_name(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        Plan(**arguments)


def test_a_plan_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Plan(GNMax(1.0), 5).queries = 6


SANITISE = Sanitise(8.0, 0.02, 5.0, 0.1, 1e-6, 1e-6, covers="c" * 64, scale_floor=1e-5)
PLANS = [
    Plan(GNMax(40), 5),
    Plan(LNMax(0.05), 5, n_teachers=250, n_classes=10),
    Plan(NoisyVotes(40), 5, n_classes=10),
    Plan(ThresholdCheck(200, 150, from_zero=True), 5, n_teachers=250, n_classes=10),
    ROWS["MNIST"].plan(max_answers=3),
    Plan(InteractiveGNMax(200, 150, 40, 0.9), 5, n_teachers=250),
    Plan(SANITISE, 1),
]
KINDS = {
    kind.name: kind
    for kind in (
        GNMax,
        LNMax,
        NoisyVotes,
        ThresholdCheck,
        ConfidentGNMax,
        InteractiveGNMax,
        Sanitise,
    )
}


@pytest.mark.parametrize("plan", PLANS, ids=[plan.mechanism.name for plan in PLANS])
def test_as_dict_says_everything(plan):
    """Through JSON and back: the same plan at the same price."""
    plain = json.loads(json.dumps(plan.as_dict(), allow_nan=False))
    mechanism = KINDS[plain.pop("mechanism")](**plain.pop("parameters"))
    again = Plan(mechanism, plain.pop("queries"), **plain)
    assert again == plan
    assert again.epsilon(1e-5) == plan.epsilon(1e-5)
    assert again.as_dict() == plan.as_dict()


@pytest.mark.parametrize("plan", PLANS, ids=[plan.mechanism.name for plan in PLANS])
def test_each_accountant_alone_proves_the_price(plan):
    epsilon, accountant = plan.price(1e-5)
    mu_squared = plan.mu_squared()
    proofs = {"rdp": plan.cost().epsilon(1e-5)}
    if mu_squared is not None:
        proofs["gaussian"] = gaussian_epsilon(mu_squared, 1e-5)
    assert epsilon == pytest.approx(min(proofs.values()), rel=1e-9)
    assert epsilon == pytest.approx(proofs[accountant], rel=1e-9)


def test_accept_asks_the_mechanism():
    plan = Plan(GNMax(1.0), 2, n_teachers=5, n_classes=2)
    plan.accept([[5, 0], [2, 3]])
    for wrong in ([[5, 0]], [[5, 0, 0], [2, 3, 0]], [[5, 1], [2, 4]]):
        with pytest.raises(InvalidArgument):
            plan.accept(wrong)
