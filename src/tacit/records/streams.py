"""Private records that do not fit into memory: read in pieces, as often as they are asked.

Nothing here is approximate. What a record says depends on that record and on public things alone,
and sums are whole steps of a public grid: pieces of any size, in any order, on any machine, add up
to the same bits as all records at once. A person's records must meet before anything is bounded, so
where there are people every row first goes to the bucket that a keyed hash of its person names.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers, blocks
from tacit._quiet import Secret
from tacit.errors import InvalidArgument, RecordsUnread
from tacit.mechanisms import ExactlySummed, ExactSum
from tacit.records.inputs import Overlap, count_units, units_of
from tacit.records.spaces import Look, PrivateRecords, PublicSpace, Say
from tacit.teachers import Answer, Task, attempt, choose_executor, on_one_thread

AT_ONCE = 2**14
"""Rows that are looked at together, where rows come from a disk."""
BUCKETS = 128
"""Files among which people are spread; one of them at a time is in memory."""
_NAME = 32  # bytes of a person's name, as `units_of` gives it
_NO_ROWS = "Expected at least one record."


class RawRows(NamedTuple):
    """Some rows as a source has them: inputs, labels or numbers, and whose they are. Secret."""

    X: NDArray[Any]
    y: NDArray[Any] | None
    groups: NDArray[Any] | None


class Piece(Protocol):
    """A part of a source: it can be read any number of times, and always says the same."""

    def read(self) -> Iterator[RawRows]:
        """Go through its rows, block by block. Secret."""

    def portable(self) -> Piece:
        """Return it as it may be sent to another process."""


Prepare = Callable[[RawRows], PrivateRecords]
"""Checks raw rows and makes records of them, as one process or another does it."""


@dataclass(frozen=True, slots=True, repr=False)
class ArrayPiece:
    """Rows that are in memory."""

    rows: tuple[RawRows, ...]

    def read(self) -> Iterator[RawRows]:
        """Go through them."""
        yield from self.rows

    def portable(self) -> Piece:
        """Return itself."""
        return self


class Buckets(Secret):
    """Rows on disk, in files without a name that nobody else can open, and that end with us.

    A file is unlinked as soon as it is open (mode 0600 before that), so that whatever ends this
    process, `kill -9` included, frees it. Rows of one person are in one bucket, which a keyed hash
    names; the key is drawn here and kept nowhere.
    """

    def __init__(self) -> None:
        self._files = [tempfile.TemporaryFile(buffering=0) for _ in range(BUCKETS)]  # noqa: SIM115
        self._key = secrets.token_bytes(32)
        self._row: np.dtype[Any] | None = None
        self._turn = 0

    def add(self, records: PrivateRecords) -> None:
        """Put records where their people are; where each is its own unit, anywhere."""
        row = self._described(records)
        packed = np.zeros(len(records.rows), dtype=row)
        packed["X"], packed["t"] = records.rows, records.targets
        if records.people is None:
            self._turn = (self._turn + 1) % len(self._files)
            self._write(self._turn, packed)
            return
        packed["who"] = records.people
        place = self._places(records.people)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(self._files) + 1))
        for bucket, (start, end) in enumerate(itertools.pairwise(ends)):
            if start < end:
                self._write(bucket, packed[order[start:end]])

    def pieces(self) -> list[Piece]:
        """Return a piece for each bucket."""
        return [_Bucket(self, number) for number in range(len(self._files))]

    def load(self, number: int) -> Iterator[PrivateRecords]:
        """Go through the records of a bucket, some at a time, each with all that are its person's.

        Parameters
        ----------
        number : int
            Of the bucket, from 0 on.

        Yields
        ------
        PrivateRecords
            At most about `AT_ONCE` of them, unless one person has more.
        """
        if self._row is None:
            return
        self._files[number].seek(0)
        packed = np.fromfile(self._files[number], dtype=self._row)
        if "who" not in (self._row.names or ()):
            for some in blocks(len(packed), AT_ONCE):
                yield PrivateRecords(packed["X"][some], packed["t"][some], None)
            return
        order = np.argsort(packed["who"], kind="stable")
        for some in _whole_people(packed["who"][order]):
            own = packed[order[some]]
            yield PrivateRecords(own["X"], own["t"], own["who"])

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
        described = np.dtype(fields)
        if self._row is None:
            self._row = described
        return self._row


def _whole_people(sorted_people: NDArray[Any]) -> Iterator[slice]:
    """Cut sorted people into parts of about `AT_ONCE` rows, none of whom is in two."""
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
    """One bucket; what it holds was checked when it was put there."""

    buckets: Buckets
    number: int

    def read(self) -> Iterator[RawRows]:
        for found in self.buckets.load(self.number):
            yield RawRows(found.rows, found.targets, found.people)

    def portable(self) -> Piece:
        return ArrayPiece(tuple(self.read()))


def as_it_is(raw: RawRows) -> PrivateRecords:
    """Take rows that were checked before they were stored."""
    assert raw.y is not None
    return PrivateRecords(raw.X, raw.y, raw.groups)


@dataclass(frozen=True, slots=True, repr=False)
class StreamedRecords(Secret):
    """Private records in pieces, none of which shares a unit with another. Secret.

    Parameters
    ----------
    pieces : callable
        Returns the pieces; called for each pass over the records.
    prepare : callable
        Makes records of raw rows.
    n_units : int
        How many units there are. Secret.
    by_person : bool
        Whether the unit is a person.
    executor : str or client
        Where the pieces are added up; as for teachers.
    space, look
        How rows are seen, as in `PrivateRecords.seen_in`; None: as they are.
    """

    pieces: Callable[[], Sequence[Piece]]
    prepare: Prepare
    n_units: int
    by_person: bool
    executor: Any = "serial"
    space: PublicSpace | None = None
    look: Look | None = field(default=None)

    def seen_in(self, space: PublicSpace, look: Look) -> StreamedRecords:
        """Return them as `look` will see each row in the space; nothing is read yet.

        Parameters
        ----------
        space : PublicSpace
            Where the rows are looked at.
        look : callable
            Makes an array with a row for each of some centred features.

        Returns
        -------
        StreamedRecords
            The same pieces.
        """
        return replace(self, space=space.sent(), look=look)

    def said(self, mechanism: Any, say: Say) -> ExactSum:
        """Return what all records add up to: one pass over them.

        Parameters
        ----------
        mechanism : ExactlySummed
            Which adds.
        say : callable
            Makes what some records say, of these records and public things alone.

        Returns
        -------
        ExactSum
            The same bits for any pieces, order or executor. Secret.
        """
        work = _Adding(self.space, self.look, mechanism, say)
        total = ExactSum(np.zeros(mechanism.shape, dtype=np.int64), 0)
        for packed in self.parts(work):
            total = total + _unpacked(packed, mechanism.shape)
        return total

    def parts(self, work: Work) -> Iterator[Any]:
        """Yield what a pure function makes of the records of each piece: one pass over them.

        Parameters
        ----------
        work : callable
            Goes through the records of a piece, block by block, as often as it is called; it and
            what it returns can be sent to other processes.

        Yields
        ------
        any
            For each piece once, in any order. Secret.
        """
        serial = isinstance(self.executor, str) and self.executor == "serial"
        tasks = (
            Task((number,), (piece if serial else piece.portable(),))  # type: ignore[arg-type]
            for number, piece in enumerate(self.pieces())
        )
        counted: set[int] = set()
        job = _Job(self.prepare, work)
        for task, answers in choose_executor(self.executor).run(job, tasks):
            (number,), (answer,) = task.numbers, answers
            if answer.failure is not None or answer.predictions is None or number in counted:
                raise RecordsUnread(
                    f"A part of the private records could not be added up ({answer.failure}): it "
                    "was not released, and nothing was paid for it."
                )
            counted.add(number)
            yield answer.predictions


Work = Callable[[Iterator[PrivateRecords]], Any]
"""Makes something of records that come block by block; a pure function of them."""


@dataclass(frozen=True, slots=True, repr=False)
class _Job:
    """What a worker does with a piece: read it, and work on what is read."""

    prepare: Prepare
    work: Work

    def answer(self, shards: Sequence[Any]) -> list[Answer]:
        return [self._one(piece) for piece in shards]

    def fingerprint(self) -> bytes:
        raise NotImplementedError  # what comes of pieces is not kept

    def _one(self, piece: Piece) -> Answer:
        found, failure = attempt(
            lambda: on_one_thread(lambda: self.work(_prepared([piece], self.prepare)))
        )
        return Answer(found, failure)


@dataclass(frozen=True, slots=True, repr=False)
class _Adding:
    """Look, say, add."""

    space: PublicSpace | None
    look: Look | None
    mechanism: ExactlySummed
    say: Say

    def __call__(self, some: Iterator[PrivateRecords]) -> Integers:
        total = ExactSum(np.zeros(self.mechanism.shape, dtype=np.int64), 0)
        for records in some:
            if self.space is not None and self.look is not None:
                records = records.seen_in(self.space, self.look)  # noqa: PLW2901
            total = total + self.mechanism.added(self.say(records))
        return _packed(total)


def _packed(total: ExactSum) -> Integers:
    """Return a sum as one array: a secret type stays where it is, and a worker has to answer."""
    return np.append(total.steps.reshape(-1), total.records)


def _unpacked(packed: Integers, shape: tuple[int, int]) -> ExactSum:
    return ExactSum(packed[:-1].reshape(shape), int(packed[-1]))


def streamed(
    pieces: Callable[[], Sequence[Piece]],
    prepare: Prepare,
    *,
    outside: Floats | None,
    again: bool,
    executor: Any = "serial",
) -> tuple[StreamedRecords, Buckets | None]:
    """Go through all rows once, refuse what must be refused, and return them as they are streamed.

    Parameters
    ----------
    pieces : callable
        Returns the pieces of the source.
    prepare : callable
        Checks raw rows and makes records of them; it raises where a row cannot be read.
    outside : array or None
        Public inputs, none of which may be a private row; None where nobody looks.
    again : bool
        Whether the source can be read again; if not, rows go to files without a name.
    executor : str or client
        Where sums will be computed.

    Returns
    -------
    streamed : StreamedRecords
        Records that were all checked.
    buckets : Buckets or None
        What has to be closed when all is done.
    """
    overlap = None if outside is None else Overlap(outside)
    buckets: Buckets | None = None
    units, seen, by_person = 0, False, False
    try:
        for records in _prepared(pieces(), prepare):
            if overlap is not None:
                overlap.look(records.rows)
            if buckets is None and (records.by_person or not again):
                buckets = Buckets()
            if buckets is not None:
                buckets.add(records)
            units += len(records.rows)
            seen, by_person = True, records.by_person
        if not seen:
            raise InvalidArgument(_NO_ROWS)
        if overlap is not None:
            overlap.refuse()
        if buckets is None:
            return StreamedRecords(pieces, prepare, units, False, executor), None
        if by_person:
            units = sum(_units_in(piece) for piece in buckets.pieces())
        return StreamedRecords(buckets.pieces, as_it_is, units, by_person, executor), buckets
    except BaseException:
        if buckets is not None:
            buckets.close()
        raise


def _prepared(pieces: Iterable[Piece], prepare: Prepare) -> Iterator[PrivateRecords]:
    return (prepare(raw) for piece in pieces for raw in piece.read())


def _units_in(piece: Piece) -> int:
    return sum(count_units(raw.groups, len(raw.X)) for raw in piece.read())


def people_of(raw: RawRows) -> NDArray[np.bytes_] | None:
    """Return whose each raw row is, as `units_of` names them."""
    return units_of(raw.groups, len(raw.X))
