"""A mechanism is one file and one line of the registry: then everything knows it.

The file is the one that CONTRIBUTING.md shows, taken from there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from foreign import installed
from quiet_noise import quieten

import tacit.mechanisms as package
from tacit import Budget, GNMax, InsecureNoise, Ledger, PATEClassifier
from tacit._registry import MECHANISMS
from tacit.mechanisms import Plan, price_of_list
from tacit.students.posterior import label_posterior

NAME = "permute-and-flip"
GIVEN = f"{NAME}:scale=400"
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Add the file and the line; return the class."""
    page = PAGE.read_text("utf-8")
    source, *_ = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ((name, path),) = re.findall(r'^(\S+) = "(tacit.mechanisms\S+)"$', page, re.MULTILINE)
    module, _, kind = path.rpartition(".")[2].partition(":")
    entries = {"mechanisms": {name: f"{module}:{kind}"}}
    with installed(tmp_path, monkeypatch, {module: source}, entries):
        yield getattr(package, kind)


def test_nobody_knows_it_before(tacit, votes):
    assert NAME not in MECHANISMS
    assert not hasattr(package, "PermuteAndFlip")
    outcome = tacit("audit", "--mechanism", GIVEN)
    assert outcome.code == 2
    assert f"{NAME!r} to be one of confident-gnmax" in outcome.err


def test_plans_price_it_alone_and_with_others(added):
    plan = Plan(added(scale=400), 100)
    assert 0 < plan.epsilon(1e-5) < 100 * 2 / 400  # less than adding up pure epsilons
    both = price_of_list([plan, Plan(GNMax(40), 100)], 1e-5).epsilon
    assert both > max(plan.epsilon(1e-5), Plan(GNMax(40), 100).epsilon(1e-5))


def test_the_command_plans_with_it(added, tacit):
    asked = ("plan", "pate", "--teachers", 250, "--queries", 100, "--epsilon", 1, "--delta", 1e-5)
    proposals = json.loads(tacit(*asked, "--mechanism", GIVEN, "--json").out)["proposals"]
    assert proposals[-1]["mechanism"] == NAME
    usable = 1e-5 - 1e-6
    assert proposals[-1]["epsilon"] == Plan(added(scale=400), 100).epsilon(usable)
    shown = tacit(*asked, "--mechanism", f"{NAME}:scale=4")
    assert shown.code == 0, shown.err
    assert f"{NAME}:scale=4 is beyond that budget" in shown.out


def test_the_ledger_pays_for_it_and_the_statement_says_what_it_presumes(added, tacit, votes):
    outcome = tacit(
        "aggregate", votes, "--mechanism", GIVEN, "--queries", 50, "--epsilon", 2, "--delta", 1e-5,
        "--ledger", "run.ledger", "--out", "labels.csv", "--report", "report.html",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    ledger = Ledger("run.ledger")
    (entry,) = ledger.entries()
    assert (entry.plan["mechanism"], entry.plan["parameters"]) == (NAME, {"scale": 400.0})
    statement = ledger.statement()
    assert added.assumes in str(statement)
    assert "does not know" not in str(statement)
    assert NAME in Path("report.html").read_text("utf-8")


def test_what_a_ledger_names_and_nobody_knows_is_said(added, tacit, votes, tmp_path):
    test_the_ledger_pays_for_it_and_the_statement_says_what_it_presumes(added, tacit, votes)
    (tmp_path / "foreign-1.0.dist-info" / "entry_points.txt").write_text("")
    MECHANISMS.read_again()
    statement = Ledger("run.ledger").statement()
    assert added.assumes not in str(statement)
    assert f"whatever mechanism {NAME!r} presumes holds, which this version" in str(statement)


def test_it_is_audited(added, tacit):
    outcome = tacit("audit", "--mechanism", f"{NAME}:scale=4", "--trials", 20_000)
    assert outcome.code == 0, outcome.err + outcome.out


def test_too_little_noise_is_found(added, tacit, monkeypatch):
    quieten(monkeypatch)
    assert tacit("audit", "--mechanism", f"{NAME}:scale=4", "--trials", 20_000).code == 5


def test_a_student_reads_it_as_the_noise_is(added):
    """Of many made-up queries as the model has them, as many labels are right as it says."""
    rng = np.random.default_rng(0)
    agreement = rng.uniform(1 / 3, 1, 40_000)
    shares = np.column_stack([agreement, (1 - agreement) / 2, (1 - agreement) / 2])
    release = added(scale=15).release(rng.multinomial(50, shares), InsecureNoise(1))
    right = (release.labels == 0).mean()
    posterior = label_posterior(release, n_classes=3, n_teachers=50)
    assert 0.6 < right < 0.9
    assert posterior.max(axis=1) == pytest.approx(right, abs=0.01)
    assert (posterior.argmax(axis=1) == release.labels).all()


def test_an_estimator_takes_it(added, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + np.repeat([[0.0, 0.0], [4.0, 4.0]], 200, axis=0)
    y = np.repeat([0, 1], 200)
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(50.0, 1e-5), accountant="rdp")
    model = PATEClassifier(
        classes=[0, 1], n_teachers=20, queries=30, mechanism=added(scale=4.0), ledger=ledger
    )
    model.fit(X, y, X_public=X[::4] + 0.01)
    assert [release.mechanism.name for release in model.releases_] == [NAME]
    assert model.score(X, y) > 0.9
