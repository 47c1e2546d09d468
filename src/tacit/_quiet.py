"""Work on private rows that tells nobody of them, whatever runs meanwhile and however it speaks."""

from __future__ import annotations

import ctypes
import io
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from typing import Any, TextIO

import numpy as np

_STANDARD = ("stdout", "stderr", "__stdout__", "__stderr__")
_DESCRIPTORS = (1, 2)


class _Process:
    """How many blocks are quiet in this process, and how to end it: the state is everybody's."""

    lock = threading.RLock()
    blocks = 0
    undo = ExitStack()


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
    with np.errstate(all="ignore"), _no_other_process():
        _begin()
        try:
            yield
        finally:
            _end()


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


def _begin() -> None:
    with _Process.lock:
        if not _Process.blocks:
            with ExitStack() as stack:
                for part in (_descriptors, _streams, _logging, _hooks, _warnings):
                    stack.enter_context(part())
                _Process.undo = stack.pop_all()
        _Process.blocks += 1


def _end() -> None:
    with _Process.lock:
        _Process.blocks -= 1
        if not _Process.blocks:
            _Process.undo.close()


@contextmanager
def _descriptors() -> Iterator[None]:
    _flush()  # what was said before is heard
    null = _open_null()
    kept = {number: os.dup(number) for number in _DESCRIPTORS}
    try:
        for number in kept:
            os.dup2(null, number)
        yield
    finally:
        _flush()  # what was said meanwhile is not, however long it was buffered
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(null)


def _open_null() -> int:
    """Open the null device; standard descriptors that are closed become it, and stay so."""
    while (null := os.open(os.devnull, os.O_RDWR)) <= max(_DESCRIPTORS):
        pass
    return null


def _flush() -> None:
    for name in _STANDARD:
        with suppress(AttributeError, OSError, ValueError):  # none, broken, closed
            getattr(sys, name).flush()
    if (library := _c_library()) is not None:
        library.fflush(None)


@cache
def _c_library() -> Any:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # where there is none by that name
        return None


@contextmanager
def _streams() -> Iterator[None]:
    """Replace the streams; who keeps an old one, and it is no file (a notebook's), is not heard."""
    with ExitStack() as stack:
        for name in _STANDARD:
            nowhere = _Nowhere(2 if "err" in name else 1)
            stack.enter_context(_set(getattr(sys, name), "write", len))
            stack.enter_context(_set(sys, name, io.TextIOWrapper(nowhere, "utf-8", "replace")))
        yield


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


@contextmanager
def _logging() -> Iterator[None]:
    """Drop records at both doors: `logging.disable` is undone by whoever calls it again."""
    with _set(logging.Logger, "handle", _nothing), _set(logging.Handler, "handle", _nothing):
        yield


@contextmanager
def _hooks() -> Iterator[None]:
    with _set(sys, "unraisablehook", _nothing), _set(threading, "excepthook", _nothing):
        yield


@contextmanager
def _warnings() -> Iterator[None]:
    with warnings.catch_warnings(record=True):  # into a list that nobody reads
        warnings.simplefilter("ignore")
        yield


def _no_other_process() -> Any:
    """Let joblib work in this thread: its processes may be older than the silence, and speak.

    One order of sums, too, whatever `n_jobs` says.
    """
    joblib: Any = sys.modules.get("joblib")  # nobody has a pool who has not imported it
    return nullcontext() if joblib is None else joblib.parallel_config(backend="sequential")


def _nothing(*_: Any) -> None:
    """Say nothing."""


@contextmanager
def _set(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute where that is possible, and afterwards let it be as it was."""
    own = vars(owner).get(name) if hasattr(owner, "__dict__") else None
    try:
        setattr(owner, name, value)
    except (AttributeError, TypeError):  # no stream at all, or one that cannot be changed
        yield
        return
    try:
        yield
    finally:
        if own is not None:
            setattr(owner, name, own)
        elif name in vars(owner):
            delattr(owner, name)
