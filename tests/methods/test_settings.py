"""Settings that belong together: one argument, as scikit-learn's tools reach it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import tacit
from tacit import (
    Budget,
    DPSGDClassifier,
    DPSGDSegmenter,
    InsecureNoise,
    Ledger,
    MACClassifier,
    MACSteps,
    NewLedger,
    PATEClassifier,
    PrivateKNNClassifier,
    Queries,
    Training,
)
from tacit.errors import InvalidArgument
from tacit.ledger.warnings import LARGE_DELTA

MOST_ARGUMENTS = 16
ESTIMATORS = [
    kind
    for kind in (getattr(tacit, name) for name in tacit.__all__)
    if inspect.isclass(kind) and hasattr(kind, "fit")
]
X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_no_constructor_has_too_many_arguments(kind):
    assert len(ESTIMATORS) >= 15
    assert len(inspect.signature(kind).parameters) <= MOST_ARGUMENTS


def test_parts_are_set_from_outside_even_where_the_argument_is_none():
    model = DPSGDClassifier(n_records=200).set_params(training__epochs=5)
    assert model.training.epochs == 5
    assert model.set_params(training__clip=0.5).get_params()["training__epochs"] == 5
    assert model._settings("training").get_params() == {
        **DPSGDClassifier()._settings("training").get_params(),
        "epochs": 5,
        "clip": 0.5,
    }
    assert PATEClassifier(queries=7).set_params(queries__rounds=2).queries.number == 7
    assert MACClassifier().set_params(steps__order=2).steps.order == 2
    assert PATEClassifier().set_params(queries=9, queries__rounds=2).queries.number == 9


def test_a_clone_has_settings_of_its_own():
    model = MACClassifier(training=Training(epochs=3), steps=MACSteps(z_steps=2))
    other = clone(model).set_params(training__epochs=4, steps__z_steps=1)
    assert (model.training.epochs, model.steps.z_steps) == (3, 2)
    assert (other.training.epochs, other.steps.z_steps) == (4, 1)
    assert repr(model) == "MACClassifier(steps=MACSteps(z_steps=2), training=Training(epochs=3))"


def test_a_grid_search_reaches_the_parts():
    model = DPSGDClassifier(
        hidden=(), classes=(0, 1), n_records=100, noise_multiplier=0.5, noise=InsecureNoise(0),
        epsilon=1e4, random_state=0, training=Training(batch_size=100, learning_rate=0.1),
    )  # fmt: skip
    found = GridSearchCV(model, {"training__epochs": [1, 60]}, cv=2, refit=False).fit(X, Y)
    assert sorted(found.cv_results_["param_training__epochs"].tolist()) == [1, 60]
    few, many = found.cv_results_["mean_test_score"]
    assert many > max(few, 0.8)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MACClassifier(training=Training(clipping="flat")), "clipping='flat' to be left out"),
        (DPSGDSegmenter(training=Training(engine="hooks")), "engine='hooks' to be left out"),
        (DPSGDClassifier(training={"epochs": 1}), "Training"),
        (DPSGDClassifier(training=Queries()), "Training"),
        (MACClassifier(steps=3), "MACSteps"),
    ],
)
def test_settings_of_another_kind_are_refused(model, words):
    with pytest.raises(InvalidArgument, match=words):
        [model._settings(name) for name in model._own]


def test_a_strategy_that_names_rows_tells_how_many():
    assert PATEClassifier(queries=Queries(strategy=[3, 4]))._settings("queries").number is None
    filled = PrivateKNNClassifier(queries=Queries(rounds=2))._settings("queries")
    assert (filled.number, filled.strategy, filled.rounds) == (100, "medoids", 2)


@pytest.mark.parametrize("queries", [0, 2.5, "all", True, Queries(0), Queries(5, rounds=0)])
def test_wrong_numbers_of_queries_are_refused(queries):
    with pytest.raises(InvalidArgument, match=r"queries|rounds"):
        PATEClassifier(queries=queries)._settings("queries")


def test_terms_of_a_new_ledger_reach_it(tmp_path):
    model = PrivateKNNClassifier(
        k=20, queries=5, classes=(0, 1), delta=1e-2, random_state=0,
        ledger=NewLedger(tmp_path / "a.ledger", dataset="clouds", allow_large_delta=True),
    )  # fmt: skip
    model.fit(X, Y, X_public=X[:50] + 9)
    assert Ledger(tmp_path / "a.ledger").dataset == "clouds"
    assert LARGE_DELTA in model.statement_.warnings
    with pytest.raises(InvalidArgument, match="allow_large_delta"):
        clone(model).set_params(ledger=tmp_path / "b.ledger").fit(X, Y, X_public=X[:50] + 9)


def test_a_ledger_says_itself_whether_delta_may_be_large(tmp_path):
    """With a number of units its own statement would not say that nobody compared."""
    budget = Budget(1.0, 1e-2)
    terms = {"budget": budget, "n_units": 10}
    model = PrivateKNNClassifier(k=20, queries=5, classes=(0, 1), random_state=0)
    with pytest.raises(InvalidArgument, match="allow_large_delta"):
        model.set_params(ledger=Ledger(tmp_path / "a", **terms)).fit(X, Y, X_public=X[:50] + 9)
    allowed = Ledger(tmp_path / "b", **terms, allow_large_delta=True)
    model.set_params(ledger=allowed).fit(X, Y, X_public=X[:50] + 9)
    assert LARGE_DELTA in model.statement_.warnings
