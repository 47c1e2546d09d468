"""How wide the bands would be, before anything is kept apart or paid for.

From declared numbers alone: scores are taken to be normal in each class, with a given area under
the ROC curve, and the table that is expected then is read as a released one would be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit._checks import at_least, probability, refuse
from tacit.evaluate.binary import BinaryTable, Told, bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.evaluation import NAMES
from tacit.ledger import Budget
from tacit.mechanisms import Plan, ScoreHistogram
from tacit.methods import calibrate

TYPICAL_AUC = 0.85
_POINTS = 4000


class Forecast(NamedTuple):
    """What an evaluation would tell.

    Parameters
    ----------
    plan : Plan
        What would be paid for.
    half_widths : dict of str to float
        Half of the 95 % band of each figure, by the name that people read; NaN where it is refused.
    """

    plan: Plan
    half_widths: dict[str, float]


def forecast(n_records: int, share: float, budget: Budget, *, auc: float = TYPICAL_AUC) -> Forecast:
    """Return what an evaluation of two classes would tell, from declared numbers alone.

    Parameters
    ----------
    n_records : int
        How many records, or people, are to be kept apart.
    share : float
        Of positives among them, as far as it is known publicly.
    budget : Budget
        What the evaluation may cost by itself.
    auc : float
        The area under the ROC curve for which widths are told.

    Returns
    -------
    Forecast
        Plan and half-widths.

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
    (plan,) = calibrate(lambda sigma: [Plan(ScoreHistogram(sigma, 2, 2), 1)], budget)
    sigma = plan.mechanism.sigma  # type: ignore[attr-defined]
    apart = np.sqrt(2) * ndtri(auc)
    normal = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
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
    """Return which n-th of the points stand for a class of this share."""
    return max(1, round(0.5 / share))


def _half_widths(told: dict[str, Any], bins: ScoreBins) -> dict[str, float]:
    edge = int(np.abs(bins.edges - 0.5).argmin())
    here = {f"{NAMES[name]} at 0.5": band for name, band in told["thresholds"][edge].items()}
    named = {NAMES[name]: told.get(name) for name in ("auc", "average_precision", "brier", "share")}
    return {
        name: float("nan") if band is None else float(band.high - band.low) / 2
        for name, band in (named | here).items()
    }
