"""Lines above the tight cost as a function of q: what many queries cost, from a few nodes.

Let m_c = q - h and m_d = h be the two tails of the best split at q, and x_c, x_d the ratio P/Q at
their ends. The chord of r^a through x_d and x_c, written as the tangent at R plus lambda r, has

    lambda = G(x_c, R) = G(x_d, R) = T'(q),   G(x, R) = x^(a-1) - a R^(a-1) + (a-1) R^a/x,
    a log R = turn(x_c, x_d) = log[ (x_c^(a-1) - x_d^(a-1))/((a-1)(1/x_d - 1/x_c)) ].

lambda falls when either tail grows. So if for every q of [q0, q1] the best share h/q lies in one of
certain cells, lambda at the smallest and at the largest tails of these cells encloses T' on
[q0, q1], and T lies below the lines of the steepest slope from q0 and of the least from q1. A cell
is ruled out where a log R, R = (1-q)/(1-p), stays on one side of `turn`, for both are monotone in
the tails. Proofs: docs/theory/data-dependent.md, "Totals".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tacit._checks import Floats, Integers
from tacit.privacy.tail_bound import tail_bound_rdp, tails

_SHARES = np.concatenate(  # y = logit(h/q): the ends of the cells
    [
        [-np.inf, -12, -9, -7, -6],
        np.arange(-5, -1.4, 0.5),
        np.arange(-1.2, 1.3, 0.1),
        [2, 4, np.inf],
    ]
)
PLATEAU_FROM = -0.09
"""From this log q on the worst case is taken: it is above the cost by less than 4e-4 of it."""

_ENTRIES_AT_ONCE = 1 << 16  # so that the temporaries stay in the processor's cache
_LARGE = 30.0
_PAD = 1e-6  # relative: far more than slopes lose by rounding
_ROUNDING = 8 * np.finfo(np.float64).eps


def log_t(log_q: Floats, mu: float, orders: Floats) -> Floats:
    """Upper bound of log T at each q: (nodes, orders)."""
    value = np.tile(orders * (orders - 1) * mu**2 / 2, (log_q.size, 1))
    below = log_q < PLATEAU_FROM
    value[below] = tail_bound_rdp(log_q[below], mu, orders, tolerance=1e-4) * (orders - 1)
    return value


class Intervals(NamedTuple):
    """Disjoint intervals of log q, ascending, and bounds of log T on them: (intervals, orders).

    For q0 <= q <= q1 both T(q0) (1 + (q/q0 - 1) after) and T(q1) (1 - (1 - q/q1) before) are above
    T(q).
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

        `above` is a share of q0 that makes the right tail as large as this one of q1 does, and the
        left tail smaller; `below` a share of q1 for this one of q0. So at q0 with the share `above`
        R and `turn` are at least as large as in the cell, at q1 with `below` at most.
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
