"""Costs against exact divergences, for all neighbouring histograms of small ensembles.

Outcome probabilities come from quadrature alone; no function of `tacit.privacy` is an oracle here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from tacit.mechanisms import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, Plan, ThresholdCheck

ORDERS = np.array([1.2, 2.0, 5.0, 14.0, 40.0])
DELTAS = (1e-5, 1e-2, 0.1)
TEACHERS = range(1, 8)
Z = np.linspace(-12.0, 12.0, 2401)
WEIGHTS = np.exp(-(Z**2) / 2) / math.sqrt(2 * math.pi) * (Z[1] - Z[0])


def histograms(n, m):
    return np.array([h for h in product(range(n + 1), repeat=m) if sum(h) == n])


def neighbours(votes):
    """Pairs of rows that differ by one teacher's vote."""
    return [
        (i, j)
        for i, first in enumerate(votes)
        for j, second in enumerate(votes)
        if i != j and np.abs(first - second).sum() == 2
    ]


def gaussian_winners(votes, sigma):
    """P(class j wins) = integral of phi(z) prod_{k != j} Phi(z + (n_j - n_k)/sigma) dz."""
    gaps = (votes[:, :, None] - votes[:, None, :]) / sigma
    below = ndtr(Z[:, None, None, None] + gaps)
    below[:, :, np.arange(votes.shape[1]), np.arange(votes.shape[1])] = 1.0
    return np.tensordot(WEIGHTS, below.prod(axis=3), axes=1)


def laplace_winners(votes, gamma):
    """The same for Laplace noise; its kinks lie on integers, so each unit is integrated apart."""
    reach = math.ceil(45 / gamma) + int(votes.max())
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x = (np.arange(-reach, reach)[:, None] + (nodes + 1) / 2).ravel()
    mass = np.tile(weights / 2, 2 * reach) * gamma / 2 * np.exp(-gamma * np.abs(x))
    shifted = x[:, None, None, None] + votes[:, :, None] - votes[:, None, :]
    tail = np.exp(-gamma * np.abs(shifted)) / 2
    below = np.where(shifted > 0, 1 - tail, tail)
    below[:, :, np.arange(votes.shape[1]), np.arange(votes.shape[1])] = 1.0
    return np.tensordot(mass, below.prod(axis=3), axes=1)


def selective_outcomes(statistic, threshold, sigma_check, winners):
    """(no answer, class 1, ..., class m): the check and the answer are independent."""
    score = (statistic - threshold)[:, None] / sigma_check
    return np.hstack([ndtr(-score), ndtr(score) * winners])


def divergences(p, q):
    """Renyi divergence of each order between two discrete laws."""
    powers = ORDERS[:, None] * np.log(p) + (1 - ORDERS[:, None]) * np.log(q)
    return np.logaddexp.reduce(powers, axis=1) / (ORDERS - 1)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def check_costs(mechanism, votes, outcomes, **public):
    """Every claim about the mechanism against the exact law, for every pair of neighbours."""
    n, m = int(votes[0].sum()), votes.shape[1]
    secret = mechanism.secret_cost(votes, ORDERS, **public).values
    worst = mechanism.cost(ORDERS, n_teachers=n, n_classes=m).values
    plan = Plan(mechanism, 1, n_teachers=n, n_classes=m)
    epsilons = {delta: plan.epsilon(delta) for delta in DELTAS}
    tightest = 0.0
    for i, j in neighbours(votes):
        exact = divergences(outcomes[i], outcomes[j])
        assert (exact <= secret[i] * (1 + 1e-9) + 1e-12).all(), (votes[i], votes[j])
        assert (exact <= worst * (1 + 1e-9) + 1e-12).all(), (votes[i], votes[j])
        for delta, epsilon in epsilons.items():
            assert hockey_stick(outcomes[i], outcomes[j], epsilon) <= delta + 1e-12
        tightest = max(tightest, float((exact / np.maximum(worst, 1e-300)).max()))
    return tightest


def test_winners_sum_to_one():
    for winners in (gaussian_winners, laplace_winners):
        assert winners(histograms(4, 3), 0.8).sum(axis=1) == pytest.approx(1.0, abs=1e-12)


def test_two_laplace_coordinates_have_the_known_law():
    """P(one behind by gap wins) = (2 + g gap)/(4 e^(g gap))."""
    gaps = np.array([1, 3, 5])
    found = laplace_winners(np.column_stack([gaps, 0 * gaps]), 0.7)[:, 1]
    assert found == pytest.approx((2 + 0.7 * gaps) / (4 * np.exp(0.7 * gaps)), rel=1e-10)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("sigma", [0.7, 2.0, 6.0])
def test_gnmax_is_priced_above_every_pair(m, sigma):
    for n in TEACHERS:
        votes = histograms(n, m)
        assert check_costs(GNMax(sigma), votes, gaussian_winners(votes, sigma)) > 0.1


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("gamma", [0.2, 1.0])
def test_lnmax_is_priced_above_every_pair(m, gamma):
    for n in TEACHERS:
        votes = histograms(n, m)
        assert check_costs(LNMax(gamma), votes, laplace_winners(votes, gamma)) > 0.1


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("threshold", [1.0, 3.5, 9.0])
def test_threshold_check_is_priced_above_every_pair(m, threshold):
    for n in TEACHERS:
        votes = histograms(n, m)
        outcomes = selective_outcomes(votes.max(axis=1), threshold, 1.3, np.ones((len(votes), 1)))
        check_costs(ThresholdCheck(threshold, 1.3), votes, outcomes)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("threshold", [1.0, 4.0, 9.0])
@pytest.mark.parametrize(("sigma_check", "sigma_answer"), [(1.0, 1.0), (0.6, 4.0), (5.0, 1.5)])
def test_confident_gnmax_is_priced_above_every_pair(m, threshold, sigma_check, sigma_answer):
    for n in TEACHERS:
        votes = histograms(n, m)
        winners = gaussian_winners(votes, sigma_answer)
        outcomes = selective_outcomes(votes.max(axis=1), threshold, sigma_check, winners)
        check_costs(ConfidentGNMax(threshold, sigma_check, sigma_answer), votes, outcomes)


def disagreement(row, student):
    """floor(max_j(n_j - n p_j) + 1/2) in rational arithmetic."""
    expected = [sum(row) * share for share in student]
    top = max(count - share for count, share in zip(row, expected, strict=True))
    return math.floor(top + Fraction(1, 2))


STUDENTS = {
    2: [("1/2", "1/2"), ("1/8", "7/8"), ("1", "0")],
    3: [("1/2", "1/4", "1/4"), ("1/8", "3/8", "1/2"), ("0", "1/16", "15/16")],
}


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(("sigma_check", "sigma_answer"), [(1.0, 1.0), (0.6, 4.0)])
def test_interactive_gnmax_is_priced_above_every_pair(m, which, sigma_check, sigma_answer):
    """Its own label is a public function of "the check failed": the same outcomes."""
    student = [Fraction(share) for share in STUDENTS[m][which]]
    mechanism = InteractiveGNMax(1.5, sigma_check, sigma_answer, confidence=0.9)
    for n in TEACHERS:
        votes = histograms(n, m)
        statistic = np.array([disagreement(row.tolist(), student) for row in votes])
        winners = gaussian_winners(votes, sigma_answer)
        outcomes = selective_outcomes(statistic, 1.5, sigma_check, winners)
        public = np.tile([float(p) for p in student], (len(votes), 1))
        check_costs(mechanism, votes, outcomes, student=public)


def test_the_oracle_notices_a_price_that_is_too_low():
    """With the price of twice the noise, the same comparison fails."""
    votes = histograms(4, 2)
    with pytest.raises(AssertionError):
        check_costs(GNMax(2.0), votes, gaussian_winners(votes, 1.0))
