"""LNMax against its exact outcome probabilities on every small histogram.

The bounds: docs/theory/data-dependent.md#lnmax.
"""

from __future__ import annotations

import functools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import (
    NOT_ORDERS,
    NOT_POSITIVE,
    NOT_VOTES,
    cases,
    exact_lnmax,
    exact_rdp,
    histograms,
    neighbours,
    refuses,
    rounds_to,
)

from tacit.errors import InvalidArgument
from tacit.privacy import lnmax_rdp, lnmax_rdp_worst
from tacit.privacy.noisy_max import lnmax_log_q

ORDERS = np.array([1.05, 1.5, 2.0, 4.0, 8.0, 25.0, 60.5])
SPACES = [(9, 2), (3, 3), (9, 3), (6, 4), (9, 4)]
GAMMAS = [0.05, 0.3, 1.0]

outcomes = functools.cache(exact_lnmax)


def pure_dp_curve(epsilon: float, order: float) -> mp.mpf:
    """The exact curve of epsilon-DP randomised response."""
    e, a = mp.mpf(epsilon), mp.mpf(order)
    return mp.log((mp.sinh(a * e) - mp.sinh((a - 1) * e)) / mp.sinh(e)) / (a - 1)


class TestTheOracle:
    """Trust the exact probabilities before they judge anything."""

    @pytest.mark.parametrize("gamma", GAMMAS)
    def test_two_classes_have_a_closed_form(self, gamma):
        for gap in range(10):
            beaten = (2 + gamma * gap) / (4 * math.exp(gamma * gap))
            assert outcomes((gap, 0), gamma) == pytest.approx(
                [1 - beaten, beaten], rel=1e-12, abs=0
            )

    @pytest.mark.parametrize(("votes", "gamma"), [((9, 0, 0, 0), 1.0), ((4, 3, 2, 0), 0.3)])
    def test_sums_to_one_and_agrees_with_another_quadrature(self, votes, gamma):
        exact = outcomes(votes, gamma)
        assert exact.sum() == pytest.approx(1, abs=1e-13)

        def others_below(x):
            product = mp.mpf(1)
            for count in votes[1:]:
                tail = mp.exp(-gamma * abs(x - count)) / 2
                product *= tail if x < count else 1 - tail
            return product * gamma / 2 * mp.exp(-gamma * abs(x - votes[0]))

        cuts = [-60 / gamma, *sorted(set(votes)), 9 + 60 / gamma]
        assert float(mp.quad(others_below, cuts)) == pytest.approx(exact[0], rel=1e-10, abs=0)


class TestExhaustively:
    @pytest.mark.parametrize("gamma", GAMMAS)
    @pytest.mark.parametrize(("teachers", "classes"), SPACES)
    def test_no_bound_below_the_exact_divergence(self, teachers, classes, gamma):
        votes = list(histograms(teachers, classes))
        tight = lnmax_rdp(votes, gamma, ORDERS)
        paper = lnmax_rdp(votes, gamma, ORDERS, bound="pate2017")
        worst = lnmax_rdp_worst(gamma, ORDERS)
        for row, here in enumerate(votes):
            p = outcomes(here, gamma)
            for there in neighbours(here):
                exact = exact_rdp(p, outcomes(there, gamma), ORDERS)
                assert (exact <= tight[row] * (1 + 1e-9) + 1e-14).all(), (here, there)
        assert (tight <= paper * (1 + 1e-12)).all()
        assert (tight <= worst).all()

    @pytest.mark.parametrize("gamma", GAMMAS)
    @pytest.mark.parametrize(("teachers", "classes"), SPACES)
    def test_q_is_never_below_the_exact_probability(self, teachers, classes, gamma):
        votes = list(histograms(teachers, classes))
        q = np.exp(lnmax_log_q(votes, gamma))
        for row, here in enumerate(votes):
            missed = 1 - outcomes(here, gamma)[int(np.argmax(here))]
            assert q[row] >= missed * (1 - 1e-10)
            assert q[row] <= 1 - 1 / classes + 1e-15

    def test_the_bounds_are_not_idle(self):
        """Where the margin is large the data-dependent cost is far below the worst case."""
        tight = lnmax_rdp([[9, 0, 0]], 1.0, [2.0])[0, 0]
        exact = max(
            exact_rdp(outcomes((9, 0, 0), 1.0), outcomes(there, 1.0), np.array([2.0]))[0]
            for there in neighbours((9, 0, 0))
        )
        assert exact <= tight < 0.05 * lnmax_rdp_worst(1.0, [2.0])[0]


class TestWorstCase:
    @pytest.mark.parametrize("gamma", [1e-4, 0.05, 0.1, 1.0, 5.0, 40.0])
    @pytest.mark.parametrize("order", [1.01, 2.0, 8.0, 33.3, 400.0])
    def test_is_twice_one_laplace_coordinate(self, gamma, order):
        """Integral of p^a q^(1-a) for Laplace densities one apart, piece by piece, exactly."""
        with mp.workdps(50):
            g, a = mp.mpf(gamma), mp.mpf(order)
            outside = (mp.exp((a - 1) * g) + mp.exp(-a * g)) / 2
            between = (mp.exp((a - 1) * g) - mp.exp(-a * g)) / (2 * (2 * a - 1))
            exact = float(2 * mp.log(outside + between) / (a - 1))
        assert lnmax_rdp_worst(gamma, [order])[0] == pytest.approx(
            exact, rel=1e-11 + 1e-15 / gamma, abs=0
        )

    @settings(max_examples=60)
    @given(gamma=st.floats(1e-3, 20), order=st.floats(1.01, 300))
    def test_lies_below_every_older_bound(self, gamma, order):
        ours = lnmax_rdp_worst(gamma, [order])[0] * (1 - 1e-9)
        epsilon = 2 * gamma
        assert ours <= float(pure_dp_curve(epsilon, order)) <= epsilon * (1 + 1e-9)
        assert ours <= epsilon**2 * order / 2

    def test_is_half_the_2017_bound_for_small_gamma(self):
        gamma, order = 1e-3, 4.0
        ratio = lnmax_rdp_worst(gamma, [order])[0] / (2 * gamma**2 * order)
        assert ratio == pytest.approx(0.5, rel=1e-2, abs=0)

    def test_rises_with_order_and_gamma(self):
        grid = np.array([lnmax_rdp_worst(gamma, ORDERS) for gamma in (0.01, 0.1, 1.0, 10.0)])
        assert (np.diff(grid, axis=0) > 0).all()
        assert (np.diff(grid, axis=1) > 0).all()

    def test_vanishing_gamma_is_never_negative(self):
        assert (lnmax_rdp_worst(1e-17, [1.01, 2, 8, 30, 300]) >= 0).all()


class TestGoldenValues:
    def test_section_8(self):
        votes = [[30, 5, 1]]
        assert rounds_to(math.exp(lnmax_log_q(votes, 0.1)[0]), "0.159749068")
        assert rounds_to(lnmax_rdp(votes, 0.1, [8], bound="pate2017")[0, 0], ".0826305491")
        assert rounds_to(lnmax_rdp(votes, 0.1, [8])[0, 0], ".0386458993")
        assert rounds_to(lnmax_rdp_worst(0.1, [8])[0], ".0713535469")

    def test_at_the_switch_the_2017_bound_meets_pure_dp(self):
        """At q = 1/(1 + e^eps) the formula equals eps exactly, so the minimum is continuous."""
        e, a = mp.mpf("0.2"), mp.mpf(8)
        q = 1 / (1 + mp.exp(e))
        formula = (1 - q) ** a * (1 - q * mp.exp(e)) ** (1 - a) + q * mp.exp((a - 1) * e)
        assert float(mp.log(formula) / (a - 1)) == pytest.approx(float(e), rel=1e-13, abs=0)

    @pytest.mark.parametrize("bound", ["tight", "pate2017"])
    @pytest.mark.parametrize("votes", [[30, 5, 1], [60, 0, 0], [25, 24, 0], [100, 20, 3]])
    @pytest.mark.parametrize("order", [1.5, 8.0, 70.0])
    def test_formulas_by_mpmath(self, votes, bound, order):
        gamma = 0.1
        gaps = [max(votes) - v for v in votes[1:]]
        q = sum((2 + mp.mpf("0.1") * g) / (4 * mp.exp(mp.mpf("0.1") * g)) for g in gaps)
        q = min(q, 1 - mp.mpf(1) / 3)
        e, a = mp.mpf("0.2"), mp.mpf(order)
        stay, move = (1 - q) ** a, mp.exp((a - 1) * e)
        ceiling = min(float(e), float(e**2 * a / 2))
        moment = stay * (1 - q * mp.exp(e)) ** (1 - a) + q * move
        if bound == "tight":
            ceiling = lnmax_rdp_worst(gamma, [order])[0]
            moment = max(
                stay * (1 - q * mp.exp(-e)) ** (1 - a) + q * move,
                stay * (1 - q * mp.exp(e)) ** (1 - a) + q / move,
            )
        usable = q <= 1 / (1 + mp.exp(e))
        expected = min(ceiling, float(mp.log(moment) / (a - 1))) if usable else ceiling
        ours = lnmax_rdp([votes], gamma, [order], bound=bound)[0, 0]
        assert ours == pytest.approx(expected, rel=1e-9, abs=0)


class TestProperties:
    votes = st.lists(st.integers(0, 40), min_size=2, max_size=6)

    @settings(max_examples=60)
    @given(votes=votes, gamma=st.floats(0.01, 3), seed=st.randoms(use_true_random=False))
    def test_the_order_of_the_classes_does_not_matter(self, votes, gamma, seed):
        shuffled = list(votes)
        seed.shuffle(shuffled)
        assert np.allclose(
            lnmax_rdp([votes], gamma, ORDERS),
            lnmax_rdp([shuffled], gamma, ORDERS),
            rtol=1e-9,
            atol=0,
        )

    @settings(max_examples=60)
    @given(votes=votes, gamma=st.floats(0.01, 3))
    def test_rises_with_the_order(self, votes, gamma):
        for bound in ("tight", "pate2017"):
            values = lnmax_rdp([votes], gamma, ORDERS, bound=bound)[0]
            assert (np.diff(values) >= -1e-13).all()

    @settings(max_examples=60)
    @given(gamma=st.floats(0.01, 2), others=st.integers(1, 5))
    def test_rises_as_the_margin_shrinks(self, gamma, others):
        """A smaller margin means a larger q: monotone up to the worst case."""
        rows = [[margin] + [0] * others for margin in range(60, -1, -3)]
        costs = np.concatenate([lnmax_rdp([row], gamma, ORDERS) for row in rows])
        assert (np.diff(costs, axis=0) >= -1e-13).all()

    def test_rows_do_not_mix(self):
        votes = [[7, 2, 0], [3, 3, 3], [9, 0, 0]]
        each = [lnmax_rdp([row], 0.3, ORDERS)[0] for row in votes]
        assert np.array_equal(lnmax_rdp(votes, 0.3, ORDERS), each)

    def test_soft_votes_are_priced(self):
        soft = lnmax_rdp([[6.5, 2.5]], 0.3, ORDERS)
        more, less = lnmax_rdp([[7, 2]], 0.3, ORDERS), lnmax_rdp([[6, 3]], 0.3, ORDERS)
        assert (more <= soft).all()
        assert (soft <= less).all()
        assert more[0, 2] < soft[0, 2] < less[0, 2]

    def test_a_tie_leaves_out_one_winner_only(self):
        assert math.exp(lnmax_log_q([[5, 5]], 0.3)[0]) == pytest.approx(0.5, rel=1e-15, abs=0)
        assert math.exp(lnmax_log_q([[5, 5, 5]], 0.3)[0]) == pytest.approx(2 / 3, rel=1e-15, abs=0)

    def test_an_enormous_margin_costs_nothing(self):
        log_q = lnmax_log_q([[100_012, 0]], 1.0)[0]
        assert log_q == pytest.approx(-1e5, rel=1e-3, abs=0)
        assert (lnmax_rdp([[100_012, 0]], 1.0, ORDERS) == 0.0).all()

    @pytest.mark.parametrize("gamma", [20.0, 400.0])
    def test_large_gamma_falls_back_to_the_worst_case(self, gamma):
        ours = lnmax_rdp([[2, 1]], gamma, ORDERS)[0]
        assert np.array_equal(ours, lnmax_rdp_worst(gamma, ORDERS))
        paper = lnmax_rdp([[2, 1]], gamma, ORDERS, bound="pate2017")[0]
        assert np.array_equal(paper, np.minimum(2 * gamma, 2 * gamma**2 * ORDERS))


class TestRefusals:
    @pytest.mark.parametrize(("name", "bad"), cases(votes=NOT_VOTES, gamma=NOT_POSITIVE))
    def test_log_q(self, name, bad):
        refuses(lnmax_log_q, {"votes": [[3, 1]], "gamma": 0.1}, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            votes=NOT_VOTES,
            gamma=NOT_POSITIVE,
            orders=NOT_ORDERS,
            bound=["theorem6", "", None, 3],
        ),
    )
    def test_rdp(self, name, bad):
        good = {"votes": [[3, 1]], "gamma": 0.1, "orders": [2], "bound": "tight"}
        refuses(lnmax_rdp, good, name, bad)

    @pytest.mark.parametrize(("name", "bad"), cases(gamma=NOT_POSITIVE, orders=NOT_ORDERS))
    def test_worst(self, name, bad):
        refuses(lnmax_rdp_worst, {"gamma": 0.1, "orders": [2]}, name, bad)

    def test_messages_never_quote_the_votes(self):
        for votes in ([[123457, -1]], [[123457, 0.5], [1, 1]], [[123457, math.nan]]):
            with pytest.raises(InvalidArgument) as caught:
                lnmax_rdp(votes, 0.1, [2])
            assert "123457" not in str(caught.value)
