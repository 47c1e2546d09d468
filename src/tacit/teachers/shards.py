"""Which teacher a record belongs to: a keyed hash of its own id, and of nothing else.

PATE's price (docs/theory.md#words) presumes that one unit reaches one teacher, whoever else is in
the data. An assignment by position, by shuffling or by balancing breaks that: one record more, and
others change teachers. A hash of the unit's own id cannot.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, blocks
from tacit.errors import InvalidArgument

_ROWS = 4096  # records hashed at a time: the float64 copies stay small
_RECORD = b"tacit record"
_SHARD = b"tacit shard"
_PLACE = b"tacit place"
_UNIT = b"tacit unit"
_KEY = b"tacit key"


def shard_key(random_state: int) -> bytes:
    """Return 16 bytes for `shard_of` that follow from a public integer.

    Parameters
    ----------
    random_state : int
        Not negative; public.

    Returns
    -------
    bytes
        The key, the same for the same integer.

    Notes
    -----
    Privacy does not rest on the key being secret; a secret one (`secrets.token_bytes(16)`) keeps
    those who choose their own id from choosing their teacher.

    Examples
    --------
    >>> shard_key(0) == shard_key(0), shard_key(0) == shard_key(1), len(shard_key(0))
    (True, False, 16)
    """
    seed = at_least(0, random_state=random_state)
    return hashlib.blake2b(str(seed).encode(), digest_size=16, person=_KEY).digest()


def shard_of(ids: Iterable[Any], n_teachers: int, key: bytes) -> Integers:
    """Return the teacher of each id: BLAKE2b(key, id) mod n_teachers.

    Parameters
    ----------
    ids : iterable of bytes, str or int
        The people's (all records of a person reach one teacher) or the records' own
        (`record_ids`). Secret.
    n_teachers : int
        How many teachers there are; public.
    key : bytes
        16 to 32 bytes, from `shard_key` or secret.

    Returns
    -------
    array of int of shape (ids,)
        Numbers 0 .. n_teachers - 1. Secret.

    Notes
    -----
    Ids that are written alike are one unit: 7, "7" and 7.0 are the same person, never split because
    a column was read in two ways. Unit: one id.

    Examples
    --------
    >>> shard_of(["ann", "bob", "ann"], 250, shard_key(0)).tolist()
    [217, 72, 217]
    """
    count = at_least(1, n_teachers=n_teachers)
    return (_hashes(ids, key, _SHARD) % np.uint64(count)).astype(np.int64)


def place_of(ids: Iterable[Any], key: bytes) -> Floats:
    """Return a place in [0, 1) for each id, which its own keyed hash decides and nothing else.

    Parameters
    ----------
    ids : iterable of bytes, str or int
        As for `shard_of`. Secret.
    key : bytes
        16 to 32 bytes, from `shard_key` or secret.

    Returns
    -------
    array of float of shape (ids,)
        Places, of which a share s of all ids that there could be lies below s. Secret.

    Notes
    -----
    Unit: one id, as for `shard_of`, of whose teachers these places tell nothing.

    Examples
    --------
    >>> place_of(["ann", "bob", "ann"], shard_key(0)).round(3).tolist()
    [0.835, 0.433, 0.835]
    """
    bits = _hashes(ids, key, _PLACE) >> np.uint64(11)  # as many as a float64 holds
    return bits.astype(np.float64) * 2.0**-53


def _hashes(ids: Iterable[Any], key: bytes, purpose: bytes) -> NDArray[np.uint64]:
    if not isinstance(key, bytes) or not 16 <= len(key) <= 32:
        raise InvalidArgument("Expected key to be 16 to 32 bytes; make one with shard_key(0).")
    base = hashlib.blake2b(key=key, digest_size=8, person=purpose)
    digests = bytearray()
    for name in _names(ids):
        hashed = base.copy()
        hashed.update(name)
        digests += hashed.digest()
    return np.frombuffer(bytes(digests), dtype="<u8")


def record_ids(X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.bytes_]:
    """Return an id of each record: a hash of the row's own values (and label), in hexadecimal.

    Parameters
    ----------
    X : array of shape (records, ...)
        Numbers, one row a record. Secret.
    y : array of shape (records,), optional
        Labels that belong to the records: whole numbers, words or bytes. Secret.

    Returns
    -------
    array of bytes of shape (records,)
        32 hexadecimal digits each. Secret: whoever can guess a record could confirm the guess.

    Notes
    -----
    Values are hashed as float64, so that one row of fractions does not change the ids of the
    others. Equal records have equal ids and so one teacher. Unit: one record; where a person has
    several, give `shard_of` the person's id instead.

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
    labels = None if y is None else _labels(y, len(rows))
    digests = []
    for some in blocks(len(rows), _ROWS):
        with np.errstate(all="ignore"):  # a number too large for float64 is nobody's business
            block = np.ascontiguousarray(rows[some], dtype="<f8")
        # There are many NaNs: one for all. And no negative zero.
        block = np.where(np.isnan(block), np.nan, block) + 0.0
        for place, row in enumerate(block, some.start):
            hashed = hashlib.blake2b(row.tobytes(), digest_size=16, person=_RECORD)
            if labels is not None:
                hashed.update(labels[place])
            digests.append(hashed.hexdigest())
    return np.array(digests, dtype="S32")


def unit_names(ids: Iterable[Any]) -> NDArray[np.bytes_]:
    """Return a name of fixed length for each id: a hash of it, in hexadecimal.

    Parameters
    ----------
    ids : iterable of bytes, str or int
        As for `shard_of`. Secret.

    Returns
    -------
    array of bytes of shape (ids,)
        32 hexadecimal digits each, equal for ids that are written alike, whatever stands beside
        them: see `shard_of`. Secret: whoever can guess an id could confirm the guess.

    Examples
    --------
    >>> names = unit_names([7, "7", 8])
    >>> bool(names[0] == names[1]), bool(names[0] == names[2])
    (True, False)
    """
    hashes = (hashlib.blake2b(name, digest_size=16, person=_UNIT) for name in _names(ids))
    return np.array([hashed.hexdigest() for hashed in hashes], dtype="S32")


def _labels(y: ArrayLike, n_records: int) -> list[bytes]:
    """Write each label by itself; False and True are 0 and 1."""
    values: Any = y if isinstance(y, list | tuple) else np.asarray(y)
    labels = list(_names([int(one) if isinstance(one, bool | np.bool_) else one for one in values]))
    if len(labels) != n_records:
        raise InvalidArgument("Expected y with one label for each record of X.")
    return labels


def _names(ids: Any) -> Iterator[bytes]:
    """Write each id as bytes by itself: a list is never made an array, which would mix its types.

    The ids are never quoted: they may be secret.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidArgument("Expected ids to be a sequence, one id a record.")
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise InvalidArgument("Expected ids to be one-dimensional, one id a record.")
    return map(_name, ids)


def _name(one: Any) -> bytes:
    if isinstance(one, bytes):
        return bytes(one)
    if isinstance(one, str):
        return one.encode("utf-8", "surrogatepass")
    if isinstance(one, float | np.floating) and float(one).is_integer():
        one = int(one)
    with contextlib.suppress(Exception):  # whatever it says may quote the id
        if not isinstance(one, bool | np.bool_):
            return str(operator.index(one)).encode()
    raise InvalidArgument(
        "Expected ids (and labels) to be bytes, strings or whole numbers, with none missing."
    )
