"""Small private tables in shards, and a small torch recipe, for the tests of teachers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.teachers import predict_with_teachers


@dataclass(frozen=True)
class Table:
    """Private records in shards, and public queries."""

    X: np.ndarray
    y: np.ndarray
    shards: np.ndarray
    n_teachers: int
    X_query: np.ndarray
    n_classes: int = 3

    def predict(self, teacher: Any, **options: Any) -> np.ndarray:
        return predict_with_teachers(
            teacher,
            self.X,
            self.y,
            self.shards,
            self.n_teachers,
            self.X_query,
            n_classes=self.n_classes,
            **options,
        )


def make_table(n_records: int = 360, n_teachers: int = 12, seed: int = 0) -> Table:
    """Three overlapping classes; teacher 5 has no record, teacher 7 has one class."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n_records)
    X = random.normal(size=(n_records, 16)).astype(np.float32) + 0.8 * y[:, None]
    shards = random.integers(0, n_teachers, n_records)
    shards[shards == 5] = 6
    y[shards == 7] = 2
    return Table(X, y, shards, n_teachers, random.normal(1.0, 2.0, (50, 16)).astype(np.float32))


def module() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )


def jitter(batch: Any, generator: Any) -> Any:
    import torch

    return batch + 0.1 * torch.randn(batch.shape, generator=generator)
