"""Whatever is wrong with private inputs, no message, warning, cause or context quotes a cell."""

from __future__ import annotations

import datetime
import decimal
import re
import warnings
from typing import Any

import numpy as np
import pytest
from canary_traces import CANARY, canary_people, traces_in_words
from flat_settings import built
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import FunctionTransformer

from tacit import (
    DPSGDAutoencoder,
    DPSGDClassifier,
    Ledger,
    MACClassifier,
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit._checks import unquoted
from tacit.errors import InvalidArgument
from tacit.records import Labels, Numbers, labels_of, people_of, read_records

COUNT = 89  # records: the number must not be told, either
ROWS = np.random.default_rng(0).normal(size=(COUNT, 2))
OUTSIDE = np.random.default_rng(1).normal(size=(40, 2))
CLASSES = {"classes": (0, 1)}
BOUNDS = {"low": 0.0, "high": 1.0}
KINDS: dict[type, dict[str, Any]] = {
    PATEClassifier: CLASSES,
    PrivateKNNClassifier: CLASSES,
    PrototypeClassifier: CLASSES,
    MomentClassifier: CLASSES,
    ResidualRidgeClassifier: CLASSES,
    DPSGDClassifier: {**CLASSES, "n_records": 50},
    MACClassifier: {**CLASSES, "n_records": 50},
    PrivateKNNMultiLabelClassifier: {"labels": 2},
    PrivateKNNRegressor: BOUNDS,
    MomentRegressor: BOUNDS,
    ResidualRidgeRegressor: BOUNDS,
    DPSGDAutoencoder: {"n_records": 50},
}
EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
WITH_TARGETS = [kind for kind in KINDS if kind is not DPSGDAutoencoder]
WITH_FEATURES = [kind for kind in KINDS if "features" in kind().get_params()]


class Telling:
    """A cell that gives itself away whenever it is looked at."""

    def __float__(self):
        raise decimal.InvalidOperation(f"c4n4ry {CANARY}")

    __array__ = __index__ = __len__ = __lt__ = __eq__ = __float__

    def __repr__(self):
        return f"c4n4ry {CANARY}"

    __hash__ = object.__hash__


CELLS: dict[str, Any] = {
    "word": "c4n4ry",
    "number in words": f"c4n4ry {CANARY}",
    "bytes": b"c4n4ry",
    "dict": {"c4n4ry": CANARY},
    "list": [CANARY, "c4n4ry"],
    "complex": complex(CANARY, 1),
    "date": datetime.date(1980, 1, 2),
    "huge": int(CANARY) * 10**400,
    "decimal": decimal.Decimal("sNaN77123"),
    "telling": Telling(),
    "nothing": None,
}


def with_cell(cell: Any, row: int = 3) -> np.ndarray:
    table = ROWS.astype(object)
    table[:, 1] = CANARY
    table[row, 0] = cell
    return table


def targets_of(kind: type) -> np.ndarray:
    labels = np.arange(COUNT) % 2
    columns = kind is PrivateKNNMultiLabelClassifier
    return np.stack([labels, 1 - labels], axis=1) if columns else labels


def bad_inputs() -> dict[str, Any]:
    marked = ROWS.copy()
    marked[:] = CANARY
    hollow = marked.copy()
    hollow[5, 1] = np.nan
    endless = marked.copy()
    endless[5, 1] = -np.inf
    return {
        **{f"a {name} in X": with_cell(cell) for name, cell in CELLS.items()},
        "one dimension": marked[:, 0],
        "three dimensions": marked[None],
        "a number": CANARY,
        "a word": "c4n4ry",
        "nothing": None,
        "complex": marked + 1j,
        "NaN": hollow,
        "inf": endless,
        "words": np.full((COUNT, 2), "c4n4ry"),
        "bytes": np.full((COUNT, 2), b"c4n4ry"),
        "ragged": [[CANARY, 1.0], [CANARY]] * 3,
        "sparse": csr_array(marked),
        "no columns": marked[:, :0],
        "dates": np.full((COUNT, 2), np.datetime64("1980-01-02")),
        "fields": np.full(COUNT, CANARY, dtype=[("c4n4ry", float)]),
    }


def bad_targets() -> dict[str, Any]:
    fine = np.ones(COUNT)
    marked = np.full(COUNT, CANARY)
    hollow = np.where(np.arange(COUNT) == 4, np.nan, marked)
    return {
        **{f"a {name} in y": _replaced(fine, cell) for name, cell in CELLS.items()},
        "complex": marked + 1j,
        "NaN": hollow,
        "too few": marked[:7],
        "three columns": np.full((COUNT, 3), CANARY),
        "three dimensions": np.full((COUNT, 1, 1), CANARY),
        "a number": CANARY,
        "ragged": [[1, CANARY], [CANARY]] * 3,
        "sparse": csr_array(marked[None]),
        "mixed": ["c4n4ry", CANARY, None] * 3,
    }


def _replaced(fine: np.ndarray, cell: Any) -> np.ndarray:
    labels = fine.astype(object)
    labels[3] = cell
    return labels


def said_about(work: Any) -> list[str]:
    """Everything that a call says of itself: errors with all behind them, and warnings."""
    error: BaseException | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work()
        except Exception as raised:
            error = raised
    said = [str(each.message) for each in caught]
    refused = error
    while error is not None:
        said += [str(error), repr(error), *getattr(error, "__notes__", [])]
        error = error.__cause__ or error.__context__
    return [type(refused).__name__, *said]


def check_refused(said: list[str]) -> None:
    assert said[0] in ("InvalidArgument", "UnreadableCell"), said
    assert not traces_in_words(*said)
    assert not any(re.search(rf"\b{COUNT}\b", text) for text in said), said


@EVERY
def test_inputs_are_refused_without_a_quote(kind, tmp_path):
    for name, X in bad_inputs().items():
        if name == "a word" and kind not in WITH_TARGETS:
            continue  # names a table, and is quoted as what the user typed
        model = built(kind, **KINDS[kind], ledger=tmp_path / "a.ledger")
        said = said_about(lambda: model.fit(X, targets_of(kind), X_public=OUTSIDE))  # noqa: B023
        assert said[0] != "NoneType", name
        check_refused(said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", WITH_TARGETS)
def test_targets_are_refused_without_a_quote(kind, tmp_path):
    for name, y in bad_targets().items():
        model = built(kind, **KINDS[kind], ledger=tmp_path / "a.ledger")
        said = said_about(lambda: model.fit(ROWS, y, X_public=OUTSIDE))  # noqa: B023
        assert said[0] != "NoneType", name
        check_refused(said)
    assert not list(tmp_path.iterdir())


@EVERY
@pytest.mark.parametrize(
    "people",
    [
        canary_people(COUNT - 1),
        np.array([canary_people(COUNT)]),
        "c4n4ry",
        [{"c4n4ry": 1}] * COUNT,
        [Telling()] * COUNT,
        [["c4n4ry"], ["c4n4ry", "x"]],
    ],
    ids=["too few", "two dimensions", "a word", "dicts", "telling", "ragged"],
)
def test_groups_are_refused_without_a_quote(kind, people, tmp_path):
    model = built(kind, **KINDS[kind], ledger=tmp_path / "a.ledger")
    check_refused(
        said_about(lambda: model.fit(ROWS, targets_of(kind), X_public=OUTSIDE, groups=people))
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", WITH_FEATURES)
def test_features_that_fail_quote_nothing(kind, tmp_path):
    def picky(rows):
        if (rows == CANARY).any():
            warnings.warn(f"c4n4ry {CANARY}", stacklevel=1)
            raise ValueError(f"c4n4ry {rows}")
        return rows

    rows = ROWS.copy()
    rows[7] = CANARY
    ledger = tmp_path / "a.ledger"
    model = built(kind, **KINDS[kind], features=FunctionTransformer(picky), ledger=ledger)
    for name, few in (("n_teachers", 5), ("queries", 9), ("n_prototypes", 9), ("n_landmarks", 9)):
        if name in model.get_params():
            model.set_params(**{name: few})
    said = said_about(lambda: model.fit(rows, targets_of(kind), X_public=OUTSIDE))
    assert said[0] == "NoneType"  # a row on which they fail says nothing
    assert not traces_in_words(*said)
    assert len(Ledger(ledger)) > 0


cells = st.one_of(
    st.sampled_from(list(CELLS.values())),
    st.text().map(lambda text: f"{text}c4n4ry{text}"),
    st.complex_numbers().map(lambda one: complex(CANARY, one.imag or 1.0)),
    st.sampled_from([np.nan, np.inf, -np.inf]),
)


BOUNDED = Numbers(0, 1)


@given(cell=cells, row=st.integers(0, COUNT - 1), listed=st.booleans())
def test_one_odd_cell_anywhere_is_refused_without_a_quote(cell, row, listed):
    table = with_cell(cell, row)
    X = table.tolist() if listed else table
    check_refused(said_about(lambda: read_records(X, ROWS[:, 0], None, BOUNDED)))
    y = table[:, 0].tolist() if listed else table[:, 0]
    check_refused(said_about(lambda: read_records(ROWS, y, None, BOUNDED)))


class TestLabels:
    def test_many_classes_among_few_records_are_no_news(self):
        """scikit-learn warns of more classes than half of the records: a private number."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            places, fits = labels_of(range(20)).read(np.arange(22) % 20)
        assert places[21] == 1
        assert fits.all()

    @pytest.mark.parametrize("labels", [[0.5, 1.5, 0.5], ["c4n4ry", "b"], [CANARY, 1, 2]])
    @pytest.mark.parametrize("classes", [[0, 1], ["a", "b"]])
    def test_others_are_refused_without_a_quote(self, labels, classes):
        work = lambda: read_records(np.ones((len(labels), 1)), labels, None, labels_of(classes))  # noqa: E731
        check_refused(said_about(work))

    def test_the_set_is_read_where_that_is_asked_for(self):
        assert labels_of("from_data", ["c4n4ry", "b"]).classes == ("b", "c4n4ry")
        assert labels_of("from_data", [3.0, "1", 3]).classes == (1, 3)

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].get("classes")])
    @pytest.mark.parametrize("classes", [10, np.int64(2), "c4n4ry", {"c4n4ry", "b"}, 0.5])
    def test_what_is_no_list_is_answered_with_one(self, kind, classes, tmp_path):
        model = built(kind, **{**KINDS[kind], "classes": classes}, ledger=tmp_path / "a.ledger")
        said = said_about(lambda: model.fit(ROWS, targets_of(kind), X_public=OUTSIDE))
        check_refused(said)
        assert "a list of all the labels there are, such as range(10)" in said[1]
        assert not list(tmp_path.iterdir())


def test_a_column_is_taken_for_labels_and_said_to_be():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        found, _ = read_records(ROWS, np.ones((COUNT, 1)), None, Labels((0, 1)))
    assert found.targets.shape == (COUNT,)


def test_numbers_come_back_as_floats():
    for y in (np.arange(COUNT), np.arange(COUNT).astype(object), np.arange(COUNT).astype("U9")):
        found, _ = read_records(ROWS, y, None, Numbers(0, COUNT))
        assert found.targets.dtype == np.float64
        np.testing.assert_array_equal(found.targets, np.arange(COUNT))
    with pytest.raises(InvalidArgument, match="finite"):
        read_records(ROWS, ["nan"] * COUNT, None, BOUNDED)


def test_people_may_be_any_sequence():
    for people in ([1, 2], (1, 2), range(1, 3), np.array([1, 2]), np.array(["1", "2"])):
        np.testing.assert_array_equal(people_of(people, 2), people_of(["1", "2"], 2))


REFUSED = [(kind, {"delta": 1 / COUNT}) for kind in KINDS if kind is not PATEClassifier]
REFUSED += [(PATEClassifier, {"delta": 1 / COUNT, "n_teachers": 9})]
REFUSED += [(PATEClassifier, {"n_teachers": COUNT + 1})]


@pytest.mark.parametrize(("kind", "changes"), REFUSED)
def test_a_refusal_by_the_number_of_records_does_not_tell_it(kind, changes, tmp_path):
    """That it is refused tells one bit, which docs/sharp-edges.md lists; the number is not told."""
    model = built(kind, **{**KINDS[kind], **changes}, ledger=tmp_path / "a.ledger")
    said = said_about(lambda: model.fit(ROWS, targets_of(kind), X_public=OUTSIDE))
    check_refused(said)
    assert f"Expected {next(iter(changes))}=" in said[1]
    assert not list(tmp_path.iterdir())


def test_an_error_that_fails_to_say_what_it_is_quotes_nothing():
    class Mute(Exception):
        def __str__(self):
            raise ValueError("cell 4711")

    def work():
        raise Mute

    with pytest.raises(InvalidArgument, match="fails with Mute") as caught:
        unquoted(work, "a call")
    assert caught.value.__context__ is None


@EVERY
def test_public_columns_in_another_order_are_refused(kind, tmp_path):
    """They would be taken for one another without a word."""
    pandas = pytest.importorskip("pandas")
    private = pandas.DataFrame(ROWS, columns=["age", "weight"])
    public = pandas.DataFrame(OUTSIDE, columns=["weight", "age"])
    book = tmp_path / "run.ledger"
    model = built(kind, **KINDS[kind], ledger=book)
    with pytest.raises(InvalidArgument, match="the columns of X, in the same order"):
        model.fit(private, targets_of(kind), X_public=public)
    assert not book.exists()
