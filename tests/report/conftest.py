"""Small ledgers of every kind, for reports about them."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.ledger import Budget, Ledger, sanitised_statement
from tacit.mechanisms import ConfidentGNMax, GNMax, LNMax, Plan, Sanitise, secret_cost_of
from tacit.noise import InsecureNoise

SECRET_VOTES = [137, 61, 52]
"""A histogram that no report may show."""


@pytest.fixture
def votes():
    return np.tile(SECRET_VOTES, (40, 1))


@pytest.fixture
def released(votes):
    """Release the first rows of the votes under a plan of a ledger."""

    def release(ledger, plan, purpose="label the public scans", **options):
        with ledger.release(plan, purpose=purpose, **options) as grant:
            return grant.release(votes[: plan.queries])

    return release


@pytest.fixture
def confident():
    mechanism = ConfidentGNMax(threshold=120, sigma_check=75, sigma_answer=30)
    return Plan(mechanism, 40, max_answers=25, n_teachers=250, n_classes=3)


@pytest.fixture
def ledger(tmp_path, released, confident):
    """Two releases, csprng, with a reserve of delta."""
    book = Ledger(
        tmp_path / "run.ledger",
        budget=Budget(epsilon=3, delta=1e-5),
        dataset="hospital scans",
        unit="patient",
        n_units=40_000,
        reserved_delta=2e-6,
    )
    released(book, Plan(GNMax(sigma=40), queries=30), purpose="first look")
    released(book, confident)
    return book


@pytest.fixture
def sanitised(ledger, released, confident, votes):
    """The sanitised statement of that ledger, whose third entry published the cost."""
    release = released(ledger, confident)
    beta = 0.0143
    mechanism = Sanitise(
        order=ledger.sanitise_order,
        beta=beta,
        sigma=6,
        sigma_log=0.1,
        delta_value=1e-6,
        delta_scale=1e-6,
        covers=release.entry,
    )
    cost = secret_cost_of(confident.mechanism, votes, release.labels, ledger.sanitise_order, beta)
    with ledger.release(Plan(mechanism, 1), purpose="publish the cost") as grant:
        return sanitised_statement(ledger, [grant.release(cost)])


@pytest.fixture
def rdp_ledger(tmp_path, released):
    book = Ledger(tmp_path / "rdp.ledger", budget=Budget(4, 1e-6), accountant="rdp")
    for gamma in (0.05, 0.04):
        released(book, Plan(LNMax(gamma=gamma), 10, n_teachers=250, n_classes=3))
    return book


@pytest.fixture
def fixed_ledger(tmp_path, released):
    plans = [Plan(GNMax(sigma=40), queries=30), Plan(GNMax(sigma=60), queries=10)]
    book = Ledger(tmp_path / "fixed.ledger", budget=Budget(3, 1e-5), plans=plans)
    released(book, plans[0])
    return book


@pytest.fixture
def insecure_ledger(tmp_path, released):
    """Seeded noise in the second of two entries, and a delta that is too large."""
    book = Ledger(
        tmp_path / "insecure.ledger",
        budget=Budget(4, 0.01),
        dataset="demo",
        n_units=50_000,
        allow_large_delta=True,
    )
    released(book, Plan(GNMax(sigma=40), queries=5))
    released(book, Plan(GNMax(sigma=40), queries=5), noise=InsecureNoise(1))
    return book


@pytest.fixture
def empty_ledger(tmp_path):
    return Ledger(tmp_path / "empty.ledger", budget=Budget(2, 1e-5))
