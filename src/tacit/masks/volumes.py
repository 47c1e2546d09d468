"""Scans and masks in memory: each on its own grid, or all on one public grid, and generated ones.

Every function processes one volume alone, which keeps one person inside one teacher
(docs/theory.md#words). The grid is public: choose it from what is known of the organ, not from the
private scans. Affine and spacing stay with each volume, to write a mask back onto its scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, non_negative
from tacit.errors import InvalidArgument

PERCENTILES = (0.5, 99.5)  # beyond which an intensity is taken for an artefact
_WAVES = 4  # waves of the organ's surface and of the shading
_BRIGHT = 1.0  # the organ's contrast, in units of which `noise` is given


def resample(values: ArrayLike, shape: Sequence[int]) -> NDArray[np.float32]:
    """Stretch the last axes to `shape` by linear interpolation between the centres of voxels.

    Downwards, each voxel is a weighted mean of all that it covers (a triangle two new voxels wide);
    beyond the outermost centres the border goes on.
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
    """Resample a mask of class indices: each class by itself, then the largest at each voxel."""
    labels = np.asarray(mask)
    if tuple(labels.shape) == tuple(shape):
        return labels
    return most_probable(resample(one_hot(labels, n_classes), shape))


def one_hot(mask: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Return a mask (...) of class indices as (n_classes, ...), 1 where the class is."""
    labels = np.asarray(mask)
    classes = np.arange(at_least(2, n_classes=n_classes)).reshape(-1, *[1] * labels.ndim)
    return np.asarray(labels == classes, dtype=np.float32)


def most_probable(probabilities: ArrayLike, axis: int = 0) -> NDArray[np.uint8]:
    """Return the class (along the axis) that is largest at each voxel."""
    return np.asarray(np.asarray(probabilities).argmax(axis=axis), dtype=np.uint8)


def drawn_on(probabilities: ArrayLike, shape: Sequence[int]) -> NDArray[np.uint8]:
    """Bring a prediction (classes, *grid) onto a scan's own grid: the most probable class there."""
    return most_probable(resample(probabilities, shape))


def holds_classes(masks: NDArray[Any], n_classes: int, kinds: str = "biu") -> bool:
    """Return whether an array holds class indices 0 .. n_classes - 1, at least one.

    >>> holds_classes(np.array([0, 1]), 2), holds_classes(np.array([0.5]), 2)
    (True, False)
    """
    whole = masks.dtype.kind in kinds and masks.size > 0
    return bool(whole and masks.min() >= 0 and masks.max() < n_classes)


def are_classes(masks: NDArray[Any], n_classes: int) -> NDArray[np.bool_]:
    """Return for each mask whether it holds values 0 .. n_classes - 1 only."""
    with np.errstate(invalid="ignore"):
        fits = (masks == np.floor(masks)) & (masks >= 0) & (masks < n_classes)
    return np.asarray(fits.all(axis=tuple(range(1, masks.ndim))))


def normalise(image: ArrayLike, *, dimensions: int | None = None) -> NDArray[np.float32]:
    """Return (clip(x) - mean) / deviation of one volume, by channel; a constant volume becomes 0.

    Clipped to the volume's own 0.5 and 99.5 percentiles; channels are the axes before the last
    `dimensions`.
    """
    array = np.asarray(image, dtype=np.float64)
    if dimensions is not None and array.ndim > dimensions:
        return np.stack([normalise(channel, dimensions=dimensions) for channel in array])
    if not array.size or not np.isfinite(array).all():
        raise InvalidArgument("Expected an image of finite numbers, not empty, to normalise.")
    clipped = array.clip(*np.percentile(array, PERCENTILES))
    spread = float(clipped.std())
    centred = clipped - clipped.mean()
    tiny = 1e-9 * max(1.0, float(np.abs(clipped).max()))  # what rounding leaves of a constant
    return np.asarray(centred / spread if spread > tiny else 0 * centred, dtype=np.float32)


def rescaled_affine(affine: ArrayLike, old: Sequence[int], new: Sequence[int]) -> Any:
    """Return the affine of a resampled volume: voxel edges stay at the same millimetres."""
    factors = np.ones(3)
    factors[: len(old)] = np.asarray(old, dtype=np.float64) / np.asarray(new, dtype=np.float64)
    step = np.diag([*factors, 1.0])
    step[:3, 3] = (factors - 1) / 2
    return np.asarray(affine, dtype=np.float64) @ step


@dataclass(frozen=True, slots=True, eq=False)
class Volumes:
    """Scans, each `(*spatial)` or `(channels, *spatial)`, with masks of class indices, or without.

    Printing shows no scan and no name.

    Parameters
    ----------
    images : tuple of arrays, scans, each on its own grid
    masks : tuple of arrays, optional
        Classes 0 .. n_classes - 1, one mask of its scan's spatial shape each.
    cases : tuple of str, one name a scan; by default they are numbered
    affines : tuple of arrays of shape (4, 4)
        From voxel indices to millimetres, 4 x 4 also in 2D; the identity by default.
    n_classes : int, background included; public
    dimensions : int, 2 or 3, of space: one more axis in front is channels
    """

    images: tuple[NDArray[Any], ...] = field(repr=False)
    masks: tuple[NDArray[Any], ...] | None = field(default=None, repr=False)
    cases: tuple[str, ...] = field(default=(), repr=False)
    affines: tuple[NDArray[Any], ...] = field(default=(), repr=False)
    n_classes: int = 2
    dimensions: int = 3

    def __post_init__(self) -> None:
        count = len(self.images)
        if self.dimensions not in (2, 3):
            raise InvalidArgument(f"Expected dimensions={self.dimensions!r} to be 2 or 3.")
        at_least(2, n_classes=self.n_classes)
        if not self.cases:
            object.__setattr__(self, "cases", tuple(f"case_{i:04d}" for i in range(count)))
        if not self.affines:
            object.__setattr__(self, "affines", tuple(np.eye(4) for _ in range(count)))
        of_each = (self.cases, self.affines, self.images if self.masks is None else self.masks)
        if any(len(each) != count for each in of_each):
            raise InvalidArgument("Expected one mask, case and affine for each image.")
        for image in self.images:
            if image.ndim - self.dimensions not in (0, 1) or 0 in image.shape:
                raise InvalidArgument(
                    f"Expected images of {self.dimensions} dimensions, or one more for channels in "
                    f"front, none of them empty; got {image.ndim}."
                )
        for shape, mask in zip(self.shapes, self.masks or (), strict=False):
            if mask.shape != shape:
                raise InvalidArgument("Expected every mask to have the shape of its image.")
            if not holds_classes(mask, self.n_classes, "iu"):
                raise InvalidArgument(f"Expected masks of class indices 0 .. {self.n_classes - 1}.")

    def __repr__(self) -> str:
        of = f"dimensions={self.dimensions}, n_classes={self.n_classes}"
        return f"Volumes(volumes={len(self)}, {of})"

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The spatial shape of each volume."""
        return tuple(image.shape[-self.dimensions :] for image in self.images)

    @property
    def spacings(self) -> tuple[tuple[float, ...], ...]:
        """The size of each volume's voxels in millimetres: the lengths of its affine's columns."""
        columns = [np.asarray(one, dtype=np.float64)[:3, : self.dimensions] for one in self.affines]
        return tuple(tuple(np.linalg.norm(one, axis=0).tolist()) for one in columns)

    def take(self, rows: slice | ArrayLike) -> Volumes:
        """Return the volumes at these indices, with their masks, cases and affines.

        Parameters
        ----------
        rows : slice or array, indices, or true and false for each volume

        Returns
        -------
        Volumes
        """
        places = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)]
        kept: dict[str, Any] = {
            name: tuple(getattr(self, name)[i] for i in places)
            for name in ("images", "masks", "cases", "affines")
            if getattr(self, name) is not None
        }
        return replace(self, **kept)

    def normalised(self) -> Volumes:
        """Return (x - mean) / deviation, x cut to the volume's own 0.5 and 99.5 percentiles.

        Returns
        -------
        Volumes, each from itself alone
        """
        images = (normalise(image, dimensions=self.dimensions) for image in self.images)
        return replace(self, images=tuple(images))

    def resampled(self, shape: Sequence[int]) -> Volumes:
        """Return the volumes on one public grid; masks by the most probable class.

        Parameters
        ----------
        shape : sequence of int
            Voxels along each side: chosen from what is known of the organ, not from private scans.

        Returns
        -------
        Volumes
        """
        if len(shape) != self.dimensions:
            raise InvalidArgument(f"Expected a shape of {self.dimensions} sides, got {shape}.")
        pairs = zip(self.affines, self.shapes, strict=True)
        masks = self.masks and tuple(
            resample_labels(mask, shape, n_classes=self.n_classes) for mask in self.masks
        )
        return replace(
            self,
            images=tuple(resample(image, shape) for image in self.images),
            masks=masks,
            affines=tuple(rescaled_affine(affine, old, shape) for affine, old in pairs),
        )

    def restored(self, probabilities: Iterable[ArrayLike]) -> tuple[NDArray[np.uint8], ...]:
        """Return the most probable class of each voxel, on each volume's own grid.

        Parameters
        ----------
        probabilities : iterable of arrays of shape (n_classes, *grid)
            One a volume, in order, on a common grid.

        Returns
        -------
        tuple of arrays of uint8
        """
        pairs = zip(probabilities, self.shapes, strict=True)
        return tuple(drawn_on(soft, shape) for soft, shape in pairs)

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None]:
        """Return images and masks of a common grid.

        Returns
        -------
        images : array of float32, shape (n, *grid) or (n, channels, *grid)
        masks : array of uint8, shape (n, *grid), or None
        """
        if len({image.shape for image in self.images}) != 1:
            raise InvalidArgument("Expected volumes of one shape; use resampled(shape) first.")
        masks = None if self.masks is None else np.stack(self.masks).astype(np.uint8)
        return np.stack(self.images).astype(np.float32), masks


def generated_volumes(
    n: int,
    shape: Sequence[int] = (24, 32, 24),
    *,
    n_classes: int = 2,
    noise: float = 0.15,
    seed: int = 0,
) -> Volumes:
    """Make scans of an organ (a bent ellipsoid of `n_classes` - 1 parts) with masks, for tests.

    Parameters
    ----------
    n : int, how many scans
    shape : sequence of int, voxels along each side, 8 at least; 2D or 3D
    n_classes : int, background included
    noise : float, deviation at each voxel, in units of the organ's contrast
    seed : int, volume i depends on it and on i alone

    Returns
    -------
    Volumes
        Intensities are raw, on a scale that differs from scan to scan as a scanner's would:
        normalise them (`Volumes.normalised`).

    Examples
    --------
    >>> scans = generated_volumes(2, (16, 20, 16), n_classes=3)
    >>> scans, [sorted(set(mask.ravel().tolist())) for mask in scans.masks]
    (Volumes(volumes=2, dimensions=3, n_classes=3), [[0, 1, 2], [0, 1, 2]])
    """
    sides = tuple(at_least(8, shape=side) for side in shape)
    if len(sides) not in (2, 3):
        raise InvalidArgument(f"Expected shape={tuple(shape)} to have two or three sides.")
    classes, spread = at_least(2, n_classes=n_classes), non_negative(noise=noise)
    numbers = range(at_least(1, n=n))
    streams = [np.random.default_rng([at_least(0, seed=seed), i]) for i in numbers]
    pairs = [_generated(stream, sides, classes, spread) for stream in streams]
    return Volumes(
        images=tuple(image.astype(np.float32) for image, _ in pairs),
        masks=tuple(mask.astype(np.uint8) for _, mask in pairs),
        cases=tuple(f"generated_{i:03d}" for i in numbers),
        n_classes=classes,
        dimensions=len(sides),
    )


def _generated(
    rng: np.random.Generator, sides: tuple[int, ...], classes: int, noise: float
) -> tuple[Floats, Floats]:
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, side) for side in sides], indexing="ij"))
    bent = grid + 0.06 * np.stack([_waves(rng, grid) for _ in sides])
    place = _turned(rng, bent, rng.uniform(-0.15, 0.15, len(sides)))
    radii = np.array([0.6, 0.4, 0.35])[: len(sides)] * rng.uniform(0.8, 1.2, len(sides))
    scaled = place / radii.reshape(-1, *[1] * len(sides))
    distance = np.sqrt((scaled**2).sum(axis=0))
    part = np.floor((scaled[0] + 1) / 2 * (classes - 1)).clip(0, classes - 2) + 1
    mask = np.where(distance < 1, part, 0)
    # A voxel at the border shows a bit of both sides.
    organ = 1 / (1 + np.exp(8 * (distance - 1)))
    beside = np.exp(-8 * ((place[0] + place[-1] - 0.9) ** 2))
    image = organ * (_BRIGHT + 0.15 * part) + 0.7 * beside + 0.15 * _waves(rng, grid)
    image += noise * rng.normal(size=sides)
    return 10 ** rng.uniform(1, 4) * (image + 2), mask


def _waves(rng: np.random.Generator, grid: Floats) -> Floats:
    """Return a smooth random field of about unit size."""
    field = np.zeros(grid.shape[1:])
    for _ in range(_WAVES):
        direction = rng.normal(size=len(grid)) * 2
        field += np.cos(np.tensordot(direction, grid, 1) + rng.uniform(0, 2 * np.pi))
    return np.asarray(field / np.sqrt(_WAVES / 2))


def _turned(rng: np.random.Generator, grid: Floats, centre: Floats) -> Floats:
    """Move the grid to the organ's own axes: its centre, and a small random rotation."""
    near = np.eye(len(grid)) + 0.2 * rng.normal(size=(len(grid), len(grid)))
    turn, upper = np.linalg.qr(near)
    turn = turn * np.sign(np.diag(upper))  # otherwise an axis may point the other way
    return np.asarray(np.tensordot(turn.T, grid - centre.reshape(-1, *[1] * len(centre)), 1))
