"""`tacit train` on folders of scans, and `tacit segment`: masks on the scans' own grids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scans_held import ONE_SCAN, counted

from tacit.masks import UNetStudent, generated_volumes, save_mask, volume_files

pytest.importorskip("monai")
nibabel = pytest.importorskip("nibabel")

CONFIG = """
method = "segmentation"

[data]
source = "nifti:hospital"
public_source = "nifti:public"
held_out_source = "nifti:test"

[data.options]
classes = ["background", "organ"]
grid = [12, 12]
masks_source = "nifti:atlas"

[privacy]
epsilon = 8.0
delta = 1e-3

[segmentation]
n_teachers = 5
each_alone = true
student_steps = 2
channels = [4, 8]
"""
AFFINE = np.diag([0.7, 1.3, 1.0, 1.0])


def write(place: str, count: int, seed: int, shape: tuple[int, ...] = (12, 13)) -> None:
    volumes = generated_volumes(count, shape, seed=seed, noise=0.05)
    for case, image, mask in zip(volumes.cases, volumes.images, volumes.masks or (), strict=True):
        for folder, values in (("images", image), ("labels", mask)):
            Path(place, folder).mkdir(parents=True, exist_ok=True)
            save_mask(Path(place, folder, f"{case}.nii.gz"), values, AFFINE)


def test_train_then_segment(tacit):
    for seed, (place, count) in enumerate(
        {"hospital": 5, "public": 2, "atlas": 6, "test": 2}.items()
    ):
        write(place, count, seed)
    Path("run.toml").write_text(CONFIG)
    outcome = tacit("train", "run.toml", "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["statement"]["unit"] == "scan"
    assert 0 <= found["dice"] == found["held_out"]["dice"] <= 1
    outcome = tacit("segment", "run/student.tacit", "test", "masks")
    assert outcome.code == 0, outcome.err
    assert "2 masks in masks" in outcome.out
    for path in sorted(Path("masks").iterdir()):
        mask, scan = nibabel.load(path), nibabel.load(Path("test/images", path.name))
        assert mask.shape == scan.shape == (12, 13)
        np.testing.assert_array_equal(mask.affine, scan.affine)
        assert mask.header.get_zooms() == scan.header.get_zooms()
    again = tacit("segment", "run/student.tacit", "test/images", "masks")
    assert again.code == 2
    assert "new" in again.err


@pytest.fixture
def student(tacit):
    """A student that was saved without a grid predicts each scan as it is."""
    images, masks = generated_volumes(3, (12, 12)).normalised().arrays()
    UNetStudent(channels=(4, 8), residual_units=0, steps=1).fit(images, masks).save("s.tacit")
    write("scans", 2, 9, (14, 18))
    return tacit


def test_a_student_without_a_grid_windows_and_archives(student):
    outcome = student("segment", "s.tacit", "nifti:scans", "out", "--window", "8,8", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out) == {"masks": 2, "out": "out", "classes": None}
    volumes = generated_volumes(2, (14, 18), seed=9, noise=0.05)
    np.savez("scans.npz", image=np.stack(volumes.images))
    assert student("segment", "s.tacit", "npz:scans.npz", "out.npz", "--window", "8,8").code == 0
    with np.load("out.npz") as archive:
        stored = archive["label"]
    for path, mask in zip(sorted(Path("out").iterdir()), stored, strict=True):
        np.testing.assert_array_equal(np.asarray(nibabel.load(path).dataobj), mask)


def test_one_scan_is_held_and_its_mask_written_before_the_next_is_read(student, monkeypatch):
    write("many", 8, 3, (14, 18))
    held, read, written = counted(monkeypatch), volume_files.parse_nifti, []

    def noted(*given, **named):
        written.append(len(list(Path("out").glob("*"))))
        return read(*given, **named)

    monkeypatch.setattr(volume_files, "parse_nifti", noted)
    outcome = student("segment", "s.tacit", "many/images", "out")
    assert outcome.code == 0, outcome.err
    assert written == list(range(8))
    assert max(held) <= ONE_SCAN


def test_a_scan_that_cannot_be_read_leaves_masks_and_says_so(student):
    last = sorted(Path("scans").rglob("*.nii.gz"))[-1]
    last.write_bytes(last.read_bytes()[:-40])
    outcome = student("segment", "s.tacit", "scans", "out")
    assert outcome.code == 2
    assert "The masks in out are whole, and not all there." in outcome.err
    assert len(list(Path("out").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("absent.tacit", "scans", "out"), "absent.tacit"),
        (("s.tacit", "absent", "out"), "absent"),
        (("s.tacit", "scans", "scans"), "new"),
        (("s.tacit", "scans", "s.tacit"), "new"),
        (("s.tacit", "npz:scans.npz", "no/out.npz"), "'no' to exist; make it"),
        (("s.tacit", "scans", "out", "--window", "8,x"), "8,x"),
        (("s.tacit", "scans", "out", "--window", "8"), "window"),
    ],
)
def test_mistakes_are_one_line(student, arguments, complaint):
    outcome = student("segment", *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("out").exists()
