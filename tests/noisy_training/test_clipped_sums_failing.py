"""A row that makes a module fail says nothing: it neither stops a run nor changes anybody's part.

What fails on every row is found before, on public made-up rows, and refused.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from direct_shared import CLASSES, WIDTH, blocks_for, examples, losses, need
from flat_settings import built
from torch import nn

from tacit import Budget, DPSGDClassifier, InsecureNoise, Ledger
from tacit.errors import InvalidArgument
from tacit.noisy_training.clipped_sums import HookParts, UnitParts
from tacit.noisy_training.examples import PrivateExamples, half_squares
from tacit.noisy_training.training import Recipe, blocks_of, choose_engine

FAR = 1e7
ENGINES = {"hooks": HookParts, "single": UnitParts}
EVERY = pytest.mark.parametrize("engine", ENGINES)


class Fragile(nn.Module):
    """Fails, after its first layer has been through, where a row is absurd."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 4), nn.Linear(4, 3)

    def forward(self, rows):
        inner = self.first(rows)
        if (rows.abs() > 1e6).any():
            raise RuntimeError("c4n4ry")
        return self.second(inner)


class FailingBackwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        ctx.save_for_backward(rows)
        return rows.clone()

    @staticmethod
    def backward(ctx, slopes):
        (rows,) = ctx.saved_tensors
        if (rows.abs() > 1e6).any():
            raise RuntimeError("c4n4ry")
        return slopes


class FragileBackwards(Fragile):
    """Fails on the way back, after the last layer's gradients are there."""

    def forward(self, rows):
        scale = FailingBackwards.apply(rows * self.first.weight.sum() ** 0)
        return self.second(self.first(scale))


KINDS = pytest.mark.parametrize("kind", [Fragile, FragileBackwards])


def eighths(numbers):
    """Numbers so round that products of three add up exactly: in any order, on any processor."""
    return np.rint(8 * numbers) / 8


def parts_of(engine, kind, rows):
    """Rows whose gradients have the same bits in every place: `choose_engine` asks no less."""
    need(engine)
    torch.manual_seed(0)
    module = kind().double()
    with torch.no_grad():
        for own in module.parameters():
            own.copy_(torch.from_numpy(eighths(own.numpy())))
    rough = examples(40)
    targets = np.eye(CLASSES)[rough.targets]
    made = PrivateExamples(eighths(rough.inputs), targets)
    made.inputs[rows] = FAR
    return ENGINES[engine](module, made, half_squares, blocks_for(module, "per-layer", clip=1e-3))


def rows_of(parts):
    """The part of each of 32 rows, in two full batches."""
    return np.concatenate([np.hstack(parts.each(units)) for units in np.arange(32).reshape(2, 16)])


@pytest.mark.arithmetic
@EVERY
@KINDS
def test_a_failing_row_says_nothing_and_leaves_the_others_their_bits(engine, kind):
    bad = [5, 20, 21]
    parts, clean = parts_of(engine, kind, bad), parts_of(engine, kind, [])
    good = np.delete(np.arange(32), bad)
    found, honest = rows_of(parts), rows_of(clean)
    assert not found[bad].any()
    assert honest.any(axis=1).all()
    np.testing.assert_array_equal(found[good], honest[good])
    sums = parts.sums(np.arange(32))
    np.testing.assert_allclose(sums, clean.sums(good), rtol=1e-12, atol=1e-12)


@pytest.mark.arithmetic
@EVERY
def test_a_failure_does_not_undo_what_was_learned(engine):
    bad = [0, 20]
    parts, clean = parts_of(engine, Fragile, bad), parts_of(engine, Fragile, [])
    before = rows_of(clean)
    vector = eighths(np.random.default_rng(3).normal(size=parts._blocks.dimension))
    for each in (parts, clean):
        each.sums(np.arange(16))
        each.load(vector)
    found, honest = rows_of(parts), rows_of(clean)
    good = np.delete(np.arange(32), bad)
    np.testing.assert_array_equal(found[good], honest[good])
    assert not np.array_equal(before, honest)


@EVERY
def test_a_row_that_would_warn_is_silent(engine):
    class Grumbling(Fragile):
        def forward(self, rows):
            if (rows.abs() > 1e6).any():
                warnings.warn("c4n4ry", stacklevel=1)
            return self.second(self.first(rows))

    parts = parts_of(engine, Grumbling, [3])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sums = parts.sums(np.array([3]))
    assert not told
    assert sums.any()


@pytest.mark.parametrize("engine", ["auto", "single"])
@pytest.mark.parametrize("where", ["loss", "backward"])
def test_what_fails_on_every_row_is_refused_before_anything_is_spent(engine, where):
    class Broken(Fragile):
        def forward(self, rows):
            outputs = super().forward(rows)
            return outputs.detach() if where == "backward" else outputs

    def wrong(scores, labels):
        return losses(scores, labels[:, None, None])

    module = Broken().double()
    how = Recipe(steps=1, lot=4.0, engine=engine)
    with pytest.raises(InvalidArgument, match="fails with RuntimeError") as caught:
        choose_engine(
            how, module, blocks_of(how, module), wrong if where == "loss" else losses, examples,
            by_person=False,
        )  # fmt: skip
    assert "c4n4ry" not in str(caught.value)


@pytest.mark.parametrize("engine", ["auto", "single"])
@pytest.mark.parametrize("groups", [None, np.arange(60) // 2])
def test_a_run_does_not_tell_by_stopping(engine, groups, tmp_path):
    """The ledger is charged once either way, and a student comes out."""
    draw = np.random.default_rng(0)
    rows, labels = draw.normal(size=(60, WIDTH)), draw.integers(3, size=60)
    for name, value in (("tame", rows[5, 0]), ("wild", FAR)):
        given = rows.copy()
        given[5, 0] = value
        unit = "record" if groups is None else "person"
        ledger = Ledger(tmp_path / name, budget=Budget(8.0, 1e-3), accountant="rdp", unit=unit)
        model = built(DPSGDClassifier,
            Fragile(), classes=range(3), n_records=60, batch_size=60, epochs=2, engine=engine,
            noise_multiplier=5.0, ledger=ledger, noise=InsecureNoise(0),
        )  # fmt: skip
        model.fit(given, labels, groups=groups)
        assert len(ledger) == 1
        assert hasattr(model, "student_")
