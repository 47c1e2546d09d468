"""Work on private rows that tells nobody of them, whatever runs meanwhile and however it speaks.

And `Secret`, which whatever holds private rows is.
"""

from __future__ import annotations

import ctypes
import io
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any, ClassVar, NoReturn, TextIO

_STANDARD = ("stdout", "stderr", "__stdout__", "__stderr__")
_DESCRIPTORS = (1, 2)
_ABSENT = object()


class _Process:
    """Which blocks are quiet in this process, and how to end it: the state is everybody's.

    A step is written down before what it undoes is done, and may be taken twice: wherever the
    handler of a signal raises (Ctrl-C), ending a block once more leaves everything as it was.
    """

    lock = threading.RLock()
    blocks: ClassVar[set[object]] = set()
    undo: ClassVar[list[Callable[[], Any]]] = []
    copies: ClassVar[list[int]] = []


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing that runs in this block reach a terminal or a log; blocks may lie in each other.

    Standard output and error are the null device, for C code and new processes too; nobody's
    logging, warnings and unraisable errors are shown; joblib starts and asks no other process.
    All this is the whole process's, so that its other threads are silent meanwhile as well.

    >>> with quiet():
    ...     print("a cell is 4711")
    ...     warnings.warn("a cell is odd", stacklevel=1)
    """
    import numpy as np  # a command that only shows something does without

    block = object()
    with np.errstate(all="ignore"), _no_other_process():
        try:
            try:
                _begin(block)
                yield
            finally:
                _end(block)
        finally:  # again: had an interrupt cut the first end short, the terminal would stay mute
            _end(block)


def kind_of(error: BaseException) -> str:
    """Return all that may be told of an error on private rows: its type.

    An exit is an error like any other: its text would be printed. An interrupt goes on, bare.
    """
    if isinstance(error, KeyboardInterrupt):
        raise KeyboardInterrupt from None
    return type(error).__name__


@contextmanager
def terminal() -> Iterator[TextIO]:
    """Yield standard error, also for use in a quiet block: for tacit's own bars of public things.

    Rich must not redirect what others print to such a bar, or it would be shown there.
    """
    stream = sys.stderr
    try:
        copy = os.dup(stream.fileno())
    except (AttributeError, OSError, ValueError):
        yield stream  # no file: where a test or a notebook collects
        return
    with open(copy, "w", encoding=stream.encoding, errors="replace") as own:
        yield own


def _begin(block: object) -> None:
    with _Process.lock:
        if not _Process.blocks:
            for silence in (_descriptors, _streams, _hooks, _warnings):
                silence()
        _Process.blocks.add(block)


def _end(block: object) -> None:
    with _Process.lock:
        _Process.blocks.discard(block)
        if _Process.blocks:
            return
        for step in reversed(_Process.undo):
            with suppress(Exception):  # it was taken already, or what it undoes was never done
                step()
        _Process.undo.clear()
        while _Process.copies:
            os.close(_Process.copies.pop())


def _descriptors() -> None:
    _flush()  # what was said before is heard
    null = _open_null()
    for number in _DESCRIPTORS:
        _Process.copies.append(copy := os.dup(number))
        _Process.undo.append(partial(os.dup2, copy, number))
        os.dup2(null, number)
    _Process.undo.append(_flush)  # what was said meanwhile is not, however long it was buffered


def _open_null() -> int:
    """Open the null device; standard descriptors that are closed become it, and stay so."""
    while (null := os.open(os.devnull, os.O_RDWR)) <= max(_DESCRIPTORS):
        pass
    _Process.copies.append(null)
    return null


def _flush() -> None:
    for name in _STANDARD:
        with suppress(Exception):  # none, broken, closed
            getattr(sys, name).flush()
    if (library := _c_library()) is not None:
        library.fflush(None)


@cache
def _c_library() -> Any:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # where there is none by that name
        return None


def _streams() -> None:
    """Replace the streams; who keeps an old one, and it is no file (a notebook's), is not heard."""
    for name in _STANDARD:
        nowhere = _Nowhere(2 if "err" in name else 1)
        _set(getattr(sys, name), "write", len)
        _set(sys, name, io.TextIOWrapper(nowhere, "utf-8", "replace"))


class _Nowhere(io.RawIOBase):
    """Where bytes go to be forgotten; the descriptor is for new processes."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes

    def fileno(self) -> int:
        return self._number


def _hooks() -> None:
    """Drop records at both doors: `logging.disable` is undone by whoever calls it again."""
    for owner in (logging.Logger, logging.Handler):
        _set(owner, "handle", _nothing)
    _set(sys, "unraisablehook", _nothing)
    _set(threading, "excepthook", _nothing)


def _warnings() -> None:
    caught = warnings.catch_warnings(record=True)  # into a list that nobody reads
    _Process.undo.append(partial(caught.__exit__, None, None, None))
    caught.__enter__()
    warnings.simplefilter("ignore")


def _no_other_process() -> Any:
    """Let joblib work in this thread: its processes may be older than the silence, and speak.

    One order of sums, too, whatever `n_jobs` says.
    """
    joblib: Any = sys.modules.get("joblib")  # nobody has a pool who has not imported it
    return nullcontext() if joblib is None else joblib.parallel_config(backend="sequential")


def _nothing(*_: Any) -> None:
    """Say nothing."""


def _set(owner: Any, name: str, value: Any) -> None:
    """Set an attribute where that is possible; undone, it is as it was, or is not there."""
    own = vars(owner).get if hasattr(owner, "__dict__") else partial(getattr, owner)
    before = own(name, _ABSENT)
    _Process.undo.append(
        partial(delattr, owner, name)
        if before is _ABSENT
        else partial(setattr, owner, name, before)
    )
    with suppress(AttributeError, TypeError):  # no stream at all, or one that cannot be changed
        setattr(owner, name, value)


class Secret:
    """What holds private records: it shows none of them, and refuses to be copied or pickled."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private records to stay where they are; save the student.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"
