"""Small problems for the estimators on neighbours, and noise that shows what it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flat_settings import built
from numpy.typing import NDArray

from tacit import (
    InsecureNoise,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
)

Arrays = tuple[NDArray[np.float64], NDArray[Any]]


def blobs(n: int, seed: int = 0) -> Arrays:
    """Three clouds of points, whose classes neighbours know."""
    generator = np.random.default_rng(seed)
    y = generator.integers(3, size=n)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    return centres[y] + generator.normal(size=(n, 2)), y


def slope(n: int, seed: int = 0) -> Arrays:
    """A number that grows with the first feature."""
    X, _ = blobs(n, seed)
    return X, 2.0 * X[:, 0] + np.random.default_rng(seed + 99).normal(size=n)


def tagged(n: int, seed: int = 0) -> Arrays:
    """Three labels, each on one side of a line; some records bear none, some all."""
    X, _ = blobs(n, seed)
    return X, np.stack([X[:, 0] > 3, X[:, 1] > 3, X.sum(axis=1) < 7], axis=1).astype(int)


def make(kind: type, **changes: Any) -> Any:
    """Return an unfitted estimator of this kind with settings for the small problems."""
    settings: dict[str, Any] = {
        "k": 60,
        "queries": 12,
        "epsilon": 3.0,
        "random_state": 0,
        "noise": InsecureNoise(0),
        **OWN[kind],
    }
    return built(kind, **{**settings, **changes})


OWN: dict[type, dict[str, Any]] = {
    PrivateKNNClassifier: {"classes": (0, 1, 2)},
    PrivateKNNRegressor: {"low": -8.0, "high": 20.0},
    PrivateKNNMultiLabelClassifier: {"labels": ["east", "north", "near"], "tau": 2.0},
}
PROBLEMS: dict[type, Callable[..., Arrays]] = {
    PrivateKNNClassifier: blobs,
    PrivateKNNRegressor: slope,
    PrivateKNNMultiLabelClassifier: tagged,
}
KINDS = list(OWN)
NAMES = ["classes", "numbers", "labels"]


class Quiet(InsecureNoise):
    """Draws no noise at all on numbers."""

    def __init__(self) -> None:
        super().__init__(0)

    def rounded_gaussian_steps(self, sigma: Any, grid: float, size: Any) -> NDArray[np.int64]:
        del sigma, grid
        return np.zeros(size, dtype=np.int64)


class Spy(Quiet):
    """Draws none either, and remembers with which sigma it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.sigmas: list[float] = []

    def rounded_gaussian_steps(self, sigma: Any, grid: float, size: Any) -> NDArray[np.int64]:
        self.sigmas.append(float(sigma))
        return super().rounded_gaussian_steps(sigma, grid, size)
