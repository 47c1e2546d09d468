"""A 95 % band for the mean of numbers in [0, 1], from noisy sums, whatever their distribution.

A mean is excluded if a bet against it, on the released sums, has won 40 times its stake
(docs/theory/evaluation.md#bounded-means).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tacit._checks import Floats
from tacit.evaluate.bands import Band

MEANS = np.arange(1, 4096) / 4096
"""The means that are tried, in this order."""
_WON = math.log(2 / 0.05)
_SPREAD = 1 / 8
"""Variance for which the second bet is best, in that of a coin of the same mean."""
_STAKES = np.geomspace(1e-3, 1e3, 64)[:, None]


def bounded_mean(squares: Floats, mixed: Floats, rest: Floats, noise: float, size: float) -> Band:
    """Return the mean of d from noisy sums of d^2, d (1 - d), (1 - d)^2, and its band.

    The noise has deviation `noise`, on `mixed` half the variance. The band holds for independent d
    of any distribution and any declared `size`; it is narrowest where that is right.
    """
    low = _low_end(squares, mixed, rest, noise, size)
    high = 1 - _low_end(rest, mixed, squares, noise, size)
    with np.errstate(all="ignore"):
        value = (squares + mixed) / (squares + 2 * mixed + rest)
    value = np.clip(np.where(np.isfinite(value), value, 0.5), 0.0, 1.0)
    return Band(value, np.minimum(low, value), np.maximum(high, value))


def _low_end(squares: Floats, mixed: Floats, rest: Floats, noise: float, size: float) -> Floats:
    """Return the largest mean up to which every one is excluded, or 0.

    A bet against a mean is one against all smaller ones: if this is too high, the bet against the
    first of `MEANS` above the true one has won, a single test and not one for each mean.
    """
    logs = [
        np.multiply.outer(squares, a)
        + np.multiply.outer(mixed, b)
        + np.multiply.outer(rest, c)
        - cost
        for a, b, c, cost in bets(noise, size)
    ]
    won = np.logaddexp(*logs) - math.log(len(logs)) >= _WON
    steps = np.where(won.all(-1), MEANS.size, (~won).argmax(-1))
    return np.asarray(np.concatenate([[0.0], MEANS])[steps])


@lru_cache(maxsize=16)
def bets(noise: float, size: float) -> Floats:
    """Return two bets against each of `MEANS`: factors of the three sums, and the noise's cost.

    A bet's logarithm is the sum of f(d) = l (d - p) - c (d - p)^2 - k, written in d^2, d (1 - d)
    and (1 - d)^2. Chernoff's has c = 0; the other one (Fan, Grama and Liu) has k = 0.
    """
    p = MEANS[None]
    coin = np.logaddexp(np.log1p(-p), np.log(p) + _STAKES) - _STAKES * p
    part = _STAKES / (1 + _STAKES)
    curved = (np.log1p(_STAKES) - part) / p**2
    chernoff = _best(_STAKES + 0 * p, 0 * coin, coin, noise, size)
    return np.stack([chernoff, _best(part / p, curved, 0 * curved, noise, size)])


def _best(slope: Floats, curved: Floats, k: Floats, noise: float, size: float) -> Floats:
    """Return, for each p, the bet that is expected to win against the nearest mean."""
    p = MEANS[None]
    a = slope * (1 - p) - curved * (1 - p) ** 2 - k
    b = slope * (1 - 2 * p) + 2 * curved * p * (1 - p) - 2 * k
    c = -slope * p - curved * p**2 - k
    cost = noise**2 * (a**2 + b**2 / 2 + c**2) / 2
    # size (slope gap - curved (gap^2 + variance) - k) - cost = log 40, solved for the gap.
    need = (_WON + cost) / size + curved * _SPREAD * p * (1 - p) + k
    root = slope**2 - 4 * curved * need
    gap = np.where(root >= 0, 2 * need / (slope + np.sqrt(np.maximum(root, 0.0))), np.inf)
    gap = np.where(np.isfinite(gap).any(axis=0), gap, need / slope)
    best = gap.argmin(axis=0)[None]
    return np.stack([np.take_along_axis(each, best, axis=0)[0] for each in (a, b, c, cost)])
