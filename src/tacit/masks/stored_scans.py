"""Scans on the public grid, read one at a time and kept in a file without a name.

A folder of scans may be larger than memory, and so may all of them on one grid. Each scan is read,
brought onto the grid by itself, and put into a file that is unlinked as soon as it is open (mode
0600 before that), so that whatever ends this process frees it; teachers then read their own.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._quiet import Secret
from tacit.errors import InvalidArgument, RecordsUnread
from tacit.masks.volume_files import VolumeFiles


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoredScans(Secret):
    """Scans and masks, if any, on one grid; `stored_on_grid` makes them.

    Parameters
    ----------
    images : array of float32, shape (n, *grid) or (n, channels, *grid)
        On disk.
    masks : array of uint8, shape (n, *grid), or None
        On disk.
    """

    images: NDArray[np.float32]
    masks: NDArray[np.uint8] | None


def stored_on_grid(files: VolumeFiles, grid: Sequence[int], key: str) -> StoredScans:
    """Read one scan after another, and keep each on one scale and the grid.

    Parameters
    ----------
    files : VolumeFiles
        At least one scan.
    grid : sequence of int
        The public grid.
    key : str
        How messages call the files.

    Returns
    -------
    StoredScans
        In the order of the files, each from itself alone.
    """
    images: NDArray[Any] | None = None
    masks: NDArray[Any] | None = None
    for place, one in enumerate(files):
        if one.dimensions != len(grid):
            raise InvalidArgument(
                f"Expected {key} of {len(grid)} dimensions as the grid has, got {one.dimensions}."
            )
        (image,), drawn = one.normalised().resampled(grid).arrays()
        if images is None:
            images = _on_disk((len(files), *image.shape), np.dtype(np.float32))
            if drawn is not None:
                masks = _on_disk((len(files), *grid), np.dtype(np.uint8))
        if image.shape != images.shape[1:]:
            raise InvalidArgument(f"Expected the scans of {key} to have the same channels.")
        images[place] = image
        if masks is not None and drawn is not None:
            masks[place] = drawn[0]
    assert images is not None  # there is one at least
    return StoredScans(images, masks)


def _on_disk(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of zeros in a file that nobody else can open."""
    size = math.prod(shape) * kind.itemsize
    with tempfile.TemporaryFile() as file:
        try:
            # Now: a disk that is full when a page of memory is written ends a process unheard.
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            # No InvalidArgument: whoever reads private scans replaces those. Nor how much: it
            # tells how many scans there are.
            raise RecordsUnread(
                f"Expected room in {tempfile.gettempdir()!r} for all scans on the grid; free some, "
                "or set TMPDIR to another folder. Nothing was released."
            ) from None
        return np.asarray(np.memmap(file, dtype=kind, mode="r+", shape=shape))
