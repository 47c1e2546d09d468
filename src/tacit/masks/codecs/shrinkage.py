"""How much of each coordinate survives the noise: Wiener weights, L*, water-filling.

All of it is a function of public numbers or of releases. lambda is the second moment of a code
coordinate about the public centre, sigma the deviation of its noise.
Derived in docs/theory/high-dimensional.md#what-to-keep.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, finite_array, non_negative, positive, refuse
from tacit.errors import InvalidArgument
from tacit.privacy import calibrate_gaussian


def second_moments(spectrum: ArrayLike) -> Floats:
    """Return a spectrum as non-negative finite numbers."""
    values = finite_array(spectrum=spectrum)
    if values.ndim != 1 or (values < 0).any():
        raise refuse("spectrum", spectrum, "a list of finite numbers >= 0")
    return values


def wiener_weights(spectrum: ArrayLike, deviations: ArrayLike) -> Floats:
    """Return lambda / (lambda + sigma^2), 0 where sigma is infinite: the best linear shrinkage.

    Its mean squared error, lambda sigma^2/(lambda + sigma^2), is between 1/2 and 1 times that of
    the better of keeping and dropping the coordinate.

    >>> wiener_weights([1.0, 4.0, 1.0], [1.0, 0.0, np.inf]).tolist()
    [0.5, 1.0, 0.0]
    """
    moments = second_moments(spectrum)
    noise = np.square(np.broadcast_to(np.asarray(deviations, dtype=np.float64), moments.shape))
    if np.isnan(noise).any():
        raise InvalidArgument("Expected deviations without NaN.")
    weights = np.ones(moments.shape)  # without noise everything is kept, 0/0 included
    np.divide(moments, moments + noise, out=weights, where=noise > 0)
    return weights


def useful(spectrum: ArrayLike, sigma: float) -> NDArray[np.bool_]:
    """Tell which coordinates have lambda > sigma^2: the L* rule; their number may be 0.

    It minimises L sigma^2 + sum of lambda over what is dropped.

    >>> useful([4.0, 2.0, 0.5], sigma=1.0).tolist()
    [True, True, False]
    """
    return np.asarray(second_moments(spectrum) > non_negative(sigma=sigma) ** 2)


def water_filling(spectrum: ArrayLike, noise: float) -> Floats:
    """Return q >= 0, sum q = 1, the best share of the radius for each coordinate.

    q_l = max(0, t sqrt(lambda_l) - G) minimises sum lambda G/(q + G), the error after Wiener
    shrinkage when codes are weighted by sqrt(q_l/lambda_l), so that their mean squared norm is 1,
    and the noise on the weighted mean has variance G = `noise`. It chooses the components itself.

    >>> water_filling([4.0, 1.0, 0.0], noise=0.5).round(6).tolist()
    [0.833333, 0.166667, 0.0]
    """
    roots = np.sqrt(second_moments(spectrum))
    level = positive(noise=noise)
    if not roots.any():
        raise refuse("spectrum", spectrum, "not all 0: there is nothing to encode")
    falling = np.sort(roots)[::-1]
    slopes = (1 + level * np.arange(1, roots.size + 1)) / np.cumsum(falling)
    # The last m whose smallest coordinate still gets a share.
    last = np.flatnonzero(slopes * falling > level)[-1]
    shares = np.maximum(0.0, slopes[last] * roots - level)
    return np.asarray(shares / shares.sum())


def noise_to_signal(epsilon: float, delta: float, *, queries: int, n_teachers: int) -> float:
    """Return G = 4 m^2 N / K^2: noise variance per coordinate when codes have rms norm 1.

    >>> round(noise_to_signal(8, 1e-5, queries=50, n_teachers=50), 4)
    0.0288
    """
    queries = at_least(1, queries=queries)
    reach = 2 * math.sqrt(queries) / at_least(1, n_teachers=n_teachers)
    return calibrate_gaussian(reach, epsilon, delta) ** 2


def remaining_spectrum(
    releases: ArrayLike, deviations: ArrayLike, centres: ArrayLike | None = None
) -> Floats:
    """Estimate lambda from noisy codes alone: max(0, mean (code - centre)^2 - sigma^2).

    Releases are public, so this costs nothing. For a second round it says how far teachers
    still are from the centres.

    >>> remaining_spectrum([[3.0, 1.0], [-3.0, 0.0]], [1.0, 2.0]).tolist()
    [8.0, 0.0]
    """
    codes = finite_array(releases=releases)
    if codes.ndim != 2 or not len(codes):
        raise InvalidArgument(f"Expected releases (queries, length), got shape {codes.shape}.")
    offsets = codes - (0.0 if centres is None else finite_array(centres=centres))
    noise = np.square(np.asarray(deviations, dtype=np.float64))
    return np.asarray(np.maximum(0.0, np.square(offsets).mean(axis=0) - noise))


def combine_rounds(*rounds: tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """Return codes and deviations of several releases of the same codes: inverse-variance means.

    Each round is (codes, deviations); a deviation is infinite where a coordinate was left out, and
    a coordinate that no round has is 0 with an infinite one. Rounds may have had different centres:
    what clipping left alone has no bias.

    >>> first, second = ([[1.0, 5.0]], [1.0, np.inf]), ([[2.0, 7.0]], [1.0, 2.0])
    >>> codes, deviations = combine_rounds(first, second)
    >>> codes.tolist(), deviations.round(3).tolist()
    ([[1.5, 7.0]], [0.707, 2.0])
    """
    precision, total = np.zeros(1), np.zeros((1, 1))
    for codes, deviations in rounds:
        spread = np.asarray(deviations, dtype=np.float64)
        if not (spread > 0).all():
            raise InvalidArgument("Expected positive deviations.")
        weight = 1 / np.square(spread)
        precision = precision + weight
        total = total + finite_array(codes=codes) * weight
    spread = np.full(precision.shape, np.inf)
    np.divide(1.0, np.sqrt(precision), out=spread, where=precision > 0)
    return total / np.where(precision > 0, precision, 1.0), spread
