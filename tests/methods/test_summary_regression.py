"""Numbers from records that speak once: learning, bounds, sensitivity end to end, secrecy."""

from __future__ import annotations

import numpy as np
import pytest
from canary_traces import CANARY, left_of, traces
from flat_settings import built
from knn_shared import Quiet
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer
from summary_shared import CROWD, check_features_are_ones_own, farthest, moves_of, watching

from tacit import (
    Budget,
    BudgetExceeded,
    InsecureNoise,
    Ledger,
    MomentRegressor,
    ResidualRidgeRegressor,
)
from tacit.errors import InvalidArgument
from tacit.features import Numeric, PublicBins
from tacit.mechanisms import NoisySum
from tacit.methods.residual_rounds import level_of, residuals_of
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import ValueStudent, load_student, saved_extra

KINDS = [MomentRegressor, ResidualRidgeRegressor]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=["moments", "ridge"])


def cloud(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (count, 2))
    return X, 10 * (2 * X[:, 0] - X[:, 1]) + random.normal(scale=1.0, size=count)


OUTSIDE = cloud(200, seed=1)[0]
X, Y = cloud(1500)
X_NEW, Y_NEW = cloud(300, seed=2)


def make(kind: type, **changes):
    own = {"n_landmarks": 20} if kind is ResidualRidgeRegressor else {}
    settings = {"low": -40.0, "high": 40.0, "epsilon": 2.0, "noise": InsecureNoise(0)}
    return built(kind, **{**settings, **own, "random_state": 0, **changes})


class TestLearning:
    @EVERY
    @pytest.mark.parametrize("rounds", [1, 2])
    def test_student_learns_within_the_budget(self, kind, rounds):
        model = make(kind, rounds=rounds).fit(X, Y, X_public=OUTSIDE)
        assert model.score(X_NEW, Y_NEW) > (0.95 if kind is MomentRegressor else 0.8)
        assert 1.99 < model.ledger_.spent() <= 2.0
        assert len(model.releases_) == rounds + 2  # counts before, a comparison behind

    def test_without_noise_moments_find_the_line(self):
        """The oracle is least squares on private rows; it shrinks as if there were noise."""
        model = make(MomentRegressor, noise=Quiet(), rounds=12).fit(X, Y, X_public=OUTSIDE)
        line = LinearRegression().fit(X, Y)
        np.testing.assert_allclose(model.predict(X_NEW), line.predict(X_NEW), atol=2.5)
        assert np.abs(line.predict(X_NEW)).max() > 20

    def test_ridge_bends_where_a_line_cannot(self):
        curved = 20 * np.cos(3 * X[:, 0])
        found = [make(k, low=-20, high=20).fit(X, curved, X_public=OUTSIDE) for k in KINDS]
        truth = 20 * np.cos(3 * X_NEW[:, 0])
        assert found[0].score(X_NEW, truth) < 0.2
        assert found[1].score(X_NEW, truth) > 0.8

    @EVERY
    def test_people_speak_as_one(self, kind):
        model = make(kind, epsilon=4.0).fit(X, Y, X_public=OUTSIDE, groups=np.arange(1500) // 3)
        assert model.ledger_.unit == "person"
        assert model.score(X_NEW, Y_NEW) > 0.8

    @EVERY
    def test_predictions_stay_within_the_bounds(self, kind):
        model = make(kind, low=-5.0, high=5.0).fit(X, Y, X_public=OUTSIDE)
        said = model.predict(X_NEW)
        assert said.min() >= -5
        assert said.max() <= 5

    @EVERY
    def test_features_and_another_student(self, kind):
        features = FunctionTransformer(lambda rows: np.asarray(rows) * 0.5 + 3.0)
        student = ValueStudent(LinearRegression())
        model = make(kind, student=student, features=features).fit(X, Y, X_public=OUTSIDE)
        assert isinstance(model.student_.estimator_, LinearRegression)
        assert model.score(X_NEW, Y_NEW) > 0.85

    def test_public_bins(self):
        edges = np.linspace(-0.8, 0.8, 9)
        bins = PublicBins([Numeric("a", edges), Numeric("b", edges)], unit_norm=True)
        model = make(MomentRegressor, features=bins).fit(X, Y, X_public=OUTSIDE)
        assert model.score(X_NEW, Y_NEW) > 0.8


def tables(model) -> list[np.ndarray]:
    return [np.asarray(release.values) for release in model.releases_]


class TestSensitivity:
    """End to end: one unit more or less moves each released sum by at most 1."""

    @pytest.fixture(autouse=True)
    def _release_second_moments(self, second_moments):
        pass

    @staticmethod
    def moves(kind, rows, y, gone, people=None, **own):
        model = make(kind, noise=Quiet(), allow_large_delta=True, **own)
        with watching(moves_of(gone)) as moved:
            model.fit(rows, y, X_public=OUTSIDE, groups=people)
        assert len(moved) == len(model.releases_) == 5
        return moved

    @EVERY
    @pytest.mark.parametrize("wild", [0.0, 40.0, -1e300])
    def test_one_record(self, kind, wild):
        rows, y = np.vstack([X[:50], [[1e15, -1e15]]]), np.append(Y[:50], wild)
        moved = self.moves(kind, rows, y, np.arange(51) == 50)
        assert 0.57 < moved[0] <= 1
        assert min(moved[:4]) > 0  # the fifth compares solutions, of which all may be wrong
        assert max(moved) <= 1
        tables_without = tables(make(kind, noise=Quiet()).fit(X[:50], Y[:50], X_public=OUTSIDE))
        tables_with = tables(make(kind, noise=Quiet()).fit(rows, y, X_public=OUTSIDE))
        assert np.linalg.norm(tables_with[0] - tables_without[0]) == pytest.approx(moved[0])

    @EVERY
    def test_one_person_with_half_of_the_records(self, kind):
        mine = np.arange(100) < 50
        people = np.where(mine, "all mine", [f"p{row}" for row in range(100)])
        moved = self.moves(kind, X[:100], Y[:100], mine, people)
        assert 0 < min(moved) <= max(moved) <= 1

    @EVERY
    @pytest.mark.parametrize("wild", [-40.0, 40.0])
    def test_one_person_with_thousands_of_records(self, kind, wild):
        """A share of each record, rounded to the grid, does not bound a person: the clip does."""
        rows = np.vstack([X[:100], np.full((CROWD, 2), farthest(OUTSIDE))])
        mine = np.arange(len(rows)) >= 100
        y = np.append(Y[:100], np.full(CROWD, wild))
        people = [f"p{row}" for row in range(100)] + ["all mine"] * CROWD
        # Every public input a landmark: kernel features are long there.
        own = {"n_landmarks": len(OUTSIDE)} if kind is ResidualRidgeRegressor else {}
        moved = self.moves(kind, rows, y, mine, people, **own)
        assert 0.99 < max(moved) <= 1

    def test_the_count_and_the_mean_of_a_person_are_bounded_too(self):
        many = 18_500  # a share of 1/(sqrt 3 many) is just above half a step
        private = PrivateRecords(np.zeros((many, 1)), np.ones(many), np.zeros(many, dtype=int))
        total = NoisySum(1.0, 1, 3)._total(level_of(private)).astype(float)
        assert 0.99 < np.linalg.norm(total) * 2.0**-28 <= 1

    @EVERY
    def test_a_wild_record_changes_nobody_elses_features(self, kind):
        """Nothing is centred or scaled by what private records are there."""

        def fit(rows, targets):
            make(kind, noise=Quiet()).fit(rows, targets, X_public=OUTSIDE)

        check_features_are_ones_own(fit, X, Y, label=9.0)

    @pytest.mark.parametrize("groups", [None, np.zeros(40, dtype=int)])
    def test_any_weights_and_targets_are_bounded(self, groups):
        """Whatever the public solution is, each unit's matrix has norm at most 1."""
        random = np.random.default_rng(3)
        steps = np.rint(random.normal(size=(40, 5)) * 2**14)
        targets = random.choice([-1.0, 1.0, 0.3], size=40)
        private = PrivateRecords(steps, targets, groups)
        weights = random.normal(scale=300.0, size=(5, 1))
        for said, size in (
            (level_of(private), NoisySum(1.0, 1, 3)),
            (
                residuals_of(private, lambda rows: targets[rows, None] - 0.9, weights, 1e-6),
                NoisySum(1.0, 5, 1),
            ),
        ):
            if groups is None:
                norms = [
                    np.sqrt(float((size._sum(said, np.array([row])).astype(float) ** 2).sum()))
                    for row in range(40)
                ]
                assert max(norms) <= 2**28
                assert max(norms) > 0.9 * 2**28
            else:
                assert np.sqrt(float((size._total(said).astype(float) ** 2).sum())) <= 2**28

    @EVERY
    def test_the_order_of_records_changes_no_bit(self, kind):
        order = np.random.default_rng(0).permutation(90)
        first, second = (
            make(kind, noise=Quiet()).fit(X[rows], Y[rows], X_public=OUTSIDE)
            for rows in (np.arange(90), order)
        )
        for one, other in zip(tables(first), tables(second), strict=True):
            np.testing.assert_array_equal(one, other)


class TestRefusals:
    @EVERY
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"low": None}, "low="),
            ({"high": None}, "high="),
            ({"low": 40.0}, "low"),
            ({"high": np.inf}, "high"),
            ({"rounds": 0}, "rounds"),
            ({"clip": 0.0}, "clip"),
            ({"epsilon": -1.0}, "epsilon"),
            ({"delta": 0.01}, "delta"),
            ({"student": LinearRegression()}, "student"),
        ],
    )
    def test_bad_parameters_cost_nothing(self, kind, changes, complaint, tmp_path):
        with pytest.raises(InvalidArgument, match=complaint):
            make(kind, ledger=tmp_path / "a.ledger", **changes).fit(X, Y, X_public=OUTSIDE)
        assert not (tmp_path / "a.ledger").exists()

    def test_public_inputs_that_say_nothing_cost_nothing(self, tmp_path):
        model = make(MomentRegressor, ledger=tmp_path / "a.ledger")
        with pytest.raises(InvalidArgument, match="differ"):
            model.fit(X, Y, X_public=np.ones((20, 2)))
        assert not (tmp_path / "a.ledger").exists()

    @EVERY
    def test_a_spent_ledger_refuses_before_private_rows_are_worked_on(self, kind, tmp_path):
        ledger = Ledger(tmp_path / "one.ledger", budget=Budget(2.0, 1e-5))
        model = make(kind, ledger=ledger).fit(X, Y, X_public=OUTSIDE)
        before = model.predict(X_NEW)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PublicSpace, "seen", None)
            with pytest.raises(BudgetExceeded):
                model.set_params(target_range=(-1.0, 40.0)).fit(X, Y, X_public=OUTSIDE)
        np.testing.assert_array_equal(model.predict(X_NEW), before)


class TestPublication:
    @EVERY
    def test_nothing_private_is_left(self, kind, tmp_path, capfd):
        rows, y = X.copy(), Y.copy()
        rows[::20], y[::20] = CANARY, CANARY
        model = make(kind, ledger=tmp_path / "run.ledger").fit(rows, y, X_public=OUTSIDE)
        assert not traces(*left_of(model, tmp_path), *capfd.readouterr())

    @EVERY
    def test_saved_student_predicts_the_same(self, kind, tmp_path):
        model = make(kind).fit(X, Y, X_public=OUTSIDE)
        model.save(tmp_path / "student.tacit")
        loaded = load_student(tmp_path / "student.tacit")
        np.testing.assert_array_equal(np.clip(loaded.predict(X_NEW), -40, 40), model.predict(X_NEW))
        assert saved_extra(tmp_path / "student.tacit")["bounds"] == [-40.0, 40.0]
