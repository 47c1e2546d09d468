"""Registration against moves that are known, smoothing and warping against SciPy."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tacit.errors import InvalidArgument  # noqa: E402
from tacit.masks import generated_volumes  # noqa: E402
from tacit.masks.teachers import Demons, gradient, smooth, warp  # noqa: E402


def tensor(array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array, dtype=np.float32))


@pytest.mark.parametrize("shape", [(9, 12), (7, 9, 8)])
class TestPieces:
    def test_smoothing_is_scipys_inside(self, shape):
        from scipy.ndimage import gaussian_filter

        values = np.random.default_rng(0).normal(size=shape)
        ours = smooth(tensor(values)[None, None], 0.8)[0, 0].numpy()
        radius = 2  # ceil(2.5 * 0.8)
        theirs = gaussian_filter(values, 0.8, radius=radius, mode="constant")
        theirs /= gaussian_filter(np.ones(shape), 0.8, radius=radius, mode="constant")
        np.testing.assert_allclose(ours, theirs, atol=1e-5)

    def test_warping_is_scipys(self, shape):
        from scipy.ndimage import map_coordinates

        rng = np.random.default_rng(1)
        values, field = rng.normal(size=shape), rng.normal(size=(len(shape), *shape))
        ours = warp(tensor(values)[None, None], tensor(field)[None])[0, 0].numpy()
        places = np.indices(shape) + field
        theirs = map_coordinates(values, places, order=1, mode="nearest")
        np.testing.assert_allclose(ours, theirs, atol=1e-4)

    def test_gradients_are_numpys(self, shape):
        values = np.random.default_rng(2).normal(size=shape)
        ours = gradient(tensor(values)[None, None])[0, :, 0].numpy()
        np.testing.assert_allclose(ours, np.stack(np.gradient(values)), atol=1e-5)


class TestDemons:
    @pytest.mark.parametrize("shape", [(24, 28), (16, 20, 16)])
    def test_a_known_shift_is_found_inside_the_organ(self, shape):
        scans = generated_volumes(1, shape, noise=0.0, seed=2).normalised()
        image, mask = scans.images[0], scans.masks[0]
        moved = np.roll(image, (2, -1), axis=(0, 1))
        inside = mask > 0
        # The fixed image's voxel x is the moved image's voxel x + (2, -1).
        field = Demons().field(tensor(image)[None, None], tensor(moved)[None, None])[0].numpy()
        assert np.median(field[0][inside]) == pytest.approx(2, abs=0.5)
        assert np.median(field[1][inside]) == pytest.approx(-1, abs=0.5)

    def test_an_image_stays_where_it_is(self):
        scan = generated_volumes(1, (20, 20), noise=0.02).normalised().images[0]
        image = tensor(scan)[None, None]
        assert float(Demons().field(image, image).abs().max()) < 0.05

    def test_flat_images_do_not_move_and_stay_finite(self):
        flat = torch.zeros(2, 1, 12, 12)
        field = Demons().field(flat, torch.randn(1, 1, 12, 12))
        assert bool(field.isfinite().all())

    def test_contrast_and_brightness_of_a_scanner_do_not_matter_much(self):
        scans = generated_volumes(2, (20, 24), noise=0.05, seed=4).normalised()
        fixed, moving = (tensor(x)[None, None] for x in scans.images)
        plain = Demons().field(fixed, moving)
        shaded = Demons().field(fixed, moving + torch.linspace(-1, 1, 24))
        assert float((plain - shaded).abs().mean()) < 0.5 * float(plain.abs().mean())

    @pytest.mark.parametrize(
        "options", [{"smoothing": 0}, {"iterations": (-1, 3)}, {"stride": -1}, {"contrast": 0}]
    )
    def test_bad_numbers_are_refused(self, options):
        with pytest.raises(InvalidArgument):
            Demons(**options)
