"""The laws of the continuous draws and of the masks, and that the tests can tell a wrong one.

Every check fails by chance with probability at most 1e-10. The bounds are exact, not asymptotic:
Kolmogorov's distance by the Dvoretzky-Kiefer-Wolfowitz-Massart inequality, a sum of squares of
Gaussians by the chi-square law, a sum of |Laplace| by the gamma law, counts by the binomial law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2, gamma, laplace, norm

from tacit.noise import InsecureNoise, Noise, SecureNoise

CHANCE = 1e-10
COUNT = 300_000

both_sources = pytest.mark.parametrize("noise", [SecureNoise(), InsecureNoise(17)], ids=repr)


def plausible(law: Any, statistic: float) -> bool:
    """Whether a statistic lies in the central 1 - CHANCE of its exact law."""
    return bool(law.cdf(statistic) > CHANCE / 2 and law.sf(statistic) > CHANCE / 2)


def follows(draws: np.ndarray, law: Any) -> bool:
    """Whether the empirical distribution function stays within Massart's bound."""
    ordered = np.sort(draws.ravel())
    ranks = np.arange(ordered.size + 1) / ordered.size
    true = law.cdf(ordered)
    distance = max(np.abs(true - ranks[1:]).max(), np.abs(true - ranks[:-1]).max())
    return bool(distance < math.sqrt(math.log(2 / CHANCE) / (2 * ordered.size)))


@both_sources
@pytest.mark.parametrize("sigma", [0.01, 1.0, 40.0])
def test_gaussian_draws_follow_their_law(noise: Noise, sigma: float) -> None:
    draws = noise.gaussian(sigma, COUNT)
    assert follows(draws, norm(scale=sigma))
    assert plausible(norm(scale=math.sqrt(COUNT)), draws.sum() / sigma)
    assert plausible(chi2(COUNT), (draws**2).sum() / sigma**2)
    assert plausible(binom(COUNT, 2 * norm.sf(3.0)), np.count_nonzero(np.abs(draws) > 3 * sigma))


@both_sources
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_laplace_draws_follow_their_law(noise: Noise, scale: float) -> None:
    draws = noise.laplace(scale, COUNT)
    assert follows(draws, laplace(scale=scale))
    assert plausible(gamma(COUNT), np.abs(draws).sum() / scale)
    assert plausible(binom(COUNT, 0.5), np.count_nonzero(draws > 0))
    assert plausible(binom(COUNT, math.exp(-6)), np.count_nonzero(np.abs(draws) > 6 * scale))


@both_sources
def test_neighbouring_draws_are_independent(noise: Noise) -> None:
    """Signs of pairs, and of a draw and the next call's draw, agree half of the time."""
    first, second = noise.gaussian(1.0, COUNT), noise.gaussian(1.0, COUNT)
    assert plausible(binom(COUNT, 0.5), np.count_nonzero((first > 0) == (second > 0)))
    pairs = first.reshape(-1, 2) > 0
    assert plausible(binom(COUNT // 2, 0.5), np.count_nonzero(pairs[:, 0] == pairs[:, 1]))


@both_sources
@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("method", ["bernoulli", "poisson_mask"])
def test_masks_take_each_entry_at_the_rate_and_independently(
    noise: Noise, method: str, rate: float
) -> None:
    mask = getattr(noise, method)(rate, COUNT)
    assert plausible(binom(COUNT, rate), np.count_nonzero(mask))
    pairs = mask.reshape(-1, 2).all(axis=1)
    assert plausible(binom(COUNT // 2, rate**2), np.count_nonzero(pairs))


def test_a_mask_of_rate_one_takes_everybody() -> None:
    assert SecureNoise().poisson_mask(1.0, 1000).all()
    assert not SecureNoise().bernoulli(0.0, 1000).any()


WRONG: dict[str, Callable[[Noise], np.ndarray]] = {
    "variance for sigma": lambda noise: noise.gaussian(math.sqrt(2.0), COUNT),
    "sigma / sqrt 2": lambda noise: noise.gaussian(1 / math.sqrt(2.0), COUNT),
    "laplace of the same variance": lambda noise: noise.laplace(1 / math.sqrt(2.0), COUNT),
    "shifted": lambda noise: noise.gaussian(1.0, COUNT) + 0.05,
    "one sign": lambda noise: np.abs(noise.gaussian(1.0, COUNT)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_kolmogorov_test_tells_wrong_laws(wrong: str) -> None:
    assert not follows(WRONG[wrong](SecureNoise()), norm())


def test_the_moment_tests_tell_a_sigma_that_is_off_by_four_per_cent() -> None:
    draws = SecureNoise().gaussian(1.04, COUNT)
    assert not plausible(chi2(COUNT), (draws**2).sum())
    draws = SecureNoise().laplace(1.04, COUNT)
    assert not plausible(gamma(COUNT), np.abs(draws).sum())
