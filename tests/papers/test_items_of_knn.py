"""What the page on Private-kNN says of prices, checked apart from its tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from papers import knn_prices as prices
from tacit.privacy import gaussian_epsilon, poisson_gaussian_rdp, sampled_threshold_rdp


@pytest.mark.parametrize("rate", [0.05, 0.25])
def test_the_worst_of_the_counts_is_the_price_of_a_sampled_check(rate):
    orders = [2.0, 8.0, 50.0, 300.0]
    each = [prices.sampled_check_rdp(t, rate, orders) for t in range(prices.K + 1)]
    exact = sampled_threshold_rdp(prices.K, prices.THRESHOLD, prices.SIGMA_1, rate, orders)
    assert np.max(each, axis=0) == pytest.approx(exact, rel=1e-7, abs=0)


def test_k_overtakes_the_threshold_as_in_figure_2_and_neither_is_worst():
    orders = np.arange(2.0, 201.0)
    _, costs = prices.by_count(orders)
    at_t, at_k, worst = costs[prices.THRESHOLD], costs[prices.K], costs.max(axis=0)
    assert orders[(at_k > at_t).argmax()] == 78
    assert (np.maximum(at_t, at_k)[1:] < worst[1:]).sum() > 190
    assert max(at_t[98], at_k[98]) / worst[98] == pytest.approx(0.962, abs=5e-4)  # order 100


def test_theorem_2_holds_and_is_loose():
    """Over settings that its conditions allow, drawn at random."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        rate, sigma_1, sigma_2 = rng.uniform(0.005, 0.1), *rng.uniform(5, 100, size=2)
        least, most, most_answers = prices.theorem_2_range(rate, sigma_1, sigma_2)
        if least > most:
            continue
        checks = math.ceil(np.exp(rng.uniform(np.log(least), np.log(most))))
        answers = math.floor(min(checks, most_answers) * rng.uniform())
        printed, exact = prices.theorem_2_prices(rate, sigma_1, sigma_2, checks, answers)
        assert 5 * exact < printed
    printed, exact = prices.theorem_2_prices(0.05, 85, 25, 30_000, 10_000)
    assert (round(printed, 2), round(exact, 2)) == (20.49, 1.21)


def test_lemma_3_without_its_order_is_false():
    rate, sigma, order = 0.05, 10.0, 50.0
    assert order <= sigma**2 * math.log(1 / rate) / 2
    cost = poisson_gaussian_rdp(rate, sigma, [order])[0]
    assert 6 * rate**2 / sigma**2 < cost < 6 * rate**2 * order / sigma**2


@pytest.mark.parametrize(("printed", "rho"), prices.PRINTED.items())
def test_the_epsilons_of_section_b_come_out_cut_to_their_digits(printed, rho):
    digits = len(printed.split(".")[1])
    assert math.floor(prices.plain_epsilon(rho) * 10**digits) == round(float(printed) * 10**digits)


def test_eighty_answers_at_sigma_40():
    one_label, ten_labels = (gaussian_epsilon(1e-5, math.sqrt(80 * d) / 40) for d in (2, 20))
    assert (round(one_label, 2), round(ten_labels, 2)) == (1.20, 4.38)
    assert prices.PRINTED["13.22"] == 80 * 10**2 / (2 * 40**2)


def test_mnist_costs_0_47_at_neither_rate():
    as_composed = [round(prices.mnist_epsilons(rate)[0], 2) for rate in (0.05, 0.15)]
    assert as_composed == [0.39, 1.18]


def test_one_sample_costs_five_times_the_sum():
    exact, added = prices.one_sample_prices(0.01, 8.0)
    assert exact > 5 * added


class TestSparseVector:
    @pytest.mark.parametrize("passes", [1, 5])
    def test_scales_spend_epsilon(self, passes):
        threshold, counts = prices.svt_scales(passes)
        assert 1 / threshold + 2 * passes / counts == pytest.approx(1.0)

    def test_against_simulation(self):
        rng = np.random.default_rng(0)
        threshold, counts = prices.svt_scales(1)
        shift = rng.laplace(scale=threshold, size=(100_000, 1))
        passed = (rng.laplace(scale=counts, size=(100_000, 5)) - 8.0 >= shift).any(axis=1)
        assert prices.wrongly_passed(5, 8.0) == pytest.approx(passed.mean(), abs=0.006)

    def test_length_against_simulation(self):
        rng = np.random.default_rng(0)
        threshold, counts = prices.svt_scales(5)
        shift = rng.laplace(scale=threshold, size=(20_000, 1))
        passed = rng.laplace(scale=counts, size=(20_000, 400)) >= shift
        length = (passed.cumsum(axis=1) >= 5).argmax(axis=1) + 1
        assert prices.svt_length(5) == pytest.approx(length.mean(), rel=0.03)
