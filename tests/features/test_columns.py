"""Declarations of columns: what may be declared, and what the bins are called."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.features import Categorical, Numeric


def test_edges_and_categories_become_tuples_of_plain_values():
    assert Numeric("age", np.array([18, 65])).edges == (18.0, 65.0)
    assert Numeric("age", range(3)).edges == (0.0, 1.0, 2.0)
    assert Categorical("level", [3, "x", np.int64(5)]).categories == (3.0, "x", 5.0)


def test_declarations_compare_hash_and_cannot_change():
    assert Numeric("age", [1, 2]) == Numeric("age", (1.0, 2.0))
    assert len({Categorical("sex", ["F", "M"]), Categorical("sex", ("F", "M"))}) == 1
    with pytest.raises(AttributeError):
        Numeric("age", [1]).edges = (2,)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (Numeric("age"), ("any", "other")),
        (Numeric("age", [0.5]), ("<0.5", ">=0.5", "other")),
        (Numeric("age", [-1, 0, 1]), ("<-1", "-1..0", "0..1", ">=1", "other")),
        (Categorical("level", [1, 2.5]), ("1", "2.5", "other")),
    ],
    ids=str,
)
def test_every_bin_has_a_name_and_other_is_last(column, labels):
    assert column.labels == labels


@pytest.mark.parametrize(
    "edges", [[2, 1], [1, 1], [np.nan], [1, np.inf], ["a"], "12", 5, [[1]], [True]]
)
def test_edges_must_be_increasing_numbers(edges):
    with pytest.raises(InvalidArgument, match=r"^Expected edges="):
        Numeric("age", edges)


@pytest.mark.parametrize(
    "categories",
    [[], ["a", "a"], [1, 1.0], "ab", 5, None, [None], [np.nan], [["a"]], [b"a"], [True]],
)
def test_categories_must_be_different_words_or_numbers(categories):
    with pytest.raises(InvalidArgument, match=r"^Expected categories="):
        Categorical("sex", categories)


@pytest.mark.parametrize("values", [[True, False], [None], 5, [1, 1]])
def test_the_column_of_a_wrong_declaration_is_named(values):
    with pytest.raises(InvalidArgument, match=r" column 'active'"):
        Categorical("active", values)
    with pytest.raises(InvalidArgument, match=r" column 'active'"):
        Numeric("active", values)


def test_true_and_false_are_written_as_words():
    with pytest.raises(InvalidArgument, match=r"^Expected categories=True to be a word or a fin"):
        Categorical("active", [True, False])
    assert Categorical("active", ["true", "false"]).labels == ("true", "false", "other")


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_column_has_a_name(name):
    with pytest.raises(InvalidArgument, match=r"^Expected name="):
        Numeric(name, [1])
    with pytest.raises(InvalidArgument, match=r"^Expected name="):
        Categorical(name, ["a"])
