"""Smooth sensitivity of the summed GNMax cost, without the paper's condition C6.

Write q = (m-1) Phi(z): a neighbouring histogram moves z by at most h = sqrt(2)/sigma (Prop. 21),
so the cost of a query is a nondecreasing function b(z). On cells of width h/K,

    J_k = b(z_{k+1} + h) - b(z_k) bounds the change of the cost to a neighbour anywhere in cell k,
    E_i(d) = max J over the cells that meet [z_low(d) - h, z_high(d)],
    SS = max_d e^(-beta d) sum_i E_i(d),   with E_i(n_teachers) = max J, the whole space,

where z_low(d), z_high(d) belong to the histograms at distance d with the least and the largest q
(Prop. 19): d votes gathered in the first class, or d moved from the first class to the second.
A smooth sensitivity is secret: it may be published only through `Sanitise`.
Proof: docs/theory/smooth-sensitivity.md#the-window-algorithm.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp

from tacit._checks import Floats, Integers, one_of, positive, renyi_order, vote_matrix
from tacit.privacy.noisy_max import checked_weights, rdp_from_log_q
from tacit.privacy.reach import Reach, discounted_maximum
from tacit.privacy.smooth_paper import paper_smooth_sensitivity
from tacit.privacy.threshold import threshold_rdp

_CELLS_PER_STEP = 16
_TOLERANCE = 1e-9


def gnmax_smooth_sensitivity(
    votes: ArrayLike,
    sigma: float,
    order: float,
    beta: float,
    weights: ArrayLike | None = None,
    bound: str = "tight",
    algorithm: str = "window",
) -> float:
    """beta-smooth upper bound on the local sensitivity of sum_i gnmax_rdp(votes_i). Secret.

    window: the algorithm above, for any nondecreasing cost.
    paper:  PATE 2018, Algorithms 3 to 5 corrected; refuses where condition C6 fails.
    `weights` (one per query) are for the papers' expected-value tables; a release sums over the
    realised answered set. Unit: one teacher.

    >>> votes = [[200, 50] + [0] * 8]
    >>> near, far = (gnmax_smooth_sensitivity(votes, 40, 14, beta) for beta in (0.02, 0.04))
    >>> near > far
    True
    """
    one_of("window", "paper", algorithm=algorithm)
    one_of("tight", "theorem6", bound=bound)
    counts, sigma = vote_matrix(votes), positive(sigma=sigma)
    order, beta = renyi_order(order=order), positive(beta=beta)
    shares = checked_weights(weights, len(counts))
    if algorithm == "paper":
        return paper_smooth_sensitivity(counts, sigma, order, beta, shares, bound)
    n_teachers, n_classes = int(counts[0].sum()), counts.shape[1]
    jumps = _Jumps(n_teachers, n_classes, sigma, order, bound)
    reach = Reach(counts, sigma)

    def within(distance: int) -> float:
        least, largest = reach.least_log_q(distance), reach.largest_log_q(distance)
        return float(shares @ jumps.within(least, largest))

    everywhere = jumps.largest * float(shares.sum())
    return discounted_maximum(within, everywhere, n_teachers, beta)


class _Jumps:
    """The jumps J on a grid of z, with range maxima in constant time."""

    def __init__(self, n_teachers: int, m: int, sigma: float, order: float, bound: str) -> None:
        step = math.sqrt(2) / sigma
        z_min = -n_teachers / (math.sqrt(2) * sigma)  # unanimous votes; nothing lies below
        modal, log_others = math.log1p(-1 / m), math.log(m - 1)
        z_max = float(ndtri_exp(modal - log_others))  # from here on the cost is constant
        width = step / _CELLS_PER_STEP
        n_nodes = max(0, math.ceil((z_max - z_min) / width)) + 2 + 2 * _CELLS_PER_STEP
        z = z_min - step + width * np.arange(n_nodes)
        self.node_log_q = log_others + log_ndtr(z)
        clamped = log_others + log_ndtr(np.maximum(z, z_min))
        costs = rdp_from_log_q(
            np.minimum(clamped, modal), sigma, [order], bound, tolerance=_TOLERANCE
        )[:, 0]
        reached = costs[_CELLS_PER_STEP + 1 :]
        # Each cost is known to within the tolerance: a jump must not be missed for rounding.
        jumps = reached - costs[: -_CELLS_PER_STEP - 1] + 2 * _TOLERANCE * reached
        self.largest = float(jumps.max())
        self.maxima = _range_maxima(jumps)

    def within(self, least_log_q: Floats, largest_log_q: Floats) -> Floats:
        """Largest jump from one step below the least q up to the largest q, for each query."""
        last = self.maxima.shape[1] - 1
        low = np.searchsorted(self.node_log_q, least_log_q, side="right") - 1 - _CELLS_PER_STEP
        high = np.searchsorted(self.node_log_q, largest_log_q, side="right") - 1
        low = np.clip(low - 1, 0, last)  # one cell more on each side, against rounding
        high = np.clip(high + 1, 0, last)
        level = np.floor(np.log2(high - low + 1)).astype(np.int64)
        left, right = self.maxima[level, low], self.maxima[level, high - (1 << level) + 1]
        return np.asarray(np.maximum(left, right))


def _range_maxima(values: Floats) -> Floats:
    """Sparse table: row k holds maxima over 2^k consecutive values."""
    rows = [values]
    while (half := 1 << (len(rows) - 1)) * 2 <= values.size:
        last = rows[-1]
        longer = last.copy()
        longer[:-half] = np.maximum(last[:-half], last[half:])
        rows.append(longer)
    return np.stack(rows)


def _largest_between(maxima: Floats, low: Integers, high: Integers) -> Floats:
    """Maximum of the table's values from index low to index high, both included."""
    level = np.floor(np.log2(high - low + 1)).astype(np.int64)
    return np.asarray(np.maximum(maxima[level, low], maxima[level, high - (1 << level) + 1]))


def threshold_smooth_sensitivity(
    top_votes: ArrayLike,
    threshold: float,
    sigma: float,
    order: float,
    beta: float,
    lowest: int,
    highest: int,
    weights: ArrayLike | None = None,
) -> float:
    """beta-smooth bound for the summed data-dependent cost of the checks. Secret.

    E(d) = max over |t' - t| <= d of the cost's change to a neighbour; "at most d", not "exactly
    d" as in the public code, which is not smooth. Pricing the checks data-independently costs 0.

    >>> threshold_smooth_sensitivity([180], 200, 150, 14, 0.03, 25, 250) > 0
    True
    """
    beta = positive(beta=beta)
    tops = np.atleast_1d(np.asarray(top_votes))
    order = renyi_order(order=order)
    threshold_rdp(tops, threshold, sigma, [order], lowest=lowest, highest=highest)  # validates
    ladder = np.arange(int(lowest), int(highest) + 1)
    costs = threshold_rdp(ladder, threshold, sigma, [order], lowest=lowest, highest=highest)[:, 0]
    steps = np.abs(np.diff(costs))
    change = np.maximum(np.append(steps, 0.0), np.insert(steps, 0, 0.0))
    mass = np.bincount(
        tops.astype(np.int64) - int(lowest),
        weights=checked_weights(weights, tops.size),
        minlength=ladder.size,
    ).astype(np.float64)
    maxima, rung = _range_maxima(change), np.arange(ladder.size)

    def within(distance: int) -> float:
        low, high = np.maximum(rung - distance, 0), np.minimum(rung + distance, rung[-1])
        return float(mass @ _largest_between(maxima, low, high))

    everywhere = float(change.max()) * float(mass.sum())
    return discounted_maximum(within, everywhere, ladder.size - 1, beta)
