"""GNMax on given votes: how likely another class wins, and what a query costs.

Everything computed here from votes is secret: it may be published only through `Sanitise`.
Proofs: docs/theory/data-dependent.md#q-the-probability-of-another-answer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from tacit._checks import Floats, finite_array, one_of, order_array, positive, refuse, vote_matrix
from tacit.errors import InvalidArgument
from tacit.privacy.tail_bound import tail_bound_rdp
from tacit.privacy.theorem6 import theorem6_rdp

_UNDERFLOW = 1e-290  # below this, linear sums lose digits and logarithms take over


def gnmax_log_q(votes: ArrayLike, sigma: float) -> Floats:
    """Log-probability bound that GNMax answers another class than the plurality, per query.

    log q = log sum_{j != i*} Phi(-(n_i* - n_j)/(sqrt(2) sigma)), at most log(1 - 1/m)
    (PATE 2018, Prop. 7). Exactly one argmax is left out, also in a tie. Secret.

    >>> float(f"{gnmax_log_q([[200, 50] + [0] * 8], 40)[0]:.10g}")
    -5.179152311
    """
    counts = vote_or_soft_matrix(votes)
    return np.minimum(union_log_q(counts, positive(sigma=sigma)), math.log1p(-1 / counts.shape[1]))


def union_log_q(counts: NDArray[np.int64] | Floats, sigma: float) -> Floats:
    """Return the plain union bound of Prop. 7, which may exceed 1 - 1/m."""
    rows, top = np.arange(len(counts)), counts.argmax(axis=1)
    gaps = counts[rows, top][:, None] - counts
    gaps[rows, top] = gaps[
        :, 0
    ]  # the winner's own place goes to the first class, which is left out
    return log_tail_sum(gaps[:, 1:], sigma)


def gnmax_rdp(votes: ArrayLike, sigma: float, orders: ArrayLike, bound: str = "tight") -> Floats:
    """Data-dependent RDP of GNMax for each query: shape (queries, orders). Secret.

    tight:    the supremum over everything that post-processes this Gaussian and puts mass 1 - q
              on one class, accurate to 1e-9, never below.
    theorem6: PATE 2018's Theorem 6, to reproduce its tables.
    Both are at most order/sigma^2, the worst case. Unit: one teacher.

    >>> gnmax_rdp([[200, 50] + [0] * 8], 40, [2.0]) < gnmax_rdp([[160, 90] + [0] * 8], 40, [2.0])
    array([[ True]])
    """
    return rdp_from_log_q(gnmax_log_q(votes, sigma), sigma, orders, bound)


def rdp_from_log_q(
    log_q: ArrayLike,
    sigma: float,
    orders: ArrayLike,
    bound: str = "tight",
    *,
    tolerance: float = 1e-9,
) -> Floats:
    """Cost of GNMax from log q by either bound: shape (queries, orders)."""
    one_of("tight", "theorem6", bound=bound)
    if bound == "theorem6":
        return theorem6_rdp(log_q, sigma, orders)
    mu = math.sqrt(2) / positive(sigma=sigma)
    return tail_bound_rdp(log_q, mu, order_array(orders), tolerance=tolerance)


def vote_or_soft_matrix(votes: ArrayLike) -> NDArray[np.int64] | Floats:
    """Return integer votes as int64, soft votes (sums of probability vectors) as float64."""
    try:
        array = np.asarray(votes)
    except ValueError:  # ragged rows
        return vote_matrix(votes)
    if array.dtype.kind != "f" or array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        return vote_matrix(array)
    soft = finite_array(votes=array)
    if (soft < 0).any():
        raise InvalidArgument("Expected votes to be non-negative; a teacher cannot be subtracted.")
    sums = soft.sum(axis=1)
    if np.ptp(sums) > 1e-6 * max(1.0, float(sums.max())):
        raise InvalidArgument("Expected every row of votes to sum to one number of teachers.")
    return vote_matrix(array) if (soft == np.floor(soft)).all() else soft


def log_tail_sum(gaps: NDArray[np.int64] | Floats, sigma: float) -> Floats:
    """Log sum_j Phi(-gap_j/(sqrt(2) sigma)) for each row of gaps >= 0."""
    scale = math.sqrt(2) * sigma
    if gaps.dtype.kind == "i" and gaps.max() < gaps.size:  # integer gaps are few: tabulate
        total = ndtr(-np.arange(gaps.max() + 1) / scale)[gaps].sum(axis=1)
    else:
        total = ndtr(-gaps / scale).sum(axis=1)
    faint = total < _UNDERFLOW
    with np.errstate(divide="ignore"):
        log_q = np.asarray(np.log(total))
    if faint.any():
        log_q[faint] = np.logaddexp.reduce(log_ndtr(-gaps[faint] / scale), axis=1)
    return log_q


def checked_weights(weights: ArrayLike | None, n_queries: int) -> Floats:
    """Return one non-negative weight per query, all 1 by default."""
    if weights is None:
        return np.ones(n_queries)
    array = finite_array(weights=weights)
    if array.shape != (n_queries,) or (array < 0).any():
        raise refuse("weights", array.shape, f"{n_queries} non-negative numbers, one per query")
    return array
