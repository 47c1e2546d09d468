"""Gaussian noise on a Poisson sample (docs/theory/subsampling.md) against quadrature."""

from __future__ import annotations

import logging
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import (
    NOT_ORDERS,
    NOT_POSITIVE,
    NOT_RATES,
    cases,
    exact_subsampled_rdp,
    refuses,
    rounds_to,
)

from tacit.privacy import (
    DEFAULT_ORDERS,
    RdpCurve,
    gaussian_rdp,
    poisson_gaussian_rdp,
    sampled_threshold_rdp,
)

rates = st.floats(1e-4, 0.999)
multipliers = st.floats(0.3, 50)
ORDERS = np.array([1.01, 1.1, 1.5, 2.0, 2.5, 3.0, 7.3, 8.0, 20.5, 64.0])


class TestAgainstQuadrature:
    @pytest.mark.parametrize(
        ("rate", "mu", "order"),
        [
            (1e-3, 0.2, 1.01),
            (0.05, 0.2, 1.5),
            (0.25, 1 / 85, 2.0),
            (0.1, 1.0, 1.5),
            (0.1, 1.0, 3.0),
            (0.1, 1.0, 3.7),
            (0.01, 2.5, 2.5),
            (0.9, 0.5, 12.5),
            (0.5, 3.0, 4.3),
            (0.999, 1.0, 1.1),
        ],
    )
    def test_is_the_larger_direction(self, rate, mu, order):
        forward = exact_subsampled_rdp(rate, mu, order)
        assert exact_subsampled_rdp(rate, mu, order, reverse=True) < forward
        ours = poisson_gaussian_rdp(rate, 1 / mu, [order])[0]
        assert abs(float(ours / forward - 1)) < 1e-12

    @pytest.mark.parametrize("above_one", [1e-13, 1e-9, 1e-6, 1e-3])
    @pytest.mark.parametrize("mu", [0.2, 2.0])
    def test_orders_close_to_one_keep_their_digits(self, mu, above_one):
        """Towards order 1 the value tends to the Kullback-Leibler divergence, steadily."""
        rate, order = 0.1, 1 + above_one

        def kl(x):
            t = mp.mpf(rate) * mp.expm1(mu * x - mp.mpf(mu) ** 2 / 2)
            return ((1 + t) * mp.log1p(t) - t) * mp.npdf(x)

        divergence = float(mp.quad(kl, [-12, -4, 0, 4, 8, 14]))
        ours = poisson_gaussian_rdp(rate, 1 / mu, [order])[0]
        assert divergence * (1 - 1e-12) <= ours <= divergence * (1 + 10 * above_one + 1e-12)

    @pytest.mark.parametrize("order", [2, 3, 17])
    @pytest.mark.parametrize(("rate", "mu"), [(1e-3, 0.05), (0.3, 1.0), (0.02, 4.0)])
    def test_integer_orders_are_the_binomial_sum(self, rate, mu, order):
        with mp.workdps(60):
            g, m = mp.mpf(rate), mp.mpf(mu)
            moment = mp.fsum(
                mp.binomial(order, j)
                * (1 - g) ** (order - j)
                * g**j
                * mp.exp(j * (j - 1) * m**2 / 2)
                for j in range(order + 1)
            )
            exact = mp.log(moment) / (order - 1)
        assert poisson_gaussian_rdp(rate, 1 / mu, [order])[0] == pytest.approx(
            float(exact), rel=1e-12, abs=0
        )

    @given(rate=rates, multiplier=st.floats(0.2, 50), order=st.integers(2, 60))
    def test_real_orders_meet_the_integer_ones(self, rate, multiplier, order):
        """Quadrature and binomial sum are two computations of one continuous function."""
        below, at, above = poisson_gaussian_rdp(
            rate, multiplier, [order - 1e-9, order, order + 1e-9]
        )
        assert below == pytest.approx(at, rel=1e-6, abs=0)
        assert above == pytest.approx(at, rel=1e-6, abs=0)


class TestGoldenValues:
    def test_section_8(self):
        value = poisson_gaussian_rdp(0.05, 5 / math.sqrt(2), [8])[0]
        assert rounds_to(value, "8.536918171e-4")

    def test_private_knn_figure_3(self):
        orders = np.arange(2, 257)  # the figure's integer orders
        gaussian = RdpCurve(orders, poisson_gaussian_rdp(0.25, 85, orders)) * 8192
        screening = RdpCurve(orders, sampled_threshold_rdp(300, 210, 85, 0.25, orders)) * 8192
        whole = RdpCurve(orders, gaussian_rdp(85, orders)) * 8192
        assert rounds_to(gaussian.epsilon(1e-5, "classic"), "1.313")
        assert abs(gaussian.epsilon(1e-5) - 1.085) < 0.001  # the best of all orders is 1.0845
        assert rounds_to(screening.epsilon(1e-5, "classic"), "1.042")
        assert rounds_to(screening.epsilon(1e-5), ".848")
        assert rounds_to(whole.epsilon(1e-5, "classic"), "5.70")


class TestAgainstDpAccounting:
    @pytest.fixture
    def their_rdp(self):
        events = pytest.importorskip("dp_accounting")
        rdp = pytest.importorskip("dp_accounting.rdp")

        def compute(rate, multiplier, orders):
            accountant = rdp.RdpAccountant(orders=list(orders))
            accountant.compose(
                events.PoissonSampledDpEvent(rate, events.GaussianDpEvent(multiplier))
            )
            return np.asarray(accountant._rdp)

        logging.getLogger("absl").setLevel(logging.ERROR)  # it reports orders it gives up on
        return compute

    def test_it_is_loose_at_a_fractional_order(self, their_rdp):
        assert rounds_to(their_rdp(0.05, 5.0, [1.5])[0], "1.15e-4")
        assert rounds_to(poisson_gaussian_rdp(0.05, 5.0, [1.5])[0], "7.64e-5")

    def test_it_gives_up_at_another(self, their_rdp):
        assert their_rdp(0.1, 1.0, [1.5])[0] == math.inf
        exact = float(exact_subsampled_rdp(0.1, 1.0, 1.5))
        assert poisson_gaussian_rdp(0.1, 1.0, [1.5])[0] == pytest.approx(exact, rel=1e-12, abs=0)

    @pytest.mark.parametrize("rate", [0.01, 0.2])
    @pytest.mark.parametrize("multiplier", [0.8, 2.0, 10.0])
    def test_it_is_never_below_and_equal_at_integers(self, their_rdp, rate, multiplier):
        theirs = their_rdp(rate, multiplier, ORDERS)
        ours = poisson_gaussian_rdp(rate, multiplier, ORDERS)
        assert (ours <= theirs * (1 + 1e-9)).all()
        whole = np.floor(ORDERS) == ORDERS
        assert np.allclose(ours[whole], theirs[whole], rtol=1e-9, atol=0)


class TestShape:
    @settings(max_examples=50)
    @given(rate=rates, multiplier=multipliers)
    def test_rises_with_the_order_up_to_the_whole_gaussian(self, rate, multiplier):
        values = poisson_gaussian_rdp(rate, multiplier, ORDERS)
        assert (np.diff(values) >= 0).all()
        assert (values <= gaussian_rdp(multiplier, ORDERS) * (1 + 1e-12)).all()

    @settings(max_examples=50)
    @given(low=rates, high=rates, multiplier=multipliers)
    def test_rises_with_the_rate(self, low, high, multiplier):
        low, high = sorted((low, high))
        fewer = poisson_gaussian_rdp(low, multiplier, ORDERS)
        assert (fewer <= poisson_gaussian_rdp(high, multiplier, ORDERS) * (1 + 1e-10)).all()

    @settings(max_examples=50)
    @given(rate=rates, low=multipliers, high=multipliers)
    def test_falls_with_the_noise(self, rate, low, high):
        low, high = sorted((low, high))
        quieter = poisson_gaussian_rdp(rate, low, ORDERS)
        assert (quieter * (1 + 1e-10) >= poisson_gaussian_rdp(rate, high, ORDERS)).all()

    def test_every_record_sampled_is_the_plain_gaussian(self):
        assert np.array_equal(poisson_gaussian_rdp(1.0, 2.0, ORDERS), gaussian_rdp(2.0, ORDERS))
        almost = poisson_gaussian_rdp(1 - 1e-12, 2.0, ORDERS)
        assert np.allclose(almost, gaussian_rdp(2.0, ORDERS), rtol=1e-9, atol=0)

    def test_small_rates_cost_their_square(self):
        """D_a tends to a rate^2 (e^(mu^2) - 1)/2."""
        values = poisson_gaussian_rdp(1e-8, 1.0, [1.5, 2.0, 4.5])
        assert np.allclose(
            values, np.array([1.5, 2.0, 4.5]) * 1e-16 * math.expm1(1) / 2, rtol=1e-6, atol=0
        )

    def test_orders_keep_their_places(self):
        shuffled = [7.3, 2.0, 1.5, 8.0]
        each = [poisson_gaussian_rdp(0.1, 1.0, [order])[0] for order in shuffled]
        assert poisson_gaussian_rdp(0.1, 1.0, shuffled).tolist() == each

    def test_lemma_3_of_the_supplement_is_tenfold_loose(self):
        """RDP <= 6 rate^2 a/sigma^2 for a <= sigma^2 log(1/rate)/2; the true constant is .591."""
        largest = 0.0
        for rate in (0.001, 0.05, 0.25):
            for sigma in (10.0, 85.0):
                last = sigma**2 * math.log(1 / rate) / 2
                reach = DEFAULT_ORDERS[last >= DEFAULT_ORDERS]
                limit = 6 * rate**2 * reach / sigma**2
                largest = max(largest, (poisson_gaussian_rdp(rate, sigma, reach) / limit).max())
        assert 0.08 < largest <= 0.591 / 6

    @pytest.mark.parametrize("multiplier", [0.033, 0.01, 1e-4])
    def test_almost_no_noise_rounds_the_order_up(self, multiplier):
        real, whole, plain = (
            poisson_gaussian_rdp(0.1, multiplier, [2.5])[0],
            poisson_gaussian_rdp(0.1, multiplier, [3.0])[0],
            gaussian_rdp(multiplier, [2.5])[0],
        )
        assert real == min(whole, plain)
        forward = 2.5 * math.log(0.1) / 1.5 + plain  # (rate N(mu,1))^a alone is below the mixture
        assert real >= forward

    @pytest.mark.parametrize(
        ("multiplier", "limit"), [(1e-200, math.inf), (1e200, 0.0)], ids=["none", "endless"]
    )
    def test_beyond_double_range_the_limit_without_warning(self, multiplier, limit):
        assert poisson_gaussian_rdp(0.1, multiplier, [2.0, 2.5]).tolist() == [limit, limit]


@pytest.mark.parametrize(
    ("name", "bad"), cases(rate=NOT_RATES, noise_multiplier=NOT_POSITIVE, orders=NOT_ORDERS)
)
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_bad_arguments_are_refused_by_name(rate, name, bad):
    good = {"rate": rate, "noise_multiplier": 1.0, "orders": [2, 2.5]}
    refuses(poisson_gaussian_rdp, good, name, bad)
