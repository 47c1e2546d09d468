"""Theorem 6 of PATE 2018 with the optimal choice of Proposition 10.

Kept to reproduce the paper's tables; `bound="tight"` (tail_bound.py) is never larger.
Derived in docs/theory/data-dependent.md#theorem-6-and-the-condition-it-omits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, order_array, positive, renyi_order
from tacit.errors import InvalidArgument
from tacit.privacy.logs import log_sum_near_one


def theorem6_rdp(log_q: ArrayLike, sigma: float, orders: ArrayLike) -> Floats:
    """Data-dependent RDP of GNMax from log q by Theorem 6: shape (queries, orders).

    With L = -log q, r = sqrt(L):
        log[ (1-q)^a (1 - e^(-(r - 1/s)^2))^(1-a) + e^(-L + (a-1)(2r/s + 1/s^2)) ] / (a-1)
    where r > 1/s, r >= (a-1)/s and 2r/s >= 1/s^2 + log((s r + 1)/(s r - 1)), at most a/s^2
    everywhere. The printed theorem omits the condition q e^(eps2) < 1; it is r > 1/s here.

    >>> float(f"{theorem6_rdp(-5.179152311259569, 40, 8)[0, 0]:.9g}")
    0.00165488419
    """
    s = positive(sigma=sigma)
    a = order_array(orders)
    q_log = checked_log_q(log_q)[:, None]
    plateau = np.broadcast_to(a / s**2, (q_log.shape[0], a.size))
    r = np.sqrt(-q_log)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ordered = 2 * r / s >= 1 / s**2 + np.log((s * r + 1) / (s * r - 1))
        usable = (r > 1 / s) & ordered & (r >= (a - 1) / s)
        bound = np.where(usable, np.fmin(_bound(q_log, r, s, a), plateau), plateau)
    return np.where(np.isneginf(q_log), 0.0, bound)


def _bound(log_q: Floats, r: Floats, s: float, a: Floats) -> Floats:
    stay = a * np.log1p(-np.exp(log_q)) - (a - 1) * np.log1p(-np.exp(-((r - 1 / s) ** 2)))
    move = log_q + (a - 1) * (2 * r / s + 1 / s**2)
    return log_sum_near_one(stay, move) / (a - 1)


def theorem6_log_q0(sigma: float, order: float) -> float:
    """Largest log q at which Theorem 6 improves on a/s^2.

    Usually where the bound meets the plateau; for sigma near 1 and below, where it starts to apply.

    >>> float(f"{theorem6_log_q0(40, 14):.9f}")
    -3.402972417
    """
    s, a = positive(sigma=sigma), renyi_order(order=order)

    def improves(level: float) -> bool:
        return bool(theorem6_rdp(-level, s, a)[0, 0] < a / s**2)

    useless, useful = 0.0, 1.0
    while not improves(useful):
        useless, useful = useful, 2 * useful
    while useless < (middle := (useless + useful) / 2) < useful:
        useless, useful = (useless, middle) if improves(middle) else (middle, useful)
    return -useful


def checked_log_q(log_q: ArrayLike) -> Floats:
    """Return log q as a one-dimensional array without NaN, each <= 0 (-inf is q = 0)."""
    array = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if array.ndim != 1 or np.isnan(array).any() or (array > 0).any():
        raise InvalidArgument("Expected log_q to be a one-dimensional array of values <= 0.")
    return array
