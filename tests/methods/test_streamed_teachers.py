"""Teachers of a table that goes by in batches: the bits of all rows at once, in any order."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB

from tacit import InsecureNoise, Ledger
from tacit.datasets import open_table
from tacit.errors import InvalidArgument, TeacherFailed
from tacit.methods import Checks, PATEClassifier
from tacit.students import NearestStudent
from tacit.teachers import KernelRidgeTeachers, teachers_of, teaching_order

RNG = np.random.default_rng(0)
N = 500
X = RNG.integers(-3, 4, size=(N, 2)) / 2  # few places: equal rows everywhere, and
X[RNG.random(size=X.shape) < 0.05] = -0.0  # two kinds of zero, whose rows have one id
LABELS = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
PEOPLE = RNG.integers(0, N // 4, size=N)
PUBLIC = RNG.normal(size=(40, 2))
SHARED: dict[str, Any] = {"n_teachers": 12, "queries": 15, "epsilon": 8.0, "delta": 1e-5}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("tacit.records.stored.BUCKETS", 5)
    monkeypatch.setattr("tacit.records.stored.AT_ONCE", 64)
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 200)


class FirstRows(BaseEstimator):
    """A teacher that says what its first records say: their order is all that it sees."""

    def fit(self, X: Any, y: Any) -> FirstRows:
        self.classes_, self.seen_ = np.array([0, 1]), y[:8]
        self.signs_ = np.signbit(X[:8, 0])
        return self

    def predict(self, X: Any) -> Any:
        said = self.seen_[np.arange(len(X)) % len(self.seen_)]
        return said ^ self.signs_[np.arange(len(X)) % len(self.signs_)]


class Logarithm(BaseEstimator):
    """Features that some rows do not have, and in which the sign of a zero is seen."""

    def fit(self, X: Any, y: Any = None) -> Logarithm:
        return self

    def transform(self, X: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.column_stack([np.log(X[:, 0] + 2.5), np.arctan2(X[:, 1], -1.0)])


def model(**changes: Any) -> PATEClassifier:
    settings = {**SHARED, "classes": [0, 1], "noise": InsecureNoise(1), "random_state": 0}
    return PATEClassifier(
        **{"teacher": FirstRows(), "student": NearestStudent(), **settings, **changes}
    )


def released(X: Any, y: Any = None, groups: Any = None, **changes: Any) -> Any:
    fitted = model(**changes).fit(X, y, X_public=PUBLIC, groups=groups)
    return np.asarray(fitted.releases_[-1].values)


def table(order: Any = slice(None)) -> pa.Table:
    said = {"label": LABELS[order], "who": PEOPLE[order]}
    return pa.table({"a": X[order, 0], "b": X[order, 1], **said})


def opened(source: Any, *, people: bool, **more: Any) -> Any:
    groups = "who" if people else None
    return open_table(
        source, target="label", numeric=["a", "b"], groups=groups, classes=[0, 1], **more
    )


def folder(path: Path, files: int, rows: int) -> Path:
    path.mkdir()
    for number, some in enumerate(np.array_split(RNG.permutation(N), files)):
        pq.write_table(table(some), path / f"{number}.parquet", row_group_size=rows)
    return path


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
@pytest.mark.parametrize(
    "how",
    [{}, {"features": Logarithm()}, {"teacher": KernelRidgeTeachers(), "n_teachers": 30}],
    ids=["order", "features", "batched"],
)
def test_any_order_and_partition_gives_the_same_bits(people, how, tmp_path):
    groups = PEOPLE if people else None
    expected = released(X, LABELS, groups, **how)
    order = RNG.permutation(N)
    shuffled = None if groups is None else groups[order]
    np.testing.assert_array_equal(released(X[order], LABELS[order], shuffled, **how), expected)
    sources: list[Any] = [folder(tmp_path / f"{rows}", *rows) for rows in ((1, 10_000), (3, 77))]
    for source in (*sources, table(order).to_reader(max_chunksize=50)):
        np.testing.assert_array_equal(released(opened(source, people=people), **how), expected)


def test_each_teacher_has_the_same_rows(tmp_path, monkeypatch):
    folders = {"checkpoint": tmp_path / "teachers", "teacher": GaussianNB()}
    rows = opened(folder(tmp_path / "rows", 3, 77), people=True)
    expected = released(rows, **folders)

    def not_again(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(GaussianNB, "fit", not_again)
    np.testing.assert_array_equal(released(X, LABELS, PEOPLE, **folders), expected)
    with pytest.raises(TeacherFailed):
        released(X, 1 - LABELS, PEOPLE, **folders)


def test_scores_are_checked_in_batches_too(tmp_path):
    rows = opened(folder(tmp_path / "rows", 3, 77), people=True)
    found = []
    for given_rows in ((X, LABELS, PUBLIC, PEOPLE), (rows, None, PUBLIC)):
        fitted = model(checks=Checks(calibration=0.1), teacher=GaussianNB()).fit(*given_rows)
        found.append(np.asarray(fitted.score_check_.values))
    np.testing.assert_array_equal(*found)


def test_a_key_is_drawn_and_files_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = opened(table(), people=False)
    released(rows, random_state=None, ledger=tmp_path / "it.ledger")
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"it"}


def test_more_teachers_than_units_are_refused_before_anything_is_paid(tmp_path):
    path = tmp_path / "it.ledger"
    rows = opened(table(), people=True)
    with pytest.raises(InvalidArgument, match="n_teachers"):
        released(rows, n_teachers=N // 4 + 1, ledger=path)
    with pytest.raises(InvalidArgument, match="n_teachers"):
        released(rows, n_teachers=0, ledger=path)
    assert not path.exists() or not len(Ledger(path))


@pytest.mark.parametrize("stored", [("f8", "C"), ("f4", "C"), ("i2", "F")], ids=str)
def test_rows_in_memory_are_not_copied(stored):
    kind, order = stored
    wide = np.array(RNG.integers(-99, 99, size=(6000, 400)), dtype=kind, order=order)
    labels, public = (wide[:, 0] > 0).astype(int), RNG.normal(size=(30, 400))
    taught = model(teacher=GaussianNB(), n_teachers=60)
    taught.fit(wide[:99], labels[:99], X_public=public)  # all is imported
    taught.set_params(noise=InsecureNoise(1))
    tracemalloc.start()
    taught.fit(wide, labels, X_public=public)
    beyond = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert beyond < wide.size * 8 / 3, "as float64 it would take three times as much"
    other = model(teacher=GaussianNB(), n_teachers=60)
    other.fit(wide.astype(np.float64), labels, X_public=public)
    votes = [np.asarray(each.releases_[0].values) for each in (taught, other)]
    np.testing.assert_array_equal(*votes)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_an_order_is_the_records_own(seed, n_teachers):
    random = np.random.default_rng(seed)
    rows = random.integers(-1, 2, size=(40, 2)) * random.choice([1.0, -1.0], size=(40, 2))
    labels, hashes = random.integers(2, size=40), random.integers(9, size=40).astype(np.uint64)
    order, shuffle = teaching_order(hashes, n_teachers, rows, labels), random.permutation(40)
    again = teaching_order(hashes[shuffle], n_teachers, rows[shuffle], labels[shuffle])
    assert sorted(order) == list(range(40))
    for values in (rows.view(np.int64), labels, hashes):
        np.testing.assert_array_equal(values[order], values[shuffle][again])
    teachers = teachers_of(hashes[order], n_teachers)
    assert (np.diff(teachers) >= 0).all()
    # One record less: the others stay in their order.
    left = order[order != 0]
    fewer = teaching_order(hashes[1:], n_teachers, rows[1:], labels[1:]) + 1
    np.testing.assert_array_equal(rows[fewer].view(np.int64), rows[left].view(np.int64))
