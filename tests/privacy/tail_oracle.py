"""The tight bound in high precision: the oracle for tail_bound.py.

A dense float64 scan over the split h finds where the largest value lies, without assuming a shape;
mpmath then evaluates it there. Nothing is shared with the code under test.
The formula: docs/theory/data-dependent.md#the-tight-bound.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

_SPLITS = 2 * np.sinh(np.linspace(-6.5, 6.5, 4801))  # y = logit(h/q), from -665 to 665


def tight_cost(log_q: float, mu: float, order: float) -> mp.mpf:
    """min(max_h log T/(a-1), a mu^2/2), good to about 14 digits."""
    with mp.workdps(45):
        problem = (mp.mpf(float(log_q)), mp.mpf(float(mu)), mp.mpf(float(order)))
        plateau = problem[2] * problem[1] ** 2 / 2
        return min(mp.log1p(_largest_excess(*problem)) / (problem[2] - 1), plateau)


def split_excess(log_q: mp.mpf, mu: mp.mpf, a: mp.mpf, y: mp.mpf) -> mp.mpf:
    """T(h) - 1 at h = q/(1 + e^-y), as docs/theory/data-dependent.md#the-tight-bound prints it."""
    c = quantile(log_q - mp.log1p(mp.exp(y)) if y < mp.inf else -mp.inf)
    d = -quantile(log_q - mp.log1p(mp.exp(-y)) if y > -mp.inf else -mp.inf)
    p = cdf(c - mu) + cdf(mu - d)
    log_not_p = mp.log1p(-p) if p < 0.5 else mp.log(cdf(d - mu) - cdf(c - mu))
    stay = a * mp.log1p(-mp.exp(log_q)) - (a - 1) * log_not_p
    moved = cdf(c + (a - 1) * mu) + cdf(-d - (a - 1) * mu)
    return mp.expm1(stay) + mp.exp(a * (a - 1) * mu**2 / 2) * moved


def cdf(x: mp.mpf) -> mp.mpf:
    """Phi(x), also at the infinities."""
    if mp.isinf(x):
        return mp.mpf(1 if x > 0 else 0)
    return mp.ncdf(x)


def quantile(log_p: mp.mpf) -> mp.mpf:
    """Phi^-1(e^log_p) by Newton's method on log Phi."""
    if log_p == -mp.inf:
        return -mp.inf
    x = mp.mpf(float(ndtri_exp(float(log_p))))
    for _ in range(10):
        value = mp.ncdf(x)
        step = (mp.log(value) - log_p) * value / mp.npdf(x)
        x -= step
        if abs(step) < mp.mpf("1e-14") * (1 + abs(x)):  # the next step would be of its square
            return x
    raise AssertionError("the oracle's Newton iteration did not converge")


def _largest_excess(log_q: mp.mpf, mu: mp.mpf, a: mp.mpf) -> mp.mpf:
    """The best of both ends, the best split of the scan, and the parabolas around it."""

    def excess(y: mp.mpf) -> mp.mpf:
        return split_excess(log_q, mu, a, y)

    scan = _float_values(float(log_q), float(mu), float(a))
    k = min(max(int(scan.argmax()), 1), _SPLITS.size - 2)
    y, best = mp.mpf(float(_SPLITS[k])), max(excess(mp.ninf), excess(mp.inf))
    spacing = mp.mpf(float(_SPLITS[k + 1] - _SPLITS[k]))
    for width in (spacing, spacing / 30):
        below, here, above = excess(y - width), excess(y), excess(y + width)
        best = max(best, below, here, above)
        curvature = below - 2 * here + above
        if curvature < 0:  # otherwise the largest value is at an end
            y += max(-spacing, min(spacing, width * (below - above) / (2 * curvature)))
    return max(best, excess(y))


def _float_values(log_q: float, mu: float, a: float) -> np.ndarray:
    """log T on the scan, with what differences leave of it in float64."""
    c = ndtri_exp(log_q - np.logaddexp(0, _SPLITS))
    d = -ndtri_exp(log_q - np.logaddexp(0, -_SPLITS))
    p, low, high = ndtr(c - mu) + ndtr(mu - d), log_ndtr(c - mu), log_ndtr(d - mu)
    with np.errstate(divide="ignore"):
        log_not_p = np.where(p < 0.5, np.log1p(-p), high + np.log(-np.expm1(low - high)))
    stay = a * math.log(-math.expm1(log_q)) - (a - 1) * log_not_p
    moved = np.logaddexp(log_ndtr(c + (a - 1) * mu), log_ndtr(-d - (a - 1) * mu))
    move = a * (a - 1) * mu**2 / 2 + moved
    small = np.maximum(stay, move) < 1
    excess = np.expm1(np.minimum(stay, 1)) + np.exp(np.minimum(move, 1))
    return np.where(small, np.log1p(np.where(small, excess, 0)), np.logaddexp(stay, move))
