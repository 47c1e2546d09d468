"""Volumes of any size on one public grid and back, and intensities on one scale.

Every function looks at one volume alone: nothing learned from one person's scan touches another's,
which is what keeps one person inside one teacher (docs/theory.md#words). The grid is public: choose
it from what is known of the organ, not from the private scans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least
from tacit.errors import InvalidArgument

_LOW, _HIGH = 0.5, 99.5  # percentiles beyond which an intensity is taken for an artefact


def resample(values: ArrayLike, shape: Sequence[int]) -> NDArray[np.float32]:
    """Stretch the last axes to `shape` by linear interpolation between the centres of voxels.

    Where there are fewer voxels than before, each is a weighted mean of all that it covers (a
    triangle as wide as two new voxels), so that fine detail is averaged, not skipped. Beyond the
    outermost centres the border goes on.

    >>> resample([0.0, 1.0], (4,)).tolist()
    [0.0, 0.25, 0.75, 1.0]
    >>> resample([0.0, 0.0, 8.0, 8.0], (2,)).round().tolist()
    [1.0, 7.0]
    """
    array = np.asarray(values, dtype=np.float32)
    target = tuple(at_least(1, shape=side) for side in shape)
    if not target or array.ndim < len(target) or 0 in array.shape:
        raise InvalidArgument(
            f"Expected an array of at least {len(target)} dimensions, not empty, to resample to "
            f"{target}, got shape {array.shape}."
        )
    for axis, side in zip(range(-len(target), 0), target, strict=True):
        if array.shape[axis] != side:
            mixed = np.tensordot(array, _interpolation(array.shape[axis], side), (axis, 1))
            array = np.moveaxis(mixed, -1, axis)
    return np.ascontiguousarray(array)


def _interpolation(old: int, new: int) -> NDArray[np.float32]:
    """Return the matrix (new, old) of the interpolation along one axis; its rows sum to 1."""
    scale = old / new
    centres = (np.arange(new) + 0.5) * scale - 0.5
    if scale <= 1:
        centres = centres.clip(0, old - 1)
    distance = np.abs(centres[:, None] - np.arange(old)) / max(1.0, scale)
    weights = np.maximum(0.0, 1.0 - distance)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def resample_labels(mask: ArrayLike, shape: Sequence[int], *, n_classes: int) -> NDArray[Any]:
    """Resample a mask of class indices: each class by itself, then the largest at each voxel.

    >>> resample_labels([0, 0, 2, 2], (2,), n_classes=3).tolist()
    [0, 2]
    """
    labels = np.asarray(mask)
    if tuple(labels.shape) == tuple(shape):
        return labels
    return most_probable(resample(one_hot(labels, n_classes), shape))


def one_hot(mask: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Return a mask (...) of class indices as (n_classes, ...), 1 where the class is.

    >>> one_hot([0, 1], 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    labels = np.asarray(mask)
    classes = np.arange(at_least(2, n_classes=n_classes)).reshape(-1, *[1] * labels.ndim)
    return np.asarray(labels == classes, dtype=np.float32)


def most_probable(probabilities: ArrayLike) -> NDArray[np.uint8]:
    """Return the class (first axis) that is largest at each voxel.

    >>> most_probable([[0.6, 0.2], [0.4, 0.8]]).tolist()
    [0, 1]
    """
    return np.asarray(np.asarray(probabilities).argmax(axis=0), dtype=np.uint8)


def normalise(image: ArrayLike, *, dimensions: int | None = None) -> NDArray[np.float32]:
    """Put one volume's intensities on a common scale, from that volume alone.

    x -> (clip(x) - mean) / standard deviation, clipped to the volume's own 0.5 and 99.5
    percentiles. With `dimensions` given, the axes before the last so many are channels, each with
    its own scale. A volume of one value becomes 0.

    >>> normalise([[0.0, 0.0], [4.0, 4.0]]).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    array = np.asarray(image, dtype=np.float64)
    if dimensions is not None and array.ndim > dimensions:
        parts = [normalise(channel, dimensions=dimensions) for channel in array]
        return np.stack(parts)
    if not array.size or not np.isfinite(array).all():
        raise InvalidArgument("Expected an image of finite numbers, not empty, to normalise.")
    clipped = array.clip(*np.percentile(array, [_LOW, _HIGH]))
    spread = float(clipped.std())
    centred = clipped - clipped.mean()
    tiny = 1e-9 * max(1.0, float(np.abs(clipped).max()))  # what rounding leaves of a constant
    return np.asarray(centred / spread if spread > tiny else 0 * centred, dtype=np.float32)


def rescaled_affine(affine: ArrayLike, old: Sequence[int], new: Sequence[int]) -> Any:
    """Return the affine of a resampled volume: voxel edges stay where they were in the room.

    >>> rescaled_affine(np.eye(4), (4, 4, 4), (2, 4, 4))[0].tolist()
    [2.0, 0.0, 0.0, 0.5]
    """
    scale, shift = np.ones(3), np.zeros(3)
    factors = np.asarray(old, dtype=np.float64) / np.asarray(new, dtype=np.float64)
    scale[: len(factors)] = factors
    shift[: len(factors)] = (factors - 1) / 2
    step = np.diag([*scale, 1.0])
    step[:3, 3] = shift
    return np.asarray(affine, dtype=np.float64) @ step


def spacing_of(affine: ArrayLike, dimensions: int) -> tuple[float, ...]:
    """Return the size of a voxel along each axis: the lengths of the affine's columns.

    >>> spacing_of(np.diag([1, 2, 3, 1]), 3)
    (1.0, 2.0, 3.0)
    """
    columns = np.asarray(affine, dtype=np.float64)[:3, :dimensions]
    return tuple(float(length) for length in np.sqrt((columns**2).sum(axis=0)))
