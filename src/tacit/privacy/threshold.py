"""What a noisy threshold check costs: one bit, priced exactly.

The bit is 1[t + N(0, sigma^2) >= threshold] for an integer statistic t that one unit moves by at
most 1 inside [lowest, highest]. Its two probabilities are known exactly, so its divergence is too.
Proofs: docs/theory/selective.md#the-noisy-check and #check-and-answer-together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from tacit._checks import (
    MOST_VOTES,
    Floats,
    finite,
    finite_array,
    non_negative,
    order_array,
    positive,
    refuse,
)
from tacit.errors import InvalidArgument
from tacit.privacy.tail_bound import LARGE
from tacit.privacy.vote_cells import Check, largest_check_rdp

_ORDERS_AT_ONCE = 32  # keeps (votes x orders) temporaries small


def threshold_rdp(
    top_votes: ArrayLike,
    threshold: float,
    sigma: float,
    orders: ArrayLike,
    *,
    lowest: int,
    highest: int,
) -> Floats:
    """Data-dependent RDP of the check for each query's true statistic: shape (queries, orders).

    max over t' in {t-1, t+1}, clipped to the range, of D_a(Ber(p_t) || Ber(p_t')),
    p_t = Phi((t - threshold)/sigma). The divergence is convex in t', so an end is worst.
    Unit: one teacher, who moves t by at most 1. Source: docs/theory/selective.md#the-noisy-check.

    Parameters
    ----------
    top_votes : array of shape (queries,), the statistic of each query, secret
    threshold : float, which statistic plus noise must reach
    sigma : float, noise deviation of the check
    orders : array of Renyi orders > 1
    lowest, highest : int, public range of the statistic, both ends included

    Returns
    -------
    array of shape (queries, orders), secret

    Examples
    --------
    >>> float(f"{threshold_rdp([180], 200, 150, [14], lowest=25, highest=250)[0, 0]:.8g}")
    0.00019757967
    """
    lowest, highest = _range(lowest, highest)
    orders, tops = order_array(orders), _statistics(top_votes, lowest, highest)
    distinct, place = np.unique(tops, return_inverse=True)
    threshold, sigma = finite(threshold=threshold), positive(sigma=sigma)
    ends, nothing = (lowest, highest), np.zeros(orders.size)
    return _neighbours_rdp(distinct, ends, threshold, sigma, orders, nothing)[place]


def threshold_rdp_worst(
    threshold: float, sigma: float, lowest: int, highest: int, orders: ArrayLike
) -> Floats:
    """Worst case of the check over every t in [lowest, highest], both directions.

    All t are enumerated, above a thousand in cells, which is at most 1/1000 too high: that "the
    worst case lies at the threshold or at the end" is false and understates the supremum by up to
    60 % (erratum to the Private-kNN supplement). Source: docs/theory/selective.md#the-noisy-check.

    Parameters
    ----------
    threshold : float, which statistic plus noise must reach
    sigma : float, noise deviation of the check
    lowest, highest : int, public range of the statistic, both ends included
    orders : array of Renyi orders > 1

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> float(f"{threshold_rdp_worst(210, 85, 0, 300, [10])[0]:.10g}")
    0.0004406651459
    """
    nothing = np.zeros(order_array(orders).size)
    return _worst_over_range(threshold, sigma, lowest, highest, orders, nothing)


def confident_rdp_worst(
    threshold: float,
    sigma_check: float,
    sigma_answer: float,
    lowest: int,
    highest: int,
    orders: ArrayLike,
) -> Floats:
    """Worst case of one Confident-GNMax query, check and possible answer together.

        sup over t, t' of log[ (1-p)^a (1-p')^(1-a) + p^a p'^(1-a) e^((a-1) g) ] / (a-1),

    with g = a/sigma_answer^2: it holds for a fixed number of queries without a cap on the answers.
    Unit: one teacher. Source: docs/theory/selective.md#check-and-answer-together.

    Parameters
    ----------
    threshold : float, which statistic plus noise must reach
    sigma_check : float, noise deviation of the check
    sigma_answer : float, noise deviation on each count of an answer
    lowest, highest : int, public range of the statistic, both ends included
    orders : array of Renyi orders > 1

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> worst = confident_rdp_worst(200, 150, 40, 25, 250, [8.0])[0]
    >>> bool(worst < 8 / (2 * 150**2) + 8 / 40**2)
    True
    """
    answer = order_array(orders) / positive(sigma_answer=sigma_answer) ** 2
    positive(sigma_check=sigma_check)
    return _worst_over_range(threshold, sigma_check, lowest, highest, orders, answer)


def confident_rdp(
    top_votes: ArrayLike,
    threshold: float,
    sigma_check: float,
    answer_rdp: ArrayLike,
    orders: ArrayLike,
    *,
    lowest: int,
    highest: int,
) -> Floats:
    """Data-dependent RDP of checked and possibly answered queries: (queries, orders). Secret.

    As `confident_rdp_worst`, at each query's true statistic and with its own cost of an answer;
    convex in t', so an end of [t-1, t+1] is worst. Unit: one teacher.
    Source: docs/theory/selective.md#check-and-answer-together.

    Parameters
    ----------
    top_votes : array of shape (queries,), the statistic of each query, secret
    threshold : float, which statistic plus noise must reach
    sigma_check : float, noise deviation of the check
    answer_rdp : array of shape (queries, orders), cost of an answer to each query, secret
    orders : array of Renyi orders > 1
    lowest, highest : int, public range of the statistic, both ends included

    Returns
    -------
    array of shape (queries, orders), secret

    Examples
    --------
    >>> float(confident_rdp([180], 200, 150, [[0.0]], [14], lowest=25, highest=250)[0, 0]) == float(
    ...     threshold_rdp([180], 200, 150, [14], lowest=25, highest=250)[0, 0])
    True
    """
    lowest, highest = _range(lowest, highest)
    orders, tops = order_array(orders), _statistics(top_votes, lowest, highest)
    threshold, sigma = finite(threshold=threshold), positive(sigma_check=sigma_check)
    extra = finite_array(answer_rdp=answer_rdp)
    if extra.shape != (tops.size, orders.size):
        raise InvalidArgument(
            f"Expected answer_rdp of shape {(tops.size, orders.size)}, got {extra.shape}."
        )
    if (extra < 0).any():
        raise InvalidArgument("Expected answer_rdp to be >= 0; a divergence cannot be negative.")
    return _neighbours_rdp(tops, (lowest, highest), threshold, sigma, orders, extra)


def _worst_over_range(
    threshold: float, sigma: float, lowest: int, highest: int, orders: ArrayLike, answer: Floats
) -> Floats:
    """Maximum over every pair of neighbouring statistics, where a pass pays `answer` on top."""
    lowest, highest = _range(lowest, highest)
    orders, check = order_array(orders), (finite(threshold=threshold), positive(sigma=sigma))
    whole = Check(*check, lowest, highest)
    if whole.has_many_votes:
        return largest_check_rdp(whole, orders, answer)
    votes = np.arange(lowest, highest + 1, dtype=np.float64)
    # With one value t cannot move, yet an answer still costs what it costs.
    below, above = (votes[:-1], votes[1:]) if lowest < highest else (votes, votes)
    best = np.empty(orders.size)
    for start in range(0, orders.size, _ORDERS_AT_ONCE):
        some = slice(start, start + _ORDERS_AT_ONCE)
        up = _pair_rdp(below, above, *check, orders[some], answer[some])
        down = _pair_rdp(above, below, *check, orders[some], answer[some])
        best[some] = np.maximum(up.max(axis=0), down.max(axis=0))
    return best


def _neighbours_rdp(
    t: Floats, ends: tuple[int, int], threshold: float, sigma: float, orders: Floats, answer: Floats
) -> Floats:
    """Maximum over t - 1 and t + 1, within the range: shape (t, orders)."""
    down, up = np.maximum(t - 1, ends[0]), np.minimum(t + 1, ends[1])
    check = threshold, sigma, orders, answer
    return np.maximum(_pair_rdp(t, down, *check), _pair_rdp(t, up, *check))


def _pair_rdp(
    t: Floats, other: Floats, threshold: float, sigma: float, orders: Floats, answer: Floats
) -> Floats:
    """D_a of the check's bit at each t against `other`: (t, orders); a pass adds `answer`."""
    yes, no = (log[:, None] for log in _log_outcomes(t, threshold, sigma))
    their_yes, their_no = (log[:, None] for log in _log_outcomes(other, threshold, sigma))
    less_one = orders - 1
    passed = less_one * (yes - their_yes + answer)
    return log_mean_exp(yes, passed, no, less_one * (no - their_no)) / less_one


def _log_outcomes(t: Floats, threshold: float, sigma: float) -> tuple[Floats, Floats]:
    """Log-probabilities that the check passes and fails."""
    score = (t - threshold) / sigma
    return log_ndtr(score), log_ndtr(-score)


def _range(lowest: int, highest: int) -> tuple[int, int]:
    low, high = non_negative(lowest=lowest), non_negative(highest=highest)
    if low != int(low) or high != int(high):
        raise InvalidArgument(
            f"Expected lowest={lowest} and highest={highest} to be integers: the statistic is."
        )
    if low > high:
        raise refuse("lowest", lowest, f"at most highest={highest}")
    if high > MOST_VOTES:  # far beyond, t and t + 1 are one float, whose price would be 0
        raise refuse("highest", highest, f"at most {MOST_VOTES}")
    return int(low), int(high)


def _statistics(top_votes: ArrayLike, lowest: int, highest: int) -> Floats:
    tops = np.atleast_1d(finite_array(top_votes=top_votes))
    if tops.ndim != 1 or (tops != np.floor(tops)).any():
        raise InvalidArgument(
            "Expected top_votes to be a one-dimensional array of integers; "
            "round soft statistics with floor(t + 0.5) first."
        )
    if tops.size and (tops.min() < lowest or tops.max() > highest):
        raise InvalidArgument(
            f"Expected top_votes to lie in [lowest={lowest}, highest={highest}]; widen the range."
        )
    return tops


def log_mean_exp(log_p: Floats, u: Floats, log_not_p: Floats, v: Floats) -> Floats:
    """max(0, log(p e^u + (1-p) e^v)) as log1p(p expm1(u) + (1-p) expm1(v)): little cancels."""
    large = np.maximum(u + log_p, v + log_not_p) > LARGE
    excess = _weighted_growth(log_p, u) + _weighted_growth(log_not_p, v)
    near = np.log1p(np.maximum(np.where(large, 0.0, excess), 0.0))
    return np.where(large, np.logaddexp(log_p + u, log_not_p + v), near)


def _weighted_growth(log_p: Floats, u: Floats) -> Floats:
    """Return p (e^u - 1): a p that underflows still counts when e^u outweighs it."""
    steep = np.exp(np.minimum(log_p + u, LARGE))
    gentle = np.exp(log_p) * np.expm1(np.minimum(u, LARGE))
    return np.where(u > LARGE, steep, gentle)
