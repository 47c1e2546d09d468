"""Data sets in memory: checked, divided, and silent about their records."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.datasets import Dataset
from tacit.datasets.dataset import declared_classes
from tacit.errors import InvalidArgument
from tacit.features import HOG, Categorical, Numeric, PublicBins

CANARY = 0.123456789


def make(n: int = 10, *, n_train: int | None = None, **changes) -> Dataset:
    """Row k holds k, so that a row says where it came from."""
    fields = {
        "X": np.arange(float(n))[:, None],
        "y": np.arange(n) % 3,
        "classes": ("a", "b", "c"),
        "name": "made",
        "n_train": n_train,
    }
    return Dataset(**(fields | changes))


def rows(data: Dataset) -> list[int]:
    return data.X[:, 0].astype(int).tolist()


def test_printing_shows_no_record_and_no_count():
    data = make(X=np.full((10, 1), CANARY), groups=np.array(["somebody"] * 10))
    for text in (repr(data), str(data), f"{data}", repr([data])):
        assert text.strip("[]") == "Dataset(name='made', features=1, classes=3)"


def test_labels_are_the_declared_ones():
    assert make(4).labels.tolist() == ["a", "b", "c", "a"]
    assert len(make(4)) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"X": np.zeros(10)},
        {"X": np.zeros((10, 1, 1))},
        {"X": np.zeros((10, 0))},
        {"X": np.zeros((9, 1))},
        {"y": np.zeros((10, 1), int)},
        {"y": np.full(10, 3)},
        {"y": np.full(10, -1)},
        {"y": np.zeros(10)},
        {"groups": np.arange(9)},
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(changes):
    with pytest.raises(InvalidArgument, match=r"^Expected"):
        make(**changes)


def test_a_set_with_its_own_split_has_two_parts():
    data = make(n_train=7, groups=np.arange(10) * 2)
    assert rows(data.train) == list(range(7))
    assert rows(data.test) == [7, 8, 9]
    assert data.test.y.tolist() == [1, 2, 0]
    assert data.test.groups.tolist() == [14, 16, 18]
    assert data.train.n_train is None
    assert np.shares_memory(data.train.X, data.X)


def test_a_set_without_a_split_says_so():
    for part in ("train", "test"):
        with pytest.raises(InvalidArgument, match=r"use split"):
            getattr(make(), part)


@pytest.mark.parametrize(
    "index", [slice(2, 5), [2, 3, 4], np.array([2, 3, 4]), np.arange(10) // 3 == 7]
)
def test_rows_are_taken_with_their_labels(index):
    taken = make().take(index)
    assert taken.y.tolist() == [row % 3 for row in rows(taken)]
    assert taken.classes == ("a", "b", "c")


def test_a_split_in_the_files_order_is_the_papers_protocol():
    private, public, held_out = make(n_train=6).split(3, 1)
    assert (rows(private), rows(public), rows(held_out)) == (list(range(6)), [6, 7, 8], [9])
    parts = make().split(3, 1)
    assert (rows(parts.private), rows(parts.public), rows(parts.held_out)) == (
        list(range(4, 10)), [0, 1, 2], [3],
    )  # fmt: skip


@given(
    st.integers(4, 30),
    st.integers(1, 10),
    st.integers(0, 10),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_the_three_parts_never_share_a_row(n, public, held_out, seed, own_split):
    data = make(n, n_train=n // 2 if own_split else None)
    room = n - n // 2 if own_split else n - 1
    if public + held_out > room:
        with pytest.raises(InvalidArgument, match=r"^Expected public \+ held_out="):
            data.split(public, held_out, random_state=seed)
        return
    parts = data.split(public, held_out, random_state=seed)
    everything = [row for part in parts for row in rows(part)]
    assert len(set(everything)) == len(everything)
    assert (len(parts.public), len(parts.held_out)) == (public, held_out)
    if own_split:
        assert rows(parts.private) == list(range(n // 2))
    else:
        assert sorted(everything) == list(range(n))
    again = data.split(public, held_out, random_state=seed)
    assert rows(again.public) == rows(parts.public)


def test_another_random_state_is_another_split():
    data = make(1000)
    splits = {tuple(rows(data.split(500, 0, random_state=seed).public)) for seed in range(5)}
    assert len(splits) == 5


@pytest.mark.parametrize(("public", "held_out"), [(0, 1), (-1, 1), (1, -1), (1.5, 1), ("1", 1)])
def test_a_split_of_no_sense_is_refused(public, held_out):
    with pytest.raises(InvalidArgument, match=r"^Expected (public|held_out)="):
        make().split(public, held_out)


def test_the_public_view_follows_from_what_is_declared():
    assert make().features() is None
    columns = (Numeric("row", [5]),)
    bins = make(columns=columns).features()
    assert isinstance(bins, PublicBins)
    assert bins.transform(make().X).argmax(axis=1).tolist() == [0] * 5 + [1] * 5
    images = make(X=np.zeros((10, 64)), image_shape=(8, 8))
    assert isinstance(images.features()[-1], HOG)
    assert images.features().transform(images.X).shape == (10, 768)


def test_a_categorical_column_is_looked_up_by_its_index():
    data = make(3, columns=(Categorical("row", ["x", "y"]),))
    assert data.features().transform(data.X).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (3, (0, 1, 2)),
        (np.int64(2), (0, 1)),
        (["no", "yes"], ("no", "yes")),
        (np.array([4, 9]), (4, 9)),
    ],
    ids=str,
)
def test_classes_are_declared_by_number_or_by_name(classes, expected):
    assert declared_classes(classes) == expected


@pytest.mark.parametrize(
    "classes", [1, 0, True, None, "ab", [], ["a"], ["a", "a"], [1.5, 2], [["a"], "b"], 2.0]
)
def test_other_classes_are_refused(classes):
    with pytest.raises(InvalidArgument, match=r"^Expected classes="):
        declared_classes(classes)


def test_loaders_do_without_scikit_learn_until_it_is_needed():
    program = "import sys, tacit.datasets, tacit.features; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
