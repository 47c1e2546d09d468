"""Scans on the public grid, read one at a time and kept in a file without a name.

A folder of scans may be larger than memory, and so may all of them on one grid. Each scan is read,
brought onto the grid by itself, and put into a file that is unlinked as soon as it is open (mode
0600 before that), so that whatever ends this process frees it; teachers then read their own. Masks
with which others are compared are kept in such a file as they are, too.
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
    """Scans and masks, if any, on one grid; `stored_on_grid` makes them.

    Parameters
    ----------
    images : array of float32, shape (n, *grid) or (n, channels, *grid)
        On disk.
    masks : array of uint8, shape (n, *grid), or None
        On disk.
    truth : tuple of arrays
        Each mask on its scan's own grid, on disk; empty where they were not asked for.
    spacings : tuple of tuples
        The size of the voxels of each of these, in millimetres.
    """

    images: NDArray[np.float32]
    masks: NDArray[np.uint8] | None
    truth: tuple[NDArray[Any], ...] = ()
    spacings: tuple[tuple[float, ...], ...] = ()


def stored_on_grid(
    files: VolumeFiles, grid: Sequence[int], key: str, *, truth: bool = False
) -> StoredScans:
    """Read one scan after another, and keep each on one scale and the grid.

    Parameters
    ----------
    files : VolumeFiles
        At least one scan.
    grid : sequence of int
        The public grid.
    key : str
        How messages call the files.
    truth : bool
        Keep the masks on their own grids as well.

    Returns
    -------
    StoredScans
        In the order of the files, each from itself alone.
    """
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
    """Masks of any shape, one behind the other in one file without a name."""

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
        """Return each as it was, read from the file where it is looked at."""
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
    """Make the error for a full disk.

    No InvalidArgument: whoever reads private scans replaces those. Nor how much: it tells how many
    scans there are.
    """
    return RecordsUnread(
        f"Expected room in {tempfile.gettempdir()!r} for all scans on the grid; free some, or set "
        "TMPDIR to another folder. Nothing was released."
    )
