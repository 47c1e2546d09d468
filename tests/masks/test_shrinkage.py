"""Wiener weights, the L* rule and water-filling against exhaustive search and Monte Carlo."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tacit.errors import InvalidArgument
from tacit.masks import PCACodec, combine_rounds, noise_to_signal, water_filling, wiener_weights

SPECTRA = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=7)


def useful(spectrum, sigma):
    """Return which coordinates the L* rule keeps."""
    size = len(spectrum)
    codec = PCACodec(
        mean=np.zeros(size),
        components=np.eye(size),
        spectrum=np.asarray(spectrum),
        weights=np.ones(size),
    )
    return codec.useful(sigma).weights > 0


@given(SPECTRA, st.floats(0.01, 5.0))
def test_l_star_against_every_subset(spectrum, sigma):
    """sum over kept of sigma^2 + sum over dropped of lambda, tried for all subsets."""
    chosen = useful(spectrum, sigma)
    error = chosen.sum() * sigma**2 + np.asarray(spectrum)[~chosen].sum()
    best = min(
        sum(sigma**2 if keep else value for keep, value in zip(kept, spectrum, strict=True))
        for kept in itertools.product([True, False], repeat=len(spectrum))
    )
    assert error == pytest.approx(best, rel=1e-9, abs=1e-12)


def test_l_star_may_be_none():
    """The papers' formula is undefined here."""
    assert useful([0.5, 0.1], sigma=1.0).sum() == 0


@given(SPECTRA, st.floats(0.01, 5.0))
def test_wiener_is_between_half_and_all_of_the_better_choice(spectrum, sigma):
    weights = wiener_weights(spectrum, sigma)
    values = np.asarray(spectrum)
    error = (1 - weights) ** 2 * values + weights**2 * sigma**2
    better = np.minimum(values, sigma**2)
    assert (error <= better * (1 + 1e-12)).all()
    assert (error >= better / 2 * (1 - 1e-12)).all()


def test_wiener_error_by_monte_carlo():
    rng = np.random.default_rng(0)
    spectrum, sigma = np.array([4.0, 1.0, 0.25]), 0.8
    truth = rng.normal(size=(200_000, 3)) * np.sqrt(spectrum)
    noisy = truth + rng.normal(scale=sigma, size=truth.shape)
    error = np.square(noisy * wiener_weights(spectrum, sigma) - truth).mean(axis=0)
    assert np.allclose(error, spectrum * sigma**2 / (spectrum + sigma**2), rtol=0.02)


def test_wiener_at_the_ends():
    assert wiener_weights([0.0, 0.0, 1.0], [0.0, 1.0, np.inf]).tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(InvalidArgument):
        wiener_weights([1.0], [np.nan])
    with pytest.raises(InvalidArgument):
        wiener_weights([-1.0], [1.0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-4, 10.0), min_size=2, max_size=5), st.floats(1e-3, 10.0), st.data())
def test_no_other_shares_are_better(spectrum, noise, data):
    """The error is convex in q: any other point of the simplex is no better."""
    values = np.asarray(spectrum)

    def error(shares):
        return float((values * noise / (shares + noise)).sum())

    best = water_filling(spectrum, noise)
    assert best.sum() == pytest.approx(1.0)
    assert (best >= 0).all()
    for _ in range(20):
        other = np.array(
            data.draw(
                st.lists(st.floats(0.001, 1.0), min_size=len(spectrum), max_size=len(spectrum))
            )
        )
        assert error(best) <= error(other / other.sum()) * (1 + 1e-9)


def test_water_filling_against_a_numerical_optimiser():
    values, noise = np.array([3.0, 1.0, 0.4, 0.01]), 0.2
    outcome = minimize(
        lambda q: (values * noise / (q + noise)).sum(),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        tol=1e-12,
    )
    assert np.allclose(water_filling(values, noise), outcome.x, atol=1e-4)


def test_water_filling_without_noise_is_the_fourth_root():
    """High signal to noise: d_l = lambda^(1/4), hence q ~ sqrt(lambda)."""
    values = np.array([16.0, 4.0, 1.0])
    assert np.allclose(water_filling(values, 1e-9), np.array([4, 2, 1]) / 7, atol=1e-6)


def test_water_filling_drops_what_drowns():
    assert water_filling([1.0, 1e-6], noise=100.0).tolist() == [1.0, 0.0]
    with pytest.raises(InvalidArgument, match="nothing to encode"):
        water_filling([0.0, 0.0], noise=1.0)


def test_noise_to_signal_is_the_square_of_a_golden_sigma():
    """Sigma .170 for K = 50, N = 50 at (8, 1e-5), unit ball."""
    value = noise_to_signal(8, 1e-5, queries=50, n_teachers=50)
    assert round(math.sqrt(value), 3) == 0.170


def test_rounds_are_combined_without_bias_and_with_the_least_noise():
    rng = np.random.default_rng(0)
    codes = np.array([[1.0, -2.0, 3.0]])
    first, second = np.array([0.5, 2.0, np.inf]), np.array([1.0, 1.0, 0.7])
    draws = []
    for _ in range(4000):
        one = codes + np.where(np.isfinite(first), first, 0) * rng.normal(size=3)
        two = codes + second * rng.normal(size=3)
        combined, deviations = combine_rounds((one, first), (two, second))
        draws.append(combined[0])
    assert np.allclose(np.mean(draws, axis=0), codes[0], atol=0.06)
    assert np.allclose(np.std(draws, axis=0), deviations, rtol=0.06)
    assert np.allclose(deviations, [np.sqrt(0.2), np.sqrt(0.8), 0.7])


def test_what_no_round_has_is_unknown():
    codes, deviations = combine_rounds(([[5.0, 1.0]], [np.inf, 1.0]), ([[6.0, 1.0]], [np.inf, 1.0]))
    assert codes.tolist() == [[0.0, 1.0]]
    assert deviations[0] == np.inf
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidArgument):
            combine_rounds(([[1.0]], [wrong]))
