"""`tacit plan` for records that speak once, and what it foretells of every method."""

from __future__ import annotations

import json

import pytest

from tacit.cli import plan
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.privacy import gaussian_mu

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
NOISY_VOTES = ("noisy-votes", "sampled-votes")


def planned(method=None, **given):
    """Return what the command of a method finds; without one, that of whoever votes."""
    if method is not None:
        return plan.method(method, **BUDGET, **given)
    return (plan.knn if "k" in given else plan.pate)(**BUDGET, **given)


def printed(capsys, **given) -> dict:
    planned(**given).print(as_json=True)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("method", "records", "releases"),
    [
        ("prototype", None, 1),
        ("moments", 500, 3),
        ("ridge", 100, 3),
        ("ridge", 90_000, 5),
        ("auto", 100, 1),
        ("auto", 90_000, 5),
        ("dpsgd", 5000, 1),
        ("mac", 5000, 1),
        ("segmentation", None, 1),
    ],
)
def test_releases_share_the_budget(method, records, releases, capsys):
    found = printed(capsys, method=method, records=records)
    assert len(found["releases"]) == releases
    assert sum(each["share"] for each in found["releases"]) == pytest.approx(1)


def test_what_is_hopeless_is_said(capsys):
    assert printed(capsys, method="ridge", records=20)["forecast"].startswith("Hopeless")
    assert printed(capsys, method="moments")["forecast"].startswith("No forecast")
    assert printed(capsys, method="prototype", records=9000)["forecast"].startswith("Nothing")
    assert printed(capsys, teachers=10, queries=100)["forecast"].startswith("Hopeless")
    assert printed(capsys, k=300, queries=100)["forecast"].startswith("Nothing")


def test_the_table_says_the_same(capsys):
    planned("ridge", records=5000).print(as_json=False)
    said = capsys.readouterr().out
    assert "comparison of solutions" in said
    assert "Forecast." in said


@pytest.mark.parametrize("method", ["moments", "ridge", "auto"])
def test_numbers_have_a_plan(method, capsys):
    found = printed(capsys, method=method, records=3000, numbers=True)
    assert "variance of y" in found["releases"][0]["what"]
    assert sum(each["share"] for each in found["releases"]) == pytest.approx(1)


def test_a_check_of_probabilities_is_part_of_the_plan(capsys):
    found = printed(capsys, method="moments", calibration=0.05)["releases"]
    assert found[-1]["share"] == pytest.approx(0.05)
    assert sum(1 / each["sigma"] ** 2 for each in found) == pytest.approx(
        1 / printed(capsys, method="prototype")["releases"][0]["sigma"] ** 2
    )


@pytest.mark.parametrize("method", ["dpsgd", "gd"])
def test_a_check_is_part_of_what_steps_cost(method, capsys):
    steps, check = printed(capsys, method=method, records=5000, calibration=0.05)["releases"]
    (alone,) = printed(capsys, method=method, records=5000)["releases"]
    assert check["share"] == pytest.approx(0.05)
    assert steps["share"] == pytest.approx(0.95)
    assert alone["sigma"] < steps["sigma"] < 1.1 * alone["sigma"]


@pytest.mark.parametrize("voters", [{"teachers": 250, "queries": 640}, {"k": 300, "queries": 100}])
def test_a_check_is_part_of_what_votes_cost(voters, capsys):
    budget = Budget(**BUDGET)
    found = printed(capsys, calibration=0.05, **voters)
    (check,) = found["check"]
    whole = 20 / check["parameters"]["sigma"] ** 2  # teachers keep some delta back
    assert whole == pytest.approx(gaussian_mu(1.0, 1e-5) ** 2, rel=0.02)
    votes = next(each for each in found["proposals"] if each["mechanism"] in NOISY_VOTES)
    left = 2 * voters["queries"] / votes["parameters"]["sigma"] ** 2
    assert 0.94 * whole < left <= 0.95 * whole * (1 + 1e-9)
    assert all(each["epsilon"] < budget.epsilon for each in found["proposals"])
    planned(calibration=0.05, **voters).print(as_json=False)
    assert "for calibration" in capsys.readouterr().out


def test_masks_have_no_check():
    with pytest.raises(InvalidArgument, match="calibration"):
        planned("segmentation", calibration=0.05)


def test_networks_and_masks_say_that_they_have_no_forecast(capsys):
    for method in ("dpsgd", "mac", "segmentation"):
        assert printed(capsys, method=method, records=900)["forecast"].startswith("No forecast")
    with pytest.raises(InvalidArgument, match="--records"):
        planned("dpsgd")
    with pytest.raises(InvalidArgument, match="numbers"):
        planned("prototype", numbers=True)


def test_options_of_voters_are_refused():
    with pytest.raises(InvalidArgument, match="queries"):
        planned("ridge", queries=5)
    for name in ("pate", "knn"):
        with pytest.raises(InvalidArgument, match="a command of its own"):
            planned(name, queries=5)
