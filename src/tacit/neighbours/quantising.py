"""Feature vectors on a grid, so that float32 matrix products are exact.

What docs/theory/private-knn.md#what-one-unit-can-move needs: which of two records is nearer to a
query may depend on these two records alone. Ordinary float32 products do not have this property: a
library chooses its order of summation by the shape of the matrices, so that one record more may
change the last bits of the others' distances, move many neighbours at once and exceed every
sensitivity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import positive
from tacit.errors import InvalidArgument

GRID_RADIUS = 2048
"""No quantised vector is longer: 2^11, the most for which all products are exact."""

Vectors = NDArray[np.float32]

# A block's few float64 arrays stay in the processor's cache.
_BLOCK_NUMBERS = 2**17

# A row with a larger coordinate (16 radii) is shortened first; then all sums of squares are exact.
_LARGEST_COORDINATE = 2**15
_MOST_DIMENSIONS = 2**20

# What is too long is shortened by a little more than needed: see quantise.
_SHORTER = 1.0 - 2.0**-40


def quantise(features: ArrayLike, radius: float) -> Vectors:
    """Return integer vectors of length at most 2048, in float32: x 2048 / radius, rounded.

    `radius` is public: the length that features are expected to have at most. A longer vector is
    scaled down to it. Unit: one record; its result depends on its own row and on nothing else.

    Why products of such vectors are exact. By Cauchy and Schwarz, the sum of x_i q_i over *any*
    set of coordinates is at most |x| |q| <= 2^22 in magnitude. Whatever the blocks, threads or
    fused operations of a matrix product are, all that it ever rounds is a sum over some set of
    coordinates: an integer below 2^24, which float32 holds exactly. So nothing is rounded, and
    x.q is the same number in every product of every shape. Also |x|^2 <= 2^22 and
    ||x|^2 - 2 x.q| <= 3 x 2^22 < 2^24: `extended` and `questions` sum that in the same way. (This
    holds for libraries that add up float32 products, as BLAS does; not for Strassen's algorithm,
    nor for units of lower precision such as TF32.)

    Why a row depends on nothing else. Every step is elementwise and correctly rounded, or a
    maximum, or a sum of squares of integers of at most 2^15 in at most 2^20 dimensions, which is
    below 2^53 and so exact in float64, in any order.

    Why the length is at most 2048. Rows are rounded to the nearest integers, and their squares
    summed exactly. What is longer, of length n, is multiplied by 2048 (1 - 2^-40) / n and rounded
    towards zero. The errors of square root, division and products are below 2^-50 together, so
    that the length was below 2048, and rounding towards zero shortens.

    >>> quantise([[0.5, 0.0], [3.0, 4.0]], radius=1.0)
    array([[1024.,    0.],
           [1228., 1638.]], dtype=float32)
    """
    unit = positive(radius=radius)
    rows = feature_rows("features", features)
    result = np.empty(rows.shape, dtype=np.float32)
    for block in row_blocks(*rows.shape):
        result[block] = _quantise_block(rows[block], unit)
    return result


def extended(features: NDArray[np.generic], radius: float) -> Vectors:
    """Quantise records and append |x|^2: with `questions`, a product is |x|^2 - 2 x.q.

    >>> extended(np.array([[0.5]]), 1.0) @ questions(np.array([[0.25]]), 1.0).T
    array([[0.]], dtype=float32)
    """
    vectors = quantise(features, radius)
    # Exact in any order: integers whose sum is at most 2^22.
    squares = np.einsum("ij,ij->i", vectors, vectors)
    return np.column_stack([vectors, squares])


def questions(features: ArrayLike, radius: float) -> Vectors:
    """Quantise queries as (-2 q, 1), the other half of `extended`."""
    vectors = quantise(features, radius)
    return np.column_stack([-2.0 * vectors, np.ones(len(vectors), dtype=np.float32)])


def feature_rows(name: str, features: ArrayLike) -> NDArray[np.generic]:
    """Return features as an array (rows, dimensions) of numbers; they are never quoted."""
    try:
        rows = np.asarray(features)
    except ValueError:
        rows = np.empty(0)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= _MOST_DIMENSIONS:
        raise InvalidArgument(
            f"Expected {name} to be an array (rows, dimensions) of at least one dimension and at "
            f"most 2**20."
        )
    if rows.dtype.kind not in "iuf":
        raise InvalidArgument(f"Expected {name} to be an array of numbers.")
    return rows


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Cut rows into blocks of few numbers each."""
    step = max(1, _BLOCK_NUMBERS // n_columns)
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def _quantise_block(rows: NDArray[np.generic], radius: float) -> NDArray[np.float64]:
    scaled = rows.astype(np.float64, order="C")
    largest = np.maximum(scaled.max(axis=1), -scaled.min(axis=1))
    if not np.isfinite(largest).all():
        raise InvalidArgument("Expected features to hold finite numbers only; remove NaN and inf.")
    # In this order nothing overflows.
    limit = radius * (_LARGEST_COORDINATE / GRID_RADIUS)
    far = largest > limit
    scaled[far] /= largest[far, None]
    scaled[far] *= _LARGEST_COORDINATE
    if far.any():
        scaled[~far] /= radius
        scaled[~far] *= GRID_RADIUS
    else:
        scaled /= radius
        scaled *= GRID_RADIUS
    np.rint(scaled, out=scaled)
    squares = np.einsum("ij,ij->i", scaled, scaled)
    long = squares > float(GRID_RADIUS**2)
    scaled[long] = np.trunc(scaled[long] * (GRID_RADIUS * _SHORTER / np.sqrt(squares[long, None])))
    return scaled
