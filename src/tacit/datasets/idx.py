"""IDX files, the format of MNIST and its relatives: unsigned bytes, plain or gzipped.

A header says how many bytes follow; the reader checks that claim against the file's size before it
reserves any memory, so that a damaged header costs one line and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tacit.datasets._reading import PathLike, existing_file, file_in, open_binary, reading
from tacit.datasets.dataset import Dataset, Label, class_indices, declared_classes
from tacit.errors import InvalidArgument

_UNSIGNED_BYTES = 0x08
_MOST_DIMENSIONS = 4
_BEST_GZIP_RATIO = 1032  # deflate packs at most 258 bytes into two bits


def read_idx(path: PathLike) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes from an IDX file, plain or `.gz`.

    The format: two zero bytes, the type (0x08), the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the bytes. Source: LeCun, Cortes and Burges, the MNIST database.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path).tolist()
    [7, 2, 1]
    """
    found = existing_file(path)
    with reading(found, "IDX file of unsigned bytes"), open_binary(found) as file:
        shape = _read_shape(file)
        expected = math.prod(shape)
        most = found.stat().st_size * (_BEST_GZIP_RATIO if found.suffix == ".gz" else 1)
        if expected > most:
            raise ValueError
        content = file.read(expected + 1)
        if len(content) != expected:
            raise ValueError
        return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _read_shape(file: BinaryIO) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:3] != bytes([0, 0, _UNSIGNED_BYTES]):
        raise ValueError
    dimensions = magic[3]
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise ValueError
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise ValueError
    return tuple(np.frombuffer(sizes, dtype=">u4").tolist())


def load_idx(
    folder: PathLike, *, classes: int | Iterable[Label] = 10, name: str | None = None
) -> Dataset:
    """Load a folder in the manner of MNIST: `train-` and `t10k-` images and labels.

    Pixels become float32 in [0, 1]; the training part comes first (`n_train`). Labels must be among
    the declared classes, 0 .. 9 unless said otherwise.
    """
    train_images, train_labels = _read_part(folder, "train")
    test_images, test_labels = _read_part(folder, "t10k")
    if train_images.shape[1:] != test_images.shape[1:]:
        raise InvalidArgument(f"Expected images of one size in {str(folder)!r}.")
    height, width = train_images.shape[1:]
    images = np.concatenate([train_images, test_images]).reshape(-1, height * width)
    labels = np.concatenate([train_labels, test_labels]).tolist()
    declared = declared_classes(classes)
    return Dataset(
        as_fractions(images),
        class_indices(labels, declared, f"{str(folder)!r}"),
        pixel_names(height, width),
        declared,
        Path(folder).resolve().name if name is None else name,
        (height, width),
        n_train=len(train_images),
    )


def _read_part(folder: PathLike, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images_path = file_in(folder, f"{part}-images-idx3-ubyte", f"{part}-images.idx3-ubyte")
    labels_path = file_in(folder, f"{part}-labels-idx1-ubyte", f"{part}-labels.idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or not images.size or labels.shape != (len(images),):
        raise InvalidArgument(
            f"Expected {images_path.name!r} to hold images and {labels_path.name!r} a label for "
            f"each; got shapes {images.shape} and {labels.shape}."
        )
    return images, labels


def as_fractions(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return bytes 0 .. 255 as fractions 0 .. 1."""
    return pixels.astype(np.float32) / np.float32(255)


def pixel_names(height: int, width: int) -> tuple[str, ...]:
    """Name the features of an image by row and column."""
    return tuple(f"pixel_{y}_{x}" for y in range(height) for x in range(width))
