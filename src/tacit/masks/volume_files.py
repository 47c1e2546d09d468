"""Scans and masks in files: NIfTI as the Medical Segmentation Decathlon has it, and .npz archives.

The classes are declared (`n_classes`, or a `dataset.json` beside the scans), never read off private
masks. A header is checked against a limit before anything is read, and no more than it promises is
unpacked; a damaged file gives one line that names the file and never its contents.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least
from tacit._extras import need
from tacit._files import PathLike, write_atomically
from tacit._quiet import quiet
from tacit.datasets import existing_file, open_npz, read_file
from tacit.errors import InvalidArgument
from tacit.masks.volumes import Volumes

MOST_VOXELS = 2**28  # the largest volume that is read unless asked otherwise: 1 GiB in float32
_SUFFIX = re.compile(r"\.nii(\.gz)?$", re.IGNORECASE)
_HEADERS = {348: ("Nifti1Image", "Nifti1Header"), 540: ("Nifti2Image", "Nifti2Header")}
_MOST_OFFSET = 2**20  # bytes of header and extensions before the voxels
_IMAGES = ("imagesTr", "images", "imagesTs", "image", "")
_LABELS = ("labelsTr", "labels", "labelsTs", "label", "masks")
_NPZ_IMAGES, _NPZ_MASKS = ("image", "images", "x"), ("label", "labels", "mask", "masks", "y")
_CHANNEL = re.compile(r"(.+)_(\d{4})$")  # nnU-Net: case_0000, case_0001 are channels of one scan
_CASE = re.compile(r"[\w.+-]{1,200}")
_SAME_PLACE = 1e-2  # millimetres that two affines may differ by and still be one grid


class Grid(NamedTuple):
    """The voxels of a file, and the affine from voxel indices to millimetres."""

    values: NDArray[np.float32]
    affine: NDArray[np.float64]


class NiftiFile(NamedTuple):
    """A NIfTI file in a folder or an archive: its folder, its name, how it is read."""

    folder: str
    name: str
    read: Callable[[], bytes]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return _SUFFIX.sub("", self.name)


def _is_nifti(name: str) -> bool:
    """Return whether a name ends in .nii or .nii.gz and is not hidden.

    >>> _is_nifti("case_7.nii.gz"), _is_nifti("._case_7.nii.gz"), _is_nifti("notes.txt")
    (True, False, False)
    """
    return bool(_SUFFIX.search(name)) and not name.startswith(".")


def _files_in(place: Path) -> Iterator[NiftiFile]:
    """Yield the NIfTI files of a folder tree or a tar, sorted; nothing is extracted to disk."""
    if place.is_dir():
        for file in sorted(place.glob("*")) + sorted(place.glob("*/*")):
            if _is_nifti(file.name) and file.is_file():
                folder = file.parent.name if file.parent != place else ""
                yield NiftiFile(folder, file.name, _Unchanging(file.name, partial(_file, file)))
    elif place.is_file():
        members = read_file(place, ".tar archive", lambda: _members(place))
        for name, member in sorted(members, key=lambda pair: pair[1].name):
            if _is_nifti(name.name):
                read = _Unchanging(name.name, partial(_member, place, member))
                yield NiftiFile(name.parent.name, name.name, read)
    else:
        missing = "" if place.exists() else "; no such folder"
        raise InvalidArgument(
            f"Expected a folder or a .tar of NIfTI files at {str(place)!r}{missing}."
        )


class _Unchanging:
    """Reads a file, and refuses it if a second reading differs: public scans are read twice."""

    def __init__(self, name: str, read: Callable[[], bytes]) -> None:
        self._name, self._read, self._known = name, read, b""

    def __call__(self) -> bytes:
        content = self._read()
        digest = hashlib.blake2b(content, digest_size=32).digest()
        if self._known not in (b"", digest):
            raise InvalidArgument(
                f"Expected {self._name!r} to stay as it was when it was first read; it has "
                "changed. Put it back and run again: what was released is kept."
            )
        self._known = digest
        return content


def _file(path: Path) -> bytes:
    return read_file(path, "file", path.read_bytes)


def _members(place: Path) -> list[tuple[PurePosixPath, tarfile.TarInfo]]:
    with tarfile.open(place) as archive:
        return [(PurePosixPath(one.name), one) for one in archive if one.isreg()]


def _member(place: Path, member: tarfile.TarInfo) -> bytes:
    def read() -> bytes:
        with tarfile.open(place) as archive:
            inside = archive.extractfile(member)
            assert inside is not None  # it is a regular file
            return inside.read()

    return read_file(place, ".tar archive", read)


def parse_nifti(content: bytes, name: str, *, most_voxels: int = MOST_VOXELS) -> Grid:
    """Read the bytes of one .nii or .nii.gz as float32; NaN and infinity are refused.

    Parameters
    ----------
    content : bytes, of the file; no more of it is unpacked than its header promises
    name : str, of the file, for messages; .gz marks it as compressed
    most_voxels : int, a header that promises more is refused before the voxels are read

    Returns
    -------
    Grid, `values`, and the `affine` (4 x 4) from voxel indices to millimetres
    """
    nibabel = _need_nibabel()

    def read() -> Grid:
        raw: Any = io.BytesIO(content)
        with quiet():  # nibabel tells of what it repairs
            with gzip.GzipFile(fileobj=raw) if name.lower().endswith(".gz") else raw as stream:
                data = _checked_bytes(nibabel, stream, name, most_voxels)
            image = getattr(nibabel, _HEADERS[_header_size(data)][0]).from_bytes(data)
            values = np.asarray(image.get_fdata(dtype=np.float32))
            affine = np.asarray(image.affine, dtype=np.float64)
        if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
            raise ValueError
        return Grid(values, affine)

    grid = read_file(name, "NIfTI file", read)
    if not np.isfinite(grid.values).all():
        raise InvalidArgument(f"Expected {name!r} to hold finite numbers; it has NaN or infinity.")
    return grid


def _checked_bytes(nibabel: Any, stream: Any, name: str, most_voxels: int) -> bytes:
    """Read header and voxels, and not one byte more than the header promises within the limit."""
    start: bytes = stream.read(348)
    size = _header_size(start)
    start += stream.read(size - len(start))
    header = getattr(nibabel, _HEADERS[size][1]).from_fileobj(io.BytesIO(start))
    shape = tuple(int(side) for side in header.get_data_shape())
    voxels = int(np.prod(shape, dtype=object)) if shape else 0
    if voxels > most_voxels:
        raise InvalidArgument(
            f"Expected {name!r} to have at most {most_voxels} voxels; its header promises more."
        )
    offset, kind = int(header.get_data_offset()), header.get_data_dtype()
    if voxels < 1 or kind.kind not in "iuf" or not size <= offset <= _MOST_OFFSET:
        raise ValueError
    wanted = offset + voxels * kind.itemsize
    data: bytes = start + stream.read(wanted - len(start))
    stream.read(1)  # at the end of its stream, gzip compares the checksum
    if len(data) < wanted:
        raise EOFError
    return data


def _header_size(data: bytes) -> int:
    for size in (int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")):
        if size in _HEADERS and len(data) >= 348:
            return size
    raise ValueError


def _need_nibabel() -> Any:
    return need("nibabel", "for NIfTI files", extra="segmentation")


def save_mask(path: PathLike, mask: ArrayLike, affine: ArrayLike | None = None) -> None:
    """Write a mask with its affine atomically; equal masks give equal bytes.

    Parameters
    ----------
    path : path, ends in .nii or .nii.gz
    mask : array of shape (*spatial)
        Class indices are stored as uint8 (or int16), soft masks as float32.
    affine : array of shape (4, 4), optional
        From voxel indices to millimetres; the identity by default.
    """
    nibabel = _need_nibabel()
    if not _is_nifti(Path(path).name):
        raise InvalidArgument(f"Expected a path that ends in .nii or .nii.gz, got {str(path)!r}.")
    frame = np.asarray(np.eye(4) if affine is None else affine, dtype=np.float64)
    if frame.shape != (4, 4) or not np.isfinite(frame).all():
        raise InvalidArgument("Expected affine to be a 4 x 4 matrix of finite numbers.")
    image = nibabel.Nifti1Image(_storable(mask), frame)
    image.header.set_xyzt_units("mm")
    data = bytes(image.to_bytes())
    write_atomically(path, gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)


def _storable(mask: ArrayLike) -> NDArray[Any]:
    array = np.asarray(mask)
    if not 2 <= array.ndim <= 7 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"Expected a mask of numbers in two dimensions or more, got shape {array.shape}."
        )
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.min() < 0 or array.max() >= 2**15:
        raise InvalidArgument("Expected class indices from 0 to 32767.")
    return array.astype(np.uint8 if array.max() < 256 else np.int16)


def load_volumes(
    specification: str, *, n_classes: int | None = None, most_voxels: int = MOST_VOXELS
) -> Volumes:
    """Load `nifti:DIR` (a folder or a .tar of .nii, .nii.gz) or `npz:FILE`.

    A folder holds images/ and labels/ (or imagesTr/ and labelsTr/), a mask under its scan's name;
    without labels there are no masks. An archive holds `image` (n, ...) and maybe `label`, `case`,
    `affine`, and `shape`: each volume's true size where they are padded at the end.

    Parameters
    ----------
    specification : str, "nifti:DIR" or "npz:FILE"
    n_classes : int, optional
        Background included. Needed where there are masks, unless a folder's `dataset.json` declares
        it: classes read off private masks would leak.
    most_voxels : int, a NIfTI file whose header promises more is refused; 2^28 by default

    Returns
    -------
    Volumes, scans as float32, with masks where there are any
    """
    return open_volumes(specification, n_classes=n_classes, most_voxels=most_voxels).take()


def open_volumes(
    specification: str, *, n_classes: int | None = None, most_voxels: int = MOST_VOXELS
) -> VolumeFiles:
    """Open what `load_volumes` loads, to read one scan after another.

    Parameters
    ----------
    specification, n_classes, most_voxels : as for `load_volumes`

    Returns
    -------
    VolumeFiles, of a folder or a .tar only names are read yet; an .npz archive is in memory
    """
    kind, _, place = str(specification).partition(":")
    if kind not in ("nifti", "npz") or not place:
        raise InvalidArgument(f"Expected volumes={specification!r} to be nifti:DIR or npz:FILE.")
    limit = at_least(1, most_voxels=most_voxels)
    if kind == "nifti":
        return _open_nifti(Path(place), n_classes, limit)
    held = _load_npz(existing_file(place), n_classes)
    everything = np.arange(len(held))
    return VolumeFiles(
        held.cases,
        held.masks is not None,
        lambda some: held.take(everything if some is None else np.asarray(some, dtype=np.int64)),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VolumeFiles:
    """Scans that are read on access.

    Parameters
    ----------
    cases : tuple of str, the name of each
    has_masks : bool, whether there is a mask beside each
    read : callable, reads those at some indices; all of them for None
    """

    cases: tuple[str, ...]
    has_masks: bool
    read: Callable[[Sequence[int] | None], Volumes]

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Volumes]:
        return (self.read([place]) for place in range(len(self)))

    def take(self, places: ArrayLike | None = None) -> Volumes:
        """Read the volumes at these indices, with their masks.

        Parameters
        ----------
        places : array of int, optional, indices; None for all

        Returns
        -------
        Volumes
        """
        return self.read(None if places is None else np.asarray(places).tolist())


def save_masks(path: PathLike, masks: Sequence[ArrayLike], volumes: Volumes) -> None:
    """Write one mask a volume: a folder of CASE.nii.gz with affines, or one .npz.

    Parameters
    ----------
    path : path, a folder, which is made if it does not exist; or a file that ends in .npz
    masks : sequence of arrays, one a volume, on its own grid
    volumes : Volumes, whose cases and affines the masks get
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


def check_file_names(volumes: Volumes | VolumeFiles) -> None:
    """Raise unless the cases are distinct and valid file names."""
    if not all(_CASE.fullmatch(case) and case[0] != "." for case in volumes.cases):
        raise InvalidArgument("Expected cases that can be file names: letters, digits, . _ + -")
    if len(set(volumes.cases)) != len(volumes):
        raise InvalidArgument("Expected each case once, as the name of its mask.")


def _open_nifti(place: Path, n_classes: int | None, limit: int) -> VolumeFiles:
    found: dict[str, list[NiftiFile]] = {}
    for file in _files_in(place):
        found.setdefault(file.folder, []).append(file)
    images = next((found[name] for name in _IMAGES if name in found), [])
    if not images:
        raise InvalidArgument(
            f"Expected {place.name!r} to hold NIfTI files, or folders images and labels "
            "(imagesTr and labelsTr) of them; there are none."
        )
    labels = {file.stem: file for name in _LABELS for file in found.get(name, [])}
    scans = _by_case(images, labels)
    if labels and not scans.keys() <= labels.keys():
        raise InvalidArgument(
            f"Expected a mask for each scan of {place.name!r}; at least one is missing."
        )
    classes = _declared(place, n_classes, bool(labels))
    cases = tuple(scans)

    def read(some: Sequence[int] | None) -> Volumes:
        chosen = cases if some is None else tuple(cases[place] for place in some)
        grids = {case: _scan(scans[case], limit) for case in chosen}
        masks = tuple(_mask(labels[case], grid, limit) for case, grid in grids.items() if labels)
        values, affines = zip(*(grids[case] for case in chosen), strict=True)
        dimensions = 2 if min(each.ndim for each in values) == 2 else 3
        return Volumes(values, masks if labels else None, chosen, affines, classes, dimensions)

    return VolumeFiles(cases, bool(labels), read)


def _by_case(images: list[NiftiFile], labels: dict[str, NiftiFile]) -> dict[str, list[NiftiFile]]:
    """Group the channels of a scan, where its files are numbered as nnU-Net does.

    Only a file's own name, and whether a mask has it, decide; the other names do not.
    """
    scans: dict[str, list[NiftiFile]] = {}
    for file in images:
        match = None if file.stem in labels else _CHANNEL.fullmatch(file.stem)
        scans.setdefault(match[1] if match else file.stem, []).append(file)
    return scans


def _scan(parts: list[NiftiFile], limit: int) -> Grid:
    grids = [parse_nifti(part.read(), part.name, most_voxels=limit) for part in parts]
    values, affine = grids[0]
    if any(grid.values.shape != values.shape for grid in grids):
        raise InvalidArgument(f"Expected the channels of {parts[0].name!r} to have one shape.")
    if len(grids) > 1:
        return Grid(np.stack([grid.values for grid in grids]), affine)
    if values.ndim > 3 and values.shape[3:] != (1,) * (values.ndim - 3):
        return Grid(np.moveaxis(values, 3, 0), affine)  # a decathlon scan of several channels
    return Grid(values.reshape(values.shape[:3]), affine)


def _mask(file: NiftiFile, grid: Grid, limit: int) -> NDArray[Any]:
    values, affine = parse_nifti(file.read(), file.name, most_voxels=limit)
    if np.abs(affine - grid.affine).max() > _SAME_PLACE:
        raise InvalidArgument(f"Expected the mask {file.name!r} to lie on its scan's grid.")
    return _labels(values.reshape(values.shape[:3]), file.name)


def _labels(values: NDArray[Any], name: str) -> NDArray[Any]:
    if values.size and ((values != np.floor(values)).any() or values.min() < 0):
        raise InvalidArgument(f"Expected the mask {name!r} to hold class indices 0, 1, ...")
    return values.astype(np.int32 if values.size and values.max() >= 256 else np.uint8)


def _declared(place: Path, n_classes: int | None, needed: bool) -> int:
    if n_classes is not None:
        return at_least(2, n_classes=n_classes)
    declaration = place / "dataset.json"
    if needed and declaration.is_file():
        return read_file(
            declaration,
            "dataset.json with labels",
            lambda: max(2, len(dict(json.loads(declaration.read_bytes())["labels"]))),
        )
    if needed:
        raise InvalidArgument(
            f"Expected n_classes for the masks of {place.name!r} (background included): classes "
            "read off private masks could themselves tell something."
        )
    return 2


def _load_npz(path: Path, n_classes: int | None) -> Volumes:
    def everything() -> dict[str, NDArray[Any]]:
        with open_npz(path) as archive:
            return {key.lower(): archive[key] for key in archive.files}

    held = read_file(path, ".npz archive of volumes", everything)
    images = next((held[key] for key in _NPZ_IMAGES if key in held), None)
    masks = next((held[key] for key in _NPZ_MASKS if key in held), None)
    if images is None or images.ndim not in (3, 4, 5) or images.dtype.kind not in "biuf":
        raise InvalidArgument(f"Expected {path.name!r} to hold volumes under the name image.")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise InvalidArgument(f"Expected {path.name!r} to hold finite numbers; it has NaN or inf.")
    dimensions = masks.ndim - 1 if masks is not None else min(images.ndim - 1, 3)
    classes = _declared(path, n_classes, masks is not None)

    def read() -> Volumes:
        crops: list[Any] = [(slice(None),) * dimensions] * len(images)
        if (shapes := held.get("shape")) is not None:
            if shapes.shape != (len(images), dimensions) or shapes.min() < 1:
                raise ValueError
            crops = [tuple(slice(0, int(side)) for side in shape) for shape in shapes]
        truth = None if masks is None else zip(masks, crops, strict=True)
        return Volumes(
            tuple(x[(..., *c)].astype(np.float32) for x, c in zip(images, crops, strict=True)),
            None if truth is None else tuple(_labels(mask[c], path.name) for mask, c in truth),
            tuple(str(case) for case in held["case"]) if "case" in held else (),
            tuple(held["affine"].astype(np.float64)) if "affine" in held else (),
            classes,
            dimensions,
        )

    return read_file(path, ".npz archive of volumes", read)


def _save_npz(path: Path, masks: list[NDArray[Any]], volumes: Volumes) -> None:
    """Pad the masks at the end to one shape; `shape` keeps their true sizes."""
    shapes = np.array([mask.shape for mask in masks])
    rooms = [[(0, room) for room in shapes.max(axis=0) - shape] for shape in shapes]
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        label=np.stack([np.pad(mask, room) for mask, room in zip(masks, rooms, strict=True)]),
        shape=shapes,
        case=np.array(volumes.cases, dtype=np.str_),
        affine=np.stack(volumes.affines),
    )
    write_atomically(path, buffer.getvalue())
