"""What an estimator was asked for that no cost covers is in the ledger, and nothing else is.

Faults are what was asked for, never what was found: the ledgers of fits on different private data
tell the same of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from flat_settings import built
from knn_shared import blobs
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tacit import (
    Budget,
    DPSGDClassifier,
    InsecureNoise,
    Ledger,
    MACClassifier,
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PATESegmenter,
    PrivateKNNClassifier,
    PrivateKNNRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.features import PrecomputedEmbeddings
from tacit.ledger import LARGE_DELTA, ONE_RUN
from tacit.masks import DPPCACodec, SimulatedSegmenter
from tacit.masks.segmenters import SIMULATION
from tacit.methods.noisy_training import READ_SIZE, SHARED_BATCH
from tacit.records import READ_CLASSES
from tacit.report import render_report
from tacit.students import SupervisedStudent
from tacit.teachers.families import EstimatorTeachers

OUTSIDE = blobs(80, seed=1)[0]
STEPS = {"epochs": 1, "batch_size": 20, "n_records": "from_data", "noise_multiplier": 4.0}
LABELS = {"classes": "from_data"}
OWN = {
    PATEClassifier: {**LABELS, "teacher": LogisticRegression(), "n_teachers": 10, "queries": 5},
    PrivateKNNClassifier: {**LABELS, "k": 20, "queries": 6, "rounds": 2},
    PrivateKNNRegressor: {"k": 20, "queries": 5, "low": 0, "high": 2},
    PrototypeClassifier: {**LABELS, "n_prototypes": 8},
    MomentClassifier: LABELS,
    MomentRegressor: {"low": 0, "high": 2},
    ResidualRidgeClassifier: {**LABELS, "n_landmarks": 8},
    DPSGDClassifier: {**LABELS, **STEPS},
    MACClassifier: {**LABELS, **STEPS},
}
EVERY = pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)


def faults_of(kind, rows, labels, **settings):
    """Return the faults of each entry that a fit wrote, from the ledger's file."""
    common = {"epsilon": 2.0, "random_state": 0, "noise": InsecureNoise(0)}
    model = built(kind, **{**common, **OWN[kind], **settings}).fit(rows, labels, X_public=OUTSIDE)
    return [entry.faults for entry in Ledger(model.ledger_.path).entries()]


def expected(kind) -> tuple[str, ...]:
    named = {"classes": READ_CLASSES, "n_records": READ_SIZE}
    return (ONE_RUN, LARGE_DELTA, *(said for name, said in named.items() if name in OWN[kind]))


@EVERY
def test_every_release_says_what_was_asked_for_whatever_the_data(kind):
    """Other rows, other labels, fewer of them: what is written of faults is the same."""
    told = [
        faults_of(kind, *blobs(count, seed=seed), allow_large_delta=True)
        for count, seed in ((300, 0), (250, 5))
    ]
    assert told[0] == told[1]
    assert set(told[0]) == {expected(kind)}


@EVERY
def test_what_was_declared_is_no_fault(kind):
    declared = {"classes": (0, 1, 2), "n_records": 300}
    settings = {name: declared[name] for name in declared if name in OWN[kind]}
    assert set(faults_of(kind, *blobs(300), **settings)) == {(ONE_RUN,)}


ENCODING = make_pipeline(PrecomputedEmbeddings("clip"), LogisticRegression())


@pytest.mark.parametrize(
    "held",
    [
        {"teacher": ENCODING},
        {"teacher": EstimatorTeachers(ENCODING)},
        {"student": SupervisedStudent(ENCODING)},
        {"features": ColumnTransformer([], remainder=PrecomputedEmbeddings("clip"))},
    ],
    ids=["teacher", "family", "student", "columns"],
)
def test_an_encoder_is_named_wherever_it_stands(held):
    said = PrecomputedEmbeddings("clip").presumed()
    assert PATEClassifier(classes=(0, 1), **held)._declared_faults() == (ONE_RUN, *said)


def test_rows_that_share_a_batch_on_trial_are_a_fault(monkeypatch):
    """Hooks are tried, not proved; what the trial finds on this processor is not asked here."""
    pytest.importorskip("opacus")
    monkeypatch.setattr("tacit.noisy_training.training.keeps_apart", lambda *_, **__: True)
    settings = {"classes": (0, 1, 2), "n_records": 300, "engine": "hooks", "hidden": (4,)}
    assert set(faults_of(DPSGDClassifier, *blobs(300), **settings)) == {(ONE_RUN, SHARED_BATCH)}


def test_a_second_model_on_the_ledger_signs_what_the_first_one_asked_for(tmp_path):
    book = Ledger(tmp_path / "one.ledger", budget=Budget(4.0, 1e-5))
    common = {"epsilon": 0.5, "random_state": 0, "ledger": book}
    rows, labels = blobs(300)
    built(MomentClassifier, classes="from_data", **common).fit(rows, labels, X_public=OUTSIDE)
    second = built(PrototypeClassifier, classes=(0, 1, 2), n_prototypes=8, **common)
    second.fit(rows, labels, X_public=OUTSIDE)
    assert READ_CLASSES in second.statement_.warnings
    assert READ_CLASSES in render_report(Ledger(book.path))
    assert second.ledger_.entries()[-1].faults == ()


def test_an_answer_says_what_its_fit_asked_for(tmp_path):
    book = Ledger(tmp_path / "one.ledger", budget=Budget(4.0, 1e-5))
    model = built(
        PrivateKNNClassifier, k=20, classes="from_data", radius=9.0, epsilon=0.5, ledger=book
    )
    model.fit(*blobs(300)).set_params(classes=(0, 1, 2))
    model.answer(np.zeros((1, 2)))
    assert [entry.faults for entry in book.entries()] == [(READ_CLASSES,)]
    model.fit(*blobs(300)).answer(np.zeros((1, 2)))
    assert [entry.faults for entry in book.entries()] == [(READ_CLASSES,), ()]


@pytest.mark.parametrize(
    ("kind", "faults"), [(PATESegmenter, ()), (SimulatedSegmenter, (SIMULATION,))]
)
def test_a_simulation_is_one_in_its_ledger(kind, faults):
    scans = np.random.default_rng(0).normal(size=(12, 8, 8))
    masks = (scans > 0).astype(np.int64)

    model = built(kind, n_teachers=4, delta=1e-3, rounds=2, random_state=0, student=Silent())
    model.fit(scans[:8], masks[:8], scans[8:], public_masks=masks[8:])
    entries = Ledger(model.ledger_.path).entries()
    assert [entry.faults for entry in entries] == [(ONE_RUN, *faults)] * 2


@pytest.mark.parametrize("noise", [None, InsecureNoise(0)])
def test_a_codec_that_was_bought_is_named(tmp_path, noise):
    """Its price may be on another ledger, and its noise may have been seeded."""
    scans = np.random.default_rng(0).normal(size=(12, 8, 8))
    masks = (scans > 0).astype(np.int64)
    shop = Ledger(tmp_path / "shop.ledger", budget=Budget(8, 1e-3))
    codec = DPPCACodec.buy(
        masks[[0] * 60], shop, sigma=1.0, radius=1.0, n_masks=60, n_components=2, noise=noise
    )
    chosen = {"codec": codec, "n_teachers": 4, "cut": "half", "student": Silent()}
    model = built(PATESegmenter, delta=1e-3, random_state=0, **chosen)
    model.fit(scans[:8], masks[:8], scans[8:])
    alone, fault = model.statement_.warnings
    assert alone == ONE_RUN
    assert shop.entries()[0].hash in fault
    assert ("NOT private" in fault) == (noise is not None)


class Silent:
    """A student that learns nothing."""

    def get_params(self, deep=True):
        return {}

    def fit(self, *_):
        return self
