"""What Private-kNN costs: screening, answer and median on a Poisson sample.

Each query sees a fresh Poisson sample of the units; the k nearest records of the sample vote. One
unit has at most `displaced` votes and displaces as many. Only bounds that hold for every sample
are amplified: a data-dependent cost must not be
(docs/theory/subsampling.md#what-may-not-be-amplified).
Proofs: docs/theory/private-knn.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

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
from tacit.privacy.mixtures import largest_mixture_rdp
from tacit.privacy.subsampled import poisson_gaussian_rdp

_CELLS = 1024
"""Cells of the range of a bounded likelihood ratio; the bound is too high by about 2/_CELLS."""
_MOST_EPSILON = 500.0
_MOST_VOTES = 2**24


def sampled_threshold_rdp(
    k: int, threshold: float, sigma: float, rate: float, orders: ArrayLike, displaced: int = 1
) -> Floats:
    """Worst case of one noisy screening on a Poisson sample: exact amplification.

    The maximum over t, t' in 0..k with |t - t'| <= displaced of D_a(pm || p0) and D_a(p0 || pm),
    p0 = Phi((t - threshold)/sigma), p1 the same at t', pm = (1-rate) p0 + rate p1. Both are convex
    in p1 and 0 at p1 = p0, so the farthest t' on either side is worst. The range starts at 0: a
    sample may hold fewer than k records. Unit: one with at most `displaced` votes and one coin.

    >>> float(f"{sampled_threshold_rdp(300, 210, 85, 0.25, [8])[0]:.10g}")
    2.203150303e-05
    """
    return _screening(k, threshold, positive(sigma=sigma), rate, order_array(orders), displaced)


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
    log[ (1-p)^a (1-p')^(1-a) + p^a p'^(1-a) e^((a-1) g) ] / (a-1), g = `answer_rdp` at each order:
    the amplified cost of the answer. It needs no cap on the answers; the two samples must be
    independent. Unit: one with at most `displaced` votes and one coin.

    >>> alone = sampled_threshold_rdp(300, 210, 85, 0.25, [8.0])
    >>> both = sampled_screening_rdp(300, 210, 85, [0.001], 0.25, [8.0])
    >>> bool(alone < both < alone + 0.001)
    True
    """
    sigma, orders = positive(sigma_screen=sigma_screen), order_array(orders)
    extra = finite_array(answer_rdp=answer_rdp)
    if extra.shape != orders.shape or (extra < 0).any():
        raise InvalidArgument(f"Expected answer_rdp to be {orders.size} numbers >= 0, one a order.")
    return _screening(k, threshold, sigma, rate, orders, displaced, extra)


def _screening(
    k: int,
    threshold: float,
    sigma: float,
    rate: float,
    orders: Floats,
    displaced: int,
    answer_rdp: Floats | None = None,
) -> Floats:
    k, reach = _count(k=k), _count(displaced=displaced)
    threshold, rate = finite(threshold=threshold), sampling_rate(rate=rate)
    votes = np.arange(k + 1)
    score = (votes - threshold) / sigma
    outcomes = np.stack([log_ndtr(score), log_ndtr(-score)])
    ends = np.concatenate([np.minimum(votes + reach, k), np.maximum(votes - reach, 0)])
    base = np.concatenate([outcomes, outcomes], axis=1)
    return largest_mixture_rdp(base, outcomes[:, ends] - base, rate, orders, answer_rdp)


def sampled_noisy_max_rdp(
    sigma: float, rate: float, orders: ArrayLike, votes_per_unit: int = 1
) -> Floats:
    """Worst case of one noisy plurality, or histogram, of the sampled neighbours.

    The Poisson-subsampled Gaussian with mu = sqrt(2) votes_per_unit/sigma: a sampled unit adds at
    most that many votes and displaces as many. The cheaper supremum over three outcomes
    is known numerically only and not used. Unit: one with at most `votes_per_unit` votes.

    >>> float(f"{sampled_noisy_max_rdp(5, 0.05, [8])[0]:.10g}")
    0.0008536918171
    """
    votes = _count(votes_per_unit=votes_per_unit)
    return poisson_gaussian_rdp(rate, positive(sigma=sigma) / (math.sqrt(2) * votes), orders)


def _count(**named: int) -> int:
    """Return the argument as a number of votes: an integer that arrays can be made of."""
    ((name, value),) = named.items()
    if at_least(1, **named) > _MOST_VOTES:
        raise refuse(name, value, f"at most {_MOST_VOTES}")
    return value


def sampled_exponential_rdp(epsilon: float, rate: float, orders: ArrayLike) -> Floats:
    """Worst case of one exponential mechanism on a Poisson sample.

    On a given sample, log(P1/P0) lies in [-s, epsilon - s] for some s in [0, epsilon]: a range of
    epsilon, half of what epsilon-DP allows (Dong, Durfee, Rogers 2020). E_P0 r^a and E_P0 r^(1-a)
    with r = 1 + rate (P1/P0 - 1) are convex in P1/P0, whose mean is 1, so two outcomes at the ends
    are worst. The supremum over s is bounded cell by cell: an s in [x, y] has its range inside
    [-y, epsilon - x]. Never above order epsilon^2/8 (Cesar, Rogers 2021) or log(1 + rate
    (e^epsilon - 1)). Unit: that for which the utility's sensitivity was computed.

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
