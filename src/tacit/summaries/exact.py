"""What a public linear model says of private rows, each row's bits its own.

A record may speak of what an earlier, public solution leaves unexplained, and that must depend on
this record and the solution alone: library products and exponentials may round a row differently
when others stand beside it. Features are whole steps, weights are rounded to whole steps, so that
products are exact integers; exponentials are taken one number at a time; sums go class by class.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, finite_array
from tacit.mechanisms import STEP

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

    >>> exact_scores(np.array([[2**14, 0]]), np.array([[0.25], [9.0]])).tolist()
    [[0.25]]
    """
    whole = whole_weights(weights)
    return np.asarray((steps.astype(np.float64) @ whole) * (STEP * WEIGHT_STEP))


def exact_softmax(scores: Floats) -> Floats:
    """Return softmax of each row, computed number by number.

    >>> exact_softmax(np.array([[0.0, 0.0], [900.0, -900.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    gaps = scores - scores.max(axis=1, keepdims=True)
    powers = np.fromiter(map(math.exp, gaps.ravel().tolist()), dtype=np.float64, count=gaps.size)
    powers = powers.reshape(gaps.shape)
    total = powers[:, 0].copy()
    for column in powers.T[1:]:
        total += column
    return np.asarray(powers / total[:, None])
