"""Scores to compare by: accuracy, balanced accuracy and AUC for rare classes, or R^2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument

SCORES = {
    "accuracy": "held-out accuracy",
    "balanced": "balanced accuracy on held-out rows",
    "auc": "area under the ROC curve on held-out rows",
    "r2": "R^2 on held-out rows",
}
"""What a comparison may go by, and how a table is headed."""


def score_of(by: str, model: Any, inputs: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return one score of a fitted model on labelled rows, or raise."""
    if by == "auc":
        classes = np.unique(truth)
        if len(classes) != 2:
            raise InvalidArgument("Expected two classes among held-out rows to compare by auc.")
        chances = np.asarray(model.predict_proba(inputs))
        place = np.asarray(model.classes_).tolist().index(classes[1])
        yes, no = (chances[truth == label, place] for label in classes[::-1])
        lower = np.sort(no)
        ties = np.searchsorted(lower, yes, "left") + np.searchsorted(lower, yes, "right")
        return float(ties.mean() / 2 / len(no))
    if by == "r2":
        left = np.asarray(model.predict(inputs), dtype=np.float64) - truth
        return float(1 - np.mean(left**2) / np.var(truth))
    right = np.asarray(model.predict(inputs)) == truth
    if by == "balanced":
        return float(np.mean([right[truth == label].mean() for label in np.unique(truth)]))
    return float(np.mean(right))


def sampling_error(by: str, mean: float, rows: int) -> float:
    """Return the standard error of a score on so many rows.

    >>> round(sampling_error("accuracy", 0.9, 900), 3), round(sampling_error("r2", 0.5, 400), 3)
    (0.01, 0.035)
    """
    held = min(max(mean, 0.0), 1.0)
    if by == "r2":  # of normal residuals; at R^2 = 0 that of the mean's own error
        return max(2 * math.sqrt(held) * (1 - held), 1 / math.sqrt(rows)) / math.sqrt(rows)
    return math.sqrt(held * (1 - held) / rows)


def rows_behind(by: str, truth: NDArray[Any], rows: int) -> int:
    """Return the effective rows for a score's sampling error: twice the rarest class's."""
    if by in ("accuracy", "r2"):
        return rows
    _, counts = np.unique(truth, return_counts=True)
    return max(1, round(2 * rows * float(counts.min() / counts.sum())))
