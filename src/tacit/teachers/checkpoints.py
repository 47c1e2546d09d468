"""Teachers that have finished stay finished: their answers on disk, whole or absent.

The answers are SECRET: files have mode 0600, the directory 0700. Each answer is kept with the hash
of all that it follows from; after a change of config, records, seed or queries it is not used.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument

_SECONDS = 1.0  # work that a crash of the whole run may lose; a file a teacher would cost more


class NoCheckpoints:
    """Keeps nothing: a run that is stopped begins anew."""

    found: Mapping[int, NDArray[Any]] = MappingProxyType({})

    def add(self, number: int, predictions: NDArray[Any]) -> None:
        """Forget it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to write."""


class Checkpoints(NoCheckpoints):
    """A directory of finished teachers' answers; `found` are those of the same fingerprints.

    >>> import tempfile
    >>> hashes = {7: "of config, shard, seed and queries", 8: "of another shard"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Checkpoints(folder, hashes) as kept:
    ...         kept.add(7, np.array([1, 0], dtype=np.uint8))
    ...     Checkpoints(folder, hashes).found
    {7: array([1, 0], dtype=uint8)}
    """

    def __init__(self, directory: PathLike, fingerprints: Mapping[int, str]) -> None:
        self._directory = Path(directory)
        self._fingerprints = dict(fingerprints)
        self._waiting: dict[int, NDArray[Any]] = {}
        self._written_at = time.monotonic()
        _private_directory(self._directory)
        self.found = self._load()

    def _load(self) -> dict[int, NDArray[Any]]:
        found: dict[int, NDArray[Any]] = {}
        for path in sorted(self._directory.glob("teachers-*.npz")):
            for number, fingerprint, row in zip(*_read(path), strict=False):
                if self._fingerprints.get(int(number)) == str(fingerprint):
                    found[int(number)] = row
        return found

    def add(self, number: int, predictions: NDArray[Any]) -> None:
        """Keep one teacher's answers; they are on disk within a second or at the end."""
        self._waiting[number] = predictions
        if time.monotonic() - self._written_at >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting to a new file, in one step."""
        if self._waiting:
            numbers = sorted(self._waiting)
            hashes = [self._fingerprints[number] for number in numbers]
            name = f"teachers-{numbers[0]:06d}-{hashes[0][:16]}.npz"
            rows = np.array([self._waiting[number] for number in numbers])
            write_atomically(self._directory / name, _archive(numbers, hashes, rows), mode=0o600)
            self._waiting.clear()
        self._written_at = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.flush()


def _archive(numbers: list[int], hashes: list[str], predictions: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(
        buffer,
        teachers=np.array(numbers, dtype=np.int64),
        fingerprints=np.array(hashes, dtype=np.str_),
        predictions=predictions,
    )
    return buffer.getvalue()


def _read(path: Path) -> tuple[Any, Any, Any]:
    """Return a file's teachers; a file that cannot be read holds none, and they train again."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            return archive["teachers"], archive["fingerprints"], archive["predictions"]
    except Exception:  # whatever a damaged archive makes of itself
        return (), (), ()


def _private_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(directory.stat().st_mode)
    except OSError as error:
        raise InvalidArgument(
            f"Expected checkpoint={str(directory)!r} to be a directory that can be written "
            f"({type(error).__name__})."
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise InvalidArgument(
            f"Expected checkpoint={str(directory)!r} to be readable by you alone (mode 0700, not "
            f"{mode:04o}): it holds the teachers' secret answers; chmod it, or name a new one."
        )
