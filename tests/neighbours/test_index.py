"""The index ranks exactly, by an order in which no record depends on another."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from plain_neighbours import Table, all_rows, crowded_table, drawn

from tacit.errors import InvalidArgument
from tacit.neighbours import NeighbourIndex
from tacit.noise import InsecureNoise

QUERIES = all_rows(range(-2, 3), range(-2, 3))
NOISE = InsecureNoise(0)  # rate 1 tosses no coins

tables = pytest.mark.parametrize(
    "table",
    [
        crowded_table(1, 60, 60),
        crowded_table(2, 20, 60),
        crowded_table(3, 20, 60, votes_per_unit=2),
    ],
    ids=["records", "people", "two votes"],
)


@pytest.mark.arithmetic
@tables
@pytest.mark.parametrize("reach", [1, 7, 60, 1000])
def test_search_is_exact_with_ties_and_duplicates(table: Table, reach: int) -> None:
    around = table.index().search(QUERIES, reach)
    for k in (1, 5, 60, 70):
        found = drawn(around, k, 1.0, NOISE, list(range(len(QUERIES))))
        assert found == [table.nearest(query, k, set(table.units.tolist())) for query in QUERIES]


@pytest.mark.arithmetic
@tables
def test_neither_order_nor_memory_nor_company_matters(table: Table) -> None:
    expected = table.index().search(QUERIES, 9)
    shuffle = np.random.default_rng(4).permutation(len(table.keys))
    shuffled = Table(
        table.X[shuffle], table.keys[shuffle], table.units[shuffle], table.votes_per_unit
    )
    every = list(range(len(QUERIES)))
    for other in (shuffled.index(), table.index(memory_mib=1e-6), table.index(memory_mib=2e-3)):
        around = other.search(QUERIES, 9)
        assert drawn(around, 12, 1.0, NOISE, every) == drawn(expected, 12, 1.0, NOISE, every)
        np.testing.assert_array_equal(around.targets, expected.targets)
    for row, query in enumerate(QUERIES):
        alone = table.index().search(query[None], 9)
        assert drawn(alone, 12, 1.0, NOISE, [0]) == drawn(expected, 12, 1.0, NOISE, [row])


def test_real_features_against_brute_force_on_the_grid() -> None:
    """Many dimensions and records; the oracle sorts whole numbers, ties by key."""
    rng = np.random.default_rng(5)
    X, asked = rng.standard_normal((3000, 40)), rng.standard_normal((20, 40))
    X[1500:] = X[:1500]
    keys = rng.permutation(3000).astype(np.uint64)
    from tacit.neighbours import quantise

    whole, question = quantise(X, 6.0).astype(np.int64), quantise(asked, 6.0).astype(np.int64)
    around = NeighbourIndex(X, keys, keys=keys, radius=6.0).search(asked, 200)
    found = around.targets[around.draw(300, 1.0, NOISE)]
    for row, query in zip(found, question, strict=True):
        order = np.lexsort((keys, ((whole - query) ** 2).sum(axis=1)))
        np.testing.assert_array_equal(row, keys[order[:300]])


def test_equal_keys_are_ordered_by_unit_and_then_by_target() -> None:
    for shuffle in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        units = np.array(["b", "a", "a", "c"])[shuffle]
        targets = np.array([[1, 9], [2, 5], [2, 3], [0, 0]], dtype=np.uint8)[shuffle]
        index = NeighbourIndex(
            np.zeros((4, 1)), targets, keys=[b"k"] * 4, units=units, votes_per_unit=2, radius=1.0
        )
        around = index.search([[0.5]], 9)
        found = around.targets[around.draw(4, 1.0, NOISE)[0]]
        assert found.tolist() == [[2, 3], [2, 5], [1, 9], [0, 0]]


@pytest.mark.parametrize(
    "targets",
    [
        np.array([0, 1, 2]),
        np.array(["ant", "bee", "cicada"]),
        np.array([[0, 1], [1, 1], [0, 0]], dtype=bool),
        np.array([0.5, -0.25, 1e9]),
        np.zeros((3, 2, 2)),
        np.zeros((3, 0)),
    ],
)
def test_targets_of_any_kind_keep_their_type(targets: np.ndarray) -> None:
    X = np.array([[0.9], [0.1], [0.5]])
    around = NeighbourIndex(X, targets, keys=np.array([3, 1, 2]), radius=1.0).search([[1.0]], 3)
    found = around.targets[around.draw(3, 1.0, NOISE)[0]]
    assert found.dtype == targets.dtype
    np.testing.assert_array_equal(found, targets[[0, 2, 1]])
    with pytest.raises(ValueError, match="read-only"):
        around.targets[0] = targets[0]


@pytest.mark.parametrize("votes", [None, 1, 2])
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_an_index_may_be_empty(votes: int | None, rate: float) -> None:
    """Whoever is the only one may be removed: a refusal would tell that there was one."""
    units = {} if votes is None else {"units": np.empty(0, int), "votes_per_unit": votes}
    index = NeighbourIndex(
        np.empty((0, 2)), np.empty((0, 3)), keys=np.empty(0, int), radius=1.0, **units
    )
    around = index.search(np.zeros((4, 2)), reach=5)
    assert index.n_units == 0
    assert around.targets.shape == (0, 3)
    assert (around.draw(3, rate, InsecureNoise(0)) == -1).all()


def test_a_search_keeps_to_its_memory() -> None:
    """16 MiB for 100,000 records: beside the result, blocks of some 40 queries and no more."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((100_000, 4)).astype(np.float32)
    index = NeighbourIndex(
        X, np.zeros(100_000, int), keys=np.arange(100_000), radius=4.0, memory_mib=16
    )
    tracemalloc.start()
    index.search(X[:300], 50)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert peak < 18


X3, Y3, K3 = np.zeros((3, 2)), np.array([0, 1, 1]), np.array([5, 6, 7])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros(3)}, "Expected X to be an array"),
        ({"X": np.zeros((0, 2))}, "Expected targets to have one entry for each record"),
        ({"X": np.full((3, 2), np.nan)}, "finite"),
        ({"X": np.array([["a", "b"]] * 3)}, "Expected X to be an array of numbers"),
        ({"targets": [0, 1]}, "Expected targets to have one entry for each record"),
        ({"targets": 3}, "Expected targets to have one entry"),
        ({"targets": [0.0, np.nan, 1.0]}, "Expected targets to hold finite"),
        ({"targets": np.array([None] * 3)}, "Expected targets to hold bits"),
        ({"targets": [[1], [1, 2], [3]]}, "Expected targets"),
        ({"keys": [1, 2]}, "Expected keys to have one entry"),
        ({"keys": np.zeros((3, 2), int)}, "Expected keys to have one entry"),
        ({"keys": [0.5, 1.5, 2.5]}, "Expected keys to hold integers, unsigned integers, bytes"),
        ({"units": [1, 2]}, "Expected units to have one entry"),
        ({"units": [1.0, 2.0, 3.0]}, "Expected units to hold"),
        ({"votes_per_unit": 0}, "Expected votes_per_unit=0"),
        ({"votes_per_unit": 2}, "Expected units where votes_per_unit is above 1"),
        ({"radius": 0.0}, "Expected radius="),
        ({"memory_mib": 0}, "Expected memory_mib="),
    ],
)
def test_bad_records_are_refused_in_one_line(changes: dict[str, object], message: str) -> None:
    good = {"X": X3, "targets": Y3, "keys": K3, "radius": 1.0}
    with pytest.raises(InvalidArgument, match=message) as caught:
        NeighbourIndex(**{**good, **changes})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros((0, 2)), np.zeros(2), [["a", "b"]]])
def test_bad_queries_are_refused(bad: object) -> None:
    index = NeighbourIndex(X3, Y3, keys=K3, radius=1.0)
    with pytest.raises(InvalidArgument, match="Expected queries"):
        index.search(bad, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="finite"):
        index.search([[np.inf, 0.0]], 1)


@pytest.mark.parametrize("bad", [0, -3, 1.5, "2", None, True])
def test_a_bad_reach_is_refused(bad: int) -> None:
    with pytest.raises(InvalidArgument, match="Expected reach="):
        NeighbourIndex(X3, Y3, keys=K3, radius=1.0).search([[0.0, 0.0]], bad)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_private_records_are_not_copied_or_pickled(duplicate: object) -> None:
    index = NeighbourIndex(X3, Y3, keys=K3, radius=1.0)
    for secret in (index, index.search(X3, 1)):
        with pytest.raises(TypeError, match="private records"):
            duplicate(secret)  # type: ignore[operator]


@pytest.mark.parametrize("odd", [2.0, np.float32(2), True, np.uint8(2), np.int64(2)])
def test_one_targets_type_does_not_reorder_the_others(odd):
    """Pairs of equal keys, of which one is among the k nearest: which one is not for others."""
    values = np.random.default_rng(0).integers(-300, 300, size=40)
    X, keys = np.repeat(np.arange(20.0)[:, None], 2, axis=0), np.repeat(np.arange(20), 2)
    queries = np.arange(20.0)[:, None]
    for targets in (values.tolist(), values.astype(np.float32), values.astype(np.int16)):
        said = []
        for more in ([], [odd]):
            index = NeighbourIndex(
                [*X, *[[99.0]] * len(more)],
                np.asarray([*targets, *more]),
                keys=[*keys, *[77] * len(more)],
                radius=20.0,
            )
            around = index.search(queries, 1)
            said.append(index.targets[around.draw(1, 1.0, InsecureNoise(0))[:, 0]].astype(float))
        np.testing.assert_array_equal(*said)


@pytest.mark.parametrize("name", ["keys", "units", "targets"])
def test_lists_of_several_types_are_refused(name):
    fine = {"targets": ["a", "b"], "keys": [b"a", b"b"], "units": ["a", "b"]}
    NeighbourIndex([[0.0], [1.0]], radius=1.0, **fine)
    for odd in ([1, "b"], ["a", b"b"], [1, b"b"]):
        with pytest.raises(InvalidArgument, match="all of one type"):
            NeighbourIndex([[0.0], [1.0]], radius=1.0, **{**fine, name: odd})
