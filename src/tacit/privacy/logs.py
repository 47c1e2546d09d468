"""Logarithms of sums that are close to one: where a divergence is small, plain logs cancel."""

from __future__ import annotations

import numpy as np

from tacit._checks import Floats

_LARGE = 30.0  # beyond e^30 the "- 1" no longer matters, and adding logarithms is exact enough


def log_mean_exp(log_p: Floats, u: Floats, log_not_p: Floats, v: Floats) -> Floats:
    """Return max(0, log(p e^u + (1-p) e^v)) as log1p(p expm1(u) + (1-p) expm1(v)).

    Only the first-order terms cancel, which costs two or three digits instead of all.
    """
    large = np.maximum(u + log_p, v + log_not_p) > _LARGE
    excess = _weighted_growth(log_p, u) + _weighted_growth(log_not_p, v)
    near = np.log1p(np.maximum(np.where(large, 0.0, excess), 0.0))
    return np.where(large, np.logaddexp(log_p + u, log_not_p + v), near)


def _weighted_growth(log_p: Floats, u: Floats) -> Floats:
    """Return p (e^u - 1): a p that underflows still counts when e^u outweighs it."""
    steep = np.exp(np.minimum(log_p + u, _LARGE))
    gentle = np.exp(log_p) * np.expm1(np.minimum(u, _LARGE))
    return np.where(u > _LARGE, steep, gentle)


def log_sum_near_one(log_x: Floats, log_y: Floats) -> Floats:
    """Return max(0, log(e^log_x + e^log_y)) where e^log_x is close to 1 and e^log_y small.

    A divergence cannot be negative: rounding may leave -1e-17, and underflow leaves exactly 0.
    """
    large = np.maximum(log_x, log_y) > _LARGE
    near = np.log1p(
        np.maximum(np.expm1(np.minimum(log_x, _LARGE)) + np.exp(np.minimum(log_y, _LARGE)), 0.0)
    )
    return np.where(large, np.logaddexp(log_x, log_y), near) if large.any() else near
