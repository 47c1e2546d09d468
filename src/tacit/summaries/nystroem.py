"""Kernel features on public landmarks, each record's bits its own.

Nystroem features of a Gaussian kernel: phi(x) = W k(x), k(x)_j = exp(-gamma |x - z_j|^2),
W W^T = K^+ for the kernel matrix K of the landmarks z, so that |phi(x)|^2 = k^T K^+ k <= 1.
Ordinary matrix products round a row differently when another row stands beside it. Here distances
are exact integers, the kernel is looked up in a public table of integers, and W is rounded to
integers, so that every sum is exact in any order (docs/theory/speak-once.md). Public, but for the
rows that it is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, positive, refuse
from tacit.mechanisms import unit_steps
from tacit.neighbours.quantising import GRID_RADIUS, extended, feature_rows, questions

Steps = NDArray[np.int16]

_LEVEL_BITS = 6
_LEVELS = 4 * GRID_RADIUS**2 >> _LEVEL_BITS
_KERNEL_STEPS = 2**16
_WHITE_STEPS = 2**24
_MOST_LANDMARKS = 2**12
"""2^12 products of 2^16 and 2^24 steps add up to less than 2^53."""
_SMALLEST = 1e-4
"""Directions whose eigenvalue is below this part of the mean diagonal are left out."""
_AT_ONCE = 2**20


class ExactNystroem:
    """Features of norm at most 1 in whole steps of 2^-14, for private and public rows alike.

    landmarks: (m, dimensions) public rows. radius: as in `tacit.neighbours.quantise`.
    gamma: of the kernel exp(-gamma distance^2). Learned from the landmarks: `whitening`, (m, n).

    >>> features = ExactNystroem([[0.0], [0.5], [1.0]], gamma=1.0, radius=1.0)
    >>> steps = features.steps([[0.5]]) / 2**14
    >>> bool((steps**2).sum() > 0.99)
    True
    """

    __slots__ = ("_there", "_weights", "gamma", "landmarks", "radius", "whitening")

    def __init__(self, landmarks: ArrayLike, *, gamma: float, radius: float) -> None:
        self.landmarks = feature_rows("landmarks", landmarks)
        at_least(1, landmarks=len(self.landmarks))
        if len(self.landmarks) > _MOST_LANDMARKS:
            raise refuse("landmarks", len(self.landmarks), f"at most {_MOST_LANDMARKS} rows")
        self.gamma, self.radius = positive(gamma=gamma), positive(radius=radius)
        self._there = extended(self.landmarks, self.radius).T
        kernel = self._kernel(self.landmarks) / _KERNEL_STEPS
        values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
        kept = values > _SMALLEST
        # Largest first: the first features say the most.
        white = (vectors[:, kept] / np.sqrt(values[kept]))[:, ::-1]
        unit = np.abs(white).max() / _WHITE_STEPS
        self._weights = np.rint(white / unit)
        self.whitening = self._weights * unit

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.whitening.shape[1])

    def steps(self, rows: ArrayLike) -> Steps:
        """Return the features of each row in whole steps, its own bits whatever the others are."""
        inputs = feature_rows("rows", rows)
        result = np.empty((len(inputs), self.n_features), dtype=np.int16)
        scale = float(np.abs(self.whitening).max() / np.abs(self._weights).max()) / _KERNEL_STEPS
        at_once = max(1, _AT_ONCE // len(self.landmarks))
        for start in range(0, len(inputs), at_once):
            block = slice(start, start + at_once)
            # Integers below 2^53: no sum is ever rounded.
            sums = self._kernel(inputs[block]) @ self._weights
            result[block] = unit_steps(sums * scale, sums.shape)
        return result

    def _kernel(self, rows: NDArray[np.generic]) -> Floats:
        """Return k(x) in whole steps of 2^-16, looked up by exact integer distances."""
        asked = questions(rows, self.radius)
        squares = np.einsum("ij,ij->i", asked[:, :-1], asked[:, :-1]) / 4  # of -2 x: exact
        distances = (asked @ self._there).astype(np.int64) + squares.astype(np.int64)[:, None]
        return np.asarray(self._table()[distances >> _LEVEL_BITS])

    def _table(self) -> Floats:
        """Return the kernel at every distance, a public table."""
        distances = (
            (np.arange(_LEVELS + 1) + 0.5) * 2**_LEVEL_BITS * (self.radius / GRID_RADIUS) ** 2
        )
        return np.asarray(np.rint(np.exp(-self.gamma * distances) * _KERNEL_STEPS))
