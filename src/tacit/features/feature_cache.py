"""A file of features of rows, private ones included: as secret as the rows, mode 0600.

What is kept is what was computed of a row alone, found by a hash of the row and of the weights: a
row that is found has the bits that it would have if it were computed.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tacit._files import write_atomically
from tacit._quiet import Secret


class FeatureCache(Secret):
    """Features by row and weights. Secret.

    Parameters
    ----------
    path : path
        The file; made when something is added.
    kind : str
        What computed them: weights and way of isolation.
    """

    def __init__(self, path: Any, kind: str) -> None:
        self._path, self._kind = Path(path), kind.encode()

    def read(self, rows: NDArray[np.float32], width: int) -> dict[int, NDArray[np.float32]]:
        """Return what is known of some rows, by their places. Secret.

        Parameters
        ----------
        rows : array of float32 of shape (n, features)
            Private or public rows.
        width : int
            How many features a row has; what is kept of another width is not known.

        Returns
        -------
        dict from int to array
            Features of those that are kept.
        """
        keys, values = self._stored()
        if values.shape[1:] != (width,):
            return {}
        places = {key.tobytes(): place for place, key in enumerate(keys)}
        wanted = (places.get(self._key(row)) for row in rows)
        return {k: values[place] for k, place in enumerate(wanted) if place is not None}

    def add(self, rows: NDArray[np.float32], features: NDArray[np.float32]) -> None:
        """Keep features of some rows, in one step; those that failed are not kept.

        Parameters
        ----------
        rows : array of float32 of shape (n, features)
            The rows.
        features : array of float32 of shape (n, outputs)
            Of each, computed alone.
        """
        whole = np.flatnonzero(np.isfinite(features).all(axis=1))
        if not whole.size:
            return
        new = np.array([np.frombuffer(self._key(rows[k]), dtype=np.uint8) for k in whole])
        keys, values = self._stored()
        if values.shape[1:] != features.shape[1:]:
            keys, values = new[:0], features[:0]
        buffer = io.BytesIO()
        np.savez(
            buffer,
            keys=np.concatenate([keys, new]),
            values=np.concatenate([values, features[whole]]),
        )
        write_atomically(self._path, buffer.getvalue(), 0o600)

    def _key(self, row: NDArray[np.float32]) -> bytes:
        return hashlib.sha256(self._kind + b"\0" + row.tobytes()).digest()

    def _stored(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Return keys and features; none where there is no file, or one that is not whole."""
        empty = np.empty((0, 32), dtype=np.uint8), np.empty((0, 0), dtype=np.float32)
        try:
            with np.load(self._path, allow_pickle=False) as stored:
                keys, values = stored["keys"], stored["values"]
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
            return empty
        sound = keys.dtype == np.uint8 and values.dtype == np.float32 and len(keys) == len(values)
        return (keys, values) if sound and keys.shape[1:] == (32,) else empty
