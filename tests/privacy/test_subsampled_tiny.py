"""No claim about Private-kNN falls below the exact divergence, for any tiny data set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exhaustive import log_outcomes
from scipy.special import ndtr
from tiny_private_knn import largest_divergence, laws_of, neighbouring_laws

from tacit.mechanisms import SampledMax
from tacit.privacy import (
    sampled_exponential_rdp,
    sampled_screening_rdp,
    sampled_threshold_rdp,
    threshold_rdp_worst,
)

ORDERS = np.array([1.1, 2.0, 4.0, 12.0])
SIZES = [(records, words) for words in (2, 3) for records in range(1, 7 if words == 2 else 6)]
RATES = (0.03, 0.3, 0.8, 1.0)
PAIRS_OF_THREE = [(0, 0, 1, 1, 2, 2), (0, 1, 0, 2, 1, 2), (0, 1, 2, 2, 1, 0), (0, 1, 2, 0, 1, 2)]


def sampled_noisy_max_rdp(sigma, rate, orders, votes_per_unit=1):
    """What a noisy plurality, or a histogram, of sampled neighbours is priced at."""
    return SampledMax(sigma, votes_per_unit, rate, votes_per_unit).cost(orders).values


def bit(threshold, sigma):
    """Pr[yes], Pr[no] of the screening, given the counts."""

    def given(counts):
        score = (counts.max(axis=1) - threshold) / sigma
        return np.column_stack([ndtr(score), ndtr(-score)])

    return given


def winner(sigma):
    """Pr[word j wins], given the counts."""
    return lambda counts: np.exp(log_outcomes(counts, sigma))


def histogram(sigma, reach):
    """The whole law of two counts plus Gaussians rounded to the integers."""
    edges = np.arange(-reach, reach + 1) + 0.5

    def given(counts):
        below = ndtr((edges - counts[:, :, None]) / sigma)
        mass = np.diff(below, axis=2, prepend=0.0)
        mass = np.concatenate([mass, 1 - below[:, :, -1:]], axis=2)
        return np.einsum("ri,rj->rij", mass[:, 0], mass[:, 1]).reshape(len(counts), -1)

    return given


def median(epsilon, c=1):
    """The exponential mechanism on as many points as words; word w is the number w."""

    def given(counts):
        below = np.cumsum(counts, axis=1) - counts
        above = counts.sum(axis=1, keepdims=True) - below - counts
        weight = np.exp(-epsilon / (2 * c) * np.abs(below - above) / 2)
        return weight / weight.sum(axis=1, keepdims=True)

    return given


def tightest(claim, given, k, rate, sizes=SIZES, owners=None):
    """Compare a claim with every pair; return the largest share of it that is really lost."""
    worst = np.zeros(ORDERS.size)
    for records, words in sizes:
        pairs = neighbouring_laws(records, words, k, rate, given, owners)
        worst = np.maximum(worst, largest_divergence(*pairs, ORDERS))
    assert (worst <= claim * (1 + 1e-9) + 1e-14).all(), worst / claim
    return (worst / claim).max()


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("threshold", "sigma"), [(0.5, 0.7), (2.0, 1.5), (4.0, 1.0)])
def test_screening(k, rate, threshold, sigma):
    claim = sampled_threshold_rdp(k, threshold, sigma, rate, ORDERS)
    assert tightest(claim, bit(threshold, sigma), k, rate) > 0.3


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sigma", [0.8, 2.5])
def test_noisy_plurality_is_priced_above_every_pair(k, rate, sigma):
    claim = sampled_noisy_max_rdp(sigma, rate, ORDERS)
    assert tightest(claim, winner(sigma), k, rate) > 0.04


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sigma", [1.5, 3.0])
def test_noisy_histogram_is_priced_above_every_pair(rate, sigma):
    """At a low rate a record seldom displaces another: it costs little more than an added vote."""
    claim = sampled_noisy_max_rdp(sigma, rate, ORDERS)
    sizes = [(records, 2) for records in range(1, 5)]
    assert tightest(claim, histogram(sigma, 8), 1, rate, sizes) > (0.3 if rate < 0.5 else 0.7)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("threshold", "sigma"), [(0.5, 1.0), (2.0, 0.8)])
@pytest.mark.parametrize("sigma_answer", [1.0, 3.0])
def test_screening_and_answer_from_two_samples(rate, threshold, sigma, sigma_answer):
    answer = sampled_noisy_max_rdp(sigma_answer, rate, ORDERS)
    claim = sampled_screening_rdp(2, threshold, sigma, answer, rate, ORDERS)
    worst = np.zeros(ORDERS.size)
    for records, words in SIZES:
        bits = neighbouring_laws(records, words, 2, rate, bit(threshold, sigma))
        labels = neighbouring_laws(records, words, 2, rate, winner(sigma_answer))
        both = [np.hstack([b[:, 1:], b[:, :1] * w]) for b, w in zip(bits, labels, strict=True)]
        worst = np.maximum(worst, largest_divergence(*both, ORDERS))
    assert (worst <= claim * (1 + 1e-9)).all()
    assert (worst / claim).max() > 0.1


def one_sample_for_both(threshold, sigma, sigma_answer):
    def given(counts):
        passed = bit(threshold, sigma)(counts)
        return np.hstack([passed[:, 1:], passed[:, :1] * winner(sigma_answer)(counts)])

    return given


def test_one_sample_for_screening_and_answer_costs_more():
    """Erratum to the paper: what passed tells who was sampled, so the answer is not amplified."""
    rate, threshold, sigma, sigma_answer, words = 0.01, 2.0, 0.6, 1.5, 8
    orders = np.array([8.0])
    answer = sampled_noisy_max_rdp(sigma_answer, rate, orders)
    added = sampled_threshold_rdp(1, threshold, sigma, rate, orders) + answer
    pairs = neighbouring_laws(1, words, 1, rate, one_sample_for_both(2.0, sigma, sigma_answer))
    assert largest_divergence(*pairs, orders)[0] > 5 * added[0]


def test_the_range_of_the_supplement_understates():
    """From ceil(k/words) on, the check seems to cost less than it does: samples may be small."""
    k, rate, threshold, sigma = 3, 1.0, 0.5, 0.7
    narrow = threshold_rdp_worst(threshold, sigma, math.ceil(k / 2), k, ORDERS)
    with pytest.raises(AssertionError):
        tightest(narrow, bit(threshold, sigma), k, rate)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_median(k, rate, epsilon):
    claim = sampled_exponential_rdp(epsilon, rate, ORDERS)
    sizes = [(records, words) for records in range(1, 5) for words in (2, 4)]
    assert tightest(claim, median(epsilon), k, rate, sizes) > 0.03


@pytest.mark.parametrize("owners", PAIRS_OF_THREE)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rate", [0.2, 1.0])
class TestPeopleWithTwoRecords:
    """Three people with two records each, every interleaving kind; one coin per person."""

    SIZES: tuple[tuple[int, int], ...] = ((6, 2),)

    def test_screening(self, owners, k, rate):
        claim = sampled_threshold_rdp(k, 1.0, 1.5, rate, ORDERS, displaced=2)
        assert tightest(claim, bit(1.0, 1.5), k, rate, self.SIZES, owners) > 0.1

    def test_plurality(self, owners, k, rate):
        claim = sampled_noisy_max_rdp(2.0, rate, ORDERS, votes_per_unit=2)
        assert tightest(claim, winner(2.0), k, rate, self.SIZES, owners) > 0.05

    def test_median(self, owners, k, rate):
        claim = sampled_exponential_rdp(1.0, rate, ORDERS)
        assert tightest(claim, median(1.0, c=2), k, rate, self.SIZES, owners) > 0.005


def test_two_records_of_a_person_cost_more_than_one():
    """The price of one displaced vote is too low for them."""
    with pytest.raises(AssertionError):
        tightest(
            sampled_threshold_rdp(3, 1.0, 1.5, 0.2, ORDERS),
            bit(1.0, 1.5),
            3,
            0.2,
            TestPeopleWithTwoRecords.SIZES,
            PAIRS_OF_THREE[0],
        )


def test_the_oracle_sums_to_one_and_samples_by_hand():
    """Two records, k = 1: the nearest counts with g, the other one with (1 - g) g."""
    law = laws_of(2, 2, 1, 0.25, lambda counts: counts / 1.0)[1]  # the data set (0, 1)
    assert law == pytest.approx([0.25, 0.75 * 0.25])
    alone = laws_of(2, 2, 1, 0.25, lambda counts: counts / 1.0, missing=0)[1]
    assert alone == pytest.approx([0.0, 0.25])
    whole = laws_of(3, 2, 2, 0.4, winner(1.0))
    assert whole.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
