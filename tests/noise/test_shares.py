"""Additive shares: exact, from the standard's stream, and uniform alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from tacit.errors import InvalidArgument
from tacit.noise import expand, split

WHOLE = arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 5)))


def test_the_vector_of_the_standard():
    """RFC 8439, key 00 .. 1f, nonce and counter 0, as little-endian words."""
    words = expand(bytes(range(32)), (2, 2))
    assert words[0].tolist() == [7645359380336737593, 5281276197874154893]
    assert words.dtype == np.uint64


@given(values=WHOLE, seed=st.binary(min_size=32, max_size=32))
def test_shares_add_up_exactly_whatever_the_numbers(values, seed):
    kept, share = split(values, seed)
    assert kept == seed
    assert np.array_equal((expand(seed, values.shape) + share).view(np.int64), values)


@given(first=WHOLE, offset=st.integers(-(2**62), 2**62))
def test_sums_of_shares_are_shares_of_sums_mod_2_64(first, offset):
    second = np.full(first.shape, offset)
    (one, a), (two, b) = split(first), split(second)
    total = expand(one, first.shape) + expand(two, first.shape) + (a + b)
    assert np.array_equal(total, first.view(np.uint64) + second.view(np.uint64))


def test_every_seed_is_new_and_every_share_another():
    seeds, shares = zip(*(split([[7]]) for _ in range(50)), strict=True)
    assert len(set(seeds)) == 50
    assert len({int(share[0, 0]) for share in shares}) == 50


@pytest.mark.parametrize("values", [0, 255], ids=["of zeros", "of ones"])
def test_a_share_is_uniform_in_a_small_ring(values):
    """Chi-square of the low 8 bits; by bad luck once in ten million."""
    count = 1 << 16
    share = split(np.full(count, values), b"\x05" * 32)[1]
    seen = np.bincount((share % np.uint64(256)).astype(np.int64), minlength=256)
    assert ((seen - count / 256) ** 2 / (count / 256)).sum() < chi2.isf(1e-7, 255)


@pytest.mark.parametrize(
    "values", [[0.5], np.array([1], dtype=np.uint64), ["3"], [None]], ids=["f", "u8", "str", "none"]
)
def test_only_what_int64_holds_is_split(values):
    with pytest.raises(InvalidArgument, match="whole numbers"):
        split(values)


@pytest.mark.parametrize("seed", [b"", b"\0" * 31, bytearray(32), "0" * 32])
def test_a_seed_is_32_bytes(seed):
    with pytest.raises(InvalidArgument, match="32 bytes"):
        expand(seed, (1,))
