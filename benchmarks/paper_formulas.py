"""PATE 2018's formulas as they are printed, query by query, in plain Python floats.

This is the baseline of `benchmarks.privacy` and an oracle of the tests: Prop. 7, Theorem 6 with
Prop. 10 in its printed A/B form, and Algorithms 3 to 5 with the slips of
docs/theory/errata.md#pate-2018-the-theorems corrected. It is slow, it underflows where log q is
very negative, and it imports nothing of tacit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

STOP, CONTINUE = True, False
_NORMAL = NormalDist()


def query_q(votes: Sequence[int], sigma: float) -> float:
    """Prop. 7: sum over j != i* of erfc((n_i* - n_j)/(2 sigma))/2, exactly one argmax left out."""
    top = votes.index(max(votes))
    return sum(
        math.erfc((votes[top] - count) / (2 * sigma)) / 2
        for other, count in enumerate(votes)
        if other != top
    )


def data_independent(sigma: float, order: float) -> float:
    return order / sigma**2


def theorem6(q: float, sigma: float, order: float, mu1: float, mu2: float) -> float:
    """Right-hand side of Theorem 6 for GNMax, eps_i = mu_i/sigma^2, in its printed form."""
    eps1, eps2 = mu1 / sigma**2, mu2 / sigma**2
    a = (1 - q) / (1 - (q * math.exp(eps2)) ** ((mu2 - 1) / mu2))
    b = math.exp(eps1) / q ** (1 / (mu1 - 1))
    return math.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)


def printed_conditions(q: float, sigma: float, order: float, mu1: float, mu2: float) -> bool:
    """Check what Theorem 6 states; q e^(eps2) < 1 is missing.

    docs/theory/data-dependent.md#theorem-6-and-the-condition-it-omits.
    """
    if mu1 < order or mu2 <= 1:
        return False
    eps2 = mu2 / sigma**2
    limit = (mu2 - 1) * eps2 - mu2 * math.log(mu1 / (mu1 - 1) * mu2 / (mu2 - 1))
    return math.log(q) <= limit


def gnmax_cost(q: float, sigma: float, order: float) -> float:
    """Theorem 6 with Prop. 10's mu1 and mu2, at most the data-independent cost."""
    worst = data_independent(sigma, order)
    if q <= 0:
        return 0.0
    if q >= 1:
        return worst
    mu2 = sigma * math.sqrt(-math.log(q))
    mu1 = mu2 + 1
    if not printed_conditions(q, sigma, order, mu1, mu2):
        return worst
    return min(worst, theorem6(q, sigma, order, mu1, mu2))


def total_cost(
    votes: Sequence[Sequence[int]], sigma: float, orders: Sequence[float]
) -> list[float]:
    totals = [0.0] * len(orders)
    for row in votes:
        q = query_q(row, sigma)
        for i, order in enumerate(orders):
            totals[i] += gnmax_cost(q, sigma, order)
    return totals


def neighbour_q(q: float, sigma: float, n_classes: int, direction: int) -> float:
    """Prop. 21: the largest (direction 1) or smallest (-1) q of a neighbouring histogram."""
    others = n_classes - 1
    if q / others >= 1:
        return 1.0
    z = _NORMAL.inv_cdf(q / others) + direction * math.sqrt(2) / sigma
    return min(1.0, others * math.erfc(-z / math.sqrt(2)) / 2)


@cache
def crossing_q(sigma: float, order: float) -> float:
    """q0: the largest q at which Theorem 6 is below the data-independent cost, by bisection."""
    low, high = 1e-300, 1.0
    worst = data_independent(sigma, order)
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gnmax_cost(middle, sigma, order) < worst else (low, middle)
    return low


def local_sensitivity(q: float, sigma: float, order: float, n_classes: int) -> float:
    """Algorithm 3: the cost's largest change to a neighbour; a plateau between q1 and q0."""
    q0 = crossing_q(sigma, order)
    if q0 >= q >= lower_edge(sigma, order, n_classes):
        return plateau(sigma, order, n_classes)
    here = gnmax_cost(q, sigma, order)
    above = gnmax_cost(neighbour_q(q, sigma, n_classes, 1), sigma, order)
    below = gnmax_cost(neighbour_q(q, sigma, n_classes, -1), sigma, order)
    return max(above - here, here - below)


@cache
def lower_edge(sigma: float, order: float, n_classes: int) -> float:
    """q1: from here a neighbour can reach q0."""
    return neighbour_q(crossing_q(sigma, order), sigma, n_classes, -1)


@cache
def plateau(sigma: float, order: float, n_classes: int) -> float:
    q1 = lower_edge(sigma, order, n_classes)
    return data_independent(sigma, order) - gnmax_cost(q1, sigma, order)


def at_distance(
    votes: Sequence[int], sigma: float, order: float, distance: int
) -> tuple[float, bool]:
    """Algorithm 4: local sensitivity at this distance, and whether to stop there."""
    m = len(votes)
    counts = sorted(votes, reverse=True)
    q, q0 = query_q(counts, sigma), crossing_q(sigma, order)
    q1, top = lower_edge(sigma, order, m), plateau(sigma, order, m)
    if q1 <= q <= q0:
        return top, STOP
    if q < q1:
        if counts[0] - counts[1] < 2 * distance:
            return top, STOP
        moved = query_q([counts[0] - distance, counts[1] + distance, *counts[2:]], sigma)
        if moved > q1:
            return top, STOP
        return local_sensitivity(moved, sigma, order, m), CONTINUE
    gathered = gather(counts, distance)
    moved = query_q(gathered, sigma)
    if moved <= q0:
        return top, STOP
    return local_sensitivity(moved, sigma, order, m), gathered[0] == sum(counts)


def gather(counts: Sequence[int], distance: int) -> list[int]:
    """Move votes to the first class, each from the largest of the others."""
    if sum(counts[1:]) <= distance:
        return [sum(counts)] + [0] * (len(counts) - 1)
    result = list(counts)
    result[0] += distance
    for _ in range(distance):
        donor = result.index(max(result[1:]), 1)
        result[donor] -= 1
    return result


def smooth_sensitivity(
    votes: Sequence[Sequence[int]],
    sigma: float,
    order: float,
    beta: float,
    weights: Sequence[float] | None = None,
) -> float:
    """Algorithm 5: max_d e^(-beta d) sum_i w_i LS_i(d), the largest so far once a query stops."""
    shares = [1.0] * len(votes) if weights is None else weights
    if query_q(gather(votes[0], sum(votes[0])), sigma) > crossing_q(sigma, order):
        return 0.0  # the cost is data-independent for every histogram
    reached, stopped = [0.0] * len(votes), [False] * len(votes)
    best = 0.0
    for d in range(sum(votes[0]) + 1):
        for i, row in enumerate(votes):
            if not stopped[i]:
                here, stopped[i] = at_distance(row, sigma, order, d)
                reached[i] = max(reached[i], here)
        total = sum(share * here for share, here in zip(shares, reached, strict=True))
        best = max(best, math.exp(-beta * d) * total)
        if all(stopped):
            break
    return best
