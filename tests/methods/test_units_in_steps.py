"""Units, warnings and names around training in steps and masks: each was once a claim too small.

A person's part may turn around when one record leaves, so people need a ledger of people; a refused
refit may not take a warning from an older student; no message names a patient.
"""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
import torch
from flat_settings import built
from knn_shared import blobs

from tacit import Budget, BudgetExceeded, DPSGDClassifier, InsecureNoise, Ledger, MACClassifier
from tacit.errors import InvalidArgument
from tacit.ledger import LARGE_DELTA
from tacit.masks import PATESegmenter
from tacit.masks.runs import ScanOptions, load_scans
from tacit.methods.dpsgd import cross_entropy
from tacit.methods.noisy_training import READ_SIZE
from tacit.noisy_training.auxiliary_coordinates import AuxiliaryCoordinates, LayerParts
from tacit.noisy_training.clipped_sums import Blocks, UnitParts
from tacit.noisy_training.examples import PrivateExamples, flat_parameters
from tacit.noisy_training.training import GradientSteps
from tacit.records import READ_CLASSES
from tacit.runs.config import RunConfig
from tacit.runs.running import run_config

X, Y = blobs(60)
PEOPLE = np.arange(60) // 2
STEPS = {
    "hidden": (4,),
    "classes": (0, 1, 2),
    "n_records": 60,
    "batch_size": 20,
    "epochs": 1.0,
    "noise_multiplier": 4.0,
    "epsilon": 20.0,
    "delta": 1e-3,
    "random_state": 0,
    "noise": InsecureNoise(0),
}
BOTH = pytest.mark.parametrize("kind", [DPSGDClassifier, MACClassifier])


def test_one_record_less_may_turn_its_person_around():
    """Why a person's clipped mean is not priced for records: it moves by two bounds."""
    module = torch.nn.Sequential(torch.nn.Linear(1, 2, bias=False)).double()
    blocks = Blocks.cut([2], clip=1e-3, clipping="flat", split="equal")
    inputs, labels = np.array([[5.0], [9.0]]), np.array([0, 1])

    def part(rows):
        examples = PrivateExamples(inputs[rows], labels[rows], np.zeros(len(rows)))
        engine = UnitParts(module, examples, cross_entropy, blocks)
        engine.load(flat_parameters(module) * 0)
        return engine.part(0)

    assert np.linalg.norm(part([0, 1]) - part([0])) > 1.99


@BOTH
def test_people_need_a_ledger_of_people(kind, tmp_path):
    records = Ledger(tmp_path / "r.ledger", budget=Budget(20, 1e-3), accountant="rdp")
    with pytest.raises(InvalidArgument, match='unit="person"'):
        built(kind, **STEPS, ledger=records).fit(X, Y, groups=PEOPLE)
    assert len(records) == 0


def test_patients_need_a_ledger_of_patients(tmp_path):
    records = Ledger(tmp_path / "r.ledger", budget=Budget(8, 1e-3))
    model = built(PATESegmenter, each_alone=True, delta=1e-3, ledger=records, random_state=0)
    scans = np.random.default_rng(0).normal(size=(12, 8, 8, 8))
    masks = (scans > 0).astype(np.int64)
    with pytest.raises(InvalidArgument, match='unit="person"'):
        model.fit(scans[:8], masks[:8], scans[8:], public_masks=masks[8:], groups=[0, 0, *range(6)])
    assert len(records) == 0


@BOTH
def test_a_refused_refit_keeps_the_warning_of_the_older_student(kind, tmp_path):
    ledger = Ledger(tmp_path / "r.ledger", budget=Budget(1.0, 1e-3), accountant="rdp")
    settings = {**STEPS, "ledger": ledger, "n_records": "from_data"}
    model = built(kind, **settings).fit(X, Y)
    assert READ_SIZE in model.statement_.warnings
    with pytest.raises(BudgetExceeded):
        model.set_params(n_records=60, noise_multiplier=0.5).fit(X, Y)
    assert READ_SIZE in model.statement_.warnings


@BOTH
def test_what_was_read_for_an_older_student_stays_said(kind, tmp_path):
    """The ledger's statement covers both fits: the later one may not take a warning away."""
    ledger = Ledger(tmp_path / "r.ledger", budget=Budget(20, 1e-3), accountant="rdp")
    settings = {**STEPS, "ledger": ledger, "n_records": "from_data", "classes": "from_data"}
    model = built(kind, **settings).fit(X, Y)
    model.set_params(n_records=60, classes=(0, 1, 2)).fit(X, Y)
    assert len(ledger) == 2
    for warning in (READ_SIZE, READ_CLASSES):
        assert model.statement_.warnings.count(warning) == 1
    other = Ledger(tmp_path / "other.ledger", budget=Budget(20, 1e-3), accountant="rdp")
    model.set_params(ledger=other).fit(X, Y)
    assert not {READ_SIZE, READ_CLASSES} & set(model.statement_.warnings)


@BOTH
def test_what_was_read_for_a_run_that_was_charged_and_failed_is_said(kind, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "r.ledger", budget=Budget(20, 1e-3), accountant="rdp")
    model = built(kind, **{**STEPS, "ledger": ledger}).fit(X, Y)
    assert READ_SIZE not in model.statement_.warnings
    with monkeypatch.context() as patch:
        patch.setattr(GradientSteps, "result", lambda run: np.full(run.dimension, np.inf))
        with pytest.raises(InvalidArgument, match="diverged"):
            model.set_params(n_records="from_data", classes="from_data").fit(X, Y)
    assert len(ledger) == 2
    assert {READ_SIZE, READ_CLASSES} <= set(model.statement_.warnings)


@BOTH
@pytest.mark.parametrize("by_person", [False, True])
def test_plan_and_lot_follow_the_declared_size_and_never_the_rows(kind, by_person, tmp_path):
    """Fewer rows or people than were declared, and more of them: one plan, one purpose, one lot."""
    told, lots = [], []
    for count in (30, 44, 60):
        with pytest.MonkeyPatch.context() as patch:
            made = GradientSteps.__init__

            def watch(run, recipe, *rest, made=made):
                lots.append(recipe)
                made(run, recipe, *rest)

            patch.setattr(GradientSteps, "__init__", watch)
            groups = np.arange(count) // 2 if by_person else None
            size = 20 if by_person else 40
            settings = {**STEPS, "n_records": size, "batch_size": 8, "hidden": (2,), "delta": 1e-3}
            model = built(kind, **settings, ledger=tmp_path / str(count))
            (entry,) = model.fit(X[:count], Y[:count], groups=groups).ledger_.entries()
        told.append((entry.plan, entry.purpose))
    assert told[0] == told[1] == told[2]
    assert told[0][0]["parameters"] == {"noise_multiplier": 4.0, "sampling_rate": 8 / size}
    assert told[0][0]["queries"] == size // 8 + (size % 8 > 0)
    assert lots[0] == lots[1] == lots[2]
    assert lots[0].lot == 8


@BOTH
def test_noise_is_chosen_for_the_delta_that_confidence_bounds_leave(kind, tmp_path):
    """Half of delta is reserved: a run that was priced with all of it would not fit."""
    noises = []
    for reserved in (0.0, 5e-4):
        ledger = Ledger(
            tmp_path / str(reserved), budget=Budget(3.0, 1e-3), accountant="rdp",
            reserved_delta=reserved,
        )  # fmt: skip
        settings = {**STEPS, "noise_multiplier": None, "epsilon": 3.0, "hidden": (2,)}
        (entry,) = built(kind, **settings, ledger=ledger).fit(X, Y).ledger_.entries()
        noises.append(entry.plan["parameters"]["noise_multiplier"])
        assert ledger.spent() <= 3.0
    assert noises[1] > 1.01 * noises[0]


@BOTH
def test_a_delta_that_was_not_compared_is_told(kind):
    model = built(kind, **{**STEPS, "delta": 0.5, "allow_large_delta": True}).fit(X, Y)
    assert LARGE_DELTA in model.statement_.warnings
    assert LARGE_DELTA not in built(kind, **STEPS).fit(X, Y).statement_.warnings


@pytest.mark.parametrize("clip", [1e-164, 1e-310, 1e200])
@BOTH
def test_a_radius_whose_square_leaves_the_numbers_is_refused(kind, clip):
    with pytest.raises(InvalidArgument, match="clip"):
        built(kind, **STEPS, clip=clip).fit(X, Y)


def test_parts_cannot_be_pickled_and_print_nothing():
    network = AuxiliaryCoordinates(
        (2, 3, 2), loss="binary", activation="softplus", steps=4, rate=0.01
    )
    blocks = Blocks.cut(network.sizes, clip=1.0, clipping="per-layer", split="equal")
    examples = PrivateExamples(np.full((3, 2), 0.123456), np.array([0, 1, 1]))
    parts = LayerParts(network, examples, blocks, [1.0, 1.0])
    assert "0.123456" not in repr(parts)
    with pytest.raises(TypeError, match="stay where they are"):
        pickle.dumps(parts)


def test_no_message_names_a_private_scan(tmp_path):
    for folder in ("images", "labels"):
        (tmp_path / "inside" / folder).mkdir(parents=True)
        (tmp_path / "inside" / folder / "smith_john.nii").write_bytes(b"no scan")
    run = {
        "method": "segmentation",
        "data": {
            "source": f"nifti:{tmp_path / 'inside'}",
            "public_source": f"nifti:{tmp_path / 'outside'}",
            "options": {
                "masks_source": f"nifti:{tmp_path / 'outside'}",
                "classes": ["background", "organ"],
                "grid": [8, 8, 8],
            },
        },
        "privacy": {"epsilon": 8.0, "delta": 1e-3},
    }
    config = RunConfig.parse(run)
    with pytest.raises(InvalidArgument, match="to hold scans of 3 dimensions") as raised:
        load_scans(config.data, ScanOptions.of(config.data))
    assert "smith" not in str(raised.value)
    assert raised.value.__context__ is None


def test_what_teachers_said_goes_when_the_ledger_refuses_to_go_on(tmp_path):
    """A start that had paid, and whose releases are gone: its votes are secret all the same."""
    config = RunConfig.parse(
        {
            "data": {"source": "digits", "private": 1200, "public": 300},
            "privacy": {"epsilon": 2.0, "delta": 1e-5},
            "pate": {"n_teachers": 20, "queries": 5, "features": "digits"},
        }
    )
    result = run_config(config, tmp_path / "run")
    (result.folder / "statement.json").unlink()
    shutil.rmtree(result.folder / "releases")
    (result.folder / "teachers").mkdir()
    (result.folder / "teachers" / "votes").write_bytes(b"secret")
    with pytest.warns(UserWarning, match="began with"), pytest.raises(BudgetExceeded):
        run_config(config, result.folder)
    assert not (result.folder / "teachers").exists()
