"""Records in blocks: what is kept of them begins as the order of all records begins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.neighbours import Nearest, NeighbourIndex, Search, extended, questions

RADIUS = 2048.0


def crowd(seed: int, n: int, people: int | None) -> tuple[np.ndarray, ...]:
    """Few places and few keys: everything is tied with something."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    keys = np.array([b"%03d" % key for key in rng.integers(0, n, size=n)])
    units = None
    if people is not None:
        units = np.array([b"u%03d" % unit for unit in rng.integers(0, people, size=n)])
    return X, keys, units, rng.integers(0, 4, size=n), rng.integers(-2, 3, size=(3, 2)) + 0.0


def looked_at(search: Search, parts: list, vectors, targets, units, keys) -> Nearest:
    """Go through each part in blocks, then join what was found."""
    found = []
    for part in parts:
        known = None
        for some in part:
            owners = None if units is None else units[some]
            known = search.look(
                known, vectors[some], targets[some], owners, lambda near, own=keys[some]: own[near]
            )
        found.append(known)
    whole = found[-1]
    for other in found[:-1]:
        whole = search.join(whole, other)
    return whole


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 60),
    reach=st.integers(1, 30),
    votes=st.integers(1, 3),
    people=st.sampled_from([None, 4, 20]),
    cuts=st.integers(1, 5),
)
@settings(deadline=None, max_examples=150)
def test_any_blocks_begin_the_order_of_all(seed, n, reach, votes, people, cuts):
    X, keys, units, targets, asked = crowd(seed, n, people)
    votes = 1 if people is None else votes
    index = NeighbourIndex(X, targets, keys=keys, radius=RADIUS, units=units, votes_per_unit=votes)
    reach = min(reach, index.n_units)
    expected = index.ranking(questions(asked, RADIUS), reach)
    order = np.random.default_rng(seed + 1).permutation(n)
    parts = [np.array_split(part, cuts) for part in np.array_split(order, min(n, 2))]
    search = Search(questions(asked, RADIUS), reach, votes)
    found = looked_at(search, parts, extended(X, RADIUS), targets, units, keys)
    ranked = found.ranking(votes)
    for row in range(len(asked)):
        wanted = expected.positions[row][expected.positions[row] >= 0]
        there = ranked.positions[row][: wanted.size]
        assert (there >= 0).all()
        np.testing.assert_array_equal(found.targets[there], index.targets[wanted])
        if expected.unit_ranks is not None:
            wanted_ranks = expected.unit_ranks[row][: wanted.size]
            np.testing.assert_array_equal(ranked.unit_ranks[row][: wanted.size], wanted_ranks)


def test_only_near_records_are_kept_and_get_a_key():
    rng = np.random.default_rng(0)
    vectors, targets = extended(rng.normal(size=(4000, 3)), 6.0), np.zeros(4000, dtype=int)
    search, hashed, known = Search(questions(np.zeros((2, 3)), 6.0), 10, 1), [], None
    for start in range(0, 4000, 500):
        some = slice(start, start + 500)

        def keys(near: np.ndarray, start: int = start) -> np.ndarray:
            hashed.append(near.size)
            return np.array([b"%04d" % place for place in near + start])

        known = search.look(known, vectors[some], targets[some], None, keys)
    assert known is not None
    assert len(known.keys) == 10  # both questions are the same
    assert hashed[0] == 500
    assert sum(hashed[1:]) < 100


@pytest.mark.parametrize("units", [None, np.array([], dtype="S4")])
def test_a_block_of_nobody(units):
    search = Search(questions(np.zeros((2, 1)), 1.0), 3, 1)
    nobody = extended(np.empty((0, 1)), 1.0)
    found = search.look(
        None, nobody, np.empty(0, dtype=int), units, lambda near: np.empty(0, dtype="S4")
    )
    one = extended(np.zeros((1, 1)), 1.0)
    more = None if units is None else np.array([b"me"])
    found = search.look(found, one, np.array([7]), more, lambda near: np.array([b"key"])[near])
    assert found.targets[found.places].tolist() == [[7], [7]]
