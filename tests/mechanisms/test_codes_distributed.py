"""Shares of noise: enough of it remains whoever is missing or tells, and their sum is Gaussian."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from priced import for_budget
from scipy.special import ndtr

from tacit.errors import InvalidArgument
from tacit.mechanisms import DistributedGaussianMean, GaussianMean, Plan
from tacit.mechanisms.codes import public_frame
from tacit.noise import InsecureNoise

QUERIES = 20000
TOLERANCE = 0.03  # six standard errors of a deviation from so many numbers


def messages(mechanism, codes, seed):
    """Every teacher's message: (teachers, queries, length) steps, from independent noises."""
    frame = public_frame(None, None, codes.shape[1:])
    return np.stack(
        [
            mechanism.message(codes[k], InsecureNoise(seed + k), frame)
            for k in range(mechanism.n_teachers)
        ]
    )


class TestMargins:
    @pytest.mark.parametrize(("dropouts", "colluders"), [(0, 0), (2, 0), (0, 2), (1, 2)])
    def test_unknown_noise_is_never_less_than_what_is_priced(self, dropouts, colluders):
        """The worst that may happen: honest teachers drop out, and the colluders all stay."""
        mechanism = DistributedGaussianMean(0.5, 1.0, 6, dropouts, colluders)
        sent = messages(mechanism, np.zeros((6, QUERIES, 1)), seed=1)
        for missing in itertools.islice(itertools.combinations(range(6), dropouts), 4):
            present = [k for k in range(6) if k not in missing]
            known = present[:colluders]
            # An adversary subtracts the noise that the colluders told.
            left = sent[present].sum(axis=0) - sent[known].sum(axis=0)
            spread = left.std() * mechanism.grid
            assert spread > mechanism.deviation * (1 - TOLERANCE)
            assert spread == pytest.approx(mechanism.deviation, rel=TOLERANCE)

    def test_without_a_margin_it_would_be_less(self):
        mechanism = DistributedGaussianMean(0.5, 1.0, 6, 0, 0)
        sent = messages(mechanism, np.zeros((6, QUERIES, 1)), seed=1)
        assert sent[:4].sum(axis=0).std() * mechanism.grid < 0.85 * mechanism.deviation

    def test_price_is_that_of_the_trusted_aggregator(self):
        trusted = GaussianMean(0.5, 1.0, 6, joint=3)
        shared = DistributedGaussianMean(0.5, 1.0, 6, 1, 2, joint=3)
        assert shared.gaussian_cost() == trusted.gaussian_cost()
        assert Plan(shared, 4).epsilon(1e-5) == Plan(trusted, 4).epsilon(1e-5)

    def test_one_message_alone_costs_more(self):
        """mu_local = sqrt(K - t - c) mu."""
        mechanism = DistributedGaussianMean(0.5, 1.0, 6, 1, 2)
        assert mechanism.exposed_cost() == pytest.approx(3 * mechanism.gaussian_cost())

    def test_plan_for_a_budget_keeps_the_margins(self):
        plan = for_budget(
            DistributedGaussianMean,
            8,
            1e-5,
            queries=10,
            radius=1.0,
            n_teachers=50,
            dropouts=5,
            colluders=3,
        )
        assert (plan.mechanism.honest, plan.queries) == (42, 10)
        assert plan.epsilon(1e-5) == pytest.approx(8, rel=1e-6)

    @pytest.mark.parametrize("margins", [(3, 3), (6, 0), (0, 6), (-1, 0), (0, -1), (0.5, 0)])
    def test_margins_must_leave_somebody(self, margins):
        with pytest.raises(InvalidArgument):
            DistributedGaussianMean(0.5, 1.0, 6, *margins)

    def test_shares_of_few_steps_are_refused(self):
        """Too little noise for the theorem on sums of rounded Gaussians."""
        with pytest.raises(InvalidArgument, match="64 steps"):
            DistributedGaussianMean(1e-9, 1.0, 6, 0, 0)


class TestRelease:
    MECHANISM = DistributedGaussianMean(1e-5, 10.0, 4, dropouts=1, colluders=1)
    CODES = np.random.default_rng(0).normal(size=(4, 3, 2))

    def test_mean_is_over_those_who_delivered(self):
        release = self.MECHANISM.release(self.CODES, InsecureNoise(0), survivors=[3, 0, 2])
        assert np.allclose(release.values, self.CODES[[0, 2, 3]].mean(axis=0), atol=1e-3)
        everyone = self.MECHANISM.release(self.CODES, InsecureNoise(0))
        assert np.allclose(everyone.values, self.CODES.mean(axis=0), atol=1e-3)

    @pytest.mark.parametrize(
        "survivors", [[0, 1], [0, 1, 1], [0, 1, 4], [0, 1, -1], [], [0, 1, 2.0]]
    )
    def test_too_few_or_unknown_survivors_are_refused(self, survivors):
        with pytest.raises(InvalidArgument):
            self.MECHANISM.release(self.CODES, InsecureNoise(0), survivors=survivors)

    def test_a_teacher_clips_its_own_code(self):
        mechanism = DistributedGaussianMean(1e-5, 1.0, 2, 0, 0)
        frame = public_frame(None, None, (1, 2))
        wild = mechanism.message([[1e300, -1e300]], InsecureNoise(0), frame)
        still = mechanism.message([[0.0, 0.0]], InsecureNoise(0), frame)
        length = np.linalg.norm((wild - still) * mechanism.grid)
        assert length <= 1.0
        assert length == pytest.approx(1.0, rel=1e-5)

    def test_joint_and_weights_as_in_the_trusted_mechanism(self):
        shared = DistributedGaussianMean(1e-5, 1.0, 4, 0, 0, joint=3)
        trusted = GaussianMean(1e-5, 1.0, 4, joint=3)
        public = {"centres": np.ones((3, 2)), "weights": [1.0, 2.0]}
        first, second = (
            mechanism.release(self.CODES, InsecureNoise(0), **public).values
            for mechanism in (shared, trusted)
        )
        assert np.allclose(first, second, atol=1e-3)


def rounded_gaussian(sigma, reach):
    """Probabilities of a Gaussian rounded to the integers -reach .. reach."""
    points = np.arange(-reach, reach + 1)
    return ndtr((points + 0.5) / sigma) - ndtr((points - 0.5) / sigma)


def gaussian_and_uniforms(sigma, count, points):
    """Density at the points of N(0, count sigma^2) plus `count` uniforms on (-1/2, 1/2).

    By inversion of the characteristic function: an oracle that knows nothing of rounding.
    """
    from scipy.integrate import quad

    def spectrum(t):
        return math.exp(-count * (sigma * t) ** 2 / 2) * np.sinc(t / (2 * math.pi)) ** count

    return np.array(
        [
            quad(lambda t, k=k: math.cos(t * k) * spectrum(t), 0, 40 / sigma, epsabs=1e-14)[0]
            / math.pi
            for k in points
        ]
    )


@pytest.mark.parametrize(("sigma", "count"), [(0.6, 2), (0.6, 3), (0.7, 4), (0.8, 5)])
def test_sum_of_rounded_gaussians_is_a_rounded_gaussian_but_for_a_factor(sigma, count):
    """The theorem of docs/theory/high-dimensional.md, where its error is large enough to see."""
    one = rounded_gaussian(sigma, 30)
    total = one
    for _ in range(count - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    points = np.arange(0, 4)
    expected = gaussian_and_uniforms(sigma, count, points)
    error = 2 * sum(math.exp(-((math.pi * m * sigma) ** 2)) for m in range(1, 5))
    ratio = total[middle + points] / expected
    assert (ratio <= (1 + error) ** (count - 1) + 1e-9).all()
    assert (ratio >= (1 - error) ** (count - 1) - 1e-9).all()


def test_the_error_of_64_steps_is_nothing():
    """log10 of 2 exp(-pi^2 64^2) is below -17000."""
    assert -(math.pi**2) * 64**2 / math.log(10) < -17000
