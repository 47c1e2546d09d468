"""The exact Gaussian curve against mpmath (docs/theory/gaussian.md#the-exact-curve)."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import (
    NEGATIVE,
    NOT_DELTAS,
    NOT_ORDERS,
    NOT_POSITIVE,
    cases,
    exact_gaussian_delta,
    refuses,
    relative_excess_of_mu,
    rounds_to,
)

from tacit.errors import InvalidArgument
from tacit.privacy import (
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_rdp,
)
from tacit.privacy.gaussian import gaussian_log_delta

EPSILONS = [0.0, 1e-9, 1e-6, 1e-3, 0.1, 0.999, 1.0, 1.001, 8.0, 60.0, 300.0, 700.0]
DELTAS = [0.9, 0.5, 1e-2, 1e-5, 1e-14, 1e-30, 1e-60, 1e-100]
NOT_LEVELS = [-1.0, math.nan, math.inf, True, None, "1", 1j, [0.5, -1], [math.nan], 10**400]

epsilons = st.floats(0, 700)
deltas = st.floats(1e-100, 0.99)
mus = st.floats(1e-3, 40)


class TestCalibration:
    @pytest.mark.parametrize(
        ("epsilon", "delta", "printed"),
        [
            (1e-3, 1e-5, "1724.259034"),
            (1e-3, 1e-30, "10411.13795"),
            (1, 1e-5, "3.730631635"),
            (1, 1e-30, "11.08310295"),
            (8, 1e-3, "0.4800"),
            (8, 1e-5, "0.6002290722"),
            (8, 1e-30, "1.444975669"),
            (100, 1e-5, "0.09466990701"),
            (100, 1e-30, "0.147642482"),
        ],
    )
    def test_reference_values(self, epsilon, delta, printed):
        assert rounds_to(1 / gaussian_mu(epsilon, delta), printed)
        rounded_up = calibrate_gaussian(1, epsilon, delta)
        assert 0.5e-9 < rounded_up * gaussian_mu(epsilon, delta) - 1 < 1.5e-9

    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("delta", DELTAS)
    def test_mu_is_exact_and_sigma_never_too_small(self, epsilon, delta):
        """Relative error 1e-13 of sigma; at epsilon = 0 a closed form is rounded down by 1e-12."""
        excess = relative_excess_of_mu(epsilon, gaussian_mu(epsilon, delta), delta)
        assert (-1.1e-12 if epsilon == 0 else -1e-13) < excess < 1e-13
        sigma = calibrate_gaussian(1.0, epsilon, delta)
        assert exact_gaussian_delta(epsilon, 1 / sigma) <= mp.mpf(delta)

    @settings(max_examples=30)
    @given(epsilon=epsilons, delta=deltas, sensitivity=st.floats(1e-6, 1e6))
    def test_sigma_is_proportional_to_sensitivity(self, epsilon, delta, sensitivity):
        unit = calibrate_gaussian(1.0, epsilon, delta)
        scaled = calibrate_gaussian(sensitivity, epsilon, delta)
        assert scaled == pytest.approx(sensitivity * unit, rel=1e-14, abs=0)

    @settings(max_examples=30)
    @given(low=epsilons, high=epsilons, delta=deltas)
    def test_a_larger_budget_needs_less_noise(self, low, high, delta):
        low, high = sorted((low, high))
        assert gaussian_mu(low, delta) <= gaussian_mu(high, delta) * (1 + 1e-12)

    @pytest.mark.parametrize(
        ("epsilon", "classical", "needed"), [(16, "0.3028", "0.3442"), (32, "0.1514", "0.2049")]
    )
    def test_the_classical_formula_is_too_small(self, epsilon, classical, needed):
        textbook = math.sqrt(2 * math.log(1.25e5)) / epsilon
        assert rounds_to(textbook, classical)
        assert rounds_to(calibrate_gaussian(1, epsilon, 1e-5), needed)
        assert gaussian_delta(epsilon, 1 / textbook) > 1e-5

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [(1e-200, 1e-210), (1e6, 1e-5), (1e300, 1e-5), (1e-300, 0.5)]
    )
    def test_extreme_budgets_bracket_delta(self, epsilon, delta):
        mu = gaussian_mu(epsilon, delta)
        target = math.log(delta)
        assert gaussian_log_delta(epsilon, mu) <= target
        assert gaussian_log_delta(epsilon, mu * (1 + 1e-9)) > target


class TestDelta:
    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("delta", DELTAS)
    def test_relative_error(self, epsilon, delta):
        mu = gaussian_mu(epsilon, delta)
        exact = exact_gaussian_delta(epsilon, mu)
        assert abs(float(mp.mpf(gaussian_delta(epsilon, mu)) / exact - 1)) < 1e-13

    @settings(max_examples=60)
    @given(epsilon=epsilons, mu=mus)
    def test_log_delta_where_delta_may_underflow(self, epsilon, mu):
        exact = mp.log(exact_gaussian_delta(epsilon, mu, digits=60))
        ours = gaussian_log_delta(epsilon, mu)
        assert abs(float(ours - exact)) < 2e-13 + 1e-13 * abs(float(exact))

    @given(epsilon=epsilons, low=mus, high=mus)
    def test_rises_with_mu(self, epsilon, low, high):
        low, high = sorted((low, high))
        assert gaussian_log_delta(epsilon, low) <= gaussian_log_delta(epsilon, high) + 1e-9

    @given(low=epsilons, high=epsilons, mu=mus)
    def test_falls_with_epsilon(self, low, high, mu):
        low, high = sorted((low, high))
        assert gaussian_delta(high, mu) <= gaussian_delta(low, mu) * (1 + 1e-12)

    @given(epsilon=epsilons, mu=mus)
    def test_is_a_probability(self, epsilon, mu):
        assert 0 <= gaussian_delta(epsilon, mu) <= 1

    def test_no_shift_no_delta(self):
        assert gaussian_delta(0.0, 0.0) == 0.0
        assert gaussian_log_delta(1.0, 0.0) == -math.inf

    def test_total_variation_at_epsilon_zero(self):
        assert gaussian_delta(0.0, 2.0) == pytest.approx(
            math.erf(1 / math.sqrt(2)), rel=1e-15, abs=0
        )

    def test_broadcasts(self):
        grid = gaussian_delta(np.array([[0.5], [1.0]]), np.array([0.3, 0.6, 0.9]))
        assert grid.shape == (2, 3)
        expected = [[gaussian_delta(e, m) for m in (0.3, 0.6, 0.9)] for e in (0.5, 1.0)]
        assert np.array_equal(grid, expected)
        assert type(gaussian_delta(1.0, 1.0)) is float

    @pytest.mark.parametrize(
        ("epsilon", "mu", "limit"),
        [(700, 1e-200, 0.0), (1, 1e-310, 0.0), (1, 1e200, 1.0), (1e300, 1e10, 0.0), (1e20, 1, 0.0)],
    )
    def test_beyond_double_range_the_limit_without_warning(self, epsilon, mu, limit):
        assert gaussian_delta(epsilon, mu) == limit


class TestEpsilon:
    def test_the_papers_mnist_run(self):
        mu = math.sqrt(640 / 150**2 + 2 * 286 / 40**2)
        assert rounds_to(mu, "0.6212")
        assert rounds_to(gaussian_epsilon(1e-5, mu), "2.542602085")

    @settings(max_examples=60)
    @given(delta=deltas, mu=mus)
    def test_is_the_smallest_that_the_exact_curve_allows(self, delta, mu):
        epsilon = gaussian_epsilon(delta, mu)
        assert gaussian_log_delta(epsilon, mu) <= math.log(delta)  # rounded up, not to nearest
        assert exact_gaussian_delta(epsilon, mu, 60) <= mp.mpf(delta) * (1 + mp.mpf("1e-11"))
        if epsilon > 0:
            below = epsilon * (1 - 1e-12)
            assert exact_gaussian_delta(below, mu, 60) >= mp.mpf(delta) * (1 - mp.mpf("1e-11"))

    @settings(max_examples=30)
    @given(epsilon=st.floats(1e-3, 700), delta=deltas)
    def test_inverts_mu(self, epsilon, delta):
        back = gaussian_epsilon(delta, gaussian_mu(epsilon, delta))
        assert back == pytest.approx(epsilon, rel=1e-11, abs=1e-13)

    @settings(max_examples=30)
    @given(delta=deltas, low=mus, high=mus)
    def test_rises_with_mu(self, delta, low, high):
        low, high = sorted((low, high))
        assert gaussian_epsilon(delta, low) <= gaussian_epsilon(delta, high) * (1 + 1e-12)

    @pytest.mark.parametrize("mu", [1e5, 1e8, 1e9, 1e10, 1e12])
    def test_never_below_the_loss_of_a_large_mu(self, mu):
        """delta <= Phi(-4.26) needs epsilon >= mu^2/2 + 4.26 mu, up to what 1/mu leaves."""
        assert gaussian_epsilon(1e-5, mu) - mu**2 / 2 >= 4.26 * mu

    def test_zero_where_delta_alone_pays(self):
        assert gaussian_epsilon(0.5, 0.1) == 0.0
        assert gaussian_epsilon(1e-5, 0.0) == 0.0

    def test_beyond_the_largest_float_it_is_infinite_of_one_and_of_many(self):
        assert gaussian_epsilon(1e-5, 1e155) == math.inf
        many = gaussian_epsilon(1e-5, [1e155, 0.0, 1e308, 0.6212])
        assert many[:3].tolist() == [math.inf, 0.0, math.inf]
        assert many[3] == pytest.approx(2.5424, abs=1e-4)

    def test_arrays_keep_their_shape(self):
        values = gaussian_epsilon(1e-5, [[0.0, 0.3, 1.0], [2.0, 5.0, 9.0]])
        each = [[gaussian_epsilon(1e-5, mu) for mu in row] for row in ([0, 0.3, 1], [2, 5, 9])]
        assert values.shape == (2, 3)
        assert np.allclose(values, each, rtol=1e-14, atol=0)
        assert gaussian_epsilon(1e-5, []).shape == (0,)


class TestRdp:
    @pytest.mark.parametrize("order", [1.25, 2.0, 9.5])
    @pytest.mark.parametrize("noise_multiplier", [0.7, 3.0])
    def test_against_quadrature(self, noise_multiplier, order):
        shift, a = mp.mpf(1) / noise_multiplier, mp.mpf(order)

        def integrand(x):
            return mp.npdf(x, shift) ** a * mp.npdf(x) ** (1 - a)

        moment = mp.quad(integrand, [-20, 0, a * shift, 20 + a * shift])
        exact = float(mp.log(moment) / (a - 1))
        assert gaussian_rdp(noise_multiplier, [order])[0] == pytest.approx(exact, rel=1e-12, abs=0)

    @pytest.mark.parametrize(("multiplier", "limit"), [(1e200, 0.0), (1e-200, math.inf)])
    def test_beyond_double_range_the_limit_without_warning(self, multiplier, limit):
        assert gaussian_rdp(multiplier, [2.0])[0] == limit


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "bad"), cases(noise_multiplier=NOT_POSITIVE, orders=NOT_ORDERS)
    )
    def test_rdp(self, name, bad):
        refuses(gaussian_rdp, {"noise_multiplier": 1.0, "orders": [2]}, name, bad)

    @pytest.mark.parametrize(("name", "bad"), cases(epsilon=NOT_LEVELS, mu=NOT_LEVELS))
    def test_delta(self, name, bad):
        refuses(gaussian_delta, {"epsilon": 1.0, "mu": 1.0}, name, bad)

    @pytest.mark.parametrize(("name", "bad"), cases(delta=NOT_DELTAS, mu=NOT_LEVELS))
    def test_epsilon(self, name, bad):
        refuses(gaussian_epsilon, {"delta": 1e-5, "mu": 1.0}, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"), cases(sensitivity=NOT_POSITIVE, epsilon=NEGATIVE, delta=NOT_DELTAS)
    )
    def test_calibration(self, name, bad):
        refuses(calibrate_gaussian, {"sensitivity": 1.0, "epsilon": 1.0, "delta": 1e-5}, name, bad)

    @pytest.mark.parametrize(("name", "bad"), cases(epsilon=NEGATIVE, delta=NOT_DELTAS))
    def test_mu(self, name, bad):
        refuses(gaussian_mu, {"epsilon": 1.0, "delta": 1e-5}, name, bad)

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(InvalidArgument, match="epsilon and mu to broadcast"):
            gaussian_delta([1, 2], [1, 2, 3])
