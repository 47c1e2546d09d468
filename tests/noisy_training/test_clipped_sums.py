"""The engines: each adds up clipped gradients, and one record moves the sum by at most 1."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from direct_shared import (
    CLIPPINGS,
    ENGINES,
    WIDTH,
    blocks_for,
    convolution,
    examples,
    need,
    parts_of,
    plain_part,
    stack,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.noisy_training.clipped_sums import MARGIN, Blocks
from tacit.noisy_training.examples import PrivateExamples

EVERY = pytest.mark.parametrize("engine", ENGINES)
BOTH = pytest.mark.parametrize("clipping", CLIPPINGS)
ROUNDED = 1e-5
"""Ghost norms count rows and weights in whole steps, about as fine as float32."""
WILD = [np.nan, np.inf, -np.inf, 3e38, -1e30, 1e15, 1e-45, 0.0]


@EVERY
@BOTH
class TestSums:
    @pytest.mark.parametrize("clip", [1e-6, 0.5, 1e6])
    def test_agree_with_the_formula(self, engine, clipping, clip):
        need(engine)
        module, data = stack(), examples(150)
        blocks = blocks_for(module, clipping, clip)
        sums = parts_of(engine, module, data, clipping, clip=clip).sums(np.arange(3, 145))
        expected = sum(plain_part(module, data, row, blocks) for row in range(3, 145))
        close = 1e-9 if engine != "ghost" else ROUNDED
        np.testing.assert_allclose(
            sums, expected, rtol=2 * MARGIN, atol=close * abs(expected).max()
        )

    def test_one_record_less_moves_the_sum_by_at_most_1(self, engine, clipping):
        need(engine)
        parts = parts_of(engine, stack(), examples(140), clipping, clip=1e-3)
        everyone = np.arange(140)
        total = parts.sums(everyone)
        for gone in (0, 70, 139):
            moved = np.linalg.norm(total - parts.sums(np.delete(everyone, gone)))
            assert 0.999 < moved <= 1

    def test_wild_records_add_at_most_1_and_spare_the_others(self, engine, clipping):
        need(engine)
        tame = examples(40)
        rows = tame.inputs.copy()
        for place, value in enumerate(WILD):
            rows[place] = value
            rows[place + 10, place % WIDTH] = value
        data = PrivateExamples(rows, tame.targets)
        parts = parts_of(engine, stack(), data, clipping)
        clean = np.arange(20, 40)
        reference = parts.sums(clean)
        for row in range(20):
            alone = parts.sums(np.array([row]))
            assert np.isfinite(alone).all()
            assert np.linalg.norm(alone) <= 1
            assert np.linalg.norm(parts.sums(np.append(clean, row)) - reference) <= 1
        assert parts.sums(np.array([0])).any() == False  # noqa: E712 - NaN says nothing

    def test_nobody_sampled_is_a_sum_of_zeros(self, engine, clipping):
        need(engine)
        parts = parts_of(engine, stack(), examples(5), clipping)
        assert not parts.sums(np.array([], dtype=np.int64)).any()

    def test_follow_the_parameters_that_were_learned(self, engine, clipping):
        need(engine)
        module, other, data = stack(), stack(1), examples(30)
        parts = parts_of(engine, module, data, clipping)
        vector = np.concatenate([p.detach().numpy().ravel() for p in other.parameters()])
        parts.load(vector)
        expected = parts_of("single", other, data, clipping).sums(np.arange(30))
        np.testing.assert_allclose(parts.sums(np.arange(30)), expected, atol=ROUNDED)
        with pytest.raises(InvalidArgument, match="as many numbers"):
            parts.load(vector[1:])


@BOTH
def test_hooks_agree_on_convolutions(clipping):
    need("hooks")
    module, data = convolution(), examples(20, width=16)
    found = parts_of("hooks", module, data, clipping).sums(np.arange(19))
    expected = parts_of("single", module, data, clipping).sums(np.arange(19))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.arithmetic
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e3, 1e20]),
    clip=st.sampled_from([1e-8, 1e-2, 1.0, 1e4]),
    clipping=st.sampled_from(CLIPPINGS),
    split=st.sampled_from(["minimal", "equal"]),
)
@settings(max_examples=40, deadline=None)
def test_a_part_never_exceeds_1(seed, scale, clip, clipping, split):
    data = examples(4, seed=seed)
    data.inputs[:] *= np.float32(scale)
    for engine in ("ghost", "single"):
        parts = parts_of(engine, stack(seed % 7), data, clipping, clip=clip, split=split)
        for row in range(4):
            assert np.linalg.norm(parts.sums(np.array([row]))) <= 1


class TestPeople:
    def test_a_person_is_clipped_as_one(self):
        module, data = stack(), examples(60)
        owners = np.array(["one"] * 50 + [f"p{row}" for row in range(10)])
        theirs = PrivateExamples(data.inputs, data.targets, owners)
        parts = parts_of("single", module, theirs, "flat", clip=1e-3)
        assert parts.n_units == theirs.n_units == 11
        total = parts.sums(np.arange(11))
        for unit in range(11):
            moved = total - parts.sums(np.delete(np.arange(11), unit))
            assert 0.999 < np.linalg.norm(moved) <= 1

    def test_records_are_gathered_by_owner(self):
        owners = np.array(["b", "a", "b", "c", "a"])
        data = PrivateExamples(np.zeros((5, 2)), np.zeros(5), owners)
        assert [rows.tolist() for rows in data.rows_by_unit()] == [[1, 4], [0, 2], [3]]

    def test_sizes_must_fit(self):
        with pytest.raises(InvalidArgument, match="targets"):
            PrivateExamples(np.zeros((2, 2)), np.zeros(3))
        with pytest.raises(InvalidArgument, match="owner"):
            PrivateExamples(np.zeros((2, 2)), np.zeros(2), np.zeros(3))

    def test_no_more_records_than_the_rounding_of_sums_was_bounded_for(self):
        """docs/theory/direct.md, "Room": R <= 2^24, however few people they belong to."""
        rows = np.broadcast_to(np.zeros((1, 1)), (2**24 + 1, 1))
        owners = np.broadcast_to("all mine", len(rows))
        assert len(PrivateExamples(rows[1:], rows[1:], owners[1:]).inputs) == 2**24
        with pytest.raises(InvalidArgument, match=r"at most 2\*\*24 records") as caught:
            PrivateExamples(rows, rows, owners)
        assert str(len(rows)) not in str(caught.value)

    def test_private_examples_stay(self):
        assert repr(examples(3)) == "PrivateExamples(secret)"
        with pytest.raises(TypeError, match="stay"):
            pickle.dumps(examples(3))


class TestBlocks:
    @settings(deadline=None)
    @given(
        sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=8),
        clipping=st.sampled_from(CLIPPINGS),
        split=st.sampled_from(["minimal", "equal"]),
    )
    def test_squared_shares_add_up_to_1(self, sizes, clipping, split):
        blocks = Blocks.cut(sizes, clip=1.0, clipping=clipping, split=split)
        assert blocks.dimension == sum(sizes)
        assert sum(share**2 for share in blocks.shares) == pytest.approx(1.0, abs=1e-12)
        worst = blocks.factors(torch.full((1, len(blocks.sizes)), 1e9, dtype=torch.float64)) * 1e9
        assert float(worst.norm()) <= 1

    def test_minimal_split_has_the_least_noise(self):
        """Noise of block j is w_j^-2 d_j in all; no other shares with the same sum do better."""
        sizes = np.array([235_500, 30_100, 1_010])
        noise = {}
        for split in ("minimal", "equal"):
            blocks = Blocks.cut(sizes, clip=1, clipping="per-layer", split=split)
            noise[split] = (sizes / np.square(blocks.shares)).sum()
        generator = np.random.default_rng(0)
        others = [(sizes / generator.dirichlet(np.ones(3))).sum() for _ in range(200)]
        assert noise["minimal"] < min(others)
        assert noise["minimal"] < noise["equal"]

    def test_mean_gradient_undoes_the_shares(self):
        blocks = Blocks.cut([2, 3], clip=0.1, clipping="per-layer", split="equal")
        gradient = np.arange(5.0)
        noisy = gradient * np.repeat(blocks.shares, blocks.sizes) * 50
        np.testing.assert_allclose(blocks.mean_gradient(noisy, 50.0), gradient)

    @pytest.mark.parametrize(
        "how", [{"clip": 0.0}, {"clip": np.nan}, {"clipping": "none"}, {"split": "fair"}]
    )
    def test_refusals(self, how):
        settings = {"clip": 1.0, "clipping": "flat", "split": "equal", **how}
        with pytest.raises(InvalidArgument, match=next(iter(how))):
            Blocks.cut([1], **settings)
