"""Teachers of masks: good enough, pure, alone with their shard, and safe to interrupt."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("monai")

from tacit.errors import InvalidArgument, MissingExtra, TeacherFailed
from tacit.masks import (
    AtlasTeacher,
    UNetRecipe,
    UNetTeacher,
    generated_volumes,
    load_volumes,
    organ_dice,
    segment_with_teachers,
)
from tacit.masks.teachers import as_mask_teacher
from tacit.teachers import Shard

TINY = UNetTeacher(UNetRecipe(channels=(4, 8), residual_units=0, steps=3))


def first_mask(images, masks, queries, *, n_classes, seed):
    """A teacher that says its own first mask to every query."""
    hot = np.stack([masks[0] == c for c in range(n_classes)]).astype(np.float32)
    return np.repeat(hot[None], len(queries), axis=0)


CALLS = []


def counted(images, masks, queries, *, n_classes, seed):
    CALLS.append(seed)
    return first_mask(images, masks, queries, n_classes=n_classes, seed=seed)


@pytest.fixture(scope="module")
def scans():
    return generated_volumes(14, (16, 20, 16), n_classes=3, seed=1).normalised().arrays()


class TestAtlas:
    def test_a_query_that_is_the_scan_gets_its_mask(self, scans):
        images, masks = scans
        shard = Shard(images[:1], masks[:1], 0)
        answer = AtlasTeacher().segment_queries(shard, images[:1], n_classes=3)
        np.testing.assert_array_equal(answer.argmax(axis=1), masks[:1])

    def test_registered_atlases_beat_unregistered_ones_and_each_alone(self, scans):
        images, masks = scans
        queries, truth = images[10:], masks[10:]
        answers = segment_with_teachers(
            AtlasTeacher(), images[:10], masks[:10], np.arange(10), 10, queries, n_classes=3
        )
        alone = np.mean([organ_dice(a.argmax(axis=1), truth).mean() for a in answers])
        together = organ_dice(answers.mean(axis=0).argmax(axis=1), truth).mean()
        plain = segment_with_teachers(
            first_mask, images[:10], masks[:10], np.arange(10), 10, queries, n_classes=3
        )
        unmoved = organ_dice(plain.mean(axis=0).argmax(axis=1), truth).mean()
        assert together > unmoved + 0.08
        assert together > alone
        assert together > 0.8

    def test_answers_are_probabilities_and_pure(self, scans):
        images, masks = scans
        shard = Shard(images[:1], masks[:1], 0)
        one, two = (
            AtlasTeacher().segment_queries(shard, images[4:6], n_classes=3) for _ in range(2)
        )
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-5)
        assert one.min() >= 0
        alone = AtlasTeacher().segment_queries(shard, images[5:6], n_classes=3)
        np.testing.assert_allclose(one[1:], alone, atol=1e-4)

    def test_several_scans_answer_by_their_mean(self, scans):
        images, masks = scans
        both = AtlasTeacher().segment_queries(
            Shard(images[:2], masks[:2], 0), images[4:5], n_classes=3
        )
        each = [
            AtlasTeacher().segment_queries(
                Shard(images[i : i + 1], masks[i : i + 1], 0), images[4:5], n_classes=3
            )
            for i in range(2)
        ]
        np.testing.assert_allclose(both, np.mean(each, axis=0), atol=1e-6)

    def test_channels_and_two_dimensions(self):
        images, masks = generated_volumes(3, (16, 16)).normalised().arrays()
        stacked = np.stack([images, images], axis=1)
        shard = Shard(stacked[:1], masks[:1], 0)
        answer = AtlasTeacher().segment_queries(shard, stacked, n_classes=2)
        assert answer.shape == (3, 2, 16, 16)
        np.testing.assert_array_equal(answer[0].argmax(axis=0), masks[0])

    def test_without_torch_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "torch", None)
        with pytest.raises(MissingExtra, match=r"tacit\[segmentation\]"):
            AtlasTeacher()


class TestUNet:
    def test_the_same_shard_and_seed_give_the_same_bits(self, scans):
        images, masks = scans
        shard = Shard(images[:2], masks[:2], 7)
        one, two = (TINY.segment_queries(shard, images[4:6], n_classes=3) for _ in range(2))
        np.testing.assert_array_equal(one, two)
        other = TINY.segment_queries(Shard(images[:2], masks[:2], 8), images[4:6], n_classes=3)
        assert (one != other).any()
        np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-5)

    def test_without_monai_the_extra_is_named(self, monkeypatch):
        for name in ("monai", "monai.inferers", "monai.networks.nets"):
            monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(MissingExtra, match=r"tacit\[segmentation\]"):
            UNetTeacher()


class TestCollecting:
    @pytest.mark.parametrize("teacher", [AtlasTeacher(), TINY])
    def test_a_teacher_is_alone_with_its_shard(self, scans, teacher):
        """Change, add or remove another teacher's scans: not one bit of this one's changes."""
        images, masks = scans
        shards = np.array([0, 1, 1, 2])
        before = segment_with_teachers(
            teacher, images[:4], masks[:4], shards, 3, images[8:10], n_classes=3
        )
        keep = [0, 3]
        after = segment_with_teachers(
            teacher, images[keep], masks[keep], shards[keep], 3, images[8:10], n_classes=3
        )
        np.testing.assert_array_equal(before[[0, 2]], after[[0, 2]])
        assert np.isnan(after[1]).all()

    def test_codes_are_kept_instead_of_masks(self, scans):
        images, masks = scans

        def sizes(answer):
            return answer.sum(axis=(2, 3, 4))

        full = segment_with_teachers(
            first_mask, images[:3], masks[:3], [0, 1, 2], 4, images[8:], n_classes=3
        )
        codes = segment_with_teachers(
            first_mask, images[:3], masks[:3], [0, 1, 2], 4, images[8:], n_classes=3, encode=sizes
        )
        assert codes.shape == (4, 6, 3)
        np.testing.assert_allclose(codes[:3], [sizes(one) for one in full[:3]])
        assert np.isnan(codes[3]).all()

    def test_a_run_that_was_stopped_goes_on(self, scans, tmp_path):
        images, masks = scans
        CALLS.clear()

        def run(random_state=0):
            return segment_with_teachers(
                counted, images[:3], masks[:3], [0, 1, 2], 3, images[8:], n_classes=3,
                checkpoint=tmp_path / "kept", random_state=random_state,
            )  # fmt: skip

        first, again = run(), run()
        assert len(CALLS) == 3
        np.testing.assert_array_equal(first, again)
        run(random_state=1)
        assert len(CALLS) == 6

    def test_what_goes_wrong_is_told_by_type_alone(self, scans):
        images, masks = scans

        def fails(images, masks, queries, *, n_classes, seed):
            raise RuntimeError("patient 4711 has a tumour")

        with pytest.raises(TeacherFailed, match="RuntimeError") as caught:
            segment_with_teachers(fails, images[:1], masks[:1], [0], 1, images[8:], n_classes=3)
        assert "4711" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_a_wrong_shape_is_a_failure(self, scans):
        images, masks = scans
        with pytest.raises(TeacherFailed):
            segment_with_teachers(
                lambda *args, **_: np.zeros((1, 2)), images[:1], masks[:1], [0], 1, images[8:],
                n_classes=3,
            )  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("masks", np.full((2, 16, 20, 16), 3)),
            ("masks", np.zeros((1, 16, 20, 16), int)),
            ("shards", [0, 5]),
            ("shards", [0]),
            ("queries", np.zeros((2, 16, 20, 15))),
            ("queries", np.full((1, 16, 20, 16), np.nan)),
            ("teacher", 7),
            ("teacher", AtlasTeacher),
        ],
    )
    def test_inputs_that_do_not_fit(self, scans, name, value):
        images, masks = scans
        given = {
            "teacher": first_mask,
            "images": images[:2],
            "masks": masks[:2],
            "shards": [0, 1],
            "n_teachers": 2,
            "queries": images[8:10],
        } | {name: value}
        with pytest.raises(InvalidArgument):
            segment_with_teachers(**given, n_classes=3)

    def test_teachers_that_are_teachers_stay_themselves(self):
        assert as_mask_teacher(TINY) is TINY


@pytest.mark.data
def test_atlases_of_the_hippocampus(data_dir):
    """Twelve one-patient teachers: .85 on average here, .73 unregistered."""
    place = data_dir / "hippocampus_msd" / "hippocampus_48x64x48.npz"
    if not place.is_file():
        pytest.skip("needs real data: hippocampus_msd is not in TACIT_DATA")
    volumes = load_volumes(f"npz:{place}", n_classes=3).take(slice(0, 160, 10))
    images, masks = volumes.normalised().resampled((20, 28, 20)).arrays()
    answers = segment_with_teachers(
        AtlasTeacher(), images[:12], masks[:12], np.arange(12), 12, images[12:], n_classes=3
    )
    plain = segment_with_teachers(
        first_mask, images[:12], masks[:12], np.arange(12), 12, images[12:], n_classes=3
    )
    registered, unmoved = (
        organ_dice(a.mean(axis=0).argmax(axis=1), masks[12:]).mean() for a in (answers, plain)
    )
    assert registered > 0.8
    assert registered > unmoved + 0.05
