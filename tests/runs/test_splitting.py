"""A file in three sides: a row's own hash, or its person's, decides, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.datasets import Dataset
from tacit.errors import InvalidArgument
from tacit.runs.config import DataConfig, RunConfig
from tacit.runs.running import load_rows, protected_name, split_file

SHARES = DataConfig("csv:rows.csv", private=0.6, public=0.2, declare_public=True)


def table(X: np.ndarray, groups: np.ndarray | None = None) -> Dataset:
    return Dataset(X, np.zeros(len(X), np.int64), ("no", "yes"), "rows", groups=groups)


def sides(data: Dataset, where: DataConfig = SHARES) -> np.ndarray:
    """Return 0, 1 or 2 for each row: private, public, held out."""
    split = split_file(where, data)
    found = np.full(len(data), -1)
    for number, rows in enumerate((split.private, split.public, split.held_out)):
        assert (found[rows] == -1).all()
        found[rows] = number
    assert (found >= 0).all()
    return found


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), by_person=st.booleans(), data=st.data())
def test_a_row_more_or_less_moves_nobody_else(seed, by_person, data):
    rng = np.random.default_rng(seed)
    X, people = rng.normal(size=(200, 3)), rng.integers(0, 80, size=200)
    kept = np.sort(rng.permutation(200)[: data.draw(st.integers(120, 199))])
    groups = np.array([f"p{number}" for number in people]) if by_person else None
    full = sides(table(X, groups))
    less = sides(table(X[kept], None if groups is None else groups[kept]))
    assert (less == full[kept]).all()


def test_equal_rows_are_on_one_side_whatever_their_label():
    X = np.random.default_rng(0).integers(0, 3, size=(500, 3)).astype(float)
    found = sides(table(X))
    for row in np.unique(X, axis=0):
        assert np.unique(found[(row == X).all(axis=1)]).size == 1


def test_a_person_is_on_one_side():
    rng = np.random.default_rng(0)
    people = rng.integers(0, 100, size=600)
    found = sides(table(rng.normal(size=(600, 2)), people))
    for person in range(100):
        assert np.unique(found[people == person]).size <= 1


@pytest.mark.parametrize("by_person", [True, False])
def test_the_shares_are_kept_on_average(by_person):
    """5,000 rows: within five standard deviations of a binomial number."""
    X = np.random.default_rng(1).normal(size=(5000, 2))
    found = sides(table(X, np.arange(5000) if by_person else None))
    for number, share in enumerate((0.6, 0.2, 0.2)):
        spread = 5 * np.sqrt(share * (1 - share) / 5000)
        assert abs((found == number).mean() - share) < spread


def test_shares_that_add_up_to_one_hold_nothing_out():
    whole = DataConfig("csv:rows.csv", private=0.7, public=0.3, declare_public=True)
    X = np.random.default_rng(2).normal(size=(1000, 2))
    assert split_file(whole, table(X)).held_out.size == 0


def test_the_seed_moves_nobody(tmp_path):
    """A second run with another seed must not publish what the first one protects."""
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(50, 2)), y=np.arange(50) % 2)
    where = {"private": 0.6, "public": 0.2, "declare_public": True, "options": {"classes": [0, 1]}}
    found = [
        load_rows(
            RunConfig.parse(
                {
                    "data": {"source": f"npz:{tmp_path / 'rows.npz'}", **where},
                    "privacy": {"epsilon": 1.0, "delta": 1e-5},
                    "seed": seed,
                }
            )
        )
        for seed in (0, 1)
    ]
    np.testing.assert_array_equal(found[0].private.X, found[1].private.X)
    np.testing.assert_array_equal(found[0].public, found[1].public)


def test_what_is_protected_is_named_as_what_it_is():
    assert protected_name(SHARES) == "about 60 % of csv:rows.csv, by keyed hash"
    assert protected_name(DataConfig("digits", private=100, public=20)) == "digits"


def test_a_file_is_a_file_with_or_without_its_kind(tmp_path):
    """Split by numbers, as a set that ships, it would publish rows of people by the seed."""
    for source in ("rows.csv", "csv:rows.csv", "rows.npz"):
        where = DataConfig(source, private=400, public=100)
        with pytest.raises(InvalidArgument, match="shares of a file"):
            where.check_split()
        shares = DataConfig(source, private=0.6, public=0.2)
        with pytest.raises(InvalidArgument, match="declare_public"):
            shares.check_split()
    DataConfig("digits", private=400, public=100).check_split()
    assert DataConfig("rows.csv").source == "csv:rows.csv"
