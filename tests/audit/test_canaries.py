"""Canaries in a whole run: who is planted, what is asked, what is proved, and broken noise."""

from __future__ import annotations

import numpy as np
import pytest
from flat_settings import built
from sklearn.linear_model import LogisticRegression

from tacit import (
    Budget,
    InsecureNoise,
    Ledger,
    MomentClassifier,
    PATEClassifier,
    PrivateKNNClassifier,
    PrivateKNNRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.audit.models import (
    KINDS,
    Canaries,
    asked_about,
    audit_estimator,
    canary_scores,
    guess_coins,
    make_canaries,
)
from tacit.errors import InvalidArgument
from tacit.privacy import one_run_epsilon
from tacit.students import SupervisedStudent


class Quiet(InsecureNoise):
    """Noise ten times too small."""

    def gaussian(self, sigma, size):
        return super().gaussian(sigma / 10, size)

    def rounded_gaussian_steps(self, sigma, grid, size):
        return super().rounded_gaussian_steps(sigma / 10, grid, size)


CLASSES = [0, 1, 2]


@pytest.fixture
def world():
    """Three blobs: private records, public inputs, and labelled rows declared public."""
    random = np.random.default_rng(4)
    labels = random.integers(0, 3, size=1200)
    rows = random.normal(size=(1200, 6)) + 6 * np.eye(6)[labels]
    return rows[:600], labels[:600], rows[600:800], rows[800:], labels[800:]


def planted_among(world, count=200, **choices):
    return make_canaries(world[3], CLASSES, count, labels=world[4], random_state=1, **choices)


def estimators(noise):
    shared = {"classes": CLASSES, "noise": noise, "random_state": 0, "epsilon": 1.0}
    student = SupervisedStudent(LogisticRegression())
    return {
        "pate": built(PATEClassifier, LogisticRegression(), student, n_teachers=20, **shared),
        "pate, two rounds": built(
            PATEClassifier, LogisticRegression(), student, n_teachers=20, rounds=2, **shared
        ),
        "knn": built(PrivateKNNClassifier, student, k=20, **shared),
        "prototype": built(PrototypeClassifier, votes=1, **shared),
        "moments": built(MomentClassifier, **shared),
        "ridge": built(ResidualRidgeClassifier, **shared),
    }


@pytest.mark.parametrize("name", estimators(None))
def test_every_estimator_can_be_audited_and_an_honest_one_is_not_contradicted(name, world):
    model = estimators(InsecureNoise(5))[name]
    result = audit_estimator(model, *world[:3], planted_among(world, 60))
    assert result.claim == pytest.approx(1.0, abs=1e-3)
    assert result.canaries == 60
    assert not result.contradicts
    assert result.provable > result.claim  # it could have been
    assert not hasattr(model, "ledger_")  # the given estimator is left as it was
    seen = {each.seen for each in result.guesses}
    assert seen == ({"student"} if name in ("moments", "ridge") else {"student", "releases"})


def test_noise_ten_times_too_small_is_found(world):
    model = estimators(Quiet(5))["prototype"]
    result = audit_estimator(model, *world[:3], planted_among(world))
    assert result.contradicts
    assert result.proved > 1.3 * result.claim


def test_people_are_audited_with_canaries_as_people(world):
    X, y, public = world[:3]
    model = estimators(InsecureNoise(5))["prototype"]
    people = [f"p{row // 2}" for row in range(len(X))]
    canaries = planted_among(world, 40)
    result = audit_estimator(model, X, y, public, canaries, groups=people)
    assert not result.contradicts


class Recording(PrototypeClassifier):
    """Keeps what it was given, for the test."""

    given: dict = {}  # noqa: RUF012

    def fit(self, X, y, X_public=None, groups=None):
        Recording.given = {"X": X, "y": y, "X_public": X_public, "groups": groups}
        return super().fit(X, y, X_public=X_public, groups=groups)


def test_the_planted_are_records_and_all_inputs_are_public(world):
    X, y, public = world[:3]
    canaries = planted_among(world, 40)
    model = Recording(classes=CLASSES, noise=InsecureNoise(0), random_state=0)
    audit_estimator(model, X, y, public, canaries, groups=range(len(X)))
    given = Recording.given
    assert len(given["X"]) == len(X) + canaries.planted.sum()
    assert np.array_equal(given["X"][len(X) :], canaries.inputs[canaries.planted])
    assert np.array_equal(given["y"][len(X) :], canaries.labels[canaries.planted])
    assert np.array_equal(given["X_public"][len(public) :], canaries.inputs)
    assert len(set(given["groups"])) == len(given["X"])


def test_queries_and_prototypes_are_the_canaries():
    rows = np.arange(7, 48)
    asked = asked_about(built(PATEClassifier, rounds=2, queries=5), rows).queries
    assert (asked.number, asked.rounds, asked.strategy.tolist()) == (None, 2, rows[:40].tolist())
    assert asked_about(PrototypeClassifier(), rows).strategy.tolist() == rows.tolist()
    allowed = MomentClassifier(allow_overlap=True)
    assert asked_about(MomentClassifier(), rows).get_params() == allowed.get_params()


class TestCanaries:
    def test_labels_are_wrong_where_the_right_ones_are_known(self, world):
        canaries = planted_among(world)
        right = {row.tobytes(): label for row, label in zip(world[3], world[4], strict=True)}
        labels = [right[row.tobytes()] for row in canaries.inputs]
        assert (canaries.labels != labels).all()
        assert set(canaries.labels) == set(CLASSES)
        assert len({row.tobytes() for row in canaries.inputs}) == len(canaries)

    def test_strange_inputs_do_not_occur_and_keep_their_columns_values(self, world):
        canaries = planted_among(world, kind="strange")
        known = {row.tobytes() for row in world[3]}
        assert not any(row.tobytes() in known for row in canaries.inputs)
        for made, public in zip(canaries.inputs.T, world[3].T, strict=True):
            assert set(made) <= set(public)

    @pytest.mark.parametrize("kind", KINDS)
    def test_coins_are_fair_and_tell_nothing_of_inputs_or_labels(self, world, kind):
        tosses = np.concatenate(
            [
                make_canaries(world[3], CLASSES, 400, kind=kind, random_state=seed).planted
                for seed in range(25)
            ]
        )
        assert abs(tosses.mean() - 0.5) < 5 * 0.5 / 100

    def test_without_a_random_state_nobody_can_repeat_them(self, world):
        one, other = (make_canaries(world[3], CLASSES, 200) for _ in range(2))
        assert not np.array_equal(one.planted, other.planted)

    @pytest.mark.parametrize(
        ("count", "kind", "message"),
        [
            (19, "mislabelled", "canaries=19"),
            (401, "mislabelled", "canaries=401"),
            (20, "odd", "kind='odd'"),
        ],
    )
    def test_refuses(self, world, count, kind, message):
        with pytest.raises(InvalidArgument, match=message):
            planted_among(world, count, kind=kind)


def test_a_score_is_the_log_odds_against_the_unlikely_other_labels():
    canaries = Canaries(np.zeros((2, 1)), np.array(["b", "a"]), np.array([True, False]))
    chances = [[0.6, 0.2, 0.15, 0.05], [0.1, 0.3, 0.4, 0.2]]
    scores = canary_scores(chances, ["a", "b", "c", "d"], canaries)
    expected = [
        np.log(0.2) - np.log([0.15, 0.05]).mean(),
        np.log(0.1) - np.log([0.3, 0.2]).mean(),
    ]
    assert scores == pytest.approx(expected)
    two = canary_scores([[0.7, 0.3], [0.0, 1.0]], ["a", "b"], canaries)
    assert two[0] == pytest.approx(np.log(0.3 / 0.7))
    assert np.isfinite(two).all()


def test_scores_that_know_nothing_contradict_no_more_often_than_they_may():
    """Coins and scores have nothing to do with each other: epsilon 0 is the truth."""
    random = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        planted = random.random(100) < 0.5
        found = guess_coins({"student": random.random(100)}, planted, 1e-5, 0.05)
        wrong += max(each.proved for each in found) > 0
    assert wrong <= 40  # at most 5 %: 20 expected at worst, five deviations more


@pytest.mark.parametrize("names", [["student"], ["student", "releases"], ["a", "b", "c"]])
def test_every_attempt_has_its_part_of_the_confidence(names):
    planted = np.arange(100) < 50
    scores = np.where(np.arange(100) % 10 == 0, ~planted, planted) + 0.0
    found = guess_coins(dict.fromkeys(names, scores), planted, 1e-5, 0.05)
    assert len(found) == 3 * len(names)
    for each in found:
        part = 0.05 / (3 * len(names))
        assert each.proved > 0
        assert each.proved == one_run_epsilon(100, each.guessed, each.right, 1e-5, part)


@pytest.mark.parametrize("own_ledger", [False, True])
def test_too_many_canaries_for_the_delta_are_refused_before_anything_is_spent(
    own_ledger, world, tmp_path
):
    terms = {"budget": Budget(1.0, 3e-3), "allow_large_delta": True}
    ledger = Ledger(tmp_path / "one.ledger", **terms)
    model = built(
        PrototypeClassifier, classes=CLASSES, noise=InsecureNoise(0), allow_large_delta=True
    )
    model.set_params(**({"delta": 3e-3} if own_ledger else {"ledger": ledger}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrototypeClassifier, "fit", None)
        with pytest.raises(InvalidArgument, match="canaries=200"):
            audit_estimator(model, *world[:3], planted_among(world))
    assert len(ledger) == 0


def test_an_estimator_without_probabilities_is_refused(world):
    with pytest.raises(InvalidArgument, match="PrivateKNNRegressor"):
        audit_estimator(
            PrivateKNNRegressor(), world[0], world[1], world[2], planted_among(world, 20)
        )
