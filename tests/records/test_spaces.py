"""A private row without a place in the public space says nothing: no refusal, no warning tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flat_settings import built
from knn_shared import Quiet, blobs
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from tacit import (
    Budget,
    InsecureNoise,
    Ledger,
    MomentClassifier,
    MomentRegressor,
    NewLedger,
    PATEClassifier,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.errors import InvalidArgument
from tacit.features import PublicWhitening
from tacit.records.spaces import PublicSpace
from tacit.students import LabelSpreadingStudent

X, Y = (part[:90] for part in blobs(200))
OUTSIDE = np.abs(blobs(60, seed=1)[0]) + 0.1
X = np.abs(X) + 0.1
CLASSES, BOUNDS = {"classes": (0, 1, 2)}, {"low": 0.0, "high": 3.0}
NEAR = {"k": 9, "queries": 6}
KINDS: dict[type, dict[str, Any]] = {
    PATEClassifier: {**CLASSES, "teacher": LogisticRegression(), "n_teachers": 8, "queries": 6},
    PrivateKNNClassifier: {**CLASSES, **NEAR},
    PrivateKNNMultiLabelClassifier: {"labels": 3, **NEAR},
    PrivateKNNRegressor: {**BOUNDS, **NEAR},
    PrototypeClassifier: {**CLASSES, "n_prototypes": 9, "student": LabelSpreadingStudent()},
    MomentClassifier: CLASSES,
    ResidualRidgeClassifier: {**CLASSES, "n_landmarks": 9},
    MomentRegressor: BOUNDS,
    ResidualRidgeRegressor: {**BOUNDS, "n_landmarks": 9},
}
EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
# Not even a warning may tell; a forecast follows from public numbers alone.
pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::tacit.errors.WeakSignal"),
]

VIEWS = {
    "-inf": (np.log, 0.0),
    "NaN": (np.sqrt, -1.0),
    "inf": (np.exp, 1e5),
}


def released(kind, rows, y, ledger, view=None, groups=None, noise=None) -> list[np.ndarray]:
    labels = np.eye(3, dtype=int)[y] if kind is PrivateKNNMultiLabelClassifier else y
    model = built(
        kind,
        **KINDS[kind],
        features=None if view is None else FunctionTransformer(view),
        noise=noise or Quiet(),
        random_state=0,
        ledger=ledger if isinstance(ledger, Ledger) else NewLedger(ledger, allow_large_delta=True),
    )
    model.fit(rows, labels, X_public=OUTSIDE, groups=groups)
    releases = [model.table_] if hasattr(model, "table_") else model.releases_
    return [np.asarray(release) for release in releases]


@EVERY
@pytest.mark.parametrize("name", VIEWS)
def test_features_that_are_not_finite_say_nothing(kind, name, tmp_path):
    view, wrong = VIEWS[name]
    odd = np.vstack([X, [[wrong, 1.0], [1.0, wrong]]])
    without = released(kind, X, Y, tmp_path / "a", view)
    with_two = released(kind, odd, np.append(Y, [0, 2]), tmp_path / "b", view)
    for one, other in zip(without, with_two, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(Ledger(tmp_path / "a")) == len(Ledger(tmp_path / "b"))


@EVERY
def test_a_person_speaks_with_the_other_records(kind, tmp_path):
    people = [f"p{row // 3}" for row in range(90)]
    odd, labels = np.vstack([X, [[0.0, 1.0]]]), np.append(Y, 1)
    without = released(kind, X, Y, tmp_path / "a", np.log, people)
    with_one = released(kind, odd, labels, tmp_path / "b", np.log, [*people, "p7"])
    for one, other in zip(without, with_one, strict=True):
        np.testing.assert_array_equal(one, other)


@EVERY
def test_nobody_may_be_left(kind, tmp_path):
    for place, groups in enumerate((None, range(90))):
        rows, ledger = np.zeros_like(X), tmp_path / f"{place}"
        told = released(kind, rows, Y, ledger, np.log, groups, InsecureNoise(0))
        assert all(np.isfinite(each).all() for each in told)


@EVERY
@pytest.mark.parametrize("wild", [1.7e308, -1.7e308, 5e-324])
def test_a_huge_or_tiny_row_is_neither_refused_nor_warned_of(kind, wild, tmp_path):
    rows = X.copy()
    rows[7] = wild
    ledger = Ledger(tmp_path / "a", budget=Budget(2.0, 1e-5))
    assert len(released(kind, rows, Y, ledger)) == len(ledger)


def test_neighbours_that_wait_for_questions_may_be_nobody():
    model = built(
        PrivateKNNClassifier,
        **CLASSES,
        k=5,
        radius=3.0,
        features=FunctionTransformer(np.log).fit(X),
        noise=Quiet(),
    )
    assert len(model.fit(np.zeros_like(X), Y).answer(OUTSIDE[:4])) == 4


def test_rows_are_seen_a_few_at_a_time_and_none_is_mixed_up():
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    rows[1::7, 2] = np.inf
    space = PublicSpace(None, np.ones(3), 1.0, rows)
    seen, placed = space.seen(rows, lambda block: block * 2)
    np.testing.assert_array_equal(placed, np.isfinite(rows).all(axis=1))
    np.testing.assert_array_equal(seen, (rows[placed] - 1) * 2)


def test_features_that_were_fitted_stay_as_they_are_where_nothing_is_public():
    """A row of zeros teaches a whitening nothing, and would be refused."""
    public = np.random.default_rng(0).normal(size=(20, 3))
    fitted = PublicWhitening(2).fit(public)
    space = PublicSpace.given(fitted, 1.0, 3)
    assert np.array_equal(space.view(public), fitted.transform(public))
    with pytest.raises(InvalidArgument, match="two public rows"):
        PublicSpace.given(PublicWhitening(2), 1.0, 3)
