"""Features of private rows: each from its own row alone, bit for bit, or not at all."""

from __future__ import annotations

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
    together = transform_rows(features, IMAGES)
    for rows in (slice(0, 1), slice(7, 8), slice(3, 20), slice(None, None, -1)):
        np.testing.assert_array_equal(transform_rows(features, IMAGES[rows]), together[rows])


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
    view = transform_rows(features, IMAGES)
    assert not np.array_equal(features.transform(IMAGES), view)  # together it would differ
    alone = np.concatenate([features.transform(IMAGES[i : i + 1]) for i in range(len(IMAGES))])
    np.testing.assert_array_equal(view, alone)
    np.testing.assert_array_equal(transform_rows(features, IMAGES[5:9]), view[5:9])


@pytest.mark.arithmetic
def test_matrix_products_of_others_are_row_by_row():
    features = make_pipeline(StandardScaler(), PCA(5)).fit(IMAGES)
    assert not is_row_wise(features)
    view = transform_rows(features, IMAGES)
    np.testing.assert_allclose(view, features.transform(IMAGES), atol=1e-9)
    np.testing.assert_array_equal(transform_rows(features, IMAGES[13:14]), view[13:14])


def test_a_subclass_or_a_mixed_pipeline_is_not_trusted():
    class Other(HOG):
        pass

    assert not is_row_wise(Other((8, 8)))
    assert not is_row_wise(make_pipeline(Deskew((8, 8)), StandardScaler()))
    assert is_row_wise(make_pipeline(Deskew((8, 8)), HOG((28, 28))))


def test_one_rows_kind_of_number_does_not_round_the_others():
    features = FunctionTransformer(lambda X: X.astype(int) if X[0, 0] == 1.0 else X)
    view = transform_rows(features, [[1.0], [0.75]])
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
        transform_rows(Remembers(), IMAGES)


def test_a_random_transformer_is_refused():
    generator = np.random.default_rng(0)
    noisy = FunctionTransformer(lambda X: X + generator.normal(size=X.shape))
    with pytest.raises(InvalidArgument, match="same numbers every time"):
        transform_rows(noisy, IMAGES)


@pytest.mark.parametrize(
    "features",
    [
        OneHotEncoder(),  # sparse
        FunctionTransformer(lambda X: X[0]),
        FunctionTransformer(lambda X: X[:, X[0] > 8]),
        FunctionTransformer(lambda X: np.repeat(X, 2, axis=0)),
    ],
    ids=["sparse", "flat", "ragged", "doubled"],
)
def test_what_is_not_one_row_for_one_row_is_refused(features):
    features = features.fit(IMAGES)
    with pytest.raises(InvalidArgument, match="one dense row"):
        transform_rows(features, IMAGES)


def test_each_row_alone_is_one_step():
    steps = []
    transform_rows(FunctionTransformer(), IMAGES, step=lambda: steps.append(1))
    assert len(steps) == len(IMAGES)
