"""Public inputs for students: scikit-learn's digits, and two well-separated clouds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from students_shared import Lesson, certain

from tacit.students import choose_queries


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
