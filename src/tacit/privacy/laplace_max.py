"""LNMax: the noisy plurality of the 2017 paper, Laplace noise of scale 1/gamma.

Proofs: docs/theory/data-dependent.md#lnmax.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, one_of, order_array, positive
from tacit.privacy.logs import log_sum_near_one
from tacit.privacy.noisy_max import vote_or_soft_matrix


def lnmax_log_q(votes: ArrayLike, gamma: float) -> Floats:
    """Log-probability bound that LNMax answers another class than the plurality, per query.

    q <= sum_{j != i*} (2 + gamma gap_j)/(4 e^(gamma gap_j)), at most 1 - 1/m. Secret.

    >>> round(float(np.exp(lnmax_log_q([[30, 5, 1]], 0.1)[0])), 9)
    0.159749068
    """
    gamma = positive(gamma=gamma)
    counts = vote_or_soft_matrix(votes)
    rows, top = np.arange(len(counts)), counts.argmax(axis=1)
    reach = gamma * (counts[rows, top][:, None] - counts)
    logs = np.log((2 + reach) / 4) - reach
    logs[rows, top] = -np.inf
    return np.asarray(
        np.minimum(np.logaddexp.reduce(logs, axis=1), math.log1p(-1 / counts.shape[1]))
    )


def lnmax_rdp_worst(gamma: float, orders: ArrayLike) -> Floats:
    """Worst-case RDP of one LNMax query: two Laplace coordinates.

    2 log[ a/(2a-1) e^((a-1) gamma) + (a-1)/(2a-1) e^(-a gamma) ] / (a-1). It is 2 gamma-DP too and
    never larger than the pure-DP curve, which PATE 2017 bounds by 2 gamma^2 a.

    >>> round(float(lnmax_rdp_worst(0.1, [8])[0]), 10)
    0.0713535469
    """
    g, a = positive(gamma=gamma), order_array(orders)
    grow = np.log(a / (2 * a - 1)) + (a - 1) * g
    fall = np.log((a - 1) / (2 * a - 1)) - a * g
    excess = a / (2 * a - 1) * np.expm1(np.minimum((a - 1) * g, 30)) + (a - 1) / (
        2 * a - 1
    ) * np.expm1(-a * g)
    near = np.log1p(np.maximum(excess, 0.0))  # rounding may leave -1e-33 at tiny gamma
    moment = np.where((a - 1) * g < 30, near, np.logaddexp(grow, fall))
    return 2 * moment / (a - 1)


def lnmax_rdp(votes: ArrayLike, gamma: float, orders: ArrayLike, bound: str = "tight") -> Floats:
    """Data-dependent RDP of LNMax for each query: shape (queries, orders). Secret. Unit: a teacher.

    With e = 2 gamma and q <= 1/(1 + e^e):
    tight:    log max{ (1-q)^a (1 - q e^-e)^(1-a) + q e^((a-1)e),
                       (1-q)^a (1 - q e^e)^(1-a) + q e^(-(a-1)e) } / (a-1), at most the worst case
              `lnmax_rdp_worst` (randomised response dominates).
    pate2017: log[ (1-q)^a (1 - q e^e)^(1-a) + q e^((a-1)e) ] / (a-1), at most e and e^2 a/2.

    >>> round(float(lnmax_rdp([[30, 5, 1]], 0.1, [8])[0, 0]), 10)
    0.0386458993
    """
    one_of("tight", "pate2017", bound=bound)
    a, e = order_array(orders), 2 * positive(gamma=gamma)
    log_q = lnmax_log_q(votes, gamma)[:, None]
    usable = log_q <= -np.logaddexp(0.0, e)
    inside = np.where(usable, log_q, -np.logaddexp(0.0, e))
    if bound == "tight":
        value = np.maximum(_moment(inside, -e, e, a), _moment(inside, e, -e, a))
        ceiling = lnmax_rdp_worst(gamma, a)
    else:
        value = _moment(inside, e, e, a)
        ceiling = np.minimum(e, e**2 * a / 2)
    return np.where(usable, np.minimum(value / (a - 1), ceiling), ceiling)


def _moment(log_q: Floats, stay_shift: float, move_shift: float, a: Floats) -> Floats:
    """log[ (1-q)^a (1 - q e^stay_shift)^(1-a) + q e^((a-1) move_shift) ]."""
    with np.errstate(divide="ignore"):  # q e^shift rounds to 1 at large gamma: no bound there
        stay = a * np.log1p(-np.exp(log_q)) - (a - 1) * np.log1p(-np.exp(log_q + stay_shift))
    return log_sum_near_one(stay, log_q + (a - 1) * move_shift)
