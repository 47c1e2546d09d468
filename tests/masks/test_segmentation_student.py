"""The U-Net student: learns hard and soft masks, repeats itself, is saved."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("monai")

from saved_files import rewrite
from sklearn.base import clone

from tacit.errors import InvalidArgument, MissingExtra
from tacit.masks import UNetRecipe, UNetStudent, generated_volumes, load_segmenter, organ_dice
from tacit.masks.unet import segment

SMALL = {"channels": (6, 12, 12), "residual_units": 1, "steps": 60, "learning_rate": 0.02}
BRIEF = {"channels": (4, 8), "residual_units": 0, "steps": 3}


@pytest.fixture(scope="module")
def flat():
    return generated_volumes(24, (20, 24), seed=3).normalised().arrays()


@pytest.fixture(scope="module")
def learned(flat):
    return UNetStudent(**SMALL).fit(flat[0][:16], flat[1][:16])


class TestLearning:
    def test_it_learns_in_two_dimensions(self, flat, learned):
        assert organ_dice(learned.predict(flat[0][16:]), flat[1][16:]).mean() > 0.85

    def test_it_learns_in_three(self):
        images, masks = generated_volumes(9, (12, 16, 12), n_classes=3).normalised().arrays()
        student = UNetStudent(3, **SMALL | {"steps": 40}).fit(images[:6], masks[:6])
        soft = student.predict_proba(images[6:])
        assert soft.shape == (3, 3, 12, 16, 12)
        np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-5)
        assert organ_dice(student.predict(images[6:]), masks[6:]).mean() > 0.7

    def test_what_a_codec_decodes_is_learned_too(self, flat):
        """A released organ, noisy, outside 0 .. 1, and of one channel."""
        images, masks = flat
        released = masks[:16] + 0.3 * np.random.default_rng(0).normal(size=masks[:16].shape)
        student = UNetStudent(**SMALL).fit(images[:16], released)
        assert organ_dice(student.predict(images[16:]), masks[16:]).mean() > 0.8

    def test_a_probability_is_learned_as_it_is(self):
        """One image, of which the release says 0.3 everywhere."""
        images = np.zeros((1, 8, 8), np.float32)
        student = UNetStudent(
            channels=(4, 8), residual_units=0, steps=150, learning_rate=0.02, augment=False
        )
        student.fit(images, np.full((1, 8, 8), 0.3))
        np.testing.assert_allclose(student.predict_proba(images)[0, 1], 0.3, atol=0.1)

    @pytest.mark.parametrize("steps", range(1, 8))
    def test_any_number_of_steps_will_do(self, flat, steps):
        """Four of them were a division by zero, after everything had been released."""
        student = UNetStudent(**BRIEF | {"steps": steps}).fit(flat[0][:2], flat[1][:2])
        assert np.isfinite(student.predict_proba(flat[0][:1])).all()

    def test_the_same_bits_again_and_nobody_disturbed(self, flat):
        import torch

        before = torch.get_rng_state()
        one, two, other = (
            UNetStudent(**BRIEF, random_state=seed)
            .fit(flat[0][:4], flat[1][:4])
            .predict_proba(flat[0][:2])
            for seed in (5, 5, 6)
        )
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()
        assert torch.equal(before, torch.get_rng_state())


class TestWindows:
    def test_a_large_volume_is_learned_and_predicted_in_windows(self, flat):
        images, masks = flat
        student = UNetStudent(**SMALL, patch=(16, 16)).fit(images[:16], masks[:16])
        assert organ_dice(student.predict(images[16:]), masks[16:]).mean() > 0.75

    def test_a_volume_smaller_than_the_window(self, flat):
        images, masks = flat
        student = UNetStudent(**BRIEF, patch=(32, 16)).fit(images[:4], masks[:4])
        assert student.predict(images[:2]).shape == (2, 20, 24)

    def test_one_window_that_is_the_volume_is_the_whole_prediction(self, flat, learned):
        whole = learned.predict_proba(flat[0][:3])
        parts = learned.predict_proba(flat[0][:3], window=(20, 24))
        np.testing.assert_allclose(parts, whole, atol=1e-5)

    def test_several_windows_nearly_agree_with_the_whole(self, flat, learned):
        """Nearly: a window is normalised by itself."""
        whole = learned.predict(flat[0][16:])
        parts = learned.predict(flat[0][16:], window=(16, 20))
        assert organ_dice(parts, whole).mean() > 0.85
        assert (parts != whole).any()

    @pytest.mark.parametrize("window", [(8, 8), (7, 5), (16, 12)])
    def test_windows_of_a_local_network_add_up_exactly(self, window):
        """An oracle: where a voxel sees itself alone, stitching must change nothing at all."""
        import torch

        network = torch.nn.Conv2d(1, 2, 1)
        images = np.random.default_rng(0).normal(size=(2, 1, 21, 18)).astype(np.float32)
        recipe = UNetRecipe(channels=(4, 8))
        whole = segment(recipe, network, images)
        parts = segment(recipe, network, images, window=window)
        np.testing.assert_allclose(parts, whole, atol=1e-6)

    def test_far_from_every_window_border_the_whole_prediction_stands(self):
        """A network that sees one voxel around: wrong only beside the border of a window."""
        import torch

        network = torch.nn.Conv2d(1, 2, 3, padding=1)
        images = np.random.default_rng(0).normal(size=(1, 1, 32, 32)).astype(np.float32)
        recipe = UNetRecipe(channels=(4, 8))
        whole = segment(recipe, network, images)
        parts = segment(recipe, network, images, window=(16, 16))
        beside = np.zeros(32, dtype=bool)
        for start in (0, 8, 16):  # half of each window overlaps with the next
            beside[[start, start + 15]] = True
        beside[[0, 31]] = False  # the volume's own border, the same for both
        inside = ~(beside[:, None] | beside[None, :])
        np.testing.assert_allclose(parts[0][:, inside], whole[0][:, inside], atol=1e-6)
        assert np.abs(parts - whole).max() > 1e-3

    @pytest.mark.parametrize("window", [(8,), (8, 8, 8), (1, 8)])
    def test_windows_that_do_not_fit_are_refused(self, flat, learned, window):
        with pytest.raises(InvalidArgument, match="window"):
            learned.predict(flat[0][:1], window=window)

    def test_sides_that_cannot_be_halved(self, learned):
        odd = generated_volumes(1, (19, 23)).normalised().arrays()[0]
        assert learned.predict_proba(odd).shape == (1, 2, 19, 23)


class TestSaving:
    def test_there_and_back(self, flat, learned, tmp_path):
        learned.save(tmp_path / "student.tacit", extra={"classes": ["none", "organ"]})
        back = load_segmenter(tmp_path / "student.tacit")
        np.testing.assert_array_equal(
            back.predict_proba(flat[0][:3]), learned.predict_proba(flat[0][:3])
        )
        assert back.get_params() == learned.get_params()

    def test_a_damaged_file_is_refused(self, learned, tmp_path):
        path = tmp_path / "student.tacit"
        learned.save(path)
        data = path.read_bytes()
        for broken in (data[:-50], data[: len(data) // 2], b"", data.replace(b"UNet", b"XNet")):
            path.write_bytes(broken)
            with pytest.raises(InvalidArgument, match="saved student"):
                load_segmenter(path)

    @pytest.mark.parametrize(
        "edit",
        [
            {"student": "NearestStudent"},
            {"parameters": {"shell": True}},
            {"dimensions": "many"},
        ],
    )
    def test_a_whole_file_of_something_else_is_refused(self, learned, tmp_path, edit):
        path = tmp_path / "student.tacit"
        learned.save(path)
        rewrite(path, lambda manifest, members: manifest.update(edit))
        with pytest.raises(InvalidArgument, match="saved student"):
            load_segmenter(path)


class TestRefusals:
    def test_parameters_are_only_stored_and_cloned(self):
        student = UNetStudent(channels=(0,), steps=-1)
        assert clone(student).get_params() == student.get_params()
        with pytest.raises(InvalidArgument):
            student.fit(np.zeros((1, 8, 8)), np.zeros((1, 8, 8), int))

    @pytest.mark.parametrize(
        ("images", "targets"),
        [
            (np.zeros((2, 8, 8)), np.full((2, 8, 8), 2)),
            (np.zeros((2, 8, 8)), np.zeros((2, 8, 9), int)),
            (np.zeros((2, 8, 8)), np.zeros((1, 8, 8), int)),
            (np.full((2, 8, 8), np.nan), np.zeros((2, 8, 8), int)),
            (np.zeros((2, 8, 8)), np.full((2, 8, 8), np.nan)),
        ],
    )
    def test_lessons_that_do_not_fit(self, images, targets):
        with pytest.raises(InvalidArgument):
            UNetStudent(**BRIEF).fit(images, targets)

    def test_soft_targets_of_other_classes_than_declared(self):
        with pytest.raises(InvalidArgument, match=r"soft targets \(n, 3"):
            UNetStudent(3, **BRIEF).fit(np.zeros((2, 8, 8)), np.zeros((2, 2, 8, 8)))

    def test_a_patch_has_as_many_sides_as_scans(self):
        UNetStudent(patch=(8, 8), **BRIEF).check(2)
        with pytest.raises(InvalidArgument, match="patch of 3 sides"):
            UNetStudent(patch=(8, 8), **BRIEF).check(3)

    def test_other_channels_than_learned(self, learned):
        with pytest.raises(InvalidArgument, match="channels"):
            learned.predict(np.zeros((1, 2, 20, 24)))

    def test_without_monai_the_extra_is_named(self, monkeypatch):
        for name in ("monai", "monai.inferers", "monai.networks.nets"):
            monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(MissingExtra, match=r"tacit\[segmentation\]"):
            UNetStudent(**BRIEF).fit(np.zeros((1, 8, 8)), np.zeros((1, 8, 8), int))
