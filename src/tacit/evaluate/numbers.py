"""Numbers: R^2, mean absolute error and the residuals' histogram, from one noisy sum.

A record contributes (1, t, t^2, |r|, r^2)/sqrt 5, with target t and residual r scaled to [-1, 1] by
public bounds, and the bin of r; both parts together have norm at most 1
(docs/theory/evaluation.md#numbers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._checks import Floats
from tacit.evaluate.bands import Band, Z, solved
from tacit.evaluate.binary import CLEAR

MOMENTS = 5
MOMENTS_PART, BINS_PART = math.sqrt(0.8), math.sqrt(0.2)
"""Most of the squared norm is for the moments, whose ratios have bands; the rest for the bins."""
RESIDUAL_BINS = 16


def scales_of(low: float, high: float, centre: float) -> tuple[float, float]:
    """Return the divisors of a target, less the centre, and of a residual: nothing is clipped.

    The distance to the farther bound, and the whole range; clipping would flatter R^2 and the
    error.
    """
    return max(high - centre, centre - low), high - low


def said_of_number(target: Floats, residual: Floats) -> Floats:
    """Return records' rows (5 + bins) of norm at most 1; 0 if not finite. Secret."""
    t, r = np.clip(target, -1.0, 1.0), np.clip(residual, -1.0, 1.0)
    moments = np.stack([np.ones(len(t)), t, t * t, np.abs(r), r * r], axis=1) / math.sqrt(MOMENTS)
    edges = np.linspace(-1.0, 1.0, RESIDUAL_BINS + 1)[1:-1]
    bins = np.eye(RESIDUAL_BINS)[np.searchsorted(edges, np.nan_to_num(r), side="right")]
    rows = np.concatenate([MOMENTS_PART * moments, BINS_PART * bins], axis=1)
    return np.where(np.isfinite(t + r)[:, None], rows, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class NumberSums:
    """Noisy sums of the records' contributions.

    Parameters
    ----------
    sums : array of shape (..., 5 + bins), as released
    sigma : float, deviation of the noise on each
    n_records : int, as declared
    scale : tuple of float, what target and residual were divided by
    predicted : tuple of float
        Second and fourth moment of public predictions around their mean, in the target's scale:
        they show how targets spread beyond their residuals.
    """

    sums: Floats
    sigma: float
    n_records: int
    scale: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def noise(self) -> float:
        """Deviation of the noise on a moment's sum."""
        return self.sigma * math.sqrt(MOMENTS) / MOMENTS_PART

    @property
    def told(self) -> tuple[str, ...]:
        """Which figures may be read: those whose denominators are expected to be clear of noise."""
        clear = self.n_records / self.noise
        least = {"mean_absolute_error": 1.0, "r_squared": self.predicted[0]}
        return tuple(name for name, part in least.items() if clear * part >= CLEAR)

    def moments(self) -> Floats:
        """Return noisy sums of 1, t, t^2, |r| and r^2.

        Returns
        -------
        array of shape (..., 5)
        """
        return np.asarray(self.sums[..., :MOMENTS] * (math.sqrt(MOMENTS) / MOMENTS_PART))

    def counts(self) -> Floats:
        """Return noisy counts of residuals in even bins of [-1, 1].

        Returns
        -------
        array of shape (..., bins)
        """
        return np.asarray(self.sums[..., MOMENTS:] / BINS_PART)

    def _fourth(self) -> Floats:
        """Return the sum of r^4, from the histogram."""
        middles = (np.arange(RESIDUAL_BINS) + 0.5) * (2 / RESIDUAL_BINS) - 1
        width = 2 / RESIDUAL_BINS
        fourth = middles**4 + middles**2 * width**2 / 2 + width**4 / 80
        return np.asarray(np.maximum((fourth * self.counts()).sum(-1), 0.0))

    def mean_absolute_error(self) -> Band:
        """Return the mean of |r|.

        Returns
        -------
        Band, in the units of the target
        """
        count, _, _, top, squares = np.moveaxis(self.moments(), -1, 0)
        extra = self.noise**2
        a = np.where(count > 0, count**2 - Z**2 * (extra + np.maximum(count, 0.0)), -1.0)
        b = -2 * top * count + Z**2 * 2 * np.maximum(top, 0.0)
        c = top**2 - Z**2 * (extra + np.maximum(squares, 0.0))
        with np.errstate(all="ignore"):
            band = solved(a, b, c, top / count, (0.0, 1.0))
        return Band(*(end * self.scale[1] for end in band))

    def r_squared(self) -> Band:
        """Return 1 - sum r^2/sum (t - mean)^2.

        Returns
        -------
        Band, with no lower end where noise hides the targets' spread
        """
        count, first, second, _, squares = np.moveaxis(self.moments(), -1, 0)
        ratio = (self.scale[1] / self.scale[0]) ** 2
        with np.errstate(all="ignore"):
            mean = first / np.maximum(count, 1.0)
            spread = second - first * mean
            top = squares * ratio
            each = np.maximum(count, 1.0)
            fourth = self._fourth() * ratio**2
            second_p, fourth_p = self.predicted
            mixed = top * second_p + fourth
            target = fourth_p * each + 6 * second_p * top + fourth
            extra = self.noise**2
            a = spread**2 - Z**2 * (extra * (1 + 4 * mean**2 + mean**4) + target)
            b = -2 * top * spread + Z**2 * 2 * mixed
            c = top**2 - Z**2 * (extra * ratio**2 + fourth)
            a = np.where((spread > 0) & (count > 0), a, -1.0)
            left = solved(a, b, c, top / spread, (0.0, np.inf))
        return Band(1 - left.value, 1 - left.high, 1 - left.low)

    def figures(self) -> dict[str, Any]:
        """Return all figures that may be read.

        Returns
        -------
        dict, `r_squared` and `mean_absolute_error` as Bands, `residuals` as a list of three lists
        """
        told: dict[str, Any] = {name: getattr(self, name)() for name in self.told}
        counts = self.counts()
        half = Z * np.sqrt((self.sigma / BINS_PART) ** 2 + np.maximum(counts, 0.0))
        told["residuals"] = Band(counts, counts - half, counts + half)
        return told
