"""Arrays in files: IDX, the format of MNIST and its relatives, and NumPy archives.

An IDX header is compared with the file's size before any memory is reserved. In archives, pickles
are refused and never loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers, Shape, finite, refuse, shape_pair
from tacit._files import PathLike
from tacit.datasets._reading import existing_file, file_in, open_binary, open_npz, read_file
from tacit.datasets.dataset import Dataset, Label, declared_classes
from tacit.errors import InvalidArgument

_UNSIGNED_BYTES = bytes([0, 0, 0x08])
_MOST_DIMENSIONS = 4
_BEST_GZIP_RATIO = 1032  # deflate packs at most 258 bytes into two bits
_PARTS = ((("x", "y"),), (("x_train", "y_train"), ("x_test", "y_test")))


def read_idx(path: PathLike) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes from an IDX file, plain or `.gz`.

    The format: two zero bytes, the type (0x08), the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the bytes (LeCun, Cortes and Burges, the MNIST database).

    Parameters
    ----------
    path : path, refused if its size does not agree with its header

    Returns
    -------
    array of uint8, of one to four dimensions

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
    return read_file(found, "IDX file of unsigned bytes", lambda: _idx_array(found))


def _idx_array(path: Path) -> NDArray[np.uint8]:
    with open_binary(path) as file:
        magic = file.read(4)
        if magic[:3] != _UNSIGNED_BYTES or not 1 <= (magic[3:] or b"\0")[0] <= _MOST_DIMENSIONS:
            raise ValueError
        shape = np.frombuffer(file.read(4 * magic[3]), dtype=">u4").tolist()
        expected = math.prod(shape)
        most = path.stat().st_size * (_BEST_GZIP_RATIO if path.suffix == ".gz" else 1)
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
        Folder of the four files, plain or `.gz`.
    classes : int or iterable of str or int
        The declared labels, or their number; 0 .. 9 by default. Another label is an error.
    name : str, optional
        Name of the set; by default the folder's.

    Returns
    -------
    Dataset
        Pixels as float32 in [0, 1], a row for each image; the training part comes first.
    """
    train_images, train_labels = _read_part(folder, "train")
    test_images, test_labels = _read_part(folder, "t10k")
    height, width = train_images.shape[1:]
    if test_images.shape[1:] != (height, width):
        raise InvalidArgument(f"Expected images of one size in {str(folder)!r}.")
    declared = declared_classes(classes)
    images = np.concatenate([train_images, test_images]).reshape(-1, height * width)
    return Dataset(
        # The format has bytes and nothing else: its scale is no record's doing.
        images.astype(np.float32) / np.float32(255),
        _class_indices(np.concatenate([train_labels, test_labels]), declared, Path(folder)),
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


def load_npz(
    path: PathLike,
    *,
    classes: int | Iterable[Label] | None = None,
    range: Sequence[float] | None = None,
    image_shape: Shape | None = None,
    name: str | None = None,
) -> Dataset:
    """Load `x` and `y`, or `x_train y_train x_test y_test`, from an `.npz` (any case).

    Inputs are `(records, features)`, or `(records, height, width)` for images.

    Parameters
    ----------
    path : path
        The archive; pickled objects in it are refused.
    classes : int or iterable of str or int, optional
        The declared labels, or their number; None where the archive has them as `classes`.
    range : pair of float, optional
        (low, high), the declared range of the inputs, [0, 255] for bytes: they become fractions of
        it as float32, clipped to [0, 1]. Needed for images: no scale is taken from an array's
        type, which one record may have decided. None: numbers stay as they are.
    image_shape : tuple of int, optional
        (height, width) where a row is an image and its array does not say so.
    name : str, optional
        Name of the set; by default the file's without its ending.

    Returns
    -------
    Dataset
        With a training part where the archive has two parts.
    """
    found = existing_file(path)
    arrays = _arrays_in(found)
    parts = _choose_parts(arrays, found)
    if classes is None and "classes" not in arrays:
        raise InvalidArgument(
            f"Expected the classes of {found.name!r} to be declared (classes=...) or to stand in "
            "it under that name; labels read off private data could themselves tell something."
        )
    declared = declared_classes(arrays["classes"].tolist() if classes is None else classes)
    inputs = [arrays[x] for x, _ in parts]
    if len({x.shape[1:] for x in inputs}) > 1:
        raise InvalidArgument(f"Expected both parts of {found.name!r} to have the same features.")
    shape = _image_shape(inputs[0], image_shape)
    if shape is not None and range is None:
        raise InvalidArgument(
            f"Expected range=[low, high] of the images in {found.name!r}, such as [0, 255] for "
            "bytes (in a configuration: range = [0, 255] in [data.options]): an array's type does "
            "not tell it, for one record may have decided the type."
        )
    labels = np.concatenate([arrays[y].reshape(-1) for _, y in parts])
    return Dataset(
        np.concatenate([_scaled(_rows_in(x, found), range) for x in inputs]),
        _class_indices(labels, declared, found),
        declared,
        found.stem if name is None else name,
        shape,
        n_train=len(inputs[0]) if len(parts) > 1 else None,
    )


def _arrays_in(path: Path) -> dict[str, NDArray[Any]]:
    known = {"classes", *(key for parts in _PARTS for pair in parts for key in pair)}

    def read() -> dict[str, NDArray[Any]]:
        with open_npz(path) as archive:
            return {key.lower(): archive[key] for key in archive.files if key.lower() in known}

    return read_file(path, ".npz archive of numbers", read)


def npz_row_ids(path: PathLike, rule: int) -> NDArray[np.bytes_]:
    """Return a hash of each row as stored in an archive; by rule 1 as 0.2 scaled it. Secret."""
    from tacit.teachers import record_ids

    found = existing_file(path)
    arrays = _arrays_in(found)
    inputs = [arrays[x] for x, _ in _choose_parts(arrays, found)]
    if rule == 1 and all(x.dtype == np.uint8 for x in inputs):
        inputs = [x.astype(np.float32) / np.float32(255) for x in inputs]
    return record_ids(np.concatenate([_rows_in(x, found) for x in inputs]))


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


def _rows_in(array: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return rows of numbers; single precision stays as it is stored."""
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InvalidArgument(f"Expected the inputs of {path.name!r} to be finite numbers.")
    rows = array.reshape(len(array), -1)
    return rows if rows.dtype == np.float32 else rows.astype(np.float64)


def _scaled(rows: NDArray[Any], declared: Sequence[float] | None) -> NDArray[Any]:
    """Return fractions of the declared range, each number by itself."""
    if declared is None:
        return rows
    if not isinstance(declared, list | tuple) or len(declared) != 2:
        raise refuse("range", declared, "two numbers, [low, high]")
    low, high = finite(range=declared[0]), finite(range=declared[1])
    if not low < high:
        raise refuse("range", declared, "[low, high] with low below high")
    # As float64 first: in single precision the same number would round otherwise.
    fractions = (rows.astype(np.float64) - low) / (high - low)
    return fractions.clip(0, 1).astype(np.float32)


def _image_shape(X: NDArray[Any], declared: Shape | None) -> Shape | None:
    if declared is None:
        return (X.shape[1], X.shape[2]) if X.ndim == 3 else None
    height, width = shape_pair(image_shape=declared)
    if X.shape[1:] not in ((height, width), (height * width,)):
        raise InvalidArgument(f"Expected images of image_shape={declared}, got {X.shape[1:]}.")
    return height, width


def _class_indices(labels: NDArray[Any], classes: tuple[Label, ...], path: Path) -> Integers:
    """Return the index of each label; an undeclared one is refused and never quoted."""
    from tacit.records import Labels

    places, fits = Labels(classes).read(labels)
    if not fits.all():
        raise InvalidArgument(
            f"Expected every label of {path.name!r} to be one of the {len(classes)} declared "
            "classes; at least one is not."
        )
    return places
