"""A private row that is also public: refused before anything is spent, in every estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flat_settings import built
from hypothesis import given
from hypothesis import strategies as st

from tacit import (
    DPSGDAutoencoder,
    DPSGDClassifier,
    Ledger,
    MACAutoencoder,
    MACClassifier,
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PATESegmenter,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.audit import audit_estimator, make_canaries
from tacit.errors import InvalidArgument
from tacit.noise import InsecureNoise
from tacit.records import refuse_overlap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
OUTSIDE = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(np.int64)
CLASSES = {"classes": (0, 1)}
BOUNDS = {"low": 0.0, "high": 1.0}
STEPS = {"hidden": (4,), "n_records": 300, "batch_size": 100, "epochs": 1}
KINDS: dict[type, dict[str, Any]] = {
    PATEClassifier: {"n_teachers": 10, "queries": 5, **CLASSES},
    PrivateKNNClassifier: {"k": 20, "queries": 5, **CLASSES},
    PrivateKNNMultiLabelClassifier: {"k": 20, "queries": 5, "labels": 2},
    PrivateKNNRegressor: {"k": 20, "queries": 5, **BOUNDS},
    PrototypeClassifier: {"n_prototypes": 6, **CLASSES},
    MomentClassifier: CLASSES,
    ResidualRidgeClassifier: {"n_landmarks": 10, **CLASSES},
    MomentRegressor: BOUNDS,
    ResidualRidgeRegressor: {"n_landmarks": 10, **BOUNDS},
    DPSGDClassifier: {**STEPS, **CLASSES},
    MACClassifier: {**STEPS, **CLASSES},
    DPSGDAutoencoder: {**STEPS, "hidden": (2,)},
    MACAutoencoder: {**STEPS, "hidden": (2,)},
}
EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def make(kind: type, **changes: Any) -> Any:
    given = {"epsilon": 4.0, "delta": 1e-4, "random_state": 0, "noise": InsecureNoise(0)}
    return built(kind, **{**given, **KINDS[kind], **changes})


def fit(model: Any, outside: np.ndarray, rows: np.ndarray = X) -> Any:
    y = np.stack([Y, 1 - Y], axis=1) if isinstance(model, PrivateKNNMultiLabelClassifier) else Y
    return model.fit(rows, y, X_public=outside)


class TestEveryEstimator:
    @EVERY
    def test_refuses_before_there_is_a_ledger(self, kind, tmp_path):
        mixed = np.vstack([OUTSIDE, X[7:9]])
        with pytest.raises(InvalidArgument, match="equals a public one") as caught:
            fit(make(kind, ledger=tmp_path / "run.ledger"), mixed)
        assert not any(character.isdigit() for character in str(caught.value))
        assert not (tmp_path / "run.ledger").exists()

    @EVERY
    @pytest.mark.parametrize("narrow", ["float16", "float32"])
    def test_refuses_the_same_row_in_another_precision(self, kind, narrow, tmp_path):
        outside = np.vstack([OUTSIDE, X[-1:]])
        for rows, others in ((X.astype(narrow), outside), (X, outside.astype(narrow))):
            with pytest.raises(InvalidArgument, match="no private row that equals a public one"):
                fit(make(kind, ledger=tmp_path / "run.ledger"), others, rows)
        assert list(tmp_path.iterdir()) == []

    @EVERY
    def test_looks_for_nothing_where_that_is_allowed(self, kind, tmp_path, monkeypatch):
        def looked(*given):
            raise AssertionError("rows were compared although nobody was to look")

        monkeypatch.setattr("tacit.methods.base.refuse_overlap", looked)
        for number, outside in enumerate((OUTSIDE, np.vstack([OUTSIDE, X[:2]]))):
            path = tmp_path / f"{number}.ledger"
            fit(make(kind, allow_overlap=True, ledger=path), outside)
            assert told(Ledger(path))

    @EVERY
    def test_says_nothing_where_rows_were_compared(self, kind, tmp_path):
        fit(make(kind, ledger=tmp_path / "run.ledger"), OUTSIDE)
        assert not told(Ledger(tmp_path / "run.ledger"))

    @EVERY
    @pytest.mark.parametrize("word", ["false", 1, None])
    def test_takes_true_or_false_only(self, kind, word):
        with pytest.raises(InvalidArgument, match="allow_overlap="):
            fit(make(kind, allow_overlap=word), OUTSIDE)


def told(ledger: Ledger) -> bool:
    return any("equal rows were allowed, not looked for" in w for w in ledger.statement().warnings)


class TestScans:
    @pytest.mark.parametrize("what", ["scans", "masks"])
    def test_a_whole_scan_or_mask_that_is_private_and_public(self, what, tmp_path):
        rng = np.random.default_rng(0)
        scans, public = rng.normal(size=(20, 8, 8)), rng.normal(size=(4, 8, 8))
        masks, known = rng.integers(0, 2, (20, 8, 8)), rng.integers(0, 2, (6, 8, 8))
        if what == "scans":
            public[1] = scans[3].astype(np.float32)
        else:
            known[1] = masks[3]
        model = built(PATESegmenter, n_teachers=4, delta=1e-3, ledger=tmp_path / "run.ledger")
        with pytest.raises(InvalidArgument, match="equals a public one"):
            model.fit(scans, masks, public, public_masks=known)
        assert not (tmp_path / "run.ledger").exists()

    def test_masks_without_an_organ_are_anybodys(self):
        rng = np.random.default_rng(0)
        masks, known = rng.integers(0, 2, (20, 8, 8)), rng.integers(0, 2, (6, 8, 8))
        masks[:3], known[:2] = 0, 0
        model = built(PATESegmenter, n_teachers=4, delta=1e-3)
        assert model._known(known, masks) is not None


class TestTheSameNumbers:
    """However they are stored; and no other numbers."""

    @pytest.mark.parametrize("private", ["float32", "float64"])
    @pytest.mark.parametrize("public", ["float16", "float32", "float64", ">f8"])
    def test_a_record_in_another_precision(self, private, public):
        rows = RNG.normal(size=(40, 5))
        with pytest.raises(InvalidArgument, match="equals"):
            refuse_overlap(rows.astype(private), rows[5:6].astype(public))

    @pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "bool", "float32"])
    def test_whole_numbers_of_any_type(self, kind):
        rows = np.array([[0, 1, 1], [1, 0, 1]])
        with pytest.raises(InvalidArgument, match="equals"):
            refuse_overlap(rows.astype(np.float64), rows[:1].astype(kind))

    def test_both_zeros_and_both_orders(self):
        with pytest.raises(InvalidArgument, match="equals"):
            refuse_overlap(np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0]]))
        rows = np.asfortranarray(RNG.normal(size=(9, 4)))
        with pytest.raises(InvalidArgument, match="equals"):
            refuse_overlap(rows, np.ascontiguousarray(rows[8:]))

    @given(st.integers(2**24, 2**30))
    def test_neighbouring_numbers_are_other_rows(self, number):
        """Nothing is rounded on both sides: large ids and dates would fall together."""
        odd = 2 * number + 1  # no float32
        refuse_overlap(np.array([[float(odd)]]), np.array([[float(odd + 2)]]))

    def test_other_rows_pass(self):
        refuse_overlap(X, OUTSIDE)
        refuse_overlap(X.astype(np.float32), OUTSIDE)
        refuse_overlap(X, X + 1e-6)


def test_an_audit_compares_its_rows_and_plants_its_canaries():
    model = make(PrototypeClassifier)
    canaries = make_canaries(OUTSIDE, (0, 1), 40, random_state=0)
    assert audit_estimator(model, X, Y, OUTSIDE, canaries).claim > 0
    assert model.allow_overlap is False
    with pytest.raises(InvalidArgument, match="equals a public one"):
        audit_estimator(model, X, Y, np.vstack([OUTSIDE, X[:1]]), canaries)
