"""Features of private rows: each from its own row alone, bit for bit, or not at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from tacit.errors import InvalidArgument
from tacit.features import HOG, Categorical, Deskew, Numeric, PublicBins, digit_features
from tacit.features.rows import is_row_wise, transform_rows

IMAGES = np.random.default_rng(0).uniform(0, 16, size=(40, 64))
OWN = {
    "deskew": Deskew((8, 8)),
    "hog": HOG((8, 8), cells=2),
    "digits": digit_features((8, 8)),
    "bins": PublicBins(
        [Numeric(f"p{i}", [4.0, 8.0]) for i in range(63)] + [Categorical("q", ["a"])]
    ),
}


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", OWN)
def test_tacits_own_features_do_not_depend_on_the_rows_beside(name):
    """The reason why they may be computed together: removing rows changes no bit of the others."""
    features = OWN[name].fit(IMAGES[:1])
    assert is_row_wise(features)
    together = transform_rows(features, IMAGES, IMAGES)
    for rows in (slice(0, 1), slice(7, 8), slice(3, 20), slice(None, None, -1)):
        np.testing.assert_array_equal(
            transform_rows(features, IMAGES[rows], IMAGES), together[rows]
        )


@pytest.mark.parametrize(
    "features",
    [
        FunctionTransformer(lambda X: X - X.mean(axis=0)),
        FunctionTransformer(lambda X: X / np.abs(X).max()),
        FunctionTransformer(lambda X: X + len(X)),
    ],
    ids=["centres", "scales", "counts"],
)
def test_what_looks_at_the_batch_sees_a_batch_of_one(features):
    view = transform_rows(features, IMAGES, IMAGES)
    assert not np.array_equal(features.transform(IMAGES), view)  # together it would differ
    alone = np.concatenate([features.transform(IMAGES[i : i + 1]) for i in range(len(IMAGES))])
    np.testing.assert_array_equal(view, alone)
    np.testing.assert_array_equal(transform_rows(features, IMAGES[5:9], IMAGES), view[5:9])


@pytest.mark.arithmetic
def test_matrix_products_of_others_are_row_by_row():
    features = make_pipeline(StandardScaler(), PCA(5)).fit(IMAGES)
    assert not is_row_wise(features)
    view = transform_rows(features, IMAGES, IMAGES)
    np.testing.assert_allclose(view, features.transform(IMAGES), atol=1e-9)
    np.testing.assert_array_equal(transform_rows(features, IMAGES[13:14], IMAGES), view[13:14])


def test_a_subclass_or_a_mixed_pipeline_is_not_trusted():
    class Other(HOG):
        pass

    assert not is_row_wise(Other((8, 8)))
    assert not is_row_wise(make_pipeline(Deskew((8, 8)), StandardScaler()))
    assert is_row_wise(make_pipeline(Deskew((8, 8)), HOG((28, 28))))


def test_one_rows_kind_of_number_does_not_round_the_others():
    features = FunctionTransformer(lambda X: X.astype(int) if X[0, 0] == 1.0 else X)
    view = transform_rows(features, [[1.0], [0.75]], [[0.5]])
    assert view.tolist() == [[1.0], [0.75]]


class Remembers:
    """Adds the number of rows that it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    def transform(self, X):
        self.seen += len(X)
        return X + self.seen


def test_a_transformer_with_a_memory_is_refused():
    with pytest.raises(InvalidArgument, match="same numbers every time"):
        transform_rows(Remembers(), IMAGES, IMAGES)


def test_a_random_transformer_is_refused():
    generator = np.random.default_rng(0)
    noisy = FunctionTransformer(lambda X: X + generator.normal(size=X.shape))
    with pytest.raises(InvalidArgument, match="same numbers every time"):
        transform_rows(noisy, IMAGES, IMAGES)


@pytest.mark.parametrize(
    "features",
    [
        OneHotEncoder(),  # sparse
        FunctionTransformer(lambda X: X.astype(str)),
        FunctionTransformer(lambda X: X + 1j),
        FunctionTransformer(lambda X: X[0]),
        FunctionTransformer(lambda X: X[:, X[0] > 8]),
        FunctionTransformer(lambda X: np.repeat(X, 2, axis=0)),
    ],
    ids=["sparse", "text", "complex", "flat", "ragged", "doubled"],
)
def test_what_is_not_one_row_for_one_row_is_refused(features):
    features = features.fit(IMAGES)
    with pytest.raises(InvalidArgument, match="one dense row"):
        transform_rows(features, IMAGES, IMAGES)


def raising(X):
    raise ZeroDivisionError("c4n4ry")


def warning(X):
    warnings.warn("c4n4ry", stacklevel=1)
    return X * np.nan


FAILURES = {
    "raises": raising,
    "warns and is NaN": warning,
    "is shorter": lambda X: X[:, 1:],
    "is longer": lambda X: np.hstack([X, X]),
    "is two rows": lambda X: np.vstack([X, X]),
    "is no row": lambda X: X[:0],
    "is flat": lambda X: X[0],
    "is text": lambda X: X.astype(str),
    "is complex": lambda X: X + 1j,
    "is nothing": lambda X: None,
    "is objects": lambda X: np.full(X.shape, object()),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("places", [[0], [7], [39], [0, 1, 39], range(40)])
def test_a_private_row_that_fails_is_nan_and_nobody_is_told(name, places):
    fails, odd = FAILURES[name], IMAGES.copy()
    odd[places, 5] = -1.0
    features = FunctionTransformer(lambda X: fails(X) if X[0, 5] < 0 else 2 * X)
    view = transform_rows(features, odd, IMAGES)
    failed = np.isin(np.arange(40), places)
    assert np.isnan(view[failed]).all()
    np.testing.assert_array_equal(view[~failed], 2 * IMAGES[~failed])


def test_tacits_own_features_fail_for_the_failing_row_only():
    """A pipeline's second step refuses what its first makes of this row: the others stay."""
    features = make_pipeline(Deskew((8, 8)), HOG((8, 8), cells=2)).fit(IMAGES[:1])
    odd = np.vstack([IMAGES, np.full((1, 64), np.nan)])
    view = transform_rows(features, odd, IMAGES)
    np.testing.assert_array_equal(view[:-1], transform_rows(features, IMAGES, IMAGES))
    assert view.dtype == transform_rows(features, IMAGES, IMAGES).dtype
    assert np.isnan(view[-1]).all()


def test_there_may_be_no_private_row():
    for features in (FunctionTransformer(), OWN["hog"].fit(IMAGES[:1])):
        width = transform_rows(features, IMAGES, IMAGES).shape[1]
        assert transform_rows(features, IMAGES[:0], IMAGES).shape == (0, width)


def test_features_cannot_write_into_private_rows():
    def doubles(X):
        X *= 2
        return X

    rows = IMAGES.copy()
    np.testing.assert_array_equal(
        transform_rows(FunctionTransformer(doubles), rows, IMAGES), 2 * IMAGES
    )
    np.testing.assert_array_equal(rows, IMAGES)


def test_each_row_alone_is_one_step():
    steps = []
    transform_rows(FunctionTransformer(), IMAGES, IMAGES, step=lambda: steps.append(1))
    assert len(steps) == len(IMAGES)
