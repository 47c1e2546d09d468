"""What a statement must confess stays said as long as the ledger of that fit is spoken of."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from flat_settings import built
from knn_shared import blobs
from sklearn.linear_model import LogisticRegression

from tacit import (
    Budget,
    InsecureNoise,
    Ledger,
    MomentClassifier,
    PATEClassifier,
    PrivateKNNClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.errors import InvalidArgument
from tacit.records import READ_CLASSES
from tacit.students import LabelSpreadingStudent

X, Y = blobs(300)
OUTSIDE = blobs(80, seed=1)[0]
CLASSES = (0, 1, 2)
OWN = {
    PATEClassifier: {"teacher": LogisticRegression(), "n_teachers": 10, "queries": 5},
    PrivateKNNClassifier: {"k": 20, "queries": 5},
    PrototypeClassifier: {"n_prototypes": 8},
    MomentClassifier: {},
    ResidualRidgeClassifier: {"n_landmarks": 8},
}
EVERY = pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)


def make(kind, **changes):
    settings = {"epsilon": 0.5, "random_state": 0, "noise": InsecureNoise(0)}
    return built(kind, **{**settings, **OWN[kind], **changes})


def confesses(model) -> bool:
    return READ_CLASSES in model.statement_.warnings


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "one.ledger", budget=Budget(4.0, 1e-5))


@EVERY
class TestClassesFromData:
    def test_a_refit_on_the_same_ledger_keeps_the_warning(self, kind, ledger):
        model = make(kind, classes="from_data", ledger=ledger).fit(X, Y, X_public=OUTSIDE)
        assert model.statement_.warnings.count(READ_CLASSES) == 1
        model.set_params(classes=CLASSES).fit(X, Y, X_public=OUTSIDE)
        assert model.statement_.entries > 1
        assert confesses(model)
        assert confesses(pickle.loads(pickle.dumps(model)))
        model.set_params(classes="from_data").fit(X, Y, X_public=OUTSIDE)
        assert model.statement_.warnings.count(READ_CLASSES) == 1

    def test_another_ledger_has_nothing_to_confess(self, kind):
        model = make(kind, classes="from_data").fit(X, Y, X_public=OUTSIDE)
        model.set_params(classes=CLASSES).fit(X, Y, X_public=OUTSIDE)
        assert not confesses(model)

    @pytest.mark.parametrize("first", ["from_data", CLASSES], ids=["read", "declared"])
    def test_a_refused_refit_changes_nothing(self, kind, first):
        model = make(kind, classes=first).fit(X, Y, X_public=OUTSIDE)
        other = CLASSES if first == "from_data" else "from_data"
        with pytest.raises(InvalidArgument, match="delta"):
            model.set_params(classes=other, delta=0.5).fit(X, Y, X_public=OUTSIDE)
        assert confesses(model) == (first == "from_data")

    def test_a_fit_that_failed_after_it_was_charged_is_confessed(self, kind, ledger):
        class Clumsy(LabelSpreadingStudent):
            def fit(self, *arguments):
                raise RuntimeError("no")

        model = make(kind, classes=CLASSES, ledger=ledger).fit(X, Y, X_public=OUTSIDE)
        assert not confesses(model)
        model.set_params(classes="from_data", student=Clumsy())
        with pytest.raises(RuntimeError, match="no"):
            model.fit(X, Y, X_public=OUTSIDE)
        assert model.statement_.entries > 1
        assert confesses(model)


def test_neighbours_that_wait_for_questions_confess(tmp_path):
    ledger = Ledger(tmp_path / "one.ledger", budget=Budget(4.0, 1e-5))
    asked = {"radius": 9.0, "ledger": ledger}
    model = make(PrivateKNNClassifier, classes="from_data", **asked).fit(X, Y)
    assert confesses(model)
    model.set_params(classes=CLASSES).fit(X, Y)
    model.answer(np.zeros((1, 2)))
    assert confesses(model)


@EVERY
def test_a_ledger_that_is_given_says_which_delta(kind, tmp_path):
    """The noise is that of the ledger's own delta, less its reserve, not of delta=."""
    terms = {"budget": Budget(0.5, 1e-7), "reserved_delta": 4e-8}
    ledger = Ledger(tmp_path / "strict.ledger", **terms)
    assert ledger.usable_delta == 1e-7 - 4e-8
    model = make(kind, ledger=ledger, classes=CLASSES, delta=1e-3).fit(X, Y, X_public=OUTSIDE)
    assert 0.499 < model.statement_.epsilon <= 0.5
