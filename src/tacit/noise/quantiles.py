"""Quantiles of the Gaussian's tail from a table, with an error that is proved: for exact rounding.

`rounded_steps` needs z = Q^{-1}(t), Q(x) = Phi(-x), for very many t, each to about 2^-43. SciPy's
ndtri takes 16 ns for one; cubics in 9,729 cells take 5 ns (`python -m benchmarks.noise`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtri

from tacit._checks import Floats

SMALLEST_TAIL = 2.0**-20
"""From here to 1/2 the bound holds; below, something finite and useless is returned."""
_CELL_BITS = 9  # cells in an octave: 2^9
SHIFT = 52 - _CELL_BITS
"""Bits of a float64 that do not tell its cell."""
MIDDLE = 1 << (SHIFT - 1)
"""What these bits are in the middle of a cell."""
_NODES = 4


def upper_quantiles(tails: Floats) -> Floats:
    """Return z with Q(z) = t for each t from 2^-20 to 1/2, within 4.2 x 2^-44.

    The cell of t is told by the exponent and the first 9 bits of the fraction of its float64; its
    middle m is the float64 in the middle of these bits, so t - m is exact. On each cell, z is a
    cubic through the values at four Chebyshev nodes. Errors:

    1. The cubic against z: h^4 / (2^3 4!) max |z''''| (the remainder of interpolation at Chebyshev
       nodes), where h <= 2^-10 t is half of the cell. With z' = -1/phi(z), z'''' = (7 z + 6 z^3)
       z'^4, and t |z'| = Q(z)/phi(z) <= min(sqrt(pi/2), 1/z) (Mills' ratio), t^4 |z''''| is at most
       (7 z + 6 z^3) (pi/2)^2 < 22 for z <= 0.8 and 7/z^3 + 6/z < 22 beyond. t changes by 2^-9 in a
       cell, so the error is below 1.01 x 22 x 2^-40 / 192 < 1.9 x 2^-44.
    2. The values at the nodes: 4.8 x 2^-46, from a relative error of 2^-46 of ndtri, 20 times the
       largest that Cephes documents (7.2e-16), times the Lebesgue constant of four Chebyshev nodes
       (1.85): below 2.23 x 2^-44.
    3. Solving for the coefficients and Horner's rule: a few roundings of 2^-53 of numbers below
       4.8, since |t - m| <= h keeps every term below the first: below 0.05 x 2^-44.

    The tests measure the whole against mpmath.

    >>> upper_quantiles(np.array([0.5, 0.025])).round(6).tolist()
    [0.0, 1.959964]
    """
    first, coefficients = cubics()
    tops = tails.view(np.int64) >> SHIFT
    middles = tops << SHIFT
    middles |= MIDDLE
    offsets = middles.view(np.float64)
    np.subtract(tails, offsets, out=offsets)
    tops -= first
    own = coefficients.take(tops, axis=0, mode="clip")  # four numbers from one place in memory
    quantiles: Floats = own[:, -1] * offsets
    for power in range(_NODES - 2, 0, -1):
        quantiles += own[:, power]
        quantiles *= offsets
    quantiles += own[:, 0]
    return quantiles


@cache
def cubics() -> tuple[int, Floats]:
    """Return the number of the first cell, and of each cell the coefficients in t - m."""
    first, last = (np.array([SMALLEST_TAIL, 0.5]).view(np.int64) >> SHIFT).tolist()
    tops = np.arange(first, last + 1)
    middles = ((tops << SHIFT) | MIDDLE).view(np.float64)
    halves = middles - (tops << SHIFT).view(np.float64)
    powers = np.arange(_NODES)
    nodes = np.cos((2 * powers + 1) * np.pi / (2 * _NODES))
    values = -ndtri(middles[:, None] + halves[:, None] * nodes)
    solved = values @ np.linalg.inv(np.vander(nodes, increasing=True)).T
    return first, np.ascontiguousarray(solved / halves[:, None] ** powers)
