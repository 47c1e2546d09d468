"""Scattering: a row's bits are its own, the filters are what they should be, shifts hardly tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import convolve
from sklearn.base import clone

from tacit.errors import InvalidArgument
from tacit.features import Scattering, is_row_wise
from tacit.features.scattering import _bell, _filters, _morlet

DRAW = np.random.default_rng(0)
IMAGES = DRAW.uniform(size=(30, 12, 9))


@pytest.mark.arithmetic
def test_alone_in_company_and_in_another_order():
    made = Scattering((12, 9), angles=4)
    together = made.transform(IMAGES)
    order = DRAW.permutation(30)
    assert np.array_equal(made.transform(IMAGES[order]), together[order])
    assert np.array_equal(np.vstack([made.transform(one[None]) for one in IMAGES]), together)
    assert is_row_wise(made)


@settings(max_examples=20, deadline=None)
@given(st.integers(8, 20), st.integers(8, 20), st.integers(2, 5))
def test_any_shape_has_as_many_numbers_as_it_says(height, width, angles):
    made = clone(Scattering((height, width), angles=angles))
    rows = np.ones((2, height * width))
    assert made.transform(rows).shape == (2, len(made.get_feature_names_out()))


def test_waves_have_no_mean_and_bells_add_up_to_one():
    for scale in (0, 1):
        real, imaginary = _morlet(scale, 3, 8)
        assert abs(real.sum()) < 1e-12
        assert abs(imaginary.sum()) < 1e-9
    assert _bell(1.6, 0.0, 1.0, 0.0)[0].sum() == pytest.approx(1)
    grey = np.full((1, 12, 9), 0.5)
    groups = np.split(Scattering((12, 9), angles=4).transform(grey)[0], [6, 6 * 9])
    assert np.abs(np.concatenate(groups)).max() < 1e-3  # even everywhere: centred, nothing is left


def test_a_filter_is_a_convolution_with_a_mirrored_edge():
    image = IMAGES[0]
    filters = _filters(12, 9, 4)
    real, _ = _morlet(0, 1, 4)
    found = (filters.fine[108:216] @ image.ravel()) / 2.0**20
    expected = convolve(image, real[::-1, ::-1], mode="reflect")
    assert np.abs(found - expected.ravel()).max() < 1e-4
    bell = convolve(image, _bell(1.6, 0.0, 1.0, 0.0)[0], mode="reflect")[2::4, 2::4]
    assert np.abs(filters.under_bell @ image.ravel() / 2.0**20 - bell.ravel()).max() < 1e-4


def test_a_shift_by_a_pixel_tells_less_than_another_image():
    smooth = np.repeat(np.repeat(DRAW.uniform(size=(40, 4, 4)), 4, axis=1), 4, axis=2)
    made = Scattering((16, 16))
    rows = made.transform(smooth)
    shifted = made.transform(np.roll(smooth, 1, axis=2))
    others = np.roll(rows, 1, axis=0)
    assert (
        np.linalg.norm(rows - shifted, axis=1).mean() < np.linalg.norm(rows - others, axis=1).mean()
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"image_shape": (7, 9)}, "image_shape"),
        ({"image_shape": (64, 64)}, "image_shape"),
        ({"angles": 1}, "angles"),
        ({"angles": 17}, "angles"),
    ],
)
def test_refuses_by_name(wrong, named):
    with pytest.raises(InvalidArgument, match=named):
        Scattering(**wrong).fit(np.ones((2, 784)))
