"""Private rows in unnamed files, grouped by a keyed hash of person or teacher.

A person's rows must meet before anything is bounded, a teacher's before it is trained. One pass
puts every row into its bucket; then one file at a time is in memory.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers, blocks, finite_rows, own_floats
from tacit._quiet import Secret
from tacit.records.spaces import PrivateRecords
from tacit.teachers import Shards, record_ids, teachers_of, teaching_order, unit_hashes

AT_ONCE = 2**14
"""Rows that are looked at together, where rows come from a disk."""
BUCKETS = 128
"""Files among which people are spread; one of them at a time is in memory."""
_NAME = 32  # bytes of a person's name, as `units_of` gives it


class RecordArrays(NamedTuple):
    """Some records on their way between processes: rows, targets, people. Secret."""

    rows: NDArray[Any]
    targets: NDArray[Any]
    people: NDArray[Any] | None


class Piece(Protocol):
    """A part of a source that can be read repeatedly, with the same records."""

    def read(self) -> Iterator[RecordArrays]:
        """Yield its records, block by block. Secret."""

    def portable(self) -> Piece:
        """Return it in a form that may be sent to another process."""


@dataclass(frozen=True, slots=True, repr=False)
class ArrayPiece:
    """Records that are in memory."""

    blocks: tuple[RecordArrays, ...]

    def read(self) -> Iterator[RecordArrays]:
        """Yield them."""
        yield from self.blocks

    def portable(self) -> Piece:
        """Return itself."""
        return self


@dataclass(frozen=True, slots=True, repr=False)
class Spread:
    """Assignment of rows to `n_teachers` (public) by a keyed hash of each unit's id."""

    n_teachers: int
    key: bytes

    def hashes(self, records: PrivateRecords) -> NDArray[np.uint64]:
        """Return the keyed hash of each record's person, or of its raw row. Secret.

        Raw: a feature's last bit may depend on the rows beside it.
        """
        ids = records.people
        if ids is None:
            ids = record_ids(records.rows, records.targets)
        return unit_hashes(ids, self.key)

    def width(self, n_buckets: int) -> int:
        """Return how many consecutive teachers share a bucket, at least 1."""
        return -(-self.n_teachers // n_buckets)

    def buckets_of(self, hashes: NDArray[np.uint64], n_buckets: int) -> Integers:
        """Return the bucket of each record, from 0 on. Secret."""
        return teachers_of(hashes, self.n_teachers) // self.width(n_buckets)


class Buckets(Secret):
    """Rows on disk, in unnamed files that nobody else can open, and that end with this process.

    A file (mode 0600) is unlinked as soon as it is open, so that any end of this process, `kill -9`
    included, frees it. A keyed hash of the person, with a key that is drawn here and never stored,
    or of the teacher, with a `spread`, names a row's bucket.
    """

    def __init__(self, spread: Spread | None = None) -> None:
        self._spread = spread
        self._files = [tempfile.TemporaryFile(buffering=0) for _ in range(BUCKETS)]  # noqa: SIM115
        self._key = secrets.token_bytes(32)
        self._row: np.dtype[Any] | None = None
        self._turn = 0

    def add(self, records: PrivateRecords) -> None:
        """Put records into their people's buckets; where each is its own unit, into any."""
        row = self._described(records)
        packed = np.zeros(len(records.rows), dtype=row)
        packed["X"], packed["t"] = records.rows, records.targets
        if records.people is not None:
            packed["who"] = records.people
        if self._spread is not None:
            packed["hash"] = self._spread.hashes(records)
            place = self._spread.buckets_of(packed["hash"], len(self._files))
        elif records.people is not None:
            place = self._places(records.people)
        else:
            self._turn = (self._turn + 1) % len(self._files)
            self._write(self._turn, packed)
            return
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(self._files) + 1))
        for bucket, (start, end) in enumerate(itertools.pairwise(ends)):
            if start < end:
                self._write(bucket, packed[order[start:end]])

    @property
    def teachers_in_one(self) -> int:
        """How many teachers share a bucket."""
        return 1 if self._spread is None else self._spread.width(len(self._files))

    def pieces(self) -> list[Piece]:
        """Return a piece for each bucket."""
        return [_Bucket(self, number) for number in range(len(self._files))]

    def load(self, number: int) -> Iterator[PrivateRecords]:
        """Yield a bucket's records, about `AT_ONCE` at a time, each with all of its person's."""
        packed = self.packed(number)
        if "who" not in (packed.dtype.names or ()):
            for some in blocks(len(packed), AT_ONCE):
                yield PrivateRecords(packed["X"][some], packed["t"][some], None)
            return
        order = np.argsort(packed["who"], kind="stable")
        for some in _whole_people(packed["who"][order]):
            own = packed[order[some]]
            yield PrivateRecords(own["X"], own["t"], own["who"])

    def packed(self, number: int) -> NDArray[Any]:
        """Return all rows of a bucket, with fields X, t, and who or hash if present. Secret."""
        if self._row is None:
            return np.empty(0, dtype=[("X", "<f8", (0,)), ("t", "<i8")])
        self._files[number].seek(0)
        return np.fromfile(self._files[number], dtype=self._row)

    def close(self) -> None:
        """Free the disk."""
        for file in self._files:
            file.close()

    def _write(self, bucket: int, packed: NDArray[Any]) -> None:
        left = memoryview(packed.tobytes())
        while left:  # a disk may take less than all of it
            left = left[self._files[bucket].write(left) :]

    def _places(self, people: NDArray[Any]) -> Integers:
        names, owner = np.unique(people, return_inverse=True)
        hashed = (hashlib.blake2b(name, digest_size=8, key=self._key) for name in names.tolist())
        numbers = np.array([int.from_bytes(one.digest(), "little") for one in hashed], np.uint64)
        return np.asarray(numbers % np.uint64(len(self._files)), dtype=np.int64)[owner]

    def _described(self, records: PrivateRecords) -> np.dtype[Any]:
        fields: list[Any] = [
            ("X", "<f8", records.rows.shape[1:]),
            ("t", records.targets.dtype, records.targets.shape[1:]),
        ]
        if records.people is not None:
            fields.append(("who", f"S{_NAME}"))
        if self._spread is not None:
            fields.append(("hash", "<u8"))
        described = np.dtype(fields)
        if self._row is None:
            self._row = described
        return self._row


def _whole_people(sorted_people: NDArray[Any]) -> Iterator[slice]:
    """Cut sorted people into parts of about `AT_ONCE` rows, each person in one part."""
    ends = np.flatnonzero(sorted_people[1:] != sorted_people[:-1]) + 1
    ends = np.append(ends, len(sorted_people)) if len(sorted_people) else ends
    start = 0
    while start < len(sorted_people):
        first = int(np.searchsorted(ends, start, "right"))
        # The last person that still fits; at least one.
        last = max(first, int(np.searchsorted(ends, start + AT_ONCE, "right")) - 1)
        end = int(ends[last])
        yield slice(start, end)
        start = end


@dataclass(frozen=True, slots=True, repr=False)
class _Bucket:
    """One bucket, of records that were checked before."""

    buckets: Buckets
    number: int

    def read(self) -> Iterator[RecordArrays]:
        for found in self.buckets.load(self.number):
            yield RecordArrays(found.rows, found.targets, found.people)

    def portable(self) -> Piece:
        return ArrayPiece(tuple(self.read()))


@dataclass(frozen=True, slots=True, repr=False)
class StoredShards(Shards, Secret):
    """The teachers' records in buckets, of which one at a time is in memory. Secret.

    `view` makes of raw rows what teachers see (`columns` numbers), each row by itself.
    """

    buckets: Buckets
    view: Callable[[NDArray[Any]], NDArray[Any]]
    columns: int
    _held: dict[int, tuple[NDArray[Any], ...]] = field(default_factory=dict)

    def records(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a teacher's records and classes, without rows of non-finite features. Secret."""
        bucket = number // self.buckets.teachers_in_one
        if bucket not in self._held:
            self._held.clear()  # before the next is read: one at a time
            self._held[bucket] = self._read(bucket)
        X, y, teachers = self._held[bucket]
        own = slice(*np.searchsorted(teachers, [number, number + 1]))
        return own_floats(X=X[own]), y[own]

    def _read(self, bucket: int) -> tuple[NDArray[Any], ...]:
        packed = self.buckets.packed(bucket)
        if not len(packed):
            return np.empty((0, self.columns)), np.empty(0, np.int64), np.empty(0, np.int64)
        order = teaching_order(packed["hash"], self.n_teachers, packed["X"], packed["t"])
        y, teachers = packed["t"][order], teachers_of(packed["hash"][order], self.n_teachers)
        X = self.view(packed["X"][order])
        del packed
        placed = finite_rows(X)
        return (X, y, teachers) if placed.all() else (X[placed], y[placed], teachers[placed])
