"""Rounds of residual moments: without noise they end at least squares."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.summaries import Descent


@pytest.mark.parametrize("seed", range(3))
def test_exact_moments_lead_to_least_squares(seed):
    random = np.random.default_rng(seed)
    view = random.normal(size=(500, 4)) @ random.normal(size=(4, 4)) / 6
    target = view @ random.normal(size=(4, 1)) + random.normal(scale=0.1, size=(500, 1))
    descent = Descent(view, 500.0, 1)
    for _ in range(20):
        descent.step(view.T @ (target - view @ descent.weights), 1e-9)
    oracle = np.linalg.lstsq(view, target, rcond=None)[0]
    np.testing.assert_allclose(descent.weights, oracle, atol=0.1 * np.abs(oracle).max())


def test_noise_alone_moves_little():
    random = np.random.default_rng(0)
    view = random.normal(size=(300, 20)) / 5
    descent = Descent(view, 300.0, 1)
    descent.step(random.normal(scale=50.0, size=(20, 1)), 50.0**2)
    raw = np.linalg.solve(view.T @ view, random.normal(scale=50.0, size=(20, 1)))
    assert np.linalg.norm(descent.weights) < 0.2 * np.linalg.norm(raw)


def test_weights_of_classes_add_up_to_nothing():
    random = np.random.default_rng(1)
    view = random.normal(size=(100, 3))
    descent = Descent(view, 100.0, 4, classes=True)
    descent.step(random.normal(size=(3, 4)) * 30 + 7, 1.0)
    np.testing.assert_allclose(descent.weights.sum(axis=1), 0, atol=1e-4)
