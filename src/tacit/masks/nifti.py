"""NIfTI in and out: folders and tar archives as the Medical Segmentation Decathlon has them.

A file is believed only as far as its bytes go: the header's promise is checked against a limit
before anything is read, at most that much is unpacked, and whatever is damaged gives one line that
names the file and never what is in it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._extras import need
from tacit._files import PathLike, write_atomically
from tacit._quiet import quiet
from tacit.datasets import reading
from tacit.errors import InvalidArgument, TacitError

MOST_VOXELS = 2**28
"""The largest volume that is read unless asked otherwise: 1 GiB in float32."""

_SUFFIXES = (".nii.gz", ".nii")
_HEADERS = {348: ("Nifti1Image", "Nifti1Header"), 540: ("Nifti2Image", "Nifti2Header")}
_MOST_OFFSET = 2**20  # bytes of header and extensions before the voxels


class Grid(NamedTuple):
    """The voxels of a file, and the affine from voxel indices to millimetres."""

    values: NDArray[np.float32]
    affine: NDArray[np.float64]


class Entry(NamedTuple):
    """A NIfTI file in a folder or an archive: the folder it lies in, its name, its bytes."""

    folder: str
    name: str
    content: bytes

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return stem_of(self.name) or self.name


def stem_of(name: str) -> str | None:
    """Return a file's name without .nii or .nii.gz; None for other and hidden files.

    >>> stem_of("case_7.nii.gz"), stem_of("._case_7.nii.gz"), stem_of("notes.txt")
    ('case_7', None, None)
    """
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix) and not name.startswith("."):
            return name[: -len(suffix)]
    return None


def entries(path: PathLike) -> Iterator[Entry]:
    """Yield the NIfTI files of a folder (and of its folders) or of a tar, sorted, unpacked never.

    Nothing is extracted to disk, so that no name in an archive can lead outside.
    """
    place = Path(path)
    if place.is_dir():
        for file in sorted(place.glob("*")) + sorted(place.glob("*/*")):
            if stem_of(file.name) and file.is_file():
                with _reading(file, "file"):
                    content = file.read_bytes()
                yield Entry(file.parent.name if file.parent != place else "", file.name, content)
    elif place.is_file():
        yield from _tar_entries(place)
    else:
        raise InvalidArgument(f"Expected a folder or a .tar of NIfTI files at {str(path)!r}.")


def _tar_entries(place: Path) -> Iterator[Entry]:
    with _reading(place, ".tar archive"), tarfile.open(place) as archive:
        members = [m for m in archive if m.isreg() and stem_of(PurePosixPath(m.name).name)]
        for member in sorted(members, key=lambda one: one.name):
            name = PurePosixPath(member.name)
            file = archive.extractfile(member)
            if file is not None:
                yield Entry(name.parent.name, name.name, file.read())


def parse_nifti(content: bytes, name: str, *, most_voxels: int = MOST_VOXELS) -> Grid:
    """Read the bytes of one .nii or .nii.gz as float32; NaN and infinity are refused."""
    nibabel = need_nibabel()
    with _reading(Path(name), "NIfTI file"), quiet():  # nibabel tells of what it repairs
        with _stream(content, name) as stream:
            data = _checked_bytes(nibabel, stream, name, most_voxels)
        image = getattr(nibabel, _HEADERS[_header_size(data)][0]).from_bytes(data)
        values = np.asarray(image.get_fdata(dtype=np.float32))
        affine = np.asarray(image.affine, dtype=np.float64)
        if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
            raise ValueError
    if not np.isfinite(values).all():
        raise InvalidArgument(f"Expected {name!r} to hold finite numbers; it has NaN or infinity.")
    return Grid(values, affine)


def save_mask(path: PathLike, mask: ArrayLike, affine: ArrayLike | None = None) -> None:
    """Write a mask as .nii or .nii.gz with its affine (and so its spacing), whole or not at all.

    Class indices are stored as uint8 (or int16), soft masks as float32. Equal masks give equal
    bytes: no time stands in the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mask.nii.gz"
    ...     save_mask(file, np.eye(3, dtype=int)[None], np.diag([2, 1, 1, 1]))
    ...     parse_nifti(file.read_bytes(), file.name).affine[0, 0]
    np.float64(2.0)
    """
    nibabel = need_nibabel()
    if stem_of(Path(path).name) is None:
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
    if array.dtype.kind != "b" and (array.min() < 0 or array.max() >= 2**15):
        raise InvalidArgument("Expected class indices from 0 to 32767.")
    return array.astype(np.uint8 if array.dtype.kind == "b" or array.max() < 256 else np.int16)


def need_nibabel() -> Any:
    """Return nibabel, or say which extra brings it."""
    return need("nibabel", "for NIfTI files", extra="segmentation")


def _checked_bytes(nibabel: Any, stream: BinaryIO, name: str, most_voxels: int) -> bytes:
    """Read header and voxels, and not one byte more than the header promises within the limit."""
    start = stream.read(348)
    size = _header_size(start)
    start += stream.read(size - len(start))
    header = getattr(nibabel, _HEADERS[size][1]).from_fileobj(io.BytesIO(start))
    shape = tuple(int(side) for side in header.get_data_shape())
    voxels = int(np.prod(shape, dtype=object)) if shape else 0
    if voxels > most_voxels:
        raise InvalidArgument(
            f"Expected {name!r} to have at most {most_voxels} voxels; its header promises more."
        )
    offset = int(header.get_data_offset())
    kind = header.get_data_dtype()
    if voxels < 1 or kind.kind not in "iuf" or not size <= offset <= _MOST_OFFSET:
        raise ValueError
    wanted = offset + voxels * kind.itemsize
    data = start + stream.read(wanted - len(start))
    stream.read(1)  # at the end of its stream, gzip compares the checksum
    if len(data) < wanted:
        raise EOFError
    return data


def _header_size(data: bytes) -> int:
    for size in (int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")):
        if size in _HEADERS and len(data) >= 348:
            return size
    raise ValueError


def _stream(content: bytes, name: str) -> BinaryIO:
    raw = io.BytesIO(content)
    packed = name.lower().endswith(".gz")
    return gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[return-value]


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Translate what nibabel and tarfile raise, too."""
    with reading(path, kind):
        try:
            yield
        except TacitError:
            raise
        except _strangers():
            raise ValueError from None


def _strangers() -> tuple[type[Exception], ...]:
    try:
        from nibabel.filebasedimages import ImageFileError
        from nibabel.spatialimages import HeaderDataError
        from nibabel.wrapstruct import WrapStructError
    except ImportError:
        return (tarfile.TarError,)
    return tarfile.TarError, ImageFileError, HeaderDataError, WrapStructError
