"""Counting in blocks: every edge between blocks, every type, and the memory that it takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.mechanisms import base, count_votes


def counted_one_by_one(predictions, n_classes):
    votes = np.zeros((predictions.shape[1], n_classes), dtype=np.int64)
    for row in predictions.tolist():
        for query, label in enumerate(row):
            votes[query, label] += 1
    return votes


@settings(max_examples=60, deadline=None)
@given(
    teachers=st.integers(1, 20),
    queries=st.integers(1, 20),
    n_classes=st.integers(2, 12),
    block=st.integers(1, 200),
    seed=st.integers(0, 2**32),
)
def test_no_edge_between_blocks_loses_a_vote(teachers, queries, n_classes, block, seed):
    predictions = np.random.default_rng(seed).integers(0, n_classes, (teachers, queries))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BLOCK", block)
        votes = count_votes(predictions, n_classes)
    assert (votes == counted_one_by_one(predictions, n_classes)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32, np.uint64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_integer_type_and_layout(dtype, order):
    random = np.random.default_rng(1)
    predictions = np.array(random.integers(0, 100, (40, 700)), dtype=dtype, order=order)
    assert (count_votes(predictions, 100) == counted_one_by_one(predictions, 100)).all()


def test_counting_needs_little_more_than_the_votes():
    predictions = np.random.default_rng(2).integers(0, 150, (1000, 4000), dtype=np.uint8)
    tracemalloc.start()
    try:
        votes = count_votes(predictions, 150)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < votes.nbytes + 8 * 2**20
