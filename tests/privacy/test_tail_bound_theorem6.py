"""Theorem 6 against its printed form, its conditions, the golden values, and its erratum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import paper_formulas as paper
from tacit.errors import InvalidArgument
from tacit.privacy.tail_bound import theorem6_log_q0, theorem6_rdp

GOLDEN_LOG_Q = -5.179152311259569  # votes [200, 50, 0 x 8] at sigma = 40

sigmas = st.floats(0.5, 1000)
orders = st.floats(1.001, 200)
log_qs = st.floats(-600, -1e-6)


def cost(log_q, sigma, order):
    return float(theorem6_rdp(log_q, sigma, order)[0, 0])


@pytest.mark.parametrize(
    ("order", "raw"),
    [(2, 0.00135721266), (8, 0.00165488419), (14, 0.00213250492), (30, 0.00540310314)],
)
def test_golden_values(order, raw):
    assert cost(GOLDEN_LOG_Q, 40, order) == pytest.approx(min(raw, order / 40**2), rel=1e-8)


@pytest.mark.parametrize(
    ("sigma", "order", "log_q0"),
    [
        (40, 14, -3.402972417),
        (40, 8, -3.881654500),
        (100, 20.5, -3.863896156),
        (200, 50, -3.688994839),
        (5, 7.5, -3.065347372),
    ],
)
def test_golden_crossings(sigma, order, log_q0):
    assert theorem6_log_q0(sigma, order) == pytest.approx(log_q0, abs=6e-10)


def test_collapsed_form_equals_the_printed_one_on_random_inputs():
    random = np.random.default_rng(2018)
    compared = 0
    for _ in range(4000):
        sigma, order = 10 ** random.uniform(-0.2, 2.5), 1 + 10 ** random.uniform(-1, 1.7)
        q = math.exp(-(10 ** random.uniform(-0.3, 2.3)))
        printed = paper.gnmax_cost(q, sigma, order)
        assert cost(math.log(q), sigma, order) == pytest.approx(printed, rel=5e-9)
        compared += printed < order / sigma**2
    assert compared > 1000  # both branches are met


@pytest.mark.parametrize("sigma", [0.3, 0.34, 0.5, 1.0, 3.0, 40.0])
def test_the_edge_of_the_conditions_is_the_printed_one(sigma):
    """Hardly any noise: there the bound is below a/s^2 already where a condition still fails."""
    for order in (1.05, 1.5, 1.76, 2.5, 6.0):
        for beyond in np.append(np.geomspace(1e-4, 0.1, 60), np.linspace(0.11, 1.2, 60)):
            q = math.exp(-((1 / sigma + beyond) ** 2))
            assert cost(math.log(q), sigma, order) == pytest.approx(
                paper.gnmax_cost(q, sigma, order), rel=1e-6
            )


def test_many_queries_and_orders_at_once_are_the_single_ones():
    log_q, a = np.array([-0.5, -3.0, -5.0, -40.0, -np.inf, 0.0]), np.array([1.5, 8, 30])
    together = theorem6_rdp(log_q, 20, a)
    assert together.shape == (6, 3)
    for i, j in np.ndindex(together.shape):
        assert together[i, j] == cost(log_q[i], 20, a[j])


def test_the_printed_conditions_are_not_enough():
    """Every printed condition holds, yet A < 0 and the "bound" is negative."""
    q, sigma, order, mu1, mu2 = math.exp(-1), 10, 3, 11, 400
    assert paper.printed_conditions(q, sigma, order, mu1, mu2)
    a = (1 - q) / (1 - (q * math.exp(mu2 / sigma**2)) ** ((mu2 - 1) / mu2))
    assert a == pytest.approx(-0.033, abs=5e-4)
    assert paper.theorem6(q, sigma, order, mu1, mu2) == pytest.approx(-0.29, abs=5e-3)
    assert cost(-1.0, sigma, order) > 0


@given(sigmas, orders)
def test_the_bound_never_applies_where_q_times_exp_eps2_reaches_one(sigma, order):
    """The omitted condition is mu2 > 1, that is log q < -1/sigma^2, under Prop. 10."""
    edge = -1 / sigma**2
    assert cost(edge, sigma, order) == order / sigma**2
    assert cost(edge * (1 - 1e-9), sigma, order) == order / sigma**2


def test_certain_queries_are_free_and_hopeless_ones_cost_the_worst_case():
    assert cost(-1e5, 40, 14) == 0.0
    assert cost(-np.inf, 40, 14) == 0.0
    assert cost(-np.inf, 1e-3, 200) == 0.0
    assert cost(0.0, 40, 14) == 14 / 40**2
    assert cost(-1e-300, 40, 14) == 14 / 40**2


@given(sigmas, orders, log_qs, log_qs)
def test_nondecreasing_in_q_and_at_most_the_worst_case(sigma, order, one, other):
    low, high = sorted([one, other])
    less, more = cost(low, sigma, order), cost(high, sigma, order)
    assert 0 <= less <= more * (1 + 1e-10) + 1e-300
    assert more <= order / sigma**2


@given(sigmas, orders)
def test_crossing_separates_gain_from_no_gain(sigma, order):
    """The least L where the cost is below a/s^2, also where the bound jumps (sigma < 2)."""
    log_q0, worst = theorem6_log_q0(sigma, order), order / sigma**2
    assert cost(log_q0 * (1 + 1e-6), sigma, order) < worst
    for factor in (1 - 1e-6, 0.9, 0.5, 0.1):
        assert cost(log_q0 * factor, sigma, order) == worst


@pytest.mark.parametrize("log_q", [[np.nan], [0.1], [[-1.0]], [-1.0, np.inf]])
def test_bad_log_q(log_q):
    with pytest.raises(InvalidArgument, match="log_q"):
        theorem6_rdp(log_q, 40, [2])


@pytest.mark.parametrize(("sigma", "order"), [(0, 2), (-1, 2), (np.nan, 2), (40, 1), (40, np.nan)])
def test_bad_parameters(sigma, order):
    with pytest.raises(InvalidArgument):
        theorem6_rdp(-3.0, sigma, order)
    with pytest.raises(InvalidArgument):
        theorem6_log_q0(sigma, order)
