"""By what methods are compared: right labels, or what a rare outcome needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument

SCORES = {
    "accuracy": "held-out accuracy",
    "balanced": "balanced accuracy on held-out rows",
    "auc": "area under the ROC curve on held-out rows",
}
"""What a comparison may go by, and how a table is headed."""


def score_of(by: str, model: Any, inputs: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return one score of a fitted model on labelled rows; a model that cannot have it raises."""
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
    right = np.asarray(model.predict(inputs)) == truth
    if by == "balanced":
        return float(np.mean([right[truth == label].mean() for label in np.unique(truth)]))
    return float(np.mean(right))


def rows_behind(by: str, truth: NDArray[Any], rows: int) -> int:
    """Return on how many rows a score's error of sampling rests: twice the rarest class's."""
    if by == "accuracy":
        return rows
    _, counts = np.unique(truth, return_counts=True)
    return max(1, round(2 * rows * float(counts.min() / counts.sum())))
