"""The estimators on private neighbours: learning, answering, refusing, scikit-learn's contract."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import numpy as np
import pytest
from knn_shared import KINDS, NAMES, PROBLEMS, Spy, blobs, make, slope, tagged
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from tacit import (
    BudgetExceeded,
    Ledger,
    NoisyScreening,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
)
from tacit.errors import InvalidArgument
from tacit.methods.asked_neighbours import RecordIndex
from tacit.students import CombinedStudent, load_student

EVERY = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


@pytest.fixture(scope="module")
def data():
    X, y = blobs(900)
    return X, y, blobs(200, seed=1)[0]


class TestClassifier:
    def test_student_learns_from_releases(self, data):
        X, y, outside = data
        model = make(PrivateKNNClassifier).fit(X, y, X_public=outside)
        X_new, y_new = blobs(400, seed=2)
        assert model.score(X_new, y_new) > 0.95
        assert 2.9 < model.ledger_.spent() <= 3.0
        assert model.predict_proba(X_new).sum(axis=1) == pytest.approx(1.0)

    @pytest.mark.parametrize("mechanism", ["sampled-votes", "sampled-max", "noisy-screening"])
    @pytest.mark.parametrize("rate", [1.0, 0.5])
    def test_named_mechanisms_spend_at_most_epsilon(self, data, mechanism, rate):
        X, y, outside = data
        model = make(PrivateKNNClassifier, mechanism=mechanism, sampling_rate=rate, k=30)
        model.fit(X, y, X_public=outside)
        assert 2.9 < model.ledger_.spent() <= 3.0
        assert model.score(*blobs(300, seed=2)) > 0.9

    def test_screening_is_priced_as_the_ledger_prices_it(self, data):
        """At so many checks RDP is the lower price: a ledger that adds up mu^2 would refuse."""
        X, y, _ = data
        settings = {"mechanism": "noisy-screening", "queries": 1000, "epsilon": 1.0}
        outside = blobs(1000, seed=1)[0]
        model = make(PrivateKNNClassifier, strategy="random", **settings)
        assert 0.99 < model.fit(X, y, X_public=outside).ledger_.spent() <= 1.0
        kept = make(PrivateKNNClassifier, radius=12.0, **settings).fit(X, y)
        kept.answer(outside)
        assert 0.99 < kept.ledger_.spent() <= 1.0

    def test_without_noise_the_votes_are_those_of_plain_neighbours(self, data):
        X, y, outside = data
        model = make(
            PrivateKNNClassifier, noise=Spy(), queries=None, strategy=list(range(20)), k=31
        )
        model.fit(X, y, X_public=outside)
        plain = KNeighborsClassifier(31).fit(X, y).predict_proba(outside[:20]) * 31
        # Features are compared on a grid of 1/2048 of the radius, so a tie may fall otherwise.
        assert np.abs(model.releases_[0].values - plain).max() <= 1

    def test_answers_until_the_budget_ends(self, data):
        X, y, _ = data
        model = make(PrivateKNNClassifier, radius=12.0).fit(X, y)
        X_new, y_new = blobs(12, seed=3)
        labels = np.ma.concatenate([model.answer(X_new[:5]), model.answer(X_new[5:])])
        assert (labels == y_new).mean() > 0.7
        assert model.ledger_.spent() <= 3.0
        assert len(model.ledger_) == 2
        head = model.ledger_.head
        with pytest.raises(BudgetExceeded):
            model.answer(X_new)
        assert model.ledger_.head == head

    def test_unanswered_questions_are_masked(self, data):
        X, y, _ = data
        never = NoisyScreening(threshold=1e9, sigma_screen=30.0, sigma=30.0, k=60)
        model = make(PrivateKNNClassifier, mechanism=never, radius=12.0).fit(X, y)
        assert model.answer(X[:3]).mask.all()

    def test_two_rounds_share_one_ledger_and_look_through_the_student(self, data):
        X, y, outside = data
        model = make(PrivateKNNClassifier, rounds=2, queries=8).fit(X, y, X_public=outside)
        entries = model.ledger_.entries()
        assert [entry.plan["queries"] for entry in entries] == [8, 8]
        assert [entry.plan["parameters"]["k"] for entry in entries] == [60, 60]
        assert model.queries_.size == 16
        assert 2.9 < model.ledger_.spent() <= 3.0
        assert model.score(*blobs(300, seed=2)) > 0.9

    def test_rounds_of_a_sampled_mechanism_are_priced_as_one_list(self, data):
        X, y, outside = data
        model = make(
            PrivateKNNClassifier, rounds=2, queries=8, sampling_rate=0.5, mechanism="sampled-max"
        ).fit(X, y, X_public=outside)
        assert model.ledger_.accountant == "fixed"
        assert 2.9 < model.ledger_.spent() <= 3.0
        assert len(model.ledger_) == 2

    def test_classes_from_data_are_confessed(self, data):
        X, y, outside = data
        model = make(PrivateKNNClassifier, classes="from_data").fit(X, y, X_public=outside)
        assert "read from the private data" in str(model.statement_)


class TestRegressor:
    @pytest.mark.parametrize("statistic", ["mean", "median"])
    @pytest.mark.parametrize("rate", [1.0, 0.5])
    def test_student_learns_from_releases(self, statistic, rate):
        X, y = slope(3000)
        model = make(
            PrivateKNNRegressor,
            statistic=statistic,
            sampling_rate=rate,
            k=round(400 * rate),
            queries=20,
            grid_points=57,
            epsilon=8.0,
        ).fit(X, y, X_public=slope(200, seed=1)[0])
        assert model.score(*slope(400, seed=2)) > 0.75
        assert 7.9 < model.ledger_.spent() <= 8.0

    def test_without_noise_the_value_is_the_clipped_mean(self):
        X, y = slope(800)
        outside, _ = slope(60, seed=1)
        model = make(
            PrivateKNNRegressor,
            noise=Spy(),
            low=0.0,
            high=6.0,
            k=800,
            queries=None,
            strategy=[0, 1, 2],
        ).fit(X, y, X_public=outside)
        expected = np.clip(y, 0.0, 6.0).mean()
        assert model.releases_[0].values == pytest.approx(expected, abs=1e-5)

    def test_missing_neighbours_count_as_the_middle(self):
        X, y = slope(100)
        model = make(PrivateKNNRegressor, noise=Spy(), low=0.0, high=6.0, k=400, radius=12.0)
        expected = 3.0 + (np.clip(y, 0.0, 6.0) - 3.0).sum() / 400
        assert model.fit(X, y).answer(X[:2]) == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize("statistic", ["mean", "median"])
    def test_answers_and_predictions_stay_within_the_bounds(self, statistic):
        X, y = slope(500)
        settings = {"statistic": statistic, "epsilon": 0.5, "low": 0.0, "high": 1.0}
        answers = make(PrivateKNNRegressor, radius=12.0, **settings).fit(X, y).answer(X[:12])
        model = make(PrivateKNNRegressor, **settings).fit(X, y, X_public=blobs(50, seed=1)[0])
        for values in (answers, model.predict(X * 100)):
            assert values.min() >= 0.0
            assert values.max() <= 1.0

    def test_noise_is_the_same_in_any_unit(self):
        X, y = slope(300)
        small, large = (
            make(PrivateKNNRegressor, low=-8.0 * u, high=20.0 * u, radius=12.0).fit(X, y * u)
            for u in (1e-9, 1e9)
        )
        assert small._mechanism.sigma / 1e-9 == pytest.approx(large._mechanism.sigma / 1e9)


class TestMultiLabel:
    def test_student_learns_from_releases(self):
        X, Y = tagged(2000)
        model = make(PrivateKNNMultiLabelClassifier, queries=40, epsilon=4.0)
        model.fit(X, Y, X_public=tagged(200, seed=1)[0])
        X_new, Y_new = tagged(400, seed=2)
        predicted = model.predict(X_new)
        assert predicted.shape == Y_new.shape
        assert set(np.unique(predicted)) <= {0, 1}
        assert (predicted != Y_new).mean() < 0.15
        assert 3.9 < model.ledger_.spent() <= 4.0

    @pytest.mark.parametrize("clip", ["l1", "l2"])
    def test_without_noise_the_counts_are_the_clipped_ones(self, clip):
        X, Y = tagged(300)
        spy = Spy()
        model = make(PrivateKNNMultiLabelClassifier, noise=spy, tau=1.0, clip=clip, k=300)
        model.fit(X, Y, X_public=tagged(60, seed=1)[0])
        ones = Y.sum(axis=1, keepdims=True).clip(1)
        kept = Y / (ones if clip == "l1" else np.sqrt(ones))
        assert model.releases_[0].values == pytest.approx(
            np.tile(kept.sum(axis=0), (12, 1)), abs=1e-3
        )
        assert spy.sigmas == [model.releases_[0].mechanism.sigma]

    def test_one_threshold_for_each_label(self):
        X, Y = tagged(900)
        model = make(
            PrivateKNNMultiLabelClassifier, threshold=[1e-6, 0.5, 1.0], noise=Spy(), radius=12.0
        ).fit(X, Y)
        between = np.array([[3.5, 3.5]] * 4)  # neighbours on both sides of every line
        answers = model.answer(between)
        assert answers[:, 0].all()  # a single neighbour suffices
        assert not answers[:, 2].any()  # all 60 would have to bear it

    def test_matched_thresholds_predict_as_often_as_the_shares_add_up_to(self):
        X, Y = tagged(900)
        public = tagged(200, seed=1)[0]
        model = make(PrivateKNNMultiLabelClassifier, threshold="matched", k=400, epsilon=8.0)
        model.fit(X, Y, X_public=public)
        wanted = model.predict_shares(public).clip(0, 1).sum(axis=0)
        assert np.abs(model.predict(public).sum(axis=0) - wanted).max() <= 1
        model = make(PrivateKNNMultiLabelClassifier, threshold="matched", radius=12.0)
        with pytest.raises(InvalidArgument, match="matched"):
            model.fit(X, Y)
        assert not hasattr(model, "ledger_")

    def test_one_label_and_names(self):
        X, Y = tagged(500)
        model = make(PrivateKNNMultiLabelClassifier, labels=1).fit(
            X, Y[:, :1], X_public=blobs(60, seed=1)[0]
        )
        assert model.labels_.tolist() == [0]
        assert model.predict(X[:5]).shape == (5, 1)


class TestAll:
    @EVERY
    def test_answer_and_predict_exclude_each_other(self, kind):
        X, y = PROBLEMS[kind](300)
        model = make(kind, radius=12.0)
        with pytest.raises(NotFittedError):
            model.answer(X[:2])
        with pytest.raises(NotFittedError):
            model.predict(X[:2])
        model.fit(X, y)
        with pytest.raises(InvalidArgument, match="answer"):
            model.predict(X[:2])
        model.fit(X, y, X_public=blobs(60, seed=1)[0])
        with pytest.raises(InvalidArgument, match="predict"):
            model.answer(X[:2])

    @EVERY
    def test_a_saved_student_predicts_the_same(self, kind, tmp_path):
        X, y = PROBLEMS[kind](300)
        model = make(kind).fit(X, y, X_public=blobs(60, seed=1)[0])
        model.save(tmp_path / "student.tacit")
        loaded, X_new = load_student(tmp_path / "student.tacit"), blobs(50, seed=3)[0]
        np.testing.assert_array_equal(loaded.predict(X_new), model.student_.predict(X_new))

    @EVERY
    def test_features_are_used_on_both_sides(self, kind):
        X, y = PROBLEMS[kind](300)
        outside = blobs(60, seed=1)[0]
        model = make(kind, features=StandardScaler()).fit(
            X * [1, 1e6], y, X_public=outside * [1, 1e6]
        )
        plain = make(kind, features=StandardScaler()).fit(X, y, X_public=outside)
        np.testing.assert_allclose(
            np.asarray(model.releases_[0]), np.asarray(plain.releases_[0]), atol=2
        )
        assert model.predict(X[:3]).shape == y[:3].shape

    @EVERY
    def test_queries_are_reproducible_and_noise_is_not_seeded_by_random_state(self, kind):
        X, y = PROBLEMS[kind](300)
        outside = blobs(60, seed=1)[0]
        first, second = (make(kind, noise=None).fit(X, y, X_public=outside) for _ in "ab")
        assert np.array_equal(first.queries_, second.queries_)
        assert not np.array_equal(np.asarray(first.releases_[0]), np.asarray(second.releases_[0]))
        assert first.statement_.noise == "exact"

    @EVERY
    def test_bad_parameters_are_refused_before_a_ledger_is_made(self, kind, tmp_path):
        X, y = PROBLEMS[kind](300)
        outside = blobs(60, seed=1)[0]
        bad = [
            ({"k": 0}, "k="),
            ({"k": 2.5}, "k="),
            ({"sampling_rate": 0.0}, "sampling_rate"),
            ({"sampling_rate": 1.5}, "sampling_rate"),
            ({"queries": 0}, "queries"),
            ({"queries": 61}, "at most the number of public inputs"),
            ({"strategy": "best"}, "strategy"),
            ({"strategy": [0, 60]}, "strategy"),
            ({"strategy": [3, 3]}, "strategy"),
            ({"epsilon": 0.0}, "epsilon"),
            ({"epsilon": 1e-9, "delta": 1e-12}, "within reach"),
            ({"delta": 0.01}, "delta"),
            ({"votes_per_unit": 0}, "votes_per_unit"),
            ({"radius": -1.0}, "radius"),
            ({"student": LogisticRegression()}, "SupervisedStudent"),
            ({"student": LinearRegression()}, "ValueStudent"),
        ]
        for changes, complaint in bad:
            model = make(kind, ledger=tmp_path / "never.ledger", **changes)
            with pytest.raises(InvalidArgument, match=complaint):
                model.fit(X, y, X_public=outside)
        assert not (tmp_path / "never.ledger").exists()

    @EVERY
    def test_bad_inputs_are_refused(self, kind):
        X, y = PROBLEMS[kind](300)
        outside = blobs(60, seed=1)[0]
        with pytest.raises(InvalidArgument, match="radius"):
            make(kind).fit(X, y)
        with pytest.raises(InvalidArgument, match="2 features"):
            make(kind).fit(X, y, X_public=outside[:, :1])
        with pytest.raises(InvalidArgument, match="NaN"):
            make(kind).fit(X, y, X_public=np.full((10, 2), np.nan))
        with pytest.raises(ValueError, match="NaN"):
            make(kind).fit(np.full_like(X, np.nan), y, X_public=outside)
        with pytest.raises(ValueError, match="NaN"):
            make(kind).fit(X, np.where(y == y[0], np.nan, y), X_public=outside)
        with pytest.raises(InvalidArgument, match="groups"):
            make(kind).fit(X, y, X_public=outside, groups=[1, 2])
        with pytest.raises(InvalidArgument, match="votes_per_unit"):
            make(kind, votes_per_unit=61).fit(X, y, X_public=outside, groups=np.arange(300))


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        (PrivateKNNClassifier, {"classes": None}, "classes="),
        (PrivateKNNClassifier, {"classes": (0, 1)}, "2 declared classes"),
        (PrivateKNNClassifier, {"mechanism": "magic"}, "mechanism"),
        (PrivateKNNClassifier, {"mechanism": NoisyScreening(1, 2, 3, k=5)}, "k=60"),
        (PrivateKNNClassifier, {"rounds": 0}, "rounds"),
        (PrivateKNNClassifier, {"rounds": 2, "strategy": [1, 2]}, "rounds"),
        (PrivateKNNRegressor, {"low": None}, "low="),
        (PrivateKNNRegressor, {"high": None}, "high="),
        (PrivateKNNRegressor, {"low": 20.0}, "below high"),
        (PrivateKNNRegressor, {"high": np.inf}, "high"),
        (PrivateKNNRegressor, {"statistic": "mode"}, "statistic"),
        (PrivateKNNRegressor, {"statistic": "median", "grid_points": 1}, "grid_points"),
        (PrivateKNNMultiLabelClassifier, {"labels": None}, "labels="),
        (PrivateKNNMultiLabelClassifier, {"labels": 4}, "rows, 4"),
        (PrivateKNNMultiLabelClassifier, {"labels": ["a", "a", "b"]}, "different"),
        (PrivateKNNMultiLabelClassifier, {"threshold": 0.0}, "threshold"),
        (PrivateKNNMultiLabelClassifier, {"threshold": [0.5, 0.5]}, "threshold"),
        (PrivateKNNMultiLabelClassifier, {"threshold": 1.5}, "threshold"),
        (PrivateKNNMultiLabelClassifier, {"tau": 0.0}, "tau"),
        (PrivateKNNMultiLabelClassifier, {"clip": "l3"}, "clip"),
    ],
)
def test_own_parameters_are_checked(kind, changes, complaint, tmp_path):
    X, y = PROBLEMS[kind](300)
    model = make(kind, ledger=tmp_path / "never.ledger", **changes)
    with pytest.raises(InvalidArgument, match=complaint):
        model.fit(X, y, X_public=blobs(60, seed=1)[0])
    assert not (tmp_path / "never.ledger").exists()


def test_labels_other_than_zero_and_one_are_refused():
    X, Y = tagged(100)
    for strange in (Y * 2, Y - 1, Y * 0.5):
        with pytest.raises(InvalidArgument, match="0 or 1"):
            make(PrivateKNNMultiLabelClassifier).fit(X, strange, X_public=blobs(60, seed=1)[0])


def test_a_student_without_a_view_cannot_carry_a_second_round():
    class Blind:
        def get_params(self, deep=True):
            return {}

        def set_params(self, **named):
            return self

    X, y = blobs(100)
    model = make(PrivateKNNClassifier, rounds=2, student=Blind())
    with pytest.raises(InvalidArgument, match="represent"):
        model.fit(X, y, X_public=blobs(60, seed=1)[0])


def test_later_changes_of_parameters_do_not_touch_what_was_fitted():
    X, y = blobs(300)
    model = make(PrivateKNNClassifier, radius=12.0).fit(X, y)
    model.set_params(k=1, sampling_rate=0.5, epsilon=99.0)
    model.answer(X[:2])
    assert model.ledger_.entries()[0].plan["parameters"]["k"] == 60


def test_a_clone_is_unfitted_and_shares_only_the_ledger(tmp_path):
    X, y = blobs(300)
    model = make(PrivateKNNClassifier, radius=12.0, ledger=tmp_path / "a.ledger").fit(X, y)
    again = clone(model)
    assert not hasattr(again, "_index")
    assert not hasattr(again, "ledger_")
    assert isinstance(model.ledger_, Ledger)


def test_the_default_student_combines_three():
    assert isinstance(make(PrivateKNNClassifier)._new_student(), CombinedStudent)


class TestAnswersAtTheSameTime:
    """Each is paid for once, by one thread at a time; giving up never loses a charge."""

    def watched(self, monkeypatch, queries):
        """Return a model that waits in each answer until `go` is set, and tells that it does."""
        X, y = PROBLEMS[PrivateKNNClassifier](300)
        model = make(PrivateKNNClassifier, radius=12.0, queries=queries).fit(X, y)
        honest, together = RecordIndex.around, []
        self.inside, self.go, self.most = threading.Event(), threading.Event(), 0

        def around(index, inputs):
            together.append(inputs)
            self.most = max(self.most, len(together))
            self.inside.set()
            assert self.go.wait(60)
            together.pop()
            return honest(index, inputs)

        monkeypatch.setattr(RecordIndex, "around", around)
        return model, X

    def test_they_take_turns_until_the_ledger_refuses(self, monkeypatch):
        model, X = self.watched(monkeypatch, queries=6)
        self.go.set()

        async def ask():
            asked = (model.answer_async(X[place : place + 1]) for place in range(6))
            threads = (asyncio.to_thread(model.answer, X[place : place + 1]) for place in (6, 7))
            return await asyncio.gather(*asked, *threads, return_exceptions=True)

        found = asyncio.run(ask())
        refused = [one for one in found if isinstance(one, BudgetExceeded)]
        answered = [one for one in found if isinstance(one, np.ndarray)]
        assert (len(refused), len(answered), len(model.ledger_), self.most) == (2, 6, 6, 1)
        assert model.ledger_.spent() <= model.epsilon
        assert all(one.shape == (1,) for one in answered)

    def test_one_that_is_given_up_in_the_queue_costs_nothing(self, monkeypatch):
        model, X = self.watched(monkeypatch, queries=6)

        async def ask():
            begun = asyncio.create_task(model.answer_async(X[:1]))
            await asyncio.to_thread(self.inside.wait, 60)
            waiting = asyncio.create_task(model.answer_async(X[1:2]))
            await asyncio.sleep(0)
            for task in (begun, waiting):
                task.cancel()
            given_up = await asyncio.gather(begun, waiting, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in given_up)
            self.go.set()
            return await model.answer_async(X[2:3])

        assert asyncio.run(ask()).shape == (1,)
        assert len(model.ledger_) == 2  # the one that had begun, and the last

    def test_a_question_that_waits_while_others_are_fitted_costs_nobody(self):
        X, y = PROBLEMS[PrivateKNNClassifier](300)
        model = make(PrivateKNNClassifier, radius=12.0, queries=5).fit(X, y)
        before = model.ledger_

        class FittedMeanwhile(contextlib.nullcontext):
            def __enter__(self):
                model._turns.lock = threading.Lock()
                model.fit(X + 1.0, y)

        model._turns.lock = FittedMeanwhile()
        with pytest.raises(InvalidArgument, match="Nothing was spent"):
            model.answer(X[:1])
        assert model.ledger_ is not before
        assert len(before) == len(model.ledger_) == 0
        assert model.answer(X[:1]).shape == (1,)

    def test_a_student_alone_answers_nothing(self):
        X, y = PROBLEMS[PrivateKNNClassifier](300)
        model = make(PrivateKNNClassifier, queries=5).fit(X, y, X_public=X[:50] + 0.1)
        with pytest.raises(InvalidArgument, match="without X_public"):
            asyncio.run(model.answer_async(X[:1]))
