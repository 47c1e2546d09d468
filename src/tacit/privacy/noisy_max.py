"""GNMax and LNMax (PATE 2017) on given votes: how likely another class wins, and the query's cost.

Everything computed here from votes is secret: it may be published only through `Sanitise`.
Proofs: docs/theory/data-dependent.md#q-the-probability-of-another-answer and #lnmax.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from tacit._checks import Floats, finite_array, one_of, order_array, positive, refuse, vote_matrix
from tacit.errors import InvalidArgument
from tacit.privacy.tail_bound import log_sum_near_one, tail_bound_rdp, theorem6_rdp

TOLERANCE = 1e-9  # relative, of the tight bound
_UNDERFLOW = 1e-290  # below this, linear sums lose digits and logarithms take over


def gnmax_log_q(votes: ArrayLike, sigma: float) -> Floats:
    """Log-probability bound that GNMax answers another class than the plurality, per query.

        log q = log sum_{j != i*} Phi(-(n_i* - n_j)/(sqrt(2) sigma)), at most log(1 - 1/m)

    Exactly one argmax is left out, also in a tie.
    Source: PATE 2018, Prop. 7. docs/theory/data-dependent.md#q-the-probability-of-another-answer.

    Parameters
    ----------
    votes : array (queries, classes) of votes or sums of probabilities, secret
    sigma : float, noise deviation on each count

    Returns
    -------
    array of shape (queries,), secret

    Examples
    --------
    >>> float(f"{gnmax_log_q([[200, 50] + [0] * 8], 40)[0]:.10g}")
    -5.179152311
    """
    counts = _vote_or_soft_matrix(votes)
    return np.minimum(union_log_q(counts, positive(sigma=sigma)), math.log1p(-1 / counts.shape[1]))


def union_log_q(counts: NDArray[np.int64] | Floats, sigma: float) -> Floats:
    """Return the plain union bound of Prop. 7, which may exceed 1 - 1/m."""
    rows, top = np.arange(len(counts)), counts.argmax(axis=1)
    gaps = counts[rows, top][:, None] - counts
    # The winner's own place goes to the first class, which is left out.
    gaps[rows, top] = gaps[:, 0]
    return log_tail_sum(gaps[:, 1:], sigma)


def gnmax_rdp(votes: ArrayLike, sigma: float, orders: ArrayLike, bound: str = "tight") -> Floats:
    """Data-dependent RDP of GNMax for each query: shape (queries, orders). Secret.

    Both bounds are at most order/sigma^2, the worst case. Unit: one teacher.
    Source: PATE 2018, Theorem 6. docs/theory/data-dependent.md#the-tight-bound.

    Parameters
    ----------
    votes : array (queries, classes) of votes or sums of probabilities, secret
    sigma : float, noise deviation on each count
    orders : array of Renyi orders > 1
    bound : {"tight", "theorem6"}, optional
        tight: the supremum over post-processings of this Gaussian that put mass 1 - q on one class,
        accurate to 1e-9, never below. theorem6: that of PATE 2018, to reproduce its tables.

    Returns
    -------
    array of shape (queries, orders), secret

    Examples
    --------
    >>> gnmax_rdp([[200, 50] + [0] * 8], 40, [2.0]) < gnmax_rdp([[160, 90] + [0] * 8], 40, [2.0])
    array([[ True]])
    """
    return rdp_from_log_q(gnmax_log_q(votes, sigma), sigma, orders, bound)


def rdp_from_log_q(
    log_q: ArrayLike, sigma: float, orders: ArrayLike, bound: str = "tight"
) -> Floats:
    """Cost of GNMax from log q by either bound: shape (queries, orders)."""
    one_of("tight", "theorem6", bound=bound)
    if bound == "theorem6":
        return theorem6_rdp(log_q, sigma, orders)
    mu = math.sqrt(2) / positive(sigma=sigma)
    return tail_bound_rdp(log_q, mu, order_array(orders), tolerance=TOLERANCE)


def _vote_or_soft_matrix(votes: ArrayLike) -> NDArray[np.int64] | Floats:
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


def lnmax_log_q(votes: ArrayLike, gamma: float) -> Floats:
    """Log of q <= sum_{j != i*} (2 + gamma gap_j)/(4 e^(gamma gap_j)), at most 1 - 1/m. Secret.

    >>> round(float(np.exp(lnmax_log_q([[30, 5, 1]], 0.1)[0])), 9)
    0.159749068
    """
    gamma = positive(gamma=gamma)
    counts = _vote_or_soft_matrix(votes)
    rows, top = np.arange(len(counts)), counts.argmax(axis=1)
    reach = gamma * (counts[rows, top][:, None] - counts)
    logs = np.log((2 + reach) / 4) - reach
    logs[rows, top] = -np.inf
    return np.asarray(
        np.minimum(np.logaddexp.reduce(logs, axis=1), math.log1p(-1 / counts.shape[1]))
    )


def lnmax_rdp_worst(gamma: float, orders: ArrayLike) -> Floats:
    """Worst-case RDP of one LNMax query: two Laplace coordinates.

        2 log[ a/(2a-1) e^((a-1) gamma) + (a-1)/(2a-1) e^(-a gamma) ] / (a-1)

    It is 2 gamma-DP too and never larger than the pure-DP curve, which PATE 2017 bounds by
    2 gamma^2 a. Unit: one teacher.
    Source: docs/theory/data-dependent.md#lnmax.

    Parameters
    ----------
    gamma : float, inverse scale of the Laplace noise on each count
    orders : array of Renyi orders > 1

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> round(float(lnmax_rdp_worst(0.1, [8])[0]), 10)
    0.0713535469
    """
    g, a = positive(gamma=gamma), order_array(orders)
    more, less = a / (2 * a - 1), (a - 1) / (2 * a - 1)
    excess = more * np.expm1(np.minimum((a - 1) * g, 30)) + less * np.expm1(-a * g)
    near = np.log1p(np.maximum(excess, 0.0))  # rounding may leave -1e-33 at tiny gamma
    far = np.logaddexp(np.log(more) + (a - 1) * g, np.log(less) - a * g)
    moment = np.where((a - 1) * g < 30, near, far)
    return 2 * moment / (a - 1)


def lnmax_rdp(votes: ArrayLike, gamma: float, orders: ArrayLike, bound: str = "tight") -> Floats:
    """Data-dependent RDP of LNMax for each query: shape (queries, orders). Secret.

    With e = 2 gamma and q <= 1/(1 + e^e), tight is

        log max{ (1-q)^a (1 - q e^-e)^(1-a) + q e^((a-1)e),
                 (1-q)^a (1 - q e^e)^(1-a) + q e^(-(a-1)e) } / (a-1),

    at most the worst case `lnmax_rdp_worst` (randomised response dominates), and pate2017 is

        log[ (1-q)^a (1 - q e^e)^(1-a) + q e^((a-1)e) ] / (a-1), at most e and e^2 a/2.

    For larger q both are those worst cases. Unit: one teacher.
    Source: PATE 2017. docs/theory/data-dependent.md#lnmax.

    Parameters
    ----------
    votes : array (queries, classes) of votes or sums of probabilities, secret
    gamma : float, inverse scale of the Laplace noise on each count
    orders : array of Renyi orders > 1
    bound : {"tight", "pate2017"}, optional
        The formula, as below; pate2017 is to reproduce that paper.

    Returns
    -------
    array of shape (queries, orders), secret

    Examples
    --------
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
