"""Scans and masks in memory, each on its own grid, and what loads and saves them.

`load_volumes("nifti:DIR")` reads folders as the Medical Segmentation Decathlon and nnU-Net lay them
out (also inside a .tar), `load_volumes("npz:FILE")` an archive of arrays. Affine and spacing stay
with each volume, so that a mask can be written back onto the scan that it belongs to. The classes
are declared (`n_classes`, or a `dataset.json` beside the scans), never read off private masks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, non_negative
from tacit._files import PathLike
from tacit.datasets import existing_file, open_npz, reading
from tacit.errors import InvalidArgument
from tacit.masks.grids import (
    most_probable,
    normalise,
    resample,
    resample_labels,
    rescaled_affine,
    spacing_of,
)
from tacit.masks.nifti import MOST_VOXELS, Entry, Grid, entries, parse_nifti, save_mask

_IMAGES = ("imagesTr", "images", "imagesTs", "image", "")
_LABELS = ("labelsTr", "labels", "labelsTs", "label", "masks")
_NPZ_IMAGES, _NPZ_MASKS = ("image", "images", "x"), ("label", "labels", "mask", "masks", "y")
_CHANNEL = re.compile(r"(.+)_(\d{4})$")  # nnU-Net: case_0000, case_0001 are channels of one scan
_CASE = re.compile(r"[\w.+-]{1,200}")
_SAME_PLACE = 1e-2  # millimetres that two affines may differ by and still be one grid
_WAVES = 4  # waves of the organ's surface and of the shading
_BRIGHT = 1.0  # the organ's contrast, in units of which `noise` is given


@dataclass(frozen=True, slots=True, eq=False)
class Volumes:
    """Scans, each `(*spatial)` or `(channels, *spatial)`, with masks of class indices, or without.

    `cases` name them, one name a scan; `affines` lead from voxel indices to millimetres (4 x 4,
    also in 2D). Printing shows no scan and no name.

    >>> Volumes((np.zeros((4, 5, 6)),), masks=(np.zeros((4, 5, 6), int),), n_classes=2)
    Volumes(volumes=1, dimensions=3, n_classes=2)
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
        if {len(self.cases), len(self.affines), count} != {count} or (
            self.masks is not None and len(self.masks) != count
        ):
            raise InvalidArgument("Expected one mask, case and affine for each image.")
        for image in self.images:
            self._check_image(image)
        if self.masks is not None:
            for image, mask in zip(self.images, self.masks, strict=True):
                self._check_mask(image, mask)

    def _check_image(self, image: NDArray[Any]) -> None:
        if image.ndim not in (self.dimensions, self.dimensions + 1) or 0 in image.shape:
            raise InvalidArgument(
                f"Expected images of {self.dimensions} dimensions, or one more for channels in "
                f"front, none of them empty; got {image.ndim}."
            )

    def _check_mask(self, image: NDArray[Any], mask: NDArray[Any]) -> None:
        if mask.shape != image.shape[-self.dimensions :]:
            raise InvalidArgument("Expected every mask to have the shape of its image.")
        if mask.dtype.kind not in "iu" or mask.min() < 0 or mask.max() >= self.n_classes:
            raise InvalidArgument(f"Expected masks of class indices 0 .. {self.n_classes - 1}.")

    def __repr__(self) -> str:
        return (
            f"Volumes(volumes={len(self)}, dimensions={self.dimensions}, "
            f"n_classes={self.n_classes})"
        )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The spatial shape of each volume."""
        return tuple(image.shape[-self.dimensions :] for image in self.images)

    @property
    def spacings(self) -> tuple[tuple[float, ...], ...]:
        """The size of each volume's voxels, in millimetres."""
        return tuple(spacing_of(affine, self.dimensions) for affine in self.affines)

    def take(self, rows: slice | ArrayLike) -> Volumes:
        """Return the volumes at these places."""
        places = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)]
        return replace(
            self,
            images=tuple(self.images[i] for i in places),
            masks=None if self.masks is None else tuple(self.masks[i] for i in places),
            cases=tuple(self.cases[i] for i in places),
            affines=tuple(self.affines[i] for i in places),
        )

    def normalised(self) -> Volumes:
        """Return the volumes with intensities on one scale, each from itself alone."""
        return replace(
            self, images=tuple(normalise(x, dimensions=self.dimensions) for x in self.images)
        )

    def resampled(self, shape: Sequence[int]) -> Volumes:
        """Return the volumes on one public grid; masks by the most probable class."""
        pairs = zip(self.affines, self.shapes, strict=True)
        masks = self.masks and tuple(
            resample_labels(mask, shape, n_classes=self.n_classes) for mask in self.masks
        )
        return replace(
            self,
            images=tuple(resample(image, self._target(shape)) for image in self.images),
            masks=masks,
            affines=tuple(rescaled_affine(affine, old, shape) for affine, old in pairs),
        )

    def _target(self, shape: Sequence[int]) -> tuple[int, ...]:
        if len(shape) != self.dimensions:
            raise InvalidArgument(f"Expected a shape of {self.dimensions} sides, got {shape}.")
        return tuple(shape)

    def restored(self, probabilities: Iterable[ArrayLike]) -> tuple[NDArray[np.uint8], ...]:
        """Bring predictions `(classes, *grid)` on a common grid back to each volume's own."""
        pairs = zip(probabilities, self.shapes, strict=True)
        return tuple(most_probable(resample(soft, shape)) for soft, shape in pairs)

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None]:
        """Return images `(n, [channels,] *grid)` and masks `(n, *grid)` of a common grid."""
        if len({image.shape for image in self.images}) != 1:
            raise InvalidArgument("Expected volumes of one shape; use resampled(shape) first.")
        masks = None if self.masks is None else np.stack(self.masks).astype(np.uint8)
        return np.stack(self.images).astype(np.float32), masks


def load_volumes(
    specification: str, *, n_classes: int | None = None, most_voxels: int = MOST_VOXELS
) -> Volumes:
    """Load `nifti:DIR` (a folder or a .tar of .nii, .nii.gz) or `npz:FILE`.

    A folder holds images/ and labels/ (or imagesTr/ and labelsTr/), a mask under its scan's name;
    without labels there are no masks. An archive holds `image` (n, ...) and maybe `label`, `case`,
    `affine`, and `shape`: each volume's true size where they are padded at the end. `n_classes`
    counts the background too; a folder's `dataset.json` may declare it instead.
    """
    kind, colon, place = str(specification).partition(":")
    if kind not in ("nifti", "npz") or not colon or not place:
        raise InvalidArgument(f"Expected volumes={specification!r} to be nifti:DIR or npz:FILE.")
    limit = at_least(1, most_voxels=most_voxels)
    if kind == "npz":
        return _load_npz(existing_file(place), n_classes)
    return _load_nifti(Path(place), n_classes, limit)


def save_masks(path: PathLike, masks: Sequence[ArrayLike], volumes: Volumes) -> None:
    """Write one mask a volume: a folder of CASE.nii.gz with affines kept, or one .npz.

    >>> import tempfile
    >>> scans = Volumes((np.zeros((4, 5, 6)),), cases=("one",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_masks(f"{folder}/out", [np.ones((4, 5, 6), int)], scans)
    ...     load_volumes(f"nifti:{folder}/out").cases
    ('one',)
    """
    if len(masks) != len(volumes):
        raise InvalidArgument(f"Expected {len(volumes)} masks, one a volume, got {len(masks)}.")
    if str(path).endswith(".npz"):
        _save_npz(Path(path), [np.asarray(mask) for mask in masks], volumes)
        return
    check_file_names(volumes)
    Path(path).mkdir(parents=True, exist_ok=True)
    for mask, case, affine in zip(masks, volumes.cases, volumes.affines, strict=True):
        save_mask(Path(path) / f"{case}.nii.gz", mask, affine)


def check_file_names(volumes: Volumes) -> None:
    """Raise unless every case can be a file's name and no two are one."""
    if not all(_CASE.fullmatch(case) and case[0] != "." for case in volumes.cases):
        raise InvalidArgument("Expected cases that can be file names: letters, digits, . _ + -")
    if len(set(volumes.cases)) != len(volumes):
        raise InvalidArgument("Expected each case once, as the name of its mask.")


def _load_nifti(place: Path, n_classes: int | None, limit: int) -> Volumes:
    found: dict[str, list[Entry]] = {}
    for entry in entries(place):
        found.setdefault(entry.folder, []).append(entry)
    images = next((found[name] for name in _IMAGES if name in found), [])
    if not images:
        raise InvalidArgument(
            f"Expected {place.name!r} to hold NIfTI files, or folders images and labels "
            "(imagesTr and labelsTr) of them; there are none."
        )
    labels = {e.stem: e for name in _LABELS for e in found.get(name, [])}
    scans = _by_case(images, labels)
    if labels and not scans.keys() <= labels.keys():
        raise InvalidArgument(
            f"Expected a mask for each scan of {place.name!r}; at least one is missing."
        )
    classes = _declared(place, n_classes, bool(labels))
    grids = {case: _scan(parts, limit) for case, parts in scans.items()}
    dimensions = min(grid.values.ndim for grid in grids.values())
    dimensions = 2 if dimensions == 2 else 3
    masks = tuple(_mask(labels[case], grid, limit) for case, grid in grids.items() if labels)
    return Volumes(
        tuple(grid.values for grid in grids.values()),
        masks if labels else None,
        tuple(grids),
        tuple(grid.affine for grid in grids.values()),
        classes,
        dimensions,
    )


def _by_case(images: list[Entry], labels: dict[str, Entry]) -> dict[str, list[Entry]]:
    """Group the channels of a scan, where files are numbered as nnU-Net does."""
    numbered = [_CHANNEL.fullmatch(entry.stem) for entry in images]
    split = all(numbered) and not any(entry.stem in labels for entry in images)
    scans: dict[str, list[Entry]] = {}
    for entry, match in zip(images, numbered, strict=True):
        scans.setdefault(match[1] if split and match else entry.stem, []).append(entry)
    return scans


def _scan(parts: list[Entry], limit: int) -> Grid:
    grids = [parse_nifti(part.content, part.name, most_voxels=limit) for part in parts]
    values, affine = grids[0]
    if any(grid.values.shape != values.shape for grid in grids):
        raise InvalidArgument(f"Expected the channels of {parts[0].name!r} to have one shape.")
    if len(grids) > 1:
        return Grid(np.stack([grid.values for grid in grids]), affine)
    if values.ndim > 3 and values.shape[3:] != (1,) * (values.ndim - 3):
        return Grid(np.moveaxis(values, 3, 0), affine)  # a decathlon scan of several channels
    return Grid(values.reshape(values.shape[:3]) if values.ndim > 3 else values, affine)


def _mask(entry: Entry, grid: Grid, limit: int) -> NDArray[Any]:
    values, affine = parse_nifti(entry.content, entry.name, most_voxels=limit)
    if np.abs(affine - grid.affine).max() > _SAME_PLACE:
        raise InvalidArgument(f"Expected the mask {entry.name!r} to lie on its scan's grid.")
    return _labels(values.reshape(values.shape[:3]) if values.ndim > 3 else values, entry.name)


def _labels(values: NDArray[Any], name: str) -> NDArray[Any]:
    if values.size and ((values != np.floor(values)).any() or values.min() < 0):
        raise InvalidArgument(f"Expected the mask {name!r} to hold class indices 0, 1, ...")
    return values.astype(np.int32 if values.size and values.max() >= 256 else np.uint8)


def _declared(place: Path, n_classes: int | None, needed: bool) -> int:
    if n_classes is not None:
        return at_least(2, n_classes=n_classes)
    declaration = place / "dataset.json"
    if needed and declaration.is_file():
        with reading(declaration, "dataset.json with labels"):
            return max(2, len(dict(json.loads(declaration.read_bytes())["labels"])))
    if needed:
        raise InvalidArgument(
            f"Expected n_classes for the masks of {place.name!r} (background included): classes "
            "read off private masks could themselves tell something."
        )
    return 2


def _load_npz(path: Path, n_classes: int | None) -> Volumes:
    with reading(path, ".npz archive of volumes"), open_npz(path) as archive:
        held = {key.lower(): archive[key] for key in archive.files}
    images = next((held[key] for key in _NPZ_IMAGES if key in held), None)
    masks = next((held[key] for key in _NPZ_MASKS if key in held), None)
    if images is None or images.ndim not in (3, 4, 5) or images.dtype.kind not in "biuf":
        raise InvalidArgument(f"Expected {path.name!r} to hold volumes under the name image.")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise InvalidArgument(f"Expected {path.name!r} to hold finite numbers; it has NaN or inf.")
    dimensions = masks.ndim - 1 if masks is not None else min(images.ndim - 1, 3)
    classes = _declared(path, n_classes, masks is not None)
    with reading(path, ".npz archive of volumes"):
        crops = _crops(held.get("shape"), len(images), dimensions)
        return Volumes(
            tuple(x[(..., *c)].astype(np.float32) for x, c in zip(images, crops, strict=True)),
            None if masks is None else _npz_masks(masks, crops, path),
            tuple(str(case) for case in held["case"]) if "case" in held else (),
            tuple(held["affine"].astype(np.float64)) if "affine" in held else (),
            classes,
            dimensions,
        )


def _npz_masks(masks: NDArray[Any], crops: list[Any], path: Path) -> tuple[NDArray[Any], ...]:
    return tuple(_labels(y[c], path.name) for y, c in zip(masks, crops, strict=True))


def _crops(shapes: NDArray[Any] | None, count: int, dimensions: int) -> list[tuple[slice, ...]]:
    if shapes is None:
        return [(slice(None),) * dimensions] * count
    if shapes.shape != (count, dimensions) or shapes.min() < 1:
        raise ValueError
    return [tuple(slice(0, int(side)) for side in shape) for shape in shapes]


def _save_npz(path: Path, masks: list[NDArray[Any]], volumes: Volumes) -> None:
    """Pad the masks at the end to one shape; `shape` keeps their true sizes."""
    import io

    from tacit._files import write_atomically

    shapes = np.array([mask.shape for mask in masks])
    largest = shapes.max(axis=0)
    padded = [np.pad(m, [(0, b - a) for a, b in zip(m.shape, largest, strict=True)]) for m in masks]
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        label=np.stack(padded),
        shape=shapes,
        case=np.array(volumes.cases, dtype=np.str_),
        affine=np.stack(volumes.affines),
    )
    write_atomically(path, buffer.getvalue())


def generated_volumes(
    n: int,
    shape: Sequence[int] = (24, 32, 24),
    *,
    n_classes: int = 2,
    noise: float = 0.15,
    seed: int = 0,
) -> Volumes:
    """Make n scans of the given shape (2D or 3D) with masks of n_classes (0 is background).

    An organ is an ellipsoid, bent and wrinkled a little, near the middle; its classes lie one
    behind the other along its longest axis. The scan shows it with a coil's shading, a second
    structure beside it, and noise. So tests and newcomers need nobody's data.

    Volume i depends on the seed and on i alone. Intensities are raw, on a scale that differs from
    scan to scan as a scanner's would: normalise them (`Volumes.normalised`).

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
    pairs = [_phantom(stream, sides, classes, spread) for stream in streams]
    return Volumes(
        images=tuple(image.astype(np.float32) for image, _ in pairs),
        masks=tuple(mask.astype(np.uint8) for _, mask in pairs),
        cases=tuple(f"generated_{i:03d}" for i in numbers),
        n_classes=classes,
        dimensions=len(sides),
    )


def _phantom(
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
    """Move the grid to the organ's own axes: its centre, and a small random turn."""
    near = np.eye(len(grid)) + 0.2 * rng.normal(size=(len(grid), len(grid)))
    turn, upper = np.linalg.qr(near)
    turn = turn * np.sign(np.diag(upper))  # otherwise an axis may point the other way
    return np.asarray(np.tensordot(turn.T, grid - centre.reshape(-1, *[1] * len(centre)), 1))
