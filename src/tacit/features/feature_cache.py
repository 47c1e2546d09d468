"""A file of features of rows, private ones included: as secret as the rows, mode 0600.

Entries were computed from a row alone and are found by a hash of row and network: a cached row has
the bits that it would have if it were computed.
"""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tacit._files import locked, write_atomically
from tacit._quiet import Secret

_BYTES = 32
"""Of a key, a SHA-256."""
Kept = dict[int, tuple[NDArray[np.uint8], NDArray[np.float32]]]


class FeatureCache(Secret):
    """Features by row and network. Secret.

    `path` is made on first use and may be shared; `kind` identifies network, outputs and isolation.
    """

    def __init__(self, path: Any, kind: str) -> None:
        self._path, self._kind = Path(path), kind.encode()
        self._lock = self._path.with_name(f".{self._path.name}.lock")

    def read(self, rows: NDArray[np.float32], width: int) -> dict[int, NDArray[np.float32]]:
        """Return the cached features of some rows, by index. Secret."""
        stored = self._stored()
        if width not in stored:
            return {}
        keys, values = stored[width]
        places = {key.tobytes(): place for place, key in enumerate(keys)}
        wanted = (places.get(self._key(row, width)) for row in rows)
        return {k: values[place] for k, place in enumerate(wanted) if place is not None}

    def add(self, rows: NDArray[np.float32], features: NDArray[np.float32]) -> None:
        """Store features of some rows, in one step; rows that failed are left out."""
        whole, width = np.flatnonzero(np.isfinite(features).all(axis=1)), features.shape[1]
        if not whole.size:
            return
        new = np.frombuffer(b"".join(self._key(rows[k], width) for k in whole), dtype=np.uint8)
        keys, values = new.reshape(-1, _BYTES), features[whole]
        with locked(self._lock, os.O_RDWR | os.O_CREAT):  # else what others add is lost
            stored = self._stored()
            if width in stored:
                keys = np.concatenate([stored[width][0], keys])
                values = np.concatenate([stored[width][1], values])
            _, first = np.unique(keys, axis=0, return_index=True)
            stored[width] = keys[first], values[first]
            write_atomically(self._path, _file_of(stored), 0o600)

    def forget(self) -> None:
        """Delete the file, if there is one."""
        for path in (self._path, self._lock):
            path.unlink(missing_ok=True)

    def _key(self, row: NDArray[np.float32], width: int) -> bytes:
        made_by = self._kind + f" {width}".encode()
        return hashlib.sha256(made_by + b"\0" + row.tobytes()).digest()

    def _stored(self) -> Kept:
        """Return keys and features by width; none where there is no file, or one not whole."""
        try:
            with np.load(self._path, allow_pickle=False) as stored:
                widths = [int(name[4:]) for name in stored if name.startswith("keys")]
                kept = {
                    width: (stored[f"keys{width}"], stored[f"values{width}"]) for width in widths
                }
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
            return {}
        return {width: pair for width, pair in kept.items() if _is_sound(width, *pair)}


def _is_sound(width: int, keys: NDArray[Any], values: NDArray[Any]) -> bool:
    of_kind = keys.dtype == np.uint8 and values.dtype == np.float32
    return of_kind and keys.shape == (len(values), _BYTES) and values.shape[1:] == (width,)


def _file_of(kept: Kept) -> bytes:
    arrays: dict[str, Any] = {}
    for width, (keys, values) in kept.items():
        arrays |= {f"keys{width}": keys, f"values{width}": values}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
