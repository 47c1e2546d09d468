"""The tight data-dependent bound for any Gaussian mechanism's modal outcome.

Among all post-processings of the pair N(0,1), N(mu,1) that give one outcome the mass 1 - q, the
largest divergence splits the other mass between the two tails, h in one and q - h in the other:

    T(q) = max_{0<=h<=q} (1-q)^a (1-p)^(1-a)                                          ["stay"]
           + e^(a(a-1)mu^2/2) [ Phi(c + (a-1)mu) + Phi(-d - (a-1)mu) ]                 ["move"]
    c = Phi^-1(q-h), d = -Phi^-1(h), p = Phi(c - mu) + Phi(mu - d);    cost = log T/(a-1).

"stay" grows and "move" falls with h, so on [h0, h1] the sum is at most stay(h1) + move(h0). The
sign of its derivative in h is that of

    psi = log[ (a-1) R^a (1/xd - 1/xc) / (xc^(a-1) - xd^(a-1)) ],   R = (1-q)/(1-p),
    xc = e^(mu^2/2 - mu c), xd = e^(mu^2/2 - mu d),

which the ends of a cell bound. Cells are halved until the excess is below the tolerance.
Proofs: docs/theory/data-dependent.md#the-tight-bound, #the-certificate. Theorem 6 of PATE 2018 is
here for its tables; the tight bound is never larger (#theorem-6-and-the-condition-it-omits).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_ndtr, ndtr, ndtri_exp

from tacit._checks import Floats, Integers, order_array, positive, renyi_order
from tacit.errors import InvalidArgument
from tacit.privacy.gaussian import closed_in

LARGE = 30.0  # beyond e^30 a "- 1" no longer matters, and adding logarithms is exact enough
_HALF_LINE = np.array([0.5, 1.5, 4.0, 15.0, np.inf])
_FIRST_NODES = np.concatenate([-_HALF_LINE[::-1], [0.0], _HALF_LINE])  # in y = logit(h/q)
_Y, _C, _D, _R, _STAY, _MOVE = range(6)  # the fields of a point
_PAIRS_AT_ONCE = 1 << 14
_MAX_HALVINGS = 80
_NEARLY_ONE = -1e-4  # log q from which T is its plateau to 1e-9; its own sums would cancel there
_ROUNDING = 4 * np.finfo(np.float64).eps


def tail_bound_rdp(
    log_q: ArrayLike, mu: float, orders: ArrayLike, *, tolerance: float = 1e-9
) -> Floats:
    """RDP of a mu-GDP mechanism whose modal outcome has mass at least 1 - q: (queries, orders).

    Never below the supremum, above it by at most `tolerance` relative (or by rounding, where
    (a-1) mu^2 < 2e-6), and at most a mu^2/2. For GNMax mu = sqrt(2)/sigma, for a check 1/sigma.

    >>> float(f"{tail_bound_rdp(-5.179152311259569, 2**0.5 / 40, 8)[0, 0]:.9g}")
    0.000299794317
    """
    a, mu = order_array(orders), positive(mu=mu)
    distinct, place = np.unique(_checked_log_q(log_q), return_inverse=True)
    costs = np.empty((distinct.size, a.size))
    costs[:] = np.where(distinct >= _NEARLY_ONE, a[:, None] * mu**2 / 2, 0.0).T  # q = 1 and q = 0
    (between,) = np.nonzero((distinct < _NEARLY_ONE) & (distinct > -np.inf))
    step = max(1, _PAIRS_AT_ONCE // a.size)
    for start in range(0, between.size, step):
        some = between[start : start + step]
        costs[some] = _block(distinct[some], mu, a, tolerance)
    return costs[place]


def _block(log_q: Floats, mu: float, orders: Floats, tolerance: float) -> Floats:
    """Costs for a few distinct q. A pair is one (q, order), numbered row by row."""
    n_pairs = log_q.size * orders.size
    q_of, a_of = np.repeat(log_q, orders.size), np.tile(orders, log_q.size)
    plateau = a_of * (a_of - 1) * mu**2 / 2
    pair, left, right = _first_cells(log_q, mu, orders)
    lower = np.zeros(n_pairs)
    for end in (left, right):
        np.maximum.at(lower, pair, log_sum_near_one(end[_STAY], end[_MOVE]))
    upper = lower.copy()
    for _ in range(_MAX_HALVINGS):
        order = a_of[pair]
        psi = _Psi.on(left, right, q_of[pair], order, mu)
        ceiling = _ceiling(left, right, psi, q_of[pair], order, mu)
        known = np.minimum(lower, plateau)[pair]
        tight = ceiling <= known * (1 + tolerance)
        np.maximum.at(upper, pair[tight], ceiling[tight])
        one_sign = (psi.most <= 0) | (psi.least >= 0)
        open_ = ~tight & (known < plateau[pair]) & ~one_sign
        pair, left, right = pair[open_], left[:, open_], right[:, open_]
        if not pair.size:
            break
        y = _cut(left[_Y], right[_Y], psi.only(open_))
        middle = _points(q_of[pair], mu, a_of[pair], y)
        np.maximum.at(lower, pair, log_sum_near_one(middle[_STAY], middle[_MOVE]))
        pair = np.concatenate([pair, pair])
        left, right = np.hstack([left, middle]), np.hstack([middle, right])
    else:
        np.maximum.at(upper, pair, log_sum_near_one(right[_STAY], left[_MOVE]))
    moment = np.minimum(rounded_up(np.maximum(upper, lower), q_of, a_of), plateau)
    return (moment / (a_of - 1)).reshape(log_q.size, orders.size)


def rounded_up(moment: Floats, log_q: Floats, order: Floats) -> Floats:
    """Add more than floating point can have lost, so that the result is never below the supremum.

    c is known to 1e-16 relative, hence tails of mass q to 1e-16 c^2 <= 2e-16 log(1/q), a times in
    "stay"; relative to the moment, q a(a-1) mu^2 log(1/q), this is 1e-9 only if (a-1) mu^2 < 2e-6.
    """
    return moment * (1 + 1e-12) + order * rounding(log_q)


def rounding(log_q: Floats) -> Floats:
    """Return what log T may lose, per unit of the order."""
    return np.asarray(_ROUNDING * np.exp(log_q) * (1 - 2 * log_q))


def _first_cells(log_q: Floats, mu: float, orders: Floats) -> tuple[Integers, Floats, Floats]:
    """Pair and ends of the first cells on which psi's sign is open; the maximum is at an end."""
    splits = np.stack(np.broadcast_arrays(_FIRST_NODES, *tails(log_q[:, None], mu, _FIRST_NODES)))
    _, c, d, log_r = splits[:, :, None]
    psi, grown = _psi(c, d, 0.0, orders[:, None], mu), orders[:, None] * log_r
    most, least = psi[..., :-1] + grown[..., 1:], psi[..., 1:] + grown[..., :-1]
    at, a, cell = np.nonzero((most > 0) & (least < 0))
    fields = (splits[:, at, cell + side] for side in (0, 1))
    left, right = (np.stack([*f, *_log_terms(f[1:], log_q[at], mu, orders[a])]) for f in fields)
    return at * orders.size + a, left, right


def _points(log_q: Floats, mu: float, order: Floats, y: Floats) -> Floats:
    split = tails(log_q, mu, y)
    return np.stack([y, *split, *_log_terms(split, log_q, mu, order)])


def tails(log_q: Floats, mu: float, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Where the tails begin (c, d) and log R, R = (1-q)/(1-p), for y = logit(h/q)."""
    c = ndtri_exp(log_q - np.logaddexp(0.0, y))
    d = -ndtri_exp(log_q - np.logaddexp(0.0, -y))
    p = ndtr(c - mu) + ndtr(mu - d)
    log_not_p = np.log1p(-np.minimum(p, 0.5))
    if (large := p > 0.5).any():  # 1 - p would cancel
        log_not_p[large] = _log_between(c[large] - mu, d[large] - mu)
    return c, d, np.log1p(-np.exp(log_q)) - log_not_p


def _log_between(low: Floats, high: Floats) -> Floats:
    """Return log(Phi(high) - Phi(low))."""
    log_high = log_ndtr(high)
    return np.asarray(log_high + np.log(-np.expm1(log_ndtr(low) - log_high)))


def _log_terms(
    split: Iterable[Floats], log_q: Floats, mu: float, order: Floats
) -> tuple[Floats, Floats]:
    """Logarithms of "stay" and "move"."""
    c, d, log_r = split
    shift = (order - 1) * mu
    stay = np.log1p(-np.exp(log_q)) + (order - 1) * log_r
    tails = np.logaddexp(log_ndtr(c + shift), log_ndtr(-d - shift))
    return stay, order * shift * mu / 2 + tails


class _Psi(NamedTuple):
    """psi at the ends of each cell, and bounds of it on the cell; its sign is the derivative's."""

    left: Floats
    right: Floats
    most: Floats
    least: Floats
    falls: NDArray[np.bool_]

    def only(self, cells: NDArray[np.bool_]) -> _Psi:
        """Leave the other cells out."""
        left, right, most, least = (bound[cells] for bound in self[:4])
        return _Psi(left, right, most, least, self.falls[cells])

    @classmethod
    def on(cls, left: Floats, right: Floats, log_q: Floats, order: Floats, mu: float) -> _Psi:
        of_left, of_right = (_psi(end[_C], end[_D], 0.0, order, mu) for end in (left, right))
        at_left, at_right = of_left + order * left[_R], of_right + order * right[_R]
        most, least = of_left + order * right[_R], of_right + order * left[_R]
        with np.errstate(over="ignore", invalid="ignore"):  # then the first bounds stand
            rise = _psi_slope(left, right, log_q, order, mu)
            most = np.fmin(most, at_left + np.maximum(rise, 0.0))
            least = np.fmax(least, at_right - np.maximum(rise, 0.0))
        return cls(at_left, at_right, most, least, rise < 0)


def _psi_slope(left: Floats, right: Floats, log_q: Floats, order: Floats, mu: float) -> Floats:
    """Upper bound of psi' (h1 - h0) on each cell, NaN if there is none.

    psi' = a R (1/xd - 1/xc)/(1-q) - ((a-1) - k') mu/phi(c) - (1 + k') mu/phi(d), term by term.
    """
    near, far = mu * (right[_D] - left[_C]), mu * (left[_D] - right[_C])  # the range of s
    k_most = _n(far) - (order - 1) * _n((order - 1) * near)
    k_least = _n(near) - (order - 1) * _n((order - 1) * far)
    of_c = np.maximum(order - 1 - k_most, 0.0) * _least_inverse_density(right[_C], left[_C])
    of_d = np.maximum(1 + k_least, 0.0) * _least_inverse_density(right[_D], left[_D])
    spread = np.exp(mu * left[_D] - mu**2 / 2) - np.exp(mu * right[_C] - mu**2 / 2)
    growth = order * np.exp(right[_R]) * spread / -np.expm1(log_q)
    slope = growth * (1 + 1e-9) - mu * (of_c + of_d) * (1 - 1e-9)
    return np.asarray(slope * np.exp(log_q) * _share_between(left[_Y], right[_Y]))


def _share_between(left: Floats, right: Floats) -> Floats:
    """(h1 - h0)/q."""
    return np.asarray(expit(right) * expit(-left) * -np.expm1(left - right))


def _n(s: Floats) -> Floats:
    """Return 1/(e^s - 1) - 1/s, which grows from -1/2 to 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.asarray(np.where(s > 1e-4, 1 / np.expm1(s) - 1 / s, s / 12 - 0.5))


def _least_inverse_density(low: Floats, high: Floats) -> Floats:
    """Return the least 1/phi on [low, high]: at the point nearest to 0."""
    nearest = np.minimum(np.maximum(0.0, low), high)
    return np.asarray(np.exp(nearest**2 / 2) * math.sqrt(2 * math.pi))


def _psi(c: Floats, d: Floats, log_r: Floats | float, order: Floats, mu: float) -> Floats:
    log_xc, log_xd, apart = mu**2 / 2 - mu * c, mu**2 / 2 - mu * d, mu * (d - c)
    numerator = np.log(order - 1) + order * log_r - log_xd + np.log(-np.expm1(-apart))
    return numerator - (order - 1) * log_xc - np.log(-np.expm1(-(order - 1) * apart))


def _ceiling(
    left: Floats, right: Floats, psi: _Psi, log_q: Floats, order: Floats, mu: float
) -> Floats:
    """Upper bound of log T on each cell: the lesser of the monotone and the derivative bound."""
    monotone = log_sum_near_one(right[_STAY], left[_MOVE])
    ratio = _share_between(left[_Y], right[_Y])
    log_xc = (order - 1) * (mu**2 / 2 - mu * right[_C])  # xc^(a-1) at its largest
    slope = -np.expm1((order - 1) * mu * (right[_C] - left[_D]))  # 1 - (xd/xc)^(a-1) at its largest
    value = np.maximum(
        log_sum_near_one(left[_STAY], left[_MOVE]), log_sum_near_one(right[_STAY], right[_MOVE])
    )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # then the other stands
        # From either end T rises at most so fast; together, to where the two lines meet.
        up, down = np.expm1(np.maximum(psi.most, 0.0)), -np.expm1(np.minimum(psi.least, 0.0))
        rise = np.exp(log_q + log_xc) * ratio * slope / (1 / up + 1 / down)
    return np.asarray(np.fmin(monotone, value + rise))  # T >= 1: log(T + rise) <= log T + rise


def _cut(left: Floats, right: Floats, psi: _Psi) -> Floats:
    """Where to cut a cell: in half; at twice the end if endless; near the root of a falling psi."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(psi.falls, np.clip(psi.left / (psi.left - psi.right), 0.02, 0.98), 0.5)
        middle = left + (right - left) * share
    middle = np.where(np.isinf(left), 2 * right, middle)
    return np.asarray(np.where(np.isinf(right), 2 * left, middle))


def theorem6_rdp(log_q: ArrayLike, sigma: float, orders: ArrayLike) -> Floats:
    """Data-dependent RDP of GNMax from log q by Theorem 6: shape (queries, orders).

    With L = -log q, r = sqrt(L):
        log[ (1-q)^a (1 - e^(-(r - 1/s)^2))^(1-a) + e^(-L + (a-1)(2r/s + 1/s^2)) ] / (a-1)
    where r > 1/s, r >= (a-1)/s and 2r/s >= 1/s^2 + log((s r + 1)/(s r - 1)), at most a/s^2
    everywhere. The printed theorem omits the condition q e^(eps2) < 1; it is r > 1/s here.

    >>> float(f"{theorem6_rdp(-5.179152311259569, 40, 8)[0, 0]:.9g}")
    0.00165488419
    """
    s = positive(sigma=sigma)
    a = order_array(orders)
    q_log = _checked_log_q(log_q)[:, None]
    plateau = np.broadcast_to(a / s**2, (q_log.shape[0], a.size))
    r = np.sqrt(-q_log)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ordered = 2 * r / s >= 1 / s**2 + np.log((s * r + 1) / (s * r - 1))
        usable = (r > 1 / s) & ordered & (r >= (a - 1) / s)
        bound = np.where(usable, np.fmin(_theorem6(q_log, r, s, a), plateau), plateau)
    return np.where(np.isneginf(q_log), 0.0, bound)


def _theorem6(log_q: Floats, r: Floats, s: float, a: Floats) -> Floats:
    stay = a * np.log1p(-np.exp(log_q)) - (a - 1) * np.log1p(-np.exp(-((r - 1 / s) ** 2)))
    move = log_q + (a - 1) * (2 * r / s + 1 / s**2)
    return log_sum_near_one(stay, move) / (a - 1)


def theorem6_log_q0(sigma: float, order: float) -> float:
    """Largest log q at which Theorem 6 improves on a/s^2: where it meets the plateau, mostly.

    >>> float(f"{theorem6_log_q0(40, 14):.9f}")
    -3.402972417
    """
    s, a = positive(sigma=sigma), renyi_order(order=order)

    def improves(level: Any) -> bool:
        return bool(theorem6_rdp(-level, s, a)[0, 0] < a / s**2)

    useless, useful = 0.0, 1.0
    while not improves(useful):
        useless, useful = useful, 2 * useful
    return -float(closed_in(useless, useful, improves)[1])


def _checked_log_q(log_q: ArrayLike) -> Floats:
    """Return log q as a one-dimensional array without NaN, each <= 0 (-inf is q = 0)."""
    array = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if array.ndim != 1 or np.isnan(array).any() or (array > 0).any():
        raise InvalidArgument("Expected log_q to be a one-dimensional array of values <= 0.")
    return array


def log_sum_near_one(log_x: Floats, log_y: Floats) -> Floats:
    """Return max(0, log(e^log_x + e^log_y)) where e^log_x is close to 1 and e^log_y small."""
    large = np.maximum(log_x, log_y) > LARGE
    near = np.log1p(
        np.maximum(np.expm1(np.minimum(log_x, LARGE)) + np.exp(np.minimum(log_y, LARGE)), 0.0)
    )
    return np.where(large, np.logaddexp(log_x, log_y), near) if large.any() else near
