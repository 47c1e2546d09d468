"""Sums close to one, where both the small and the enormous must survive."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.privacy.tail_bound import log_sum_near_one
from tacit.privacy.threshold import log_mean_exp

logits = st.floats(-700, 700)
exponents = st.floats(-2000, 2000)


def bit(logit: float) -> tuple[float, float]:
    """log p and log(1-p) of p = 1/(1 + e^-logit)."""
    return -float(np.logaddexp(0, -logit)), -float(np.logaddexp(0, logit))


def mean_exp(log_p: float, u: float, log_not_p: float, v: float) -> float:
    return float(log_mean_exp(*(np.array(x, dtype=np.float64) for x in (log_p, u, log_not_p, v))))


class TestLogMeanExp:
    @settings(deadline=None)
    @given(logit=logits, u=exponents, v=exponents)
    @example(logit=-690.0, u=700.0, v=-1e-3)  # e^u outweighs a p below 1e-299
    @example(logit=690.0, u=-1e-3, v=700.0)
    @example(logit=0.0, u=1e-9, v=-1e-9)
    @example(logit=0.0, u=30.6, v=0.0)
    def test_against_mpmath(self, logit, u, v):
        self.compare(logit, u, v)

    @settings(deadline=None)
    @given(logit=st.floats(-12, 12), u=st.floats(-12, 12), v=st.floats(-12, 12))
    def test_against_mpmath_where_neither_term_wins(self, logit, u, v):
        self.compare(logit, u, v)

    @staticmethod
    def compare(logit, u, v):
        log_p, log_not_p = bit(logit)
        with mp.workdps(700):
            moment = mp.exp(mp.mpf(log_p) + u) + mp.exp(mp.mpf(log_not_p) + v)
            exact = float(mp.log(moment)) if moment > 1 else 0.0
        ours = mean_exp(log_p, u, log_not_p, v)
        assert ours == pytest.approx(exact, rel=1e-12, abs=1e-14 * (1 + abs(u) + abs(v)))

    @pytest.mark.parametrize("log_p", [-745.0, -800.0, -12_800.0, -1e5])
    @pytest.mark.parametrize("above", [-20.0, 0.0, 10.0, 29.9, 30.1, 500.0])
    def test_a_probability_that_underflows_is_not_forgotten(self, log_p, above):
        """p e^u counts even where p itself is 0 in double precision."""
        exact = float(np.logaddexp(0.0, above))
        assert mean_exp(log_p, -log_p + above, 0.0, 0.0) == pytest.approx(exact, rel=1e-11, abs=0)
        assert mean_exp(0.0, 0.0, log_p, -log_p + above) == pytest.approx(exact, rel=1e-11, abs=0)

    def test_is_never_negative(self):
        assert mean_exp(math.log(0.5), -3.0, math.log(0.5), -4.0) == 0.0

    def test_keeps_small_divergences(self):
        """KL of bits p and p + d is d^2/(2 p (1-p)) for small d."""
        p, d, less_one = 0.3, 1e-6, 1.0
        u = less_one * -math.log1p(d / p)
        v = less_one * -math.log1p(-d / (1 - p))
        exact = d**2 / (p * (1 - p))  # order 2: log(1 + chi^2)
        assert mean_exp(math.log(p), u, math.log1p(-p), v) == pytest.approx(exact, rel=1e-4, abs=0)


class TestLogSumNearOne:
    @settings(deadline=None)
    @given(log_x=st.floats(-5, 100), log_y=st.floats(-800, 800))
    def test_against_mpmath(self, log_x, log_y):
        exact = max(0.0, float(mp.log(mp.exp(log_x) + mp.exp(log_y))))
        ours = float(log_sum_near_one(np.array(log_x), np.array(log_y)))
        assert ours == pytest.approx(exact, rel=1e-12, abs=1e-14)

    @pytest.mark.parametrize("log_x", [-1e-20, -1e-9, 0.0, 1e-15])
    def test_keeps_what_rounds_to_one(self, log_x):
        ours = float(log_sum_near_one(np.array(log_x), np.array(-40.0)))
        with mp.workdps(50):
            exact = float(mp.log(mp.exp(mp.mpf(log_x)) + mp.exp(mp.mpf(-40))))
        assert ours == pytest.approx(max(0.0, exact), rel=1e-12, abs=0)

    def test_nothing_left_is_exactly_zero(self):
        assert float(log_sum_near_one(np.array(0.0), np.array(-1e5))) == 0.0
        assert float(log_sum_near_one(np.array(0.0), np.array(-np.inf))) == 0.0

    def test_infinite_stays_infinite(self):
        assert float(log_sum_near_one(np.array(np.inf), np.array(-3.0))) == math.inf
