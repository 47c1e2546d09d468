"""Public bins: one-hot by declaration, `other` for the rest, and nothing learned."""

from __future__ import annotations

import bisect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tacit.errors import InvalidArgument
from tacit.features import Categorical, Numeric, PublicBins

AGE = Numeric("age", [18, 40, 65])
SEX = Categorical("sex", ["Female", "Male"])
LEVEL = Categorical("level", [1, 2, 5])


def bins_of(column, values) -> list[int]:
    """Which of the column's features is 1, for each value."""
    encoded = PublicBins([column]).transform(values)
    assert (encoded.sum(axis=1) == 1).all()
    return encoded.argmax(axis=1).tolist()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True, max_size=6),
    st.lists(st.floats(allow_nan=True), min_size=1),
)
def test_numbers_fall_in_the_bin_that_bisection_finds(edges, values):
    edges = sorted(edges)
    expected = [len(edges) + 1 if math.isnan(v) else bisect.bisect_right(edges, v) for v in values]
    assert bins_of(Numeric("x", edges), np.array(values)[:, None]) == expected
    assert bins_of(Numeric("x", edges), np.array(values, dtype=object)[:, None]) == expected


def test_an_edge_belongs_to_the_bin_above():
    assert bins_of(AGE, np.array([[17.999], [18], [39], [40], [64], [65], [1e300]])) == [
        0,
        1,
        1,
        2,
        2,
        3,
        3,
    ]


@pytest.mark.parametrize(
    "value", ["Fem", "female", "", "?", None, np.nan, 7, 1.5, ["Male"], b"Male"]
)
def test_what_is_not_declared_is_other(value):
    table = np.empty((1, 1), dtype=object)
    table[0, 0] = value
    assert bins_of(SEX, table) == [2]


def test_words_are_found_with_spaces_around_them():
    assert bins_of(SEX, [["Male"], [" Female "], [np.str_("Male")]]) == [1, 0, 1]
    assert bins_of(SEX, np.array([["Male"], ["Female"]])) == [1, 0]


def test_numbers_may_be_categories():
    assert bins_of(LEVEL, np.array([[5], [1], [3], [2]])) == [2, 0, 3, 1]
    assert bins_of(LEVEL, np.array([[5.0], [np.nan]])) == [2, 3]
    assert bins_of(LEVEL, [["5"], ["2.0"], ["x"], [None]]) == [2, 1, 3, 3]


def test_in_an_array_of_numbers_words_stand_for_their_index():
    assert bins_of(SEX, np.array([[0.0], [1.0], [2.0], [-1.0], [0.5], [np.nan], [np.inf]])) == [
        0, 1, 2, 2, 2, 2, 2,
    ]  # fmt: skip


def test_columns_stand_side_by_side_in_their_order():
    table = np.array([[50, "Male", 2], [10, "?", 9]], dtype=object)
    encoder = PublicBins([AGE, SEX, LEVEL])
    names = encoder.get_feature_names_out()
    chosen = [names[row > 0].tolist() for row in encoder.transform(table)]
    assert chosen == [
        ["age=40..65", "sex=Male", "level=2"],
        ["age=<18", "sex=other", "level=other"],
    ]
    assert len(set(names)) == len(names) == encoder.transform(table).shape[1] == 5 + 3 + 4


def test_unit_norm_gives_every_row_length_one():
    table = np.array([[50, 1, 2], [10, 7, 9], [np.nan, np.nan, np.nan]])
    encoded = PublicBins([AGE, SEX, LEVEL], unit_norm=True).transform(table)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), 1, rtol=1e-6)


def test_fit_learns_nothing_from_the_rows():
    encoder = PublicBins([AGE, SEX])
    rows = np.array([[70, 1], [20, 0]])
    fitted = clone(encoder).fit(np.array([[1000.0, 5.0]]))
    assert set(vars(fitted)) == {"columns", "unit_norm"}
    np.testing.assert_array_equal(fitted.transform(rows), encoder.transform(rows))


def test_it_serves_in_a_pipeline():
    rows = np.array([[70, 1], [20, 0], [66, 0], [30, 1]])
    model = make_pipeline(PublicBins([AGE, SEX]), LogisticRegression())
    assert model.fit(rows, [1, 0, 1, 0]).predict(rows).tolist() == [1, 0, 1, 0]


def test_no_rows_give_no_rows():
    assert PublicBins([AGE, SEX]).transform(np.empty((0, 2))).shape == (0, 8)


@pytest.mark.parametrize("columns", [[], None, "age", ["age"], [AGE, None], {"age": [1]}], ids=str)
def test_columns_must_be_declared(columns):
    with pytest.raises(InvalidArgument, match=r"^Expected columns="):
        PublicBins(columns).fit(np.zeros((1, 1)))


@pytest.mark.parametrize(
    "X",
    [np.zeros((2, 3)), np.zeros(2), 5, [[1, 2], [3]], np.full((2, 2), 1j), np.full((2, 2), b"a")],
)
def test_tables_of_another_shape_or_kind_are_refused(X):
    encoder = PublicBins([AGE, SEX])
    with pytest.raises(InvalidArgument, match=r"^Expected X "):
        encoder.fit(X)
    with pytest.raises(InvalidArgument, match=r"^Expected X "):
        encoder.transform(X)
