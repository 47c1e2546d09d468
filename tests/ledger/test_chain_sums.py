"""Sums of costs: exact, in any order, and read back from their text."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.ledger.chain import Totals, as_text, at_least, exceeds, steps_of

COSTS = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


@given(st.lists(COSTS, max_size=20))
def test_a_sum_is_exact_and_its_text_says_it(costs):
    exact = sum(map(Fraction, costs), Fraction(0))
    steps = sum(map(steps_of, costs))
    mantissa, _, exponent = as_text(steps).partition("p")
    assert int(mantissa, 16) * Fraction(2) ** int(exponent) == exact
    assert int(mantissa, 16) % 2 == 1 or steps == 0


@given(st.lists(st.floats(min_value=0, max_value=1e300), max_size=20))
def test_a_reader_of_the_text_rounds_it_to_the_nearest(costs):
    assert float.fromhex(as_text(sum(map(steps_of, costs)))) == math.fsum(costs)


@given(st.lists(st.floats(min_value=0, max_value=1e300), max_size=20))
def test_rounding_never_goes_down(costs):
    exact, steps = sum(map(Fraction, costs), Fraction(0)), sum(map(steps_of, costs))
    least = at_least(steps)
    assert Fraction(math.nextafter(least, -math.inf)) < exact <= Fraction(least)
    assert exceeds(steps, math.fsum(costs)) == (exact > Fraction(math.fsum(costs)))
    assert not exceeds(steps, math.inf)


@given(
    st.lists(COSTS, min_size=1, max_size=9).flatmap(
        lambda x: st.tuples(st.just(x), st.permutations(x))
    )
)
def test_the_order_of_lines_does_not_matter(lists):
    first, second = (Totals(), Totals())
    for cost, other in zip(*lists, strict=True):
        first, second = first.plus(cost, 0.0), second.plus(other, 0.0)
    assert first == second


def test_a_sum_beyond_every_float_is_infinite():
    assert at_least(2 * steps_of(1.7e308)) == math.inf


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_cost_has_no_steps(number):
    with pytest.raises((ValueError, OverflowError)):
        steps_of(number)


def test_the_least_cost_never_vanishes_beside_a_large_one():
    totals = Totals().plus(1e300, 0.0)
    assert totals.plus(5e-324, 0.0) != totals


def test_nothing_is_within_a_limit_that_is_no_number():
    assert exceeds(0, math.nan)
    assert not exceeds(steps_of(1e300), math.inf)
