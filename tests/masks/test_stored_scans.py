"""Scans that are read one at a time: the same arrays, and never two scans in memory."""

from __future__ import annotations

import io
import tarfile
import tempfile
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scan_folders import write_folder
from scans_held import ONE_SCAN, counted
from sklearn.base import BaseEstimator

from tacit import InsecureNoise
from tacit.errors import InvalidArgument, RecordsUnread
from tacit.masks import (
    PATESegmenter,
    generated_volumes,
    load_volumes,
    open_volumes,
    save_mask,
)
from tacit.masks.runs import _private_scans
from tacit.masks.stored_scans import stored_on_grid

pytest.importorskip("nibabel")

GRID = (16, 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("scans") / "hospital"
    write_folder(place, 6, 1)
    with tarfile.open(place.with_suffix(".tar"), "w") as archive:
        archive.add(place, arcname="hospital")
    return place


@pytest.mark.parametrize("suffix", ["", ".tar"])
def test_one_at_a_time_is_all_at_once(folder, suffix):
    source = f"nifti:{folder}{suffix}"
    scans = load_volumes(source, n_classes=3)
    images, masks = scans.normalised().resampled(GRID).arrays()
    files = open_volumes(source, n_classes=3)
    stored = stored_on_grid(files, GRID, "source")
    assert files.cases == scans.cases
    assert len(files) == 6
    assert files.has_masks
    np.testing.assert_array_equal(stored.images, images)
    np.testing.assert_array_equal(stored.masks, masks)
    np.testing.assert_array_equal(files.take([3, 1]).images[0], scans.images[3])
    assert repr(stored) == "StoredScans(secret)"


@pytest.mark.parametrize("archived", [False, True], ids=["folder", "tar"])
def test_a_file_that_changes_between_two_readings_is_refused(archived, tmp_path):
    """Public scans are read to be asked about, and again to draw on them what was released."""
    place, packed = tmp_path / "public", tmp_path / "public.tar"

    def write(seed: int) -> None:
        write_folder(place, 2, seed, masks=False)
        with tarfile.open(packed, "w") as archive:
            archive.add(place, arcname="public")

    write(1)
    files = open_volumes(f"nifti:{packed if archived else place}")
    first = files.take([0]).images[0]
    write(2)
    with pytest.raises(InvalidArgument, match=r"'public0_scan0.nii.gz' to stay .* has changed"):
        files.take([0])
    write(1)  # touched, and the same again
    np.testing.assert_array_equal(files.take([0]).images[0], first)


def test_memory_is_that_of_a_scan(tmp_path):
    (tmp_path / "images").mkdir()
    scan = np.arange(40**3).reshape(40, 40, 40) % 97
    for number in range(20):
        save_mask(tmp_path / "images" / f"case_{number}.nii", scan + number)
    files = open_volumes(f"nifti:{tmp_path}")
    files.take([0]).normalised()  # all is imported
    tracemalloc.start()
    stored = stored_on_grid(files, (32, 32, 32), "source")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(stored.images) == 20
    assert peak < 20 * scan.size * 4, "all scans as they were read would be more"


def test_a_full_disk_is_said_and_not_how_many_scans_there_are(folder, monkeypatch):
    """Through the door of private scans, too, which tells nothing of what is wrong with one."""

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("tacit.masks.stored_scans.os.posix_fallocate", full)
    options = SimpleNamespace(grid=GRID, classes=("a", "b", "c"))
    with pytest.raises(RecordsUnread, match="TMPDIR") as caught:
        _private_scans(f"nifti:{folder}", options)
    assert not any(sign.isdigit() for sign in str(caught.value).replace(tempfile.gettempdir(), ""))


def test_a_disk_that_is_full_of_masks_says_no_more(folder, monkeypatch):
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError("no space left")

    monkeypatch.setattr("tacit.masks.stored_scans.tempfile.TemporaryFile", Full)
    options = SimpleNamespace(grid=GRID, classes=("a", "b", "c"))
    with pytest.raises(RecordsUnread, match="TMPDIR") as caught:
        _private_scans(f"nifti:{folder}", options, truth=True)
    assert not any(sign.isdigit() for sign in str(caught.value).replace(tempfile.gettempdir(), ""))


@pytest.mark.parametrize("n_classes", [3, 300])
def test_masks_are_kept_as_they_are_where_they_are_compared(tmp_path, n_classes):
    shapes = [(8, 9), (12, 10), (8, 9), (9, 30)]
    scans = [generated_volumes(1, shape, n_classes=3) for shape in shapes]
    for number, one in enumerate(scans):
        for name, values in (("images", one.images[0]), ("labels", one.masks[0])):
            (tmp_path / name).mkdir(exist_ok=True)
            save_mask(tmp_path / name / f"{number}.nii", values, np.diag([number + 1, 2, 1, 1]))
    files = open_volumes(f"nifti:{tmp_path}", n_classes=n_classes)
    stored = stored_on_grid(files, GRID, "source", truth=True)
    assert stored.spacings == files.take().spacings == ((1, 2), (2, 2), (3, 2), (4, 2))
    assert [mask.shape for mask in stored.truth] == shapes
    for kept, one in zip(stored.truth, scans, strict=True):
        np.testing.assert_array_equal(kept, one.masks[0])
    assert stored_on_grid(files, GRID, "source").truth == ()


def test_one_scan_is_held_while_masks_are_kept(folder, monkeypatch):
    held = counted(monkeypatch)
    stored_on_grid(open_volumes(f"nifti:{folder}", n_classes=3), GRID, "source", truth=True)
    assert len(held) == 12
    assert max(held) <= ONE_SCAN


def test_scans_of_other_channels_are_refused(tmp_path):
    (tmp_path / "images").mkdir()
    save_mask(tmp_path / "images" / "a.nii", np.ones((4, 4, 4), int))
    save_mask(tmp_path / "images" / "b.nii", np.ones((4, 4, 4, 2), int))
    with pytest.raises(InvalidArgument, match="channels"):
        stored_on_grid(open_volumes(f"nifti:{tmp_path}"), (4, 4, 4), "source")
    with pytest.raises(InvalidArgument, match="2 dimensions"):
        stored_on_grid(open_volumes(f"nifti:{tmp_path}"), (4, 4), "source")


class Same(BaseEstimator):
    """A teacher that draws its first mask on every query, and a student that learns nothing."""

    def segment_queries(self, shard: Any, queries: Any, **_: Any) -> Any:
        soft = np.moveaxis(np.eye(2, dtype=np.float32)[shard.y[0]], -1, 0)
        return np.stack([soft] * len(queries))

    def fit(self, *_: Any) -> Same:
        return self


def test_scans_are_not_copied_by_a_fit():
    shape = (8000, 16, 16)
    draw = np.random.default_rng(0)
    scans, masks = draw.normal(size=shape).astype(np.float32), draw.integers(2, size=shape)
    masks = masks.astype(np.uint8)
    public = draw.normal(size=(3, 16, 16)).astype(np.float32)
    how = {"n_teachers": 50, "n_classes": 2, "delta": 1e-4, "noise": InsecureNoise(0)}
    model = PATESegmenter(Same(), student=Same(), queries=3, epsilon=8.0, cut="half", **how)
    known = draw.integers(2, size=(20, 16, 16)).astype(np.uint8)
    peaks = []
    for some in (slice(0, 60), slice(0, 60), slice(None)):  # the first time all is imported
        tracemalloc.start()
        model.fit(scans[some], masks[some], public, public_masks=known)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + scans.nbytes / 4, "what is public, and codes, are all that grows"
