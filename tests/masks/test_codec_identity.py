"""Codecs that differ anywhere have other identities; rounding in the last digits changes none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.masks import AutoencoderCodec, BlockPCACodec, PCACodec
from tacit.masks.codec_files import codec_identity

MASKS = np.random.default_rng(0).integers(0, 2, size=(12, 8, 8))


def same(one: Any, other: Any) -> bool:
    return bool((codec_identity(one) == codec_identity(other)).all())


def linear() -> PCACodec:
    return PCACodec.fit(MASKS, n_components=3)


@pytest.mark.parametrize("name", ["mean", "spectrum", "weights", "components", "examples"])
def test_each_array_of_a_linear_codec_counts_and_its_last_digits_do_not(name):
    codec = linear()
    value = getattr(codec, name)
    moved = value.copy()
    moved.flat[0] += 1e-4 * np.abs(value).max()
    assert not same(codec, replace(codec, **{name: moved}))
    assert same(codec, replace(codec, **{name: value * (1 + 1e-14)}))


def test_a_blur_or_other_blocks_make_another_codec():
    codec = linear()
    assert not same(codec, replace(codec, blur=(1.0, 1.0)))
    blocks = [BlockPCACodec.fit(MASKS, block_shape=(4, side), n_components=3) for side in (4, 8)]
    assert not same(*blocks)


def test_codecs_that_decode_two_probes_alike_are_told_apart():
    """A bound changes what is encoded and nothing that is decoded."""
    pytest.importorskip("torch")
    one, two, other = (AutoencoderCodec.fit(MASKS, length=2, epochs=1) for _ in range(3))
    other.bound = "smooth"
    assert same(one, two)
    probes = np.random.default_rng(0).normal(size=(2, 2))
    assert np.array_equal(one.decode(probes), other.decode(probes))
    assert not same(one, other)


class Foreign:
    """A codec of somebody else, whose numbers are in an object of theirs."""

    length = 2

    def __init__(self, slope: float) -> None:
        self.inner = type("Inner", (), {"slope": slope})()

    def decode(self, codes: Any) -> Any:
        return np.asarray(codes) * self.inner.slope


def test_foreign_codecs_are_told_apart_by_what_they_decode():
    assert same(Foreign(1.0), Foreign(1.0))
    assert not same(Foreign(1.0), Foreign(1.1))
