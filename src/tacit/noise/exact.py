"""Exact sampling from random words: Bernoulli bits, Gaussians rounded to a grid, geometric skips.

A released number has noise that is exactly a rounded Gaussian, so the Gaussian curve holds for
what is computed and no low bit leaks (docs/architecture.md#noise); the price of a Poisson sample
needs exact skips (docs/theory/private-knn.md#a-walk-instead-of-coins). A draw's time depends on
the noise (one in millions needs more bits), never on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri_exp

from tacit._checks import Floats, Integers, refuse
from tacit._loops import loop
from tacit.noise.quantiles import MIDDLE, SHIFT, cubics, upper_quantiles

Words = NDArray[np.uint64]
DrawWords = Callable[[int], Words]  # independent uniform 64-bit words: `draw_words(count)`

# Range of sigma/grid: below it every draw is 0, above it double precision certifies nothing.
SMALLEST_RATIO = 2.0**-20
LARGEST_RATIO = 2.0**40

# Below it a skip might not fit int64; here it exceeds 2^62 with probability exp(-4096).
SMALLEST_RATE = 2.0**-50

# A block's few temporary arrays stay in the processor's cache.
_BLOCK = 2**14

# The bounds of the fast paths; rounded_steps and geometric say where each comes from.
_FIRST_BITS = 64
_FEWEST_CERTIFIED = 2**44
_SLACK = 2.0**-41
_SKIP_SLACK = 2.0**-40

# The bounds of the refinements: see _compare; spare bits of a power only decide how soon it ends.
_FRACTION_BITS = 64
_FRACTION_SLACK = 2**20
_GUARD_BITS = 64


def rounded_steps(draw_words: DrawWords, sigma: Floats, grid: float, count: int) -> Integers:
    """Draw Gaussians rounded to a grid, as whole numbers of grid steps, exactly.

    P(k) = Phi((k + 1/2) grid / sigma) - Phi((k - 1/2) grid / sigma) for the very float64 values
    of sigma (one for all, or one per draw) and grid, each taken as the rational number that it is.

    Why this is exact. Let S be a fair sign and T uniform on (0, 1/2), both given by an unending
    string of fair bits; then S Q^{-1}(T), with Q(x) = Phi(-x), is a standard Gaussian, and
    k = S round(r Q^{-1}(T)), r = sigma/grid, has the law above. A tie has probability zero. The
    first word holds the sign and 63 bits of T, so T lies in [w, w + 1] 2^-64. If all of that
    interval rounds to one k, then k is the answer whatever the bits not yet drawn are; if not,
    more bits of the *same* T are drawn (a fresh T would be biased towards the middle of the
    cells) until it does. So the result is exact if no interval is certified wrongly.

    The fast path computes z = `upper_quantiles`(t) for t = (w + 1/2) 2^-64, y = r z and k = rint(y)
    in double precision. It certifies w >= 2^44 only, hence t >= 2^-20 and z < 4.8. Errors in z:

    1. T against the computed t: |T - t| <= 2^-65 + 2^-51 t (half an interval, two roundings).
       As dz/dt = -1/phi(z) and Mills' ratio gives t/phi(z) <= sqrt(pi/2) < 1.26, the error is at
       most 1.26 (2^-44 + 2^-50) < 1.3 x 2^-44.
    2. The quantile itself: 4.2 x 2^-44 (see `upper_quantiles`), measured against mpmath in tests.
    3. The division sigma/grid and the product: 2 x 2^-53 relative, below 2^-49.

    Together at most 5.6 x 2^-44 < 2^-41 = _SLACK, thus |y - r z_true| < _SLACK r, and k is certain
    where |y - k| < 1/2 - _SLACK (r + 1); the difference y - k is exact, and the 1 pays for the
    rounding of this comparison itself. The refinement decides in integers: see _compare.
    """
    steps = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BLOCK):
        block = slice(start, min(start + _BLOCK, count))
        words = draw_words(block.stop - start)
        own = sigma if sigma.ndim == 0 else sigma[block]
        ratio = own / grid
        each = float(ratio) if ratio.ndim == 0 else ratio
        for offset in _fast_steps(words, each, steps[block]):
            one = float(own if own.ndim == 0 else own[offset])
            steps[start + offset] = _refined_step(int(words[offset]), one, grid, draw_words)
    return steps


def _fast_steps(words: Words, ratio: Floats | float, steps: Integers) -> list[int]:
    """Write steps rounded in double precision; return the positions that are not certain."""
    if _steps_in_one_pass and isinstance(ratio, float) and words.size == steps.size:
        unsure = np.empty(words.size, dtype=np.int64)
        closest = 0.5 - _SLACK * (ratio + 1.0)
        found = _steps_in_one_pass(words, ratio, closest, *cubics(), steps, unsure)
        return unsure[:found].tolist() if found else []
    tails = (words >> np.uint64(1)).view(np.int64)
    uniform = tails.astype(np.float64)
    uniform += 0.5
    uniform *= 2.0**-_FIRST_BITS
    scaled = upper_quantiles(uniform)
    scaled *= ratio
    # A sign is one bit, and what follows treats both signs alike.
    bits = scaled.view(np.uint64)
    bits |= words << np.uint64(63)
    nearest = np.rint(scaled)
    # To integers: as a float, -0.0 or 0.0 would tell the sign of the noise.
    steps[:] = nearest
    scaled -= nearest
    certain = np.abs(scaled, out=scaled) < 0.5 - _SLACK * (ratio + 1.0)
    certain &= tails >= _FEWEST_CERTIFIED
    return [] if certain.all() else np.flatnonzero(~certain).tolist()


@loop("int64(uint64[::1], float64, float64, int64, float64[:, ::1], int64[::1], int64[::1])")
def _steps_in_one_pass(  # type: ignore[no-untyped-def]
    words, ratio, closest, first, coefficients, steps, unsure
):
    """Do what `_fast_steps` and `upper_quantiles` do, number by number; return how many are unsure.

    Without a branch on the sign, which a processor would mispredict half of the time.
    """
    found = 0
    for place in range(words.size):
        word = words[place]
        tail = np.int64(word >> np.uint64(1))
        uniform = (np.float64(tail) + 0.5) * 2.0**-64
        top = np.float64(uniform).view(np.int64) >> SHIFT
        offset = uniform - np.int64((top << SHIFT) | MIDDLE).view(np.float64)
        cell = np.uint64(max(top - first, 0))  # the last cell is that of 1/2: none lies beyond
        scaled = coefficients[cell, 3] * offset
        scaled += coefficients[cell, 2]
        scaled *= offset
        scaled += coefficients[cell, 1]
        scaled *= offset
        scaled += coefficients[cell, 0]
        scaled *= ratio
        nearest = np.rint(scaled)
        whole, sign = np.int64(nearest), -np.int64(word & np.uint64(1))
        steps[place] = (whole ^ sign) - sign
        if not (abs(scaled - nearest) < closest and tail >= _FEWEST_CERTIFIED):
            unsure[found] = place
            found += 1
    return found


def _refined_step(word: int, sigma: float, grid: float, draw_words: DrawWords) -> int:
    """Append words to the tail that `word` began until its rounding is certain."""

    def step(tail: int, bits: int) -> int | None:
        log_tail = math.log(2 * tail + 1) - (bits + 1) * math.log(2.0)
        guess = round(-float(ndtri_exp(log_tail)) * (sigma / grid))
        return _one_cell(guess, lambda n: _compare(tail, bits, 2 * n - 1, sigma, grid))

    magnitude = _refined(word >> 1, draw_words, step)
    return -magnitude if word & 1 else magnitude


def _refined(uniform: int, draw_words: DrawWords, cell: Callable[[int, int], int | None]) -> int:
    """Append words to a uniform number, of which 64 bits are known, until its cell is certain."""
    bits = _FIRST_BITS
    while (found := cell(uniform, bits)) is None:
        uniform, bits = (uniform << 64) | int(draw_words(1)[0]), bits + 64
    return found


def _one_cell(guess: int, beyond: Callable[[int], int]) -> int | None:
    """Return the one cell from 0 on that holds all of an interval, or None if there is none.

    Cell n lies between the boundaries n and n + 1. `beyond(n)` is 1 if all of the interval lies
    beyond boundary n, -1 if none of it does, 0 if that is not certain; `guess` only starts the
    walk.
    """
    cell = max(0, guess)
    while True:
        side = beyond(cell + 1)
        if side < 0:  # all of it ends before the next cell: does it begin in this one, too?
            side = beyond(cell) if cell > 0 else 1
            if side > 0:
                return cell
        if side == 0:
            return None
        cell += side


def _compare(tail: int, bits: int, half_steps: int, sigma: float, grid: float) -> int:
    """Compare all magnitudes of a tail interval with the boundary half_steps grid / 2.

    1 if every magnitude sigma Q^{-1}(T), T in [tail, tail + 1] / 2^bits, lies beyond the boundary,
    -1 if every one lies below it, 0 if that is not certain. The boundary's own tail is known in
    units of 2^-(bits + 64), with an error far below _FRACTION_SLACK = 2^20 of them: see
    _scaled_tail.
    """
    boundary = _scaled_tail(half_steps, bits + _FRACTION_BITS, sigma, grid)
    if (tail + 1) << _FRACTION_BITS <= boundary - _FRACTION_SLACK:
        return 1
    if tail << _FRACTION_BITS >= boundary + _FRACTION_SLACK:
        return -1
    return 0


def _scaled_tail(half_steps: int, bits: int, sigma: float, grid: float) -> int:
    """Return 2^bits Q(x) for x = half_steps grid / (2 sigma), within a few units.

    Q(x) = erfc(sqrt(x^2 / 2)) / 2, where x^2 / 2 is an exact fraction top / bottom. Its root has a
    relative error of at most 2^(1 - precision), which Q multiplies by x phi(x) / Q(x) <= x^2 + 1.
    With precision >= bits + max(0, log2(x^2 / 2) + 1) that is at most 3 units as Q <= 1/2; erfc
    itself is good to 2 units in its last place (measured in the tests), truncation costs 1.

    mpmath's functions of `libmp` take their precision as an argument and so, unlike its contexts,
    share nothing between threads.
    """
    from mpmath import libmp

    grid_top, grid_bottom = grid.as_integer_ratio()
    sigma_top, sigma_bottom = sigma.as_integer_ratio()
    top = (half_steps * grid_top * sigma_bottom) ** 2
    bottom = 8 * (sigma_top * grid_bottom) ** 2
    precision = bits + max(0, top.bit_length() - bottom.bit_length() + 2)
    argument = libmp.mpf_sqrt(libmp.from_rational(top, bottom, precision), precision)
    tail = libmp.mpf_erfc(argument, precision)
    return int(libmp.to_int(libmp.mpf_shift(tail, bits - 1)))


def check_ratio(sigma: ArrayLike, grid: float) -> None:
    """Refuse a sigma/grid for which rounded_steps could not do its work.

    >>> check_ratio(40.0, 1.0)
    >>> check_ratio(1e300, 1.0)
    Traceback (most recent call last):
    tacit.errors.InvalidArgument: Expected sigma=1e+300 to be between 2**-20 and 2**40 grid steps.
    """
    # Compared by multiplication with a power of two: the quotient could overflow.
    scales = np.asarray(sigma)
    for value in (float(scales.min(initial=grid)), float(scales.max(initial=grid))):
        if value * (1 / LARGEST_RATIO) > grid or value < grid * SMALLEST_RATIO:
            raise refuse("sigma", value, "between 2**-20 and 2**40 grid steps")


def bernoulli(draw_words: DrawWords, probability: float, count: int) -> NDArray[np.bool_]:
    """Draw bits that are 1 with exactly the given float64 probability.

    A uniform word w is compared with p 2^64 = n + f, n whole, 0 <= f < 1: w < n is a 1, w > n is
    a 0, and w = n is a 1 with probability f, which is decided by further words in the same way.
    Scaling by a power of two and taking the fraction are exact in float64, and every round uses
    up bits of p, so this ends.

    >>> bernoulli(lambda count: np.arange(count, dtype=np.uint64), 2.0**-63, 4)
    array([ True,  True, False, False])
    """
    if probability == 1.0:
        return np.ones(count, dtype=np.bool_)
    fraction, whole = math.modf(math.ldexp(probability, 64))
    threshold = np.uint64(int(whole))
    bits = np.empty(count, dtype=np.bool_)
    for start in range(0, count, _BLOCK):
        words = draw_words(min(_BLOCK, count - start))
        block = bits[start : start + words.size]
        np.less(words, threshold, out=block)
        if fraction > 0.0 and (undecided := words == threshold).any():
            block[undecided] = bernoulli(draw_words, fraction, int(undecided.sum()))
    return bits


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

    The rate is the rational number that the float64 is. Exact for the reason given in
    `rounded_steps`: for U uniform on (0, 1) the g with (1 - rate)^(g+1) < U < (1 - rate)^g has
    this law, the first word w puts U into [w, w + 1] 2^-64, and more bits of the *same* U are
    drawn until that has one g.

    The fast path computes y = log(u) / log1p(-rate) for u = (w + 1/2) 2^-64 and g = floor(y) in
    double precision. It certifies w >= 2^44 only, hence u >= 2^-20 and |log u| < 13.9. With
    decay = -log(1 - rate), the errors of y, in units of 1 / decay:

    1. U against the computed u: relative 2^-45 (half an interval) and 2^-52 (two roundings), so
       log U is off by less than 1.1 x 2^-45.
    2. log: 13.9 x 2^-46, from a relative error of 2^-46, 64 units in the last place. NumPy claims
       4 at worst; the tests measure it against mpmath.
    3. log1p and the division: 13.9 x (2^-46 + 2^-53), from the same allowance for log1p.

    Together less than 4 x 2^-43 = 2^-41. The distance of y to the integers around it is computed
    exactly; it has to exceed _SKIP_SLACK / decay with _SKIP_SLACK = 2^-40, of which the other half
    pays for rounding the quotient. The refinement decides in integers: see _power_bounds.
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
    ratio = np.log((words.astype(np.float64) + 0.5) * 2.0**-_FIRST_BITS) / -decay
    whole = np.floor(ratio)
    past, slack = ratio - whole, _SKIP_SLACK / decay
    certain = (past > slack) & (past < 1.0 - slack) & (words >= np.uint64(_FEWEST_CERTIFIED))
    return whole.astype(np.int64), certain


def _refined_skip(word: int, rate: float, draw_words: DrawWords) -> int:
    """Append words to the uniform number that `word` began until its skip is certain."""

    def skip(uniform: int, bits: int) -> int | None:
        log_uniform = math.log(2 * uniform + 1) - (bits + 1) * math.log(2.0)
        guess = math.floor(log_uniform / math.log1p(-rate))
        return _one_cell(guess, lambda n: _below_power(uniform, bits, n, rate))

    return _refined(word, draw_words, skip)


def _below_power(uniform: int, bits: int, exponent: int, rate: float) -> int:
    """Compare all of [uniform, uniform + 1] / 2^bits with (1 - rate)^exponent.

    1 if all of it lies below, -1 if all of it lies above, 0 if that is not certain.
    """
    low, high, scale = _power_bounds(exponent, bits, rate)
    if uniform << (scale - bits) >= high:
        return -1
    return int((uniform + 1) << (scale - bits) <= low)


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
