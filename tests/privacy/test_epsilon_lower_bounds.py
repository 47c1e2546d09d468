"""The audit's lower bound: exact binomial tails, edges, and how often it may be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from tacit.errors import InvalidArgument
from tacit.privacy import epsilon_lower_bound


def by_definition(hits_a, trials_a, hits_b, trials_b, delta, error):
    """Clopper and Pearson from the binomial tails themselves, by root finding."""
    low = high = None
    if hits_a > 0:
        low = brentq(lambda p: stats.binom.sf(hits_a - 1, trials_a, p) - error / 2, 0, 1)
    if hits_b < trials_b:
        high = brentq(lambda p: stats.binom.cdf(hits_b, trials_b, p) - error / 2, 0, 1)
    excess = (low or 0.0) - delta
    return max(0.0, math.log(excess / (high or 1.0))) if excess > 0 else 0.0


@settings(max_examples=60, deadline=None)
@given(
    trials_a=st.integers(1, 400),
    trials_b=st.integers(1, 400),
    share_a=st.floats(0, 1),
    share_b=st.floats(0, 1),
    delta=st.floats(0, 0.3),
    error=st.floats(1e-7, 0.5),
)
def test_agrees_with_the_binomial_tails(trials_a, trials_b, share_a, share_b, delta, error):
    hits_a, hits_b = round(share_a * trials_a), round(share_b * trials_b)
    arguments = (hits_a, trials_a, hits_b, trials_b, delta, error)
    assert epsilon_lower_bound(*arguments) == pytest.approx(by_definition(*arguments), abs=1e-6)


def test_no_hits_prove_nothing():
    assert epsilon_lower_bound(0, 1000, 0, 1000, 0.0, 1e-6) == 0.0
    assert epsilon_lower_bound(0, 1000, 1000, 1000, 0.0, 1e-6) == 0.0


def test_hits_within_delta_prove_nothing():
    assert epsilon_lower_bound(100, 10**6, 0, 10**6, 1e-3, 1e-6) == 0.0


def test_all_against_none_proves_what_the_sample_size_allows():
    found = epsilon_lower_bound(10**6, 10**6, 0, 10**6, 0.0, 1e-6)
    # 1 - (1 - p)^n = error/2 on one side, (1 - p)^n = error/2 on the other.
    tail = -math.log(5e-7) / 10**6
    assert found == pytest.approx(math.log(math.exp(-tail) / -math.expm1(-tail)), rel=1e-9)


def test_a_stricter_confidence_proves_less():
    bounds = [epsilon_lower_bound(900, 1000, 100, 1000, 0.0, error) for error in (0.1, 1e-3, 1e-9)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > 0


def test_it_is_wrong_no_more_often_than_it_says():
    """p_a = e^epsilon p_b exactly: the bound may exceed epsilon in 5 % of the experiments."""
    random, epsilon, p_b = np.random.default_rng(5), 1.0, 0.05
    hits_a = random.binomial(400, math.e * p_b, size=3000)
    hits_b = random.binomial(400, p_b, size=3000)
    wrong = sum(
        epsilon_lower_bound(int(a), 400, int(b), 400, 0.0, 0.05) > epsilon
        for a, b in zip(hits_a, hits_b, strict=True)
    )
    assert stats.binom.sf(wrong - 1, 3000, 0.05) > 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 10, 0, 10, 0.0, 0.1), "hits_a=-1"),
        ((11, 10, 0, 10, 0.0, 0.1), "hits_a=11 to be at most trials_a=10"),
        ((1, 10, 11, 10, 0.0, 0.1), "hits_b=11 to be at most trials_b=10"),
        ((1, 0, 1, 10, 0.0, 0.1), "trials_a=0"),
        ((1, 10, 1, 10, -0.1, 0.1), "delta=-0.1"),
        ((1, 10, 1, 10, 0.0, 0.0), "confidence_delta=0.0"),
        ((1, 10, 1, 10, 0.0, 1.0), "confidence_delta=1.0"),
        ((1.5, 10, 1, 10, 0.0, 0.1), "hits_a=1.5"),
        ((1, 10, True, 10, 0.0, 0.1), "hits_b=True"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        epsilon_lower_bound(*arguments)
