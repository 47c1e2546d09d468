"""Publishing a data-dependent cost: the corrected GNSS theorem and the two-stage release
(docs/theory/smooth-sensitivity.md#one-noisy-number-gnss and #two-stages-sanitise).
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import NOT_DELTAS, NOT_POSITIVE, cases, refuses, rounds_to
from scipy.special import logsumexp
from scipy.stats import norm

from tacit.errors import InvalidArgument
from tacit.privacy import gaussian_rdp, gnss_rdp, sanitise_cost

# PATE 2018, Table 2: order, beta, sigma_SS of each row, and the printed cost of the release
ROWS = [
    (14, 0.0329, 6.23, ".518", "1.607"),
    (7.5, 0.0533, 4.88, ".536", ".634"),
    (15.5, 0.0310, 7.92, ".408", "1.763"),
    (20.5, 0.0205, 11.9, ".219", ".417"),
    (50, 0.009, 26.4, ".106", ".340"),
    (50, 0.008, 38.7, ".058", ".088"),
]

NOT_AN_ORDER = [1, 0.5, -3, math.nan, math.inf, True, None, "14", [14], [14, 20], 1j, 10**400]


def theorem_23(order: float, beta: float, sigma: float) -> float:
    """Theorem 23 as PATE 2018 prints it. It is false; it is here to be refuted."""
    a, b = order, beta
    return a * math.exp(2 * b) / sigma**2 + (b * a - 0.5 * math.log(1 - 2 * a * b)) / (a - 1)


def divergence(shift: float, scale: float, other_scale: float, order: float) -> float:
    """D_a(N(0, scale^2) || N(shift, other_scale^2)) by the trapezoid rule around the peak."""
    a, s, t = order, scale, other_scale
    precision = a / s**2 + (1 - a) / t**2
    width = 1 / math.sqrt(precision)
    x = (1 - a) * shift / t**2 / precision + width * np.linspace(-14, 14, 1001)
    logs = a * norm.logpdf(x, 0, s) + (1 - a) * norm.logpdf(x, shift, t)
    return float(logsumexp(logs) + math.log(x[1] - x[0])) / (a - 1)


class TestGnss:
    @pytest.mark.parametrize(("order", "beta", "sigma", "printed", "correct"), ROWS)
    def test_table_2(self, order, beta, sigma, printed, correct):
        assert abs(theorem_23(order, beta, sigma) - float(printed)) < 0.001
        assert rounds_to(gnss_rdp(order, beta, sigma), correct)

    def test_golden_values(self):
        assert rounds_to(theorem_23(14, 0.0329, 6.23), ".5183929399")
        assert rounds_to(gnss_rdp(14, 0.0329, 6.23), "1.6070558409")
        assert rounds_to(gnss_rdp(14, 0.2 / 14, 6.23), ".2932920154")

    @pytest.mark.parametrize(
        ("expected_epsilon", "row", "sanitised"),
        [(2.00, 0, "3.61"), (4.96, 1, "5.59"), (1.68, 2, "3.44"), (2.07, 3, "2.49")],
    )
    def test_what_the_papers_statements_should_have_said(self, expected_epsilon, row, sanitised):
        assert rounds_to(expected_epsilon + gnss_rdp(*ROWS[row][:3]), sanitised)

    def test_the_interactive_statement(self):
        two_rounds = sum(gnss_rdp(*row[:3]) for row in ROWS[4:])
        assert rounds_to(two_rounds, ".427")
        assert rounds_to(0.837 + two_rounds, "1.264")

    @pytest.mark.parametrize(("order", "beta", "sigma", "printed", "correct"), ROWS)
    def test_theorem_23_as_printed_is_refuted(self, order, beta, sigma, printed, correct):
        """On the integer line with |f(i) - f(i+1)| = e^(-beta i) the correct cost is attained.

        The exact smooth sensitivity of Nissim et al. is computed by brute force. The divergence
        between the releases at neighbouring points exceeds the printed bound.
        """
        line = np.concatenate([[0.0], np.cumsum(np.exp(-beta * np.arange(60)))])
        steps = np.abs(np.diff(line))
        local = np.maximum(np.append(steps, 0), np.insert(steps, 0, 0))
        distance = np.abs(np.subtract.outer(np.arange(61), np.arange(61)))
        smooth = (np.exp(-beta * distance) * local).max(axis=1)
        i = 20
        exact = divergence(line[i + 1] - line[i], sigma * smooth[i], sigma * smooth[i + 1], order)
        assert exact == pytest.approx(gnss_rdp(order, beta, sigma), rel=1e-9, abs=0)
        assert exact > float(printed) * 1.1

    @pytest.mark.parametrize(("order", "beta"), [(2.0, 0.1), (14.0, 0.0329), (14.0, 0.2 / 14)])
    @pytest.mark.parametrize("sigma", [0.8, 6.23])
    def test_no_neighbour_costs_more(self, order, beta, sigma):
        """Every ratio u of the scales in [e^-beta, e^beta], the shift at most the smaller one."""
        bound = gnss_rdp(order, beta, sigma)
        found = [
            divergence(share * min(1.0, u), sigma * u, sigma, order)
            for u in np.exp(np.linspace(-beta, beta, 41))
            for share in (0.0, 0.5, 0.9, 1.0)
        ]
        assert max(found) <= bound * (1 + 1e-10)
        assert max(found) == pytest.approx(bound, rel=1e-9, abs=0)

    @settings(max_examples=60)
    @given(order=st.floats(1.1, 200), share=st.floats(0.01, 0.95), sigma=st.floats(0.5, 100))
    def test_costs_more_than_the_plain_gaussian_and_falls_with_noise(self, order, share, sigma):
        beta = share * math.log(order / (order - 1)) / 2
        cost = gnss_rdp(order, beta, sigma)
        assert cost >= gaussian_rdp(sigma, [order])[0]  # a private scale is not free
        assert cost >= gnss_rdp(order, beta, 2 * sigma)
        assert cost >= gnss_rdp(order, beta / 2, sigma)

    def test_tends_to_the_plain_gaussian(self):
        assert gnss_rdp(8, 1e-9, 5.0) == pytest.approx(gaussian_rdp(5.0, [8])[0], rel=1e-6, abs=0)

    def test_small_beta_costs_about_half_of_what_is_printed(self):
        order, sigma = 14, 6.0
        ratio = gnss_rdp(order, 0.1 / order, sigma) / theorem_23(order, 0.1 / order, sigma)
        assert 0.5 < ratio < 0.7
        tiny = gnss_rdp(order, 1e-6, sigma) / theorem_23(order, 1e-6, sigma)
        assert tiny == pytest.approx(0.5, rel=1e-3, abs=0)

    @pytest.mark.parametrize("factor", [1.0000001, 1.5, 1e3, 1e6])
    def test_no_bound_beyond_the_limit(self, factor):
        limit = math.log(14 / 13) / 2
        assert gnss_rdp(14, limit / 1.0001, 5.0) > 0
        with pytest.raises(InvalidArgument, match=r"beta=.* below 0\.03705 .*try beta=0\.01429"):
            gnss_rdp(14, limit * factor, 5.0)


class TestSanitiseCost:
    def test_is_two_gaussian_releases(self):
        cost = sanitise_cost(14, 0.02, 6.0, 0.2, 2.5e-6, 1e-6)
        assert cost.mu_squared == pytest.approx(0.02**2 / 0.2**2 + 1 / 6.0**2, rel=1e-14, abs=0)
        separate = gaussian_rdp(0.2 / 0.02, [14])[0] + gaussian_rdp(6.0, [14])[0]
        assert cost.rdp == pytest.approx(separate, rel=1e-14, abs=0)
        assert cost.delta == pytest.approx(3.5e-6, rel=1e-14, abs=0)

    @pytest.mark.parametrize("tail", [0.3, 0.025, 2.5e-6, 1e-12, 1e-100])
    def test_quantiles(self, tail):
        cost = sanitise_cost(14, 0.02, 6.0, 0.2, tail, tail / 2)
        assert float(mp.ncdf(-mp.mpf(cost.value_quantile))) == pytest.approx(tail, rel=1e-11, abs=0)
        assert float(mp.ncdf(-mp.mpf(cost.scale_quantile))) == pytest.approx(
            tail / 2, rel=1e-11, abs=0
        )

    def test_a_public_scale_has_no_penalty(self):
        """The second release costs a/(2 sigma^2), without the v of GNSS."""
        two_stage = sanitise_cost(14, 0.0329, 6.23, 1.0, 1e-6, 1e-6).rdp
        assert two_stage < gnss_rdp(14, 0.0329, 6.23) / 5


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "bad"), cases(order=NOT_AN_ORDER, beta=NOT_POSITIVE, sigma=NOT_POSITIVE)
    )
    def test_gnss(self, name, bad):
        refuses(gnss_rdp, {"order": 14, "beta": 0.02, "sigma": 6.0}, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            order=NOT_AN_ORDER,
            beta=NOT_POSITIVE,
            sigma=NOT_POSITIVE,
            sigma_log=NOT_POSITIVE,
            delta_value=[*NOT_DELTAS, 0.9999995],
            delta_scale=[*NOT_DELTAS, 0.9999995],
        ),
    )
    def test_sanitise(self, name, bad):
        good = {
            "order": 14,
            "beta": 0.02,
            "sigma": 6.0,
            "sigma_log": 0.2,
            "delta_value": 1e-6,
            "delta_scale": 1e-6,
        }
        refuses(sanitise_cost, good, name, bad)
