"""How wide the bands would be, from declared numbers alone, before anything is paid for.

Assumed: scores normal in each of two classes, with a given area under the ROC curve; normal targets
and residuals; Dice scores of a given mean and deviation. The expected table is read as a released
one would be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit._checks import at_least, probability, refuse
from tacit.evaluate.binary import BinaryTable, Told, bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.design import noise_for
from tacit.evaluate.dice import columns_of, said_of_masks, score_names
from tacit.evaluate.evaluation import NAMES, Evaluation
from tacit.evaluate.numbers import MOMENTS, RESIDUAL_BINS, said_of_number
from tacit.ledger import Budget
from tacit.mechanisms import NoisySum, Plan, ScoreHistogram

TYPICAL_AUC = 0.85
TYPICAL_R_SQUARED = 0.7
TYPICAL_SPREAD = 0.4
"""Deviation of a target in half of its declared range."""
TYPICAL_DICE = (0.85, 0.1)
"""Mean and deviation over scans."""
_POINTS = 4000


class Forecast(NamedTuple):
    """The expected result of an evaluation.

    Parameters
    ----------
    plan : Plan, what would be paid for
    half_widths : dict of str to float
        Half of the 95 % band of each figure, by readable name; NaN where it is refused.
    """

    plan: Plan
    half_widths: dict[str, float]


def forecast(n_records: int, share: float, budget: Budget, *, auc: float = TYPICAL_AUC) -> Forecast:
    """Forecast an evaluation of two classes.

    Parameters
    ----------
    n_records : int, how many records, or people, will be held out
    share : float, of positives among them, as publicly known
    budget : Budget, cost of the evaluation alone
    auc : float, the assumed area under the ROC curve

    Returns
    -------
    Forecast

    Examples
    --------
    >>> from tacit import Budget
    >>> seen = forecast(10_000, 0.3, Budget(0.5, 1e-5))
    >>> round(seen.half_widths["area under the ROC curve"], 3)
    0.012
    """
    from scipy.special import ndtri

    size, positives = at_least(2, n_records=n_records), probability(share=share)
    if not 0.5 < auc < 1:
        raise refuse("auc", auc, "above 0.5 and below 1")
    sigma = noise_for(budget, lambda noise: ScoreHistogram(noise, 2, 2))
    apart = np.sqrt(2) * ndtri(auc)
    normal = _normal()
    odds = np.log(positives / (1 - positives))
    scores = [1 / (1 + np.exp(-(odds + apart * (z - apart / 2)))) for z in (normal, normal + apart)]
    mixed = np.concatenate([scores[0][:: _thin(1 - positives)], scores[1][:: _thin(positives)]])
    bins = ScoreBins.of(mixed, bins_for(size, positives, sigma), thresholds=[0.5])
    cells = [
        np.bincount(np.searchsorted(bins.edges, each, side="right"), minlength=bins.count)
        for each in scores
    ]
    table = np.stack([(1 - positives) * cells[0], positives * cells[1]]) * (size / _POINTS)
    told = BinaryTable(table, sigma, bins, Told.at(size, positives, sigma, bins)).figures()
    made = Plan(ScoreHistogram(sigma, 2, bins.count), 1)
    return Forecast(made, _half_widths(told, bins))


def _thin(share: float) -> int:
    """Return the step n so that every n-th point stands for a class of this share."""
    return max(1, round(0.5 / share))


def _half_widths(told: dict[str, Any], bins: ScoreBins) -> dict[str, float]:
    edge = int(np.abs(bins.edges - 0.5).argmin())
    here = {f"{NAMES[name]} at 0.5": band for name, band in told["thresholds"][edge].items()}
    named = {NAMES[name]: told.get(name) for name in ("auc", "average_precision", "brier", "share")}
    return {
        name: float("nan") if band is None else float(band.high - band.low) / 2
        for name, band in (named | here).items()
    }


def forecast_numbers(
    n_records: int, budget: Budget, *, r_squared: float = TYPICAL_R_SQUARED
) -> Forecast:
    """Forecast an evaluation of numbers.

    Parameters
    ----------
    n_records : int, how many records, or people, will be held out
    budget : Budget, cost of the evaluation alone
    r_squared : float, assumed; targets have a deviation of 0.4 of half of their range

    Returns
    -------
    Forecast, the mean absolute error's width is in halves of the target's range

    Examples
    --------
    >>> from tacit import Budget
    >>> seen = forecast_numbers(10_000, Budget(1.0, 1e-5))
    >>> round(seen.half_widths["R^2"], 3)
    0.048
    """
    size = at_least(2, n_records=n_records)
    if not 0 <= r_squared < 1:
        raise refuse("r_squared", r_squared, "from 0 to below 1")
    columns = MOMENTS + RESIDUAL_BINS
    sigma = noise_for(budget, lambda noise: NoisySum(noise, 1, columns))
    z = _normal()
    residual = TYPICAL_SPREAD * np.sqrt(1 - r_squared)
    told = TYPICAL_SPREAD * np.sqrt(r_squared)
    sums = said_of_number(TYPICAL_SPREAD * z, residual * z / 2).mean(axis=0) * size
    numbers = {"scale": [1.0, 2.0], "predicted": [told**2, 3 * told**4]}
    return _seen("numbers", sums, sigma, size, numbers=numbers)


def forecast_masks(n_records: int, budget: Budget, *, n_classes: int = 2) -> Forecast:
    """Forecast an evaluation of masks, for Dice scores of mean 0.85 and deviation 0.1.

    Parameters
    ----------
    n_records : int, how many scans, or people, will be held out; all with something to find
    budget : Budget, cost of the evaluation alone
    n_classes : int, background included

    Returns
    -------
    Forecast

    Examples
    --------
    >>> from tacit import Budget
    >>> seen = forecast_masks(500, Budget(1.0, 1e-5))
    >>> round(seen.half_widths["mean Dice of all that is not background"], 3)
    0.027
    """
    size, number = at_least(2, n_records=n_records), at_least(2, n_classes=n_classes)
    names = score_names([f"class {place}" for place in range(number)])
    columns = columns_of(len(names))
    sigma = noise_for(budget, lambda noise: NoisySum(noise, 1, columns))
    mean, spread = TYPICAL_DICE
    dice = np.repeat([[mean - spread], [mean + spread]], len(names), axis=1)
    there = np.ones(dice.shape, dtype=bool)
    sums = said_of_masks(dice, there, there[:, 0]).mean(axis=0) * size
    return _seen("masks", sums, sigma, size, numbers={"scores": names}, shares=[1.0])


def _normal() -> Any:
    from scipy.special import ndtri

    return ndtri((np.arange(_POINTS) + 0.5) / _POINTS)


def _seen(kind: str, sums: Any, sigma: float, size: int, **about: Any) -> Forecast:
    """Read the expected sums as released ones would be."""
    found = Evaluation(kind, {"sums": sums}, sigma, size, **about)
    widths = {name: float(band.high - band.low) / 2 for name, band in found.rows()}
    widths |= dict.fromkeys(found.refused(), float("nan"))
    return Forecast(Plan(NoisySum(sigma, 1, len(sums)), 1), widths)
