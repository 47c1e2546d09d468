"""PCA of blurred masks with deformed copies: what it encodes, what it gains, what stays private."""

from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs
from scipy.ndimage import gaussian_filter

from tacit import GaussianMean, InsecureNoise
from tacit.errors import InvalidArgument
from tacit.masks import PCACodec
from tacit.masks.pca import held_out


@pytest.fixture(scope="module")
def codec(deep):
    return PCACodec.fit(deep, blur=0.7, copies=3)


def blurry(masks: np.ndarray, width: float) -> np.ndarray:
    return np.stack([gaussian_filter(mask, width, mode="constant") for mask in masks])


def test_it_encodes_the_blurred_answer(codec):
    fresh = blobs(6, (9, 10, 8), seed=5)
    expected = (blurry(fresh, 0.7) - codec.mean).reshape(6, -1) @ codec.components.T
    assert np.allclose(codec.encode(fresh), expected)
    assert np.allclose(codec.encode(fresh), codec.coordinates(blurry(fresh, 0.7)))


def test_components_are_orthonormal_and_decoding_is_not_blurred_again(codec):
    gram = codec.components @ codec.components.T
    assert np.allclose(gram, np.eye(codec.length), atol=1e-10)
    codes = np.random.default_rng(0).normal(size=(3, codec.length))
    assert np.allclose(codec.coordinates(codec.decode(codes)), codes)


def test_channels_are_not_mixed(deep):
    two = np.stack([deep, np.zeros_like(deep)], axis=1)
    codec = PCACodec.fit(two, blur=1.0, dimensions=3)
    assert np.allclose(codec.mean[0], blurry(deep, 1.0).mean(axis=0))
    assert not codec.mean[1].any()


def test_copies_leave_less_of_a_new_mask_out(deep):
    fresh = blurry(blobs(60, (9, 10, 8), seed=5), 0.7)

    def left_out(copies):
        codec = PCACodec.fit(deep, blur=0.7, copies=copies)
        return np.square(codec.decode(codec.coordinates(fresh)) - fresh).sum()

    assert left_out(3) < 0.7 * left_out(0)


def test_spectrum_is_that_of_new_masks(codec):
    """Held out with their copies: a copy left behind would make its mask look known."""
    fresh = blobs(300, (9, 10, 8), seed=6)
    moments = np.square(codec.encode(fresh)).mean(axis=0)
    assert codec.spectrum[:30].sum() == pytest.approx(moments[:30].sum(), rel=0.3)


def test_a_copy_is_in_the_fold_of_its_mask():
    masks = np.eye(6)
    rows = np.concatenate([masks, masks])
    # What is held out is orthogonal to all others: only their mean is seen of it.
    alone = held_out(masks, 6, folds=3)
    assert np.allclose(
        held_out(rows, 6, folds=3, n_masks=6) ** 2 @ np.ones(6), alone**2 @ np.ones(6)
    )
    assert (np.square(alone).sum(axis=1) < 0.5).all()


def test_what_is_not_a_number_becomes_the_centre(codec):
    broken = np.full((2, 9, 10, 8), 0.5)
    broken[0, 4, 4, 4] = np.nan
    broken[1] = 1e308
    mechanism = GaussianMean(sigma=1e-6, radius=codec.radius, n_teachers=1)
    values = mechanism.release(codec.encode(broken)[None], InsecureNoise(0)).values
    assert np.allclose(values[0], 0, atol=1e-4)
    assert np.linalg.norm(values, axis=1).max() <= codec.radius + 1e-3


def test_a_further_round_has_its_own_radius(codec):
    left = codec.spectrum / 4
    again = codec.remaining(left)
    assert again.rms_radius == pytest.approx(codec.rms_radius / 2)
    assert again.radius == pytest.approx(again.rms_radius)
    assert np.array_equal(again.components, codec.components)
    masks = blobs(2, (9, 10, 8), seed=7)
    assert np.array_equal(again.encode(masks), codec.encode(masks))


def test_nonsense_is_refused(deep):
    for wrong in ({"blur": -0.1}, {"copies": -1}, {"dimensions": 4}):
        with pytest.raises(InvalidArgument):
            PCACodec.fit(deep, **wrong)
