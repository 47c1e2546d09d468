"""Chains in exact arithmetic: they agree with autograd, and no row feels the others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from direct_shared import (
    CLASSES,
    CLIPPINGS,
    WIDTH,
    blocks_for,
    convolution,
    examples,
    losses,
    stack,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tacit.errors import InvalidArgument
from tacit.features import WholeRows, row_bits, whole_rows
from tacit.noisy_training import PrivateExamples, StackParts, UnitParts, exact_pieces
from tacit.noisy_training.exact_pieces import Convolution, KernelGradients, OuterGradients
from tacit.noisy_training.stack_sums import is_stack
from tacit.noisy_training.training import Recipe, choose_engine

SIDE = 8
BOTH = pytest.mark.parametrize("clipping", CLIPPINGS)


def image_chain(seed: int = 0, activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """Padded, strided, dilated and overlapping windows, with biases and without."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)),
        nn.Conv2d(1, 3, 3, stride=2, padding=1),
        activation(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(3, 4, 2, dilation=2, padding=(1, 0), bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12, 5),
        activation(),
        nn.Linear(5, CLASSES),
    ).double()


def linear_chain(seed: int, activation: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(WIDTH, 11), activation(), nn.Linear(11, CLASSES)).double()


def parts_of(kind, module, data, clipping="flat", **how):
    return kind(module, data, losses, blocks_for(module, clipping, **how))


@BOTH
class TestConvolutions:
    @pytest.mark.parametrize("clip", [1e-6, 0.5, 1e6])
    def test_agree_with_autograd(self, clipping, clip):
        module, data = image_chain(), examples(40, width=SIDE**2)
        everyone = np.arange(3, 37)
        found = parts_of(StackParts, module, data, clipping, clip=clip).sums(everyone)
        expected = parts_of(UnitParts, module, data, clipping, clip=clip).sums(everyone)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())

    def test_one_record_less_moves_the_sum_by_at_most_1(self, clipping):
        parts = parts_of(
            StackParts, image_chain(), examples(30, width=SIDE**2), clipping, clip=1e-3
        )
        everyone = np.arange(30)
        total = parts.sums(everyone)
        for gone in (0, 15, 29):
            assert 0.999 < np.linalg.norm(total - parts.sums(np.delete(everyone, gone))) <= 1

    def test_wild_records_add_at_most_1_and_spare_the_others(self, clipping):
        data = examples(16, width=SIDE**2)
        rows = data.inputs.astype(np.float64)
        for place, value in enumerate([np.nan, np.inf, 1e300, 1e15, 1e-300, 0.0]):
            rows[place] *= value
            rows[place + 5, place] = value
        module = image_chain(activation=nn.ReLU)
        parts = parts_of(StackParts, module, PrivateExamples(rows, data.targets), clipping)
        tame = np.arange(11, 16)
        reference = parts.sums(tame)
        for row in range(11):
            alone = parts.sums(np.array([row]))
            assert np.isfinite(alone).all()
            assert np.linalg.norm(alone) <= 1
            assert np.linalg.norm(parts.sums(np.append(tame, row)) - reference) <= 1
        assert not parts.sums(np.array([0])).any()  # NaN says nothing

    def test_blocks_do_not_show(self, clipping):
        parts = parts_of(StackParts, image_chain(), examples(40, width=SIDE**2), clipping)
        whole = parts.sums(np.arange(40))
        parts._at_once = 16
        np.testing.assert_allclose(parts.sums(np.arange(40)), whole, rtol=0, atol=1e-12)


def test_a_gradient_is_the_sum_over_places_of_python_integers():
    """The worst case: as many places as numbers, one channel; nothing is rounded."""
    layer = nn.Conv2d(1, 2, 3, padding=1)
    piece = Convolution(layer, (1, 4, 4))
    piece.load(np.ones(piece.size), first=True)
    draw = np.random.default_rng(0)
    image, delta = draw.uniform(0.9, 1.0, size=(1, 16)), draw.uniform(0.9, 1.0, size=(1, 32))
    _, patches = piece.forward(image.copy())
    found = piece.gradients(patches, whole_rows(delta))
    steps = np.pad(whole_rows(image).steps.reshape(4, 4), 1).astype(int).tolist()
    slopes = whole_rows(delta).steps.reshape(2, 4, 4).astype(int).tolist()
    expected = [
        sum(slopes[o][r][c] * steps[r + i][c + j] for r in range(4) for c in range(4))
        for o in range(2)
        for i in range(3)
        for j in range(3)
    ]
    assert found.kernels[0].tolist() == expected
    assert found.biases[0].tolist() == [sum(map(sum, plane)) for plane in slopes]
    assert max(expected) > 2**44


@given(
    channels=st.integers(1, 64),
    outputs=st.integers(1, 64),
    side=st.integers(1, 200),
    kernel=st.integers(1, 7),
    padding=st.integers(0, 6),
)
@settings(max_examples=200, deadline=None)
def test_every_sum_of_a_convolution_that_fits_stays_below_2_to_53(
    channels, outputs, side, kernel, padding
):
    """Bits of numbers, of weights and of how many are added: forwards, backwards, over places."""
    layer = SimpleNamespace(
        in_channels=channels,
        out_channels=outputs,
        bias=None,
        groups=1,
        padding_mode="zeros",
        kernel_size=(kernel, kernel),
        padding=(padding, padding),
        dilation=(1, 1),
        stride=(1, 1),
    )
    piece = Convolution(layer, (channels, side, side))
    if not piece.fits:
        return
    places = piece.shape[1] * piece.shape[2]
    inputs, deltas = row_bits(channels * side**2), row_bits(outputs * places)
    assert (1 << inputs) * (1 << deltas) * places <= 2**53
    for terms, rows in ((channels * kernel**2, inputs), (outputs * kernel**2, deltas)):
        weights = exact_pieces._left(terms, rows)
        assert weights >= 8
        assert (1 << weights) * (1 << rows) * terms <= 2**53


def test_many_places_of_few_numbers_are_left_to_single_units():
    wide = nn.Sequential(nn.Conv2d(1, 1, 1, padding=40), nn.Flatten(), nn.Linear(82**2, 2))
    assert not is_stack(wide, (1, 2, 2))
    narrow = nn.Sequential(nn.Conv2d(1, 1, 1, padding=1), nn.Flatten(), nn.Linear(36, 2))
    assert is_stack(narrow, (1, 4, 4))


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_no_length_is_lost_between_tiny_inputs_and_huge_deltas(scale):
    """A square that underflows would say 0, and what is not shortened would be added as it is."""
    small, large = whole_rows(np.full((1, 4), scale)), whole_rows(np.full((1, 4), 1 / scale))
    outer = OuterGradients(small, large, biased=False)
    kernel = KernelGradients(small.steps * large.steps, None, small.units, large.units)
    assert outer.norms[0, 0] == pytest.approx(4.0)
    assert kernel.norms[0, 0] == pytest.approx(2.0)
    biased = OuterGradients(small, large, biased=True)
    assert biased.norms[0, 0] == pytest.approx(2 / scale * max(1, 2 * scale))


def test_a_scale_beyond_float64_of_steps_that_are_0_is_0():
    """Of an input of zeros and a huge delta nothing is added; not NaN, which would end a run."""
    none, huge = whole_rows(np.zeros((1, 2))), whole_rows(np.full((1, 2), 1.7e308))
    total = np.zeros(4)
    OuterGradients(none, huge, biased=False).add(total, np.array([[1e8]]))
    assert not total.any()


def _swapped() -> nn.Sequential:
    module = stack()
    weight = module[0].weight
    del module[0].weight
    module[0].weight = weight
    return module


def _with_another() -> nn.Sequential:
    module = stack()
    module[0].extra = nn.Parameter(torch.zeros(2))
    return module


@pytest.mark.parametrize(
    "module",
    [
        _swapped(),
        _with_another(),
        nn.Sequential(nn.Linear(WIDTH, 2), nn.Softplus(threshold=0.0), nn.Linear(2, CLASSES)),
    ],
    ids=["bias first", "one parameter more", "another softplus"],
)
def test_a_module_that_is_not_what_its_layers_say_is_no_stack(module):
    assert is_stack(stack(), (WIDTH,))
    assert not is_stack(module, (WIDTH,))


def test_what_fails_on_made_up_rows_meets_no_private_one():
    """Windows that lie in the padding: torch has no place for their largest number."""
    module = nn.Sequential(
        nn.Linear(WIDTH, 1),
        nn.Unflatten(1, (1, 1, 1)),
        nn.MaxPool2d(2, stride=1, padding=1, dilation=2),
        nn.Flatten(),
        nn.Linear(1, CLASSES),
    )
    asked = {"probes": lambda count: examples(count, width=WIDTH), "by_person": False}
    blocks = blocks_for(module, "flat")
    with pytest.raises(InvalidArgument, match="fails with"):
        choose_engine(Recipe(steps=3, lot=10.0, engine="ghost"), module, blocks, losses, **asked)


def test_other_chains_are_refused():
    with pytest.raises(InvalidArgument, match="chain of known layers"):
        parts_of(StackParts, convolution(), examples(3, width=16))


def test_images_are_taken_by_ghost_norms():
    module = image_chain()
    recipe = Recipe(steps=3, lot=10.0)
    probes = lambda count: examples(count, width=SIDE**2)  # noqa: E731
    blocks = blocks_for(module, "flat")
    made = choose_engine(recipe, module, blocks, losses, probes, by_person=False)
    assert isinstance(made(examples(4, width=SIDE**2)), StackParts)
    by_person = choose_engine(recipe, module, blocks, losses, probes, by_person=True)
    assert isinstance(by_person(examples(4, width=SIDE**2)), UnitParts)


class Tanh(nn.Module):
    """Bears the name of an activation that ghost norms know, and is another."""

    def forward(self, rows):
        return rows.sin()


def test_what_counts_as_a_stack():
    linear = nn.Linear(3, 3)
    hooked = nn.Sequential(nn.Linear(2, 2))
    hooked[0].register_forward_hook(lambda *_: None)
    frozen = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    frozen[0].requires_grad_(False)
    tied = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    tied[2].weight = tied[0].weight
    named = nn.Sequential(nn.Linear(2, 2), Tanh(), nn.Linear(2, 2))
    assert is_stack(stack(), (WIDTH,))
    others = [named, linear, nn.Sequential(linear, nn.Tanh(), linear), hooked, frozen, tied]
    others += [nn.Sequential(nn.Tanh()), convolution()]
    assert not any(is_stack(module, (width,)) for module in others for width in (2, 3, 16))


@pytest.mark.arithmetic
@given(
    seed=st.integers(0, 10**6),
    chain=st.sampled_from([(linear_chain, WIDTH), (image_chain, SIDE**2)]),
    scale=st.sampled_from([1e-30, 1.0, 1e4, 1e30]),
    activation=st.sampled_from([nn.Tanh, nn.ReLU, nn.Softplus]),
    size=st.integers(1, 40),
)
@settings(max_examples=30, deadline=None)
def test_rows_have_the_same_bits_in_any_company(seed, chain, scale, activation, size):
    generator = np.random.default_rng(seed)
    make, width = chain
    data = examples(60, seed=seed, width=width)
    data.inputs[20:] *= np.float32(scale)
    data.inputs[40, 0] = np.nan
    parts = parts_of(StackParts, make(seed, activation), data)
    alone = [parts.each(np.array([row])) for row in range(3)]
    company = np.append(generator.permutation(np.arange(3, 60))[:size], [0, 1, 2])
    generator.shuffle(company)
    crowd = parts.each(company)
    for row, own in enumerate(alone):
        (place,) = np.flatnonzero(company == row)
        for one, many in zip(own, crowd, strict=True):
            np.testing.assert_array_equal(one.norms[0], many.norms[place])
            for mine, theirs in zip(numbers_of(one), numbers_of(many), strict=True):
                np.testing.assert_array_equal(mine[0], theirs[place])


def numbers_of(gradients):
    """Everything that one layer's gradients are made of, one row a record."""
    whole = [each.values() if isinstance(each, WholeRows) else each for each in gradients]
    return [each for each in whole if isinstance(each, np.ndarray)]
