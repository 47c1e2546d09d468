"""One file for a fitted student: a zip of a JSON manifest, plain arrays and, maybe, skops blobs.

No pickle, in either direction. Members are stored uncompressed, so that no small file can unfold
into a large one; each is named in the manifest with its SHA-256. That detects damage, not malice:
whoever can rewrite the file can rewrite the hashes. Public inputs and releases only: nothing
private ever enters this floor.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument

FORMAT = "tacit-student"
VERSION = 1

_MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same student gives the same bytes
_ARRAY_KINDS = "biuf"


def write_container(
    path: PathLike,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    blobs: Mapping[str, bytes],
) -> None:
    """Write manifest, arrays and blobs as one file, whole or not at all."""
    members = {f"{name}.npy": _npy(array) for name, array in arrays.items()} | dict(blobs)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    described = {"format": FORMAT, "version": VERSION, **manifest, "members": hashes}
    try:
        text = json.dumps(described, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"Expected plain data (numbers, words, lists) to save with a student: {error}."
        ) from None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_MANIFEST: text.encode(), **members}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    write_atomically(path, buffer.getvalue())


def read_container(
    path: PathLike,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, bytes]]:
    """Read back what `write_container` wrote; anything else is refused in one line."""
    try:
        manifest, members = _members(Path(path))
        arrays = {
            name.removesuffix(".npy"): _array(data)
            for name, data in members.items()
            if name.endswith(".npy")
        }
    except FileNotFoundError:
        raise InvalidArgument(f"Expected a saved student at {str(path)!r}; no such file.") from None
    except InvalidArgument:
        raise
    except Exception:  # whatever a damaged file provokes: the reader learns that it is damaged
        raise damaged(path) from None
    blobs = {name: data for name, data in members.items() if not name.endswith(".npy")}
    return manifest, arrays, blobs


def damaged(path: PathLike) -> InvalidArgument:
    """Make the error for a file that is not, or no longer, a saved student."""
    return InvalidArgument(
        f"Expected {str(path)!r} to be a saved student; it is damaged, cut short or another file."
    )


def _members(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        stored = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
        if not stored or sum(info.file_size for info in infos) > len(data):
            raise ValueError
        manifest = json.loads(archive.read(_MANIFEST))
        _check_version(path, manifest)
        members = {info.filename: archive.read(info) for info in infos}
    del members[_MANIFEST]
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    if hashes != manifest["members"]:
        raise ValueError
    return manifest, members


def _check_version(path: Path, manifest: Any) -> None:
    if manifest["format"] != FORMAT or not isinstance(manifest["version"], int):
        raise ValueError
    if manifest["version"] > VERSION:
        raise InvalidArgument(
            f"Expected {str(path)!r} to be of version {VERSION} or older, "
            f"got {manifest['version']}; load it with a newer tacit."
        )


def _npy(array: NDArray[Any]) -> bytes:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise InvalidArgument(f"Expected arrays of numbers to save, got dtype {array.dtype}.")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _array(data: bytes) -> NDArray[Any]:
    """Read a .npy whose header promises no more than the file holds."""
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ValueError
    shape, _, dtype = np.lib.format.read_array_header_1_0(buffer)
    if (
        dtype.kind not in _ARRAY_KINDS
        or math.prod(shape) * dtype.itemsize != len(data) - buffer.tell()
    ):
        raise ValueError
    buffer.seek(0)
    return np.asarray(np.lib.format.read_array(buffer, allow_pickle=False))
