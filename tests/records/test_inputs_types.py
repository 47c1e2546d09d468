"""Whatever type one record brings, the others' numbers, labels and votes stay bit for bit.

NumPy gives an array one type for all its rows: one record in float64, one fraction, one object, one
word decides for everybody. So rows become float64 at the door, each from itself alone.
"""

from __future__ import annotations

import decimal
import fractions
from typing import Any

import numpy as np
import pytest
from flat_settings import built
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from knn_shared import Quiet, blobs
from sklearn.preprocessing import FunctionTransformer

from tacit import (
    DPSGDAutoencoder,
    DPSGDClassifier,
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
from tacit.errors import InvalidArgument
from tacit.features import digit_features
from tacit.features.rows import transform_rows
from tacit.noise import InsecureNoise
from tacit.records import Numbers, labels_of, public_matrix, read_records
from tacit.students import LabelSpreadingStudent
from tacit.teachers import Serial, predict_with_teachers, record_ids, shard_key, shard_of

SINGLE, Y = blobs(60)
SINGLE = SINGLE.astype(np.float32)
DOUBLE = SINGLE.astype(np.float64)
OUTSIDE = blobs(30, seed=1)[0]
WIDE = np.longdouble


def read(X: Any, y: Any = None) -> tuple[Any, Any]:
    endless = Numbers(-np.inf, np.inf)
    found, _ = read_records(X, np.zeros(len(X)) if y is None else y, None, endless)
    return found.rows, found.targets


ROWS: dict[str, Any] = {
    **{kind: np.array([[0.1, 2.5]], dtype=kind) for kind in ("f2", "f4", "f8", "g", ">f4")},
    **{kind: np.array([[1, 2]], dtype=kind) for kind in ("i1", "u1", "i2", "i4", "i8", "u8", "?")},
    "beyond 2^53": np.array([[2**53 + 1, -(2**62) - 1]]),
    "beyond 2^63": np.array([[2**64 - 1, 2**63]], dtype=np.uint64),
    "a word": np.array([["1.5", " 2e3 "]], dtype=object),
    "a decimal": np.array([[decimal.Decimal("0.1"), 1]], dtype=object),
    "a fraction": np.array([[fractions.Fraction(1, 3), True]], dtype=object),
    "10^30": np.array([[10**30, -(10**30)]], dtype=object),
}
OTHERS = {
    **{kind: SINGLE[:9].astype(kind) for kind in ("f2", "f4", "f8", "g")},
    "i8": np.array([[2**60 + 1, 3], [2**53 + 1, -5]]),
    "u8": np.array([[2**64 - 1, 3]], dtype=np.uint64),
    "?": np.array([[True, False]]),
}


@pytest.mark.parametrize("brings", ROWS)
@pytest.mark.parametrize("have", OTHERS)
@pytest.mark.parametrize("place", ["first", "last"])
def test_one_row_of_another_type_changes_no_other_row(have, brings, place):
    others, one = OTHERS[have], ROWS[brings]
    expected = read(np.vstack([others, others]))[0][: len(others)]
    assert expected.dtype == np.float64
    tables = [np.vstack([others, one]), [*others, *one], [*others.tolist(), *one.tolist()]]
    if place == "first":
        tables = [np.vstack([one, others]), [*one, *others], [*one.tolist(), *others.tolist()]]
    rows = slice(None, -1) if place == "last" else slice(1, None)
    for table in tables:
        seen = read(table)[0]
        assert seen.dtype == np.float64
        assert seen.flags.c_contiguous
        assert seen[rows].tobytes() == expected.tobytes()


@given(
    table=hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.uint64, np.bool_]),
        st.tuples(st.integers(2, 5), st.just(3)),
        elements=None,
    ),
    kind=st.sampled_from([np.float32, np.float64, WIDE, np.int64, np.uint64, object]),
)
def test_rows_are_those_that_they_are_alone(table, kind):
    if not np.isfinite(table.astype(np.float64)).all():
        return
    whole = np.vstack([table.astype(object), np.ones((1, 3), dtype=object)])
    mixed = np.vstack([table, np.ones((1, 3), dtype=kind)])
    alone = np.vstack([read(np.vstack([row, row]))[0][:1] for row in table])
    for each in (mixed, whole, np.asfortranarray(mixed)):
        assert read(each)[0][:-1].tobytes() == alone.tobytes()


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "O", "?"])
def test_public_inputs_are_of_the_same_type(kind):
    outside = np.array([[1, 0], [0, 1]], dtype=kind)
    assert public_matrix(outside, 2).dtype == np.float64
    assert public_matrix(outside, 2).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def frames() -> list[Any]:
    found = []
    for name in ("pandas", "polars"):
        try:
            found.append(__import__(name))
        except ImportError:
            continue
    return found


@pytest.mark.skipif(not frames(), reason="neither pandas nor polars is here")
def test_one_cell_of_a_frame_changes_no_other_row():
    columns = {"a": SINGLE[:9, 0], "b": SINGLE[:9, 1]}
    for library in frames():
        expected = read(library.DataFrame(columns))[0]
        for cell in (0.1, 7, True, decimal.Decimal("0.1")):
            longer = {"a": [*columns["a"].tolist(), cell], "b": [*columns["b"].tolist(), 1.0]}
            loose = {"strict": False} if library.__name__ == "polars" else {}
            seen = read(library.DataFrame(longer, **loose))[0]
            assert seen[:-1].tobytes() == expected.tobytes()


CLASSES, BOUNDS = {"classes": (0, 1, 2)}, {"low": 0.0, "high": 3.0}
NEAR = {"k": 9, "queries": 6}
STEPS = {"n_records": 60, "batch_size": 30, "epochs": 2, "noise_multiplier": 1.0, "hidden": (4,)}
KINDS: dict[type, dict[str, Any]] = {
    PATEClassifier: {**CLASSES, "n_teachers": 4, "queries": 12},
    PrivateKNNClassifier: {**CLASSES, **NEAR, "rounds": 2},
    PrivateKNNMultiLabelClassifier: {"labels": 3, **NEAR},
    PrivateKNNRegressor: {**BOUNDS, **NEAR},
    PrototypeClassifier: {**CLASSES, "n_prototypes": 9, "student": LabelSpreadingStudent()},
    MomentClassifier: CLASSES,
    ResidualRidgeClassifier: {**CLASSES, "n_landmarks": 9},
    MomentRegressor: BOUNDS,
    ResidualRidgeRegressor: {**BOUNDS, "n_landmarks": 9},
    DPSGDClassifier: {**CLASSES, **STEPS, "epsilon": 50.0},
    DPSGDAutoencoder: {**STEPS, "epsilon": 50.0},
    MACClassifier: {**CLASSES, **STEPS, "epsilon": 50.0, "z_steps": 2},
}


def sharp(X: Any) -> Any:
    """A feature that single and double precision do not agree on at all."""
    return np.sin(X * X.dtype.type(1e6))


def told(kind: type, rows: Any) -> list[Any]:
    """Return all that a run releases, without noise on numbers; of training, the model."""
    y = np.append(Y, 1)[: len(rows)]
    settings = {**KINDS[kind], "allow_large_delta": True, "random_state": 0}
    if "features" in kind().get_params():
        settings["features"] = FunctionTransformer(sharp)
    settings["noise"] = InsecureNoise(0) if hasattr(kind(), "training") else Quiet()
    model = built(kind, **settings)
    model.fit(rows, np.eye(3, dtype=int)[y] if "labels" in settings else y, X_public=OUTSIDE)
    if hasattr(kind(), "training"):
        arrays = model.student_._arrays()
        return [arrays[name] for name in sorted(arrays)]
    releases = [model.table_] if hasattr(model, "table_") else model.releases_
    return [np.asarray(release) for release in releases]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_single_precision_tells_what_double_precision_tells(kind):
    """So one row in float64, which makes the others float64, changes nothing that they say."""
    expected = told(kind, DOUBLE)
    variants = [SINGLE, np.asfortranarray(SINGLE), DOUBLE.astype(object), DOUBLE.tolist()]
    for rows in variants if kind is PrototypeClassifier else variants[:2]:
        for one, other in zip(told(kind, rows), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_table_moves_by_one_when_one_row_in_another_precision_comes():
    (before,) = told(PrototypeClassifier, SINGLE)
    (after,) = told(PrototypeClassifier, np.vstack([SINGLE, [[0.1, 0.2]]]))
    assert np.linalg.norm(after - before) <= 1 + 1e-9


def test_one_row_in_another_precision_moves_one_teacher_of_default_teachers():
    """The lower door, too: records in shards, without an estimator."""
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(3)
    X = draw.normal(size=(80, 6)).astype(np.float32)
    y = (X.sum(axis=1) + draw.normal(size=80) > 0).astype(int)
    queries = draw.normal(size=(200, 6)) * 1e-3
    noted: list[Any] = []

    class Noting(LogisticRegression):
        def fit(self, X: Any, y: Any) -> Any:
            noted.append(X.tobytes())
            return super().fit(X, y)

    def votes(rows: Any, labels: Any) -> Any:
        noted.clear()
        shards = shard_of(record_ids(rows, labels), 4, shard_key(0))
        how = {"n_classes": 2, "executor": Serial()}  # in this process, where it notes
        said = predict_with_teachers(Noting(), rows, labels, shards, 4, queries, **how)
        return said, set(noted)

    before, seen = votes(X, y)
    after, seen_after = votes(np.vstack([X, np.full((1, 6), 0.1)]), np.append(y, 1))
    assert (before != after).any(axis=1).sum() <= 1
    assert len(seen - seen_after) == 1  # the other teachers were given the very same bytes


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i4", "i8", "u1"])
def test_a_record_has_one_id_and_one_shard_in_every_type(kind):
    whole = np.array([[1, 2], [3, 250]])
    rows = whole.astype(kind)
    assert record_ids(rows).tolist() == record_ids(whole).tolist()
    mixed = np.vstack([rows, [[0.1, 0.2]]])
    assert record_ids(mixed)[:2].tolist() == record_ids(whole).tolist()
    assert (
        (shard_of(record_ids(mixed), 99, shard_key(0))[:2]).tolist()
        == shard_of(record_ids(rows), 99, shard_key(0)).tolist()
    )


@pytest.mark.parametrize("odd", ["a", b"a", 2.0, True, 10**30, np.float32(3)])
def test_one_odd_label_changes_no_other_records_id(odd):
    rows = np.arange(8.0).reshape(4, 2)
    for labels in ([0, 1, 1], [0.0, 1.0, 1.0], [False, True, True], list("abc")):
        expected = record_ids(rows[:3], labels).tolist()
        assert record_ids(rows, [*labels, odd])[:3].tolist() == expected
        assert record_ids(rows, np.array([*labels, odd], dtype=object))[:3].tolist() == expected


def placed(y: Any, classes: Any) -> list[int] | str:
    """Return the labels' places, or that they are refused."""
    places, fits = labels_of(classes).read(y)
    return places.tolist() if fits.all() else "refused"


@pytest.mark.parametrize("own", [[0, 1], [0.0, 1.0], [False, True], [np.int8(0), np.uint64(1)]])
def test_numbers_are_read_by_value_whatever_stands_beside_them(own):
    labels = own * 3
    for odd in (1, 1.0, True, np.float16(1), np.uint8(1), "1", " 1.0", b"1", 1 + 0j):
        for y in ([*labels, odd], [odd, *labels], np.array([*labels, odd], dtype=object)):
            assert placed(y, [0, 1]) == [1 if label is odd else int(label) for label in y]
    for odd in ("a", None, 1 + 1j, float("nan"), 0.5, 7, [1], 10**30):
        for y in ([*labels, odd], [odd, *labels]):
            assert placed(y, [0, 1]) == "refused"


def test_a_number_is_the_word_for_it():
    words = ["0", "1"] * 3
    for odd in (1, 1.0, True, b"1", "1"):
        assert placed([*words, odd], ["0", "1"]) == [0, 1, 0, 1, 0, 1, 1]
        assert placed(np.array([*words, odd], dtype=object), ["0", "1"])[-1] == 1
    assert placed([*words, None], ["0", "1"]) == "refused"


def test_one_fraction_does_not_round_the_large_labels_of_others():
    large = [2**53, 2**53 + 2]
    assert placed([*large, 1], [1, *large]) == placed([*large, 1.0], [1, *large]) == [1, 2, 0]
    assert placed([2**53 + 1, 2**53], [2**53, 2**53 + 1]) == [1, 0]
    with pytest.raises(InvalidArgument, match="one is no label"):
        labels_of([0.0, 1.0, float("nan")])


def test_a_label_set_of_words_and_numbers_is_refused():
    for classes in ([0, 1, "unknown"], ["a", b"a"], [0, None]):
        with pytest.raises(InvalidArgument, match="all words or all numbers"):
            labels_of(classes)


def test_one_text_among_targets_does_not_round_the_others():
    singles = list(SINGLE[:5, 0])
    plain = read(DOUBLE[:5], singles)[1]
    seen = read(DOUBLE[:6], [*singles, "0.1"])[1]
    assert plain.tobytes() == seen[:5].tobytes() == DOUBLE[:5, 0].tobytes()
    assert seen[5] == 0.1


@pytest.mark.parametrize("features", [digit_features((8, 8)), FunctionTransformer(np.sin)])
def test_features_of_rows_are_those_of_double_precision(features):
    images = np.random.default_rng(0).uniform(0, 16, size=(5, 64)).astype(np.float32)
    features = features.fit(images[:1])
    expected = transform_rows(features, images.astype(np.float64), images)
    np.testing.assert_array_equal(transform_rows(features, images, images), expected)
    np.testing.assert_array_equal(transform_rows(features, images.astype(object), images), expected)
