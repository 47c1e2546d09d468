"""Features and scores for residual moments, in which each row's bits are its own.

A record's residual must depend on that record and the public solution alone, but library products
and exponentials may round a row differently beside others. So features, kernel and weights are
whole steps, whose products are exact integers, and exponentials are taken one by one
(docs/theory/speak-once.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, blocks, finite_array, positive, refuse
from tacit.mechanisms import STEP, unit_steps
from tacit.neighbours import GRID_RADIUS, extended, feature_rows, questions

WEIGHT_STEP = 2.0**-18
_LARGEST_WEIGHT = 2.0**10
"""|steps| <= 2^14 and |weights| <= 2^28 sqrt(2^18) steps: any partial sum is below 2^53."""


def whole_weights(weights: Floats) -> Floats:
    """Return weights in whole steps of 2^-18, none beyond 2^10 in magnitude.

    >>> whole_weights(np.array([[0.5], [1e9]])).tolist()
    [[131072.0], [268435456.0]]
    """
    within = np.clip(finite_array(weights=weights), -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
    return np.asarray(np.rint(within / WEIGHT_STEP))


def exact_scores(steps: NDArray[Any], weights: Floats) -> Floats:
    """Return features (in whole steps) times weights (rounded to whole steps), exactly.

    Parameters
    ----------
    steps : array of int of shape (rows, features)
        Features in whole steps of 2^-14, none beyond 2^14 steps. Secret where the rows are.
    weights : array of shape (features, columns)
        Public; rounded to whole steps of 2^-18, and shortened to 2^10 in magnitude.

    Returns
    -------
    array of shape (rows, columns)
        Each row's bits are its own (docs/theory/speak-once.md#in-a-computer). As secret as the
        rows.

    Examples
    --------
    >>> exact_scores(np.array([[2**14, 0]]), np.array([[0.25], [9.0]])).tolist()
    [[0.25]]
    """
    whole = whole_weights(weights)
    return np.asarray((steps.astype(np.float64) @ whole) * (STEP * WEIGHT_STEP))


def exact_softmax(scores: Floats) -> Floats:
    """Return softmax of each row, computed number by number.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        From `exact_scores`. Secret where the rows are.

    Returns
    -------
    array of shape (rows, classes)
        Each row's bits are its own (docs/theory/speak-once.md#in-a-computer). As secret as the
        rows.

    Examples
    --------
    >>> exact_softmax(np.array([[0.0, 0.0], [900.0, -900.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    gaps = scores - scores.max(axis=1, keepdims=True)
    powers = np.array([math.exp(gap) for gap in gaps.ravel().tolist()]).reshape(gaps.shape)
    total = np.cumsum(powers, axis=1)[:, -1:]  # in sequence, as a sum need not be
    return np.asarray(powers / total)


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

    Parameters
    ----------
    landmarks : array of shape (m, dimensions)
        Public rows, at most 4096 of them. One that was taken from private data breaks the claim.
    gamma : float
        Of the kernel exp(-gamma distance^2), above 0; public.
    radius : float
        As in `tacit.neighbours.quantise`; public.

    Attributes
    ----------
    whitening : array of shape (m, n_features)
        W, learned from the landmarks: phi(x) = k(x) W, up to rounding.

    Notes
    -----
    k(x)_j = exp(-gamma |x - z_j|^2), W W^T = K^+ for the kernel matrix K of the landmarks z, so
    that |phi(x)|^2 = k^T K^+ k <= 1. Distances, a public table of the kernel, and W are integers:
    every sum is exact in any order (docs/theory/speak-once.md#residual-moments).

    Examples
    --------
    >>> features = ExactNystroem([[0.0], [0.5], [1.0]], gamma=1.0, radius=1.0)
    >>> steps = features.steps([[0.5]]) / 2**14
    >>> bool((steps**2).sum() > 0.99)
    True
    """

    __slots__ = ("_table", "_there", "_weights", "gamma", "landmarks", "radius", "whitening")

    def __init__(self, landmarks: ArrayLike, *, gamma: float, radius: float) -> None:
        self.landmarks = feature_rows("landmarks", landmarks)
        at_least(1, landmarks=len(self.landmarks))
        if len(self.landmarks) > _MOST_LANDMARKS:
            raise refuse("landmarks", len(self.landmarks), f"at most {_MOST_LANDMARKS} rows")
        self.gamma, self.radius = positive(gamma=gamma), positive(radius=radius)
        grid = (np.arange(_LEVELS + 1) + 0.5) * 2**_LEVEL_BITS * (self.radius / GRID_RADIUS) ** 2
        self._table = np.rint(np.exp(-self.gamma * grid) * _KERNEL_STEPS)  # at every distance
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
        """Return the features of each row in whole steps; each row's bits are its own.

        Parameters
        ----------
        rows : array of shape (rows, dimensions)
            Private or public inputs, in the landmarks' space.

        Returns
        -------
        array of int16 of shape (rows, n_features)
            Whole steps of 2^-14. As secret as the rows.
        """
        inputs = feature_rows("rows", rows)
        result = np.empty((len(inputs), self.n_features), dtype=np.int16)
        scale = float(np.abs(self.whitening).max() / np.abs(self._weights).max()) / _KERNEL_STEPS
        for block in blocks(len(inputs), _AT_ONCE // len(self.landmarks)):
            # Integers below 2^53: no sum is ever rounded.
            sums = self._kernel(inputs[block]) @ self._weights
            result[block] = unit_steps(sums * scale, sums.shape)
        return result

    def _kernel(self, rows: NDArray[np.generic]) -> Floats:
        """Return k(x) in whole steps of 2^-16, looked up by exact integer distances."""
        asked = questions(rows, self.radius)
        squares = np.einsum("ij,ij->i", asked[:, :-1], asked[:, :-1]) / 4  # of -2 x: exact
        distances = (asked @ self._there).astype(np.int64) + squares.astype(np.int64)[:, None]
        return np.asarray(self._table[distances >> _LEVEL_BITS])
