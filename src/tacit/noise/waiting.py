"""Exact waiting times from random words: how many coins fall tails before the first head.

The geometric skips of docs/theory/private-knn.md#a-walk-instead-of-coins. A Poisson sample is
walked by such skips, and its price presumes that everyone takes part with exactly the stated rate;
the usual floor(log U / log1p(-rate)) in double precision only comes near. It stands beside
`tacit.noise.exact` and works in the same way: one uniform number, refined until the answer is
certain.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers, refuse
from tacit.noise.exact import DrawWords, Words

SMALLEST_RATE = 2.0**-50
"""Below it a skip might not fit int64; here it exceeds 2^62 with probability exp(-4096)."""

# A block's few temporary arrays stay in the processor's cache.
_BLOCK = 2**14

# The bounds of the fast path; geometric says where each comes from.
_FIRST_BITS = 64
_FEWEST_CERTIFIED = 2**44
_SLACK = 2.0**-40

# Spare bits of the refinement: they decide how soon it ends, never whether it is right.
_GUARD_BITS = 64


def check_rate(**named: float) -> None:
    """Refuse a rate, by its name, whose skips would not fit int64.

    >>> check_rate(rate=1e-30)
    Traceback (most recent call last):
    tacit.errors.InvalidArgument: Expected rate=1e-30 to be at least 2**-50.
    """
    for name, rate in named.items():
        if rate < SMALLEST_RATE:
            raise refuse(name, rate, "at least 2**-50")


def geometric(draw_words: DrawWords, rate: float, count: int) -> Integers:
    """Draw numbers of failures before the first success: P(g) = (1 - rate)^g rate, exactly.

    The rate is the rational number that the float64 is.

    Why this is exact. Let U be uniform on (0, 1), given by an unending string of fair bits. Then
    the g with (1 - rate)^(g+1) < U < (1 - rate)^g has this law, for P(G >= g) = (1 - rate)^g. The
    first word w puts U into [w, w + 1] 2^-64. If all of that interval has one g, then g is the
    answer whatever the bits not yet drawn are; if not, more bits of the *same* U are drawn. So the
    result is exact if no interval is certified wrongly.

    The fast path computes y = log(u) / log1p(-rate) for u = (w + 1/2) 2^-64 and g = floor(y) in
    double precision. It certifies w >= 2^44 only, hence u >= 2^-20 and |log u| < 13.9. With
    decay = -log(1 - rate), the errors of y, in units of 1 / decay:

    1. U against the computed u: relative 2^-45 (half an interval) and 2^-52 (two roundings), so
       log U is off by less than 1.1 x 2^-45.
    2. log: 13.9 x 2^-46, from a relative error of 2^-46, 64 units in the last place. NumPy claims
       4 at worst; the tests measure it against mpmath.
    3. log1p and the division: 13.9 x (2^-46 + 2^-53), from the same allowance for log1p.

    Together less than 4 x 2^-43 = 2^-41. The distance of y to the integers around it is computed
    exactly; it has to exceed _SLACK / decay with _SLACK = 2^-40, of which the other half pays for
    rounding the quotient. The refinement decides in integers: see _power_bounds.
    """
    if rate == 1.0:
        return np.zeros(count, dtype=np.int64)
    skips = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BLOCK):
        words = draw_words(min(_BLOCK, count - start))
        block = skips[start : start + words.size]
        block[:], certain = _fast_skips(words, rate)
        for place in np.flatnonzero(~certain):
            block[place] = _refined_skip(int(words[place]), rate, draw_words)
    return skips


def _fast_skips(words: Words, rate: float) -> tuple[Integers, NDArray[np.bool_]]:
    """Divide logarithms in double precision; also say which results are certain."""
    decay = -math.log1p(-rate)
    ratio = words.astype(np.float64)
    ratio += 0.5
    ratio *= 2.0**-_FIRST_BITS
    np.log(ratio, out=ratio)
    ratio /= -decay
    whole = np.floor(ratio)
    ratio -= whole
    slack = _SLACK / decay
    certain = (ratio > slack) & (ratio < 1.0 - slack)
    certain &= words >= np.uint64(_FEWEST_CERTIFIED)
    return whole.astype(np.int64), certain


def _refined_skip(word: int, rate: float, draw_words: DrawWords) -> int:
    """Append words to the uniform number that `word` began until its skip is certain."""
    uniform, bits = word, _FIRST_BITS
    while (skip := _certain_skip(uniform, bits, rate)) is None:
        uniform = (uniform << 64) | int(draw_words(1)[0])
        bits += 64
    return skip


def _certain_skip(uniform: int, bits: int, rate: float) -> int | None:
    """Return the one skip of all of [uniform, uniform + 1] / 2^bits, or None if there is none.

    Double precision only guesses where to begin: each step of the walk is certain.
    """
    log_uniform = math.log(2 * uniform + 1) - (bits + 1) * math.log(2.0)
    skip = max(0, math.floor(log_uniform / math.log1p(-rate)))
    while True:
        above = _side(uniform, bits, skip + 1, rate)
        if above == 0:
            return None
        if above < 0:
            skip += 1
            continue
        below = _side(uniform, bits, skip, rate) if skip > 0 else -1
        if below == 0:
            return None
        if below < 0:
            return skip
        skip -= 1


def _side(uniform: int, bits: int, exponent: int, rate: float) -> int:
    """Compare all of [uniform, uniform + 1] / 2^bits with (1 - rate)^exponent.

    1 if all of it lies above, -1 if all of it lies below, 0 if that is not certain.
    """
    low, high, scale = _power_bounds(exponent, bits, rate)
    if uniform << (scale - bits) >= high:
        return 1
    if (uniform + 1) << (scale - bits) <= low:
        return -1
    return 0


def _power_bounds(exponent: int, bits: int, rate: float) -> tuple[int, int, int]:
    """Return integers with low <= 2^scale (1 - rate)^exponent <= high, and the scale.

    Repeated squaring in fixed point, where `low` is always rounded down and `high` always up, so
    that the bounds hold whatever the scale is. 1 - rate itself is exact: its denominator is a power
    of two, at most 2^102 by SMALLEST_RATE. An error doubles with each squaring, so high - low is
    below 4 exponent, which the scale leaves _GUARD_BITS below 2^-bits.
    """
    top, bottom = rate.as_integer_ratio()
    scale = max(bits + _GUARD_BITS + exponent.bit_length() + 2, bottom.bit_length())
    failure = ((bottom - top) << scale) // bottom
    low = high = 1 << scale
    for digit in f"{exponent:b}":
        low = (low * low) >> scale
        high = -(-(high * high) >> scale)
        if digit == "1":
            low = (low * failure) >> scale
            high = -(-(high * failure) >> scale)
    return low, high, scale
