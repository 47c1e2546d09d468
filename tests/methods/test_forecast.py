"""What public numbers say before a run: they bound what it reaches, and refuse before it pays."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from flat_settings import built
from hypothesis import given
from hypothesis import strategies as st
from knn_shared import blobs

from tacit import (
    Checks,
    InsecureNoise,
    MomentClassifier,
    PATEClassifier,
    PrivateKNNClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.errors import InvalidArgument, WeakSignal
from tacit.methods.forecast import chance_of_right
from tacit.teachers import KernelRidgeTeachers

X, Y = blobs(600)
OUTSIDE, _ = blobs(150, seed=1)
X_NEW, Y_NEW = blobs(300, seed=2)
PATE = {"teacher": KernelRidgeTeachers(), "queries": 20}
RUNS = {
    # The first of each kind is hopeless, the second is not.
    "10 teachers": (PATEClassifier, {**PATE, "n_teachers": 10, "epsilon": 0.1}),
    "60 teachers": (PATEClassifier, {**PATE, "n_teachers": 60, "epsilon": 4.0}),
    "few neighbours": (PrivateKNNClassifier, {"k": 8, "queries": 20, "epsilon": 0.1}),
    "neighbours": (PrivateKNNClassifier, {"k": 60, "queries": 20, "epsilon": 4.0}),
    "many prototypes": (PrototypeClassifier, {"n_prototypes": 100, "epsilon": 0.005}),
    "prototypes": (PrototypeClassifier, {"n_prototypes": 12, "epsilon": 2.0}),
    "faint moments": (MomentClassifier, {"epsilon": 0.01}),
    "moments": (MomentClassifier, {"epsilon": 2.0}),
    "faint ridge": (ResidualRidgeClassifier, {"n_landmarks": 20, "epsilon": 0.02}),
    "ridge": (ResidualRidgeClassifier, {"n_landmarks": 20, "epsilon": 2.0}),
}
REFUSED = list(RUNS)[::2]


def model_of(run: str, seed: int = 0, **changes):
    kind, settings = RUNS[run]
    own = {"classes": (0, 1, 2), "random_state": 0, "noise": InsecureNoise(seed)}
    if kind not in (PATEClassifier, PrivateKNNClassifier):
        own["n_records"] = 600
    return built(kind, **{**own, **settings, **changes})


@pytest.mark.parametrize("run", RUNS)
def test_classes_of_the_forecast_hold(run):
    """Hopeless runs reach hardly more than guessing, on clusters that nobody could miss."""
    reached = []
    for seed in range(4 if run in REFUSED else 1):
        model = model_of(run, seed, checks=Checks(allow_hopeless=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakSignal)
            model.fit(X, Y, X_public=OUTSIDE)
        reached.append((model.score(X_NEW, Y_NEW) - 1 / 3) / (2 / 3))
    assert model.forecast_.verdict == ("hopeless" if run in REFUSED else "fair")
    assert np.mean(reached) < 0.5 if run in REFUSED else np.mean(reached) > 0.8


@pytest.mark.parametrize("run", REFUSED)
def test_what_is_hopeless_is_refused_before_there_is_a_ledger(run, tmp_path):
    model = model_of(run, ledger=tmp_path / "run.ledger")
    with pytest.raises(InvalidArgument, match="allow_hopeless") as refusal:
        model.fit(X, Y, X_public=OUTSIDE)
    assert "would help" in str(refusal.value)
    assert not (tmp_path / "run.ledger").exists()


def test_what_is_allowed_warns():
    with pytest.warns(WeakSignal, match="Hopeless"):
        model_of("10 teachers", checks=Checks(allow_hopeless=True)).fit(X, Y, X_public=OUTSIDE)
    with pytest.warns(WeakSignal, match="Doubtful"):
        model_of("10 teachers", epsilon=1.0).fit(X, Y, X_public=OUTSIDE)


@pytest.mark.parametrize("run", ["many prototypes", "faint moments", "faint ridge"])
def test_without_a_declared_number_nothing_is_refused(run):
    model = model_of(run, n_records=None).fit(X, Y, X_public=OUTSIDE)
    assert model.forecast_.verdict == "none"
    assert "not declared" in str(model.forecast_)
    assert "not declared" in model.report()


def test_private_rows_do_not_change_the_forecast():
    """Half of the rows, other labels: the same words."""
    whole, half = (
        model_of("prototypes").fit(X[rows], Y[rows], X_public=OUTSIDE).forecast_
        for rows in (slice(None), slice(0, 300))
    )
    assert whole == half


def test_fewer_queries_do_not_help():
    few, many = (
        model_of("60 teachers", queries=queries, epsilon=0.3).fit(X, Y, X_public=OUTSIDE).forecast_
        for queries in (5, 100)
    )
    assert few.share == pytest.approx(many.share, abs=0.02)


@given(st.floats(0, 30), st.integers(2, 50))
def test_chances_lie_between_guessing_and_certainty(strength, n_classes):
    chance = chance_of_right(strength, n_classes)
    assert 1 / n_classes - 1e-6 <= chance <= 1 + 1e-9
    assert chance <= chance_of_right(strength + 0.1, n_classes) + 1e-9


def test_of_two_classes_the_chance_is_a_gaussian():
    expected = 0.5 * (1 + math.erf(1.3 / math.sqrt(2) / math.sqrt(2)))
    assert chance_of_right(1.3, 2) == pytest.approx(expected, abs=1e-9)
