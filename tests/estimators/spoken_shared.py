"""Small problems for the estimators whose records speak once."""

from __future__ import annotations

from typing import Any

import numpy as np
from knn_shared import blobs

from tacit import InsecureNoise, MomentClassifier, PrototypeClassifier, ResidualRidgeClassifier

OWN: dict[type, dict[str, Any]] = {
    PrototypeClassifier: {"n_prototypes": 12, "votes": 2},
    MomentClassifier: {},
    ResidualRidgeClassifier: {"n_landmarks": 20},
}
KINDS = list(OWN)
NAMES = ["prototypes", "moments", "ridge"]


def make(kind: type, **changes: Any) -> Any:
    """Return an unfitted estimator of this kind for three clouds of points."""
    settings: dict[str, Any] = {
        "epsilon": 2.0,
        "classes": (0, 1, 2),
        "random_state": 0,
        "noise": InsecureNoise(0),
        **OWN[kind],
    }
    return kind(**{**settings, **changes})


def tables_of(model: Any) -> list[np.ndarray]:
    """Everything that a fitted model released."""
    releases = [model.table_] if hasattr(model, "table_") else model.releases_
    return [np.asarray(release.values) for release in releases]


__all__ = ["KINDS", "NAMES", "OWN", "blobs", "make", "tables_of"]
