"""Mixtures with a law against mpmath: every digit, at every scale."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.mixtures import (
    largest_mixture_rdp,
    log_excess,
    log_expm1,
    log_mixed_ratio,
)

ORDERS = [1.0001, 1.5, 2.0, 7.3, 64.0, 4096.0]
SHIFTS = [-800.0, -40.0, -1.5, -1.0, -0.3, -1e-9, 0.0, 1e-12, 1e-4, 0.7, 12.0, 29.0, 31.0, 900.0]


@pytest.fixture(autouse=True, scope="module")
def many_digits():
    with mp.workdps(500):  # e^-900 beside 1
        yield


def exact_ratio(rate, shift):
    return 1 + mp.mpf(rate) * mp.expm1(mp.mpf(shift))


@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.5, 0.6, 1 - 1e-12, 1.0])
def test_log_mixed_ratio_against_mpmath(rate):
    ours = log_mixed_ratio(rate, np.array(SHIFTS))
    for shift, value in zip(SHIFTS, ours, strict=True):
        exact = mp.log(exact_ratio(rate, shift))
        assert abs(value - exact) <= 1e-14 * abs(exact), shift


def test_log_expm1_against_mpmath():
    for x in (1e-300, 1e-9, 0.5, 39.0, 41.0, 1e6):
        exact = mp.log(mp.expm1(mp.mpf(x))) if x < 1e3 else mp.mpf(x)
        assert float(log_expm1(np.array(x))) == pytest.approx(float(exact), rel=1e-14, abs=0)
    assert log_expm1(np.array(0.0)) == -np.inf
    assert log_expm1(np.array(np.inf)) == np.inf


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rate", [1e-6, 0.2, 1 - 1e-9, 1.0])
def test_log_excess_against_mpmath(rate, order):
    """log(r^a - 1 - a (r - 1)) for r far below, about and far above 1."""
    shifts = np.array(SHIFTS)
    with np.errstate(over="ignore"):
        t = rate * np.expm1(shifts)
    ours = log_excess(order, log_mixed_ratio(rate, shifts), t)
    for shift, value in zip(SHIFTS, ours, strict=True):
        r = exact_ratio(rate, shift)
        excess = r ** mp.mpf(order) - 1 - mp.mpf(order) * (r - 1)
        if excess == 0:
            assert value == -np.inf
        else:
            exact = mp.log(excess)
            assert abs(value - exact) <= 1e-9 + 1e-12 * abs(exact), shift


@settings(max_examples=60, deadline=None)
@given(
    p=st.floats(1e-6, 1 - 1e-6),
    q=st.floats(1e-6, 1 - 1e-6),
    rate=st.floats(1e-6, 1),
    order=st.floats(1.001, 60),
)
def test_two_outcomes_in_both_directions(p, q, rate, order):
    base, other = np.array([[p], [1 - p]]), np.array([[q], [1 - q]])
    ours = largest_mixture_rdp(np.log(base), np.log(other / base), rate, np.array([order]))[0]
    with mp.workdps(40):
        a, zero = mp.mpf(order), [mp.mpf(x) for x in base[:, 0]]
        zero = [x / sum(zero) for x in zero]
        one = [mp.mpf(x) for x in other[:, 0]]
        one = [x / sum(one) for x in one]
        mixed = [(1 - mp.mpf(rate)) * x + mp.mpf(rate) * y for x, y in zip(zero, one, strict=True)]
        both = [
            mp.log(sum(x**a * y ** (1 - a) for x, y in zip(*pair, strict=True))) / (a - 1)
            for pair in ((mixed, zero), (zero, mixed))
        ]
        exact = float(max(both))
    scale = abs(np.log(other / base)).max()
    # The inputs' own rounding moves log(P1/P0) by about 1e-15.
    assert ours == pytest.approx(exact, rel=1e-7 + 1e-13 / max(scale, 1e-300), abs=1e-25)


def test_a_first_outcome_that_costs_more():
    """(p0, 1 - p0) at rate 1: docs/theory/selective.md#check-and-answer-together, term by term."""
    base, other, extra = np.array([[0.3], [0.7]]), np.array([[0.4], [0.6]]), 0.2
    ours = largest_mixture_rdp(
        np.log(base), np.log(other / base), 1.0, np.array([3.0]), np.array([extra])
    )[0]
    moments = [
        p[0] ** 3 * q[0] ** -2 * np.exp(2 * extra) + p[1] ** 3 * q[1] ** -2
        for p, q in ((base, other), (other, base))
    ]
    assert ours == pytest.approx(float(np.log(max(moments)[0]) / 2), rel=1e-12)
