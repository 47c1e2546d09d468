"""The validators: each names the argument, quotes its value, and says what to do."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import _checks as checks
from tacit.errors import InvalidArgument, TacitError

NOT_NUMBERS = [math.nan, math.inf, -math.inf, True, np.True_, None, "1", b"1", 1j, [0.5], 10**400]


class TestMessages:
    def test_names_argument_value_and_expectation(self):
        error = checks.refuse("sigma", -1, "a finite number > 0")
        assert str(error) == "Expected sigma=-1 to be a finite number > 0."
        assert isinstance(error, InvalidArgument)
        assert isinstance(error, ValueError)
        assert isinstance(error, TacitError)

    def test_long_values_are_abbreviated(self):
        message = str(checks.refuse("orders", list(range(1000)), "short"))
        assert len(message) < 120
        assert message.startswith("Expected orders=[0, 1, 2,")

    def test_a_validator_takes_one_argument_at_a_time(self):
        with pytest.raises(ValueError, match="unpack"):
            checks.positive(sigma=1, gamma=2)


class TestScalars:
    @pytest.mark.parametrize(
        ("check", "inside", "outside"),
        [
            (checks.positive, [5e-324, 1, 1e308], [0, -0.0, -5e-324]),
            (checks.non_negative, [0, 5e-324, 1e308], [-5e-324, -1]),
            (checks.finite, [-1e308, 0, 1e308], []),
            (checks.probability, [5e-324, 0.5, 1 - 1e-16], [0, 1, -0.1, 1.1]),
            (checks.sampling_rate, [5e-324, 0.5, 1], [0, -0.1, 1 + 1e-15]),
            (checks.renyi_order, [1 + 1e-15, 2, 1e300], [1, 0.5, 0, -2]),
        ],
    )
    def test_interval(self, check, inside, outside):
        for value in inside:
            assert check(x=value) == value
            assert type(check(x=value)) is float
        for value in [*outside, *NOT_NUMBERS]:
            with pytest.raises(InvalidArgument, match=r"^Expected x=.* to be .*\.$"):
                check(x=value)

    @pytest.mark.parametrize(
        "value", [np.float32(0.5), np.array(0.5), Fraction(1, 2), Decimal("0.5"), np.float64(0.5)]
    )
    def test_other_kinds_of_numbers_are_welcome(self, value):
        assert checks.positive(x=value) == 0.5

    @settings(deadline=None)
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_positive_and_non_negative_differ_only_at_zero(self, value):
        for check, allowed in ((checks.positive, value > 0), (checks.non_negative, value >= 0)):
            if allowed:
                assert check(x=value) == value
            else:
                with pytest.raises(InvalidArgument, match=r"Expected x="):
                    check(x=value)

    def test_integers(self):
        for value in (3, np.int64(3), np.uint8(3)):
            assert checks.at_least(3, n=value) == 3
            assert type(checks.at_least(3, n=value)) is int
        for value in (2, -1, 3.0, True, np.True_, None, "3", math.nan, [3]):
            with pytest.raises(InvalidArgument, match=r"Expected n=.* to be an integer >= 3"):
                checks.at_least(3, n=value)

    def test_words(self):
        assert checks.one_of("tight", "theorem6", bound="tight") == "tight"
        for value in ("Tight", "", None, 1, ["tight"], np.array(["tight", "theorem6"])):
            with pytest.raises(InvalidArgument, match=r"bound=.*'tight', 'theorem6'"):
                checks.one_of("tight", "theorem6", bound=value)


class TestArrays:
    def test_numbers_become_float64(self):
        for value in ([1, 2], (1, 2), np.array([1, 2], dtype=np.int8), [Fraction(1), Decimal(2)]):
            array = checks.finite_array(x=value)
            assert array.dtype == np.float64
            assert array.tolist() == [1.0, 2.0]
        assert checks.finite_array(x=3).shape == ()
        assert checks.number_array(x=[1, math.inf]).tolist() == [1.0, math.inf]

    @pytest.mark.parametrize(
        "value", [[True], ["1"], [1j], [[1], [2, 3]], [10**400], {"a": 1}, "12", [b"1"]]
    )
    def test_what_is_not_numbers(self, value):
        for check in (checks.finite_array, checks.number_array):
            with pytest.raises(InvalidArgument, match="Expected x to be an array of numbers"):
                check(x=value)

    @pytest.mark.parametrize("value", [[1, math.nan], [math.inf], -math.inf])
    def test_what_is_not_finite(self, value):
        with pytest.raises(InvalidArgument, match="Expected x to hold finite numbers"):
            checks.finite_array(x=value)

    def test_an_array_may_be_secret_and_is_not_quoted(self):
        for value in ([123457, math.nan], [[123457], [1, 2]], ["123457"], [123457, 10**400]):
            with pytest.raises(InvalidArgument) as caught:
                checks.finite_array(votes=value)
            assert "123457" not in str(caught.value)

    def test_orders(self):
        assert checks.order_array(2).tolist() == [2.0]
        assert checks.order_array([1.5, 8]).tolist() == [1.5, 8.0]
        for value in (1, [2, 1], [], [[2, 3]], [2, math.nan], ["2"], None, [0.5]):
            with pytest.raises(InvalidArgument, match="orders"):
                checks.order_array(value)


class TestVotes:
    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64, np.float32])
    def test_counts_become_int64(self, dtype):
        votes = checks.vote_matrix(np.array([[3, 1], [0, 4]], dtype=dtype))
        assert votes.dtype == np.int64
        assert votes.tolist() == [[3, 1], [0, 4]]

    def test_small_types_do_not_wrap_around(self):
        votes = np.full((2, 4), 200, dtype=np.uint8)
        assert checks.vote_matrix(votes, n_teachers=800).sum() == 1600

    @pytest.mark.parametrize(
        ("votes", "complaint"),
        [
            ([3, 1], "shape"),
            ([[3]], "shape"),
            ([], "shape"),
            (np.zeros((0, 3), dtype=int), "shape"),
            ([[3, 1], [2]], "shape"),
            (None, "shape"),
            ([[3, -1]], "non-negative"),
            ([[3.0, -1.0]], "non-negative"),
            ([[-1e300, 1]], "non-negative"),
            ([[3, math.nan]], "NaN or infinity"),
            ([[3, math.inf]], "NaN or infinity"),
            ([[2.5, 1.5]], "fractions"),
            ([[True, False]], "dtype bool"),
            ([["3", "1"]], "dtype <U1"),
            ([[None, 1]], "dtype object"),
            ([[10**30, 1]], "dtype object"),
            ([[3 + 0j, 1]], "dtype complex"),
            ([[3, 1], [2, 1]], "sum to one number"),
            ([[1e300, 1]], "at most"),
            (np.array([[2**63, 1]], dtype=np.uint64), "at most"),
            ([[2**62, 2**62, 2**62, 2**62]], "at most"),
        ],
    )
    def test_refusals(self, votes, complaint):
        with pytest.raises(InvalidArgument, match=rf"votes.*{complaint}"):
            checks.vote_matrix(votes)

    def test_a_known_number_of_teachers(self):
        assert checks.vote_matrix([[3, 1]], n_teachers=4).tolist() == [[3, 1]]
        with pytest.raises(InvalidArgument, match="sum to n_teachers=5"):
            checks.vote_matrix([[3, 1]], n_teachers=5)

    def test_messages_never_quote_the_votes(self):
        for votes in ([[123457, -1]], [[123457, 0.5]], [[123457, 1], [1, 1]], [["123457", "1"]]):
            with pytest.raises(InvalidArgument) as caught:
                checks.vote_matrix(votes)
            assert "123457" not in str(caught.value)
