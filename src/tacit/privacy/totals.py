"""The total data-dependent cost of many GNMax queries, from lines above the cost (tangents.py).

On each interval of q the cost lies below two lines in q, one from each end. A line needs only the
number of its queries and the sum of their q, so time grows with queries plus intervals x orders.
Intervals are split until the lines are close enough to the chords between them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri_exp

from tacit._checks import Floats, one_of, order_array, positive
from tacit.privacy.noisy_max import checked_weights, gnmax_log_q, rdp_from_log_q
from tacit.privacy.tail_bound import rounding
from tacit.privacy.tangents import PLATEAU_FROM, Intervals, intervals

EXACT_UP_TO = 20_000
"""So many pairs of a distinct q and an order are summed one by one, which is exact."""

_PAIRS_AT_ONCE = 1 << 16  # (q, order): so that the temporaries stay in the processor's cache
_CLOSE = 8e-4  # relative, between lines and chords; the ends of the lines add 1e-4
_AIM = 0.9 * _CLOSE  # when intervals are halved
_UNDERFLOW = 1e-290  # of log T: about there floating point loses its digits
_MAX_SPLITS = 12
_SPACING = (0.1, 0.035)  # of the first nodes in log q, at -8 and below, at -2 and above
_WIDEST = 0.12  # of log q, far below the largest q; half of log q where the cost is at its plateau
_GROUP = 40  # orders that share their intervals


def gnmax_rdp_total(
    votes: ArrayLike,
    sigma: float,
    orders: ArrayLike,
    bound: str = "tight",
    *,
    weights: ArrayLike | None = None,
) -> Floats:
    """Sum of `gnmax_rdp` over the queries (each times its weight): shape (orders,). Secret.

    Never below the exact sum, by proof; with `bound="tight"` and more than 20,000 pairs of a
    distinct q and an order at most 1e-3 above it in all that was tried (tests/privacy), which rests
    on chords of T lying below T: seen, not proved. Weights are for expected-value tables.

    >>> import numpy as np
    >>> votes = [[200, 50] + [0] * 8, [249, 1] + [0] * 8]
    >>> from tacit.privacy import gnmax_rdp
    >>> bool(np.allclose(gnmax_rdp_total(votes, 40, [8]), gnmax_rdp(votes, 40, [8]).sum(axis=0)))
    True
    """
    one_of("tight", "theorem6", bound=bound)
    orders, sigma = order_array(orders), positive(sigma=sigma)
    log_q = gnmax_log_q(votes, sigma)
    shares = checked_weights(weights, log_q.size)
    distinct, place = np.unique(log_q, return_inverse=True)
    mass = np.bincount(place, weights=shares, minlength=distinct.size).astype(np.float64)
    if bound == "theorem6" or distinct.size * orders.size <= EXACT_UP_TO:
        return _exact_total(distinct, mass, sigma, orders, bound)
    return _total_below_lines(distinct, mass, sigma, orders)


def _exact_total(log_q: Floats, mass: Floats, sigma: float, orders: Floats, bound: str) -> Floats:
    total = np.zeros(orders.size)
    step = max(1, _PAIRS_AT_ONCE // orders.size)
    for start in range(0, log_q.size, step):
        part = slice(start, start + step)
        total += mass[part] @ rdp_from_log_q(log_q[part], sigma, orders, bound)
    return total


def _total_below_lines(log_q: Floats, mass: Floats, sigma: float, orders: Floats) -> Floats:
    """Sum for ascending log q."""
    mu = math.sqrt(2) / sigma
    worst = float(mass[log_q >= PLATEAU_FROM].sum()) * orders / sigma**2
    between = (log_q < PLATEAU_FROM) & (log_q > -np.inf)  # q = 0 costs nothing
    log_q, mass = log_q[between], mass[between]
    if not log_q.size:
        return worst
    ascending = np.sort(orders)
    groups = [_sum_below_lines(log_q, mass, mu, some) for some in _alike(ascending, mu)]
    # Each query's rounding, as in the exact sum: near order 1 it is more than the worst case.
    lost = float(mass @ rounding(log_q)) * orders / (orders - 1)
    total = np.concatenate(groups)[np.searchsorted(ascending, orders)] + lost
    return worst + np.minimum(total, float(mass.sum()) * orders / sigma**2)


def _alike(orders: Floats, mu: float) -> list[Floats]:
    """Cut ascending orders into groups that need much the same intervals.

    The cost of order a leaves its plateau near Phi^-1(q) = -(a-1) mu.
    """
    groups, start = [], 0
    while start < orders.size:
        last = max(orders[start] + 3 / mu, 1.4 * orders[start])
        end = min(int(np.searchsorted(orders, last, "right")), start + _GROUP)
        groups.append(orders[start:end])
        start = end
    return groups


def _sum_below_lines(log_q: Floats, mass: Floats, mu: float, orders: Floats) -> Floats:
    """Sum for ascending log q between 0 and the plateau, by intervals that suit the orders."""
    nodes = _first_nodes(log_q, float(orders[0] - 1) * mu)
    found = _occupied(nodes[:-1], nodes[1:], log_q, mu, orders)
    for _ in range(_MAX_SPLITS):
        bound, excess = _bound(found, log_q, mass)
        total = bound.sum(axis=0)
        far = excess.sum(axis=0) > _CLOSE * total + _UNDERFLOW * mass.sum()
        if not far.any():
            return np.asarray(total / (orders - 1))
        worst = _worst((excess[:, far] / total[far]).max(axis=1))
        found = _halved(found, worst, log_q, mu, orders)
    return _exact_total(log_q, mass, math.sqrt(2) / mu, orders, "tight")


def _first_nodes(log_q: Floats, reach: float) -> Floats:
    """Return ends of intervals that cover log q, finest near 0 and where q is largest.

    Wider while Phi^-1(q) > -reach, where the cost is close to its plateau.
    """
    node = top = float(log_q[-1])
    nodes = [top]
    while node >= log_q[0]:
        fine = max(float(np.interp(node, [-8, -2], _SPACING)), -1e-9 * node)  # never lost in node
        flat = reach + min(float(ndtri_exp(node)), 0.0)
        widest = max(fine, -(_WIDEST if flat < 0 else 0.5) * node)
        node -= min(fine * math.exp(min(max((top - node) / 6, flat), 700.0)), widest)
        nodes.append(node)
    return np.array(nodes[::-1])


def _occupied(low: Floats, high: Floats, log_q: Floats, mu: float, orders: Floats) -> Intervals:
    """Return the lines of those intervals (low, high] that hold some log q."""
    some = np.searchsorted(log_q, high, "right") > np.searchsorted(log_q, low, "right")
    return intervals(low[some], high[some], mu, orders)


def _bound(found: Intervals, log_q: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Sum of log T on each interval, and by how much it exceeds chords of T: (intervals, orders).

    The logarithm of a line is concave: its mean is at most its value at the mean of q.
    """
    count, at = found.low.size, np.searchsorted(found.high, log_q)
    low, high = found.low[at], found.high[at]
    share = np.exp(log_q - high) * np.expm1(low - log_q) / np.expm1(low - high)  # of q in [q0, q1]
    bound, excess = np.zeros((2, *found.at_low.shape))
    for half in (2 * log_q <= low + high, 2 * log_q > low + high):
        n = np.bincount(at[half], weights=mass[half], minlength=count)
        sums = np.bincount(at[half], weights=(mass * share)[half], minlength=count)
        some = n > 0
        part, mean = found.only(some), np.minimum(sums[some] / n[some], 1.0)[:, None]
        lines = part.log_t(mean)
        bound[some] += n[some, None] * lines
        excess[some] += n[some, None] * np.maximum(lines - part.log_chord(mean), 0.0)
    return bound, excess


def _worst(excess: Floats) -> NDArray[np.bool_]:
    """Choose the fewest intervals that have to be halved, if their excess falls to a quarter."""
    chosen = np.zeros(excess.size, dtype=np.bool_)
    worst_first = np.argsort(-excess)
    gain = np.cumsum(0.75 * excess[worst_first])
    chosen[worst_first[: np.searchsorted(gain, excess.sum() - _AIM) + 1]] = True
    return chosen


def _halved(
    found: Intervals, chosen: NDArray[np.bool_], log_q: Floats, mu: float, orders: Floats
) -> Intervals:
    low, high = found.low[chosen], found.high[chosen]
    middle = (low + high) / 2
    low, high = np.append(low, middle), np.append(middle, high)
    return found.only(~chosen).with_more(_occupied(low, high, log_q, mu, orders))
