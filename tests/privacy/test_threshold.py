"""The noisy check: exact bits, every t, both directions.

Proofs: docs/theory/selective.md#the-noisy-check and #check-and-answer-together.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import (
    exact_bit_rdp,
    exact_check,
    rounds_to,
)

from tacit.privacy import (
    confident_rdp,
    confident_rdp_worst,
    gaussian_rdp,
    poisson_gaussian_rdp,
    sampled_threshold_rdp,
    threshold_rdp,
    threshold_rdp_worst,
)

ORDERS = [1.01, 1.5, 2.0, 8.0, 30.5, 120.0]
ROUNDING = 2e-15  # what cancels in double precision, absolute, per query

# threshold, sigma, lowest, highest: inside, outside and at the edge of the range, loud and quiet
CHECKS = [
    (4, 1.5, 0, 8),
    (10.5, 0.5, 0, 12),
    (12, 3.0, 3, 9),
    (2, 20.0, 2, 9),
    (-3, 2.0, 0, 7),
    (1000, 5.0, 180, 200),
]


@pytest.fixture(scope="module", autouse=True)
def many_digits():
    with mp.workdps(60):
        yield


def steps(lowest: int, highest: int):
    """Every (t, t') that one unit can cause, t' = t included."""
    for t in range(lowest, highest + 1):
        for other in range(max(t - 1, lowest), min(t + 1, highest) + 1):
            yield t, other


def close(ours: float, exact: mp.mpf) -> bool:
    return abs(float(mp.mpf(float(ours)) - exact)) <= ROUNDING + 1e-10 * float(exact)


class TestDataDependent:
    @pytest.mark.parametrize("check", CHECKS)
    def test_against_every_neighbour(self, check):
        threshold, sigma, lowest, highest = check
        tops = np.arange(lowest, highest + 1)
        ours = threshold_rdp(tops, threshold, sigma, ORDERS, lowest=lowest, highest=highest)
        bits = {t: exact_check(t, threshold, sigma) for t in tops.tolist()}
        for (row, t), (column, order) in itertools.product(enumerate(tops), enumerate(ORDERS)):
            reach = [other for this, other in steps(lowest, highest) if this == t]
            exact = max(exact_bit_rdp(bits[t], bits[other], order) for other in reach)
            assert close(ours[row, column], exact), (t, order)

    def test_golden_value(self):
        value = threshold_rdp([180], 200, 150, [14], lowest=25, highest=250)[0, 0]
        assert rounds_to(value, "1.975796653e-4")

    @settings(max_examples=50)
    @given(
        threshold=st.floats(-50, 350),
        sigma=st.floats(0.5, 500),
        order=st.floats(1.01, 300),
        lowest=st.integers(0, 20),
    )
    def test_lies_below_the_worst_case_and_the_gaussian(self, threshold, sigma, order, lowest):
        highest = 300
        tops = np.arange(lowest, highest + 1)
        each = threshold_rdp(tops, threshold, sigma, [order], lowest=lowest, highest=highest)
        worst = threshold_rdp_worst(threshold, sigma, lowest, highest, [order])[0]
        assert each.max() == pytest.approx(worst, rel=1e-12, abs=ROUNDING)
        assert worst <= gaussian_rdp(sigma, [order])[0] * (1 + 1e-11) + ROUNDING

    def test_shape_order_and_repetition_of_queries(self):
        tops = [7, 3, 7, 5]
        costs = threshold_rdp(tops, 5, 2.0, ORDERS, lowest=0, highest=8)
        assert costs.shape == (4, len(ORDERS))
        for row, top in zip(costs, tops, strict=True):
            alone = threshold_rdp([top], 5, 2.0, ORDERS, lowest=0, highest=8)[0]
            assert np.array_equal(row, alone)
        assert threshold_rdp([], 5, 2.0, ORDERS, lowest=0, highest=8).shape == (0, len(ORDERS))
        assert threshold_rdp(5, 5, 2.0, [2], lowest=0, highest=8).shape == (1, 1)

    def test_a_statistic_that_cannot_move_costs_nothing(self):
        assert threshold_rdp([5], 5, 2.0, ORDERS, lowest=5, highest=5).max() == 0.0


class TestWorstCase:
    @pytest.mark.parametrize("check", CHECKS)
    def test_against_every_pair(self, check):
        threshold, sigma, lowest, highest = check
        ours = threshold_rdp_worst(threshold, sigma, lowest, highest, ORDERS)
        bits = {t: exact_check(t, threshold, sigma) for t in range(lowest, highest + 1)}
        for order, value in zip(ORDERS, ours, strict=True):
            exact = max(
                exact_bit_rdp(bits[t], bits[other], order) for t, other in steps(lowest, highest)
            )
            assert close(value, exact), order

    @pytest.mark.parametrize("order", [399, 400, 401, 402, 410])
    def test_far_from_the_threshold_at_large_orders(self, order):
        """Pr[yes] is e^-12800 here, yet it decides: 0 would understate the cost."""
        bits = [exact_check(t, 1000, 5.0) for t in (199, 200)]
        exact = max(exact_bit_rdp(*bits, order), exact_bit_rdp(*bits[::-1], order))
        ours = threshold_rdp_worst(1000, 5.0, 0, 200, [order])[0]
        # Exponents of ten thousand and more lose eight digits.
        assert ours == pytest.approx(float(exact), rel=1e-8, abs=0)

    def test_golden_value(self):
        assert rounds_to(threshold_rdp_worst(210, 85, 0, 300, [10])[0], "4.406651459e-4")

    @pytest.mark.parametrize(
        ("order", "lowest", "worst", "heuristic"),
        [
            (10, 0, {205, 215}, ".999"),
            (50, 0, {181, 239}, ".961"),
            (100, 0, {150, 270}, ".862"),
            (200, 0, {68}, ".617"),
            (400, 30, {31}, ".406"),
            (400, 0, {1}, ".377"),
        ],
    )
    def test_the_worst_count_is_neither_the_threshold_nor_the_end(
        self, order, lowest, worst, heuristic
    ):
        tops = np.arange(lowest, 301)
        costs = threshold_rdp(tops, 210, 85, [order], lowest=lowest, highest=300)[:, 0]
        supremum = threshold_rdp_worst(210, 85, lowest, 300, [order])[0]
        assert costs.max() == pytest.approx(supremum, rel=1e-12, abs=0)
        assert set(tops[costs >= supremum * (1 - 1e-12)].tolist()) == worst
        at_threshold_or_end = max(costs[tops == 210][0], costs[tops == 300][0])
        assert rounds_to(at_threshold_or_end / supremum, heuristic)

    @settings(max_examples=50)
    @given(
        low=st.floats(0.5, 200),
        high=st.floats(0.5, 200),
        threshold=st.floats(0, 60),
        highest=st.integers(1, 60),
    )
    def test_rises_with_the_order_and_with_the_range(self, low, high, threshold, highest):
        for sigma in (low, high):
            values = threshold_rdp_worst(threshold, sigma, 0, highest, ORDERS)
            assert (np.diff(values) >= -ROUNDING).all()
            narrower = threshold_rdp_worst(threshold, sigma, 0, highest // 2, ORDERS)
            assert (narrower <= values + ROUNDING).all()

    @settings(max_examples=50)
    @given(low=st.floats(1, 200), high=st.floats(1, 200), threshold=st.integers(0, 60))
    def test_falls_with_the_noise(self, low, high, threshold):
        """With the threshold inside the range, which then reaches the worst t of both."""
        low, high = sorted((low, high))
        orders = [1.01, 2.0, 6.0]
        quieter = threshold_rdp_worst(threshold, low, 0, 60, orders)
        louder = threshold_rdp_worst(threshold, high, 0, 60, orders)
        assert (louder <= quieter + ROUNDING).all()

    def test_a_statistic_that_cannot_move_costs_nothing(self):
        assert threshold_rdp_worst(5, 2.0, 5, 5, ORDERS).max() == 0.0

    def test_many_orders_at_once(self):
        """More orders than fit into one block give what they give one by one."""
        many = np.linspace(1.01, 90, 77)
        alone = [threshold_rdp_worst(4, 1.5, 0, 8, [order])[0] for order in many]
        assert np.allclose(threshold_rdp_worst(4, 1.5, 0, 8, many), alone, rtol=1e-14, atol=0)


class TestConfident:
    @pytest.mark.parametrize("sigma_answer", [0.7, 4.0, 40.0])
    @pytest.mark.parametrize("check", CHECKS)
    def test_against_every_pair(self, check, sigma_answer):
        threshold, sigma, lowest, highest = check
        ours = confident_rdp_worst(threshold, sigma, sigma_answer, lowest, highest, ORDERS)
        bits = {t: exact_check(t, threshold, sigma) for t in range(lowest, highest + 1)}
        for order, value in zip(ORDERS, ours, strict=True):
            answer = mp.mpf(order) / mp.mpf(sigma_answer) ** 2
            exact = max(
                exact_bit_rdp(bits[t], bits[other], order, answer)
                for t, other in steps(lowest, highest)
            )
            assert close(value, exact), order

    @settings(max_examples=50)
    @given(
        threshold=st.floats(0, 80),
        sigma=st.floats(0.5, 50),
        sigma_answer=st.floats(0.5, 50),
        order=st.floats(1.01, 60),
    )
    def test_lies_between_the_check_and_the_plain_sum(self, threshold, sigma, sigma_answer, order):
        composite = confident_rdp_worst(threshold, sigma, sigma_answer, 0, 60, [order])[0]
        check = threshold_rdp_worst(threshold, sigma, 0, 60, [order])[0]
        answer = order / sigma_answer**2
        assert check - ROUNDING <= composite <= (check + answer) * (1 + 1e-9) + ROUNDING

    def test_one_possible_statistic_still_pays_for_its_answer(self):
        p = exact_check(5, 7, 2.0)
        exact = exact_bit_rdp(p, p, 3.0, mp.mpf(3) / 16)
        assert close(confident_rdp_worst(7, 2.0, 4.0, 5, 5, [3.0])[0], exact)

    def test_at_each_query_with_its_own_answer(self):
        tops, answers = np.array([0, 3, 8]), np.array([[0.0, 0.3], [0.02, 0.5], [2.0, 40.0]])
        orders = [2.0, 8.0]
        ours = confident_rdp(tops, 4, 1.5, answers, orders, lowest=0, highest=8)
        bits = {t: exact_check(t, 4, 1.5) for t in range(9)}
        for (row, t), (column, order) in itertools.product(enumerate(tops), enumerate(orders)):
            exact = max(
                exact_bit_rdp(bits[t], bits[other], order, answers[row, column])
                for this, other in steps(0, 8)
                if this == t
            )
            assert close(ours[row, column], exact)

    def test_the_worst_answer_gives_the_worst_case(self):
        tops = np.arange(26)
        answers = np.broadcast_to(np.array(ORDERS) / 9.0, (26, len(ORDERS)))
        each = confident_rdp(tops, 14, 6.0, answers, ORDERS, lowest=0, highest=25)
        worst = confident_rdp_worst(14, 6.0, 3.0, 0, 25, ORDERS)
        assert np.allclose(each.max(axis=0), worst, rtol=1e-12, atol=0)


class TestPoisson:
    @pytest.mark.parametrize("rate", [0.02, 0.25, 1.0])
    @pytest.mark.parametrize(("threshold", "sigma"), [(4, 1.5), (10.5, 0.5), (-3, 2.0), (60, 2.0)])
    def test_against_every_mixture(self, rate, threshold, sigma):
        highest = 8
        ours = sampled_threshold_rdp(highest, threshold, sigma, rate, ORDERS)
        bits = [exact_check(t, threshold, sigma) for t in range(highest + 1)]
        for order, value in zip(ORDERS, ours, strict=True):
            exact = mp.mpf(0)
            for t, other in steps(0, highest):
                mixed = tuple(
                    (1 - mp.mpf(rate)) * a + mp.mpf(rate) * b
                    for a, b in zip(bits[t], bits[other], strict=True)
                )
                there = exact_bit_rdp(mixed, bits[t], order)
                exact = max(exact, there, exact_bit_rdp(bits[t], mixed, order))
            assert close(value, exact), order

    def test_golden_value(self):
        assert rounds_to(sampled_threshold_rdp(300, 210, 85, 0.25, [8])[0], "2.203150303e-5")

    @settings(max_examples=40)
    @given(
        rate=st.floats(0.001, 1),
        threshold=st.integers(0, 30),
        sigma=st.floats(1, 80),
        order=st.floats(1.01, 40),
    )
    def test_lies_below_the_subsampled_gaussian(self, rate, threshold, sigma, order):
        ours = sampled_threshold_rdp(30, threshold, sigma, rate, [order])[0]
        assert ours <= poisson_gaussian_rdp(rate, sigma, [order])[0] * (1 + 1e-9) + ROUNDING

    def test_small_orders_cost_two_thirds_of_the_gaussian(self):
        ours = sampled_threshold_rdp(300, 210, 85, 0.25, [1.1])[0]
        assert rounds_to(ours / poisson_gaussian_rdp(0.25, 85, [1.1])[0], ".637")

    def test_everybody_sampled_is_the_plain_check(self):
        whole = sampled_threshold_rdp(8, 4, 1.5, 1.0, ORDERS)
        assert np.allclose(whole, threshold_rdp_worst(4, 1.5, 0, 8, ORDERS), rtol=1e-12, atol=0)

    @settings(max_examples=40)
    @given(low=st.floats(0.01, 1), high=st.floats(0.01, 1))
    def test_rises_with_the_rate(self, low, high):
        low, high = sorted((low, high))
        fewer = sampled_threshold_rdp(8, 4, 1.5, low, ORDERS)
        assert (fewer <= sampled_threshold_rdp(8, 4, 1.5, high, ORDERS) + ROUNDING).all()

    @pytest.mark.parametrize("labels", list(itertools.product(range(2), repeat=5)))
    def test_no_small_private_knn_costs_more(self, labels):
        """Every Poisson sample of five ordered records, against the data set less one record."""
        k, rate, threshold, sigma = 3, 0.4, 2, 1.2
        orders = np.array([1.5, 4.0, 20.0])
        bound = sampled_threshold_rdp(k, threshold, sigma, rate, orders)
        whole = knn_bit(labels, k, rate, threshold, sigma)
        for missing in range(len(labels)):
            less = knn_bit(labels[:missing] + labels[missing + 1 :], k, rate, threshold, sigma)
            for order, limit in zip(orders, bound, strict=True):
                assert exact_bit_rdp(whole, less, order) <= limit * (1 + 1e-9)
                assert exact_bit_rdp(less, whole, order) <= limit * (1 + 1e-9)


def knn_bit(labels, k, rate, threshold, sigma):
    """Pr[yes], Pr[no] of Private-kNN's screening, over every sample; nearest records first."""
    bits = [exact_check(t, threshold, sigma) for t in range(k + 1)]
    outcome = [mp.mpf(0), mp.mpf(0)]
    for taken in itertools.product((False, True), repeat=len(labels)):
        size = sum(taken)
        weight = mp.mpf(rate) ** size * (1 - mp.mpf(rate)) ** (len(labels) - size)
        nearest = [label for label, inside in zip(labels, taken, strict=True) if inside][:k]
        top = max((nearest.count(label) for label in set(nearest)), default=0)
        for side in range(2):
            outcome[side] += weight * bits[top][side]
    return tuple(outcome)
