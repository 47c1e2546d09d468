"""What a Poisson sample costs: the Gaussian, noisy screening and the exponential mechanism on it.

Without the unit a release has the law P0; with it, (1 - rate) P0 + rate P1. Only bounds that hold
for every sample are amplified: a data-dependent cost must not be
(docs/theory/subsampling.md#what-may-not-be-amplified). Private-kNN: docs/theory/private-knn.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, log_ndtr

from tacit._checks import (
    Floats,
    at_least,
    finite,
    finite_array,
    order_array,
    positive,
    refuse,
    sampling_rate,
)
from tacit.errors import InvalidArgument
from tacit.privacy.gaussian import gaussian_rdp
from tacit.privacy.mixtures import largest_mixture_rdp, log_excess, log_sum_exp
from tacit.privacy.vote_cells import Check, largest_check_rdp

_REACH = 40.0  # standard deviations beyond which the integrand is below 1e-300
_MOST_MU = 30.0  # beyond, quadrature needs too many nodes and a real order is rounded up
_ORDERS_AT_ONCE = 16
_SMALL = 512.0
_Rule = Callable[[float, float, Floats], Floats]
# Cells of the range of a bounded likelihood ratio; the bound is too high by about 2/_CELLS.
_CELLS = 1024
_MOST_EPSILON = 500.0
_MOST_VOTES = 2**24


def poisson_gaussian_rdp(rate: float, noise_multiplier: float, orders: ArrayLike) -> Floats:
    """RDP of the Poisson-subsampled Gaussian, add or remove one record, any real order > 1.

    D_a((1-rate) N(0,1) + rate N(mu,1) || N(0,1)), mu = 1/noise_multiplier: the larger direction.
    Integer orders by the binomial sum, others by quadrature of a positive integrand (dp-accounting
    is loose or infinite for fractional orders below 3). Where noise_multiplier < 1/30, a real order
    is rounded up. Source: Mironov, Talwar and Zhang 2019.
    docs/theory/subsampling.md#the-gaussian-on-a-poisson-sample.

    Parameters
    ----------
    rate : float in (0, 1], chance of each unit to be sampled
    noise_multiplier : float, sigma over what one unit adds, in L2
    orders : array of Renyi orders > 1

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> float(f"{poisson_gaussian_rdp(0.05, 5 / 2**0.5, [8])[0]:.10g}")
    0.0008536918171
    """
    rate = sampling_rate(rate=rate)
    orders = order_array(orders)
    if rate == 1.0:
        return gaussian_rdp(noise_multiplier, orders)
    mu = 1 / positive(noise_multiplier=noise_multiplier)
    if mu > _MOST_MU:
        return np.minimum(
            _by_blocks(_integer_orders, rate, mu, np.ceil(orders)),
            gaussian_rdp(noise_multiplier, orders),
        )
    whole = orders == np.floor(orders)
    result = np.empty(orders.size)
    result[whole] = _by_blocks(_integer_orders, rate, mu, orders[whole])
    result[~whole] = _by_blocks(_real_orders, rate, mu, orders[~whole])
    return result


def _by_blocks(rule: _Rule, rate: float, mu: float, orders: Floats) -> Floats:
    """Compute small orders several at a time; a large one has enough terms of its own."""
    result = np.empty(orders.size)
    rising = np.argsort(orders)
    small = int(np.searchsorted(orders[rising], _SMALL / max(mu, 1.0)))
    starts = [*range(0, small, _ORDERS_AT_ONCE), *range(small, orders.size), orders.size]
    for start, end in itertools.pairwise(starts):
        block = rising[start:end]
        result[block] = rule(rate, mu, orders[block])
    return result


def _integer_orders(rate: float, mu: float, orders: Floats) -> Floats:
    """log1p( sum_{j=2}^a C(a,j) (1-rate)^(a-j) rate^j expm1(j(j-1)mu^2/2) ) / (a-1)."""
    a = orders[:, None].astype(np.int64)
    j = np.arange(2, a.max() + 1)
    log_factorial = gammaln(np.arange(a.max() + 1) + 1.0)
    log_binomial = log_factorial[a] - log_factorial[j] - log_factorial[np.maximum(a - j, 0)]
    with np.errstate(over="ignore", divide="ignore"):  # too large is inf, too small is 0
        exponent = j * (j - 1) / 2 * mu * mu
        log_growth = np.where(exponent > 30, exponent, np.log(np.expm1(np.minimum(exponent, 31))))
    logs = log_binomial + (a - j) * math.log1p(-rate) + j * math.log(rate) + log_growth
    total = log_sum_exp(np.where(j <= a, logs, -np.inf))
    return np.asarray(np.logaddexp(0.0, total) / (orders - 1))


def _real_orders(rate: float, mu: float, orders: Floats) -> Floats:
    """log1p( E[ r^a - 1 - a t ] ) / (a-1), x ~ N(0,1), r = 1 + t, t = rate expm1(mu x - mu^2/2).

    The integrand is positive, and analytic in a strip: the trapezoid rule converges geometrically.
    """
    step = min(0.2, 2 * math.pi * 0.9 * (math.pi / mu) / 45)  # error about e^-45
    x = np.arange(-_REACH, _REACH + orders.max() * mu + step, step)
    exponent = mu * x - mu**2 / 2
    log_r = np.where(
        exponent > 30,
        np.logaddexp(math.log1p(-rate), math.log(rate) + exponent),
        np.log1p(rate * np.expm1(np.minimum(exponent, 31))),
    )
    with np.errstate(over="ignore"):
        t = rate * np.expm1(exponent)  # read only where it is small
    log_density = -x * x / 2 - 0.5 * math.log(2 * math.pi) + math.log(step)
    logs = log_sum_exp(log_excess(orders[:, None], log_r, t) + log_density)
    return np.asarray(np.logaddexp(0.0, logs) / (orders - 1))


def sampled_threshold_rdp(
    k: int, threshold: float, sigma: float, rate: float, orders: ArrayLike, displaced: int = 1
) -> Floats:
    """Worst case of one noisy screening on a Poisson sample: exact amplification.

    The maximum over t, t' in 0..k with |t - t'| <= displaced of D_a(pm || p0) and D_a(p0 || pm),
    p0 = Phi((t - threshold)/sigma), p1 the same at t', pm = (1-rate) p0 + rate p1. Both are convex
    in p1 and 0 at p1 = p0, so the farthest t' on either side is worst. The range starts at 0: a
    sample may hold fewer than k records. Unit: one with at most `displaced` votes and one coin.
    Source: docs/theory/private-knn.md#noisy-screening.

    Parameters
    ----------
    k : int, most sampled neighbours that vote
    threshold : float, which statistic plus noise must reach
    sigma : float, noise deviation of the check
    rate : float in (0, 1], chance of each unit to be sampled
    orders : array of Renyi orders > 1
    displaced : int, optional, most votes that one unit has and displaces

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> float(f"{sampled_threshold_rdp(300, 210, 85, 0.25, [8])[0]:.10g}")
    2.203150303e-05
    """
    sigma, nothing = positive(sigma=sigma), np.zeros(order_array(orders).size)
    return sampled_screening_rdp(k, threshold, sigma, nothing, rate, orders, displaced)


def sampled_screening_rdp(
    k: int,
    threshold: float,
    sigma_screen: float,
    answer_rdp: ArrayLike,
    rate: float,
    orders: ArrayLike,
    displaced: int = 1,
) -> Floats:
    """Worst case of one query, screened and possibly answered on another sample.

    The maximum over the pairs of `sampled_threshold_rdp`, in both directions, of

        log[ (1-p)^a (1-p')^(1-a) + p^a p'^(1-a) e^((a-1) g) ] / (a-1).

    It needs no cap on the answers; the two samples must be independent. Unit: one with at most
    `displaced` votes and one coin. Above a thousand votes the result is up to 1/1000 above that
    maximum, never below. Source: docs/theory/private-knn.md#noisy-screening and
    #very-many-neighbours.

    Parameters
    ----------
    k : int, most sampled neighbours that vote
    threshold : float, which statistic plus noise must reach
    sigma_screen : float, noise deviation of the check
    answer_rdp : array of shape (orders,), g, the amplified cost of an answer
    rate : float in (0, 1], chance of each unit to be sampled
    orders : array of Renyi orders > 1
    displaced : int, optional, most votes that one unit has and displaces

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> alone = sampled_threshold_rdp(300, 210, 85, 0.25, [8.0])
    >>> both = sampled_screening_rdp(300, 210, 85, [0.001], 0.25, [8.0])
    >>> bool(alone < both < alone + 0.001)
    True
    """
    sigma, orders = positive(sigma_screen=sigma_screen), order_array(orders)
    extra = finite_array(answer_rdp=answer_rdp)
    if extra.shape != orders.shape or (extra < 0).any():
        raise InvalidArgument(f"Expected answer_rdp to be {orders.size} numbers >= 0, one a order.")
    k, reach = _count(k=k), _count(displaced=displaced)
    threshold, rate = finite(threshold=threshold), sampling_rate(rate=rate)
    check = Check(threshold, sigma, 0, k, rate, reach)
    if check.has_many_votes:
        return largest_check_rdp(check, orders, extra)
    votes = np.arange(k + 1)
    score = (votes - threshold) / sigma
    outcomes = np.stack([log_ndtr(score), log_ndtr(-score)])
    ends = np.concatenate([np.minimum(votes + reach, k), np.maximum(votes - reach, 0)])
    base = np.concatenate([outcomes, outcomes], axis=1)
    return largest_mixture_rdp(base, outcomes[:, ends] - base, rate, orders, extra)


def _count(**named: int) -> int:
    """Return the argument as a number of votes: an integer that arrays can be made of."""
    ((name, value),) = named.items()
    if at_least(1, **named) > _MOST_VOTES:
        raise refuse(name, value, f"at most {_MOST_VOTES}")
    return value


def sampled_exponential_rdp(epsilon: float, rate: float, orders: ArrayLike) -> Floats:
    """Worst case of one exponential mechanism on a Poisson sample.

    On a given sample, log(P1/P0) lies in [-s, epsilon - s] for some s in [0, epsilon]: half the
    range that epsilon-DP allows (Dong, Durfee and Rogers 2020). E_P0 r^a and E_P0 r^(1-a) with
    r = 1 + rate (P1/P0 - 1) are convex in P1/P0, whose mean is 1, so two outcomes at the ends are
    worst. The supremum over s is bounded cell by cell: an s in [x, y] has its range inside
    [-y, epsilon - x]. Never above order epsilon^2/8 (Cesar and Rogers 2021) or
    log(1 + rate (e^epsilon - 1)). Unit: that of the utility's sensitivity.

    Parameters
    ----------
    epsilon : float, of the mechanism if every unit took part, at most 500
    rate : float in (0, 1], chance of each unit to be sampled
    orders : array of Renyi orders > 1

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> bool(sampled_exponential_rdp(0.5, 0.1, [2.0])[0] < 0.02 * 2 * 0.5**2 / 8)
    True
    """
    epsilon, rate, orders = positive(epsilon=epsilon), sampling_rate(rate=rate), order_array(orders)
    if epsilon > _MOST_EPSILON:
        raise refuse("epsilon", epsilon, f"at most {_MOST_EPSILON:g}")
    s = np.linspace(0.0, epsilon, _CELLS + 1)
    high, low = epsilon - s[:-1], -s[1:]
    log_width = low + (high - low) + np.log(-np.expm1(low - high))  # log(e^high - e^low)
    weights = np.stack([np.log(-np.expm1(low)), high + np.log(-np.expm1(-high))]) - log_width
    cells = largest_mixture_rdp(weights, np.stack([high, low]), rate, orders)
    pure = np.log1p(rate * np.expm1(epsilon)) if epsilon < 30 else epsilon
    return np.minimum(np.minimum(cells, gaussian_rdp(2 / epsilon, orders)), pure)
