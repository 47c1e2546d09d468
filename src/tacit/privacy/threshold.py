"""What a noisy threshold check costs: one bit, priced exactly.

The bit is 1[t + N(0, sigma^2) >= threshold] for an integer statistic t that one unit moves by at
most 1 inside [lowest, highest]. Its two probabilities are known exactly, so its divergence is too.
Proofs: docs/theory/selective.md#the-noisy-check and #check-and-answer-together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from tacit._checks import (
    Floats,
    finite,
    finite_array,
    non_negative,
    one_of,
    order_array,
    positive,
    refuse,
    sampling_rate,
)
from tacit.errors import InvalidArgument
from tacit.privacy.logs import log_mean_exp
from tacit.privacy.private_knn import sampled_threshold_rdp
from tacit.privacy.theorem6 import theorem6_rdp

_ORDERS_AT_ONCE = 32  # keeps (votes x orders) temporaries small


def threshold_rdp(
    top_votes: ArrayLike,
    threshold: float,
    sigma: float,
    orders: ArrayLike,
    *,
    lowest: int,
    highest: int,
    bound: str = "exact",
) -> Floats:
    """Data-dependent RDP of the check for each query's true statistic: shape (queries, orders).

    exact:    max over t' in {t-1, t+1}, clipped to the range, of D_a(Ber(p_t) || Ber(p_t')),
              p_t = Phi((t - threshold)/sigma). The divergence is convex in t', so an end is worst.
    theorem6: as the 2018 paper prices it (Theorem 6 with sigma*sqrt(2) and q the less likely
              outcome, at most a/(2 sigma^2)); for reproducing its tables only.

    The result is secret. Unit: one teacher, who moves t by at most 1.

    >>> float(f"{threshold_rdp([180], 200, 150, [14], lowest=25, highest=250)[0, 0]:.8g}")
    0.00019757967
    """
    one_of("exact", "theorem6", bound=bound)
    lowest, highest = _range(lowest, highest)
    orders = order_array(orders)
    tops = _statistics(top_votes, lowest, highest)
    distinct, place = np.unique(tops, return_inverse=True)
    threshold, sigma = finite(threshold=threshold), positive(sigma=sigma)
    if bound == "theorem6":
        log_yes, log_no = _log_outcomes(distinct, threshold, sigma)
        costs = theorem6_rdp(np.minimum(log_yes, log_no), math.sqrt(2) * sigma, orders)
    else:
        down, up = np.maximum(distinct - 1, lowest), np.minimum(distinct + 1, highest)
        costs = np.maximum(
            _pair_rdp(distinct, down, threshold, sigma, orders),
            _pair_rdp(distinct, up, threshold, sigma, orders),
        )
    return np.asarray(costs[place])


def threshold_rdp_worst(
    threshold: float, sigma: float, lowest: int, highest: int, orders: ArrayLike
) -> Floats:
    """Worst case of the check over every t in [lowest, highest], both directions.

    All of them are enumerated: that "the worst case lies at the threshold or at the end" is false
    and understates the supremum by up to 60 % (erratum to the Private-kNN supplement).

    >>> float(f"{threshold_rdp_worst(210, 85, 0, 300, [10])[0]:.10g}")
    0.0004406651459
    """
    return _worst_over_range(threshold, sigma, lowest, highest, orders, passing_cost=None)


def confident_rdp_worst(
    threshold: float,
    sigma_check: float,
    sigma_answer: float,
    lowest: int,
    highest: int,
    orders: ArrayLike,
) -> Floats:
    """Worst case of one Confident-GNMax query, check and possible answer together.

    sup over t, t' of log[ (1-p)^a (1-p')^(1-a) + p^a p'^(1-a) e^((a-1) g) ] / (a-1), with
    g = a/sigma_answer^2: it holds for a fixed number of queries without a cap on the answers.

    >>> worst = confident_rdp_worst(200, 150, 40, 25, 250, [8.0])[0]
    >>> bool(worst < 8 / (2 * 150**2) + 8 / 40**2)
    True
    """
    answer = order_array(orders) / positive(sigma_answer=sigma_answer) ** 2
    positive(sigma_check=sigma_check)
    return _worst_over_range(threshold, sigma_check, lowest, highest, orders, passing_cost=answer)


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

    As `confident_rdp_worst`, at each query's true statistic and with its own cost of an answer,
    `answer_rdp` of shape (queries, orders); convex in t', so an end of [t-1, t+1] is worst.

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
    down, up = np.maximum(tops - 1, lowest), np.minimum(tops + 1, highest)
    return np.maximum(
        _pair_rdp(tops, down, threshold, sigma, orders, extra),
        _pair_rdp(tops, up, threshold, sigma, orders, extra),
    )


def poisson_threshold_rdp(
    rate: float, threshold: float, sigma: float, highest: int, orders: ArrayLike
) -> Floats:
    """Worst case of the check on a Poisson sample of the records: exact amplification.

    Proof: docs/theory/subsampling.md#the-check-on-a-poisson-sample.

    With pm = (1-rate) p0 + rate p1 over adjacent (t, t') in [0, highest], the maximum of
    D_a(pm || p0) and D_a(p0 || pm), by joint convexity over the sample. Any order > 1. The range
    starts at 0: a Poisson sample may have fewer than k records (erratum to the supplement).

    >>> float(f"{poisson_threshold_rdp(0.25, 210, 85, 300, [8])[0]:.10g}")
    2.203150303e-05
    """
    rate = sampling_rate(rate=rate)
    _, highest = _range(0, highest)
    orders = order_array(orders)
    if highest < 1:
        raise refuse("highest", highest, "an integer >= 1: at least one neighbour votes")
    return sampled_threshold_rdp(highest, threshold, sigma, rate, orders)


def _worst_over_range(
    threshold: float,
    sigma: float,
    lowest: int,
    highest: int,
    orders: ArrayLike,
    passing_cost: Floats | None,
) -> Floats:
    lowest, highest = _range(lowest, highest)
    orders = order_array(orders)
    votes = np.arange(lowest, highest + 1, dtype=np.float64)
    outcomes = _log_outcomes(votes, finite(threshold=threshold), positive(sigma=sigma))
    below = (outcomes[0][:-1], outcomes[1][:-1])
    above = (outcomes[0][1:], outcomes[1][1:])
    if lowest == highest:  # t cannot move, yet an answer still costs what it costs
        below = above = outcomes
    return np.maximum(
        _largest_divergence(below, above, orders, passing_cost),
        _largest_divergence(above, below, orders, passing_cost),
    )


def _largest_divergence(
    first: tuple[Floats, Floats],
    second: tuple[Floats, Floats],
    orders: Floats,
    passing_cost: Floats | None = None,
) -> Floats:
    """Maximum over pairs of log-outcomes (yes, no) of the divergence, for each order.

    `passing_cost` (RDP at each order) is what a pass pays on top.
    """
    extra = np.zeros(orders.size) if passing_cost is None else passing_cost
    best = np.empty(orders.size)
    for start in range(0, orders.size, _ORDERS_AT_ONCE):
        part = slice(start, start + _ORDERS_AT_ONCE)
        less_one = orders[part, None] - 1
        passed = less_one * (first[0] - second[0] + extra[part, None])
        failed = less_one * (first[1] - second[1])
        moments = log_mean_exp(first[0], passed, first[1], failed)
        best[part] = (moments / less_one).max(axis=1)
    return best


def _pair_rdp(
    t: Floats,
    other: Floats,
    threshold: float,
    sigma: float,
    orders: Floats,
    passing_cost: Floats | float = 0.0,
) -> Floats:
    """D_a of the check's bit at each t against the bit at `other`: shape (t, orders)."""
    yes, no = (log[:, None] for log in _log_outcomes(t, threshold, sigma))
    their_yes, their_no = (log[:, None] for log in _log_outcomes(other, threshold, sigma))
    less_one = orders - 1
    passed = less_one * (yes - their_yes + passing_cost)
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
