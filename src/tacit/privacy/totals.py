"""The total data-dependent cost of many GNMax queries, from lines above the cost.

On each interval of q the cost lies below two lines in q, one from each end; a line needs only the
number of its queries and the sum of their q, so time grows with queries plus intervals x orders.
Let x_c, x_d be the ratio P/Q at the ends of the tails m_c = q - h and m_d = h. The chord of r^a
through x_d and x_c, written as the tangent at R plus lambda r, has

    lambda = G(x_c, R) = G(x_d, R) = T'(q),   G(x, R) = x^(a-1) - a R^(a-1) + (a-1) R^a/x,
    a log R = turn(x_c, x_d) = log[ (x_c^(a-1) - x_d^(a-1))/((a-1)(1/x_d - 1/x_c)) ].

lambda falls when either tail grows, so the extreme tails of the cells that may hold the best share
h/q enclose T'. Proofs: docs/theory/data-dependent.md, "Totals".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri_exp

from tacit._checks import Floats, Integers, one_of, order_array, positive
from tacit.privacy.noisy_max import checked_weights, gnmax_log_q, rdp_from_log_q
from tacit.privacy.tail_bound import rounding, tail_bound_rdp, tails

# So many pairs of a distinct q and an order are summed one by one, which is exact.
EXACT_UP_TO = 20_000

_PAIRS_AT_ONCE = 1 << 16  # (q, order): so that the temporaries stay in the processor's cache
_CLOSE = 8e-4  # relative, between lines and chords; the ends of the lines add 1e-4
_AIM = 0.9 * _CLOSE  # when intervals are halved
_UNDERFLOW = 1e-290  # of log T: about there floating point loses its digits
_MAX_SPLITS = 12
_SPACING = (0.1, 0.035)  # of the first nodes in log q, at -8 and below, at -2 and above
_WIDEST = 0.12  # of log q, far below the largest q; half of log q where the cost is at its plateau
_GROUP = 40  # orders that share their intervals
_SHARES = np.concatenate(  # y = logit(h/q): the ends of the cells
    [
        [-np.inf, -12, -9, -7, -6],
        np.arange(-5, -1.4, 0.5),
        np.arange(-1.2, 1.3, 0.1),
        [2, 4, np.inf],
    ]
)
# From this log q on the worst case is taken: it is above the cost by less than 4e-4 of it.
PLATEAU_FROM = -0.09

_ENTRIES_AT_ONCE = 1 << 16  # so that the temporaries stay in the processor's cache
_LARGE = 30.0
_PAD = 1e-6  # relative: far more than slopes lose by rounding
_ROUNDING = 8 * np.finfo(np.float64).eps


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
    on chords of T lying below T: seen, not proved. Unit: one teacher.
    Source: docs/theory/data-dependent.md, "Totals".

    Parameters
    ----------
    votes : array (queries, classes) of votes or sums of probabilities, secret
    sigma : float, noise deviation on each count
    orders : array of Renyi orders > 1
    bound : {"tight", "theorem6"}, optional, as in `gnmax_rdp`
    weights : array of shape (queries,), optional
        At least 0; 1 by default. For expected-value tables.

    Returns
    -------
    array of shape (orders,), secret

    Examples
    --------
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
    """Group ascending orders by similar plateau ends, near Phi^-1(q) = -(a-1) mu."""
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
    """Return ends of intervals that cover log q, finest near 0 and where q is largest."""
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
    """Sum of log T on each interval, and its excess over chords of T: (intervals, orders).

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


def log_t(log_q: Floats, mu: float, orders: Floats) -> Floats:
    """Upper bound of log T at each q: (nodes, orders)."""
    value = np.tile(orders * (orders - 1) * mu**2 / 2, (log_q.size, 1))
    below = log_q < PLATEAU_FROM
    value[below] = tail_bound_rdp(log_q[below], mu, orders, tolerance=1e-4) * (orders - 1)
    return value


class Intervals(NamedTuple):
    """Disjoint ascending intervals of log q with bounds of log T on them: (intervals, orders).

    On [q0, q1], T(q0) (1 + (q/q0 - 1) after) and T(q1) (1 - (1 - q/q1) before) are above T(q).
    """

    low: Floats
    high: Floats
    at_low: Floats
    at_high: Floats
    after: Floats
    before: Floats

    def only(self, chosen: NDArray[np.bool_]) -> Intervals:
        """Leave the others out."""
        return Intervals(*(field[chosen] for field in self))

    def log_t(self, share: Floats) -> Floats:
        """Upper bound of log T at a share of the way from q0 to q1."""
        width = (self.high - self.low)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # then the other line stands
            from_low = self.at_low + np.log1p(self.after * (share * np.expm1(width)))
        from_high = self.at_high + np.log1p(self.before * ((1 - share) * np.expm1(-width)))
        # T grows with q: a line below T(q0) can only be underflow, near log q = -745
        return np.asarray(np.maximum(np.fmin(from_low, from_high), self.at_low))

    def log_chord(self, share: Floats) -> Floats:
        """Return log T there as if T were linear: a lower bound where T is concave."""
        rise = self.at_high - self.at_low
        with np.errstate(divide="ignore"):
            steep = np.logaddexp(np.log1p(-share), rise + np.log(share))
        near = np.log1p(share * np.expm1(np.minimum(rise, 1.0)))
        return np.asarray(self.at_low + np.where(rise < 1, near, steep))

    def with_more(self, more: Intervals) -> Intervals:
        """Put in others between them."""
        order = np.argsort(np.concatenate([self.low, more.low]))
        fields = zip(self, more, strict=True)
        return Intervals(*(np.concatenate(both)[order] for both in fields))


def intervals(low: Floats, high: Floats, mu: float, orders: Floats) -> Intervals:
    """Return the lines between ends log q0 < log q1, finite and below 0."""
    nodes, place = np.unique(np.concatenate([low, high]), return_inverse=True)
    at_low, at_high = np.split(log_t(nodes, mu, orders)[place], 2)
    after, before = np.empty((2, low.size, orders.size))
    step = max(1, _ENTRIES_AT_ONCE // (orders.size * _SHARES.size))
    for start in range(0, low.size, step):
        some = slice(start, start + step)
        cells = _Cells(low[some], high[some], mu, orders)
        after[some] = cells.steepest(at_low[some])
        before[some] = cells.least(at_high[some])
    return Intervals(low, high, at_low, at_high, after, before)


class _Cells:
    """The cells of the best share that are possible between neighbouring nodes."""

    def __init__(self, low: Floats, high: Floats, mu: float, a: Floats) -> None:
        self.low, self.high, self.a = low, high, a
        nodes = np.unique(np.concatenate([low, high]))
        self.at_low, self.at_high = np.searchsorted(nodes, low), np.searchsorted(nodes, high)
        c, d, log_r = tails(nodes[:, None], mu, _SHARES)
        self.log_xc, self.log_xd = mu**2 / 2 - mu * c, mu**2 / 2 - mu * d
        self.turn = _turn(self.log_xc[..., None], self.log_xd[..., None], a)
        least_r, most_r, possible = self._possible(log_r)
        self.interval, self.cell, self.order = np.nonzero(possible)
        self.least_r, self.most_r = (r[self.interval, self.cell] for r in (least_r, most_r))

    def _possible(self, log_r: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Range of log R in each cell, and whether it may hold a best share.

        `above` is a share of q0 with this right tail of q1, `below` a share of q1 with this of q0.
        R and `turn` at (q0, above) are at least as large as in the cell, at (q1, below) at most.
        """
        grown = np.exp(np.minimum(self.high - self.low, 700.0))[:, None]
        share, low, high = expit(_SHARES), self.at_low[:, None], self.at_high[:, None]
        above = np.searchsorted(share, share[1:] * grown * (1 + 1e-12))
        none = above == share.size  # q0 is too small for such a tail
        above[none] = share.size - 1  # there `turn` is infinite
        below = np.maximum(np.searchsorted(share, share[:-1] / grown * (1 - 1e-12), "right") - 1, 0)
        least_r = log_r[high, below]
        most_r = np.where(none, log_r[high, -1], log_r[low, above])
        rising = self.a * least_r[..., None] > self.turn[low, above]
        falling = self.a * most_r[..., None] < self.turn[high, below]
        return least_r, most_r, ~(rising | falling)

    def steepest(self, value: Floats) -> Floats:
        """Largest q0 T'/T(q0) on each interval; log T(q0) is given."""
        at, k, a = self.at_low[self.interval], self.cell, self.a[self.order]
        low, high = self._log_r(at)
        scale = self.low[self.interval] - value[self.interval, self.order]
        by_c = _g(self.log_xc[at, k + 1], low, a, scale, up=True)
        by_d = _g(self.log_xd[at, k], high, a, scale, up=True)
        result = np.zeros_like(value)
        np.maximum.at(result, (self.interval, self.order), np.fmin(by_c, by_d))
        return result

    def least(self, value: Floats) -> Floats:
        """Least q1 T'/T(q1) on each interval; log T(q1) is given."""
        at, k, a = self.at_high[self.interval], self.cell, self.a[self.order]
        low, high = self._log_r(at)
        scale = self.high[self.interval] - value[self.interval, self.order]
        xc, xd = self.log_xc[at, k], self.log_xd[at, k + 1]
        by_c = np.where(high <= xc, _g(xc, high, a, scale, up=False), 0.0)
        by_d = np.where(xd <= low, _g(xd, low, a, scale, up=False), 0.0)
        result = np.full_like(value, np.inf)
        np.minimum.at(result, (self.interval, self.order), np.fmax(by_c, by_d))
        return result

    def _log_r(self, node: Integers) -> tuple[Floats, Floats]:
        """Range of log R in each possible cell, at one end of its interval."""
        a = self.a[self.order]
        low, high = (self.turn[node, self.cell + side, self.order] / a for side in (0, 1))
        return np.maximum(low, self.least_r), np.minimum(high, self.most_r)


def _turn(log_xc: Floats, log_xd: Floats, a: Floats) -> Floats:
    """Return a log R of the chord through x_d and x_c; it grows with both."""
    apart = log_xc - log_xd
    rise = np.log(np.expm1(-(a - 1) * apart) / np.expm1(-apart) / (a - 1))
    return np.asarray((a - 1) * log_xc + log_xd + rise)


def _g(log_x: Floats, log_r: Floats, a: Floats, scale: Floats, *, up: bool) -> Floats:
    """G(x, R) e^scale = R^(a-1) (e^(-(a-1)s) + (a-1)e^s - a) e^scale, s = log(R/x), rounded."""
    s, sign = log_r - log_x, 1 if up else -1
    to_c = -(a - 1) * s
    with np.errstate(over="ignore", invalid="ignore"):  # x = 0 or infinite: no bound
        near = np.expm1(np.minimum(to_c, _LARGE)) + (a - 1) * np.expm1(np.minimum(s, _LARGE))
        near = np.maximum(near + sign * _ROUNDING * (a - 1) * np.abs(s), 0.0)
        value = near * np.exp((a - 1) * log_r + scale)
        (far,) = np.nonzero(np.maximum(to_c, s) >= _LARGE)
        above = np.logaddexp(to_c[far], s[far] + np.log(a[far] - 1))
        value[far] = np.exp(above + (a[far] - 1) * log_r[far] + scale[far])
    return np.asarray(value * (1 + sign * _PAD))
