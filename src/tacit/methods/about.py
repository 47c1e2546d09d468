"""A fitted estimator in words, for the top of its report."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import is_regressor

from tacit.report import Learned, listed


def learned_model(model: Any) -> Learned:
    """Describe a fitted model by what its user declared; nothing was measured."""
    name, about = type(model).__name__, inspect.getdoc(type(model)) or ""
    return Learned(
        predicts=_predicts(model), inputs=_inputs(model), method=f"{name}: {about.splitlines()[0]}"
    )


def _predicts(model: Any) -> str:
    classes = getattr(model, "classes_", None)
    if classes is not None:
        return f"One of {len(classes)} classes: {listed(classes)}."
    if is_regressor(model):
        return "A number."
    count = getattr(model, "n_classes", None)
    return "Several numbers." if count is None else f"A mask for each scan, with {count} classes."


def _inputs(model: Any) -> str:
    width, names = (getattr(model, key, None) for key in ("n_features_in_", "feature_names_in_"))
    if width is None:
        return "Scans."
    return f"Rows of {width} columns" + ("." if names is None else f": {listed(names)}.")
