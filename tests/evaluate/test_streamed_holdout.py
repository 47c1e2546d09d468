"""Records kept apart in a table that is gone through in batches: the bits of all at once."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tacit import Budget, InsecureNoise, Ledger, MomentClassifier
from tacit.datasets import open_table
from tacit.errors import InvalidArgument
from tacit.evaluate import evaluate
from tacit.evaluate.judged import Judged

RNG = np.random.default_rng(0)
N = 1500
X = RNG.uniform(size=(N, 2))
Y = (RNG.uniform(size=N) < X[:, 0]).astype(int)
NUMBERS = 2 * X[:, 0] + RNG.uniform(-0.2, 0.2, size=N)
PEOPLE = RNG.integers(0, N // 2, size=N)
PUBLIC = np.random.default_rng(1).uniform(size=(300, 2))
LABELLED: Any = {"target": "label", "classes": [0, 1]}


class Model:
    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        return np.column_stack([1 - rows[:, 0], rows[:, 0]])


class Three(Model):
    classes_ = np.array([0, 1, 2])

    def predict_proba(self, rows):
        chances = np.column_stack([1 - rows[:, 0], rows[:, 0], np.full(len(rows), 0.1)])
        return chances / chances.sum(1, keepdims=True)


class Line:
    bounds_ = (0.0, 2.0)

    def predict(self, rows):
        return 2 * rows[:, 0]


class Holder(Model):
    """A wrapper that nobody knows, with a model deep inside and a ledger of its own."""

    def __init__(self, model):
        self.inside = {"models": [(model, 0.5)]}
        self.book = model.ledger_

    def predict_proba(self, rows):
        return self.inside["models"][0][0].predict_proba(rows)


def piped(model):
    return make_pipeline(FunctionTransformer(), FrozenEstimator(model))


@pytest.mark.parametrize("within", [lambda model: model, piped, Holder], ids=["it", "pipe", "deep"])
def test_workers_get_what_predicts_and_no_ledger(within, tmp_path):
    model = MomentClassifier(delta=1e-5, classes=[0, 1], ledger=tmp_path / "it.ledger")
    model.fit(X, Y, X_public=PUBLIC)
    whole = within(model)
    sent = pickle.dumps(Judged.of(whole, None, None, None))
    assert b"it.ledger" not in sent
    (tmp_path / "it.ledger").rename(tmp_path / "elsewhere")
    assert np.array_equal(pickle.loads(sent).transform(PUBLIC), whole.predict_proba(PUBLIC))
    assert isinstance(model.ledger_, Ledger)  # the model itself keeps what it has


@pytest.mark.parametrize("learned", ["frame", "table"])
def test_columns_that_the_model_would_take_for_others_are_refused_unpaid(learned, tmp_path):
    rows = pa.table({"a": X[:, 0], "b": X[:, 1], "label": Y})
    known = open_table(rows, target="label", classes=[0, 1])
    model = MomentClassifier(delta=1e-5, classes=[0, 1], noise=InsecureNoise(0))
    both = rows.select(["a", "b"])
    if learned == "frame":
        model.fit(both, Y, X_public=PUBLIC)
    else:
        model.fit(known, X_public=PUBLIC)
    ledger = Ledger(tmp_path / "own", budget=Budget(4.0, 1e-5))
    asked: Any = {"epsilon": 1.0, "ledger": ledger, "n_records": N, "share": 0.5}
    asked |= {"disjoint": True, "noise": InsecureNoise(0)}
    turned = rows.select(["b", "a", "label"])
    for given in ([turned.drop(["label"]), Y], [open_table(turned, **LABELLED)]):
        with pytest.raises(InvalidArgument, match="columns of the fit, in their order: a, b"):
            evaluate(model, *given, **asked)
    assert len(ledger) == 0
    evaluate(model, both.slice(0, 20), Y[:20], **asked)
    evaluate(model, open_table(rows.slice(0, 20), **LABELLED), **asked)
    assert len(ledger) == 2


def test_cells_that_stand_for_categories_are_refused_unread(tmp_path):
    rows = pa.table({"a": X[:, 0], "kind": Y, "label": Y})
    about: Any = {**LABELLED, "numeric": ["a"]}
    known = open_table(rows, categorical={"kind": [1, 0]}, **about)
    public = np.c_[PUBLIC[:, 0], np.arange(len(PUBLIC)) % 2]
    model = MomentClassifier(delta=1e-5, classes=[0, 1]).fit(known, X_public=public)
    ledger = Ledger(tmp_path / "own", budget=Budget(4.0, 1e-5))
    asked: Any = {"epsilon": 1.0, "ledger": ledger, "n_records": N, "disjoint": True}
    with pytest.raises(InvalidArgument, match="that open_table opened"):
        evaluate(model, rows.select(["a", "kind"]), Y, **asked)
    with pytest.raises(InvalidArgument, match="'kind' to be declared as at the fit"):
        evaluate(model, open_table(rows, categorical={"kind": [0, 1]}, **about), **asked)
    assert len(ledger) == 0


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.records.stored.BUCKETS", 5)
    monkeypatch.setattr("tacit.records.stored.AT_ONCE", 64)
    monkeypatch.setattr("tacit.datasets.batches._PIECE", 400)
    (tmp_path / "rows").mkdir()
    for number, some in enumerate(np.array_split(RNG.permutation(N), 3)):
        said = {"label": Y[some], "number": NUMBERS[some], "who": PEOPLE[some]}
        rows = pa.table({"a": X[some, 0], "b": X[some, 1], **said})
        pq.write_table(rows, tmp_path / "rows" / f"{number}.parquet", row_group_size=150)
    return tmp_path


def tables(path: Any, name: str, model: Any, *given: Any, **how: Any) -> Any:
    ledger = Ledger(path / name, budget=Budget(4.0, 1e-5), unit=how.pop("unit"))
    found = evaluate(
        model, *given, epsilon=3.0, ledger=ledger, n_records=N // 3, X_public=PUBLIC,
        disjoint=True, noise=InsecureNoise(1), **how,
    )  # fmt: skip
    return found.tables, len(ledger)


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
@pytest.mark.parametrize("model", [Model(), Three(), Line()], ids=["two", "three", "numbers"])
def test_any_partition_gives_the_same_bits(model, people, path):
    unit = {"unit": "person" if people else "record"}
    about: Any = {"target": "number", "target_range": (0, 2)}
    if not isinstance(model, Line):
        about = {"target": "label", "classes": model.classes_.tolist()}
    who = "who" if people else None
    rows = open_table(path / "rows", numeric=["a", "b"], groups=who, **about)
    y = NUMBERS if isinstance(model, Line) else Y
    groups = {"groups": PEOPLE} if people else {}
    expected, paid = tables(path, "a.ledger", model, X, y, **unit, **groups)
    found, charged = tables(path, "b.ledger", model, rows, **unit)
    assert charged == paid
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_what_a_table_cannot_tell_is_refused(path):
    rows = open_table(path / "rows", numeric=["a", "b"], target="label", classes=[0, 1])
    with pytest.raises(InvalidArgument, match="share= to be declared"):
        tables(path, "a.ledger", Model(), rows, unit="record", share="from_data")
    with pytest.raises(InvalidArgument, match="no y and groups"):
        tables(path, "b.ledger", Model(), rows, Y, unit="record")
    public = open_table(path / "rows", numeric=["a", "b"], target="label", classes=[0, 1])
    with pytest.raises(InvalidArgument, match="private row that equals a public one"):
        evaluate(
            Model(), public, epsilon=1.0, ledger=Ledger(path / "c.ledger", budget=Budget(1, 1e-5)),
            n_records=N, X_public=X[:5], disjoint=True,
        )  # fmt: skip
    assert not len(Ledger(path / "a.ledger"))
