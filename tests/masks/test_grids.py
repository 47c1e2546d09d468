"""Resampling against torch's interpolation, and what one volume may know of another."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.masks.volumes import (
    Volumes,
    normalise,
    one_hot,
    resample,
    resample_labels,
    rescaled_affine,
)


class TestResample:
    @pytest.mark.parametrize(("old", "new"), [((5, 6, 7), (9, 6, 20)), ((4, 9), (8, 18))])
    def test_more_voxels_are_what_torch_interpolates(self, old, new):
        torch = pytest.importorskip("torch")
        values = np.random.default_rng(0).normal(size=(2, *old)).astype(np.float32)
        mode = "bilinear" if len(old) == 2 else "trilinear"
        theirs = torch.nn.functional.interpolate(
            torch.from_numpy(values)[None], size=new, mode=mode, align_corners=False
        )
        np.testing.assert_allclose(resample(values, new), theirs[0].numpy(), atol=1e-5)

    def test_fewer_voxels_average_what_they_cover(self):
        """Torch's antialiased interpolation of images, where it has one, is the oracle."""
        torch = pytest.importorskip("torch")
        values = np.random.default_rng(1).normal(size=(1, 30, 41)).astype(np.float32)
        theirs = torch.nn.functional.interpolate(
            torch.from_numpy(values)[None],
            size=(11, 16),
            mode="bilinear",
            align_corners=False,
            antialias=True,
        )
        np.testing.assert_allclose(resample(values, (11, 16)), theirs[0].numpy(), atol=1e-5)

    def test_a_constant_stays_a_constant(self):
        np.testing.assert_allclose(resample(np.full((7, 11, 5), 3.0), (20, 4, 5)), 3.0, rtol=1e-6)

    def test_there_and_back_keeps_an_organ(self):
        mask = np.zeros((35, 51, 36), np.uint8)
        mask[8:25, 10:40, 9:22] = 1
        mask[8:25, 25:40, 9:22] = 2
        there = resample_labels(mask, (24, 32, 24), n_classes=3)
        back = resample_labels(there, mask.shape, n_classes=3)
        assert there.shape == (24, 32, 24)
        assert (back != mask).mean() < 0.04

    @pytest.mark.parametrize("shape", [(), (0, 4), (2, 2, 2, 2)])
    def test_impossible_shapes_are_refused(self, shape):
        with pytest.raises(InvalidArgument):
            resample(np.ones((4, 4)), shape)

    def test_one_hot_sums_to_one(self):
        mask = np.random.default_rng(0).integers(0, 3, (4, 5))
        assert (one_hot(mask, 3).argmax(axis=0) == mask).all()
        assert (one_hot(mask, 3).sum(axis=0) == 1).all()


class TestNormalise:
    def test_scale_and_offset_of_a_scanner_disappear(self):
        image = np.random.default_rng(0).normal(size=(9, 10, 11))
        ours = normalise(image)
        np.testing.assert_allclose(normalise(1e5 * image - 3e6), ours, atol=1e-4)
        assert abs(float(ours.mean())) < 1e-5
        assert float(ours.std()) == pytest.approx(1, abs=1e-5)

    def test_one_bright_pixel_does_not_set_the_scale(self):
        image = np.random.default_rng(0).normal(size=(20, 20))
        spoilt = image.copy()
        spoilt[0, 0] = 1e9
        np.testing.assert_allclose(normalise(spoilt)[1:], normalise(image)[1:], atol=0.2)

    def test_a_flat_volume_becomes_zero(self):
        assert not normalise(np.full((4, 4), 1e6 + 0.1)).any()

    def test_channels_have_scales_of_their_own(self):
        image = np.random.default_rng(0).normal(size=(2, 8, 8)) * [[[1.0]], [[1e4]]]
        np.testing.assert_allclose(normalise(image, dimensions=2)[1], normalise(image[1]))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_no_number_is_refused(self, bad):
        with pytest.raises(InvalidArgument, match="finite"):
            normalise([[0.0, bad]])


def test_the_volume_stays_in_its_place():
    """Both ends of the grid, half a voxel out, are the same points of the room."""
    affine = np.array([[0, 2.0, 0, -7], [1.5, 0, 0, 4], [0, 0, 3, 1], [0, 0, 0, 1]])
    old, new = (10, 12, 14), (5, 16, 14)
    ours = rescaled_affine(affine, old, new)
    for end in (0, 1):
        corner = [np.array([end * side - 0.5 for side in shape] + [1.0]) for shape in (old, new)]
        np.testing.assert_allclose(ours @ corner[1], affine @ corner[0], atol=1e-12)
    assert Volumes((np.zeros(old),), affines=(affine,)).spacings == ((1.5, 2.0, 3.0),)
