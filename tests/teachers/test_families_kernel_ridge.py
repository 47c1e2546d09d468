"""Closed-form teachers against scikit-learn's, and each alone against all together."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

from tacit.errors import InvalidArgument
from tacit.teachers import KernelRidgeTeachers, Shard, families


def scikit_learn_scores(shard: Shard, X_query, n_classes, gamma, alpha):
    machine = KernelRidge(kernel="rbf", gamma=gamma, alpha=alpha)
    targets = np.where(shard.y[:, None] == np.arange(n_classes), 1.0, -1.0)
    return machine.fit(shard.X, targets).predict(X_query)


def random_shard(random, n_records, n_classes=3, width=5) -> Shard:
    y = random.integers(0, n_classes, n_records)
    y[:2] = [0, 1]
    return Shard(random.normal(size=(n_records, width)) + y[:, None], y, seed=0)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=4),
    gamma=st.floats(0.01, 2),
    alpha=st.floats(0.01, 2),
    seed=st.integers(0, 2**32),
)
def test_the_same_classes_as_scikit_learn(sizes, gamma, alpha, seed):
    random = np.random.default_rng(seed)
    shards = [random_shard(random, size) for size in sizes]
    queries = random.normal(1.0, 1.5, (30, 5))
    family = KernelRidgeTeachers(gamma=gamma, alpha=alpha, precision="float64")
    labels = family.predict_shards(shards, queries, n_classes=3)
    for shard, row in zip(shards, labels, strict=True):
        scores = scikit_learn_scores(shard, queries, 3, gamma, alpha)
        best = scores.max(axis=1)
        chosen = scores[np.arange(30), row]
        assert (best - chosen <= 1e-9).all()  # a tie may fall either way


def test_single_precision_seldom_changes_a_class():
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    shard = Shard(X[:240], y[:240], seed=0)
    single, double = (
        KernelRidgeTeachers(precision=precision).predict_shards([shard], X[240:], n_classes=10)[0]
        for precision in ("float32", "float64")
    )
    assert (single == double).mean() > 0.998
    assert (double == y[240:]).mean() > 0.8  # and the defaults learn unit-length features


@pytest.mark.arithmetic
@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 60), min_size=2, max_size=6),
    changed=st.integers(0, 5),
    seed=st.integers(0, 2**32),
)
def test_no_bit_of_an_answer_depends_on_another_shard(sizes, changed, seed):
    random = np.random.default_rng(seed)
    shards = [random_shard(random, size) for size in sizes]
    changed %= len(shards)
    others = list(shards)
    others[changed] = random_shard(random, int(random.integers(2, 90)))
    queries = random.normal(size=(70, 5))
    family = KernelRidgeTeachers()
    before = [family._fit(shard, 3) for shard in shards]
    after = [family._fit(shard, 3) for shard in others]
    labels = family.predict_shards(shards, queries, n_classes=3)
    again = family.predict_shards(others, queries, n_classes=3)
    for place, shard in enumerate(shards):
        if place != changed:
            assert all((a == b).all() for a, b in zip(before[place], after[place], strict=True))
            assert (labels[place] == again[place]).all()
            alone = family.predict_shards([shard], queries, n_classes=3)
            assert (alone[0] == labels[place]).all()


def test_equal_records_of_two_classes_are_no_obstacle():
    shard = Shard(np.ones((6, 2)), np.array([0, 1, 1, 1, 0, 1]), seed=0)
    assert KernelRidgeTeachers().predict_shards([shard], np.ones((1, 2)), n_classes=2) == [[1]]


def test_images_are_taken_as_rows():
    random = np.random.default_rng(4)
    flat = random_shard(random, 20, width=6)
    images = Shard(flat.X.reshape(20, 2, 3), flat.y, seed=0)
    queries = random.normal(size=(9, 6))
    family = KernelRidgeTeachers()
    expected = family.predict_shards([flat], queries, n_classes=3)
    assert (
        family.predict_shards([images], queries.reshape(9, 2, 3), n_classes=3) == expected
    ).all()


def test_blocks_change_nothing(monkeypatch):
    random = np.random.default_rng(5)
    shards = [random_shard(random, size) for size in (3, 30)]
    queries = random.normal(size=(50, 5))
    expected = KernelRidgeTeachers().predict_shards(shards, queries, n_classes=3)
    monkeypatch.setattr(families, "_QUERIES", 7)
    monkeypatch.setattr(families, "_CELLS", 40)
    assert (KernelRidgeTeachers().predict_shards(shards, queries, n_classes=3) == expected).all()


def test_memory_is_that_of_a_block():
    random = np.random.default_rng(6)
    shard = random_shard(random, 300, width=4)
    queries = random.normal(size=(50_000, 4)).astype(np.float32)
    tracemalloc.start()
    try:
        KernelRidgeTeachers().predict_shards([shard], queries, n_classes=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000 * 300 * 4 / 4  # a quarter of the whole kernel


@pytest.mark.parametrize(
    ("options", "message"),
    [({"gamma": 0}, "gamma=0"), ({"alpha": -1}, "alpha=-1"), ({"precision": "half"}, "precision")],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        KernelRidgeTeachers(**options)


def test_public_queries_must_be_finite():
    with pytest.raises(InvalidArgument, match="finite"):
        KernelRidgeTeachers().validate(np.array([[np.nan]]), n_classes=2)


def test_balanced_teachers_weigh_their_own_classes_equally():
    """As scikit-learn's weighted kernel ridge does; and a rare class is heard."""
    draw = np.random.default_rng(5)
    y = (np.arange(60) < 5).astype(np.int64)
    X = draw.normal(size=(60, 2)) + 1.5 * y[:, None]
    asked = draw.normal(size=(200, 2)) + 0.75
    teachers = KernelRidgeTeachers(gamma=0.5, alpha=0.5, precision="float64")
    balanced = replace(teachers, balanced=True)
    said, heard = (
        each.predict_shards([Shard(X, y, seed=0)], asked, n_classes=2)[0]
        for each in (teachers, balanced)
    )
    weights = 60 / (2 * np.bincount(y)[y])
    # scikit-learn scales rows by the root of their weights, which is the same system.
    other = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.5).fit(X, np.eye(2)[y], weights)
    assert np.array_equal(heard, other.predict(asked).argmax(axis=1))
    assert heard.sum() > said.sum()
