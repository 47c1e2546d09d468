"""Public inputs for students: scikit-learn's digits, and two well-separated clouds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from tacit.students import choose_queries


@dataclass(frozen=True)
class Lesson:
    """Public inputs, rows that were asked about, their posteriors, and a held-out part."""

    X_public: NDArray[np.float64]
    indices: NDArray[np.int64]
    posterior: NDArray[np.float64]
    X_new: NDArray[np.float64]
    y_new: NDArray[np.int64]


def certain(labels: NDArray[np.int64], n_classes: int, right: float = 1.0) -> NDArray[np.float64]:
    """A posterior that gives each label `right` and shares the rest."""
    posterior = np.full((len(labels), n_classes), (1 - right) / (n_classes - 1))
    posterior[np.arange(len(labels)), labels] = right
    return posterior


@pytest.fixture(scope="session")
def digits() -> Lesson:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    indices = choose_queries(X[:1000], 80, random_state=0)
    return Lesson(X[:1000], indices, certain(y[indices], 10, 0.95), X[1000:], y[1000:])


@pytest.fixture(scope="session")
def clouds() -> Lesson:
    """Two clouds of 8 x 8 images, forty public rows, four of them asked about."""
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 64)) * 0.3 + np.where(y[:, None] == 1, 1.0, -1.0)
    indices = np.array([0, 1, 2, 3])
    return Lesson(X[:40], indices, certain(y[indices], 2, 0.9), X[40:], y[40:])
