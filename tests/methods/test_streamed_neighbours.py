"""Neighbours among records that go by in blocks: the bits of all records at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit import InsecureNoise, Ledger
from tacit.datasets import open_table
from tacit.datasets.streams import TablePiece
from tacit.errors import GrantError, RecordsUnread
from tacit.methods import Checks, MomentClassifier, PrivateKNNClassifier, PrivateKNNRegressor
from tacit.teachers import LocalProcesses

RNG = np.random.default_rng(0)
N = 600
X = RNG.integers(-3, 4, size=(N, 2)) / 2 + 0.0  # few places: ties everywhere
LABELS = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
NUMBERS = np.tanh(X[:, 0] - X[:, 1])
PEOPLE = RNG.integers(0, N // 4, size=N)
PUBLIC = RNG.normal(size=(40, 2))
SHARED: dict[str, Any] = {"k": 25, "queries": 15, "epsilon": 4.0, "delta": 1e-5}
KINDS: dict[str, Any] = {
    "label": partial(PrivateKNNClassifier, classes=[0, 1]),
    "number": partial(PrivateKNNRegressor, target_range=(-1, 1)),
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("tacit.records.stored.BUCKETS", 5)
    monkeypatch.setattr("tacit.records.stored.AT_ONCE", 64)
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 200)


def released(kind: str, X: Any, y: Any = None, groups: Any = None, **changes: Any) -> Any:
    model = KINDS[kind](**{**SHARED, **changes}, noise=InsecureNoise(1), random_state=0)
    return np.asarray(model.fit(X, y, X_public=PUBLIC, groups=groups).releases_[-1].values)


def folder(path: Path, files: int, rows: int) -> Path:
    path.mkdir()
    for number, some in enumerate(np.array_split(RNG.permutation(N), files)):
        said = {"label": LABELS[some], "number": NUMBERS[some], "who": PEOPLE[some]}
        part = pa.table({"a": X[some, 0], "b": X[some, 1], **said})
        pq.write_table(part, path / f"{number}.parquet", row_group_size=rows)
    return path


def opened(source: Any, kind: str, *, people: bool, **more: Any) -> Any:
    about: Any = {"classes": [0, 1]} if kind == "label" else {"target_range": (-1, 1)}
    groups = "who" if people else None
    return open_table(source, target=kind, numeric=["a", "b"], groups=groups, **about, **more)


@pytest.mark.parametrize(
    ("people", "how"),
    [
        (False, {}),
        (False, {"sampling_rate": 0.4}),
        (True, {"sampling_rate": 0.4}),
        (True, {"votes_per_unit": 2}),
        (True, {"votes_per_unit": 3, "sampling_rate": 0.4, "k": 40}),
    ],
    ids=["all", "sampled", "people", "two votes", "three votes, sampled"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_any_partition_gives_the_same_bits(kind, people, how, tmp_path, monkeypatch):
    y, groups = LABELS if kind == "label" else NUMBERS, PEOPLE if people else None
    expected = released(kind, X, y, groups, **how)
    for number, (files, rows) in enumerate([(1, 10_000), (3, 77)]):
        source = folder(tmp_path / str(number), files, rows)
        found = released(kind, opened(source, kind, people=people), **how)
        np.testing.assert_array_equal(found, expected)
    order = RNG.permutation(N)
    monkeypatch.setattr("tacit.records.spaces.BLOCK", 50)
    shuffled = None if groups is None else groups[order]
    np.testing.assert_array_equal(released(kind, X[order], y[order], shuffled, **how), expected)


def test_buckets_that_nobody_is_in_say_nothing():
    who, how = PEOPLE % 3, {"k": 3}  # five buckets
    expected = released("label", X, LABELS, who, **how)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "label": LABELS, "who": who})
    rows = opened(table, "label", people=True)
    np.testing.assert_array_equal(released("label", rows, **how), expected)


@pytest.mark.parametrize("votes", [1, 2])
def test_a_walk_that_leaves_what_was_kept_reads_once_more(votes, tmp_path, monkeypatch):
    how = {"sampling_rate": 0.4, "votes_per_unit": votes}
    expected = released("label", X, LABELS, PEOPLE, **how)
    monkeypatch.setattr("tacit.methods.asked_neighbours.default_reach", lambda k, rate: k)
    rows = opened(folder(tmp_path / "rows", 3, 77), "label", people=True)
    np.testing.assert_array_equal(released("label", rows, **how), expected)


def test_rounds_in_the_space_of_a_student(tmp_path):
    how = {"queries": 10, "queries__rounds": 2, "queries__strategy": "medoids"}
    found = []
    rows = opened(folder(tmp_path / "rows", 2, 100), "label", people=False)
    for given in ((X, LABELS), (rows, None)):
        model = KINDS["label"](**SHARED, noise=InsecureNoise(1), random_state=0)
        model.set_params(**how).fit(*given, X_public=PUBLIC)
        found.append([np.asarray(release.values) for release in model.releases_])
    np.testing.assert_array_equal(*found)


def test_another_process_finds_the_same(tmp_path):
    expected = released("label", X, LABELS)
    source = folder(tmp_path / "rows", 2, 100)
    rows = opened(source, "label", people=False, executor=LocalProcesses(1))
    np.testing.assert_array_equal(released("label", rows), expected)


@pytest.mark.parametrize("passes", [1, 2])
def test_what_cannot_be_read_is_not_released(passes, tmp_path, monkeypatch):
    rows = opened(folder(tmp_path / "rows", 2, 100), "label", people=False)
    read, reads, parts = TablePiece.read, [], len(rows.pieces())

    def failing(piece: TablePiece) -> Any:
        reads.append(piece)
        if len(reads) > passes * parts:  # the first pass has checked all rows
            raise OSError("4711 Main Street")
        return read(piece)

    monkeypatch.setattr(TablePiece, "read", failing)
    monkeypatch.setattr("tacit.methods.asked_neighbours.default_reach", lambda k, rate: k)
    path = tmp_path / "it.ledger"
    model = KINDS["label"](**SHARED, sampling_rate=0.4, ledger=path, random_state=0)
    refused, said = (RecordsUnread, "paid") if passes == 1 else (GrantError, "stays charged")
    with pytest.raises(refused, match=said) as caught:
        model.fit(rows, X_public=PUBLIC)
    assert "4711" not in str(caught.value)
    assert len(Ledger(path)) == passes - 1


def test_without_public_inputs_the_records_are_held():
    rows = opened(pa.table({"a": X[:, 0], "b": X[:, 1], "label": LABELS}), "label", people=False)
    model = KINDS["label"](**SHARED, noise=InsecureNoise(1), radius=5.0).fit(rows)
    held = KINDS["label"](**SHARED, noise=InsecureNoise(1), radius=5.0).fit(X, LABELS)
    np.testing.assert_array_equal(model.answer(PUBLIC[:5]), held.answer(PUBLIC[:5]))


@pytest.mark.parametrize("build", [PrivateKNNClassifier, MomentClassifier])
def test_scores_are_checked_in_batches_too(build, tmp_path):
    rows = opened(folder(tmp_path / "rows", 3, 77), "label", people=True)
    found = []
    for given in ((X, LABELS, PUBLIC, PEOPLE), (rows, None, PUBLIC)):
        model = build(classes=[0, 1], delta=1e-5, epsilon=4.0, noise=InsecureNoise(1))
        own = {key: SHARED[key] for key in ("k", "queries") if hasattr(model, key)}
        model.set_params(checks=Checks(calibration=0.1), random_state=0, **own).fit(*given)
        found.append(np.asarray(model.score_check_.values))
    np.testing.assert_array_equal(*found)
