"""The minimum over accountants, and the published runs that it prices.

Which they are: docs/theory/gaussian.md#which-accountant.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import NEGATIVE, NOT_DELTAS, cases, refuses, rounds_to

from tacit.errors import InvalidArgument
from tacit.privacy import (
    DEFAULT_ORDERS,
    RdpCurve,
    confident_rdp_worst,
    gaussian_epsilon,
    gaussian_rdp,
    lnmax_rdp_worst,
    threshold_rdp_worst,
    worst_case_epsilon,
)

# PATE 2018, Table 1: queries, answered, threshold, sigma1, sigma2, delta, teachers, classes
RUNS = {
    "MNIST": (640, 286, 200, 150, 40, 1e-5, 250, 10),
    "SVHN": (8500, 3098, 300, 200, 40, 1e-6, 250, 10),
    "Adult": (1500, 524, 300, 200, 40, 1e-5, 250, 2),
    "Glyph": (12000, 10762, 1000, 500, 100, 1e-8, 5000, 150),
}


class FixedLoss:
    """Stands for a privacy loss distribution whose epsilon is known."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def get_epsilon_for_delta(self, delta: float) -> float:
        return self.epsilon


def gaussian_account(queries: int, answered: int, sigma1: float, sigma2: float) -> float:
    return queries / sigma1**2 + 2 * answered / sigma2**2


class TestPublishedRuns:
    @pytest.mark.parametrize(
        ("run", "classic", "improved", "exact"),
        [
            ("MNIST", "3.17", "2.76", "2.54"),
            ("SVHN", "12.67", "11.84", "11.14"),
            ("Adult", "4.34", "3.83", "3.54"),
            ("Glyph", "10.10", "9.48", "9.01"),
        ],
    )
    def test_all_three_accountants(self, run, classic, improved, exact):
        queries, answered, _, sigma1, sigma2, delta, _, _ = RUNS[run]
        mu_squared = gaussian_account(queries, answered, sigma1, sigma2)
        curve = RdpCurve(DEFAULT_ORDERS, mu_squared / 2 * DEFAULT_ORDERS)
        assert rounds_to(curve.epsilon(delta, "classic"), classic)
        assert rounds_to(curve.epsilon(delta), improved)
        best = worst_case_epsilon(delta, mu_squared=mu_squared, rdp=curve)
        assert best.accountant == "gaussian"
        assert rounds_to(best.epsilon, exact)

    @pytest.mark.parametrize(
        ("run", "composite", "all_answered", "winner"),
        [
            ("MNIST", "3.32", "3.93", "rdp"),
            ("SVHN", "12.5", "20.5", "rdp"),
            ("Adult", "4.16", "6.40", "rdp"),  # 4.155, a tie that rounds up
            ("Glyph", "9.96", "9.58", "gaussian"),
        ],
    )
    def test_without_a_cap_on_the_answers(self, run, composite, all_answered, winner):
        queries, _, threshold, sigma1, sigma2, delta, teachers, classes = RUNS[run]
        per_query = confident_rdp_worst(
            threshold, sigma1, sigma2, math.ceil(teachers / classes), teachers, DEFAULT_ORDERS
        )
        curve = RdpCurve(DEFAULT_ORDERS, per_query) * queries
        mu_squared = gaussian_account(queries, queries, sigma1, sigma2)
        assert abs(curve.epsilon(delta) - float(composite)) < (0.05 if run == "SVHN" else 0.0051)
        assert rounds_to(gaussian_epsilon(delta, math.sqrt(mu_squared)), all_answered)
        best = worst_case_epsilon(delta, mu_squared=mu_squared, rdp=curve)
        assert best.accountant == winner
        assert best.epsilon <= min(float(composite), float(all_answered)) * 1.005

    def test_a_batch_is_composed_before_it_is_converted(self):
        rows = np.stack([gaussian_rdp(nm, DEFAULT_ORDERS) for nm in (3.0, 5.0, 8.0)])
        batch = worst_case_epsilon(1e-5, rdp=RdpCurve(DEFAULT_ORDERS, rows)).epsilon
        assert batch == RdpCurve(DEFAULT_ORDERS, rows.sum(axis=0)).epsilon(1e-5)

    def test_exact_checks_gain_what_the_two_outcomes_hide(self):
        """At small orders the bit costs 2/pi of its Gaussian."""
        ratio = threshold_rdp_worst(200, 150, 25, 250, [1.1])[0] / gaussian_rdp(150, [1.1])[0]
        assert ratio == pytest.approx(2 / math.pi, rel=1e-3, abs=0)


class TestMinimum:
    @settings(max_examples=40)
    @given(
        mu_squared=st.floats(0, 50),
        per_order=st.floats(0, 5),
        pld=st.floats(0, 50),
        delta=st.floats(1e-30, 0.5),
    )
    def test_names_the_smallest(self, mu_squared, per_order, pld, delta):
        rdp = RdpCurve(DEFAULT_ORDERS, per_order * DEFAULT_ORDERS)
        claims = {
            "gaussian": gaussian_epsilon(delta, math.sqrt(mu_squared)),
            "rdp": rdp.epsilon(delta),
            "pld": pld,
        }
        best = worst_case_epsilon(delta, mu_squared, rdp, FixedLoss(pld))
        assert best.epsilon == min(claims.values())
        assert claims[best.accountant] == best.epsilon

    @pytest.mark.parametrize(
        ("account", "winner"),
        [
            ({"mu_squared": 1.0}, "gaussian"),
            ({"rdp": RdpCurve([8.0], [0.1])}, "rdp"),
            ({"pld": FixedLoss(2.0)}, "pld"),
        ],
    )
    def test_one_account_is_enough(self, account, winner):
        assert worst_case_epsilon(1e-5, **account).accountant == winner

    def test_infinite_accounts_lose_or_stay_infinite(self):
        nothing = RdpCurve([2.0], [math.inf])
        assert worst_case_epsilon(1e-5, mu_squared=1.0, rdp=nothing).accountant == "gaussian"
        assert worst_case_epsilon(1e-5, rdp=nothing).epsilon == math.inf


class TestPld:
    """LNMax and the published runs, by dp-accounting's privacy loss distributions."""

    @pytest.fixture
    def pld(self):
        return pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

    @pytest.mark.parametrize(
        ("queries", "paper", "improved", "printed"),
        [(100, "5.30", "3.13", "2.89"), (1000, "20.2", "12.2", "11.35")],
    )
    def test_lnmax_beside_its_older_bounds(self, pld, queries, paper, improved, printed):
        gamma = 0.05
        by_2017 = RdpCurve(DEFAULT_ORDERS, 2 * gamma**2 * DEFAULT_ORDERS) * queries
        assert rounds_to(by_2017.epsilon(1e-5, "classic"), paper)
        curve = RdpCurve(DEFAULT_ORDERS, lnmax_rdp_worst(gamma, DEFAULT_ORDERS)) * queries
        assert rounds_to(curve.epsilon(1e-5), improved)
        two_coordinates = pld.from_laplace_mechanism(
            1 / gamma, value_discretization_interval=1e-3
        ).self_compose(2 * queries)
        best = worst_case_epsilon(1e-5, rdp=curve, pld=two_coordinates)
        assert best.accountant == "pld"
        assert rounds_to(best.epsilon, printed)

    def test_agrees_with_the_exact_gaussian(self, pld):
        mu_squared = gaussian_account(640, 286, 150, 40)
        loss = pld.from_gaussian_mechanism(
            1 / math.sqrt(mu_squared), value_discretization_interval=1e-4
        )
        exact = worst_case_epsilon(1e-5, mu_squared=mu_squared).epsilon
        numeric = worst_case_epsilon(1e-5, pld=loss).epsilon
        assert 0 <= numeric - exact < 1e-3


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            delta=NOT_DELTAS,
            mu_squared=[bad for bad in NEGATIVE if bad is not None],
            rdp=[[0.1], 0.1, "curve"],
            pld=[3, "pld"],
        ),
    )
    def test_bad_arguments(self, name, bad):
        refuses(worst_case_epsilon, {"delta": 1e-5, "mu_squared": 1.0}, name, bad)

    def test_nothing_to_account(self):
        with pytest.raises(InvalidArgument, match="mu_squared, rdp or pld"):
            worst_case_epsilon(1e-5)

    @pytest.mark.parametrize("others", [{}, {"mu_squared": 1.0}])
    def test_an_account_that_is_not_a_number(self, others):
        with pytest.raises(InvalidArgument, match="NaN"):
            worst_case_epsilon(1e-5, pld=FixedLoss(math.nan), **others)
