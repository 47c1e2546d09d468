"""Which teacher a record belongs to: a keyed hash of its own id, and of nothing else.

PATE's price (docs/theory.md#words) presumes that one unit reaches one teacher, whatever other units
are in the data. Assignment by position, shuffling or balancing breaks that: one record more, and
others change teachers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._cells import ids_of, words_of
from tacit._checks import Floats, Integers, at_least, blocks
from tacit.errors import InvalidArgument

_CELLS = 2**17  # numbers hashed at a time: the float64 copies stay small
_RECORD = b"tacit record"
_SHARD = b"tacit shard"
_PLACE = b"tacit place"
_UNIT = b"tacit unit"
_KEY = b"tacit key"
_BITS = b"tacit bits"


def shard_key(random_state: int) -> bytes:
    """Return 16 bytes for `shard_of` that follow from a public integer.

    Privacy does not rest on the key being secret; a secret one (`secrets.token_bytes(16)`) stops
    those who choose their own id from choosing their teacher.

    Parameters
    ----------
    random_state : int, not negative; public

    Returns
    -------
    bytes
    """
    seed = at_least(0, random_state=random_state)
    return hashlib.blake2b(str(seed).encode(), digest_size=16, person=_KEY).digest()


def shard_of(ids: Iterable[Any], n_teachers: int, key: bytes) -> Integers:
    """Return the teacher of each id: BLAKE2b(key, id) mod n_teachers.

    Each id becomes text by itself: 7, "7" and 7.0 are the same person, never split because a column
    was stored in two ways. Unit: one id.

    Parameters
    ----------
    ids : sequence of str, int, date or bytes
        The people's (all records of a person reach one teacher) or the records' own
        (`record_ids`). Secret.
    n_teachers : int, how many teachers there are; public
    key : bytes, 16 to 32 bytes, from `shard_key` or secret

    Returns
    -------
    array of int of shape (ids,), numbers 0 .. n_teachers - 1; secret

    Examples
    --------
    >>> shard_of(["ann", "bob", "ann"], 250, shard_key(0)).tolist()
    [217, 72, 217]
    """
    return teachers_of(_hashes(_names(ids), key, _SHARD), n_teachers)


def unit_hashes(names: NDArray[np.bytes_], key: bytes) -> NDArray[np.uint64]:
    """Return the keyed hash of each name (`unit_names`, `record_ids`). Secret."""
    return _hashes(names.tolist(), key, _SHARD)


def teachers_of(hashes: NDArray[np.uint64], n_teachers: int) -> Integers:
    """Return the teacher of each keyed hash. Secret."""
    count = at_least(1, n_teachers=n_teachers)
    return (hashes % np.uint64(count)).astype(np.int64)


def teaching_order(
    hashes: NDArray[np.uint64], n_teachers: int, X: NDArray[Any], y: NDArray[Any]
) -> Integers:
    """Return the records' indices, teacher by teacher, in an order that is the records' own.

    Sorted by keyed hash, then by a hash of the row's bits: a teacher gets the same rows in the same
    order whatever else is in the data.
    """
    order = np.lexsort((hashes, teachers_of(hashes, n_teachers)))
    again = hashes[order[1:]] == hashes[order[:-1]]
    if not again.any():
        return order
    group = np.concatenate([[0], np.cumsum(~again)])  # of equal hashes
    tied = np.flatnonzero(np.append(again, False) | np.append(False, again))
    bits = _bits(X, y, order[tied])
    order[tied] = order[tied][np.lexsort((bits[:, 1], bits[:, 0], group[tied]))]
    return order


def _bits(X: NDArray[Any], y: NDArray[Any], places: Integers) -> NDArray[np.uint64]:
    """Return two numbers for each of some records, equal only where all of their bits are."""
    base, digests = hashlib.blake2b(digest_size=16, person=_BITS), []
    for some in blocks(len(places), _CELLS // _width(X)):
        rows = np.ascontiguousarray(X[places[some]], dtype="<f8").reshape(
            some.stop - some.start, -1
        )
        labels = np.asarray(y[places[some]], dtype="<i8")[:, None]
        digests.append(_hashed(_pieces(np.hstack([rows.view("<i8"), labels])), base))
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def place_of(ids: Iterable[Any], key: bytes) -> Floats:
    """Return a number in [0, 1) for each id, by its keyed hash, independent of its teacher.

    Parameters
    ----------
    ids : iterable of bytes, str or int, as for `shard_of`; secret
    key : bytes, 16 to 32 bytes, from `shard_key` or secret

    Returns
    -------
    array of float of shape (ids,), a share s of all possible ids is below s; secret
    """
    return places_of(_names(ids), key)


def places_of(names: Iterable[bytes], key: bytes) -> Floats:
    """Return what `place_of` does, of names. Secret."""
    bits = _hashes(names, key, _PLACE) >> np.uint64(11)  # as many as a float64 holds
    return bits.astype(np.float64) * 2.0**-53


def _hashes(names: Iterable[bytes], key: bytes, purpose: bytes) -> NDArray[np.uint64]:
    if not isinstance(key, bytes) or not 16 <= len(key) <= 32:
        raise InvalidArgument("Expected key to be 16 to 32 bytes; make one with shard_key(0).")
    base = hashlib.blake2b(key=key, digest_size=8, person=purpose)
    return np.frombuffer(_hashed(names, base), dtype="<u8")


def _hashed(
    pieces: Iterable[bytes | memoryview], base: Any, ends: Iterable[bytes] = repeat(b"")
) -> bytes:
    """Return the digests of all pieces, each with its end, one after another."""
    digests = []
    for piece, end in zip(pieces, ends, strict=False):
        one = base.copy()
        one.update(piece)
        if end:
            one.update(end)
        digests.append(one.digest())
    return b"".join(digests)


def _written(digests: bytes) -> NDArray[np.bytes_]:
    """Write digests of 16 bytes in hexadecimal."""
    return np.array(np.frombuffer(digests.hex().encode(), dtype="S32"))


def _width(rows: NDArray[Any]) -> int:
    return max(1, math.prod(rows.shape[1:]))


def _pieces(rows: NDArray[Any]) -> Iterator[memoryview]:
    """Yield the bytes of each row."""
    width, held = rows.shape[1] * rows.itemsize, memoryview(rows.tobytes())
    return (held[place * width : (place + 1) * width] for place in range(len(rows)))


def record_ids(X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.bytes_]:
    """Return an id of each record: a hash of the row's own values (and label), in hexadecimal.

    Values are hashed as float64, so that one row of fractions does not change the ids of the
    others. Equal records have equal ids and so one teacher. Unit: one record; where a person has
    several, give `shard_of` the person's id instead.

    Parameters
    ----------
    X : array of shape (records, ...), numbers, one row a record; secret
    y : array of shape (records,), optional, labels: whole numbers, words or bytes; secret

    Returns
    -------
    array of bytes of shape (records,)
        32 hexadecimal digits each. Secret: anyone who can guess a record could confirm the guess.

    Examples
    --------
    >>> bool(record_ids([[1, 2], [3, 4]])[0] == record_ids([[1.0, 2.0]])[0])
    True
    """
    rows = np.asarray(X)
    if rows.dtype.kind not in "biuf" or rows.ndim < 1:
        raise InvalidArgument(
            "Expected X to be an array of numbers, one row a record; encode categories with a "
            "public list of them."
        )
    labels = None if y is None else _label_names(y, len(rows))
    base, digests = hashlib.blake2b(digest_size=16, person=_RECORD), []
    for some in blocks(len(rows), _CELLS // _width(rows)):
        with np.errstate(all="ignore"):  # a number too large for float64 is nobody's business
            block = np.array(rows[some], dtype="<f8", order="C").reshape(some.stop - some.start, -1)
        block[np.isnan(block)] = np.nan  # there are many NaNs: one for all
        block += 0.0  # and no negative zero
        ends = repeat(b"") if labels is None else labels[some]
        digests.append(_hashed(_pieces(block), base, ends))
    return _written(b"".join(digests))


def unit_names(ids: Any) -> NDArray[np.bytes_]:
    """Return a hash of each id, in hexadecimal; empty where it is missing or cannot be read.

    Parameters
    ----------
    ids : sequence of str, int, date or bytes, as for `shard_of`; secret

    Returns
    -------
    array of bytes of shape (ids,)
        32 hexadecimal digits each, equal for ids of one text. Secret: anyone who can guess an id
        could confirm the guess.

    Examples
    --------
    >>> names = unit_names([7, "7", 8, None])
    >>> bool(names[0] == names[1]), bool(names[0] == names[2]), names[3]
    (True, False, np.bytes_(b''))
    """
    words = ids_of(ids)
    known = np.array([word is not None for word in words], dtype=np.bool_)
    pieces = (_name(word) for word in words if word is not None)
    names = np.zeros(len(words), dtype="S32")
    names[known] = _written(_hashed(pieces, hashlib.blake2b(digest_size=16, person=_UNIT)))
    return names


def _label_names(y: ArrayLike, n_records: int) -> list[bytes]:
    """Write each label by itself; False and True are 0 and 1."""
    cells: Any = y if isinstance(y, list | tuple) else np.asarray(y)
    whole = (int(one) if isinstance(one, bool | np.bool_) else one for one in cells)
    labels = [_name(word) for word in words_of(list(whole))]
    if len(labels) != n_records:
        raise InvalidArgument("Expected y with one label for each record of X.")
    return labels


def _names(ids: Any) -> Iterator[bytes]:
    """Write each id as bytes by itself; errors never quote them, for they may be secret."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidArgument("Expected ids to be a sequence, one id a record.")
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise InvalidArgument("Expected ids to be one-dimensional, one id a record.")
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":  # as `id_of` writes them, at once
        return iter(ids.astype("S").tolist())
    return map(_name, ids_of(ids))


def _name(word: str | None) -> bytes:
    if word is None:
        raise InvalidArgument(
            "Expected ids (and labels) to be text, whole numbers or dates, with none missing."
        )
    return word.encode("utf-8", "surrogatepass")
