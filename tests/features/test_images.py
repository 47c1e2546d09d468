"""What both image transformers promise: checked input, nothing learned, each row for itself."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InvalidArgument, TacitError
from tacit.features import HOG, Deskew, digit_features
from tacit.features.images import BLOCK

SHAPE = (6, 7)
TRANSFORMERS = [Deskew(SHAPE), HOG(SHAPE, cells=3), digit_features(SHAPE)]
every_transformer = pytest.mark.parametrize(
    "transformer", TRANSFORMERS, ids=["deskew", "hog", "both"]
)


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(8).integers(0, 256, (20, *SHAPE)).astype(np.uint8)


@every_transformer
def test_flat_and_square_images_are_the_same(transformer, images):
    flat = transformer.transform(images.reshape(20, -1))
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(flat, transformer.transform(images))


@every_transformer
@pytest.mark.parametrize("factor", [1 / 255, 1.0, 1e30, 1e-30, 1e200])
def test_bytes_fractions_and_any_exposure_are_the_same(transformer, images, factor):
    expected = transformer.transform(images)
    scaled = transformer.transform(images.astype(np.float64) * factor)
    np.testing.assert_allclose(scaled, expected, atol=2e-3, rtol=0)


@every_transformer
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint16, np.float16, np.float32])
def test_every_real_dtype_is_accepted(transformer, images, dtype):
    pixels = images % 2
    expected = transformer.transform(pixels)
    np.testing.assert_array_equal(transformer.transform(pixels.astype(dtype)), expected)


@pytest.mark.arithmetic
@pytest.mark.parametrize("n", [1, 2, 3, 17, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_rows_bits_depend_on_that_row_alone(n):
    """Or a record that comes or goes would change the features of other teachers' records."""
    images = np.random.default_rng(n).random((BLOCK + 40, 8, 8), dtype=np.float32)
    images[::5] = 0
    transformer = digit_features((8, 8))
    together = transformer.transform(images)
    np.testing.assert_array_equal(transformer.transform(images[:n]), together[:n])
    shuffled = np.random.default_rng(1).permutation(len(images))[:n]
    np.testing.assert_array_equal(transformer.transform(images[shuffled]), together[shuffled])


def test_memory_beyond_the_result_is_that_of_a_block():
    images = np.random.default_rng(0).integers(0, 256, (4 * BLOCK, 28, 28)).astype(np.uint8)
    for transformer in (Deskew(), HOG()):
        tracemalloc.start()
        result = transformer.transform(images)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        plane = 28 * 28 * BLOCK * 4
        assert peak - result.nbytes < 30 * plane


@every_transformer
def test_memory_layout_does_not_matter(transformer, images):
    expected = transformer.transform(images)
    np.testing.assert_array_equal(transformer.transform(np.asfortranarray(images)), expected)
    np.testing.assert_array_equal(transformer.transform(images[::-1])[::-1], expected)
    np.testing.assert_array_equal(transformer.transform(images.tolist()), expected)


@every_transformer
def test_fit_learns_nothing(transformer, images):
    fresh = clone(transformer)
    expected = fresh.transform(images)
    fitted = clone(transformer).fit(images[:3] // 2)
    np.testing.assert_array_equal(fitted.transform(images), expected)
    np.testing.assert_array_equal(clone(transformer).fit_transform(images), expected)


@pytest.mark.parametrize("transformer", TRANSFORMERS[:2])
def test_fit_leaves_only_the_parameters_behind(transformer, images):
    fitted = clone(transformer).fit(images)
    assert set(vars(fitted)) == set(fitted.get_params())
    check_is_fitted(fitted)


@every_transformer
def test_the_input_is_not_written_to(transformer, images):
    before = images.astype(np.float32)
    given = before.copy()
    transformer.transform(given)
    np.testing.assert_array_equal(given, before)


@every_transformer
def test_no_images_give_no_rows(transformer):
    n_features = transformer.transform(np.zeros((1, *SHAPE))).shape[1]
    assert transformer.transform(np.empty((0, *SHAPE))).shape == (0, n_features)


@every_transformer
def test_a_blank_image_is_blank(transformer):
    assert not transformer.transform(np.zeros((2, *SHAPE))).any()


def test_names_are_unique_and_as_many_as_features(images):
    for transformer in TRANSFORMERS:
        names = transformer.get_feature_names_out()
        assert len(set(names)) == len(names) == transformer.transform(images).shape[1]


@every_transformer
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((3, 41)),
        np.zeros((3, 7, 6)),
        np.zeros(42),
        np.zeros((1, 1, 6, 7)),
        [[1.0], [2.0, 3.0]],
        5.0,
        None,
        np.full((3, 42), "a"),
        np.full((3, 42), 1j),
        np.full((3, 42), None),
    ],
    ids=str,
)
def test_what_is_not_images_of_that_shape_is_refused(transformer, X):
    with pytest.raises(InvalidArgument, match=r"^Expected X "):
        transformer.transform(X)
    with pytest.raises(InvalidArgument, match=r"^Expected X "):
        clone(transformer).fit_transform(X)


@every_transformer
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(transformer, images, bad):
    spoilt = images.astype(np.float64)
    spoilt[11, 2, 3] = bad
    with pytest.raises(InvalidArgument, match="finite"):
        transformer.transform(spoilt)


@pytest.mark.parametrize(
    "shape", [None, 28, (28,), (28, 28, 1), (0, 28), (28, 1), (2.5, 4), "28", "ab"]
)
def test_shapes_that_are_none_are_refused(shape):
    for make in (Deskew, HOG, digit_features):
        with pytest.raises(InvalidArgument, match=r"^Expected image_shape="):
            make(shape).fit(np.zeros((1, 784)))


def test_transformers_work_in_a_pipeline_with_a_search_over_parameters(images):
    pipeline = make_pipeline(Deskew(SHAPE), HOG(SHAPE, cells=3))
    pipeline.set_params(hog__cells=2, deskew__resize=0)
    assert pipeline.fit(images).transform(images).shape == (20, 2 * 2 * 12)


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        st.sampled_from([np.float32, np.float64, np.int16]),
        st.tuples(st.integers(0, 3), st.just(2), st.integers(2, 4)),
    )
)
def test_any_numbers_give_finite_features_or_one_error(images):
    shape = images.shape[1:]
    for transformer in (Deskew(shape, canvas=(5, 5)), HOG(shape, cells=1, orientations=4)):
        try:
            features = transformer.transform(images)
        except TacitError:
            assert not np.isfinite(images).all()
        else:
            assert np.isfinite(features).all()
