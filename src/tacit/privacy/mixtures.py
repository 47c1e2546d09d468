"""Divergences between P0 and the mixture (1 - rate) P0 + rate P1, without cancellation.

Computed from log P0 and log(P1/P0): with r = 1 + t the likelihood ratio and E t = 0, the moment
E r^a is 1 + E[r^a - 1 - a t], whose terms are all >= 0.
Proof: docs/theory/subsampling.md#computing-a-mixtures-divergence.
"""

from __future__ import annotations

import math

import numpy as np

from tacit._checks import Floats

_SERIES_BELOW = 1e-2  # |order * t| under which r^a - 1 - a t is summed as a series
_TERMS = 9
_LARGE = 40.0  # beyond e^40 the terms next to r^a no longer matter; leaving them out only adds
_NUMBERS_AT_ONCE = 1 << 17  # keeps (orders x pairs) temporaries in the processor's cache


def largest_mixture_rdp(
    log_base: Floats,
    log_shift: Floats,
    rate: float,
    orders: Floats,
    first_outcome_rdp: Floats | None = None,
) -> Floats:
    """Largest D_a between P0 and (1 - rate) P0 + rate P1, in both directions, for each order.

    `log_base` is log P0, `log_shift` log(P1/P0), of shape (outcomes, pairs); the maximum is over
    pairs. `first_outcome_rdp` multiplies the first outcome's term of the moment by e^((a-1) rdp).
    """
    log_r = log_mixed_ratio(rate, log_shift)
    with np.errstate(over="ignore"):
        t = rate * np.expm1(log_shift)
        back = np.expm1(-log_r)
    weights = np.stack([log_base, log_base + log_r], axis=1)  # (outcomes, directions, pairs)
    ratios = np.stack([log_r, -log_r], axis=1)
    excess = np.stack([t, back], axis=1)
    result = np.empty(orders.size)
    step = max(1, _NUMBERS_AT_ONCE // weights.size)
    for start in range(0, orders.size, step):
        part = slice(start, start + step)
        a = orders[part, None, None, None]
        logs = np.logaddexp.reduce(weights + log_excess(a, ratios, excess), axis=1)
        if first_outcome_rdp is not None:
            growth = log_expm1((a[:, 0] - 1) * first_outcome_rdp[part, None, None])
            logs = np.logaddexp(logs, weights[0] + a[:, 0] * ratios[0] + growth)
        result[part] = np.logaddexp(0.0, logs.max(axis=(1, 2))) / (orders[part] - 1)
    return result


def log_mixed_ratio(rate: float, log_shift: Floats) -> Floats:
    """Return log(1 + rate (e^d - 1)) for d = `log_shift`, with all its digits for any rate."""
    if rate == 1.0:
        return log_shift
    near = np.log1p(rate * np.expm1(np.minimum(log_shift, 31.0)))
    # Next to a rate of 1 and a steep fall 1 + rate (e^d - 1) would cancel.
    steep = (log_shift > 30) | ((log_shift < -1) & (rate > 0.5))
    if not steep.any():
        return near
    apart = np.logaddexp(math.log1p(-rate), math.log(rate) + log_shift)
    return np.where(steep, apart, near)


def log_sum_exp(logs: Floats) -> Floats:
    """Return log(sum(e^x)) over the last axis; -inf where nothing is above 0."""
    most = logs.max(axis=-1, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore", over="ignore"):  # an infinite term is an infinite sum
        return np.asarray(np.log(np.exp(logs - most).sum(axis=-1)) + most[..., 0])


def log_expm1(x: Floats) -> Floats:
    """Return log(e^x - 1) for x >= 0; -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > _LARGE, x, np.log(np.expm1(np.minimum(x, _LARGE))))


def log_excess(a: Floats | float, log_r: Floats, t: Floats) -> Floats:
    """Return log(r^a - 1 - a t), r = 1 + t; t is read only where it is small or negative.

    r expm1((a-1) log r) + r (a-1) expm1(-log r) for r >= 1, else r expm1((a-1) log r) - (a-1) t:
    orders close to 1 keep their digits, and nothing overflows.
    """
    small = np.abs(t) < _SERIES_BELOW / a
    if small.all():
        return _log_series(a, t)
    apart = _log_apart(a, log_r, t)
    if not small.any():
        return apart
    return np.where(small, _log_series(a, np.where(small, t, 0.0)), apart)


def _log_series(a: Floats | float, t: Floats) -> Floats:
    """Return log(r^a - 1 - a t) where a t is small: the binomial series by Horner's rule."""
    bracket = np.ones(())
    for j in range(_TERMS - 1, 2, -1):
        bracket = 1 + (a - j + 1) / j * t * bracket
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(a * (a - 1) / 2 * t * t * bracket, 0.0))


def _log_apart(a: Floats | float, log_r: Floats, t: Floats) -> Floats:
    growth = (a - 1) * log_r
    rise, fall = np.maximum(log_r, 0.0), np.minimum(log_r, 0.0)
    above = np.expm1(np.clip(growth, 0.0, _LARGE)) + (a - 1) * np.expm1(-rise)
    below = np.exp(fall) * np.expm1(np.minimum(growth, 0.0)) - (a - 1) * np.minimum(t, 0.0)
    with np.errstate(divide="ignore"):
        near = np.log(np.maximum(np.where(log_r < 0, below, above), 0.0)) + rise
    return np.where(growth > _LARGE, log_r + growth, near)
