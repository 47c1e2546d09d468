"""Records for the tests of sums: wild vectors, and an exact sum in Python's integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tacit.mechanisms import Contributions

Array = np.ndarray[Any, Any]
STEPS = 2**14

WILD = st.one_of(
    st.floats(-2, 2),
    st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e300, 1e-300, 5e-324, np.inf, -np.inf, np.nan]),
    st.floats(allow_nan=True, allow_infinity=True),
)


def spoken(left: Any, right: Any, units: Any = None, mean: bool = False) -> Contributions:
    """Records that say these very vectors."""
    first, second = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    owners = None if units is None else np.asarray(units)
    said = (lambda rows: first[rows], lambda rows: second[rows])
    return Contributions(len(first), *said, owners, mean)


def squared_length(steps: Any) -> int:
    """Sum of squares in Python's integers."""
    return sum(int(step) ** 2 for step in np.asarray(steps).ravel())


def plain_sum(left: Any, right: Any) -> list[list[Fraction]]:
    """Sum of products of whole steps, without NumPy; vectors must be within their bounds."""
    total = [[Fraction(0)] * len(right[0]) for _ in left[0]]
    for one, other in zip(left, right, strict=True):
        for row, a in enumerate(one):
            for column, b in enumerate(other):
                total[row][column] += Fraction(round(a * STEPS)) * Fraction(round(b * STEPS))
    return total


def matrix(rows: int, columns: int) -> st.SearchStrategy[Array]:
    """An array of wild numbers."""
    numbers = st.lists(WILD, min_size=rows * columns, max_size=rows * columns)
    return numbers.map(lambda flat: np.array(flat, dtype=float).reshape(rows, columns))
