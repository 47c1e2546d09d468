"""Private records that do not fit into memory: read in pieces, in repeated passes.

A record's contribution depends on that record and on public values alone, and sums are whole steps
of a public grid: pieces of any size, in any order, on any machine, add up to the same bits. Where
there are people, every row first goes to the bucket of its person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tacit._checks import Floats, Integers
from tacit._quiet import Secret
from tacit.errors import InvalidArgument, RecordsUnread
from tacit.mechanisms import ExactlySummed, ExactSum
from tacit.records.overlap import Overlap
from tacit.records.spaces import Look, PrivateRecords, PublicSpace, Say, count_units
from tacit.records.stored import Buckets, Piece, Spread
from tacit.teachers import Answer, Task, attempt, choose_executor, on_one_thread

_NO_ROWS = "Expected at least one record."

Pieces = Callable[[], Sequence[Piece]]


@dataclass(frozen=True, slots=True, repr=False)
class StreamedRecords(Secret):
    """Private records in pieces, none of which shares a unit with another. Secret.

    Parameters
    ----------
    pieces : callable, returns the pieces, for each pass over the records
    n_units : int, secret
    by_person : bool, whether the unit is a person
    executor : str or client, where the pieces are added up, as for teachers
    space, look
        Transformation of rows, as in `PrivateRecords.seen_in`; None for none.
    stored : Buckets, optional, where the rows are, if they were spread over files
    """

    pieces: Pieces
    n_units: int
    by_person: bool
    executor: Any = "serial"
    space: PublicSpace | None = None
    look: Look | None = field(default=None)
    stored: Buckets | None = None

    def seen_in(self, space: PublicSpace, look: Look) -> StreamedRecords:
        """Return the records with `look` to be applied in a space; nothing is read yet.

        Parameters
        ----------
        space : PublicSpace
        look : callable, as for `PublicSpace.seen`

        Returns
        -------
        StreamedRecords
        """
        return replace(self, space=space.sent(), look=look)

    def said(self, mechanism: Any, say: Say) -> ExactSum:
        """Return the sum of all records' contributions: one pass over them.

        Parameters
        ----------
        mechanism : ExactlySummed
        say : callable
            The contribution of some records, computed from them and public values alone.

        Returns
        -------
        ExactSum
            The same bits for any pieces, order or executor. Secret.
        """
        work = _Adding(self.space, self.look, mechanism, say)
        total = ExactSum(np.zeros(mechanism.shape, dtype=np.int64), 0)
        for packed in self.parts(work):
            total = total + ExactSum(packed[:-1].reshape(mechanism.shape), int(packed[-1]))
        return total

    def parts(self, work: Work) -> Iterator[Any]:
        """Yield the result of a pure function for each piece: one pass over the records.

        Parameters
        ----------
        work : callable
            Goes through the records of a piece, block by block, in any number of passes; it and its
            result are sent between processes.

        Yields
        ------
        any, for each piece once, in any order, secret
        """
        pieces, here = self.pieces(), _is_here(self.executor)
        tasks = (
            Task((number,), (piece if here else piece.portable(),))  # type: ignore[arg-type]
            for number, piece in enumerate(pieces)
        )
        counted: set[int] = set()
        job = _Job(work)
        for task, answers in choose_executor(self.executor).run(job, tasks):
            (number,), (answer,) = task.numbers, answers
            if answer.failure is not None or answer.predictions is None or number in counted:
                raise RecordsUnread(
                    f"A part of the private records could not be added up ({_why(answer)}): this "
                    "sum was neither released nor paid for; what was released before stays paid."
                )
            counted.add(number)
            yield answer.predictions
        if len(counted) < len(pieces):
            raise RecordsUnread(
                "The executor did not answer for every part of the private records: this sum was "
                "neither released nor paid for; what was released before stays paid."
            )


Work = Callable[[Iterator[PrivateRecords]], Any]
"""Makes something of records that come block by block; a pure function of them."""


@dataclass(frozen=True, slots=True, repr=False)
class _Job:
    """Work on a piece in a worker."""

    work: Work

    def answer(self, shards: Sequence[Any]) -> list[Answer]:
        return [self._one(piece) for piece in shards]

    def fingerprint(self) -> bytes:
        raise NotImplementedError  # what comes of pieces is not kept

    def _one(self, piece: Piece) -> Answer:
        found, failure = attempt(lambda: on_one_thread(lambda: self.work(_records_of([piece]))))
        return Answer(found, failure)


@dataclass(frozen=True, slots=True, repr=False)
class _Adding:
    """Transform rows, compute contributions, add them."""

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
        # As one array: a secret type stays where it is, and a worker has to answer.
        return np.append(total.steps.reshape(-1), total.records)


def _why(answer: Answer) -> str | None:
    if answer.failure != RecordsUnread.__name__:
        return answer.failure
    return "its file must stay as it is, with one size and time wherever it is read, and has not"


def _is_here(executor: Any) -> bool:
    return isinstance(executor, str) and executor == "serial"


@dataclass(frozen=True, slots=True, repr=False)
class _Checking:
    """Check rows, count them, and look for public ones."""

    outside: Floats | None

    def __call__(self, some: Iterator[PrivateRecords]) -> Integers:
        overlap = None if self.outside is None else Overlap(self.outside)
        rows = 0
        for records in some:
            rows += len(records.rows)
            if overlap is not None:
                overlap.look(records.rows)
        # As one array, for a worker has to answer.
        return np.array([rows, overlap is not None and overlap.found], dtype=np.int64)


def _checked_there(
    checking: Pieces, pieces: Pieces, outside: Floats | None, executor: Any
) -> StreamedRecords | None:
    """Check all rows where they will be added up, and return them as they are streamed.

    None where people have to be grouped first, or a part failed: this process then finds the error.
    """
    first = next(_records_of(checking()), None)
    if first is None or first.by_person:
        return None
    overlap, rows = None if outside is None else Overlap(outside), 0
    try:
        for seen in StreamedRecords(checking, 0, False, executor).parts(_Checking(outside)):
            rows += int(seen[0])
            if overlap is not None:
                overlap.join(bool(seen[1]))
    except RecordsUnread:
        return None
    if overlap is not None:
        overlap.refuse()
    return StreamedRecords(pieces, rows, False, executor)


def streamed(
    pieces: Callable[[bool], Sequence[Piece]],
    *,
    outside: Floats | None,
    again: bool,
    executor: Any = "serial",
    spread: Spread | None = None,
) -> tuple[StreamedRecords, Buckets | None]:
    """Go through all rows once, refuse what must be refused, and return them as they are streamed.

    Parameters
    ----------
    pieces : callable
        Returns the pieces. Given False they refuse a record that cannot be read, as the first pass
        must, before there is a ledger; given True they leave it out, silently.
    outside : array or None
        Public inputs, none of which may be a private row; None skips that check.
    again : bool
        Whether the source can be read again; if not, rows go to unnamed files.
    executor : str or client, where sums will be computed
    spread : Spread, optional, assignment to teachers; rows then go to files, too

    Returns
    -------
    streamed : StreamedRecords, all checked
    buckets : Buckets or None, to be closed at the end
    """
    checking, later = partial(pieces, False), partial(pieces, True)
    if again and spread is None and not _is_here(executor):
        there = _checked_there(checking, later, outside, executor)
        if there is not None:
            return there, None
    overlap = None if outside is None else Overlap(outside)
    buckets: Buckets | None = None
    units, seen, by_person = 0, False, False
    try:
        for records in _records_of(checking()):
            if overlap is not None:
                overlap.look(records.rows)
            if buckets is None and (records.by_person or spread is not None or not again):
                buckets = Buckets(spread)
            if buckets is not None:
                buckets.add(records)
            units += len(records.rows)
            seen, by_person = True, records.by_person
        if not seen:
            raise InvalidArgument(_NO_ROWS)
        if overlap is not None:
            overlap.refuse()
        if buckets is None:
            return StreamedRecords(later, units, False, executor), None
        if by_person:
            stored = _records_of(buckets.pieces())
            units = sum(count_units(some.people, len(some.rows)) for some in stored)
        how = {"executor": executor, "stored": buckets}
        return StreamedRecords(buckets.pieces, units, by_person, **how), buckets
    except BaseException:
        if buckets is not None:
            buckets.close()
        raise


def _records_of(pieces: Iterable[Piece]) -> Iterator[PrivateRecords]:
    return (PrivateRecords(*block) for piece in pieces for block in piece.read())
