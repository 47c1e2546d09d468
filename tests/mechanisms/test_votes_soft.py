"""Soft votes: no teacher, however broken, weighs more than one vote."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    SoftVotes,
    ThresholdCheck,
    sum_soft_votes,
)
from tacit.mechanisms.votes import rounded_half_up
from tacit.noise import InsecureNoise

ORDERS = [2.0, 8.0]
BROKEN = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, 1e300, -1e300, 5e-324, math.nan, math.inf, -math.inf, 1 / 3, 0.1]),
)


@st.composite
def one_teacher_moved(draw):
    teachers, queries, classes = (draw(st.integers(*ends)) for ends in ((1, 5), (1, 3), (2, 4)))
    scores = draw(arrays(np.float64, (teachers, queries, classes), elements=BROKEN))
    moved = scores.copy()
    who = draw(st.integers(0, teachers - 1))
    moved[who] = draw(arrays(np.float64, (queries, classes), elements=BROKEN))
    return scores, moved


@settings(max_examples=300, deadline=None)
@given(one_teacher_moved())
def test_one_teacher_moves_the_totals_by_one_vote_exactly(pair):
    """L1 <= 2, L2 <= sqrt(2), each coordinate <= 1: without any tolerance for rounding."""
    first, second = (sum_soft_votes(scores) for scores in pair)
    change = first.totals - second.totals
    assert (np.abs(change).sum(axis=1) <= 2).all()
    assert ((change**2).sum(axis=1) <= 2).all()
    assert (np.abs(change) <= 1).all()
    # Sums of rounding errors could make this 2.
    tops = rounded_half_up(first.totals.max(axis=1)) - rounded_half_up(second.totals.max(axis=1))
    assert (np.abs(tops) <= 1).all()


@settings(max_examples=200, deadline=None)
@given(one_teacher_moved())
def test_totals_are_votes(pair):
    soft = sum_soft_votes(pair[0])
    assert soft.n_teachers == len(pair[0])
    assert soft.totals.shape == pair[0].shape[1:]
    assert (soft.totals >= 0).all()
    assert (soft.totals.sum(axis=1) == soft.n_teachers).all()


def test_shares_are_whole_because_float_sums_are_not():
    """13 shares of 0.5/13, after a vote of 0 or 1: float64 sums round to 0 and 2."""
    share = 0.5 / 13
    others = [[[share, 1 - share]]] * 13
    without, with_it = [[[0.0, 1.0]], *others], [[[1.0, 0.0]], *others]
    naive = [sum(scores[0][0] for scores in teachers) for teachers in (without, with_it)]
    assert rounded_half_up(np.array(naive)).tolist() == [0, 2]
    exact = [sum_soft_votes(teachers).totals[0, :1] for teachers in (without, with_it)]
    assert int(rounded_half_up(exact[1])[0] - rounded_half_up(exact[0])[0]) == 1


def test_good_probabilities_are_kept():
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], size=(20, 7))
    assert np.abs(sum_soft_votes(shares).totals - shares.sum(axis=0)).max() < 20 * 3 * 2.0**-32


@pytest.mark.parametrize(
    ("broken", "vote"),
    [
        ([math.nan, 3.0, 1.0], [0.0, 0.75, 0.25]),
        ([-5.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
        ([1e300, 1e300, 0.0], [0.5, 0.5, 0.0]),
        ([math.inf, 1.0, 1.0], [0.0, 0.5, 0.5]),
        ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([math.nan, math.nan, -1.0], [1.0, 0.0, 0.0]),
        ([1e-320, 0.0, 0.0], [1.0, 0.0, 0.0]),
    ],
)
def test_broken_teachers_still_have_one_vote(broken, vote):
    assert sum_soft_votes([[broken]]).totals.tolist() == [vote]


@pytest.mark.parametrize(
    "scores", [[0.5, 0.5], [[0.5, 0.5]], [[[1.0]]], np.zeros((0, 2, 2)), np.zeros((2, 0, 2))]
)
def test_shapes_are_checked(scores):
    with pytest.raises(InvalidArgument, match="shape"):
        sum_soft_votes(scores)


@pytest.mark.parametrize(
    ("totals", "n_teachers"),
    [
        ([[1.5, 1.0]], 3),
        ([[math.nan, 3.0]], 3),
        ([[-1.0, 4.0]], 3),
        ([1.0, 2.0], 3),
        ([[1.0, 2.0], [1.0, 2.5]], 3),
        ([[math.inf, 3.0]], 3),
        ([["a", "b"]], 3),
        ([[0.1, 2.9]], 3),
        ([[2.0**21, 0.0]], 2**21),
    ],
)
def test_totals_that_are_no_sums_of_votes_are_refused(totals, n_teachers):
    with pytest.raises(InvalidArgument):
        SoftVotes(np.array(totals), n_teachers)


def test_totals_cannot_be_changed_afterwards():
    soft = sum_soft_votes([[[0.5, 0.5]]])
    with pytest.raises(ValueError, match="read-only"):
        soft.totals[0, 0] = 9.0


def test_totals_are_kept_as_they_were_checked():
    """In 16 bits half a vote more moves a rounded maximum by 2."""
    given = np.array([[1024.0, 1.0]], dtype=np.float16)
    soft = SoftVotes(given, 1025)
    given[0] = (0.0, 0.0)
    assert soft.totals.dtype == np.float64
    assert soft.totals.tolist() == [[1024.0, 1.0]]


@pytest.mark.parametrize(
    ("mechanism", "public"),
    [
        (GNMax(0.01), {}),
        (LNMax(100.0), {}),
        (ConfidentGNMax(2.0, 0.01, 0.01), {}),
        (InteractiveGNMax(1.0, 0.01, 0.01, 0.9), {"student": [[1 / 3] * 3]}),
    ],
)
def test_mechanisms_take_soft_votes(mechanism, public):
    soft = sum_soft_votes([[[0.2, 0.7, 0.1]], [[0.1, 0.8, 0.1]], [[0.0, 1.0, 0.0]]])
    mechanism.accept(soft, queries=1, n_teachers=3, n_classes=3)
    assert mechanism.release(soft, InsecureNoise(0), **public).labels.tolist() == [1]
    secret = mechanism.secret_cost(soft, ORDERS, **public).values
    worst = mechanism.cost(ORDERS, n_teachers=3, n_classes=3).values
    assert (secret <= worst * (1 + 1e-9)).all()
    with pytest.raises(InvalidArgument, match="n_teachers=4"):
        mechanism.accept(soft, queries=1, n_teachers=4, n_classes=3)


def test_a_check_of_soft_votes_has_a_price_at_the_lower_end():
    """Three equal shares of one vote: the largest total is 1/3 and rounds to 0, below n/m."""
    soft = sum_soft_votes([[[1.0, 1.0, 1.0]]])
    check = ThresholdCheck(1.0, 1.0)
    assert check.range(1, 3)[0] == 0
    assert check.secret_cost(soft, ORDERS).values.shape == (1, 2)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, 0), (0.49, 0), (2.0, 2)]
)
def test_rounded_half_up(value, expected):
    assert rounded_half_up(np.array([value])).tolist() == [expected]
