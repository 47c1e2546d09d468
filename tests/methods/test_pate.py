"""`PATEClassifier`: scikit-learn's contract, the ledger, and what must never be inside a model."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from canary_traces import CANARY, canary_people, left_of, traces
from contract_shared import PublicSupplied, contract_checks
from flat_settings import built
from knn_shared import blobs
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from tacit import Budget, GNMax, InsecureNoise, Ledger, PATEClassifier
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.students import CombinedStudent, SupervisedStudent, load_student, saved_extra, signal_of
from tacit.teachers import KernelRidgeTeachers


def make(**changes: object) -> PATEClassifier:
    settings: dict[str, object] = {
        "teacher": LogisticRegression(),
        "n_teachers": 40,
        "queries": 10,
        "epsilon": 2.0,
        "classes": (0, 1, 2),
        "random_state": 0,
        "noise": InsecureNoise(0),
    }
    return built(PATEClassifier, **{**settings, **changes})


@pytest.fixture(scope="module")
def data():
    X, y = blobs(800)
    X_public, _ = blobs(200, seed=1)
    return X, y, X_public


class TestLearning:
    def test_student_learns_from_releases(self, data):
        X, y, X_public = data
        model = make().fit(X, y, X_public=X_public)
        X_new, y_new = blobs(500, seed=2)
        assert model.score(X_new, y_new) > 0.95
        assert model.ledger_.spent() <= 2.0
        assert model.predict_proba(X_new).sum(axis=1) == pytest.approx(1.0)

    @pytest.mark.parametrize("mechanism", ["gnmax", "confident-gnmax", "noisy-votes"])
    def test_named_mechanisms_spend_at_most_epsilon(self, data, mechanism):
        X, y, X_public = data
        model = make(mechanism=mechanism, epsilon=1.5).fit(X, y, X_public=X_public)
        assert 1.0 < model.ledger_.spent() <= 1.5

    def test_two_rounds_share_the_budget(self, data):
        X, y, X_public = data
        model = make(rounds=2).fit(X, y, X_public=X_public)
        assert [entry.plan["mechanism"] for entry in model.ledger_.entries()] == [
            "noisy-votes",
            "interactive-gnmax",
        ]
        assert model.ledger_.spent() <= 2.0
        assert len(set(model.queries_.tolist())) == 20

    def test_what_was_learned_is_told_by_the_first_round_alone(self, data):
        """A student's own labels, in the second, know of the votes that are to be foretold."""
        X, y, X_public = data
        model = make(rounds=2).fit(X, y, X_public=X_public)
        alone = CombinedStudent().fit(X_public, model.queries_[:10], model.posteriors_[0])
        votes = np.asarray(model.releases_[0].values) / model.n_teachers
        assert model.signal_ == signal_of(votes, alone.foretold_)

    def test_own_mechanism_keeps_its_noise(self, data):
        X, y, X_public = data
        model = make(mechanism=GNMax(sigma=30)).fit(X, y, X_public=X_public)
        assert model.ledger_.entries()[0].plan["parameters"] == {"sigma": 30.0}

    def test_training_is_reproducible_and_noise_is_not_seeded_by_random_state(self, data):
        X, y, X_public = data
        first = make(noise=None).fit(X, y, X_public=X_public)
        second = make(noise=None).fit(X, y, X_public=X_public)
        assert np.array_equal(first.queries_, second.queries_)
        same = np.array_equal(np.asarray(first.releases_[0]), np.asarray(second.releases_[0]))
        assert not same  # 30 rounded Gaussians of scale 13: equal with probability below 1e-40

    def test_a_person_is_never_split(self, data):
        X, y, X_public = data
        people = np.arange(len(X)) % 100
        model = make().fit(X, y, X_public=X_public, groups=people)
        assert model.ledger_.unit == "person"


class TestRefusals:
    """Everything is refused before a teacher is trained and before anything is spent."""

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"classes": None}, "classes="),
            ({"classes": (0, 1)}, "2 declared classes"),
            ({"n_teachers": 5000}, "n_teachers"),
            ({"epsilon": 0.0}, "epsilon"),
            ({"delta": 0.01}, "delta"),
            ({"mechanism": "magic"}, "mechanism"),
            ({"queries": 0}, "queries"),
            ({"rounds": 3}, "rounds"),
        ],
    )
    def test_bad_parameters(self, data, changes, complaint):
        X, y, X_public = data
        with pytest.raises(InvalidArgument, match=complaint):
            make(**changes).fit(X, y, X_public=X_public)

    def test_bad_inputs(self, data):
        X, y, X_public = data
        with pytest.raises(InvalidArgument, match="X_public"):
            make().fit(X, y)
        with pytest.raises(InvalidArgument, match="2 features"):
            make().fit(X, y, X_public=X_public[:, :1])
        with pytest.raises(InvalidArgument, match="NaN"):
            make().fit(X, y, X_public=np.full((10, 2), np.nan))
        with pytest.raises(ValueError, match="NaN"):
            make().fit(np.full_like(X, np.nan), y, X_public=X_public)
        with pytest.raises(InvalidArgument, match="groups"):
            make().fit(X, y, X_public=X_public, groups=[1, 2])

    def test_ledger_refuses_before_training(self, data, tmp_path):
        X, y, X_public = data
        ledger = Ledger(tmp_path / "one.ledger", budget=Budget(2.0, 1e-5))
        model = make(ledger=ledger).fit(X, y, X_public=X_public)
        head = ledger.head

        class Untrainable(LogisticRegression):
            def fit(self, *arguments, **named):
                raise AssertionError("a teacher was trained although the budget was used up")

        again = clone(model).set_params(teacher=Untrainable())
        assert again.ledger is ledger  # a ledger survives clone as itself
        with pytest.raises(BudgetExceeded):
            again.fit(X, y, X_public=X_public)
        assert ledger.head == head

    def test_classes_from_data_are_confessed(self, data):
        X, y, X_public = data
        model = make(classes="from_data").fit(X, y, X_public=X_public)
        assert "read from the private data" in str(model.statement_)
        assert "read from the private data" not in str(
            make().fit(X, y, X_public=X_public).statement_
        )


@pytest.mark.arithmetic
class TestPublication:
    """With rows so far away that teachers converge under one arithmetic and not under another."""

    def trained(self, data, **changes) -> PATEClassifier:
        X, y, X_public = data
        X = X.copy()
        X[::50] = CANARY
        return make(**changes).fit(X, y, X_public=X_public, groups=canary_people(len(X)))

    def test_nothing_private_is_left(self, data, tmp_path, capfd):
        model = self.trained(data, ledger=tmp_path / "run.ledger")
        assert not traces(*left_of(model, tmp_path), *capfd.readouterr())

    def test_saved_student_predicts_the_same(self, data, tmp_path):
        model = self.trained(data)
        model.save(tmp_path / "student.tacit")
        X_new, _ = blobs(100, seed=3)
        loaded = load_student(tmp_path / "student.tacit")
        assert np.array_equal(loaded.predict_proba(X_new), model.predict_proba(X_new))
        assert np.array_equal(loaded.predict(X_new), model.predict(X_new))
        extra = saved_extra(tmp_path / "student.tacit")
        assert extra["classes"] == [0, 1, 2]
        assert extra["statement"]["epsilon"] == model.statement_.epsilon

    def test_report(self, data, tmp_path):
        model = self.trained(data)
        page = model.report(tmp_path / "report.html")
        assert Path(tmp_path / "report.html").read_text() == page
        assert model.ledger_.head in page


@pytest.mark.arithmetic
def test_teachers_that_do_not_converge_tell_nobody(data, capfd):
    """scikit-learn warns of it, and would on some processors and for some records alone."""
    X, y, X_public = data
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = make(teacher=LogisticRegression(max_iter=1)).fit(X, y, X_public=X_public)
    assert not told
    assert capfd.readouterr() == ("", "")
    assert len(model.ledger_) == 1


class CheckedPATE(PublicSupplied, PATEClassifier):
    pass


CHECKED = CheckedPATE(
    LogisticRegression(),
    SupervisedStudent(LogisticRegression()),
    n_teachers=3,
    queries=20,
    epsilon=1000.0,
    classes="from_data",
    noise=InsecureNoise(0),
    random_state=0,
)
MUST_FAIL = {
    "check_estimators_overwrite_params": "InsecureNoise is a stream: drawing from it changes it",
}


@pytest.mark.parametrize(("estimator", "check"), list(contract_checks(CHECKED, MUST_FAIL)))
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_kernel_ridge_family_runs_through(data):
    X, y, X_public = data
    model = make(teacher=KernelRidgeTeachers()).fit(X / 10, y, X_public=X_public / 10)
    X_new, y_new = blobs(300, seed=4)
    assert model.score(X_new / 10, y_new) > 0.9
