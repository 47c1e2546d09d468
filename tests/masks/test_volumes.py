"""Scans from folders, tars and archives, back to files, and what a hostile file may do: nothing."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from refusals import everything_said, read_or_refuse

from tacit.errors import InvalidArgument, MissingExtra, TacitError
from tacit.masks import Volumes, generated_volumes, load_volumes, parse_nifti, save_mask, save_masks
from tacit.masks.volume_files import Grid

nibabel = pytest.importorskip("nibabel")

AFFINE = np.array([[2.0, 0, 0, -5], [0, 0, 3, 7], [0, 1.5, 0, 1], [0, 0, 0, 1]])


@pytest.fixture
def folder(tmp_path):
    """Three scans, written by nibabel, in the decathlon's layout, with litter."""
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    (tmp_path / "imagesTr" / "._one.nii.gz").write_bytes(b"a Mac was here")
    (tmp_path / "imagesTr" / "notes.txt").write_text("no scan")
    scans = generated_volumes(3, (8, 9, 10), n_classes=3)
    for case, image, mask in zip(("one", "two", "six"), scans.images, scans.masks, strict=True):
        nibabel.save(nibabel.Nifti1Image(image, AFFINE), tmp_path / f"imagesTr/{case}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask, AFFINE), tmp_path / f"labelsTr/{case}.nii.gz")
    return tmp_path


def content(folder: Path) -> bytes:
    return gzip.decompress((folder / "imagesTr" / "one.nii.gz").read_bytes())


def parsed(path: Path) -> Grid:
    return parse_nifti(path.read_bytes(), path.name)


class TestLoading:
    def test_a_folder(self, folder):
        scans = load_volumes(f"nifti:{folder}", n_classes=3)
        made = generated_volumes(3, (8, 9, 10), n_classes=3)
        assert scans.cases == ("one", "six", "two")
        assert scans.spacings[0] == (2.0, 1.5, 3.0)
        for place, original in enumerate((0, 2, 1)):
            np.testing.assert_array_equal(scans.images[place], made.images[original])
            np.testing.assert_array_equal(scans.masks[place], made.masks[original])

    @pytest.mark.parametrize("mode", ["w", "w:gz"])
    def test_a_tar_is_the_same(self, folder, tmp_path_factory, mode):
        place = tmp_path_factory.mktemp("tars") / "scans.tar"
        with tarfile.open(place, mode) as archive:
            archive.add(folder, arcname="Task04/scans")
        there = load_volumes(f"nifti:{folder}", n_classes=3)
        ours = load_volumes(f"nifti:{place}", n_classes=3)
        assert ours.cases == there.cases
        np.testing.assert_array_equal(ours.images, there.images)
        np.testing.assert_array_equal(ours.masks, there.masks)

    def test_classes_are_declared(self, folder):
        with pytest.raises(InvalidArgument, match="n_classes"):
            load_volumes(f"nifti:{folder}")
        with pytest.raises(InvalidArgument, match="class indices"):
            load_volumes(f"nifti:{folder}", n_classes=2)
        labels = {"0": "background", "1": "front", "2": "back"}
        (folder / "dataset.json").write_text(json.dumps({"labels": labels}))
        assert load_volumes(f"nifti:{folder}").n_classes == 3

    def test_channels_of_nnunet_and_of_the_decathlon(self, tmp_path):
        images = np.random.default_rng(0).normal(size=(2, 4, 5, 6)).astype(np.float32)
        (tmp_path / "a" / "images").mkdir(parents=True)
        (tmp_path / "b" / "images").mkdir(parents=True)
        for channel, image in enumerate(images):
            save_mask(tmp_path / f"a/images/case_{channel:04d}.nii", image)
        save_mask(tmp_path / "b/images/case.nii", np.moveaxis(images, 0, -1))
        for name in "ab":
            scans = load_volumes(f"nifti:{tmp_path / name}")
            np.testing.assert_array_equal(scans.images[0], images)
            assert scans.cases == ("case",)
            assert scans.masks is None

    def test_an_archive_with_padding(self, tmp_path):
        scans = generated_volumes(2, (8, 8, 8))
        np.savez(
            tmp_path / "v.npz",
            image=np.stack(scans.images),
            label=np.stack(scans.masks),
            shape=[[8, 7, 6], [5, 8, 8]],
            case=["a", "b"],
        )
        ours = load_volumes(f"npz:{tmp_path / 'v.npz'}", n_classes=2)
        assert ours.shapes == ((8, 7, 6), (5, 8, 8))
        assert ours.cases == ("a", "b")
        np.testing.assert_array_equal(ours.masks[1], scans.masks[1][:5])

    def test_without_nibabel_the_extra_is_named(self, folder, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "nibabel", None)
        with pytest.raises(MissingExtra, match=r"tacit\[segmentation\]"):
            load_volumes(f"nifti:{folder}", n_classes=3)

    def test_a_folder_without_scans_is_refused(self, tmp_path):
        (tmp_path / "others").mkdir()
        save_mask(tmp_path / "others/case.nii", np.zeros((4, 4, 4)))
        with pytest.raises(InvalidArgument, match="there are none"):
            load_volumes(f"nifti:{tmp_path}")

    def test_channels_of_two_shapes_are_refused(self, tmp_path):
        for channel, side in enumerate((4, 5)):
            save_mask(tmp_path / f"case_{channel:04d}.nii", np.zeros((4, 4, side)))
        with pytest.raises(InvalidArgument, match="one shape"):
            load_volumes(f"nifti:{tmp_path}")

    @pytest.mark.parametrize("word", ["nifti", "nifti:", "csv:x", "", "nifti:/nowhere"])
    def test_other_words_are_refused(self, word):
        with pytest.raises(InvalidArgument):
            load_volumes(word)


class TestHostileFiles:
    @pytest.mark.parametrize("size", [0, 3, 347, 351, 400, -1])
    def test_cut_short(self, folder, size):
        for name, data in (("one.nii", content(folder)), ("one.nii.gz", None)):
            path = folder / name
            packed = (folder / "imagesTr" / "one.nii.gz").read_bytes()
            path.write_bytes((data or packed)[:size])
            with pytest.raises(InvalidArgument, match="truncated"):
                parsed(path)

    def test_huge_dimensions_are_refused_before_they_are_read(self, tmp_path):
        header = nibabel.Nifti1Header()
        header.set_data_shape((30000, 30000, 30000))
        data = bytearray(header.binaryblock) + b"\0" * 100
        data[344:348] = b"n+1\0"
        (tmp_path / "bomb.nii.gz").write_bytes(gzip.compress(bytes(data)))
        with pytest.raises(InvalidArgument, match="header promises more"):
            parsed(tmp_path / "bomb.nii.gz")

    def test_at_most_what_is_asked_for(self, folder):
        with pytest.raises(InvalidArgument, match="at most 700 voxels"):
            load_volumes(f"nifti:{folder}", n_classes=3, most_voxels=700)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_no_number(self, tmp_path, bad):
        image = np.full((3, 3, 3), 7.25, np.float32)
        image[1, 1, 1] = bad
        nibabel.save(nibabel.Nifti1Image(image, np.eye(4)), tmp_path / "bad.nii")
        with pytest.raises(InvalidArgument, match="finite") as caught:
            parsed(tmp_path / "bad.nii")
        assert "7.25" not in everything_said(caught.value)

    def test_flipped_bytes_give_a_volume_or_one_line(self, folder):
        data = content(folder)
        rng = np.random.default_rng(0)
        refused = 0
        for _ in range(150):
            damaged = bytearray(data)
            for place in rng.integers(0, 352, 2):
                damaged[place] = rng.integers(256)
            path = folder / "damaged.nii"
            path.write_bytes(bytes(damaged))
            refused += read_or_refuse(lambda path=path: parsed(path)) is None
        assert 10 < refused < 150

    def test_a_tar_that_is_none(self, tmp_path):
        (tmp_path / "no.tar").write_bytes(b"something else" * 100)
        with pytest.raises(InvalidArgument, match="archive"):
            load_volumes(f"nifti:{tmp_path / 'no.tar'}")

    def test_a_mask_of_fractions(self, folder):
        soft = np.full((8, 9, 10), 0.5, np.float32)
        nibabel.save(nibabel.Nifti1Image(soft, AFFINE), folder / "labelsTr" / "one.nii.gz")
        with pytest.raises(InvalidArgument, match="class indices"):
            load_volumes(f"nifti:{folder}", n_classes=3)

    def test_a_mask_elsewhere_and_a_mask_missing(self, folder):
        mask = np.zeros((8, 9, 10), np.uint8)
        nibabel.save(nibabel.Nifti1Image(mask, np.eye(4)), folder / "labelsTr" / "one.nii.gz")
        with pytest.raises(InvalidArgument, match="grid"):
            load_volumes(f"nifti:{folder}", n_classes=3)
        (folder / "labelsTr" / "one.nii.gz").unlink()
        with pytest.raises(InvalidArgument, match="missing"):
            load_volumes(f"nifti:{folder}", n_classes=3)

    @pytest.mark.parametrize(
        "arrays",
        [
            {"label": np.zeros((1, 4, 4, 4), int)},
            {"image": np.zeros((2, 4, 4, 4)), "label": np.zeros((1, 4, 4, 4), int)},
            {"image": np.full((1, 4, 4, 4), np.nan)},
            {"image": np.zeros((1, 4, 4, 4)), "shape": np.array([[4, 4]])},
            {"image": np.array(["a"])},
        ],
    )
    def test_archives_that_do_not_fit_together(self, tmp_path, arrays):
        np.savez(tmp_path / "v.npz", **arrays)
        with pytest.raises(TacitError):
            load_volumes(f"npz:{tmp_path / 'v.npz'}", n_classes=2)


class TestSaving:
    @pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
    def test_nibabel_finds_the_mask_the_affine_and_the_spacing(self, tmp_path, suffix):
        mask = np.random.default_rng(0).integers(0, 3, (5, 6, 7))
        save_mask(tmp_path / f"m{suffix}", mask, AFFINE)
        theirs = nibabel.load(tmp_path / f"m{suffix}")
        np.testing.assert_array_equal(np.asarray(theirs.dataobj), mask)
        np.testing.assert_allclose(theirs.affine, AFFINE)
        np.testing.assert_allclose(theirs.header.get_zooms(), (2, 1.5, 3))
        assert theirs.get_data_dtype() == np.uint8

    def test_equal_masks_give_equal_bytes(self, tmp_path):
        for name in "ab":
            save_mask(tmp_path / f"{name}.nii.gz", np.ones((4, 4, 4), bool))
        assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()

    @pytest.mark.parametrize("out", ["masks", "masks.npz"])
    def test_masks_of_volumes_come_back(self, tmp_path, out):
        shapes = [(8, 9, 10), (9, 8, 11)]
        scans = [generated_volumes(1, shape, seed=k) for k, shape in enumerate(shapes)]
        volumes = Volumes(
            tuple(one.images[0] for one in scans), cases=("a", "b"), affines=(AFFINE, np.eye(4))
        )
        masks = [one.masks[0] for one in scans]
        save_masks(tmp_path / out, masks, volumes)
        if out.endswith(".npz"):
            with np.load(tmp_path / out) as archive:
                assert archive["shape"].tolist() == [list(shape) for shape in shapes]
                np.testing.assert_array_equal(archive["label"][0, :8, :9, :10], masks[0])
                np.testing.assert_array_equal(archive["affine"][0], AFFINE)
        else:
            for case, mask, affine in zip("ab", masks, volumes.affines, strict=True):
                grid = parsed(tmp_path / out / f"{case}.nii.gz")
                np.testing.assert_array_equal(grid.values, mask)
                np.testing.assert_allclose(grid.affine, affine)

    def test_a_case_cannot_lead_elsewhere(self, tmp_path):
        volumes = Volumes((np.zeros((8, 8, 8)),), cases=("../out",))
        with pytest.raises(InvalidArgument, match="file names"):
            save_masks(tmp_path / "m", [np.zeros((8, 8, 8), int)], volumes)

    def test_every_volume_has_one_mask_and_a_name_of_its_own(self, tmp_path):
        mask = np.zeros((8, 8, 8), int)
        twins = Volumes((np.zeros((8, 8, 8)),) * 2, cases=("a", "a"))
        with pytest.raises(InvalidArgument, match="each case once"):
            save_masks(tmp_path / "m", [mask, mask], twins)
        with pytest.raises(InvalidArgument, match="2 masks"):
            save_masks(tmp_path / "m", [mask], twins)
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize(
        ("name", "affine", "complaint"),
        [
            ("m.png", None, "ends in .nii"),
            ("m.nii", np.eye(3), "4 x 4"),
            ("m.nii", np.full((4, 4), np.nan), "4 x 4"),
        ],
    )
    def test_masks_go_to_nifti_files_with_an_affine(self, tmp_path, name, affine, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            save_mask(tmp_path / name, np.zeros((2, 2), int), affine)
        assert not (tmp_path / name).exists()

    @pytest.mark.parametrize("mask", [np.zeros(3), np.array([["a"]]), np.full((2, 2), -1)])
    def test_no_masks(self, tmp_path, mask):
        with pytest.raises(InvalidArgument):
            save_mask(tmp_path / "m.nii", mask)


class TestVolumes:
    def test_nothing_of_a_scan_is_printed(self):
        scans = Volumes((np.full((4, 4, 4), 12345.0),), cases=("Mrs Smith",))
        assert "12345" not in repr(scans)
        assert "Smith" not in repr(scans)

    def test_one_grid_and_back(self):
        scans = Volumes(
            tuple(generated_volumes(1, s, seed=3).images[0] for s in ((20, 24, 22), (26, 20, 24))),
            tuple(generated_volumes(1, s, seed=3).masks[0] for s in ((20, 24, 22), (26, 20, 24))),
        )
        images, masks = scans.normalised().resampled((16, 16, 16)).arrays()
        assert images.shape == masks.shape == (2, 16, 16, 16)
        soft = np.stack([masks == 0, masks == 1], axis=1).astype(float)
        for ours, truth in zip(scans.restored(soft), scans.masks, strict=True):
            assert ours.shape == truth.shape
            assert (ours == truth).mean() > 0.97

    def test_shapes_have_as_many_sides_as_volumes_have_dimensions(self):
        with pytest.raises(InvalidArgument, match="3 dimensions"):
            Volumes((np.zeros((4, 4)),))
        with pytest.raises(InvalidArgument, match="3 dimensions"):
            Volumes((np.zeros((4, 0, 4)),))
        with pytest.raises(InvalidArgument, match="3 sides"):
            Volumes((np.zeros((4, 4, 4)),)).resampled((2, 2))
        with pytest.raises(InvalidArgument, match="two or three sides"):
            generated_volumes(1, (8,))

    def test_a_volume_does_not_know_its_company(self):
        scans = generated_volumes(3, (12, 12, 12))
        alone = scans.take([1]).normalised().resampled((8, 9, 10)).arrays()[0][0]
        np.testing.assert_array_equal(
            scans.normalised().resampled((8, 9, 10)).arrays()[0][1], alone
        )

    def test_different_shapes_are_no_array(self):
        with pytest.raises(InvalidArgument, match="resampled"):
            Volumes((np.zeros((4, 4, 4)), np.zeros((4, 4, 5)))).arrays()

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"masks": (np.zeros((4, 4, 5), int),)}, "shape of its image"),
            ({"masks": (np.full((4, 4, 4), 2),)}, "class indices"),
            ({"masks": (np.zeros((4, 4, 4)),)}, "class indices"),
            ({"cases": ("a", "b")}, "one mask, case and affine"),
            ({"dimensions": 4}, "dimensions=4"),
            ({"dimensions": 2, "masks": (np.zeros((4, 4, 4), int),)}, "shape of its image"),
        ],
    )
    def test_parts_that_do_not_fit(self, options, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            Volumes((np.zeros((4, 4, 4)),), **options)


class TestPhantoms:
    @pytest.mark.parametrize(("shape", "n_classes"), [((20, 24), 2), ((16, 20, 18), 4)])
    def test_every_class_is_there_and_the_organ_is_one_piece(self, shape, n_classes):
        from scipy.ndimage import label

        scans = generated_volumes(6, shape, n_classes=n_classes, seed=5)
        for mask in scans.masks:
            assert np.unique(mask).tolist() == list(range(n_classes))
            assert label(mask > 0)[1] == 1
            assert 0.02 < (mask > 0).mean() < 0.5

    def test_volume_i_depends_on_seed_and_i_alone(self):
        few, many = generated_volumes(2, (8, 8), seed=1), generated_volumes(4, (8, 8), seed=1)
        np.testing.assert_array_equal(few.images[1], many.images[1])
        assert (few.images[0] != few.images[1]).any()
        assert (generated_volumes(1, (8, 8), seed=2).images[0] != few.images[0]).any()

    def test_the_organ_can_be_seen(self):
        for image, mask in zip(*vars_of(generated_volumes(4, (20, 20, 20))), strict=True):
            inside, outside = image[mask > 0], image[mask == 0]
            assert inside.mean() > outside.mean() + 0.5 * image.std()


def vars_of(scans: Volumes):
    return scans.images, scans.masks


@pytest.mark.data
def test_the_hippocampus_in_both_its_formats(data_dir):
    """The archive's masks and names are those of the tar: two readers, one truth."""
    place = data_dir / "hippocampus_msd"
    if not place.is_dir():
        pytest.skip("needs real data: hippocampus_msd is not in TACIT_DATA")
    files = load_volumes(f"nifti:{place / 'hippocampus_nifti.tar'}", n_classes=3)
    archive = load_volumes(f"npz:{place / 'hippocampus_48x64x48.npz'}", n_classes=3)
    assert len(files) == 260
    assert files.cases == archive.cases
    assert files.shapes == archive.shapes
    for ours, theirs in zip(files.masks, archive.masks, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert set(files.spacings) == {(1.0, 1.0, 1.0)}


def test_a_gzip_bomb_is_unpacked_no_further_than_promised(tmp_path, monkeypatch):
    image = nibabel.Nifti1Image(np.zeros((4, 4, 4), np.uint8), np.eye(4))
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb") as file:
        file.write(image.to_bytes())
        file.write(b"\0" * 10**7)
    (tmp_path / "long.nii.gz").write_bytes(stream.getvalue())
    unpacked = []
    read = gzip.GzipFile.read
    monkeypatch.setattr(
        gzip.GzipFile, "read", lambda self, n=-1: (unpacked.append(n), read(self, n))[1]
    )
    assert parsed(tmp_path / "long.nii.gz").values.shape == (4, 4, 4)
    assert all(0 <= n < 1000 for n in unpacked)
