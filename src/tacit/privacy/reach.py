"""How far q can move when d teachers change their vote (PATE 2018, Prop. 19; SPEC-pate-knn 4.2).

Among all histograms at distance d, q is least when d votes are taken from the largest other classes
and given to the first, and largest when d votes move from the first class to the second.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from tacit._checks import Floats, Integers
from tacit.privacy.noisy_max import union_log_q


class Reach:
    """The extreme values of log q at distance d from each histogram, for d = 0, 1, 2, ... in turn.

    Classes that nobody votes for anywhere are kept as a number, not as columns.
    """

    def __init__(self, counts: Integers, sigma: float) -> None:
        self.sigma, self.n_teachers, self.distance = sigma, int(counts[0].sum()), 0
        ordered = np.sort(counts, axis=1)[:, ::-1]
        width = max(2, int((ordered > 0).sum(axis=1).max()))
        self.absent = counts.shape[1] - width
        self.counts = np.ascontiguousarray(ordered[:, :width])
        self.gathered = self.counts.copy()

    def one_further(self) -> None:
        """Go from distance d to d + 1."""
        self.distance += 1
        donor = 1 + self.gathered[:, 1:].argmax(axis=1)
        rows = np.nonzero(self.gathered[np.arange(len(donor)), donor] > 0)[0]
        self.gathered[rows, donor[rows]] -= 1
        self.gathered[rows, 0] += 1

    def least_log_q(self) -> Floats:
        """Log q of the histogram with d votes gathered in the first class."""
        return self._log_q(self.gathered)

    def largest_log_q(self) -> Floats:
        """Log q with d votes moved from first to second; 0 once the second overtakes the first."""
        overtaken = self.counts[:, 0] - self.distance < self.counts[:, 1] + self.distance
        moved = self.counts.copy()
        moved[:, 0] -= self.distance
        moved[:, 1] += self.distance
        moved[overtaken] = self.counts[overtaken]  # any histogram: the result is replaced below
        return np.where(overtaken, math.inf, self._log_q(moved))

    def exhausted(self) -> NDArray[np.bool_]:
        """Whether all votes have been gathered in the first class."""
        return np.asarray(self.gathered[:, 0] == self.n_teachers)

    def _log_q(self, counts: Integers) -> Floats:
        log_q = union_log_q(counts, self.sigma)
        if self.absent:
            tail = log_ndtr(-counts[:, 0] / (math.sqrt(2) * self.sigma))
            log_q = np.logaddexp(log_q, math.log(self.absent) + tail)
        return log_q
