"""One outcome, yes or no: every figure of a noisy table of scores, each with its band.

`Told` decides which figures are released, from a declared number of records and share, never from
the table: a refusal by noisy counts would select tables with large noise, and the other bands would
not cover (docs/theory/evaluation.md#why-not-refuse-on-noisy-counts).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats
from tacit.evaluate.bands import (
    ANYWHERE,
    UNIT,
    Band,
    auc_band,
    average_precision_band,
    fitted_slope,
    mean_band,
    share_band,
    tie_chances,
)
from tacit.evaluate.bins import ScoreBins

CLEAR = 4.5
"""A sum of counts is used only if it is expected to be so many deviations of its noise."""
BINS = {0.0: 12, 100.0: 24, 1000.0: 48}
"""Number of bins, by the least signal-to-noise ratio of the rarer outcome: finer bins have more
noise and fewer ties."""


def bins_for(n_records: int, share: float, sigma: float) -> int:
    """Return how many bins a table should have: few under much noise.

    Parameters
    ----------
    n_records : int, as declared
    share : float, of positives, as declared
    sigma : float, deviation of the noise on one cell

    Returns
    -------
    int, 12, 24 or 48

    Examples
    --------
    >>> bins_for(2000, 0.3, 3.7), bins_for(50_000, 0.3, 3.7)
    (12, 48)
    """
    clear = n_records * min(share, 1 - share) / (sigma * math.sqrt(BINS[0.0]))
    return max(bins for least, bins in BINS.items() if clear >= least)


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Which figures a table gives, decided from declared numbers and public scores.

    Parameters
    ----------
    ranking : bool, whether positives and negatives are both clear: ROC, area, recall at thresholds
    precision : array of bool of shape (bins - 1,), edges with enough expected records above
    average_precision : bool, whether positives are clear, and precision somewhere
    groups : list of slice, bins merged in the calibration curve, so that each group is clear
    overall : bool, whether the number of records itself is clear: accuracy, share, Brier score
    """

    ranking: bool
    precision: NDArray[np.bool_]
    average_precision: bool
    groups: list[slice]
    overall: bool

    @classmethod
    def at(cls, n_records: int, share: float, sigma: float, bins: ScoreBins) -> Told:
        """Decide from public numbers alone.

        Parameters
        ----------
        n_records : int, as declared
        share : float, of positives, as declared
        sigma : float, deviation of the noise on one cell
        bins : ScoreBins, from public scores

        Returns
        -------
        Told
        """
        rarer = n_records * min(share, 1 - share) / (sigma * math.sqrt(bins.count))
        above = np.cumsum(bins.mass[::-1])[::-1][1:]
        cells = 2 * np.arange(bins.count - 1, 0, -1)
        precision = n_records * above / (sigma * np.sqrt(cells)) >= CLEAR
        ranking = rarer >= CLEAR
        overall = n_records / (sigma * math.sqrt(2 * bins.count)) >= CLEAR
        groups = _groups(n_records * bins.mass / (sigma * math.sqrt(2)))
        return cls(ranking, precision, bool(ranking and precision.any()), groups, overall)


def _groups(clear: Floats) -> list[slice]:
    """Merge neighbouring bins until each group is clear, from the bottom."""
    groups, start = [], 0
    for end in range(1, len(clear) + 1):
        if clear[start:end].sum() / math.sqrt(end - start) >= CLEAR:
            groups.append(slice(start, end))
            start = end
    if start and start < len(
        clear
    ):  # what is left joins the last group, as far as that stays clear
        last = slice(groups[-1].start, len(clear))
        if clear[last].sum() / math.sqrt(last.stop - last.start) >= CLEAR:
            groups[-1] = last
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class BinaryTable:
    """A noisy table of negatives and positives by score, and the figures that it gives.

    Parameters
    ----------
    table : array of shape (..., 2, bins), noisy counts; any number of tables at once
    sigma : float, deviation of the noise on one cell
    bins : ScoreBins, from public scores
    told : Told, which figures may be read
    """

    table: Floats
    sigma: float
    bins: ScoreBins
    told: Told

    def share(self) -> Band:
        """Return the share of positives.

        Returns
        -------
        Band
        """
        negatives, positives = self.table.sum(-1)[..., 0], self.table.sum(-1)[..., 1]
        return share_band(positives, negatives, (self.bins.count,) * 2, self.sigma)

    def auc(self) -> Band:
        """Return the area under the ROC curve.

        Returns
        -------
        Band
        """
        slope, deviation = fitted_slope(self.table, self.sigma, self.bins.logits)
        gini = self.bins.gini
        spread = tie_chances(deviation, gini) - 0.5
        return auc_band(self.table, self.sigma, tie_chances(slope, gini), spread)

    def average_precision(self) -> Band:
        """Return average precision of scores rounded to the thresholds that have precision.

        Returns
        -------
        Band
        """
        top = int(np.flatnonzero(self.told.precision).max()) + 1
        merged = [self.table[..., :top], self.table[..., top:].sum(-1, keepdims=True)]
        last = self.sigma * math.sqrt(self.bins.count - top)
        deviations = np.append(np.full(top, self.sigma), last)
        return average_precision_band(np.concatenate(merged, axis=-1), deviations)

    def brier(self) -> Band:
        """Return the Brier score, of scores rounded to the public mean of their bin.

        Returns
        -------
        Band
        """
        score = self.bins.mean
        return mean_band(np.stack([score**2, (1 - score) ** 2]), self.table, self.sigma)

    def counts_at(self, edge: int) -> dict[str, tuple[Floats, int]]:
        """Return the four counts of the confusion matrix at an edge, and the cells of each.

        Parameters
        ----------
        edge : int, index: scores from `bins.edges[edge]` on are predicted positive

        Returns
        -------
        dict of str to tuple, noisy count and number of cells, by "tn", "fn", "fp", "tp"
        """
        below, above = self.table[..., : edge + 1].sum(-1), self.table[..., edge + 1 :].sum(-1)
        few, many = edge + 1, self.bins.count - edge - 1
        return {
            "tn": (below[..., 0], few),
            "fn": (below[..., 1], few),
            "fp": (above[..., 0], many),
            "tp": (above[..., 1], many),
        }

    def ratio_at(self, edge: int, part: tuple[str, ...], rest: tuple[str, ...]) -> Band:
        """Return part/(part + rest) of the confusion matrix at an edge.

        Parameters
        ----------
        edge : int, index
        part, rest : tuple of str, names of counts

        Returns
        -------
        Band
        """
        return self._ratio_at(edge, part, rest, UNIT)

    def _ratio_at(
        self, edge: int, part: tuple[str, ...], rest: tuple[str, ...], ends: tuple[float, float]
    ) -> Band:
        counts = self.counts_at(edge)
        first, second = (
            np.asarray(sum(counts[name][0] for name in names)) for names in (part, rest)
        )
        cells = (sum(counts[name][1] for name in part), sum(counts[name][1] for name in rest))
        return share_band(first, second, cells, self.sigma, ends)

    def at(self, edge: int) -> dict[str, Band]:
        """Return recall, specificity, precision, accuracy and balanced accuracy at an edge.

        Parameters
        ----------
        edge : int, index: scores from `bins.edges[edge]` on are predicted positive

        Returns
        -------
        dict of str to Band, by name, without what may not be read
        """
        told: dict[str, Band] = {}
        if self.told.ranking:
            pairs = {"recall": (("tp",), ("fn",)), "specificity": (("tn",), ("fp",))}
            told = {name: self.ratio_at(edge, *pair) for name, pair in pairs.items()}
            # Of values that are not yet held to [0, 1]: that would shorten one side.
            halves = [self._ratio_at(edge, *pair, ANYWHERE) for pair in pairs.values()]
            told["balanced_accuracy"] = _mean_of(*halves)
        if self.told.precision[edge]:
            told["precision"] = self.ratio_at(edge, ("tp",), ("fp",))
        if self.told.overall:
            told["accuracy"] = self.ratio_at(edge, ("tp", "tn"), ("fp", "fn"))
        return told

    def calibration(self) -> list[tuple[Floats, Band]]:
        """Return mean score and share of positives in each group of bins, rising.

        Returns
        -------
        list of (float, Band)
        """
        curve = []
        for group in self.told.groups:
            mass = np.maximum(self.bins.mass[group], 1e-12)
            score = (mass * self.bins.mean[group]).sum() / mass.sum()
            counts = self.table[..., group].sum(-1)
            cells = (group.stop - group.start,) * 2
            curve.append((score, share_band(counts[..., 1], counts[..., 0], cells, self.sigma)))
        return curve

    def figures(self) -> dict[str, Any]:
        """Return all figures that may be read.

        Returns
        -------
        dict, `Band`s by name; "thresholds" has a dict for each edge, "calibration" pairs
        """
        told: dict[str, Any] = {}
        if self.told.overall:
            told |= {"share": self.share(), "brier": self.brier()}
        if self.told.ranking:
            told["auc"] = self.auc()
        if self.told.average_precision:
            told["average_precision"] = self.average_precision()
        told["thresholds"] = [self.at(edge) for edge in range(self.bins.count - 1)]
        told["calibration"] = self.calibration()
        return told


def _mean_of(first: Band, second: Band) -> Band:
    """Return the mean of two independent figures; distances to the ends add in squares."""
    value = (first.value + second.value) / 2
    low = value - np.hypot(first.value - first.low, second.value - second.low) / 2
    high = value + np.hypot(first.high - first.value, second.high - second.value) / 2
    return Band(*(np.clip(end, 0.0, 1.0) for end in (value, low, high)))
