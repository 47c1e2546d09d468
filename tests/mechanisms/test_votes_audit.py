"""Statistical audits: no mechanism loses more than it claims, and every mutant is caught.

Each honest audit uses secure noise and fails by bad luck with probability at most 1e-6; mutants use
seeded noise. See `audits` for inputs and events, `mutants` for the mistakes.
"""

from __future__ import annotations

import numpy as np
import pytest
from audits import AUDITS, TRIALS, label, proved, secure_noise
from code_audits import CODE_AUDITS
from knn_audits import KNN_AUDITS
from mutants import (
    ForgetfulPlan,
    HalvedLogNoise,
    SharedNoise,
    WithoutInflation,
    count_first_teacher_twice,
    mutated,
    round_half_even,
    seeded_noise,
    sum_without_simplex,
    weak_noise,
)
from step_audits import STEP_AUDITS
from sum_audits import SUM_AUDITS

import tacit.mechanisms as package
from tacit._registry import MECHANISMS
from tacit.mechanisms import GNMax, LNMax, Plan, SoftVotes, count_votes, sum_soft_votes
from tacit.mechanisms import selective as selective_module
from tacit.privacy import gaussian_epsilon

SHARP = sorted(set(AUDITS) - {"sanitise, rough scale"})
"""Audits that prove most of the claim; the rough scale is there for its mutant."""


def test_every_mechanism_is_audited():
    public = {getattr(package, name) for name in package.__all__}
    named = {one.name for one in public if isinstance(getattr(one, "name", None), str)}
    groups = (AUDITS, KNN_AUDITS, CODE_AUDITS, SUM_AUDITS, STEP_AUDITS)
    audited = [audit for group in groups for audit in group.values()]
    # Audited elsewhere: scores in test_histogram.py, shares in tests/benchmarks.
    elsewhere = {"score-histogram", "shared-votes", "shared-codes"}
    assert named == {audit.mechanism.name for audit in audited} | elsewhere
    assert named == set(MECHANISMS)
    assert TRIALS == 10**6


@pytest.mark.parametrize("name", sorted(AUDITS))
def test_audit_does_not_refute_the_claim_and_is_sharp(name):
    audit = AUDITS[name]
    found = audit.finds()
    assert found <= audit.claim()
    assert found > 0.75 * audit.claim() or name not in SHARP


@pytest.mark.parametrize("name", SHARP)
def test_noise_too_small_by_sqrt_2_is_caught(name):
    audit = AUDITS[name]
    assert audit.finds(noise=weak_noise()) > audit.claim()


def test_lnmax_claim_is_its_price_at_every_high_order():
    assert LNMax(1.0).cost([1e9]).values[0] == pytest.approx(AUDITS["lnmax"].claim(), rel=1e-8)


def test_one_noise_for_check_and_answer_is_caught():
    audit = AUDITS["confident-gnmax"]
    assert audit.finds(mutated(audit.mechanism, SharedNoise), seeded_noise()) > audit.claim()


def test_forgotten_cost_of_the_check_is_caught():
    audit = AUDITS["confident-gnmax"]
    forgetful = ForgetfulPlan(audit.mechanism, 1, n_teachers=5, n_classes=2).epsilon(audit.delta)
    assert forgetful < audit.finds(noise=seeded_noise()) <= audit.claim()


def test_half_even_rounding_is_caught(monkeypatch):
    audit = AUDITS["interactive-gnmax"]
    monkeypatch.setattr(selective_module, "rounded_half_up", round_half_even)
    assert audit.finds(noise=seeded_noise()) > audit.claim()


def labels_of_predictions(count, first_teacher, noise):
    """From predictions to a million labels; four teachers stay, the first one may change."""
    predictions = np.tile(np.array([[first_teacher], [0], [1], [1], [1]]), (1, TRIALS))
    return np.asarray(GNMax(1.0).release(count(predictions, 2), noise))


@pytest.mark.parametrize(
    ("count", "caught"), [(count_votes, False), (count_first_teacher_twice, True)]
)
def test_a_teacher_counted_twice_is_caught(count, caught):
    first, second = (
        labels_of_predictions(count, vote, noise)
        for vote, noise in zip((0, 1), seeded_noise(), strict=True)
    )
    found = proved(first, second, (label(0),), 0.1)
    assert (found > gaussian_epsilon(0.1, np.sqrt(2))) is caught


def labels_of_soft_votes(add, first_teacher, noise):
    scores = [[first_teacher], [[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]], [[0.0, 1.0]]]
    soft = add(np.array(scores))
    many = SoftVotes(np.tile(soft.totals, (TRIALS, 1)), soft.n_teachers)
    return np.asarray(GNMax(1.0).release(many, noise))


@pytest.mark.parametrize(("add", "caught"), [(sum_soft_votes, False), (sum_without_simplex, True)])
def test_an_unclipped_soft_vote_is_caught(add, caught):
    first, second = (
        labels_of_soft_votes(add, scores, noise)
        for scores, noise in zip(([2.0, 0.0], [0.0, 2.0]), seeded_noise(), strict=True)
    )
    found = proved(first, second, (label(0),), 0.1)
    assert (found > Plan(GNMax(1.0), 1).epsilon(0.1)) is caught


def test_halved_noise_of_the_log_scale_is_caught():
    audit = AUDITS["sanitise, scale"]
    assert audit.finds(mutated(audit.mechanism, HalvedLogNoise), seeded_noise()) > audit.claim()


def test_scale_without_its_upper_bound_is_caught():
    audit = AUDITS["sanitise, rough scale"]
    assert audit.finds(mutated(audit.mechanism, WithoutInflation), seeded_noise()) > audit.claim()


def test_one_release_of_sanitise_is_one_row_of_what_is_audited():
    audit = AUDITS["sanitise, cost"]
    one = audit.mechanism.release(audit.first, seeded_noise()[0])
    same = audit.mechanism._draw(audit.first, seeded_noise()[0], 1)
    assert np.array_equal(np.asarray(one), same[0])
    assert audit.mechanism.release(audit.first, secure_noise()).secure
