"""Smooth sensitivity of the summed GNMax cost, by windows of z or as in PATE 2018. Secret.

Write q = (m-1) Phi(z): a neighbouring histogram moves z by at most h = sqrt(2)/sigma (Prop. 21),
so the cost of a query is a nondecreasing b(z). On cells of width h/K,

    J_k = b(z_{k+1} + h) - b(z_k) bounds the change of the cost to a neighbour anywhere in cell k,
    E_i(d) = max J over the cells that meet [z_low(d) - h, z_high(d)],
    SS = max_d e^(-beta d) sum_i E_i(d),   with E_i(n_teachers) = max J, the whole space,

where z_low(d), z_high(d) belong to the histograms at distance d with the least and largest q
(Prop. 19). Proof: docs/theory/smooth-sensitivity.md#the-window-algorithm. The paper's algorithm
needs its condition C6, which fails roughly for order >= sigma (docs/theory/errata.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri, ndtri_exp

from tacit._checks import Floats, Integers, one_of, positive, probability, renyi_order, vote_matrix
from tacit.errors import InvalidArgument
from tacit.privacy.noisy_max import TOLERANCE, checked_weights, log_tail_sum, rdp_from_log_q
from tacit.privacy.tail_bound import theorem6_log_q0
from tacit.privacy.threshold import threshold_rdp

_CELLS_PER_STEP = 16
_SLACK = 1e-7  # relative: local sensitivities are differences of numbers good to 1e-9
_COUNTS_AT_ONCE = 1 << 17  # so that the temporaries stay in the processor's cache


def gnmax_smooth_sensitivity(
    votes: ArrayLike,
    sigma: float,
    order: float,
    beta: float,
    weights: ArrayLike | None = None,
    bound: str = "tight",
    algorithm: str = "window",
) -> float:
    """beta-smooth upper bound on the local sensitivity of sum_i gnmax_rdp(votes_i). Secret.

    Unit: one teacher. Source: docs/theory/smooth-sensitivity.md#the-window-algorithm.

    Parameters
    ----------
    votes : array of shape (queries, classes), whole votes, secret
    sigma : float, noise deviation on each count
    order : float > 1, Renyi order chosen without the data
    beta : float, the bound grows by at most e^beta from one histogram to a neighbour
    weights : array of shape (queries,), optional
        1 by default. For the papers' expected-value tables; a release sums over the queries that
        were answered.
    bound : {"tight", "theorem6"}, optional
        As in `gnmax_rdp`; algorithm="paper" needs theorem6.
    algorithm : {"window", "paper"}, optional
        window: bounds the jumps of the cost within reach, for any nondecreasing cost.
        paper: PATE 2018, Algorithms 3 to 5 corrected; refuses where condition C6 fails.

    Returns
    -------
    float, secret

    Examples
    --------
    >>> votes = [[200, 50] + [0] * 8]
    >>> near, far = (gnmax_smooth_sensitivity(votes, 40, 14, beta) for beta in (0.02, 0.04))
    >>> near > far
    True
    """
    one_of("window", "paper", algorithm=algorithm)
    one_of("tight", "theorem6", bound=bound)
    counts, sigma = vote_matrix(votes), positive(sigma=sigma)
    order, beta = renyi_order(order=order), positive(beta=beta)
    shares = checked_weights(weights, len(counts))
    if algorithm == "paper":
        return _paper_smooth_sensitivity(counts, sigma, order, beta, shares, bound)
    n_teachers, n_classes = int(counts[0].sum()), counts.shape[1]
    jumps = _Jumps(n_teachers, n_classes, sigma, order, bound)
    reach = Reach(counts, sigma)

    def within(distance: int) -> float:
        least, largest = reach.least_log_q(distance), reach.largest_log_q(distance)
        return float(shares @ jumps.within(least, largest))

    everywhere = jumps.largest * float(shares.sum())
    return discounted_maximum(within, everywhere, n_teachers, beta)


class _Jumps:
    """The jumps J on a grid of z, with range maxima in constant time."""

    def __init__(self, n_teachers: int, m: int, sigma: float, order: float, bound: str) -> None:
        step = math.sqrt(2) / sigma
        z_min = -n_teachers / (math.sqrt(2) * sigma)  # unanimous votes; nothing lies below
        modal, log_others = math.log1p(-1 / m), math.log(m - 1)
        z_max = float(ndtri_exp(modal - log_others))  # from here on the cost is constant
        width = step / _CELLS_PER_STEP
        n_nodes = max(0, math.ceil((z_max - z_min) / width)) + 2 + 2 * _CELLS_PER_STEP
        z = z_min - step + width * np.arange(n_nodes)
        self.node_log_q = log_others + log_ndtr(z)
        clamped = log_others + log_ndtr(np.maximum(z, z_min))
        costs = rdp_from_log_q(np.minimum(clamped, modal), sigma, [order], bound)[:, 0]
        reached = costs[_CELLS_PER_STEP + 1 :]
        # Each cost is known to within the tolerance: a jump must not be missed for rounding.
        jumps = reached - costs[: -_CELLS_PER_STEP - 1] + 2 * TOLERANCE * reached
        self.largest = float(jumps.max())
        self.maxima = _range_maxima(jumps)

    def within(self, least_log_q: Floats, largest_log_q: Floats) -> Floats:
        """Largest jump from one step below the least q up to the largest q, for each query."""
        last = self.maxima.shape[1] - 1
        low = np.searchsorted(self.node_log_q, least_log_q, side="right") - 1 - _CELLS_PER_STEP
        high = np.searchsorted(self.node_log_q, largest_log_q, side="right") - 1
        low = np.clip(low - 1, 0, last)  # one cell more on each side, against rounding
        high = np.clip(high + 1, 0, last)
        return _largest_between(self.maxima, low, high)


def _range_maxima(values: Floats) -> Floats:
    """Sparse table: row k holds maxima over 2^k consecutive values."""
    rows = [values]
    while (half := 1 << (len(rows) - 1)) * 2 <= values.size:
        last = rows[-1]
        longer = last.copy()
        longer[:-half] = np.maximum(last[:-half], last[half:])
        rows.append(longer)
    return np.stack(rows)


def _largest_between(maxima: Floats, low: Integers, high: Integers) -> Floats:
    """Maximum of the table's values from index low to index high, both included."""
    level = np.floor(np.log2(high - low + 1)).astype(np.int64)
    return np.asarray(np.maximum(maxima[level, low], maxima[level, high - (1 << level) + 1]))


def threshold_smooth_sensitivity(
    top_votes: ArrayLike,
    threshold: float,
    sigma: float,
    order: float,
    beta: float,
    lowest: int,
    highest: int,
    weights: ArrayLike | None = None,
) -> float:
    """beta-smooth bound for the summed data-dependent cost of the checks. Secret.

    E(d) = max over |t' - t| <= d of the cost's change to a neighbour; "at most d", not "exactly
    d" as in the public code, which is not smooth. Pricing the checks data-independently costs 0.

    Parameters
    ----------
    top_votes : array of shape (queries,), the statistic of each query, secret
    threshold : float, which statistic plus noise must reach
    sigma : float, noise deviation of the check
    order : float > 1, Renyi order chosen without the data
    beta : float, the bound grows by at most e^beta from one histogram to a neighbour
    lowest, highest : int, public range of the statistic, both ends included
    weights : array of shape (queries,), optional, as in `gnmax_smooth_sensitivity`

    Returns
    -------
    float, secret

    Examples
    --------
    >>> threshold_smooth_sensitivity([180], 200, 150, 14, 0.03, 25, 250) > 0
    True
    """
    beta = positive(beta=beta)
    tops = np.atleast_1d(np.asarray(top_votes))
    order = renyi_order(order=order)
    threshold_rdp(tops, threshold, sigma, [order], lowest=lowest, highest=highest)  # validates
    ladder = np.arange(int(lowest), int(highest) + 1)
    costs = threshold_rdp(ladder, threshold, sigma, [order], lowest=lowest, highest=highest)[:, 0]
    steps = np.abs(np.diff(costs))
    change = np.maximum(np.append(steps, 0.0), np.insert(steps, 0, 0.0))
    rungs, shares = tops.astype(np.int64) - int(lowest), checked_weights(weights, tops.size)
    mass = np.bincount(rungs, weights=shares, minlength=ladder.size).astype(np.float64)
    maxima, rung = _range_maxima(change), np.arange(ladder.size)

    def within(distance: int) -> float:
        low, high = np.maximum(rung - distance, 0), np.minimum(rung + distance, rung[-1])
        return float(mass @ _largest_between(maxima, low, high))

    everywhere = float(change.max()) * float(mass.sum())
    return discounted_maximum(within, everywhere, ladder.size - 1, beta)


class _LocalSensitivity:
    """LS(q) of one GNMax query's cost, with its plateau between q1 and q0."""

    def __init__(self, sigma: float, order: float, m: int, bound: str) -> None:
        if bound != "theorem6":
            raise InvalidArgument(
                f'Expected bound={bound!r} to be "theorem6" with algorithm="paper"; '
                'use algorithm="window" for the tight bound.'
            )
        self.sigma, self.order, self.bound = sigma, order, bound
        self.log_others, self.step = math.log(m - 1), math.sqrt(2) / sigma
        self.log_q0 = theorem6_log_q0(sigma, order)
        self.log_q1 = float(self.moved(np.array([self.log_q0]), -1)[0])
        top = order / sigma**2
        self.plateau = top - float(self.cost(np.array([self.log_q1]))[0])

    def moved(self, log_q: Floats, direction: int) -> Floats:
        """Prop. 21: the largest (+1) or smallest (-1) log q of a neighbour."""
        z = ndtri_exp(np.minimum(log_q - self.log_others, 0.0))
        return np.minimum(self.log_others + log_ndtr(z + direction * self.step), 0.0)

    def cost(self, log_q: Floats) -> Floats:
        return rdp_from_log_q(np.minimum(log_q, 0.0), self.sigma, [self.order], self.bound)[:, 0]

    def __call__(self, log_q: Floats) -> Floats:
        here = self.cost(log_q)
        up, down = self.cost(self.moved(log_q, 1)) - here, here - self.cost(self.moved(log_q, -1))
        flat = (log_q >= self.log_q1) & (log_q <= self.log_q0)
        return np.where(flat, self.plateau, np.maximum(up, down))

    def check_c6(self, lowest: float) -> None:
        """Refuse unless LS rises up to q1 and falls from q0 on, on a fine grid."""
        below = self(np.linspace(min(lowest, self.log_q1 - 1), self.log_q1, 2000, endpoint=False))
        above = self(np.linspace(self.log_q0, min(self.log_others, 0.0), 2000)[1:])
        slack = _SLACK * self.plateau
        rises = (np.diff(below) >= -slack).all() and below.max() <= self.plateau + slack
        falls = (np.diff(above) <= slack).all() and above.max() <= self.plateau + slack
        if not (rises and falls):
            raise InvalidArgument(
                f"Expected order={self.order} to be well below sigma={self.sigma}: condition C6 of "
                'PATE 2018 fails, so its algorithm is unsound here; use algorithm="window".'
            )


def _paper_smooth_sensitivity(
    counts: Integers, sigma: float, order: float, beta: float, weights: Floats, bound: str
) -> float:
    """max_d e^(-beta d) sum_i w_i LS_i(d), LS_i(d) by AtDistance."""
    n_teachers, m = int(counts[0].sum()), counts.shape[1]
    local = _LocalSensitivity(sigma, order, m, bound)
    log_q_least = float(log_tail_sum(np.full((1, m - 1), n_teachers), sigma)[0])  # unanimous votes
    if log_q_least > local.log_q0:
        return 0.0  # the cost is a/sigma^2 for every histogram
    local.check_c6(log_q_least)
    reach = Reach(counts, sigma)
    log_q = reach.least_log_q(0)
    below, above = log_q < local.log_q1, log_q > local.log_q0

    def at_distance(d: int) -> float:
        rising = np.minimum(reach.largest_log_q(d), local.log_q0)  # it stops at the plateau
        falling = np.maximum(reach.least_log_q(d), local.log_q1)
        nearest = np.where(below, rising, np.where(above, falling, log_q))
        return float(weights @ local(nearest))

    return discounted_maximum(at_distance, local.plateau * float(weights.sum()), n_teachers, beta)


class Reach:
    """The extreme values of log q within distance d of each histogram."""

    def __init__(self, counts: Integers, sigma: float) -> None:
        step = max(1, _COUNTS_AT_ONCE // counts.shape[1])
        starts = range(0, len(counts), step)
        self.blocks = [_Block(counts[start : start + step], sigma) for start in starts]

    def least_log_q(self, distance: int) -> Floats:
        """Least log q at a distance: votes go to the first class from the then largest other."""
        return np.concatenate([block.least_log_q(distance) for block in self.blocks])

    def largest_log_q(self, distance: int) -> Floats:
        """Largest log q at a distance: votes move from first to second; inf once these swap."""
        return np.concatenate([block.largest_log_q(distance) for block in self.blocks])


class _Block:
    """Some of the histograms; classes without votes in all of them are a number, not columns."""

    def __init__(self, counts: Integers, sigma: float) -> None:
        ordered = -np.sort(-counts, axis=1)
        width = max(2, int((ordered > 0).sum(axis=1).max()))
        self.sigma, self.absent = sigma, counts.shape[1] - width
        self.first = ordered[:, 0]
        self.others = np.ascontiguousarray(ordered[:, 1:width])
        # Column k - 1: votes to take until the k largest others are level with the one after them.
        self.taken = self.others.cumsum(axis=1)
        self.elsewhere = self.taken[:, -1].copy()
        ranks = np.arange(1, width - 1)
        self.levelling = self.taken[:, :-1] - ranks * self.others[:, 1:]

    def least_log_q(self, distance: int) -> Floats:
        gathered = np.minimum(distance, self.elsewhere)
        k = 1 + (self.levelling <= gathered[:, None]).sum(axis=1)
        above = self.taken[np.arange(len(k)), k - 1] - gathered  # what those k keep together
        level = -(-above // k)
        whole = k - (level * k - above)  # so many of them stay at the level itself
        one_less = np.arange(self.others.shape[1]) >= whole[:, None]
        lowered = np.minimum(self.others, level[:, None] - one_less)
        return self._log_q(self.first + gathered, lowered)

    def largest_log_q(self, distance: int) -> Floats:
        first, others = self.first - distance, self.others.copy()
        others[:, 0] += distance
        overtaken = first < others[:, 0]
        first = np.where(overtaken, others[:, 0], first)  # any histogram: its result is not used
        return np.where(overtaken, math.inf, self._log_q(first, others))

    def _log_q(self, first: Integers, others: Integers) -> Floats:
        log_q = log_tail_sum(first[:, None] - others, self.sigma)
        if self.absent:
            tail = log_ndtr(-first / (math.sqrt(2) * self.sigma))
            log_q = np.logaddexp(log_q, math.log(self.absent) + tail)
        return log_q


def discounted_maximum(
    within: Callable[[int], float], everywhere: float, diameter: int, beta: float
) -> float:
    """Exactly max_d e^(-beta d) E(d) over 0 <= d <= diameter, for a nondecreasing E.

    E(diameter) = everywhere. Branch and bound: E is at most its value at the next known distance.
    """
    sums = {0: within(0), diameter: everywhere}
    best = max(math.exp(-beta * d) * total for d, total in sums.items())
    open_ = [(0, diameter)]
    while open_:
        low, high = open_.pop()
        if high - low < 2 or math.exp(-beta * (low + 1)) * sums[high] <= best:
            continue
        middle = (low + high) // 2
        sums[middle] = within(middle)
        best = max(best, math.exp(-beta * middle) * sums[middle])
        open_ += [(middle, high), (low, middle)]
    return best


def gnss_rdp(order: float, beta: float, sigma: float) -> float:
    """RDP of releasing f + SS * N(0, sigma^2), SS a beta-smooth sensitivity: the correct theorem.

        a/(2 sigma^2 v) - log(v)/(2(a-1)) - beta,  v = a - (a-1) e^(2 beta) > 0

    Theorem 23 of PATE 2018 drops a factor and is false for a*beta > 1/4, which is where the paper
    uses it (MNIST: .518 printed, 1.607 true).
    Source: docs/theory/smooth-sensitivity.md#one-noisy-number-gnss.

    Parameters
    ----------
    order : float > 1, Renyi order chosen without the data
    beta : float, the bound grows by at most e^beta from one histogram to a neighbour
    sigma : float, noise in units of the smooth sensitivity

    Returns
    -------
    float, public

    Examples
    --------
    >>> round(gnss_rdp(14, 0.0329, 6.23), 6)
    1.607056
    """
    a = renyi_order(order=order)
    beta, sigma = positive(beta=beta), positive(sigma=sigma)
    v = 1 - (a - 1) * math.expm1(min(2 * beta, 700.0))  # a - (a-1) e^(2 beta); 700: no overflow
    if v <= 0:
        limit = math.log(a / (a - 1)) / 2
        raise InvalidArgument(
            f"Expected beta={beta} to be below {limit:.4g} at order={a}: no bound holds; "
            f"try beta={0.2 / a:.4g}."
        )
    return a / (2 * sigma**2 * v) - math.log(v) / (2 * (a - 1)) - beta


class SanitiseCost(NamedTuple):
    """Cost of the two-stage release, and the quantiles it publishes with.

    Parameters
    ----------
    rdp : float, at the one order fixed in advance
    mu_squared : float, of two Gaussian releases together
    delta : float, probability with which one of the two bounds may fail
    value_quantile, scale_quantile : float
        Noise deviations added to the released cost, and to the released log-scale.
    """

    rdp: float
    """order * mu_squared / 2, at the one order fixed in advance."""
    mu_squared: float
    """beta^2/sigma_log^2 + 1/sigma^2: two Gaussian releases."""
    delta: float
    """delta_value + delta_scale: with this probability one of the two bounds may fail."""
    value_quantile: float
    """z(delta_value): how many noise deviations are added to the released cost."""
    scale_quantile: float
    """z(delta_scale): how many are added to the released log-scale."""


def sanitise_cost(
    order: float,
    beta: float,
    sigma: float,
    sigma_log: float,
    delta_value: float,
    delta_scale: float,
) -> SanitiseCost:
    """Cost of releasing first the smooth sensitivity, then the data-dependent cost.

    (1) log max(SS, s_min) + N(0, sigma_log^2): log SS is beta-Lipschitz, mu^2 = beta^2/sigma_log^2.
    (2) f + SS_upper * sigma * N(0, 1): the shift is at most SS_upper unless (1) failed, which has
        probability at most delta_scale; mu^2 = 1/sigma^2.

    Unit: one teacher. Source: docs/theory/smooth-sensitivity.md#two-stages-sanitise.

    Parameters
    ----------
    order : float > 1, Renyi order chosen without the data
    beta : float, the bound grows by at most e^beta from one histogram to a neighbour
    sigma : float
        Noise of the released cost, in units of the upper bound on the smooth sensitivity.
    sigma_log : float, noise deviation on the logarithm of the smooth sensitivity
    delta_value, delta_scale : float
        Probabilities with which the bound on the cost, and that on the scale, may fail.

    Returns
    -------
    SanitiseCost, public

    Examples
    --------
    >>> round(sanitise_cost(14, 0.02, 6.0, 0.2, 2.5e-6, 2.5e-6).mu_squared, 6)
    0.037778
    """
    a = renyi_order(order=order)
    d_value, d_scale = probability(delta_value=delta_value), probability(delta_scale=delta_scale)
    if d_value + d_scale >= 1:
        raise InvalidArgument(
            f"Expected delta_value={delta_value} + delta_scale={delta_scale} to be below 1."
        )
    beta, sigma_log = positive(beta=beta), positive(sigma_log=sigma_log)
    mu_squared = (beta / sigma_log) ** 2 + 1 / positive(sigma=sigma) ** 2
    return SanitiseCost(
        rdp=a * mu_squared / 2,
        mu_squared=mu_squared,
        delta=d_value + d_scale,
        value_quantile=-float(ndtri(d_value)),
        scale_quantile=-float(ndtri(d_scale)),
    )
