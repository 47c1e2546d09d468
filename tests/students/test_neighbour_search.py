"""Neighbours against brute force: in float32, in float64, and by lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from tacit.students import neighbour_search
from tacit.students.neighbour_search import graph_neighbours, nearest


@pytest.mark.arithmetic
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_nearest_is_exact_search(
    offset: float, precise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbour_search, "_BLOCK", 1000)  # several blocks
    rng = np.random.default_rng(0)
    queries, rows = rng.normal(size=(30, 5)) + offset, rng.normal(size=(200, 5)) + offset
    found, distances = nearest(queries, rows, 6, precise=precise)
    wanted = cdist(queries, rows, "sqeuclidean")
    np.testing.assert_array_equal(found, wanted.argsort(axis=1)[:, :6])
    np.testing.assert_allclose(distances, np.sort(wanted, axis=1)[:, :6], rtol=1e-3, atol=1e-5)


def test_nobody_is_a_neighbour_of_oneself_even_among_copies() -> None:
    points = np.zeros((5, 2))
    found, distances = nearest(points, points, 4, same=True)
    assert all(row not in found[row] for row in range(5))
    assert (distances == 0).all()


@pytest.mark.arithmetic
@given(seed=st.integers(0, 2**32), spread=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]))
def test_precise_neighbours_are_those_of_float64_however_close(seed: int, spread: float) -> None:
    """Points so close to each other, far from the mean, that float32 cannot tell them apart."""
    rng = np.random.default_rng(seed)
    rows = (rng.integers(0, 4, (60, 3)) * spread + 100).astype(np.float32)
    rows[0] = -5000
    queries = (rng.integers(0, 4, (8, 3)) * spread + 100).astype(np.float32)
    apart = rows.astype(np.float64) - queries[:, None]
    squared = (apart**2).sum(axis=2).astype(np.float32)
    found, distances = nearest(queries, rows, 3, precise=True)
    np.testing.assert_array_equal(found, np.argsort(squared, axis=1, kind="stable")[:, :3])
    np.testing.assert_array_equal(distances, np.sort(squared, axis=1)[:, :3])


@given(
    seed=st.integers(0, 2**32),
    columns=st.integers(1, 400),
    count=st.integers(1, 12),
    levels=st.sampled_from([2, 30, 10**6]),
)
def test_the_lowest_are_found_by_groups_as_by_sorting(
    seed: int, columns: int, count: int, levels: int
) -> None:
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, levels, (7, columns)).astype(np.float32)
    gaps[0, rng.integers(columns)] = np.inf
    count = min(count, columns)
    found, values = neighbour_search._lowest(gaps, count)
    np.testing.assert_array_equal(np.sort(values, axis=1), np.sort(gaps, axis=1)[:, :count])
    np.testing.assert_array_equal(np.take_along_axis(gaps, found, axis=1), values)
    assert all(len(set(row)) == count for row in found.tolist())


def test_what_is_no_number_hides_nothing_of_its_group() -> None:
    gaps = np.arange(1600, dtype=np.float32)[None].copy()
    gaps[0, 100] = np.nan  # in a group with 0, 200, 300, ...
    found, _ = neighbour_search._lowest(gaps, 3)
    assert sorted(found[0].tolist()) == [0, 1, 2]


def test_lists_find_nearly_all_neighbours_and_never_oneself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 4)).astype(np.float32)
    exact = graph_neighbours(points, 5)
    monkeypatch.setattr(neighbour_search, "EXACT", 100)
    by_lists = graph_neighbours(points, 5)
    assert not (by_lists == np.arange(3000)[:, None]).any()
    shared = [len(set(one) & set(other)) for one, other in zip(exact, by_lists, strict=True)]
    assert np.mean(shared) > 0.97 * 5


def test_a_point_whose_lists_are_nearly_empty_still_has_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbour_search, "EXACT", 1)
    monkeypatch.setattr(neighbour_search, "_PROBES", 1)
    points = (np.arange(400)[:, None] ** 2).astype(np.float32)
    found = graph_neighbours(points, 7)
    assert found.min() >= 0
    assert not (found == np.arange(400)[:, None]).any()
