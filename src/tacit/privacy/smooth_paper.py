"""Smooth sensitivity as in PATE 2018, Algorithms 3 to 5, with its slips corrected.

It walks, query by query, to the histogram at distance d whose local sensitivity is largest. That is
right only where the local sensitivity rises towards the plateau [q1, q0] from both sides (the
paper's conditions C5 and C6); C6 fails roughly for order >= sigma, and then this refuses.
The slips: docs/theory/errata.md#pate-2018-the-theorems.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from tacit._checks import Floats, Integers
from tacit.errors import InvalidArgument
from tacit.privacy.noisy_max import rdp_from_log_q, union_log_q
from tacit.privacy.reach import Reach, discounted_maximum
from tacit.privacy.theorem6 import theorem6_log_q0

_SLACK = 1e-7  # relative: local sensitivities are differences of numbers good to 1e-9


class _LocalSensitivity:
    """LS(q) of one GNMax query's cost, with its plateau between q1 and q0."""

    def __init__(self, sigma: float, order: float, m: int, bound: str) -> None:
        if bound != "theorem6":
            raise InvalidArgument(
                f'Expected bound={bound!r} to be "theorem6" with algorithm="paper"; '
                'use algorithm="window" for the tight bound.'
            )
        self.sigma, self.order, self.bound = sigma, order, bound
        self.log_others, self.step = math.log(m - 1), math.sqrt(2) / sigma
        self.log_q0 = theorem6_log_q0(sigma, order)
        self.log_q1 = float(self.moved(np.array([self.log_q0]), -1)[0])
        top = order / sigma**2
        self.plateau = top - float(self.cost(np.array([self.log_q1]))[0])

    def moved(self, log_q: Floats, direction: int) -> Floats:
        """Prop. 21: the largest (+1) or smallest (-1) log q of a neighbour."""
        z = ndtri_exp(np.minimum(log_q - self.log_others, 0.0))
        return np.minimum(self.log_others + log_ndtr(z + direction * self.step), 0.0)

    def cost(self, log_q: Floats) -> Floats:
        return rdp_from_log_q(np.minimum(log_q, 0.0), self.sigma, [self.order], self.bound)[:, 0]

    def __call__(self, log_q: Floats) -> Floats:
        here = self.cost(log_q)
        up, down = self.cost(self.moved(log_q, 1)) - here, here - self.cost(self.moved(log_q, -1))
        flat = (log_q >= self.log_q1) & (log_q <= self.log_q0)
        return np.where(flat, self.plateau, np.maximum(up, down))

    def check_c6(self, lowest: float) -> None:
        """Refuse unless LS rises up to q1 and falls from q0 on, on a fine grid."""
        below = self(np.linspace(min(lowest, self.log_q1 - 1), self.log_q1, 2000, endpoint=False))
        above = self(np.linspace(self.log_q0, min(self.log_others, 0.0), 2000)[1:])
        slack = _SLACK * self.plateau
        rises = (np.diff(below) >= -slack).all() and below.max() <= self.plateau + slack
        falls = (np.diff(above) <= slack).all() and above.max() <= self.plateau + slack
        if not (rises and falls):
            raise InvalidArgument(
                f"Expected order={self.order} to be well below sigma={self.sigma}: condition C6 of "
                'PATE 2018 fails, so its algorithm is unsound here; use algorithm="window".'
            )


def paper_smooth_sensitivity(
    counts: Integers, sigma: float, order: float, beta: float, weights: Floats, bound: str
) -> float:
    """max_d e^(-beta d) sum_i w_i LS_i(d), LS_i(d) by AtDistance."""
    n_teachers, m = int(counts[0].sum()), counts.shape[1]
    local = _LocalSensitivity(sigma, order, m, bound)
    unanimous = np.zeros((1, m), dtype=np.int64)
    unanimous[0, 0] = n_teachers
    log_q_least = float(union_log_q(unanimous, sigma)[0])
    if log_q_least > local.log_q0:
        return 0.0  # the cost is a/sigma^2 for every histogram
    local.check_c6(log_q_least)
    reach = Reach(counts, sigma)
    log_q = reach.least_log_q(0)
    below, above = log_q < local.log_q1, log_q > local.log_q0

    def at_distance(d: int) -> float:
        rising = np.minimum(reach.largest_log_q(d), local.log_q0)  # it stops at the plateau
        falling = np.maximum(reach.least_log_q(d), local.log_q1)
        nearest = np.where(below, rising, np.where(above, falling, log_q))
        return float(weights @ local(nearest))

    return discounted_maximum(at_distance, local.plateau * float(weights.sum()), n_teachers, beta)
