"""IDX files: read as written, and refused in one line when they are anything else."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import read_or_refuse

from tacit.datasets import load_dataset, load_idx, read_idx
from tacit.errors import InvalidArgument

into_one_folder = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 4, 5)).astype(np.uint8)


def write_set(folder: Path, *, gz: bool = False, dot: bool = False) -> Path:
    """Seven training images and three test images, labels 0, 1, 2, ..."""
    for part, n in (("train", 7), ("t10k", 3)):
        for name, array in (("images-idx3", images(n, n)), ("labels-idx1", np.arange(n))):
            stem = f"{part}-{name}-ubyte"
            if dot:
                stem = stem.replace("-idx", ".idx")
            content = idx_bytes(array)
            path = folder / (stem + (".gz" if gz else ""))
            path.write_bytes(gzip.compress(content) if gz else content)
    return folder


@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3), (4, 3, 2), (2, 1, 3, 2)])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_arrays_are_read_as_written(tmp_path, shape, suffix):
    array = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    path = tmp_path / f"file{suffix}"
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if suffix else content)
    np.testing.assert_array_equal(read_idx(path), array)


@pytest.mark.parametrize(
    "options", [{}, {"gz": True}, {"dot": True}, {"dot": True, "gz": True}], ids=str
)
def test_a_folder_is_one_set_with_its_own_split(tmp_path, options):
    data = load_idx(write_set(tmp_path, **options))
    assert data.X.dtype == np.float32
    assert data.image_shape == (4, 5)
    assert data.classes == tuple(range(10))
    assert data.y.tolist() == [*range(7), *range(3)]
    np.testing.assert_allclose(data.train.X, images(7, 7).reshape(7, 20) / 255, rtol=1e-6)
    np.testing.assert_allclose(data.test.X, images(3, 3).reshape(3, 20) / 255, rtol=1e-6)


def test_its_name_is_the_folders_or_the_callers(tmp_path):
    folder = tmp_path / "letters"
    folder.mkdir()
    write_set(folder)
    assert load_idx(folder).name == "letters"
    assert load_idx(str(folder), name="mine").name == "mine"


def test_classes_may_be_declared_otherwise(tmp_path):
    assert load_idx(write_set(tmp_path), classes=26).classes == tuple(range(26))
    with pytest.raises(InvalidArgument, match=r"5 declared classes"):
        load_idx(tmp_path, classes=5)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match=r"'train-images-idx3-ubyte'.*there is none"):
        load_idx(tmp_path)
    write_set(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InvalidArgument, match=r"'t10k-labels-idx1-ubyte'.*there is none"):
        load_idx(tmp_path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("train-images-idx3-ubyte", images(6)),
        ("train-images-idx3-ubyte", np.zeros((7, 20))),
        ("train-images-idx3-ubyte", np.zeros((7, 0, 5))),
        ("train-labels-idx1-ubyte", np.zeros(8)),
        ("train-labels-idx1-ubyte", np.zeros((7, 1))),
        ("t10k-images-idx3-ubyte", np.zeros((3, 5, 4))),
    ],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path, name, array):
    write_set(tmp_path)
    (tmp_path / name).write_bytes(idx_bytes(np.asarray(array)))
    with pytest.raises(InvalidArgument, match=r"^Expected"):
        load_idx(tmp_path)


good = idx_bytes(images(3))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        good[:3],
        good[:7],
        good[:15],
        good[:-1],
        good + b"x",
        b"\x01" + good[1:],
        b"\0\0\x0d" + good[3:],
        b"\0\0\x08\0" + good[4:],
        b"\0\0\x08\x05" + good[4:],
        b"\0\0\x08\xff" + good[4:],
    ],
    ids=repr,
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_damaged_files_are_refused_in_one_line(tmp_path, content, suffix):
    path = tmp_path / f"train-images-idx3-ubyte{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(InvalidArgument, match=r"truncated, damaged or holds something else\.$"):
        read_idx(path)


@pytest.mark.parametrize("share", [0, 0.2, 0.6, 0.95])
def test_gzipped_files_cut_short_are_refused(tmp_path, share):
    path = tmp_path / "images.gz"
    content = gzip.compress(idx_bytes(images(200)))
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InvalidArgument, match=r"truncated"):
        read_idx(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_header_that_claims_terabytes_reserves_no_memory(tmp_path, suffix):
    path = tmp_path / f"images{suffix}"
    content = b"\0\0\x08\x03" + struct.pack(">3I", 2**31, 1000, 1000) + bytes(100)
    path.write_bytes(gzip.compress(content) if suffix else content)
    tracemalloc.start()
    with pytest.raises(InvalidArgument, match=r"truncated"):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("path", ["absent", ".", "", "a\0b", "x" * 5000])
def test_no_file_there(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=r"^Expected a file at"):
        read_idx(path)


@into_one_folder
@given(
    magic=st.one_of(st.binary(max_size=4), st.integers(0, 5).map(lambda n: bytes([0, 0, 8, n]))),
    sizes=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 2**32 - 1)), max_size=5),
    body=st.binary(max_size=40),
    gz=st.booleans(),
)
def test_no_header_raises_anything_but_our_own_error(tmp_path, magic, sizes, body, gz):
    content = magic + struct.pack(f">{len(sizes)}I", *sizes) + body
    path = tmp_path / ("file.gz" if gz else "file")
    path.write_bytes(gzip.compress(content, 1) if gz else content)
    array = read_or_refuse(lambda: read_idx(path))
    assert array is None or idx_bytes(array) == content


@into_one_folder
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=4))
def test_no_damage_to_a_gzipped_file_raises_anything_but_our_own_error(tmp_path, at, blow):
    content = bytearray(gzip.compress(idx_bytes(images(3)), mtime=0))
    place = at % len(content)
    content[place : place + len(blow)] = blow
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    read_or_refuse(lambda: read_idx(path))


@pytest.mark.data
def test_mnist_is_mnist(data_dir):
    data = load_dataset(f"mnist:{data_dir / 'mnist'}")
    assert (len(data.train), len(data.test), data.image_shape) == (60_000, 10_000, (28, 28))
    assert data.train.X.mean() == pytest.approx(0.1307, abs=1e-4)
    assert data.train.X.std() == pytest.approx(0.3081, abs=1e-4)
    assert data.test.y[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
