"""What is refused before anything private is touched: modules and engines that mix examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from direct_shared import CLASSES, WIDTH, Separate, convolution, examples, losses, need, stack
from torch import nn

from tacit.errors import InvalidArgument, MissingExtra
from tacit.noisy_training import training
from tacit.noisy_training.clipped_sums import HookParts
from tacit.noisy_training.examples import flat_parameters, softmax_slope
from tacit.noisy_training.isolation import keeps_apart, refuse_coupled
from tacit.noisy_training.training import Recipe, blocks_of, choose_engine


class Centred(nn.Module):
    """Subtracts the mean of the batch: no layer whose name gives it away."""

    def forward(self, rows):
        return rows - rows.mean(dim=0)


class Sorted(nn.Module):
    """Lets a row see how far it is from the largest of the batch."""

    def forward(self, rows):
        return rows + 1e-6 * rows.max()


class Huge(nn.Module):
    """Scales by the largest number of the batch, if it is absurd."""

    def forward(self, rows):
        return rows / rows.abs().max().clamp_min(1e4)


class Haunted(nn.Module):
    """Never forgets that it has seen a row that is no number."""

    seen = False

    def forward(self, rows):
        outputs = rows + float(self.seen)
        self.seen = self.seen or bool(rows.isnan().any())
        return outputs


class Noisy(nn.Module):
    def forward(self, rows):
        return rows + torch.randn_like(rows)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, rows):
        self.seen += len(rows)
        return rows


class Bad(nn.Module):
    def forward(self, rows):
        raise RuntimeError("c4n4ry")


class Summed(nn.Module):
    def forward(self, rows):
        return rows.sum(dim=0, keepdim=True)


@pytest.mark.parametrize(
    ("layer", "complaint"),
    [
        (nn.BatchNorm1d(WIDTH), "batch normalisation"),
        (nn.Dropout(0.1), "dropout"),
        (nn.Unflatten(1, (WIDTH, 1)), None),
        (Centred(), "change what another one gets"),
        (Sorted(), "change what another one gets"),
        (Huge(), "change what another one gets"),
        (Haunted(), "remembers a row"),
        (Noisy(), "random, or remembers"),
        (Counting(), "buffers"),
        (Bad(), "RuntimeError"),
        (Summed(), "its own outputs"),
    ],
)
def test_modules_that_couple_examples_are_refused_and_no_others(layer, complaint):
    tail = [nn.Flatten(), nn.Linear(WIDTH, 3)]
    module = nn.Sequential(layer, *tail)
    if complaint is None:
        return refuse_coupled(module, examples)
    with pytest.raises(InvalidArgument, match=complaint) as error:
        refuse_coupled(module, examples)
    assert "c4n4ry" not in str(error.value)


def test_instance_norm_with_running_statistics_is_refused():
    norm = nn.InstanceNorm1d(1, track_running_stats=True)
    with pytest.raises(InvalidArgument, match="running statistics"):
        refuse_coupled(nn.Sequential(nn.Unflatten(1, (1, WIDTH)), norm, nn.Flatten()), examples)


def test_what_is_no_module_is_refused():
    with pytest.raises(InvalidArgument, match="got str"):
        refuse_coupled("network", examples)


def test_module_that_is_tried_out_is_left_as_it_was():
    module = stack()
    before = [parameter.clone() for parameter in module.parameters()]
    refuse_coupled(module, examples)
    assert all(torch.equal(*pair) for pair in zip(before, module.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in module.parameters())


def narrow():
    """Few units, whose sums are long: where places round differently, few rows show it."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.LayerNorm(16), nn.Linear(16, 2), nn.Sigmoid(), nn.Linear(2, CLASSES)
    ).double()


def rows_of(parts):
    return np.hstack([part.reshape(len(part), -1).numpy() for part in parts])


class Mixing(HookParts):
    """An engine whose rounding depends on the company of a row: the last bits of one of them."""

    def each(self, units):
        parts = super().each(units)
        parts[0][0, 0] += float(parts[0].sum()) * 1e-15
        return parts


class Seldom(Separate):
    """An engine that rounds its last two places in another way: few rows show it."""

    def each(self, units):
        parts = super().each(units)
        shown = self._examples.inputs[units[14:], 0] > 1.5
        parts[0][14 : units.size][shown] *= 1 + 1e-15
        return parts


class Failing(HookParts):
    """An engine that cannot do any row: all of them would say nothing."""

    def _gradients(self, units):
        raise RuntimeError("c4n4ry")


def recipe(**changes):
    return Recipe(steps=3, lot=10.0, **changes)


class TestEngines:
    @pytest.mark.parametrize("kind", [Separate, Mixing])
    def test_are_tried_out(self, kind):
        need("hooks")
        module = stack()
        blocks = blocks_of(recipe(), module)
        apart = keeps_apart(lambda made: kind(module, made, losses, blocks), module, examples, 16)
        assert apart == (kind is Separate)

    def choose(self, module, engine="auto", by_person=False, width=WIDTH):
        how = recipe(engine=engine)
        make = choose_engine(
            how, module, blocks_of(how, module), losses,
            lambda count: examples(count, width=width), by_person=by_person,
        )  # fmt: skip
        return type(make(examples(3, width=width))).__name__

    def test_stacks_need_no_gradients_of_single_records(self):
        assert self.choose(stack()) == "StackParts"
        assert self.choose(stack(), "single") == "UnitParts"
        assert self.choose(stack(), by_person=True) == "UnitParts"

    def test_hooks_are_taken_only_by_name(self, monkeypatch):
        """That they keep rows apart is tried, not proved: nobody gets them without asking."""
        need("hooks")
        monkeypatch.setattr(training, "HookParts", Separate)
        assert self.choose(convolution(), width=16) == "UnitParts"
        assert self.choose(convolution(), "hooks", width=16) == "Separate"
        assert self.choose(stack(), "hooks") == "Separate"

    @pytest.mark.arithmetic
    @pytest.mark.parametrize("make", [convolution, narrow])
    def test_whichever_is_taken_on_this_machine_a_row_has_its_own_bits(self, make):
        module = make()
        how = recipe()
        blocks = blocks_of(how, module)
        engine = choose_engine(
            how, module, blocks, losses, lambda count: examples(count, width=16), by_person=False
        )
        parts = engine(examples(200, width=16, seed=1))
        parts.load(flat_parameters(module))
        alone = np.vstack([rows_of(parts.each(np.array([row])))[0] for row in range(200)])
        draw = np.random.default_rng(2)
        for size in (16, 16, 16, 16, 15, 9, 2):
            units = draw.permutation(200)[:size]
            np.testing.assert_array_equal(rows_of(parts.each(units))[:size], alone[units])

    def test_what_opacus_cannot_take_apart_is_refused_to_hooks(self):
        need("hooks")

        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.head = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 3)

            def forward(self, rows):
                return self.head(self.cell(rows[:, :, None])[0][:, -1])

        torch.manual_seed(0)
        module = Recurrent().double()
        assert self.choose(module) == "UnitParts"
        with pytest.raises(InvalidArgument, match="Recurrent is not among the layers"):
            self.choose(module, "hooks")
        with pytest.raises(InvalidArgument, match="Opacus cannot give each record"):
            HookParts(module, examples(3), losses, blocks_of(recipe(), module))

    def test_missing_opacus_is_named(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "opacus.grad_sample", None)
        with pytest.raises(MissingExtra, match=r"tacit\[baseline\]"):
            self.choose(stack(), "hooks")

    @pytest.mark.parametrize("kind", [Mixing, Seldom])
    def test_hooks_that_mix_are_refused(self, monkeypatch, kind):
        need("hooks")
        monkeypatch.setattr(training, "HookParts", kind)
        with pytest.raises(InvalidArgument, match="another company"):
            self.choose(stack(), "hooks")

    def test_hooks_that_fail_on_every_row_are_refused(self, monkeypatch):
        need("hooks")
        monkeypatch.setattr(training, "HookParts", Failing)
        with pytest.raises(InvalidArgument, match=r"it fails with RuntimeError\.$"):
            self.choose(stack(), "hooks")

    def test_refusals(self):
        with pytest.raises(InvalidArgument, match="ghost norms are for"):
            self.choose(convolution(), "ghost", width=16)
        with pytest.raises(InvalidArgument, match="groups="):
            self.choose(stack(), "ghost", by_person=True)
        with pytest.raises(InvalidArgument, match="engine"):
            recipe(engine="magic")


def test_slopes_of_the_softmax_loss_agree_with_autograd():
    scores = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(9) % 4
    (slopes,) = torch.autograd.grad(nn.functional.cross_entropy(scores, labels) * 9, scores)
    found = softmax_slope(scores.detach().numpy(), labels.numpy())
    np.testing.assert_allclose(found, slopes.numpy(), atol=1e-10)
