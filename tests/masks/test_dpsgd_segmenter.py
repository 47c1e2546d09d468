"""DP-SGD on whole scans: learning, people, refusals, what is saved."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("monai")

from flat_settings import built

from tacit import DPSGDSegmenter, InsecureNoise
from tacit.errors import InvalidArgument
from tacit.masks import generated_volumes, load_segmenter
from tacit.masks.segmenters import _phantoms, volume_losses
from tacit.noisy_training.clipped_sums import UnitParts
from tacit.noisy_training.training import GradientSteps, Recipe, blocks_of

IMAGES, MASKS = generated_volumes(24, (12, 14)).normalised().arrays()


def make(**changes):
    settings = {
        "channels": (4, 8),
        "residual_units": 0,
        "n_records": 24,
        "batch_size": 12,
        "epochs": 1,
        "noise_multiplier": 1.0,
        "epsilon": 100.0,
        "random_state": 0,
        "noise": InsecureNoise(0),
    }
    return built(DPSGDSegmenter, **{**settings, **changes})


class Silent(InsecureNoise):
    """Adds no noise; where the rate is 1 everybody takes part."""

    def rounded_gaussian_steps(self, sigma, grid, size):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
class TestSegmenter:
    def test_learns_where_noise_is_small(self, tmp_path):
        model = make(
            epochs=25, noise_multiplier=0.1, learning_rate=2e-2, epsilon=1e6, clip=1.0
        ).fit(IMAGES, MASKS)
        assert model.score(IMAGES, MASKS) > 0.6
        model.save(tmp_path / "student.tacit")
        loaded = load_segmenter(tmp_path / "student.tacit")
        np.testing.assert_array_equal(loaded.predict(IMAGES), model.predict(IMAGES))

    def test_people_are_units(self):
        model = make(n_records=12, batch_size=6).fit(IMAGES, MASKS, groups=np.arange(24) // 2)
        assert model.ledger_.unit == "person"
        assert model.predict(IMAGES).shape == MASKS.shape

    def test_one_person_with_most_of_the_scans_adds_at_most_1(self):
        people = np.array(["all mine"] * 6 + ["b", "c"])

        def first_sum(kept):
            seen = []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(GradientSteps, "learn", lambda _, noisy: seen.append(noisy))
                make(n_records=8, batch_size=8, clip=1e-3, noise=Silent(0), delta=1e-3).fit(
                    IMAGES[:8][kept], MASKS[:8][kept], groups=people[kept]
                )
            return seen[0]

        moved = first_sum(np.arange(8) >= 0) - first_sum(people != "all mine")
        assert 0.99 < np.linalg.norm(moved) <= 1 + 2.0**-11

    def test_one_volume_adds_at_most_1(self):
        model = make()
        network = model._student(2, 1).network_
        recipe = Recipe(steps=1, lot=12.0, clip=1e-3)
        blocks = blocks_of(recipe, network)
        parts = UnitParts(network, _phantoms(5, (1, 12, 14), 2), volume_losses, blocks)
        total = parts.sums(np.arange(5))
        for gone in range(5):
            moved = total - parts.sums(np.delete(np.arange(5), gone))
            assert 0.999 < np.linalg.norm(moved) <= 1 + 1e-9

    @pytest.mark.parametrize(
        ("images", "masks", "complaint"),
        [
            (IMAGES, MASKS + 5, "classes"),
            (IMAGES, MASKS + 0.5, "classes"),
            (IMAGES[:, :-1], MASKS, "shape"),
            (np.full_like(IMAGES, np.nan), MASKS, "finite"),
        ],
    )
    def test_refusals(self, images, masks, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            make().fit(images, masks)

    def test_size_must_be_declared(self):
        with pytest.raises(InvalidArgument, match="n_records"):
            make(n_records=None).fit(IMAGES, MASKS)


def test_loss_of_a_volume_is_its_own():
    torch.manual_seed(0)
    scores, labels = torch.randn(4, 3, 6, 6), torch.randint(3, (4, 6, 6))
    together = volume_losses(scores, labels)
    apart = torch.cat([volume_losses(scores[[n]], labels[[n]]) for n in range(4)])
    torch.testing.assert_close(together, apart)
    perfect = volume_losses(40.0 * torch.nn.functional.one_hot(labels, 3).movedim(-1, 1), labels)
    assert (perfect < 1e-6).all()
