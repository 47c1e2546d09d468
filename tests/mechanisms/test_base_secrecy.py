"""Nothing secret in a repr, a string, a log or an error: canary numbers in the votes stay there."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import traceback
import warnings

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.ledger import Budget, Ledger, sanitised_statement
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyVotes,
    Plan,
    Sanitise,
    SecretCost,
    SoftVotes,
    ThresholdCheck,
    count_votes,
    secret_cost_of,
    sum_soft_votes,
)
from tacit.noise import InsecureNoise, SecureNoise

CANARIES = ("7919", "6007", "4001")
VOTES = np.array([[7919, 6007, 4001], [6007, 7919, 4001]])  # 17927 teachers
STUDENT = np.full((2, 3), 1 / 3)
SECRET = SecretCost(0.7919, 0.6007, 8.0, 0.02)
SANITISE = Sanitise(8.0, 0.02, 5.0, 0.1, 1e-6, 1e-6, covers="c" * 64)
MECHANISMS = [
    (GNMax(50.0), {}),
    (LNMax(0.02), {}),
    (NoisyVotes(500.0), {}),
    (ThresholdCheck(7000.0, 50.0), {}),
    (ConfidentGNMax(7000.0, 50.0, 50.0), {}),
    (InteractiveGNMax(2000.0, 50.0, 50.0, 0.9), {"student": STUDENT}),
]
EVERY = pytest.mark.parametrize(
    ("mechanism", "public"), MECHANISMS, ids=[case[0].name for case in MECHANISMS]
)


def assert_silent(*texts):
    """No canary in what is said; hashes and times of day hold any digits by chance."""
    for text in texts:
        said = re.sub(r"[0-9a-f]{32,}|:[0-9]{2}\.[0-9]{6}", "", str(text))
        assert not [canary for canary in CANARIES if canary in said], said


def everything_said(error):
    """The message of an error, of whatever caused it, and the printed traceback."""
    chain = []
    while error is not None:
        chain += [str(error), repr(error), repr(error.args), *getattr(error, "__notes__", [])]
        chain += traceback.format_exception_only(error)
        error = error.__cause__ or error.__context__
    return chain


def refused(action):
    """Run what must raise one of tacit's errors; return all that it said."""
    with pytest.raises(TacitError) as caught:
        action()
    return everything_said(caught.value)


def broken_votes():
    """Votes that are refused, each with the canaries inside."""
    ragged = [VOTES[0].tolist(), VOTES[1, :2].tolist()]
    return [
        VOTES + np.array([[0, 0, 0], [0, 0, 1]]),
        VOTES * np.array([[1, 1, -1], [1, 1, 1]]),
        VOTES + 0.5,
        VOTES.astype(str),
        VOTES[0],
        VOTES[:, :1],
        VOTES.astype(np.complex128),
        np.where(VOTES == 4001, np.nan, VOTES),
        ragged,
        {"votes": VOTES.tolist()},
        "7919 6007 4001",
    ]


@EVERY
def test_errors_about_votes(mechanism, public):
    for votes in broken_votes():
        assert_silent(*refused(lambda v=votes: mechanism.release(v, InsecureNoise(0), **public)))
        assert_silent(*refused(lambda v=votes: mechanism.secret_cost(v, [2.0], **public)))
        assert_silent(
            *refused(lambda v=votes: Plan(mechanism, 2, n_teachers=17927, n_classes=3).accept(v))
        )
    for sizes in ({"n_teachers": 9}, {"n_classes": 5}):
        assert_silent(*refused(lambda s=sizes: Plan(mechanism, 2, **s).accept(VOTES)))
    assert_silent(*refused(lambda: Plan(mechanism, 9).accept(VOTES)))
    assert_silent(*refused(lambda: mechanism.release(VOTES, SecureNoise(), **public)))


def test_errors_about_the_student():
    mechanism = MECHANISMS[-1][0]
    for student in (None, STUDENT[:1], STUDENT * 2, -STUDENT, np.full((2, 3), np.nan)):
        assert_silent(
            *refused(lambda s=student: mechanism.release(VOTES, InsecureNoise(0), student=s))
        )


def test_errors_about_predictions_and_soft_votes():
    for predictions in ([[7919, 0]], [[6007.0]], ["7919"], [[-7919]]):
        assert_silent(*refused(lambda p=predictions: count_votes(p, 3)))
    assert_silent(*refused(lambda: sum_soft_votes([[7919.0, 6007.0]])))
    assert_silent(*refused(lambda: SoftVotes(VOTES.astype(np.float64), 4)))


def test_errors_about_costs():
    labels = [0, 1]
    assert_silent(*refused(lambda: secret_cost_of(LNMax(0.1), VOTES, labels, 8.0, 0.02)))
    assert_silent(*refused(lambda: secret_cost_of(GNMax(9.0), VOTES, [0], 8.0, 0.02)))
    assert_silent(*refused(lambda: secret_cost_of(GNMax(9.0), VOTES, [0, -1], 8.0, 0.02)))
    assert_silent(*refused(lambda: secret_cost_of(GNMax(9.0), VOTES + 0.5, labels, 8.0, 0.02)))
    for secret in (
        dataclasses.replace(SECRET, order=9.0),
        dataclasses.replace(SECRET, beta=0.5),
        SecretCost(0.7919, float("nan"), 8.0, 0.02),
        (0.7919, 0.6007),
    ):
        assert_silent(*refused(lambda s=secret: SANITISE.release(s, InsecureNoise(0))))
        assert_silent(*refused(lambda s=secret: Plan(SANITISE, 1).accept(s)))


@EVERY
def test_representations_show_no_vote(mechanism, public, tmp_path):
    plan = Plan(mechanism, 2, n_teachers=17927, n_classes=3)
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(50.0, 1e-5), accountant="rdp")
    with ledger.release(plan, purpose="canaries") as grant:
        release = grant.release(VOTES, **public)
        assert_silent(repr(grant), str(grant), repr(grant.entry))
    shown = [mechanism, plan, grant, ledger, ledger.entries(), ledger.statement(), plan.as_dict()]
    assert_silent(*map(repr, shown), *map(str, shown))
    if mechanism.name != "noisy-votes":
        assert_silent(repr(release), str(release))
    assert_silent((tmp_path / "run.ledger").read_bytes().decode("latin-1"))


def test_secret_things_do_not_show_what_they_hold():
    soft = SoftVotes(VOTES.astype(np.float64), 17927)
    for secret in (SECRET, soft):
        assert_silent(repr(secret), str(secret), f"{secret}", [secret])
    assert "secret" in repr(SECRET)


@EVERY
def test_errors_inside_a_grant(mechanism, public, tmp_path):
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(50.0, 1e-5), accountant="rdp")
    plan = Plan(mechanism, 2, n_teachers=17927, n_classes=3)
    for number, votes in enumerate(broken_votes()):
        with ledger.release(plan, purpose=f"attempt {number}") as grant:
            assert_silent(*refused(lambda g=grant, v=votes: g.release(v, **public)))


def test_sanitising_says_the_noisy_numbers_only(tmp_path):
    votes = np.array([[79, 60, 40], [100, 60, 19]])
    terms = {"accountant": "rdp", "order": 8.0, "reserved_delta": 4e-6}
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(50.0, 1e-5), **terms)
    with ledger.release(Plan(GNMax(9.0), 2), purpose="labels") as grant:
        release = grant.release(votes)
    made = dataclasses.replace(SANITISE, covers=release.entry)
    secret = secret_cost_of(GNMax(9.0), votes, release, 8.0, 0.02)
    with ledger.release(Plan(made, 1), purpose="cost") as grant:
        cost = grant.release(secret)
    statement = sanitised_statement(ledger, [cost])
    for number in (secret.value, secret.smooth):
        for text in (repr(cost), str(statement), statement.to_json(), repr(secret)):
            assert repr(number) not in text
            assert f"{number:.6g}" not in text


@EVERY
def test_nothing_is_printed_or_logged(mechanism, public, capfd, caplog):
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        mechanism.release(VOTES, InsecureNoise(0), **public)
        mechanism.secret_cost(VOTES, [2.0], **public)
        with contextlib.suppress(TacitError):
            mechanism.release(VOTES + 0.5, InsecureNoise(0), **public)
    assert (capfd.readouterr(), caplog.records, heard) == (("", ""), [], [])
