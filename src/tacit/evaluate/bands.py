"""Figures of a noisy table of scores, with bands for sampling and noise together.

A figure is a ratio of sums of cells, each a Poisson count plus Gaussian noise of known deviation.
A value p is in the band unless the data contradict it: numerator - p denominator is a known sum of
cells. A denominator near 0 gives a wide band, not a wrong one (docs/theory/evaluation.md#bands).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit._checks import Floats

Z = 1.959963984540054
"""Normal quantile of a band of 95 %."""
_LARGEST_TIE = 0.4
_NEAR = 0.01
_FEW = 90.0
_SEEN = 3 * 2**0.5
"""Least count of a filled bin of two cells, in deviations of the noise on a cell."""


class Band(NamedTuple):
    """An estimate and the ends of its 95 % band; arrays for several tables.

    Parameters
    ----------
    value, low, high : float or array
    """

    value: Floats
    low: Floats
    high: Floats


def solved(a: Floats, b: Floats, c: Floats, value: Floats, ends: tuple[float, float]) -> Band:
    """Return the band {p: a p^2 + b p + c <= 0} around the value, all of `ends` if it is open."""
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
        low, high = (-b - root) / (2 * a), (-b + root) / (2 * a)
        bounded = (a > 0) & np.isfinite(low) & np.isfinite(high)
        shown = np.clip(np.where(np.isfinite(value), value, 0.5), *ends)
        low = np.where(bounded, np.clip(low, *ends), ends[0])
        high = np.where(bounded, np.clip(high, *ends), ends[1])
    return Band(shown, np.minimum(low, shown), np.maximum(high, shown))


UNIT = (0.0, 1.0)
ANYWHERE = (-np.inf, np.inf)


def share_band(
    part: Floats,
    rest: Floats,
    cells: tuple[int, int],
    sigma: float,
    ends: tuple[float, float] = UNIT,
) -> Band:
    """Return part/(part + rest) with Wilson's band, widened for the noise of so many cells.

    All p with (part - p total)^2 <= z^2 (total p (1 - p) + sigma^2 (cells_0 (1 - p)^2 + cells_1
    p^2)); `part` and `rest` have no record in common.
    """
    total = part + rest
    mass = np.maximum(total, 1.0)  # a count: at least one record is spoken of
    first, second = (size * sigma**2 for size in cells)
    a = total**2 - Z**2 * (first + second - mass)
    b = -2 * part * total - Z**2 * (mass - 2 * first)
    c = part**2 - Z**2 * first
    # A total that noise alone could have made tells nothing.
    a = np.where(total > 0, a, -1.0)
    with np.errstate(all="ignore"):
        return solved(a, b, c, part / total, ends)


def mean_band(weights: Floats, table: Floats, sigma: float) -> Band:
    """Return sum(weights x table)/sum(table), in [0, 1], with its band.

    All p with (top - p total)^2 <= z^2 sum (weight - p)^2 (sigma^2 + count).

    >>> band = mean_band(np.array([[0.0, 1.0]]), np.array([[20.0, 80.0]]), 0.0)
    >>> round(float(band.value), 3)
    0.8
    """
    axes = (-2, -1)
    total, top = table.sum(axes), (weights * table).sum(axes)
    squares = sigma**2 * (weights**2).sum() + np.maximum((weights**2 * table).sum(axes), 0.0)
    products = sigma**2 * weights.sum() + top
    ones = sigma**2 * weights.size + np.maximum(total, 0.0)
    a = np.where(total > 0, total**2 - Z**2 * ones, -1.0)
    with np.errstate(all="ignore"):
        b, c = -2 * (top * total - Z**2 * products), top**2 - Z**2 * squares
        return solved(a, b, c, top / total, UNIT)


def tie_chances(slope: Floats, gini: Floats) -> Floats:
    """Return P(positive above negative) in a bin: 1/2 + slope x gini/4, at most 0.9."""
    return np.asarray(0.5 + np.minimum(np.asarray(slope)[..., None] * gini / 4, _LARGEST_TIE))


def auc_band(table: Floats, sigma: float, ties: Floats, ties_spread: Floats | float = 0.0) -> Band:
    """Return the area under the ROC curve of tables (..., 2, bins), bins rising.

    All A that the data do not contradict: W(A) = sum_ij h1_i h0_j (k_ij - A) is bilinear in the
    noisy cells, so unbiased, and its variance is known. `ties` (from `tie_chances`) move together.
    """
    negatives, positives = table[..., 0, :], table[..., 1, :]
    bins = table.shape[-1]
    below = np.tril(np.ones((bins, bins)), -1)
    kernel = below + np.eye(bins) * ties[..., :, None]
    k0 = np.einsum("...ij,...j->...i", kernel, negatives)
    k1 = np.einsum("...ij,...i->...j", kernel, positives)
    n0, n1 = negatives.sum(-1), positives.sum(-1)
    own = (k0, k1, kernel)
    ones = (n0[..., None], n1[..., None], np.ones((bins, bins)))

    def variance(first: Any, second: Any, d0: Floats, d1: Floats) -> Floats:
        """Return the part of Var W in a product of two of (kernel, ones), for these variances."""
        (u0, u1, m), (v0, v1, o) = first, second
        linear = (u0 * v0 * d1).sum(-1) + (u1 * v1 * d0).sum(-1)
        joint = np.einsum("...i,...j,...ij->...", d1, d0, m * o)
        return np.asarray(linear - joint)  # the squares hold the noise once too often

    total, mass = (positives * k0).sum(-1), n0 * n1
    with np.errstate(all="ignore"):
        value = total / mass
    cells = [np.full(bins, sigma**2)] * 2, [sigma**2 + negatives, sigma**2 + positives]
    noise, both = (
        [variance(*pair, *each) for pair in ((own, own), (own, ones), (ones, ones))]
        for each in cells
    )
    at_value = [one - other for one, other in zip(both, noise, strict=True)]
    sampling = at_value[0] - 2 * value * at_value[1] + value**2 * at_value[2]
    noise[0] = noise[0] + (positives * negatives * ties_spread).sum(-1) ** 2
    few = np.minimum(n0, n1)
    return inverted(total, np.where((n0 > 0) & (n1 > 0), mass, 0.0), noise, sampling, few)


def inverted(
    total: Floats,
    mass: Floats,
    noise: Sequence[Floats],
    sampling: Floats,
    few: Floats,
    *,
    most: Floats | float = np.inf,
) -> Band:
    """Return all A in [0, 1] with (total - A mass)^2 <= z^2 Var(A).

    The noise's variance is noise_0 - 2 A noise_1 + A^2 noise_2. The sampling variance is taken at
    the estimate and scaled by A (1 - A) (Wilson), at most `most`; `few` is the count of the rarer
    kind.
    """
    with np.errstate(all="ignore"):
        value = np.where(mass > 0, total / mass, np.nan)
        near = np.clip(np.nan_to_num(value, nan=0.5), _NEAR, 1 - _NEAR)
        moved = np.maximum(sampling, 0.0) / (near * (1 - near))
        moved = moved * (1 + _FEW * np.maximum(2 * near - 1, 0.0) ** 2 / np.maximum(few, 1.0))
        moved = np.minimum(moved, most)
        a = mass**2 - Z**2 * (noise[2] - moved)
        b = -2 * total * mass + Z**2 * (2 * noise[1] - moved)
        c = total**2 - Z**2 * noise[0]
        return solved(np.where(mass > 0, a, -1.0), b, c, value, (0.0, 1.0))


def fitted_slope(table: Floats, sigma: float, logits: Floats) -> tuple[Floats, Floats]:
    """Return the slope of the log-odds along the logit, and its posterior deviation.

    The posterior mode under slope ~ N(1, 1), not below 0; the deviation is 1 where noise hides it.
    """
    negatives, positives = table[..., 0, :], table[..., 1, :]
    mass = np.maximum(negatives + positives, 1.0)
    seen = mass > _SEEN * sigma  # noise in an empty bin would pass for information
    n0, n1 = np.maximum(negatives.sum(-1), 1.0), np.maximum(positives.sum(-1), 1.0)
    slope = np.ones(n0.shape)
    centre = (mass * logits).sum(-1) / mass.sum(-1)
    intercept = np.log(n1 / n0) - centre
    for _ in range(30):
        eta = np.clip(slope[..., None] * logits + intercept[..., None], -30, 30)
        p = 1 / (1 + np.exp(-eta))
        gap = positives * (1 - p) - negatives * p
        bend = mass * p * (1 - p)
        variance = bend + sigma**2 * (p * p + (1 - p) ** 2)
        weight = np.where(seen, bend / variance, 0.0)
        # Gauss-Newton on sum gap^2/variance + (slope - 1)^2
        g0, g1 = (weight * gap).sum(-1), (weight * gap * logits).sum(-1) - (slope - 1)
        h00 = (weight * bend).sum(-1) + 1e-3
        h01 = (weight * bend * logits).sum(-1)
        h11 = (weight * bend * logits**2).sum(-1) + 1.0
        det = h00 * h11 - h01**2
        step0, step1 = (h11 * g0 - h01 * g1) / det, (h00 * g1 - h01 * g0) / det
        longest = np.maximum(np.maximum(np.abs(step0), np.abs(step1)), 1.0)
        intercept = intercept + step0 / longest
        slope = np.clip(slope + step1 / longest, 0.0, 20.0)
    return np.asarray(slope), _slope_deviation(
        np.where(seen, mass, 0.0), n1 / (n0 + n1), sigma, logits
    )


def _slope_deviation(mass: Floats, share: Floats, sigma: float, logits: Floats) -> Floats:
    """Return a slope's posterior deviation, the intercept unknown, at p = the overall share."""
    p = share[..., None]
    bend = mass * p * (1 - p)
    told = bend**2 / (bend + sigma**2 * (p * p + (1 - p) ** 2) + 1e-12)
    h00, h01 = told.sum(-1) + 1e-3, (told * logits).sum(-1)
    h11 = (told * logits**2).sum(-1) + 1.0
    return np.asarray(np.sqrt(h00 / (h00 * h11 - h01**2)))


def average_precision(table: Floats) -> Floats:
    """Return sum of precision x rise of recall over the bins' edges; NaN without positives."""
    above = np.cumsum(table[..., ::-1], axis=-1)
    rise = table[..., 1, ::-1]
    with np.errstate(all="ignore"):
        # Not held below 1: where noise makes it more, clipping would leave a bias.
        precision = above[..., 1, :] / np.maximum(above.sum(axis=-2), 1e-9)
        return np.asarray((rise * precision).sum(-1) / rise.sum(-1))


def average_precision_band(table: Floats, sigma: Floats) -> Band:
    """Return average precision at the thresholds between bins, with a band of first order."""
    value = average_precision(table)
    true, false = (np.cumsum(table[..., row, ::-1], axis=-1) for row in (1, 0))
    rise = table[..., 1, ::-1]
    total = np.maximum(true + false, 1e-9)
    precision = true / total
    # How sum rise x precision moves with a cell: by its own bin's rise, and by precision from there
    # downwards.
    by_true = precision + _below(rise * (1 - precision) / total)
    by_false = _below(-rise * precision / total)
    quiet, counts = sigma[::-1] ** 2, table[..., ::-1]
    noise = [
        (quiet * (by_true**2 + by_false**2)).sum(-1),
        (quiet * by_true).sum(-1),
        quiet.sum() * np.ones(value.shape),
    ]
    sampling = ((by_true - value[..., None]) ** 2 * counts[..., 1, :]).sum(-1)
    sampling += (by_false**2 * counts[..., 0, :]).sum(-1)
    positives = rise.sum(-1)
    return inverted(value * positives, positives, noise, sampling, positives)


def _below(terms: Floats) -> Floats:
    """Return, of bins in falling order, the sum over each and all lower ones."""
    return np.asarray(np.cumsum(terms[..., ::-1], axis=-1)[..., ::-1])
