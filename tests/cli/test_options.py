"""Mechanisms in words: names with options, and descriptions, for commands that take votes."""

from __future__ import annotations

import pytest

from tacit import ConfidentGNMax, InteractiveGNMax
from tacit.cli.options import vote_mechanism
from tacit.errors import InvalidArgument


def test_a_name_with_options_and_a_description_are_the_same():
    options = {"threshold": 200.0, "sigma_check": 150.0, "sigma_answer": 40.0, "gamma": None}
    text = "confident-gnmax:threshold=200,sigma_check=150,sigma-answer=40"
    assert vote_mechanism("confident-gnmax", **options) == vote_mechanism(text)
    assert vote_mechanism(text) == ConfidentGNMax(200, 150, 40)
    made = vote_mechanism("interactive-gnmax", **{**options, "confidence": 0.9})
    assert made == InteractiveGNMax(200, 150, 40, 0.9)


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("gnmax", {}, "Expected --sigma for gnmax."),
        ("gnmax", {"sigma": 4.0, "sigma_check": 4.0}, "Expected no --sigma-check for gnmax."),
        ("gnmax:sigma=4", {"gamma": 4.0}, "Expected no --gamma with gnmax:sigma=4."),
        ("gnmax:", {}, "Expected sigma in --mechanism=gnmax"),
        ("gnmacks", {"sigma": 4.0}, "--mechanism='gnmacks' to be one of confident-gnmax, "),
        ("sampled-max:sigma=4,k=5", {}, "on teachers' votes, got sampled-max"),
        ("threshold-check:threshold=4,sigma=5", {}, "got one of 'threshold-check'"),
    ],
)
def test_refuses(text, options, complaint):
    with pytest.raises(InvalidArgument) as caught:
        vote_mechanism(text, **options)
    assert complaint in str(caught.value)


def test_the_command_takes_a_description(tacit, votes):
    outcome = tacit(
        "aggregate", votes, "--mechanism", "lnmax:gamma=0.01", "--queries", 20, "--epsilon", 4,
        "--delta", 1e-5, "--ledger", "run.ledger", "--out", "labels.csv",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err


def test_a_mechanism_beside_the_proposals_is_of_teachers_only(tacit):
    outcome = tacit(
        "plan", "knn", "--k", 30, "--queries", 10, "--delta", 1e-5, "--epsilon", 1,
        "--mechanism", "gnmax:sigma=4",
    )  # fmt: skip
    assert outcome.code == 2
    assert "No such option: --mechanism" in outcome.err
