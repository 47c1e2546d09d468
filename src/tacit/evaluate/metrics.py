"""Figures of a classifier on labelled rows that were declared public: no noise, the same bands.

Each figure has a 95 % band for sampling and, where there is one, the chance level: always the most
frequent label, or random scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, number_array
from tacit.errors import InvalidArgument
from tacit.evaluate.bands import Band, Z, average_precision_band, inverted, share_band
from tacit.evaluate.classes import ConfusionTable

_MOST_BINS = 512
_CALIBRATION_BINS = 15
_RESAMPLED = 200
_ONE_MORE = 0.25
"""Squared half: how far one more record may move a sum of ranks or of precisions."""


class Figure(NamedTuple):
    """One figure of a model.

    Parameters
    ----------
    band : Band, value and 95 % band
    chance : float or None, the chance level
    """

    band: Band
    chance: float | None = None

    def plain(self, digits: int | None = None) -> dict[str, float | None]:
        """Return it as plain data.

        Parameters
        ----------
        digits : int, optional
            To round to, for rows whose number is not released: all digits of a fraction would
            reveal its denominator, and so would the width of a band, which is left out.

        Returns
        -------
        dict, `value`, `low`, `high` and `chance`
        """
        ends = {name: float(end) for name, end in self.band._asdict().items()}
        if digits is None:
            return {**ends, "chance": self.chance}
        chance = None if self.chance is None else round(self.chance, digits)
        return {"value": round(ends["value"], digits), "chance": chance}


def measure(
    chances: ArrayLike, y: ArrayLike, *, thresholds: Mapping[str, float] | None = None
) -> dict[str, Figure]:
    """Return every figure of a classifier on labelled rows.

    Parameters
    ----------
    chances : array of shape (rows, classes), predicted probabilities
    y : array of int, of shape (rows,), the true classes
    thresholds : mapping of str to float, optional
        Of two classes: further thresholds at which recall and precision are computed, by name.

    Returns
    -------
    dict of str to Figure, by readable names

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> told = measure(np.column_stack([1 - p, p]), rng.uniform(size=500) < p)
    >>> round(float(told["ROC AUC"].band.value), 2), told["ROC AUC"].chance
    (0.84, 0.5)
    """
    said, truth = number_array(chances=chances), np.asarray(y).astype(np.int64)
    if said.ndim != 2 or len(said) != len(truth) or said.shape[1] < 2 or not len(truth):
        raise InvalidArgument("Expected chances (rows, classes) and a class for each row.")
    number = said.shape[1]
    counts = np.bincount(truth, minlength=number)
    table = confusion_shares(said, truth) * len(truth)
    confusion = ConfusionTable(table, 0.0, len(truth), counts / len(truth))
    told = {"accuracy": Figure(confusion.accuracy(), float(counts.max() / len(truth)))}
    if counts.all():
        told["balanced accuracy"] = Figure(confusion.balanced_accuracy(), 1 / number)
    if number == 2:
        told |= _of_two(said[:, 1], truth, {"0.5": 0.5, **(thresholds or {})})
    told["Brier score"] = _brier(said, truth, counts / len(truth))
    told["calibration error"] = Figure(calibration_error(said, truth))
    return told


def measure_numbers(said: ArrayLike, truth: ArrayLike) -> dict[str, Figure]:
    """Return R^2 and mean absolute error on rows that were declared public, bands of first order.

    Parameters
    ----------
    said, truth : array of shape (rows,), predicted and true

    Returns
    -------
    dict of str to Figure
    """
    found, known = number_array(said=said), number_array(truth=truth)
    if found.shape != known.shape or found.ndim != 1 or len(found) < 2:
        raise InvalidArgument("Expected two numbers or more, and as many said as true.")
    left, spread = (found - known) ** 2, (known - known.mean()) ** 2
    error = np.abs(found - known)
    half = Z * error.std() / np.sqrt(len(error))
    mean = Band(error.mean(), np.maximum(error.mean() - half, 0.0), error.mean() + half)
    alone = float(np.abs(known - known.mean()).mean())
    told = {"mean absolute error": Figure(mean, alone)}
    if spread.sum() > 0:
        ratio = left.sum() / spread.sum()
        around = Z * (left - ratio * spread).std() / (spread.mean() * np.sqrt(len(left)))
        value = np.asarray(1 - ratio)
        told = {"R^2": Figure(Band(value, value - around, np.minimum(value + around, 1.0)), 0.0)}
        told["mean absolute error"] = Figure(mean, alone)
    return told


def confusion_shares(chances: ArrayLike, y: ArrayLike) -> Floats:
    """Return the share of rows of each true class (rows) with each predicted label (columns).

    Parameters
    ----------
    chances : array of shape (rows, classes), predicted probabilities; the largest gives the label
    y : array of int, of shape (rows,), the true classes

    Returns
    -------
    array of shape (classes, classes), its sum is 1

    Examples
    --------
    >>> confusion_shares([[0.9, 0.1], [0.2, 0.8]], [0, 0]).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    said, truth = number_array(chances=chances), np.asarray(y).astype(np.int64)
    table = np.zeros((said.shape[1],) * 2)
    np.add.at(table, (truth, said.argmax(axis=1)), 1 / len(truth))
    return table


def _of_two(scores: Floats, truth: Integers, thresholds: Mapping[str, float]) -> dict[str, Figure]:
    told: dict[str, Figure] = {}
    share = float(truth.mean())
    if 0 < share < 1:
        told["ROC AUC"] = Figure(exact_auc(scores, truth), 0.5)
        told["average precision"] = Figure(_average_precision(scores, truth), share)
    for name, cut in thresholds.items():
        positive = scores >= cut
        cells = [float((positive & (truth == c)).sum()) for c in (0, 1)]
        missed = float((~positive & (truth == 1)).sum())
        where = f"at {name}" if name == f"{cut:g}" else f"at {name} ({cut:.3g})"
        if cells[1] + missed:
            band = share_band(np.asarray(cells[1]), np.asarray(missed), (1, 1), 0.0)
            told[f"recall {where}"] = Figure(band, float(positive.mean()))
        if sum(cells):
            band = share_band(np.asarray(cells[1]), np.asarray(cells[0]), (1, 1), 0.0)
            told[f"precision {where}"] = Figure(band, share)
    return told


def exact_auc(scores: Floats, truth: Integers) -> Band:
    """Return the area under the ROC curve of exact scores, ties counting half.

    DeLong's variance, with room for half a record of either class that is ranked otherwise.
    """
    no, yes = np.sort(scores[truth == 0]), np.sort(scores[truth == 1])

    def above(these: Floats, those: Floats) -> Floats:
        both = np.searchsorted(those, these, "left") + np.searchsorted(those, these, "right")
        return np.asarray(both / (2 * len(those)))

    of_yes, of_no = above(yes, no), above(no, yes)
    area = of_yes.mean()
    few = np.asarray(float(min(len(yes), len(no))))
    spread = of_yes.var() / len(yes) + of_no.var() / len(no)
    one_more = np.asarray(_ONE_MORE / len(yes) ** 2 + _ONE_MORE / len(no) ** 2)
    noise = [one_more, np.zeros(()), np.zeros(())]
    return inverted(np.asarray(area), np.ones(()), noise, np.asarray(spread), few, most=1 / few)


def _average_precision(scores: Floats, truth: Integers) -> Band:
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, _MOST_BINS)[1:-1], method="nearest"))
    place = np.searchsorted(edges, scores, side="right")
    table = np.stack([np.bincount(place[truth == c], minlength=len(edges) + 1) for c in (0, 1)])
    band = average_precision_band(table.astype(np.float64), np.zeros(len(edges) + 1))
    # The width by bins, around the value without them.
    value = np.asarray(_exact_average_precision(scores, truth))
    # No narrower than half of one more record of either class would make it.
    least = Z * np.sqrt(2 * _ONE_MORE) / truth.sum()
    below = np.maximum(band.value - band.low, least)
    above = np.maximum(band.high - band.value, least)
    return Band(*(np.clip(end, 0.0, 1.0) for end in (value, value - below, value + above)))


def _exact_average_precision(scores: Floats, truth: Integers) -> float:
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # of equal scores, all are taken at once
    true = np.cumsum(truth[order])[last]
    said = np.arange(1, len(scores) + 1)[last]
    return float((np.diff(true, prepend=0) * true / said).sum() / true[-1])


def _brier(said: Floats, truth: Integers, shares: Floats) -> Figure:
    """Return the mean squared error of all probabilities; of two classes, of the positive's."""
    classes = said.shape[1]
    errors = ((said - np.eye(classes)[truth]) ** 2).sum(axis=1)
    by_shares = 1 - float((shares**2).sum())
    if classes == 2:
        errors, by_shares = errors / 2, by_shares / 2
    half = Z * errors.std() / np.sqrt(len(errors))
    mean = errors.mean()
    return Figure(Band(mean, np.maximum(mean - half, 0.0), mean + half), by_shares)


def calibration_error(said: Floats, truth: Integers) -> Band:
    """Return the expected calibration error, in 15 bins of equal mass, equal scores in one.

    Of two classes the second counts, of more the likeliest. The band is rough: quantiles of 200
    resamplings, moved by twice the bias.
    """
    binary = said.shape[1] == 2
    score = said[:, 1] if binary else said.max(axis=1)
    hit = (truth == 1) if binary else (said.argmax(axis=1) == truth)
    rising = np.sort(score)
    # By the middle of a score's ranks: equal ones are in one bin, whatever the order of rows.
    ranks = np.searchsorted(rising, score, "left") + np.searchsorted(rising, score, "right") - 1
    place = ranks * _CALIBRATION_BINS // (2 * len(score))
    gaps = score - hit

    def error(weights: Floats) -> float:
        return float(np.abs(np.bincount(place, gaps * weights)).sum() / weights.sum())

    value = error(np.ones(len(score)))
    rng = np.random.default_rng(0)
    again = [
        error(rng.multinomial(len(score), np.full(len(score), 1 / len(score))).astype(float))
        for _ in range(_RESAMPLED)
    ]
    low, high = np.quantile(again, [0.025, 0.975]) - 2 * (np.mean(again) - value)
    return Band(np.asarray(value), np.clip(low, 0.0, value), np.maximum(high, value))
