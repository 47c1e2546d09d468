"""What Private-kNN costs, against mpmath, quadrature and brute force.

Proofs: docs/theory/private-knn.md.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import (
    NOT_NUMBERS,
    NOT_ORDERS,
    NOT_POSITIVE,
    NOT_RATES,
    cases,
    exact_bit_rdp,
    exact_check,
    exact_subsampled_rdp,
    refuses,
    rounds_to,
)

from tacit.mechanisms import SampledMax
from tacit.privacy import (
    confident_rdp_worst,
    gaussian_rdp,
    poisson_gaussian_rdp,
    sampled_exponential_rdp,
    sampled_screening_rdp,
    sampled_threshold_rdp,
    threshold_rdp_worst,
)

ORDERS = [1.01, 1.5, 2.0, 8.0, 30.5, 120.0]
NOT_COUNTS = [0, -1, 1.5, 3.0, 2**24 + 1, *NOT_NUMBERS]

# k, threshold, sigma, rate, displaced: loud and quiet, inside and far outside, rare and certain
CHECKS = [
    (8, 4.0, 1.5, 0.25, 1),
    (8, 4.0, 1.5, 1.0, 3),
    (6, 2.5, 0.05, 0.3, 1),
    (6, 900.0, 4.0, 0.1, 2),
    (5, -60.0, 1.0, 0.9, 5),
    (7, 3.0, 500.0, 1e-7, 1),
    (4, 2.0, 1.0, 1 - 1e-9, 4),
    (1, 0.5, 2.0, 0.5, 1),
]


def sampled_noisy_max_rdp(sigma, rate, orders, votes_per_unit=1):
    """What a noisy plurality, or a histogram, of sampled neighbours is priced at."""
    return SampledMax(sigma, votes_per_unit, rate, votes_per_unit).cost(orders).values


@pytest.fixture(scope="module", autouse=True)
def many_digits():
    with mp.workdps(60):
        yield


def every_pair(k, displaced):
    return [(t, u) for t in range(k + 1) for u in range(k + 1) if 0 < abs(t - u) <= displaced]


def exact_screening(check, order, answer=0):
    """Brute force over all pairs, not the ends only, in both directions."""
    k, threshold, sigma, rate, displaced = check
    with mp.workdps(250):
        bits = [exact_check(t, threshold, sigma) for t in range(k + 1)]
        worst = mp.mpf(0)
        for t, other in every_pair(k, displaced):
            mixed = tuple(
                (1 - mp.mpf(rate)) * a + mp.mpf(rate) * b
                for a, b in zip(bits[t], bits[other], strict=True)
            )
            for first, second in ((mixed, bits[t]), (bits[t], mixed)):
                worst = max(worst, exact_bit_rdp(first, second, order, answer))
        return +worst


class TestScreening:
    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_is_the_largest_of_all_pairs(self, check):
        """To nine digits however small it is: nothing cancels, nothing underflows."""
        ours = sampled_threshold_rdp(*check[:4], ORDERS, displaced=check[4])
        for order, value in zip(ORDERS, ours, strict=True):
            exact = exact_screening(check, order)
            assert abs(value - exact) <= exact * mp.mpf(1e-9) + mp.mpf(10) ** -240, order

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_with_an_answer_is_the_composite(self, check):
        k, threshold, sigma, rate, displaced = check
        answer = np.array([0.0, 0.001, 0.2, 3.0, 40.0, 1.0])
        ours = sampled_screening_rdp(k, threshold, sigma, answer, rate, ORDERS, displaced)
        for order, extra, value in zip(ORDERS, answer, ours, strict=True):
            exact = exact_screening(check, order, mp.mpf(float(extra)))
            assert abs(value - exact) <= exact * mp.mpf(1e-9) + mp.mpf(10) ** -240, order

    def test_golden_value(self):
        assert rounds_to(sampled_threshold_rdp(300, 210, 85, 0.25, [8])[0], "2.203150303e-5")

    def test_an_answer_costs_at_most_the_sum(self):
        answer = sampled_noisy_max_rdp(25, 0.15, ORDERS)
        alone = sampled_threshold_rdp(300, 210, 85, 0.15, ORDERS)
        both = sampled_screening_rdp(300, 210, 85, answer, 0.15, ORDERS)
        assert (np.maximum(alone, both - alone - answer) <= alone * (1 + 1e-12)).all()
        assert (both > alone).all()

    def test_everybody_sampled_is_the_plain_check_and_answer(self):
        plain = threshold_rdp_worst(4, 1.5, 0, 8, ORDERS)
        assert np.allclose(sampled_threshold_rdp(8, 4, 1.5, 1.0, ORDERS), plain, rtol=1e-11, atol=0)
        answer = gaussian_rdp(3 / math.sqrt(2), ORDERS)
        both = sampled_screening_rdp(8, 4, 1.5, answer, 1.0, ORDERS)
        confident = confident_rdp_worst(4, 1.5, 3.0, 0, 8, ORDERS)
        assert np.allclose(both, confident, rtol=1e-11, atol=0)

    @settings(max_examples=40)
    @given(
        rate=st.floats(1e-6, 1),
        threshold=st.floats(-10, 40),
        sigma=st.floats(0.3, 80),
        displaced=st.integers(1, 5),
    )
    def test_lies_below_the_subsampled_gaussian(self, rate, threshold, sigma, displaced):
        ours = sampled_threshold_rdp(30, threshold, sigma, rate, ORDERS, displaced)
        gaussian = poisson_gaussian_rdp(rate, sigma / displaced, ORDERS)
        assert (ours <= gaussian * (1 + 1e-9)).all()

    @settings(max_examples=40)
    @given(low=st.floats(1e-6, 1), high=st.floats(1e-6, 1), c=st.integers(1, 6))
    def test_rises_with_rate_order_and_displacement(self, low, high, c):
        low, high = sorted((low, high))
        fewer = sampled_threshold_rdp(8, 4, 1.5, low, ORDERS, c)
        assert (np.diff(fewer) >= 0).all()
        for more in ((high, c), (low, c + 1)):
            assert (
                fewer <= sampled_threshold_rdp(8, 4, 1.5, more[0], ORDERS, more[1]) * (1 + 1e-9)
            ).all()

    def test_tiny_rates_cost_their_square(self):
        one, ten = (sampled_threshold_rdp(50, 30, 9, rate, [2.0])[0] for rate in (1e-9, 1e-8))
        assert ten / one == pytest.approx(100, rel=1e-5)
        assert 0 < one < 1e-20


class TestNoisyPlurality:
    @pytest.mark.parametrize(
        ("sigma", "rate", "c"), [(5.0, 0.05, 1), (4.0, 0.3, 2), (9.0, 0.01, 3)]
    )
    @pytest.mark.parametrize("order", [1.5, 8.0])
    def test_is_the_subsampled_gaussian(self, sigma, rate, c, order):
        exact = exact_subsampled_rdp(rate, math.sqrt(2) * c / sigma, order)
        ours = sampled_noisy_max_rdp(sigma, rate, [order], votes_per_unit=c)[0]
        assert ours == pytest.approx(float(exact), rel=1e-11, abs=0)

    def test_golden_value(self):
        assert rounds_to(sampled_noisy_max_rdp(5, 0.05, [8])[0], "8.536918171e-4")

    def test_everybody_sampled_is_order_over_sigma_squared(self):
        ours = sampled_noisy_max_rdp(4, 1.0, ORDERS, votes_per_unit=3)
        assert np.allclose(ours, np.array(ORDERS) * 9 / 16, rtol=1e-14, atol=0)


def exact_exponential(epsilon, rate, order, s):
    """Two outcomes at the ends of the range, the larger direction."""
    high, low = mp.e ** (mp.mpf(epsilon) - s), mp.e**-s
    weight = (1 - low) / (high - low)
    rate, a = mp.mpf(rate), mp.mpf(order)
    rise, fall = 1 + rate * (high - 1), 1 + rate * (low - 1)
    return max(
        mp.log(weight * rise**power + (1 - weight) * fall**power) / (a - 1) for power in (a, 1 - a)
    )


class TestExponential:
    @pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
    @pytest.mark.parametrize("rate", [1e-4, 0.2, 1.0])
    @pytest.mark.parametrize("order", [1.01, 4.0, 60.0])
    def test_is_barely_above_the_worst_range(self, epsilon, rate, order):
        ours = sampled_exponential_rdp(epsilon, rate, [order])[0]
        with mp.workdps(30):
            ends = [mp.mpf(epsilon) * i / 200 for i in range(1, 200)]
            exact = float(max(exact_exponential(epsilon, rate, order, s) for s in ends))
        assert exact <= ours * (1 + 1e-12)
        assert ours <= exact * (1.005 + 0.02 * epsilon)

    @settings(max_examples=60)
    @given(
        first=st.lists(st.floats(-5, 0), min_size=2, max_size=6),
        moves=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
        epsilon=st.floats(0.05, 4),
        rate=st.floats(0.001, 1),
    )
    def test_no_utilities_cost_more(self, first, moves, epsilon, rate):
        """Any utility on a few points, and any other that differs by at most 1 at each."""
        u = np.array(first)
        p, q = (np.exp(epsilon * x / 2) for x in (u, u + np.array(moves[: u.size])))
        p, q = p / p.sum(), q / q.sum()
        mixed = (1 - rate) * p + rate * q
        claim = sampled_exponential_rdp(epsilon, rate, ORDERS)
        for one, other in ((mixed, p), (p, mixed)):
            for order, limit in zip(ORDERS, claim, strict=True):
                logs = order * np.log(one) + (1 - order) * np.log(other)
                exact = float(np.logaddexp.reduce(logs)) / (order - 1)
                assert exact <= limit * (1 + 1e-9) + 1e-13

    @pytest.mark.parametrize("epsilon", [1e-6, 0.2, 2.0, 300.0])
    @pytest.mark.parametrize("rate", [1e-3, 0.5, 1.0])
    def test_lies_below_the_simple_bounds(self, epsilon, rate):
        ours = sampled_exponential_rdp(epsilon, rate, ORDERS)
        assert (ours <= np.array(ORDERS) * epsilon**2 / 8 * (1 + 1e-12)).all()
        pure = math.log1p(rate * math.expm1(epsilon))
        assert (ours <= pure * (1 + 1e-12)).all()
        assert (np.diff(ours) >= 0).all()

    def test_small_epsilon_costs_order_epsilon_squared_over_8(self):
        whole = sampled_exponential_rdp(1e-3, 1.0, [2.0])[0]
        assert whole == pytest.approx(2 * 1e-6 / 8, rel=0.005)
        sampled = sampled_exponential_rdp(1e-3, 0.1, [2.0])[0]
        assert sampled == pytest.approx(0.01 * whole, rel=0.005)


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            k=NOT_COUNTS,
            threshold=NOT_NUMBERS,
            sigma=NOT_POSITIVE,
            rate=NOT_RATES,
            orders=NOT_ORDERS,
            displaced=NOT_COUNTS,
        ),
    )
    def test_threshold(self, name, bad):
        good = {"k": 8, "threshold": 4, "sigma": 2.0, "rate": 0.1, "orders": [2], "displaced": 1}
        refuses(sampled_threshold_rdp, good, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            k=NOT_COUNTS,
            sigma_screen=NOT_POSITIVE,
            answer_rdp=[[1.0, 2.0], [-1.0], [math.nan], [[1.0]], "1", None],
            rate=NOT_RATES,
        ),
    )
    def test_screening(self, name, bad):
        good = {
            "k": 8,
            "threshold": 4,
            "sigma_screen": 2.0,
            "answer_rdp": [0.1],
            "rate": 0.1,
            "orders": [2],
        }
        refuses(sampled_screening_rdp, good, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(epsilon=[*NOT_POSITIVE, 501], rate=NOT_RATES, orders=NOT_ORDERS),
    )
    def test_exponential(self, name, bad):
        refuses(sampled_exponential_rdp, {"epsilon": 1, "rate": 0.1, "orders": [2]}, name, bad)
