"""A file in three sides: a row's own hash, or its person's, decides, and nothing else does."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tacit import Budget, Ledger
from tacit.datasets import deciding_names
from tacit.errors import InvalidArgument
from tacit.mechanisms import NoisySum, Plan
from tacit.runs.config import DataConfig, RunConfig
from tacit.runs.ledgers import ledger_for
from tacit.runs.running import load_rows, protected_name, split_file
from tacit.teachers import places_of, shard_key

SHARED = {"private": 0.6, "public": 0.2, "declare_public": True, "split_rule": 2}
SHARES = DataConfig("csv:rows.csv", **SHARED)


def sides(X: np.ndarray, groups: np.ndarray | None = None, **shares: Any) -> np.ndarray:
    """Return 0, 1 or 2 for each row of a file: private, public, held out."""
    names = [f"a{place}" for place in range(X.shape[1])]
    columns = {name: X[:, place] for place, name in enumerate(names)} | {"label": [0] * len(X)}
    options = {"target": "label", "classes": [0, 1], "numeric": names}
    if groups is not None:
        columns, options = columns | {"who": groups}, options | {"groups": "who"}
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(pa.table(columns), Path(folder) / "rows.parquet")
        source = f"parquet:{Path(folder) / 'rows.parquet'}"
        split = split_file(DataConfig(source, options=options, **SHARED | shares))
    found = np.full(len(X), -1)
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
    full = sides(X, groups)
    less = sides(X[kept], None if groups is None else groups[kept])
    assert (less == full[kept]).all()


def test_equal_rows_are_on_one_side_whatever_their_label():
    X = np.random.default_rng(0).integers(0, 3, size=(500, 3)).astype(float)
    found = sides(X)
    for row in np.unique(X, axis=0):
        assert np.unique(found[(row == X).all(axis=1)]).size == 1


def test_a_person_is_on_one_side():
    rng = np.random.default_rng(0)
    people = rng.integers(0, 100, size=600)
    found = sides(rng.normal(size=(600, 2)), people)
    for person in range(100):
        assert np.unique(found[people == person]).size <= 1


@pytest.mark.parametrize("by_person", [True, False])
def test_the_shares_are_kept_on_average(by_person):
    """5,000 rows: within five standard deviations of a binomial number."""
    X = np.random.default_rng(1).normal(size=(5000, 2))
    found = sides(X, np.arange(5000) if by_person else None)
    for number, share in enumerate((0.6, 0.2, 0.2)):
        spread = 5 * np.sqrt(share * (1 - share) / 5000)
        assert abs((found == number).mean() - share) < spread


def test_shares_that_add_up_to_one_hold_nothing_out():
    X = np.random.default_rng(2).normal(size=(1000, 2))
    assert set(sides(X, private=0.7, public=0.3)) == {0, 1}


def test_the_type_of_one_column_moves_nobody():
    X = np.random.default_rng(4).integers(0, 200, size=(300, 2))
    expected = sides(X.astype(float))
    for kind in ("u1", "i2", "f4", "i8"):
        assert np.array_equal(sides(X.astype(kind)), expected)
    people = np.arange(300) // 2
    for ids in (people.astype(float), people.astype(str), people.astype("i2")):
        assert np.array_equal(sides(X, ids), sides(X, people))


def test_the_seed_moves_nobody(tmp_path):
    """A second run with another seed must not publish what the first one protects."""
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(50, 2)), y=np.arange(50) % 2)
    where = {**SHARED, "options": {"classes": [0, 1]}}
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
    assert protected_name(SHARES) == "about 60 % of csv:rows.csv, by keyed hash, rule 2"
    first = replace(SHARES, split_rule=1)
    assert protected_name(first) == "about 60 % of csv:rows.csv, by keyed hash"
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


OF_0_2 = {
    "bytes": [0.504918, 0.475068],
    "wide": [0.524738, 0.846863],
    "rows": [0.628305, 0.134299],
    "people": [0.346008, 0.834873],
}


def split_by(rule: int, source: str, **options: Any) -> list[float]:
    names = deciding_names(source, rule, **options)
    return places_of(names, shard_key(0)).round(6).tolist()


def test_runs_of_0_2_keep_their_sides(tmp_path):
    """The places that tacit 0.2.0 gave these rows and people, printed by that version."""
    X = np.array([[0, 51], [102, 255]], dtype=np.uint8)
    np.savez(tmp_path / "bytes.npz", x=X, y=[0, 1])
    np.savez(tmp_path / "wide.npz", x=X.astype(np.uint16), y=[0, 1])
    (tmp_path / "t.csv").write_text("a,b,y,who\n0.5,f,0, 7.0\n1e3,m,1,ann\n")
    table = {"target": "y", "classes": [0, 1], "numeric": ["a"], "categorical": {"b": ["f", "m"]}}
    archive = {"classes": 2}
    found = {
        "bytes": split_by(1, f"npz:{tmp_path / 'bytes.npz'}", **archive),
        "wide": split_by(1, f"npz:{tmp_path / 'wide.npz'}", **archive),
        "rows": split_by(1, f"csv:{tmp_path / 't.csv'}", **table, ignored=["who"]),
        "people": split_by(1, f"csv:{tmp_path / 't.csv'}", **table, groups="who"),
    }
    assert found == OF_0_2
    assert split_by(2, f"npz:{tmp_path / 'bytes.npz'}", **archive) == OF_0_2["wide"]
    assert split_by(2, f"csv:{tmp_path / 't.csv'}", **table, groups="who") != OF_0_2["people"]


def test_the_rule_is_said_and_one_ledger_has_one(tmp_path):
    whole = DataConfig("csv:rows.csv", **SHARED | {"split_rule": 0})
    with pytest.raises(InvalidArgument, match="split_rule in"):
        whole.check_split()
    with pytest.raises(InvalidArgument, match="split_rule=3"):
        DataConfig("csv:rows.csv", **SHARED | {"split_rule": 3})
    ledger = Ledger(tmp_path / "all.ledger", budget=Budget(4.0, 1e-5))
    with ledger.release(Plan(NoisySum(10.0, 1, 2), 1), purpose="x", faults=[SHARES.split_caveat]):
        pass
    for rule in (1, 2):
        config = RunConfig.parse(
            {
                "data": {"source": "csv:rows.csv", **SHARED, "split_rule": rule},
                "privacy": {"epsilon": 1.0, "delta": 1e-5, "ledger": ledger.path},
            }
        )
        if rule == 2:
            assert ledger_for(config, tmp_path, "x")
            continue
        with pytest.raises(InvalidArgument, match="split_rule=2"):
            ledger_for(config, tmp_path, "x")
