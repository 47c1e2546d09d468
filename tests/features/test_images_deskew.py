"""Deskewing against scipy.ndimage, and against what straightening must do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_features import upright
from scipy import ndimage

from tacit.errors import InvalidArgument
from tacit.features import Deskew
from tacit.features.images import ink_of, planes_of


def blob(height: int, width: int, *, seed: int = 0) -> np.ndarray:
    """A smooth, off-centre, slanted figure."""
    generator = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(generator.random((height, width)), 1.2)
    return np.maximum(noise - np.median(noise), 0)


@pytest.mark.parametrize("shape", [(28, 28), (16, 16), (8, 8), (9, 14), (2, 2), (3, 20)])
@pytest.mark.parametrize("options", [{}, {"resize": 0}, {"resize": 1.0}, {"canvas": (28, 20)}])
def test_it_is_the_affine_map_of_the_definition(shape, options):
    images = np.stack([blob(*shape, seed=seed) for seed in range(12)])
    ours = Deskew(shape, **options).transform(images)
    for image, row in zip(images, ours, strict=True):
        expected = upright(image, **options)
        np.testing.assert_allclose(row.reshape(expected.shape), expected, atol=2e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(st.integers(2, 12), st.integers(2, 12)),
    st.floats(0, 1),
    st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.5)),
)
def test_it_is_the_definition_for_any_sparse_image(seed, shape, resize, spread):
    generator = np.random.default_rng(seed)
    image = generator.random(shape) * (generator.random(shape) < 0.4)
    ours = Deskew(shape, resize=resize, spread=spread).transform(image[None])
    expected = upright(image, resize=resize, spread=spread)
    np.testing.assert_allclose(ours.reshape(shape), expected, atol=1e-4)


def test_a_slanted_stroke_comes_out_upright():
    y, x = np.indices((28, 28))
    for slope in (-0.7, -0.3, 0.4, 0.8):
        stroke = np.exp(-((x - 13 - slope * (y - 13)) ** 2) / 3) * (abs(y - 13) < 9)
        straight = Deskew(resize=0).transform(stroke[None]).reshape(1, 28, 28)
        before, after = (
            ink_of(planes_of(image.reshape(1, -1), (28, 28))) for image in (stroke, straight)
        )
        assert abs(before.skew[0] - slope) < 0.05
        assert abs(after.skew[0]) < 0.02


@pytest.mark.parametrize("shift", [(-3, 2), (4, -4), (0, 5)])
def test_where_the_image_lies_does_not_matter(shift):
    image = np.zeros((28, 28))
    image[9:19, 9:19] = blob(10, 10, seed=5)
    moved = np.roll(image, shift, axis=(0, 1))
    at_home, elsewhere = Deskew().transform(np.stack([image, moved]))
    np.testing.assert_allclose(elsewhere, at_home, atol=1e-5)


def test_full_resizing_makes_sizes_alike():
    y, x = np.indices((40, 40)) - 19.5
    images = np.stack(
        [np.exp(-(y**2 / (2 * s**2)) - x**2 / (2 * t**2)) for s, t in [(5, 6), (7, 4)]]
    )
    resized = Deskew((40, 40), resize=1, spread=(0.12, 0.1)).transform(images)
    ink = ink_of(planes_of(resized, (40, 40)))
    np.testing.assert_allclose(np.sqrt(ink.variance_y), 0.12 * 40, rtol=0.02)
    np.testing.assert_allclose(np.sqrt(ink.variance_x), 0.1 * 40, rtol=0.02)


def test_moments_are_those_of_a_weighted_covariance():
    image = blob(11, 13, seed=3)
    ink = ink_of(planes_of(image.reshape(1, -1), (11, 13)))
    y, x = (axis.ravel() for axis in np.indices(image.shape))
    covariance = np.cov(np.stack([y, x]), aweights=image.ravel(), ddof=0)
    assert ink.centre_y[0] == pytest.approx(np.average(y, weights=image.ravel()) - 5, abs=1e-5)
    assert ink.centre_x[0] == pytest.approx(np.average(x, weights=image.ravel()) - 6, abs=1e-5)
    assert ink.variance_y[0] == pytest.approx(covariance[0, 0], rel=1e-5)
    slope = covariance[0, 1] / covariance[0, 0]
    assert ink.skew[0] == pytest.approx(slope, abs=1e-5)
    assert ink.variance_x[0] == pytest.approx(covariance[1, 1] - slope * covariance[0, 1], rel=1e-4)


def test_negative_pixels_are_no_ink():
    image = blob(9, 9, seed=2) - 0.02
    assert (image < 0).any()
    with_them, without = (
        ink_of(planes_of(each.reshape(1, -1), (9, 9))) for each in (image, np.maximum(image, 0))
    )
    for name in ("centre_y", "centre_x", "variance_y", "variance_x", "skew"):
        expected = getattr(without, name)
        np.testing.assert_allclose(getattr(with_them, name), expected, rtol=1e-4, atol=1e-6)


def test_a_single_pixel_is_moved_to_the_middle():
    image = np.zeros((1, 9, 9))
    image[0, 1, 7] = 3
    middle = Deskew((9, 9), resize=0).transform(image).reshape(9, 9)
    expected = np.zeros((9, 9))
    expected[4, 4] = 1
    np.testing.assert_allclose(middle, expected, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"resize": -0.1},
        {"resize": 1.1},
        {"resize": "half"},
        {"resize": float("nan")},
        {"canvas": (1, 5)},
        {"canvas": 5},
        {"spread": 0.2},
        {"spread": (0.2, 0)},
        {"spread": (0.2, -1)},
        {"spread": (0.2, 0.2, 0.2)},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused_at_fit_not_before(options):
    deskew = Deskew((4, 4), **options)
    (name,) = options
    with pytest.raises(InvalidArgument, match=f"^Expected {name}="):
        deskew.fit(np.zeros((1, 16)))
