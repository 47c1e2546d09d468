"""Logarithms of sums that are close to one: where a divergence is small, plain logs cancel."""

from __future__ import annotations

import numpy as np

from tacit._checks import Floats

_LARGE = 30.0  # beyond e^30 the "- 1" no longer matters, and adding logarithms is exact enough
_CAPPED = 700.0  # keeps exp() finite in the branch that is then thrown away


def log_mean_exp(log_p: Floats, u: Floats, log_not_p: Floats, v: Floats) -> Floats:
    """Return max(0, log(p e^u + (1-p) e^v)) as log1p(p expm1(u) + (1-p) expm1(v)).

    Only the first-order terms cancel, which costs two or three digits instead of all.
    """
    large = np.maximum(u + log_p, v + log_not_p) > _LARGE
    excess = np.exp(log_p) * np.expm1(np.minimum(u, _CAPPED)) + np.exp(log_not_p) * np.expm1(
        np.minimum(v, _CAPPED)
    )
    near = np.log1p(np.maximum(np.where(large, 0.0, excess), 0.0))
    return np.where(large, np.logaddexp(log_p + u, log_not_p + v), near)


def log_sum_near_one(log_x: Floats, log_y: Floats) -> Floats:
    """Return max(0, log(e^log_x + e^log_y)) where e^log_x is close to 1 and e^log_y small.

    A divergence cannot be negative: rounding may leave -1e-17, and underflow leaves exactly 0.
    """
    large = np.maximum(log_x, log_y) > _LARGE
    near = np.log1p(
        np.maximum(np.expm1(np.minimum(log_x, _LARGE)) + np.exp(np.minimum(log_y, _LARGE)), 0.0)
    )
    return np.where(large, np.logaddexp(log_x, log_y), near)
