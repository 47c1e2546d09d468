"""Tables that are gone through in batches give the bits that all rows at once give."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from sklearn.naive_bayes import GaussianNB

from tacit import InsecureNoise, Ledger
from tacit.datasets import load_table, open_table
from tacit.datasets import table as table_module
from tacit.datasets.batches import TextFormat, batches_of
from tacit.datasets.streams import TablePiece
from tacit.errors import InvalidArgument, RecordsUnread
from tacit.methods import (
    AutoClassifier,
    AutoRegressor,
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PrivateKNNClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.teachers import LocalProcesses
from tests.methods.summary_shared import tables_of

RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 3))
LABELS = (X[:, 0] + X[:, 1] > 0).astype(int)
NUMBERS = np.tanh(X[:, 0] - X[:, 2])
PEOPLE = RNG.integers(0, N // 3, size=N)
PUBLIC = RNG.normal(size=(120, 3))
NAMES = ["a", "b", "c"]
KINDS: dict[str, Any] = {
    "prototype": (PrototypeClassifier, {"n_prototypes": 12, "classes": [0, 1]}),
    "moments": (MomentClassifier, {"classes": [0, 1]}),
    "ridge": (ResidualRidgeClassifier, {"n_landmarks": 10, "classes": [0, 1]}),
    "moments of numbers": (MomentRegressor, {"target_range": (-1, 1)}),
    "ridge of numbers": (
        ResidualRidgeRegressor,
        {"n_landmarks": 10, "target_range": (-1, 1), "epsilon": 8.0},
    ),
}


@pytest.fixture(autouse=True)
def _few_buckets(monkeypatch):
    monkeypatch.setattr("tacit.records.stored.BUCKETS", 5)


def table(order: Any = slice(None)) -> pa.Table:
    columns = {name: X[order, place] for place, name in enumerate(NAMES)}
    said = {"label": LABELS[order], "number": NUMBERS[order], "who": PEOPLE[order]}
    return pa.table({**columns, **said})


def folder(path: Path, files: int, rows: int) -> Path:
    """Write the rows in another order, into so many files of row groups of so many rows."""
    path.mkdir()
    for number, some in enumerate(np.array_split(RNG.permutation(N), files)):
        pq.write_table(table(some), path / f"{number}.parquet", row_group_size=rows)
    return path


def released(kind: str, X: Any, y: Any = None, groups: Any = None, **changes: Any) -> list[Any]:
    build, own = KINDS[kind]
    shared = {"epsilon": 2.0, "delta": 1e-5, "noise": InsecureNoise(1), "random_state": 0}
    model = build(**{**shared, **own, **changes})
    return tables_of(model.fit(X, y, X_public=PUBLIC, groups=groups))


def opened(source: Any, kind: str, *, people: bool, **more: Any) -> Any:
    numbers = {"target": "number", "target_range": (-1, 1)}
    labels = {"target": "label", "classes": [0, 1]}
    about: Any = numbers if "numbers" in kind else labels
    return open_table(source, numeric=NAMES, groups="who" if people else None, **about, **more)


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_partition_gives_the_same_bits(kind, people, tmp_path, monkeypatch):
    y = NUMBERS if "numbers" in kind else LABELS
    expected = released(kind, X, y, PEOPLE if people else None)
    monkeypatch.setattr("tacit.records.stored.AT_ONCE", 64)
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 200)
    for number, (files, rows) in enumerate([(1, 10_000), (3, 77)]):
        source = folder(tmp_path / str(number), files, rows)
        found = released(kind, opened(source, kind, people=people))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def _sources(tmp_path: Path) -> dict[str, Any]:
    import dask.dataframe as dd

    duckdb = pytest.importorskip("duckdb")
    import polars as pl

    frame = table().to_pandas()
    path = folder(tmp_path / "rows", 2, 100)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return {
        "folder": path,
        "csv": tmp_path / "rows.csv",
        "table": table(),
        "reader": table().to_reader(max_chunksize=50),
        "dataset": pyarrow.dataset.dataset(path, format="parquet"),
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "dask": dd.from_pandas(frame, npartitions=4),
        "duckdb": duckdb.from_df(frame),
    }


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
def test_every_kind_of_table_gives_the_same_bits(tmp_path, people):
    (expected,) = released("prototype", X, LABELS, PEOPLE if people else None)
    for kind, source in _sources(tmp_path).items():
        (found,) = released("prototype", opened(source, "prototype", people=people))
        np.testing.assert_array_equal(found, expected, err_msg=kind)


def test_nothing_is_spread_that_cannot_be():
    rows = opened(table(), "prototype", people=False, executor="local")
    with pytest.raises(InvalidArgument, match="executor='serial'"):
        PrivateKNNClassifier(classes=[0, 1], radius=3.0).fit(rows)


def test_columns_by_their_names(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(table().select([*NAMES, "label", "who"]), path)
    public = pa.table({name: PUBLIC[:, place] for place, name in enumerate(NAMES)})
    model = PrototypeClassifier(n_prototypes=12, classes=[0, 1], noise=InsecureNoise(1), delta=1e-5)
    model.set_params(epsilon=2.0, random_state=0).fit(path, "label", public, "who")
    (expected,) = released("prototype", X, LABELS, PEOPLE)
    np.testing.assert_array_equal(model.table_.values, expected)
    assert model.predict(PUBLIC).shape == (120,)


@pytest.mark.parametrize("people", [PEOPLE, PEOPLE.tolist()], ids=["array", "list"])
def test_people_beside_a_table_are_refused_and_not_quoted(people):
    model = MomentClassifier(classes=[0, 1], delta=1e-5)
    with pytest.raises(InvalidArgument, match="groups= the name of a column") as refused:
        model.fit(table(), "label", X_public=PUBLIC, groups=people)
    assert not any(digit in str(refused.value) for digit in "0123456789")


@pytest.mark.parametrize("kind", ["moments", "moments of numbers"])
def test_a_student_goes_through_a_table_too(kind, monkeypatch):
    build, own = KINDS[kind]
    model = build(epsilon=2.0, delta=1e-5, noise=InsecureNoise(1), random_state=0, **own)
    model.fit(X, NUMBERS if "numbers" in kind else LABELS, X_public=PUBLIC)
    monkeypatch.setattr("tacit.datasets.batches._ROWS", 100)
    rows = open_table(table().select(NAMES), target=None)
    np.testing.assert_allclose(model.predict(rows), model.predict(X))
    with pytest.raises(InvalidArgument, match="at least one row"):
        model.predict(open_table(table().select(NAMES).slice(0, 0), target=None))


def test_a_method_that_needs_all_rows_reads_them():
    settings = {"k": 20, "queries": 20, "classes": [0, 1], "epsilon": 3.0, "delta": 1e-4}
    found = []
    for rows in ((table().select([*NAMES, "label"]), "label"), (X, LABELS)):
        model = PrivateKNNClassifier(**settings, noise=InsecureNoise(3), random_state=0)
        found.append(model.fit(*rows, X_public=PUBLIC).predict_proba(PUBLIC))
    np.testing.assert_array_equal(*found)


class TestRefusals:
    def test_a_row_that_is_public_too(self, tmp_path):
        rows = table()
        public = np.vstack([PUBLIC, X[717]])
        model = MomentClassifier(classes=[0, 1], ledger=tmp_path / "it.ledger", delta=1e-5)
        with pytest.raises(InvalidArgument, match="private row that equals a public one"):
            model.fit(opened(rows, "moments", people=False), X_public=public)
        assert not (tmp_path / "it.ledger").exists()

    def test_an_undeclared_label_is_not_named(self):
        model = MomentClassifier(classes=[0, 5], delta=1e-5)
        with pytest.raises(InvalidArgument, match="one of the 2 declared classes"):
            model.fit(table().select([*NAMES, "label"]), "label", X_public=PUBLIC)

    def test_a_hole(self, tmp_path):
        holes = X[:, 0].copy()
        holes[800] = np.nan
        rows = table().set_column(0, "a", [holes])
        with pytest.raises(InvalidArgument, match="finite numbers"):
            released("moments", opened(rows, "moments", people=False))

    def test_a_large_delta(self):
        with pytest.raises(InvalidArgument, match="below one over the number of records"):
            released("moments", opened(table(), "moments", people=True), delta=1 / 250)

    def test_classes_from_data(self):
        model = MomentClassifier(classes="from_data", delta=1e-5)
        with pytest.raises(InvalidArgument, match="declared where X is a table"):
            model.fit(table().select([*NAMES, "label"]), "label", X_public=PUBLIC)

    def test_a_file_that_changes_between_two_sums(self, tmp_path, monkeypatch):
        path = folder(tmp_path / "rows", 1, 100)
        rows = opened(path, "moments", people=False)
        release = MomentClassifier._release

        def meddling(model: Any, ledger: Any, plan: Any, *asked: Any) -> Any:
            found = release(model, ledger, plan, *asked)
            os.utime(path / "0.parquet", ns=(0, 0))
            return found

        monkeypatch.setattr(MomentClassifier, "_release", meddling)
        model = MomentClassifier(classes=[0, 1], delta=1e-5, ledger=tmp_path / "it.ledger")
        with pytest.raises(RecordsUnread, match="stay as it is"):
            model.fit(rows, X_public=PUBLIC)

    def test_y_beside_an_opened_table(self):
        with pytest.raises(InvalidArgument, match="no y and groups"):
            released("moments", opened(table(), "moments", people=False), LABELS)


def test_another_process_adds_up_the_same_bits():
    (expected,) = released("prototype", X, LABELS, PEOPLE)
    rows = opened(table(), "prototype", people=True, executor=LocalProcesses(1))
    (found,) = released("prototype", rows)
    np.testing.assert_array_equal(found, expected)


def test_rows_are_checked_where_they_are_added_up(tmp_path, monkeypatch):
    """The first pass goes there, too: this process reads one batch, and no piece as a whole."""
    path = folder(tmp_path / "rows", 3, 100)
    here: list[int] = []
    read = TablePiece.read

    def counted(piece: Any) -> Any:
        for raw in read(piece):
            here.append(len(raw.rows))
            yield raw

    monkeypatch.setattr(TablePiece, "read", counted)
    (expected,) = released("prototype", X, LABELS)
    rows = opened(path, "prototype", people=False, executor=LocalProcesses(1))
    (found,) = released("prototype", rows)
    np.testing.assert_array_equal(found, expected)
    assert len(here) == 1


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
def test_what_is_in_memory_is_cut_into_parts_too(people, monkeypatch):
    pl = pytest.importorskip("polars")
    (expected,) = released("prototype", X, LABELS, PEOPLE if people else None)
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 200)
    for source in (table(), table().to_pandas(), pl.from_arrow(table())):
        rows = opened(source, "prototype", people=people, executor=LocalProcesses(1))
        assert len(rows.pieces()) == 5
        (found,) = released("prototype", rows)
        np.testing.assert_array_equal(found, expected)
    assert len(opened(table().slice(0, 0), "x", people=False).pieces()) == 1


def test_a_public_row_that_another_process_finds_is_refused(tmp_path):
    path = folder(tmp_path / "rows", 2, 100)
    rows = opened(path, "moments", people=False, executor=LocalProcesses(1))
    model = MomentClassifier(classes=[0, 1], delta=1e-5, ledger=tmp_path / "it.ledger")
    for public in (X[-1:], X[-1:].astype(np.float32)):
        with pytest.raises(InvalidArgument, match="equals a public one"):
            model.fit(rows, X_public=np.concatenate([PUBLIC, public]))
    assert not (tmp_path / "it.ledger").exists()


def test_a_row_that_another_process_cannot_read_is_named_as_by_this_one(tmp_path):
    wrong = table().to_pandas()
    wrong["label"] = wrong["label"].astype(object)
    wrong.loc[N - 1, "label"] = 7
    wrong["label"] = wrong["label"].astype(int)
    pq.write_table(pa.Table.from_pandas(wrong), tmp_path / "rows.parquet", row_group_size=100)
    told = []
    for executor in ("serial", LocalProcesses(1)):
        rows = opened(tmp_path / "rows.parquet", "moments", people=False, executor=executor)
        with pytest.raises(InvalidArgument) as caught:
            MomentClassifier(classes=[0, 1], delta=1e-5).fit(rows, X_public=PUBLIC)
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_what_other_processes_are_given_reads_alike(tmp_path):
    """A file is opened where it is read; what only this process has is sent as numbers."""
    table().to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    sources = [tmp_path / "rows.csv", table(), table().to_reader(), table().to_pandas()]
    sources.append(pyarrow.dataset.dataset(table()))
    for source in sources:
        (piece,) = opened(source, "moments", people=False).pieces()
        sent = pickle.loads(pickle.dumps(piece.portable()))
        assert np.array_equal(np.concatenate([raw.rows for raw in sent.read()]), X)


def test_files_elsewhere_that_change_are_noticed(tmp_path):
    """As on a store of objects, whose paths mean nothing here; and one dataset of several."""
    path = folder(tmp_path / "rows", 1, 1000)
    store = pyarrow.fs.SubTreeFileSystem(str(path), pyarrow.fs.LocalFileSystem())
    one = pyarrow.dataset.dataset("0.parquet", filesystem=store, format="parquet")
    for source in (one, pyarrow.dataset.UnionDataset(one.schema, [one])):
        rows = opened(source, "moments", people=False)
        assert rows.pieces()
        pq.write_table(table().slice(1), path / "0.parquet", row_group_size=500)
        with pytest.raises(RecordsUnread, match="stay as it is"):
            rows.pieces()


@pytest.mark.parametrize("kind", ["sums", "people", "teachers"])
def test_a_file_that_is_written_anew_within_a_pass_counts_nobody_twice(kind, tmp_path, monkeypatch):
    """Its rows turn: what the first piece held then stands where the others are read."""
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 300)
    path, turned = tmp_path / "rows.parquet", np.r_[600:N, 0:600]
    pq.write_table(table(), path, row_group_size=300)
    read, reads = TablePiece.read, []

    def turning(piece: TablePiece) -> Any:
        reads.append(piece)
        if len(reads) == (5 if kind == "sums" else 2):  # of sums the second pass
            pq.write_table(table(turned), path, row_group_size=300)
        yield from read(piece)

    monkeypatch.setattr(TablePiece, "read", turning)
    how: Any = {"classes": [0, 1], "delta": 1e-5, "ledger": tmp_path / "it.ledger"}
    model: Any = PATEClassifier(GaussianNB(), n_teachers=10, queries=5, **how)
    if kind != "teachers":
        model = PrototypeClassifier(n_prototypes=12, **how)
    with pytest.raises(RecordsUnread, match="stay as it is"):
        model.fit(opened(path, "x", people=kind == "people"), X_public=PUBLIC)
    assert not (tmp_path / "it.ledger").exists() or len(Ledger(tmp_path / "it.ledger")) == 0


@pytest.mark.parametrize("kind", ["rows.parquet", "rows.csv"])
def test_a_piece_knows_the_file_that_its_owner_opened(kind, tmp_path):
    """Wherever it is read; a worker may have another file under the same path."""
    path = tmp_path / kind
    table().to_pandas().to_csv(path, index=False) if kind == "rows.csv" else pq.write_table(
        table(), path
    )
    rows = opened(path, "moments", people=False)
    (piece,) = rows.pieces()
    sent = pickle.loads(pickle.dumps(piece.portable()))
    assert sum(len(raw.rows) for raw in sent.read()) == N
    under_way = sent.read()
    next(under_way)
    os.utime(path, ns=(0, 0))
    for late in (under_way, sent.read(), piece.read()):
        with pytest.raises(RecordsUnread, match="stay as it is"):
            list(late)
    with pytest.raises(RecordsUnread, match="stay as it is"):
        rows.load()


def test_a_table_that_is_loaded_stays_as_it_is_too(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    table().to_pandas().to_csv(path, index=False)
    read = table_module.read_batch

    def touching(*given: Any, **named: Any) -> Any:
        os.utime(path, ns=(0, 0))
        return read(*given, **named)

    monkeypatch.setattr(table_module, "read_batch", touching)
    with pytest.raises(RecordsUnread, match="stay as it is"):
        load_table(path, target="label", classes=[0, 1], numeric=NAMES)


def test_a_class_that_calls_itself_a_frame_may_say_something_else_each_time():
    class DataFrame:
        def __arrow_c_stream__(self, requested: Any = None) -> Any:
            return table().__arrow_c_stream__(requested)

    assert not opened(DataFrame(), "moments", people=False).again
    assert opened(table().to_pandas(), "moments", people=False).again


def test_columns_in_another_order_are_refused_at_prediction():
    model = MomentClassifier(delta=1e-5, classes=[0, 1], noise=InsecureNoise(0), random_state=0)
    model.fit(opened(table(), "moments", people=False), X_public=PUBLIC)
    expected = model.predict(X)
    turned = [NAMES[place] for place in (1, 0, 2)]
    about: Any = {"target": None, "groups": None}
    assert np.array_equal(model.predict(open_table(table(), numeric=NAMES, **about)), expected)
    assert np.array_equal(model.predict(table().to_pandas()[NAMES]), expected)
    for other in (open_table(table(), numeric=turned, **about), table().to_pandas()[turned]):
        with pytest.raises(InvalidArgument, match="columns of the fit, in their order: a, b, c"):
            model.predict(other)
    near = PrivateKNNClassifier(k=50, classes=[0, 1], epsilon=4.0, delta=1e-5, radius=3.0)
    near.set_params(queries=2).fit(opened(table(), "moments", people=False))
    assert len(near.answer(table().to_pandas()[NAMES].head(1))) == 1
    with pytest.raises(InvalidArgument, match="columns of the fit"):
        near.answer(table().to_pandas()[turned].head(1))
    model.fit(X, LABELS, X_public=PUBLIC)  # of an array nothing is known
    assert len(model.predict(open_table(table(), numeric=turned, **about))) == N


def test_a_table_of_arrow_is_named_by_its_columns_and_not_quoted():
    model = MomentClassifier(delta=1e-5, classes=[0, 1], noise=InsecureNoise(0), random_state=0)
    frame = table().select(NAMES)
    model.fit(frame.to_pandas(), LABELS, X_public=pa.table(dict(zip(NAMES, PUBLIC.T, strict=True))))
    assert np.array_equal(model.predict(frame), model.predict(frame.to_pandas()))
    with pytest.raises(InvalidArgument, match="columns of the fit") as refused:
        model.predict(frame.select(NAMES[::-1]))
    assert not any(digit in str(refused.value) for digit in "0123456789")


VISITS = pa.table(
    {
        "x": X[:, 0],
        "day": (np.datetime64("2020-01-01") + np.arange(N) % 400).astype("datetime64[s]"),
        "kind": np.array(["b", "a", "c"])[LABELS + (X[:, 1] > 0)],
        "label": LABELS,
    }
)
AS_LEARNED = {
    "numeric": {"x": [0.0], "day": []},
    "dates": {"day": "2020-01-01"},
    "categorical": {"kind": ["a", "b", "c"]},
}


def test_inputs_are_read_as_the_table_of_the_fit_declared_them():
    model = MomentClassifier(epsilon=3.0, delta=1e-5, classes=[0, 1], noise=InsecureNoise(0))
    rows = open_table(VISITS, target="label", classes=[0, 1], **AS_LEARNED)
    model.fit(rows, X_public=rows.public(VISITS) + np.array([0.5, 0, 0]))
    expected = model.predict(open_table(VISITS, target=None, **AS_LEARNED))
    assert np.array_equal(model.predict(rows.public(VISITS)), expected)
    plain = VISITS.select(["x", "day", "kind"])
    for raw in (plain, plain.to_pandas()):
        assert np.array_equal(model.predict(raw), expected)
    unlike: list[Any] = [
        {"categorical": {"kind": ["c", "b", "a"]}},
        {"categorical": {"kind": ["a", "b"]}},
        {"dates": {"day": "2021-01-01"}},
        {"missing": {"x": 0.0}},
        {"other": False},
    ]
    for changed in unlike:
        with pytest.raises(InvalidArgument, match="declared as at the fit"):
            model.predict(open_table(VISITS, target=None, **{**AS_LEARNED, **changed}))
    near = PrivateKNNClassifier(k=50, classes=[0, 1], epsilon=4.0, delta=1e-5, radius=999.0)
    near.set_params(queries=2).fit(rows)
    assert len(near.answer(plain.slice(0, 1))) == 1
    with pytest.raises(InvalidArgument, match="declared as at the fit"):
        near.answer(open_table(VISITS, target=None, **{**AS_LEARNED, **unlike[0]}))


@pytest.mark.parametrize("form", ["parquet", "csv", "reader", "dataset"])
def test_what_is_to_be_predicted_is_opened_as_at_the_fit(form, tmp_path):
    """By names, among other columns, and by the declarations of the fit."""
    model = MomentClassifier(epsilon=3.0, delta=1e-5, classes=[0, 1], noise=InsecureNoise(0))
    rows = open_table(VISITS, target="label", classes=[0, 1], **AS_LEARNED)
    model.fit(rows, X_public=rows.public(VISITS) + np.array([0.5, 0, 0]))
    turned = VISITS.select(["label", "kind", "day", "x"])
    path = tmp_path / f"new.{form}"
    days = turned.column("day").to_numpy().astype("datetime64[D]").astype(str)
    if form == "csv":
        turned.set_column(2, "day", pa.array(days)).to_pandas().to_csv(path, index=False)
    if form == "parquet":
        pq.write_table(turned, path)
    given = {"reader": turned.to_reader, "dataset": lambda: pyarrow.dataset.dataset(turned)}
    expected = model.predict(VISITS.select(["x", "day", "kind"]))
    assert np.array_equal(model.predict(given.get(form, lambda: path)()), expected)


def test_files_beside_a_frame_are_read_by_its_columns(tmp_path):
    frame = table().to_pandas()[NAMES]
    public = pa.table({name: PUBLIC[:, place] for place, name in enumerate(NAMES)})
    pq.write_table(public.select(["c", "a", "b"]), tmp_path / "public.parquet")
    how: Any = {"delta": 1e-5, "classes": [0, 1], "random_state": 0}
    for build in (MomentClassifier, AutoClassifier):
        found = []
        for given in (public.to_pandas(), tmp_path / "public.parquet", public.to_reader()):
            model = build(noise=InsecureNoise(0), **how).fit(frame, LABELS, X_public=given)
            found.append(model.predict_proba(tmp_path / "public.parquet"))
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])
    with pytest.raises(InvalidArgument, match="an array has no names"):
        MomentClassifier(**how).fit(X, LABELS, X_public=tmp_path / "public.parquet")
    model = MomentClassifier(noise=InsecureNoise(0), **how).fit(X, LABELS, X_public=PUBLIC)
    with pytest.raises(InvalidArgument, match="an array has no names"):
        model.predict(tmp_path / "public.parquet")


def test_an_estimator_learns_what_the_table_declares():
    public = pa.table({name: PUBLIC[:, place] for place, name in enumerate(NAMES)})
    how: Any = {"epsilon": 4.0, "delta": 1e-5, "noise": InsecureNoise(0)}
    for build in (MomentClassifier, AutoClassifier):
        model = build(**how).fit(opened(table(), "x", people=False), X_public=public.to_reader())
        assert model.classes is None
        assert model.classes_.tolist() == [0, 1]
        assert set(model.predict(PUBLIC).tolist()) <= {0, 1}
    for build in (MomentRegressor, AutoRegressor):
        model = build(**how).fit(opened(table(), "numbers", people=False), X_public=public)
        assert model.target_range is None
        assert model.bounds_ == (-1.0, 1.0)
    with pytest.raises(InvalidArgument, match="classes= to be declared"):
        MomentClassifier(**how).fit(table().select([*NAMES, "label"]), "label", X_public=public)


def test_a_declaration_that_public_rows_contradict_costs_nothing(tmp_path):
    declared: Any = {**AS_LEARNED, "numeric": {"x": [99.0], "day": []}}
    rows = open_table(VISITS, target="label", classes=[0, 1], **declared)
    model = MomentClassifier(epsilon=3.0, delta=1e-5, ledger=tmp_path / "it.ledger")
    model.set_params(noise=InsecureNoise(0))
    public = rows.public(VISITS) + np.array([0.5, 0, 0])
    public[:, 2] %= 2
    with (
        pytest.warns(UserWarning, match="lie in one of the declared bins"),
        pytest.warns(UserWarning, match="no public input has 'c' in column 'kind'"),
    ):
        model.fit(rows, X_public=public)
    other = tmp_path / "other.ledger"
    public[:, 2] = 3
    with pytest.raises(InvalidArgument, match="a declared category of column 'kind'"):
        model.set_params(ledger=other).fit(rows, X_public=public)
    assert not other.exists()


def test_what_was_spent_before_a_fit_fails_can_be_asked(tmp_path):
    rows = opened(folder(tmp_path / "rows", 1, 1000), "moments", people=False)
    model = MomentClassifier(delta=1e-5, classes=[0, 1], random_state=0)
    release = model._kept.release

    def changing(*given: Any, **named: Any) -> Any:
        released = release(*given, **named)
        pq.write_table(table().slice(1), tmp_path / "rows" / "0.parquet")
        return released

    model._kept.release = changing  # type: ignore[method-assign]
    with pytest.raises(RecordsUnread):
        model.fit(rows, X_public=PUBLIC)
    assert len(model.ledger_) == 1
    assert not hasattr(model, "student_")


class Interrupting(InsecureNoise):
    """Somebody presses Ctrl-C while noise is drawn: it has been paid for."""

    def rounded_gaussian_steps(self, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt


def test_a_fit_that_is_interrupted_within_a_release_has_its_ledger():
    model = MomentClassifier(delta=1e-5, classes=[0, 1], noise=Interrupting(0))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABELS, X_public=PUBLIC)
    assert len(model.ledger_) == 1


def test_people_whose_files_write_their_number_in_two_ways_are_the_same(tmp_path):
    first = table().slice(0, 2).set_column(5, "who", pa.array(["12345678901", "7"]))
    for name, ids in {"floats": [1.2345678901e10, 7.0], "ints": [12345678901, 7]}.items():
        path = tmp_path / name
        path.mkdir()
        pq.write_table(first, path / "0.parquet")
        pq.write_table(first.set_column(5, "who", pa.array(ids)), path / "1.parquet")
        rows = opened(path, "moments", people=True)
        people = rows.load().people
        assert people[:2].tolist() == people[2:].tolist()


@pytest.mark.parametrize("form", ["parquet", "feather"])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_which_file_comes_first_decides_nothing(form, names, tmp_path):
    """As float32, 16777217.0 would be 16777216.0: two people one; and features would round."""
    short, long = pa.array([0.5, 0.1], pa.float32()), pa.array([0.1, 0.3])
    path = {"short": tmp_path / f"{names[0]}.{form}", "long": tmp_path / f"{names[1]}.{form}"}
    write: Any = pq.write_table if form == "parquet" else pyarrow.feather.write_feather
    for one, a in (("short", short), ("long", long)):
        write(pa.table({"a": a, "label": [0, 1], "who": [7, 8]}), path[one])
    rows = open_table(
        pyarrow.dataset.dataset(tmp_path, format=form), target="label", classes=[0, 1],
        numeric=["a"], groups="who",
    )  # fmt: skip
    expected = {0.5, float(np.float32(0.1)), 0.1, 0.3}
    assert set(rows.load().rows[:, 0].tolist()) == expected
    pairs: list[Any] = [
        (pa.array([1.0, 2.0], pa.float32()), pa.array([16777216.0, 16777217.0])),
        (pa.array([1.0, 2.0]), pa.array([2**53, 2**53 + 1])),
        (pa.array([1.0, 3.0]), pa.array([Decimal("1.25"), 2], pa.decimal128(20, 2))),
    ]
    for whose in pairs:
        for one, who in zip(path, whose, strict=True):
            write(pa.table({"a": short, "label": [0, 1], "who": who}), path[one])
        source = pyarrow.dataset.dataset(tmp_path, format=form)
        declared: Any = {"numeric": ["a"], "groups": "who"}
        found = open_table(source, target="label", classes=[0, 1], **declared).load()
        assert len(set(found.people.tolist())) == 4
        assert len(load_table(source, target="label", classes=[0, 1], **declared)) == 4


def test_people_in_partitions_of_dask_may_be_of_two_types():
    import dask
    import dask.dataframe as dd

    frame = table().slice(0, 4).to_pandas()
    parts = [frame, frame.assign(who=frame["who"].astype(float))]
    source = dd.from_delayed([dask.delayed(one) for one in parts], meta=frame, verify_meta=False)
    people = opened(source, "moments", people=True).load().people
    assert people[:4].tolist() == people[4:].tolist()


def test_what_folders_and_other_files_say_is_as_arrow_has_it(tmp_path):
    """A folder's name stands before a column of the file; what a file lacks is nothing."""
    for site in ("north", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"site={site}").mkdir()
        file = table().slice(0, 30).append_column("site", pa.repeat("x", 30))
        more = file.append_column("more", pa.array(np.arange(30.0)))
        pq.write_table(file, tmp_path / f"site={site}" / "b.parquet", row_group_size=7)
        pq.write_table(more, tmp_path / f"site={site}" / "a.parquet", row_group_size=7)
    (tmp_path / "site=north" / "a.parquet").rename(tmp_path / "a.parquet")
    source = pyarrow.dataset.dataset(tmp_path, format="parquet", partitioning="hive")
    for wanted in (["site"], ["more", "site", "a"]):
        batches = batches_of(source, TextFormat()).of(wanted)
        found = [pa.table({name: one[name] for name in wanted}) for one in batches]
        assert [row for one in found for row in one.to_pylist()] == source.to_table(
            columns=wanted
        ).to_pylist()


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(4, 2)])
def test_minus_nothing_is_nothing(kind):
    who = pa.array([0, Decimal("-0.0"), 1], kind) if kind == pa.decimal128(4, 2) else [0.0, -0.0, 1]
    rows = opened(table().slice(0, 3).set_column(5, "who", pa.array(who, kind)), "x", people=True)
    first, second, other = rows.load().people.tolist()
    assert first == second != other


def test_a_part_that_cannot_be_read_is_never_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 200)
    rows = opened(folder(tmp_path / "rows", 3, 100), "prototype", people=False)
    read, reads, parts = TablePiece.read, [], len(rows.pieces())

    def failing(piece: TablePiece) -> Any:
        reads.append(piece)
        if len(reads) == parts + 2:  # of the second pass: the first has checked all rows
            raise OSError("4711 Main Street")
        return read(piece)

    monkeypatch.setattr(TablePiece, "read", failing)
    model = PrototypeClassifier(n_prototypes=12, classes=[0, 1], ledger=tmp_path / "it.ledger")
    with pytest.raises(RecordsUnread, match="OSError") as caught:
        model.set_params(delta=1e-5).fit(rows, X_public=PUBLIC)
    assert "4711" not in str(caught.value)
    assert len(Ledger(tmp_path / "it.ledger")) == 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
@pytest.mark.parametrize("together", [2**13, 2**18], ids=["groups of rows", "one group"])
def test_rows_that_do_not_fit_into_memory(tmp_path, together):
    rows, columns = 2**18, 80  # 168 MB of numbers; every copy would be one more
    few = pa.table(
        {f"x{place}": np.arange(2**13) % 97 / 97 - place / columns for place in range(columns)}
    )
    few = few.append_column("label", pa.array(np.arange(2**13) % 2))
    few = few.append_column("who", pa.array(np.arange(2**13)))
    plain: Any = {"use_dictionary": False, "compression": "none"}
    with pq.ParquetWriter(tmp_path / "rows.parquet", few.schema, **plain) as writer:
        for _ in range(rows // together):
            writer.write_table(pa.concat_tables([few] * (together // 2**13)))
    pq.write_table(few, tmp_path / "few.parquet")
    code = f"""
        import resource, numpy as np
        from sklearn.naive_bayes import GaussianNB
        from tacit import InsecureNoise, MomentClassifier, PATEClassifier, PrivateKNNClassifier
        from tacit import PrototypeClassifier, ResidualRidgeClassifier
        from tacit.datasets import open_table
        how = {{"classes": [0, 1], "delta": 1e-7, "noise": InsecureNoise(0)}}
        model = MomentClassifier(rounds=1, **how)
        near = PrivateKNNClassifier(k=50, queries=5, epsilon=4.0, **how)
        taught = PATEClassifier(GaussianNB(), n_teachers=40, queries=5, epsilon=4.0, **how)
        votes = PrototypeClassifier(n_prototypes=10, **how)
        curved = ResidualRidgeClassifier(n_landmarks=10, **how)
        public = np.random.default_rng(0).normal(size=(50, {columns}))
        names = [f"x{{place}}" for place in range({columns})]
        about = {{"target": "label", "classes": [0, 1], "numeric": names}}
        def learn(each, path, groups=None):
            each.fit(open_table(path, groups=groups, **about), X_public=public)
        def all_of(path):
            for each in (votes, curved, near, taught, model):
                learn(each, path)
            learn(votes, path, "who")
        all_of({str(tmp_path / "few.parquet")!r})  # all is imported
        now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + 150 * 2**20,) * 2)
        all_of({str(tmp_path / "rows.parquet")!r})
        print(round(float(np.sum(model.releases_[0].values)) / 1000))
        """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    # Each thread would reserve 64 MiB of addresses, and Arrow's own allocator starts threads.
    single = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(
        run, env={**os.environ, **single}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == round(rows / 1000)


def test_a_date_beyond_all_calendars_is_its_own_matter():
    days = pa.array([0, 2**62], pa.timestamp("s"))
    rows = open_table(
        pa.table({"day": days, "label": [0, 1]}),
        target="label",
        numeric=["day"],
        dates={"day": "2020-01-01"},
        classes=[0, 1],
    )
    assert rows.load().rows[:, 0].tolist() == [-18262.0, 2**62 / 86400 - 18262]


def test_a_filtered_dataset_is_refused_in_words(tmp_path):
    source = pyarrow.dataset.dataset(folder(tmp_path / "rows", 1, 100), format="parquet")
    filtered = source.filter(pyarrow.dataset.field("a") > 0)
    with pytest.raises(InvalidArgument, match="without a filter"):
        opened(filtered, "moments", people=False)
    assert opened(filtered.to_table(), "moments", people=False)
