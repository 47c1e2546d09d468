"""The tight bound of spec 2.4 in high precision: the oracle for tail_bound.py.

A dense float64 scan over the split h finds where the largest value lies, without assuming a shape;
mpmath then evaluates it there. Nothing is shared with the code under test.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
from scipy.special import log_ndtr, ndtri_exp

_SPLITS = 2 * np.sinh(np.linspace(-6.5, 6.5, 4801))  # y = logit(h/q), from -665 to 665


def tight_cost(log_q: float, mu: float, order: float) -> mp.mpf:
    """min(max_h log T/(a-1), a mu^2/2), good to about 14 digits."""
    with mp.workdps(int(40 - log_q / 2)):
        problem = (mp.mpf(float(log_q)), mp.mpf(float(mu)), mp.mpf(float(order)))
        largest = max(split_value(*problem, mp.mpf(y)) for y in _candidates(*problem))
        plateau = problem[2] * problem[1] ** 2 / 2
        return min(mp.log(largest) / (problem[2] - 1), plateau)


def split_value(log_q: mp.mpf, mu: mp.mpf, a: mp.mpf, y: mp.mpf) -> mp.mpf:
    """T(h) at h = q/(1 + e^-y), as printed in the specification."""
    c = quantile(log_q - mp.log1p(mp.exp(y)) if y < mp.inf else -mp.inf)
    d = -quantile(log_q - mp.log1p(mp.exp(-y)) if y > -mp.inf else -mp.inf)
    stays_there = cdf(d - mu) - cdf(c - mu)  # 1 - p
    moved = cdf(c + (a - 1) * mu) + cdf(-d - (a - 1) * mu)
    stay = (1 - mp.exp(log_q)) ** a * stays_there ** (1 - a)
    return stay + mp.exp(a * (a - 1) * mu**2 / 2) * moved


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
        if abs(step) < mp.mpf(10) ** (-0.6 * mp.mp.dps) * (1 + abs(x)):
            return x
    raise AssertionError("the oracle's Newton iteration did not converge")


def _candidates(log_q: mp.mpf, mu: mp.mpf, a: mp.mpf) -> list[mp.mpf]:
    """Both ends, the best split of the scan, and the vertex of the parabola around it (twice)."""
    scan = _float_values(float(log_q), float(mu), float(a))
    k = min(max(int(scan.argmax()), 1), _SPLITS.size - 2)
    found = [mp.ninf, mp.inf, mp.mpf(float(_SPLITS[k]))]
    for width in (float(_SPLITS[k + 1] - _SPLITS[k]), 1e-4):
        found.append(_vertex((log_q, mu, a), found[-1], mp.mpf(width)))
    return found


def _vertex(problem: tuple[mp.mpf, mp.mpf, mp.mpf], y: mp.mpf, width: mp.mpf) -> mp.mpf:
    below, here, above = (split_value(*problem, y + step) for step in (-width, 0, width))
    curvature = below - 2 * here + above
    if curvature >= 0:  # the largest value is at an end
        return y
    return y + max(-width, min(width, width * (below - above) / (2 * curvature)))


def _float_values(log_q: float, mu: float, a: float) -> np.ndarray:
    c = ndtri_exp(log_q - np.logaddexp(0, _SPLITS))
    d = -ndtri_exp(log_q - np.logaddexp(0, -_SPLITS))
    low, high = log_ndtr(c - mu), log_ndtr(d - mu)
    with np.errstate(divide="ignore"):
        stay = a * math.log(-math.expm1(log_q)) - (a - 1) * (high + np.log(-np.expm1(low - high)))
    moved = np.logaddexp(log_ndtr(c + (a - 1) * mu), log_ndtr(-d - (a - 1) * mu))
    return np.logaddexp(stay, a * (a - 1) * mu**2 / 2 + moved)
