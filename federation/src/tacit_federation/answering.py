"""Teachers of one site: each a process with its own limits, and answers that never fail.

One patient moves one teacher only if nothing else couples them: no clock, no memory, no visible
failure (docs/theory/federation.md#what-one-patient-moves). So each has public limits of its own;
one without records, that fails, or that exceeds a limit answers class 0 everywhere. Nothing here
raises because of what is in a record.
"""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._cells import ids_of, numbers_of
from tacit._checks import Floats, Integers, finite_rows
from tacit.errors import InvalidArgument
from tacit.mechanisms import count_votes
from tacit.records import Labels, read_rows, read_stack
from tacit.teachers import record_ids, shard_of

WALL_PER_CPU, WALL_EXTRA = 2, 5
"""A teacher that waits instead of working is stopped after so many times its seconds, and some."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Public limits of one teacher, the same for all: processor seconds, and memory."""

    seconds: int
    megabytes: int

    @property
    def wall_seconds(self) -> int:
        """Latest end of a teacher, by the clock of its own process."""
        return WALL_PER_CPU * self.seconds + WALL_EXTRA


def ask_teachers(
    teacher: Any,
    records: tuple[ArrayLike, ArrayLike, ArrayLike | None],
    inputs: NDArray[Any],
    *,
    n_teachers: int,
    n_classes: int,
    key: bytes,
    limits: Limits,
) -> Integers:
    """Return each teacher's class for each input: (teachers, queries). Secret.

    `records` are private X, y and groups (None: each row is its own unit), `inputs` the study's,
    `key` the site's secret one of `shard_of`. A teacher that fails answers class 0 everywhere.
    """
    X, y, groups = records
    labels, fits = Labels(tuple(range(n_classes))).read(y)
    rows = _sharded(_inputs_of(X, inputs.shape[1:]), labels, fits, groups, n_teachers, key)

    def ask(X: Any, y: Any) -> NDArray[Any] | None:
        return _one_teacher((teacher, X, y, np.asarray(inputs), n_classes), limits)

    def proper(said: Any) -> bool:
        return is_answer(said, len(inputs), n_classes)

    _rehearse(ask(inputs, np.arange(len(inputs)) % n_classes), proper, limits)
    return _filled(np.zeros((n_teachers, len(inputs)), dtype=np.int64), rows, ask, proper)


def _filled(
    answers: NDArray[Any],
    rows: tuple[NDArray[Any], NDArray[Any], Integers],
    ask: Callable[[Any, Any], NDArray[Any] | None],
    proper: Callable[[Any], bool],
) -> NDArray[Any]:
    """Query each teacher, trained on its own rows; an invalid answer stays blank. Secret."""
    X, y, shards = rows
    for number in range(len(answers)):
        own = shards == number
        said = ask(X[own], y[own])
        if proper(said):
            answers[number] = said
    return answers


def _inputs_of(X: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return records of the shape of the study's inputs, NaN where unreadable. Secret."""
    return read_rows(X, *shape).values if len(shape) == 1 else read_stack(X, shape, name="X")


def _sharded(
    X: NDArray[Any],
    y: NDArray[Any],
    fits: NDArray[np.bool_],
    groups: Any,
    n_teachers: int,
    key: bytes,
) -> tuple[NDArray[Any], NDArray[Any], Integers]:
    """Return the records that can be read, their targets, and each one's teacher. Secret."""
    if len(y) != len(X) or (groups is not None and len(groups) != len(X)):
        raise InvalidArgument("Expected X, y and groups with one row for each record.")
    flat = X.reshape(len(X), math.prod(X.shape[1:]))
    people: Any = record_ids(flat).tolist() if groups is None else ids_of(groups)
    known = np.array([person is not None for person in people], dtype=np.bool_)
    own = np.flatnonzero(finite_rows(flat) & fits & known)
    return X[own], y[own], shard_of([people[at] for at in own], n_teachers, key)


def ask_for_codes(
    teacher: Any,
    records: tuple[ArrayLike, ArrayLike, ArrayLike | None],
    inputs: NDArray[Any],
    *,
    encode: Any,
    n_teachers: int,
    length: int,
    key: bytes,
    limits: Limits,
) -> Floats:
    """Return the codes of each teacher's masks: (teachers, queries, length). Secret.

    `records` are private scans, masks and groups, `encode` is the public codec, `key` the site's
    secret one of `shard_of`. A teacher that fails has NaN, which is read as the centre.
    """
    from tacit.masks import are_classes  # with PyTorch, which other studies do without

    X, y, groups = records
    coded, size = encode.codec.shape, encode.n_classes
    masks = read_stack(y, coded if size == 2 else coded[1:], name="y")
    fits, scans = are_classes(masks, size), read_stack(X, inputs.shape[1:], name="X")
    with np.errstate(invalid="ignore"):  # what is no class is left out, without a warning
        classes = masks.astype(np.int64)
    rows = _sharded(scans, classes, fits, groups, n_teachers, key)
    made_up, shape = (inputs > np.median(inputs)).astype(np.int64), (len(inputs), length)
    if masks.ndim < inputs.ndim:  # scans with channels in front
        made_up = made_up[:, 0]

    def ask(X: Any, y: Any) -> NDArray[Any] | None:
        job = (teacher, X, y, np.asarray(inputs), encode.n_classes, encode)
        return _one_teacher(job, limits) if len(X) else None

    def proper(said: Any) -> bool:
        return isinstance(said, np.ndarray) and said.shape == shape and said.dtype == "f8"

    _rehearse(ask(inputs, made_up), proper, limits)
    return _filled(np.full((n_teachers, *shape), np.nan), rows, ask, proper)


def codes_of_answers(answers: Any, shape: tuple[int, int, int]) -> Floats:
    """Return given codes (teachers, queries, length), NaN of a teacher without any. Secret."""
    return np.stack([numbers_in(own, shape[1:]) for own in each_teacher(answers, shape)])


def each_teacher(answers: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return each teacher's entry; their number, and an array's shape, are public."""
    fits = isinstance(answers, list | tuple | np.ndarray) and len(answers) == shape[0]
    if not fits or (getattr(answers, "ndim", 1) > 1 and answers.shape != shape):
        raise InvalidArgument(
            f"Expected answers to be numbers of shape {shape}, one row for each teacher."
        )
    return list(answers)


def numbers_in(entry: Any, shape: tuple[int, ...]) -> Floats:
    """Return one teacher's numbers, NaN where there is none or the shape differs."""
    with suppress(Exception):  # ragged, or of somebody's own kind: of this teacher alone
        array = np.asarray(entry)
        if array.shape == shape:
            return numbers_of(array.reshape(-1))[0].reshape(shape)
    return np.full(shape, np.nan)


def _rehearse(said: Any, proper: Callable[[Any], bool], limits: Limits) -> None:
    """Refuse a teacher that could not learn the public inputs with made-up labels.

    Otherwise one that does not fit the inputs or the limits would silently answer class 0.
    """
    if not proper(said):
        raise InvalidArgument(
            f"Expected a teacher that learns the public inputs in a process of its own within "
            f"{limits.seconds} processor seconds and {limits.megabytes} megabytes; a rehearsal "
            "with made-up labels failed. No record was used."
        )


def is_answer(said: Any, queries: int, classes: int) -> bool:
    """Whether one teacher's row is one class for each query."""
    proper = isinstance(said, np.ndarray) and said.shape == (queries,) and said.dtype.kind in "iu"
    return proper and bool((said >= 0).all() and (said < classes).all())


def counts_of_answers(answers: Any, *, teachers: int, queries: int, classes: int) -> Integers:
    """Return counts (queries, classes); a teacher with an invalid row answers class 0. Secret."""
    votes = np.zeros((teachers, queries), dtype=np.int64)
    for number, own in enumerate(each_teacher(answers, votes.shape)):
        row = numbers_in(own, (queries,))
        if ((row >= 0) & (row < classes) & (row == np.floor(row))).all():
            votes[number] = row
    return count_votes(votes, classes)


def _one_teacher(job: tuple[Any, ...], limits: Limits) -> NDArray[Any] | None:
    """Train and answer in a process; None for any failure. Secret."""
    import cloudpickle

    environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
    # What can be imported here can be imported there: a teacher may be of the site's own module.
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    # As a file, not as a module: a teacher needs nothing of this package.
    command = [sys.executable, "-P", os.fspath(Path(__file__).with_name("one_teacher.py"))]
    command += [str(limits.seconds), str(limits.megabytes)]
    with suppress(Exception):  # whatever it is, records may have caused it
        told = _run(command, cloudpickle.dumps(job, protocol=5), environment, limits)
        return np.asarray(np.load(io.BytesIO(told), allow_pickle=False))
    return None


def _run(command: list[str], job: bytes, environment: dict[str, str], limits: Limits) -> bytes:
    """Return a process's output; its children end with it, or they would slow the next teacher."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(job, timeout=limits.wall_seconds)[0]
        finally:
            with suppress(OSError):  # nobody is left
                os.killpg(process.pid, signal.SIGKILL)


_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
