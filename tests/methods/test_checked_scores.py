"""The paid check of a student's scores: planned, priced and in the ledger like every release."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flat_settings import built
from knn_shared import blobs

from tacit import (
    AutoClassifier,
    Checks,
    InsecureNoise,
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PrivateKNNClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.errors import InvalidArgument, ShiftWarning, WeakSignal
from tacit.ledger import Budget
from tacit.mechanisms import NoisySum, NoisyVotes, Plan, ScoreHistogram
from tacit.methods import calibrate
from tacit.methods.checked_scores import check_of, map_by_votes, said_by_scores, share_right
from tacit.records import PrivateRecords
from tacit.students import LinearStudent, ScoreMap

X, Y = blobs(400)
OUTSIDE, _ = blobs(120, seed=1)
TWO = (Y > 0).astype(int)
OWN = {
    PATEClassifier: {"n_teachers": 40, "queries": 30},
    PrivateKNNClassifier: {"k": 40, "queries": 30},
    PrototypeClassifier: {"n_prototypes": 15, "votes": 2},
    MomentClassifier: {},
    ResidualRidgeClassifier: {"n_landmarks": 20},
    AutoClassifier: {"n_records": 400},
}


def fitted(kind, y=Y, share=0.1, **changes):
    given = {"epsilon": 4.0, "delta": 1e-4, "noise": InsecureNoise(0), "random_state": 0}
    given |= {"classes": np.unique(y), "calibration": share, **OWN[kind], **changes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return built(kind, **given).fit(X, y, X_public=OUTSIDE)


@pytest.mark.parametrize("kind", OWN)
def test_a_table_is_released_last_within_the_same_epsilon(kind):
    model = fitted(kind)
    entries = model.ledger_.entries()
    assert [entry.plan["mechanism"] for entry in entries].count("score-histogram") == 1
    assert entries[-1].plan["mechanism"] == "score-histogram"
    assert 3.99 < model.statement_.epsilon <= 4.0
    assert model.score_check_.entry == entries[-1].hash
    squares = [1 / model.score_check_.mechanism.sigma**2]
    whole = 1 / fitted(kind, share=0.0)._gaussian_noise() ** 2
    assert squares[0] / whole == pytest.approx(0.1, rel=1e-6)
    assert isinstance(model.student_.score_map_, ScoreMap)
    assert "calibrated" in " ".join(model._notes())


@pytest.mark.parametrize("kind", [PATEClassifier, PrivateKNNClassifier])
def test_scores_of_other_public_inputs_are_told(kind):
    """Two of three blobs are public: the student is sure of all records, and wrong on a third."""
    outside = np.concatenate([blobs(300, seed=seed)[0] for seed in (1, 2)])
    labels = np.concatenate([blobs(300, seed=seed)[1] for seed in (1, 2)])
    own = OWN[kind] | {"epsilon": 8.0, "delta": 1e-4, "noise": InsecureNoise(0), "calibration": 0.2}
    own |= {"classes": [0, 1, 2], "random_state": 0}
    near = built(kind, **own).fit(X, Y, X_public=outside)
    assert not near.score_shift_.is_told
    assert "no difference" in " ".join(near._notes())
    with pytest.warns(ShiftWarning, match="do not resemble"):
        far = built(kind, **own).fit(X, Y, X_public=outside[labels > 0])
    assert far.score_shift_.is_told
    assert "do not resemble" in " ".join(far._notes())
    few = built(kind, **own).fit(X, Y, X_public=outside[:100])
    assert few.score_shift_ is None


def test_networks_are_checked_too_and_need_no_public_inputs():
    pytest.importorskip("torch")
    from tacit import DPSGDClassifier, Training

    for outside in (OUTSIDE, None):
        model = DPSGDClassifier(
            epsilon=4.0,
            delta=1e-4,
            n_records=400,
            hidden=(),
            classes=[0, 1, 2],
            checks=Checks(calibration=0.1),
            training=Training(epochs=4, batch_size=100),
            noise=InsecureNoise(0),
        ).fit(X, Y, X_public=outside)
        assert [entry.plan["mechanism"] for entry in model.ledger_.entries()][
            -1
        ] == "score-histogram"
        assert model.statement_.epsilon <= 4.0
        assert isinstance(model.student_.score_map_, ScoreMap)
        # Of a regression there is one: it learns by a rule of n mu.
        assert "No forecast" not in " ".join(model._notes())


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_neighbours_on_samples_leave_room_for_the_check(rate):
    model = fitted(PrivateKNNClassifier, sampling_rate=rate)
    assert model.statement_.epsilon <= 4.0
    assert model.ledger_.entries()[-1].plan["mechanism"] == "score-histogram"


def test_unsure_students_get_better_probabilities():
    from sklearn.metrics import brier_score_loss

    X_new, Y_new = blobs(400, seed=7)
    wrong = np.random.default_rng(0).random(400) < 0.3
    before, after = (
        fitted(PrototypeClassifier, np.where(wrong, 1 - TWO, TWO), share) for share in (0.0, 0.1)
    )
    truth = np.where(wrong, Y_new == 0, Y_new > 0)  # three of ten are the other way round here, too
    losses = [
        brier_score_loss(truth, model.predict_proba(X_new)[:, 1]) for model in (before, after)
    ]
    assert losses[1] < losses[0]


@pytest.fixture(scope="module")
def student():
    return LinearStudent().fit(OUTSIDE, [0, 1, 2], np.eye(3) * 0.7 + 0.1)


def test_a_record_is_scored_by_itself_bit_for_bit(student):
    check = check_of(student, OUTSIDE)
    every = said_by_scores(student, check, PrivateRecords(X, Y, None), OUTSIDE)
    for kept in (slice(1, None), slice(0, 7), [3]):
        some = said_by_scores(student, check, PrivateRecords(X[kept], Y[kept], None), OUTSIDE)
        assert (some.bins == every.bins[kept]).all()
        assert (some.classes == every.classes[kept]).all()


def test_a_record_on_which_the_student_fails_is_counted_nowhere(student):
    rows = X.copy()
    rows[5] = 1e308
    said = said_by_scores(
        student, check_of(student, OUTSIDE), PrivateRecords(rows, Y, None), OUTSIDE
    )
    total = ScoreHistogram(1e-3, 2, 12).release(said, InsecureNoise(0)).values.sum()
    assert round(total) in (len(X) - 1, len(X))
    assert (np.delete(said.bins, 5) >= 0).all()


def test_a_persons_records_share_one_count(student):
    people = np.repeat(np.arange(100), 4)
    said = said_by_scores(
        student, check_of(student, OUTSIDE), PrivateRecords(X, Y, people), OUTSIDE
    )
    total = ScoreHistogram(1e-3, 2, 12).release(said, InsecureNoise(0)).values.sum()
    assert total == pytest.approx(100, abs=0.1)


def test_votes_of_two_classes_move_a_student_for_nothing():
    model = fitted(PATEClassifier, TWO, share=0.0)
    assert model.score_check_ is None
    assert len(model.ledger_) == 1
    assert model.student_.score_map_.slope == 1.0
    assert "moved to the share" in " ".join(model._notes())


@pytest.mark.parametrize(("sigma", "near"), [(0.5, 0.25), (1e4, 0.5)])
def test_a_student_is_moved_as_far_as_votes_are_beyond_the_noise(sigma, near):
    even = LinearStudent().fit(OUTSIDE, [0, 1], [[0.51, 0.49], [0.49, 0.51]])
    votes = NoisyVotes(sigma).release(np.tile([30, 10], (50, 1)), InsecureNoise(0))
    moved = map_by_votes(even, OUTSIDE[:50], [votes], 40)
    said = even.predict_proba(OUTSIDE[:50])
    assert moved(said)[:, 1].mean() == pytest.approx(near, abs=0.02)


def test_several_classes_are_left_as_they_are():
    model = fitted(PrivateKNNClassifier, share=0.0)
    assert model.student_.score_map_ is None
    assert map_by_votes(model.student_, OUTSIDE, model.releases_, 40) is None


@pytest.mark.parametrize("share", [-0.1, 0.6, np.nan, "much"])
def test_what_is_no_share_is_refused_before_anything_is_spent(share):
    with pytest.raises(InvalidArgument, match="calibration"):
        fitted(MomentClassifier, share=share)


def test_what_has_no_student_or_no_classes_cannot_be_calibrated():
    model = PrivateKNNClassifier(
        radius=9.0, classes=[0, 1, 2], k=40, checks=Checks(calibration=0.1), delta=1e-4, epsilon=4.0
    )
    with pytest.raises(InvalidArgument, match="calibration"):
        model.fit(X, Y)
    regressor = MomentRegressor(target_range=(0, 2), checks=Checks(calibration=0.1), delta=1e-4)
    with pytest.raises(InvalidArgument, match="calibration"):
        regressor.fit(X, Y, X_public=OUTSIDE)


def test_plans_with_a_fixed_price_are_part_of_what_may_be_spent():
    budget, fixed = Budget(1.0, 1e-5), Plan(NoisySum(20.0, 1, 1), 1)
    plans = calibrate(lambda noise: [Plan(NoisySum(noise, 2, 2), 1), fixed], budget)
    (whole,) = calibrate(lambda noise: [Plan(NoisySum(noise, 2, 2), 1)], budget)
    total = sum(plan.mu_squared() for plan in plans)
    assert total <= whole.mu_squared() * (1 + 1e-12)
    assert total == pytest.approx(whole.mu_squared(), rel=1e-9)


@pytest.mark.parametrize("kind", [PATEClassifier, PrivateKNNClassifier, PrototypeClassifier])
def test_a_model_of_noise_says_that_nothing_was_learned(kind):
    random = np.random.default_rng(5)
    own = OWN[kind] | {"epsilon": 0.02, "delta": 1e-4, "allow_hopeless": True}
    own |= {"classes": [0, 1, 2], "random_state": 0}
    with pytest.warns(WeakSignal, match="do not show"):
        model = built(kind, noise=InsecureNoise(0), **own).fit(
            X, random.permutation(Y), X_public=OUTSIDE
        )
    assert "do not show" in " ".join(model._notes())
    assert not fitted(kind, share=0.0).signal_.is_weak


def test_one_label_for_every_public_input_is_said():
    rare = (np.arange(400) == 3).astype(int)
    with pytest.warns(WeakSignal, match="the same label"):
        model = built(
            MomentClassifier, epsilon=0.5, delta=1e-4, classes=[0, 1], noise=InsecureNoise(1)
        ).fit(X, rare, X_public=OUTSIDE)
    assert "the same label" in " ".join(model._notes())
    assert "the same label" not in " ".join(fitted(MomentClassifier)._notes())


def test_the_share_that_is_right_is_told_with_what_noise_and_sampling_allow():
    random, mechanism = np.random.default_rng(0), ScoreHistogram(20.0, 2, 12)
    chances = np.outer([0.3, 0.7], np.full(12, 1 / 12)).ravel()
    inside = 0
    for _ in range(300):
        table = random.multinomial(5000, chances) + random.normal(scale=20.0, size=24)
        release: Any = SimpleNamespace(values=table.reshape(2, 12), mechanism=mechanism)
        share, give = re.findall(r"([\d.]+)%", share_right(release, np.arange(3), by_person=False))
        inside += abs(float(share) - 70) <= float(give)
    assert 0.92 < inside / 300 < 0.985
    assert "over people" in share_right(release, np.arange(3), by_person=True)
    assert share_right(release, np.arange(2), by_person=False) is None
    hidden: Any = SimpleNamespace(values=np.ones((2, 12)), mechanism=mechanism)
    assert share_right(hidden, np.arange(3), by_person=True) is None
