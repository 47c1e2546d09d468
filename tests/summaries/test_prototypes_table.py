"""What a noisy table says: posterior means under a fitted prior, compared with Bayes by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.summaries import table_posterior


def noisy(masses: np.ndarray, sigma: float, seed: int = 0) -> np.ndarray:
    return masses + np.random.default_rng(seed).normal(scale=sigma, size=masses.shape)


class TestPosterior:
    def test_rows_are_distributions(self):
        posterior = table_posterior(noisy(np.zeros((40, 5)), 3.0), 3.0)
        assert (posterior >= 0).all()
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0)

    def test_without_noise_it_is_the_label_distribution(self):
        masses = np.array([[90.0, 10.0], [30.0, 70.0], [50.0, 50.0]])
        np.testing.assert_allclose(
            table_posterior(masses, 1e-3), masses / masses.sum(1, keepdims=True), atol=0.03
        )

    def test_agrees_with_bayes_where_the_prior_is_known(self):
        """Cells are 0 or 40, nine to one: the posterior mean is known in closed form."""
        masses = 40.0 * np.eye(10)[np.random.default_rng(1).integers(10, size=1000)]
        cells = noisy(masses, 12.0, seed=2)
        odds = 0.1 / 0.9 * np.exp((40 * cells - 800) / 144)
        truth = 40 * odds / (1 + odds)
        truth /= truth.sum(axis=1, keepdims=True)
        found = table_posterior(cells, 12.0)
        assert np.abs(found - truth).mean() < 0.03
        raw = np.maximum(cells, 0)
        raw /= raw.sum(axis=1, keepdims=True)
        assert np.abs(raw - truth).mean() > 0.05  # what raw counts would have said

    def test_noise_alone_says_nothing(self):
        posterior = table_posterior(noisy(np.full((200, 4), 5.0), 400.0), 400.0)
        assert np.abs(posterior - 0.25).mean() < 0.05
        raw = np.maximum(noisy(np.full((200, 4), 5.0), 400.0), 1e-9)
        raw /= raw.sum(axis=1, keepdims=True)
        assert np.abs(raw - 0.25).mean() > 0.2  # what raw counts would have said

    def test_more_noise_is_never_more_confident(self):
        masses = np.tile(np.eye(5) * 60, (40, 1))
        sure = [table_posterior(noisy(masses, s), s).max(axis=1).mean() for s in (2, 30, 120)]
        assert sure[0] > sure[1] > sure[2]

    def test_large_tables_are_sampled(self, monkeypatch):
        masses = np.tile(np.eye(5) * 60, (40, 1))
        cells = noisy(masses, 5.0)
        whole = table_posterior(cells, 5.0)
        monkeypatch.setattr("tacit.summaries.prototypes._CELLS", 200)
        np.testing.assert_allclose(table_posterior(cells, 5.0), whole, atol=0.05)


@pytest.mark.parametrize(
    ("cells", "sigma", "complaint"),
    [
        ([[1.0]], 1.0, "classes"),
        ([1.0, 2.0], 1.0, "table"),
        ([[np.nan, 1.0]], 1.0, "finite"),
        ([[2.0, 1.0]], 0.0, "sigma"),
    ],
)
def test_refusals(cells, sigma, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        table_posterior(cells, sigma)
