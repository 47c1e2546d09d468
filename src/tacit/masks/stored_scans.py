"""Scans on the public grid, read one at a time and stored in a file without a name.

A folder of scans may be larger than memory. Each scan is read, brought onto the grid by itself, and
put into a file that is unlinked as soon as it is open (mode 0600 before that), so that the end of
this process frees it.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._quiet import Secret
from tacit.errors import InvalidArgument, RecordsUnread
from tacit.masks.volume_files import VolumeFiles
from tacit.masks.volumes import Volumes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoredScans(Secret):
    """Scans and masks, if any, on one grid and on disk; `stored_on_grid` makes them.

    `truth` holds each mask on its scan's own grid (empty if not wanted), `spacings` their voxels'
    mm.
    """

    images: NDArray[np.float32]
    masks: NDArray[np.uint8] | None
    truth: tuple[NDArray[Any], ...] = ()
    spacings: tuple[tuple[float, ...], ...] = ()


def stored_on_grid(
    files: VolumeFiles, grid: Sequence[int], key: str, *, truth: bool = False
) -> StoredScans:
    """Read scans one by one, and store each on the grid; `key` names the files in errors."""
    if not (truth and files.has_masks):
        return StoredScans(*_on_grid(files, len(files), grid, key))
    with _AsTheyAre() as kept:
        stored = _on_grid(map(kept.noted, files), len(files), grid, key)
        return StoredScans(*stored, kept.masks(), tuple(kept.spacings))


def _on_grid(
    scans: Iterable[Volumes], count: int, grid: Sequence[int], key: str
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    images: NDArray[Any] | None = None
    masks: NDArray[Any] | None = None
    for place, one in enumerate(scans):
        if one.dimensions != len(grid):
            raise InvalidArgument(
                f"Expected {key} of {len(grid)} dimensions as the grid has, got {one.dimensions}."
            )
        (image,), drawn = one.normalised().resampled(grid).arrays()
        if images is None:
            images = _on_disk((count, *image.shape), np.dtype(np.float32))
            if drawn is not None:
                masks = _on_disk((count, *grid), np.dtype(np.uint8))
        if image.shape != images.shape[1:]:
            raise InvalidArgument(f"Expected the scans of {key} to have the same channels.")
        images[place] = image
        if masks is not None and drawn is not None:
            masks[place] = drawn[0]
    assert images is not None  # there is one at least
    return images, masks


class _AsTheyAre:
    """Masks of any shape, one after another in one file without a name."""

    def __enter__(self) -> _AsTheyAre:
        self._file = tempfile.TemporaryFile()
        self._shapes: list[tuple[int, ...]] = []
        self.spacings: list[tuple[float, ...]] = []
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def noted(self, one: Volumes) -> Volumes:
        """Append the mask of a scan, and return the scan."""
        (mask,) = one.masks or ()
        self._kind = np.dtype(np.uint8 if one.n_classes <= 256 else np.int32)
        self._shapes.append(mask.shape)
        self.spacings.extend(one.spacings)
        try:
            self._file.write(mask.astype(self._kind).tobytes())
            self._file.flush()
        except OSError:
            raise _no_room() from None
        return one

    def masks(self) -> tuple[NDArray[Any], ...]:
        """Return each in its own shape, read from the file on access."""
        every = np.asarray(np.memmap(self._file, dtype=self._kind, mode="r"))
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])
        parts = np.split(every, ends[:-1])
        return tuple(part.reshape(s) for part, s in zip(parts, self._shapes, strict=True))


def _on_disk(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of zeros in a file that nobody else can open."""
    size = math.prod(shape) * kind.itemsize
    with tempfile.TemporaryFile() as file:
        try:
            # Now: a disk that is full when a page of memory is written ends a process unheard.
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            raise _no_room() from None
        return np.asarray(np.memmap(file, dtype=kind, mode="r+", shape=shape))


def _no_room() -> RecordsUnread:
    """Return the error for a full disk, without sizes: they would leak how many scans there are."""
    return RecordsUnread(
        f"Expected room in {tempfile.gettempdir()!r} for all scans on the grid; free some, or set "
        "TMPDIR to another folder. Nothing was released."
    )
