"""What the tests of comparisons share: two clouds, a model that takes notes, a finished cell."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from tacit.comparing.cells import OK, Cell, Outcome
from tacit.datasets import Dataset
from tacit.errors import InvalidArgument

CELL = Cell("pate", 0.5, 1e-5, 0, "task", "settings")
DONE = Outcome(OK, accuracy=0.9, spent=0.5, cpu=1.0, wall=1.0, peak_mib=100.0, baseline_mib=90.0)


def blobs(rows: int = 400, n_train: int | None = None) -> Dataset:
    """Two clouds, the classes; the third feature is the row's number."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=rows)
    X = np.column_stack([rng.normal(size=(rows, 2)) + 4 * y[:, None], np.arange(rows)])
    return Dataset(X, y, ("no", "yes"), "blobs", n_train=n_train)


class Stub(ClassifierMixin, BaseEstimator):
    """An estimator that counts its fits and notes the rows that it was given."""

    def __init__(self, folder: str = "", trouble: str = "", epsilon: float = 0.0) -> None:
        self.folder = folder
        self.trouble = trouble
        self.epsilon = epsilon

    def fit(self, X, y, X_public=None):
        note = {"private": X[:, 2].tolist(), "public": X_public[:, 2].tolist()}
        name = f"{self.epsilon:g}-{time.time_ns()}-{os.getpid()}.json"
        (Path(self.folder) / name).write_text(json.dumps(note))
        if self.trouble == "die":
            os.kill(os.getpid(), 9)
        if self.trouble == "raise":
            raise RuntimeError("no luck\nat all")
        if self.trouble == "refuse":
            raise InvalidArgument("Expected something else.")
        if self.trouble == "sleep":
            time.sleep(60)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.where(X[:, 0] > 2, "yes", "no")


def fits(folder: Path) -> list[dict[str, list[float]]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
