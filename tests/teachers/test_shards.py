"""A record's teacher follows from its own id and the key, and from nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit._cells import id_of
from tacit.errors import InvalidArgument
from tacit.teachers import place_of, record_ids, shard_key, shard_of

KEY = bytes(range(16))
IDS = st.one_of(st.integers(-(2**70), 2**70), st.text(max_size=8), st.binary(max_size=8))
IDS = IDS.filter(lambda one: id_of(one) is not None)
ROWS = st.lists(
    st.lists(st.floats(width=32, allow_nan=True), min_size=3, max_size=3), min_size=1, max_size=8
)


def hashed(name: bytes, n_teachers: int, key: bytes) -> int:
    digest = hashlib.blake2b(name, key=key, digest_size=8, person=b"tacit shard").digest()
    return int.from_bytes(digest, "little") % n_teachers


@settings(deadline=None)
@given(ids=st.lists(IDS, max_size=8), n=st.integers(1, 10**6))
def test_the_documented_hash(ids, n):
    names = [id_of(one).encode("utf-8", "surrogatepass") for one in ids]
    assert shard_of(ids, n, KEY).tolist() == [hashed(name, n, KEY) for name in names]
    assert shard_of(["ann"], n, KEY).tolist() == [hashed(b"ann", n, KEY)]


def test_places_are_even_and_tell_nothing_of_the_teachers():
    """2,000 ids: a share s lies below s, within 5 standard deviations, also of one teacher's."""
    places, teachers = place_of(range(2000), KEY), shard_of(range(2000), 4, KEY)
    assert ((places >= 0) & (places < 1)).all()
    for chosen in (places, *(places[teachers == teacher] for teacher in range(4))):
        for share in (0.1, 0.6, 0.8):
            spread = 5 * np.sqrt(share * (1 - share) / chosen.size)
            assert abs((chosen < share).mean() - share) < spread
    assert place_of(["7", 7, 7.0], KEY).tolist() == place_of([b"7"] * 3, KEY).tolist()
    assert (place_of(range(9), KEY) != place_of(range(9), shard_key(1))).all()


@settings(deadline=None)
@given(ids=st.lists(IDS, min_size=1, max_size=10), data=st.data())
def test_removing_or_adding_others_moves_nobody(ids, data):
    full = shard_of(ids, 97, KEY)
    kept = sorted(data.draw(st.sets(st.integers(0, len(ids) - 1))))
    others = data.draw(st.lists(IDS, max_size=5))
    alone = shard_of([ids[place] for place in kept] + others, 97, KEY)
    assert alone[: len(kept)].tolist() == full[kept].tolist()


@settings(deadline=None)
@given(rows=ROWS, data=st.data())
def test_a_record_without_an_id_stays_whoever_else_is_there(rows, data):
    X = np.array(rows)
    y = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(X), max_size=len(X))))
    kept = sorted(data.draw(st.sets(st.integers(0, len(X) - 1), min_size=1)))
    assert record_ids(X[kept], y[kept]).tolist() == record_ids(X, y)[kept].tolist()
    assert record_ids(X[kept]).tolist() == record_ids(X)[kept].tolist()


def test_one_row_of_fractions_does_not_move_the_others():
    whole = np.array([[1, 2], [3, 4], [250, 0]])
    with_fractions = np.vstack([whole, [[0.5, 0.25]]])
    assert (record_ids(whole) == record_ids(with_fractions)[:3]).all()
    assert (record_ids(whole.astype(np.uint8)) == record_ids(whole)).all()
    assert (record_ids(whole.astype(np.float32)) == record_ids(whole)).all()


def test_layout_zero_signs_and_kinds_of_nan_do_not_matter():
    X = np.array([[0.0, np.nan], [1.0, 2.0]])
    other = X.copy()
    other[0, 0] = -0.0
    other.view(np.uint64)[0, 1] ^= 1 << 63 | 5  # another of the many NaNs
    assert np.isnan(other[0, 1])
    assert (record_ids(X) == record_ids(np.asfortranarray(other))).all()
    assert (record_ids(X) == record_ids(X.reshape(2, 1, 2))).all()


def test_different_records_differ_and_so_do_labels():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = np.arange(2000) % 2
    assert len(set(record_ids(X))) == 2000
    assert not (record_ids(X, y) == record_ids(X)).any()
    assert not (record_ids(X, y) == record_ids(X, 1 - y)).any()
    assert (record_ids(X, y == 1) == record_ids(X, y)).all()
    assert (record_ids(X, y.astype(str)) == record_ids(X, y)).all()


@settings(deadline=None)
@given(
    people=st.lists(st.integers(0, 30), min_size=1, max_size=60),
    n=st.integers(1, 50),
    key=st.binary(min_size=16, max_size=32),
    data=st.data(),
)
def test_a_person_is_never_split_however_the_id_is_written(people, n, key, data):
    ways = [str, int, float, np.int16, np.float64, np.str_, lambda p: str(p).encode()]
    written = [data.draw(st.sampled_from(ways))(person) for person in people]
    teachers = {}
    for person, shard in zip(people, shard_of(written, n, key), strict=True):
        assert teachers.setdefault(person, shard) == shard


def test_arrays_of_any_kind_are_ids():
    expected = shard_of([3, 14, 3], 1000, KEY)
    for ids in (np.array([3, 14, 3]), np.array(["3", "14", "3"]), np.array([b"3", b"14", b"3"])):
        assert (shard_of(ids, 1000, KEY) == expected).all()
    assert (shard_of(np.array([3, "14", 3.0], dtype=object), 1000, KEY) == expected).all()


def test_teachers_get_about_equally_many():
    counts = np.bincount(shard_of(range(20_000), 20, KEY), minlength=20)
    chi_squared = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_squared < 60  # 19 degrees of freedom: probability 4e-6


def test_the_key_decides():
    other = shard_of(range(2000), 10, KEY[::-1])
    assert 0.05 < (shard_of(range(2000), 10, KEY) == other).mean() < 0.15
    assert len({shard_key(seed) for seed in range(100)}) == 100
    with pytest.raises(InvalidArgument, match="random_state=-1"):
        shard_key(-1)


@pytest.mark.parametrize("key", [b"short", bytes(33), "0123456789abcdef", None])
def test_keys_that_are_refused(key):
    with pytest.raises(InvalidArgument, match="16 to 32 bytes"):
        shard_of([1], 2, key)


@pytest.mark.parametrize(
    "ids",
    [
        [1, None],
        [1, 2.0**60],
        [float("nan")],
        [float("inf")],
        [True],
        [[1]],
        "abc",
        b"abc",
        7,
        np.zeros((2, 2), int),
    ],
)
def test_ids_that_are_refused_are_not_quoted(ids):
    with pytest.raises(InvalidArgument, match="ids") as caught:
        shard_of(ids, 2, KEY)
    assert "abc" not in str(caught.value)
    assert "11529" not in str(caught.value)


def test_wrong_shapes_are_refused_and_no_record_is_fine():
    with pytest.raises(InvalidArgument, match="n_teachers=0"):
        shard_of([1], 0, KEY)
    with pytest.raises(InvalidArgument, match="array of numbers"):
        record_ids([["a", "b"]])
    with pytest.raises(InvalidArgument, match="one label for each record"):
        record_ids([[1], [2]], [0])
    assert shard_of([], 5, KEY).shape == (0,)
    assert record_ids(np.zeros((0, 4))).shape == (0,)
