"""Features and scores whose bits are each row's own, compared with exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.summaries import ExactNystroem, exact_scores, exact_softmax
from tacit.summaries.residuals import WEIGHT_STEP, whole_weights

STEPS = 2**14


def unit_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class TestNystroem:
    FEATURES = ExactNystroem(unit_rows(60, 10), gamma=0.7, radius=1.0)

    def test_agrees_with_the_formula(self):
        rows = unit_rows(40, 10, seed=1)
        gaps = ((rows[:, None] - unit_rows(60, 10)) ** 2).sum(axis=2)
        expected = np.exp(-0.7 * gaps) @ self.FEATURES.whitening
        assert np.abs(self.FEATURES.steps(rows) / STEPS - expected).max() < 0.01

    def test_inner_products_of_landmarks_are_the_kernel(self):
        places = unit_rows(60, 10)
        phi = self.FEATURES.steps(places) / STEPS
        gaps = ((places[:, None] - places) ** 2).sum(axis=2)
        np.testing.assert_allclose(phi @ phi.T, np.exp(-0.7 * gaps), atol=0.02)

    @pytest.mark.arithmetic
    @given(st.integers(0, 2**32 - 1), st.integers(1, 40))
    @settings(max_examples=20)
    def test_a_row_depends_on_itself_alone(self, seed, count):
        rows = 3 * unit_rows(count, 10, seed=seed)
        together = self.FEATURES.steps(rows)
        for place in {0, count // 2, count - 1}:
            alone = self.FEATURES.steps(rows[place : place + 1])
            np.testing.assert_array_equal(alone[0], together[place])

    def test_no_row_is_longer_than_one(self):
        rows = np.vstack([unit_rows(200, 10, seed=3) * 1e6, unit_rows(60, 10)])
        lengths = (self.FEATURES.steps(rows).astype(np.int64) ** 2).sum(axis=1)
        assert lengths.max() <= STEPS**2

    def test_equal_landmarks_do_no_harm(self):
        features = ExactNystroem(np.zeros((5, 2)), gamma=1.0, radius=1.0)
        assert features.n_features == 1
        assert features.steps(np.zeros((1, 2)))[0, 0] in (STEPS, -STEPS, STEPS - 1, 1 - STEPS)

    @pytest.mark.parametrize(
        "changes", [{"gamma": 0.0}, {"radius": -1.0}, {"landmarks": np.zeros((5000, 1))}]
    )
    def test_refusals(self, changes):
        settings = {"landmarks": [[0.0]], "gamma": 1.0, "radius": 1.0, **changes}
        with pytest.raises(InvalidArgument, match=next(iter(changes))):
            ExactNystroem(settings.pop("landmarks"), **settings)


class TestScores:
    def test_are_exact(self):
        random = np.random.default_rng(0)
        steps = random.integers(-4000, 4000, size=(5, 12))
        weights = random.normal(size=(12, 3))
        found = exact_scores(steps, weights)
        whole = whole_weights(weights)
        for row in range(5):
            for column in range(3):
                total = sum(
                    int(a) * int(b) for a, b in zip(steps[row], whole[:, column], strict=True)
                )
                expected = Fraction(total) * Fraction(WEIGHT_STEP) / STEPS
                assert Fraction(found[row, column]) == expected

    def test_large_weights_are_held(self):
        assert abs(whole_weights(np.array([[1e300], [-1e300]])) * WEIGHT_STEP).max() == 1024

    @given(st.integers(0, 2**32 - 1))
    @settings(max_examples=20)
    def test_softmax_of_a_row_is_its_own(self, seed):
        scores = np.random.default_rng(seed).normal(scale=9, size=(9, 5))
        together = exact_softmax(scores)
        for place in range(9):
            np.testing.assert_array_equal(
                exact_softmax(scores[place : place + 1])[0], together[place]
            )
        plain = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(together, plain, rtol=1e-12)
