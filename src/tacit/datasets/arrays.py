"""Arrays in files: IDX, the format of MNIST and its relatives, and NumPy archives.

An IDX file's header says how many bytes follow; the reader checks that claim against the file's
size before it reserves any memory, so that a damaged header costs one line and nothing else. In
archives, pickles are refused and never opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Shape, shape_pair
from tacit._files import PathLike
from tacit.datasets._reading import existing_file, file_in, open_binary, open_npz, reading
from tacit.datasets.dataset import Dataset, Label, class_indices, declared_classes
from tacit.errors import InvalidArgument

_UNSIGNED_BYTES = bytes([0, 0, 0x08])
_MOST_DIMENSIONS = 4
_BEST_GZIP_RATIO = 1032  # deflate packs at most 258 bytes into two bits
_PARTS = ((("x", "y"),), (("x_train", "y_train"), ("x_test", "y_test")))


def read_idx(path: PathLike) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes from an IDX file, plain or `.gz`.

    Parameters
    ----------
    path : path
        The file; one whose size does not agree with its header is refused.

    Returns
    -------
    array of uint8
        In the shape that the header says, of one to four dimensions.

    Notes
    -----
    The format: two zero bytes, the type (0x08), the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the bytes.

    References
    ----------
    LeCun, Cortes and Burges, the MNIST database.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path).tolist()
    [7, 2, 1]
    """
    found = existing_file(path)
    with reading(found, "IDX file of unsigned bytes"), open_binary(found) as file:
        magic = file.read(4)
        if magic[:3] != _UNSIGNED_BYTES or not 1 <= (magic[3:] or b"\0")[0] <= _MOST_DIMENSIONS:
            raise ValueError
        shape = np.frombuffer(file.read(4 * magic[3]), dtype=">u4").tolist()
        expected = math.prod(shape)
        most = found.stat().st_size * (_BEST_GZIP_RATIO if found.suffix == ".gz" else 1)
        if len(shape) < magic[3] or expected > most:
            raise ValueError
        content = file.read(expected + 1)
        if len(content) != expected:
            raise ValueError
        return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def load_idx(
    folder: PathLike, *, classes: int | Iterable[Label] = 10, name: str | None = None
) -> Dataset:
    """Load a folder in the manner of MNIST: `train-` and `t10k-` images and labels.

    Parameters
    ----------
    folder : path
        Where the four files are, plain or `.gz`.
    classes : int or iterable of str or int
        The declared labels, or how many there are; 0 .. 9 by default. Another label is an error.
    name : str, optional
        What the set is called; by default the folder's name.

    Returns
    -------
    Dataset
        Pixels as float32 in [0, 1], a row for each image; the training part comes first
        (`n_train`).
    """
    train_images, train_labels = _read_part(folder, "train")
    test_images, test_labels = _read_part(folder, "t10k")
    height, width = train_images.shape[1:]
    if test_images.shape[1:] != (height, width):
        raise InvalidArgument(f"Expected images of one size in {str(folder)!r}.")
    labels = np.concatenate([train_labels, test_labels]).tolist()
    declared = declared_classes(classes)
    return Dataset(
        _fractions(np.concatenate([train_images, test_images]).reshape(-1, height * width)),
        class_indices(labels, declared, f"{str(folder)!r}"),
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


def _fractions(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    return pixels.astype(np.float32) / np.float32(255)


def load_npz(
    path: PathLike,
    *,
    classes: int | Iterable[Label] | None = None,
    image_shape: Shape | None = None,
    name: str | None = None,
) -> Dataset:
    """Load `x` and `y`, or `x_train y_train x_test y_test`, from an `.npz` (any case).

    Parameters
    ----------
    path : path
        The archive; pickled objects in it are refused.
    classes : int or iterable of str or int, optional
        The declared labels, or how many there are; None where they stand in the archive under
        the name `classes`.
    image_shape : tuple of int, optional
        (height, width) where a row is an image and its array does not say so.
    name : str, optional
        What the set is called; by default the file's name without its ending.

    Returns
    -------
    Dataset
        With a training part where the archive has two parts.

    Notes
    -----
    Inputs are `(records, features)`, or `(records, height, width)` for images; bytes become
    fractions of 255.
    """
    found = existing_file(path)
    with reading(found, ".npz archive of numbers"), open_npz(found) as archive:
        known = {"classes", *(key for parts in _PARTS for pair in parts for key in pair)}
        arrays = {key.lower(): archive[key] for key in archive.files if key.lower() in known}
    parts = _choose_parts(arrays, found)
    if classes is None and "classes" not in arrays:
        raise InvalidArgument(
            f"Expected the classes of {found.name!r} to be declared (classes=...) or to stand in "
            "it under that name; labels read off private data could themselves tell something."
        )
    declared = declared_classes(arrays["classes"].tolist() if classes is None else classes)
    inputs = [_inputs(arrays[x], found) for x, _ in parts]
    if len({x.shape[1:] for x in inputs}) > 1:
        raise InvalidArgument(f"Expected both parts of {found.name!r} to have the same features.")
    X = np.concatenate(inputs)
    shape = _image_shape(X, image_shape)
    labels = np.concatenate([arrays[y].reshape(-1) for _, y in parts])
    return Dataset(
        X.reshape(len(X), -1),
        class_indices(_plain(labels), declared, repr(found.name)),
        declared,
        found.stem if name is None else name,
        shape,
        n_train=len(inputs[0]) if len(parts) > 1 else None,
    )


def _choose_parts(arrays: dict[str, NDArray[Any]], path: Path) -> tuple[tuple[str, str], ...]:
    held = [parts for parts in _PARTS if all({*pair} <= arrays.keys() for pair in parts)]
    if len(held) != 1:
        raise InvalidArgument(
            f"Expected {path.name!r} to hold either x and y, or x_train, y_train, x_test, y_test."
        )
    for x, y in held[0]:
        if arrays[x].ndim not in (2, 3) or not arrays[x].size or arrays[y].size != len(arrays[x]):
            raise InvalidArgument(
                f"Expected {x} of {path.name!r} to be (records, features) or (records, height, "
                f"width) with a label in {y} for each record."
            )
    return held[0]


def _inputs(array: NDArray[Any], path: Path) -> NDArray[Any]:
    if array.dtype == np.uint8:
        return _fractions(array)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InvalidArgument(f"Expected the inputs of {path.name!r} to be finite numbers.")
    return array if array.dtype == np.float32 else array.astype(np.float64)


def _image_shape(X: NDArray[Any], declared: Shape | None) -> Shape | None:
    if declared is None:
        return (X.shape[1], X.shape[2]) if X.ndim == 3 else None
    height, width = shape_pair(image_shape=declared)
    if X.shape[1:] not in ((height, width), (height * width,)):
        raise InvalidArgument(f"Expected images of image_shape={declared}, got {X.shape[1:]}.")
    return height, width


def _plain(labels: NDArray[Any]) -> list[Any]:
    """Labels as Python values; whole floats are integers, as other tools like to save them."""
    if labels.dtype.kind == "f" and (labels == np.floor(labels)).all():
        return [int(label) if np.isfinite(label) else label for label in labels]
    return list(labels.tolist())
