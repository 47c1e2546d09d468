"""NumPy archives of inputs and labels, in one part or in a training and a test part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.datasets._reading import PathLike, existing_file, open_npz, reading
from tacit.datasets.dataset import Dataset, Label, class_indices, declared_classes
from tacit.datasets.idx import as_fractions, pixel_names
from tacit.errors import InvalidArgument
from tacit.features._shapes import Shape, shape_pair

_ONE_PART = (("x", "y"),)
_TWO_PARTS = (("x_train", "y_train"), ("x_test", "y_test"))


def load_npz(
    path: PathLike,
    *,
    classes: int | Iterable[Label] | None = None,
    image_shape: Shape | None = None,
    name: str | None = None,
) -> Dataset:
    """Load `x` and `y`, or `x_train y_train x_test y_test`, from an `.npz` (any case).

    Inputs are `(records, features)`, or `(records, height, width)` for images; bytes become
    fractions of 255. The labels' classes are declared by `classes`, or stand in the archive under
    that name. Pickled objects are refused.
    """
    found = existing_file(path)
    with reading(found, ".npz archive of numbers"):
        arrays = _read_arrays(found)
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
        pixel_names(*shape) if shape else tuple(f"x{k}" for k in range(X.shape[1])),
        declared,
        found.stem if name is None else name,
        shape,
        n_train=len(inputs[0]) if len(parts) > 1 else None,
    )


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    wanted = {key for pair in (*_ONE_PART, *_TWO_PARTS) for key in pair} | {"classes"}
    with open_npz(path) as archive:
        keys = [key for key in archive.files if key.lower() in wanted]
        return {key.lower(): archive[key] for key in keys}


def _choose_parts(arrays: dict[str, NDArray[Any]], path: Path) -> tuple[tuple[str, str], ...]:
    held = [
        parts
        for parts in (_ONE_PART, _TWO_PARTS)
        if all({*pair} <= arrays.keys() for pair in parts)
    ]
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
        return as_fractions(array)
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
