"""Neighbours against brute force: in float32, in float64, and by lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from tacit.students import neighbour_search
from tacit.students.neighbour_search import Lists, graph_neighbours, nearest, nearest_in_lists


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


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    monkeypatch.setattr(neighbour_search, "LISTED", 100)
    points = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    found = Lists.of(points)
    assert found is not None
    return found


@pytest.mark.arithmetic
def test_in_lists_the_nearest_of_eight_lists_are_found_exactly(lists: Lists) -> None:
    queries = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    found, distances = nearest_in_lists(queries, lists, 5)
    centres = cdist(queries, lists.centres, "sqeuclidean").argsort(axis=1, kind="stable")[:, :8]
    for query, looks in enumerate(centres):
        among = np.sort(lists.near(looks))
        apart = lists.points[among].astype(np.float64) - queries[query]
        squared = (apart**2).sum(axis=1).astype(np.float32)
        order = np.argsort(squared, kind="stable")[:5]
        np.testing.assert_array_equal(found[query], among[order])
        np.testing.assert_array_equal(distances[query], squared[order])


def test_in_lists_nearly_all_neighbours_are_found(lists: Lists) -> None:
    queries = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
    found, _ = nearest_in_lists(queries, lists, 5)
    exact, _ = nearest(queries, lists.points, 5, precise=True)
    shared = [len(set(one) & set(other)) for one, other in zip(exact, found, strict=True)]
    assert np.mean(shared) > 0.97 * 5


@pytest.mark.arithmetic
def test_in_lists_an_answer_depends_on_its_query_alone(
    lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    found, distances = nearest_in_lists(queries, lists, 5)
    alone = [nearest_in_lists(queries[row : row + 1], lists, 5) for row in range(60)]
    monkeypatch.setattr(neighbour_search, "_BLOCK", 500)  # several blocks of each list
    backwards, _ = nearest_in_lists(queries[::-1], lists, 5)
    np.testing.assert_array_equal(found, np.concatenate([each[0] for each in alone]))
    np.testing.assert_array_equal(distances, np.concatenate([each[1] for each in alone]))
    np.testing.assert_array_equal(found, backwards[::-1])


def test_each_point_is_in_one_list_that_of_its_nearest_centre(lists: Lists) -> None:
    assert sorted(lists.members.tolist()) == list(range(3000))
    homes = cdist(lists.points, lists.centres, "sqeuclidean").argmin(axis=1)
    for each in range(len(lists.centres)):
        assert (homes[lists.near(np.array([each]))] == each).all()


def test_who_finds_too_few_in_its_lists_is_compared_with_all() -> None:
    points = np.array([[0.0], [1.0], [50.0], [51.0], [52.0]], dtype=np.float32)
    centres = np.array([[0.5], [51.0], *[[-float(each)] for each in range(1, 10)]])
    lists = Lists.around(centres.astype(np.float32), points)
    queries = np.array([[-20.0], [51.9]], dtype=np.float32)  # the first looks into empty lists
    found, distances = nearest_in_lists(queries, lists, 3)
    np.testing.assert_array_equal(found, [[0, 1, 2], [4, 3, 2]])
    np.testing.assert_array_equal(distances[0], [400, 441, 4900])


@pytest.mark.arithmetic
def test_points_that_float32_cannot_tell_apart_are_told_apart_in_lists() -> None:
    rng = np.random.default_rng(0)
    points = (rng.integers(0, 4, (400, 3)) * 1e-6 + 100).astype(np.float32)
    points[0] = -5000
    lists = Lists.around(points[[0, 1]], points)  # both lists are looked into
    queries = points[5:15]
    wanted = nearest(queries, points, 3, precise=True)
    np.testing.assert_array_equal(nearest_in_lists(queries, lists, 3), wanted)


def test_few_points_need_no_lists() -> None:
    assert Lists.of(np.zeros((100, 2), dtype=np.float32)) is None
