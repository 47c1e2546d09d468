"""How residual rounds share a budget, what they react to, and what shifted inputs do to them."""

from __future__ import annotations

import numpy as np
import pytest
from flat_settings import built
from hypothesis import given
from hypothesis import strategies as st
from knn_shared import Quiet

from tacit import (
    Budget,
    InsecureNoise,
    Ledger,
    Plan,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.errors import InvalidArgument
from tacit.features import PublicWhitening
from tacit.mechanisms import NoisySum
from tacit.methods.residual_rounds import Shares, compared_by
from tacit.methods.ridge import sharpness_of
from tacit.methods.summary import COUNT_SHARE
from tacit.records import PrivateRecords
from tacit.students import LinearStudent, load_student


@given(st.floats(0, 1e9), st.integers(1, 4096), st.integers(1, 20))
def test_shares_add_up_to_the_whole(strength, features, rounds):
    second, each, check = Shares.at(strength, features, rounds)
    assert min(each, check) > 0
    assert second >= 0
    assert COUNT_SHARE + second + rounds * each + check == pytest.approx(1, abs=1e-12)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=5))
def test_what_a_record_says_of_solutions_has_norm_at_most_one(gains):
    said = np.array(gains)
    private = PrivateRecords(np.full((len(said), 1), 2**14), np.zeros(len(said)), None)
    solutions = [np.array([[float(number)]]) for number in range(3)]
    asked = compared_by(private, solutions, lambda rows, score: said[rows, int(score[0, 0])])
    every = np.asarray(asked.right(np.arange(len(said))))
    assert np.linalg.norm(every, axis=1).max() <= 1 + 1e-9
    for row in range(len(said)):  # bit for bit its own
        np.testing.assert_array_equal(asked.right(np.array([row]))[0], every[row])


def shifted(count: int, seed: int, turn: float) -> tuple[np.ndarray, np.ndarray]:
    """Three narrow rays in six dimensions; public ones are turned into other directions."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=count)
    corners = np.eye(6)[:3] * (2 + np.arange(3))[:, None]
    rows = corners[labels] * random.uniform(0.6, 1.4, (count, 1))
    rows = rows + random.normal(scale=0.12, size=rows.shape)
    across = np.eye(6)
    for one, other in ((0, 3), (1, 4), (2, 5)):
        across[[one, other], [one, other]] = np.cos(turn)
        across[one, other], across[other, one] = np.sin(turn), -np.sin(turn)
    return rows @ across, labels


def fitted(turn: float, epsilon: float, noise, count: int = 2000):
    rows, labels = shifted(count, 0, 0.0)
    model = built(
        ResidualRidgeClassifier,
        epsilon=epsilon,
        classes=(0, 1, 2),
        n_landmarks=60,
        noise=noise,
        random_state=0,
        width=0.05,
    )
    return model.fit(rows, labels, X_public=shifted(300, 1, turn)[0])


@pytest.mark.parametrize("turn", [0.0, 0.4, 0.9])
def test_turned_public_inputs_do_not_ruin_the_solution(turn):
    rows, labels = shifted(500, 2, 0.0)
    model = fitted(turn, 4.0, InsecureNoise(1))
    assert len(model.releases_) == 5
    assert model.score(rows, labels) > 0.9
    assert sum(model.candidates_.values()) == pytest.approx(1)


def test_where_little_can_be_told_there_is_one_round():
    """Two rounds that were asked for are the one: the same releases, and the same solution."""
    found = []
    for rounds in (1, 2):
        rows, labels = shifted(200, 0, 0.0)
        model = built(
            ResidualRidgeClassifier,
            epsilon=1.0,
            classes=(0, 1, 2),
            n_landmarks=60,
            noise=InsecureNoise(4),
            random_state=0,
            rounds=rounds,
        )
        model.fit(rows, labels, X_public=shifted(300, 1, 0.0)[0])
        assert len(model.releases_) == 3
        found.append(model.predict_proba(rows))
    np.testing.assert_array_equal(*found)


def test_a_small_budget_is_not_below_chance():
    rows, labels = shifted(500, 2, 0.0)
    scores = [
        fitted(0.0, 0.2, InsecureNoise(seed), count=300).score(rows, labels) for seed in (1, 2, 3)
    ]
    assert np.mean(scores) > 0.3


def test_all_releases_cost_the_budget_whatever_the_counts_say(tmp_path):
    for name, count in (("few", 60), ("many", 4000)):
        model = fitted(0.0, 1.0, InsecureNoise(0), count=count)
        assert len(model.releases_) == (3 if name == "few" else 5)
        squares = [Plan(each.mechanism, 1).mu_squared() for each in model.releases_]
        whole = Plan(NoisySum(model._gaussian_noise(), 1, 1), 1).mu_squared()
        assert sum(squares) == pytest.approx(whole, rel=1e-9)
        assert model.ledger_.spent() <= 1.0


def test_a_ledger_for_a_fixed_list_is_refused_before_anything_is_spent(tmp_path):
    plans = [Plan(NoisySum(3.0, 1, 3), 1)]
    ledger = Ledger(tmp_path / "a.ledger", budget=Budget(9.0, 1e-5), unit="record", plans=plans)
    rows, labels = shifted(100, 0, 0.0)
    model = built(ResidualRidgeClassifier, classes=(0, 1, 2), ledger=ledger, noise=Quiet())
    with pytest.raises(InvalidArgument, match="fixed list cannot react"):
        model.fit(rows, labels, X_public=shifted(50, 1, 0.0)[0])
    assert not ledger.entries()


def test_a_renyi_ledger_takes_shares_that_react(tmp_path):
    ledger = Ledger(
        tmp_path / "a.ledger", budget=Budget(2.0, 1e-5), unit="record", accountant="rdp"
    )
    rows, labels = shifted(400, 0, 0.0)
    model = built(
        ResidualRidgeClassifier,
        classes=(0, 1, 2),
        epsilon=2.0,
        ledger=ledger,
        noise=InsecureNoise(0),
    )
    model.fit(rows, labels, X_public=shifted(50, 1, 0.0)[0])
    assert len(ledger.entries()) == len(model.releases_)
    assert ledger.spent() <= 2.0


@pytest.mark.parametrize("groups", [False, True], ids=["records", "people"])
def test_rows_that_are_whitened_have_a_linear_model(groups, tmp_path):
    rows, labels = shifted(3000, 0, 0.0)
    people = np.arange(len(rows)) if groups else None
    model = built(
        ResidualRidgeClassifier,
        epsilon=2.0,
        classes=(0, 1, 2),
        features=PublicWhitening(5),
        noise=InsecureNoise(0),
    )
    model.fit(rows, labels, X_public=shifted(300, 1, 0.0)[0], groups=people)
    assert isinstance(model.student_, LinearStudent)
    new, truth = shifted(500, 2, 0.0)
    assert model.score(new, truth) > 0.9
    # As sure as it is right, about: least squares has no sharpness of its own.
    assert abs(model.predict_proba(new).max(axis=1).mean() - model.score(new, truth)) < 0.15
    model.student_.save(tmp_path / "student")
    np.testing.assert_array_equal(
        load_student(tmp_path / "student").predict(new), model.predict(new)
    )


def test_numbers_of_whitened_rows_are_learned_by_a_linear_model():
    rows, _ = shifted(3000, 0, 0.0)
    values = np.tanh(rows[:, 0] - rows[:, 1])
    model = built(
        ResidualRidgeRegressor,
        epsilon=4.0,
        target_range=(-1, 1),
        features=PublicWhitening(5),
        noise=InsecureNoise(0),
    )
    model.fit(rows, values, X_public=shifted(300, 1, 0.0)[0])
    assert model.score(rows, values) > 0.7


@pytest.mark.parametrize("odd", [0.0, -1.0, 1e-12, 1e308, np.inf, np.nan])
def test_a_paid_solution_is_kept_whatever_its_shares_are(odd):
    with np.errstate(all="ignore"):
        assert np.isfinite(sharpness_of(np.array([[odd, 0.1], [0.2, odd]])))
