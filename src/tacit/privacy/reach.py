"""How far q can move when d teachers change their vote (PATE 2018, Prop. 19).

Among all histograms at distance d, q is least when d votes are taken from the largest other classes
and given to the first, and largest when d votes move from the first class to the second. A smooth
sensitivity is a discounted maximum over all distances.
Proof: docs/theory/smooth-sensitivity.md#how-far-q-moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from tacit._checks import Floats, Integers
from tacit.privacy.noisy_max import log_tail_sum

_COUNTS_AT_ONCE = 1 << 17  # so that the temporaries stay in the processor's cache


class Reach:
    """The extreme values of log q within distance d of each histogram."""

    def __init__(self, counts: Integers, sigma: float) -> None:
        step = max(1, _COUNTS_AT_ONCE // counts.shape[1])
        starts = range(0, len(counts), step)
        self.blocks = [_Block(counts[start : start + step], sigma) for start in starts]

    def least_log_q(self, distance: int) -> Floats:
        """Log q after `distance` votes, each from the then largest other class, went to the first.

        That lowers the k largest others to one level, or one below it where the votes run out.
        """
        return np.concatenate([block.least_log_q(distance) for block in self.blocks])

    def largest_log_q(self, distance: int) -> Floats:
        """Log q after `distance` votes moved from first to second; inf once those change places."""
        return np.concatenate([block.largest_log_q(distance) for block in self.blocks])


class _Block:
    """Some of the histograms; classes that none of them votes for are a number, not columns."""

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

    E(diameter) = everywhere. Between two known distances E is at most the latter's: an interval
    is halved only while that leaves it a chance, so most distances are never visited.
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
