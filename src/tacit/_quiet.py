"""Silence for foreign code on private rows: by thread, or in a whole worker process.

A silent thread, and the threads that it starts, print, log and warn nothing; others do as before.
The ways out (streams, logging, warnings, hooks, new processes) are guarded once: a guard looks at
the calling thread. Only a worker process that runs nothing else gives up its descriptors.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial, wraps
from typing import Any, NoReturn, TextIO

_STANDARD = ("stdout", "stderr", "__stdout__", "__stderr__")
_DESCRIPTORS = (1, 2)


class _OfThread(threading.local):
    depth = 0


class _OfProcess:
    """Number of blocks that silence the whole process, and its descriptors before."""

    lock = threading.Lock()
    blocks = 0
    copies: tuple[int, ...] = ()


_mine = _OfThread()


def _silent() -> bool:
    return _mine.depth > 0 or _OfProcess.blocks > 0


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what this thread, and every thread that it starts in here, prints, logs or warns of.

    joblib starts no other process. C code that writes to a descriptor by itself is not silenced: it
    needs a worker (`quiet_process`).

    >>> with quiet():
    ...     print("a cell is 4711")
    ...     warnings.warn("a cell is odd", stacklevel=1)
    """
    import numpy as np  # a command that only shows something does without

    _guard_all()
    before = _mine.depth
    with np.errstate(all="ignore"), _no_other_process():
        try:
            try:
                _mine.depth = before + 1
                yield
            finally:
                _mine.depth = before
        finally:  # again: an interrupt may have come just before
            _mine.depth = before


@contextmanager
def quiet_process() -> Iterator[None]:
    """Silence all threads of a worker process, and its descriptors, for C code and children."""
    with _OfProcess.lock:
        if not _OfProcess.blocks:
            _flush()  # what was said before is heard
            while (null := os.open(os.devnull, os.O_RDWR)) <= max(_DESCRIPTORS):
                pass  # a standard descriptor that was closed
            _OfProcess.copies = tuple(map(os.dup, _DESCRIPTORS))
            for number in _DESCRIPTORS:
                os.dup2(null, number)
            os.close(null)
        _OfProcess.blocks += 1
    try:
        with quiet():
            yield
    finally:
        with _OfProcess.lock:
            _OfProcess.blocks -= 1
            if not _OfProcess.blocks:
                _flush()  # what C code said meanwhile is not, however long it was buffered
                for number, copy in zip(_DESCRIPTORS, _OfProcess.copies, strict=True):
                    os.dup2(copy, number)
                    os.close(copy)


def kind_of(error: BaseException) -> str:
    """Return all that may be disclosed of an error on private rows: its type.

    An exit is an error like any other: its text would be printed. An interrupt goes on, bare.
    """
    if isinstance(error, KeyboardInterrupt):
        raise KeyboardInterrupt from None
    return type(error).__name__


@contextmanager
def terminal() -> Iterator[TextIO]:
    """Yield standard error for tacit's own bars of public values, also in a quiet block.

    Rich must not redirect others' prints to such a bar, or they would be shown.
    """
    stream = sys.stderr
    try:
        copy = os.dup(stream.fileno())
    except (AttributeError, OSError, ValueError):
        yield stream  # no file: where a test or a notebook collects
        return
    with open(copy, "w", encoding=stream.encoding, errors="replace") as own:
        yield own


def _guard_all() -> None:
    """Add missing guards: streams and hooks may have been replaced since."""
    for name in _STANDARD:
        if getattr(sys, name) is not None:
            _guard_stream(name)
    for owner, name in (
        (logging.Logger, "handle"),
        (logging.Handler, "handle"),  # and here: handlers can be called by themselves
        (sys, "unraisablehook"),
        (threading, "excepthook"),
        (warnings, "_showwarnmsg"),
    ):
        _guard(owner, name, _nothing)
    _guard(threading.Thread, "start", _start_silent)
    _guard_submit()
    _guard(Future, "add_done_callback", _call_back_silent)
    _guard(subprocess.Popen, "_get_handles", _handles_to_nowhere)
    if warnings.filters[:1] != [_UNHEARD]:  # others may have put theirs before it
        with suppress(ValueError):
            warnings.filters.remove(_UNHEARD)  # type: ignore[attr-defined]
        warnings.filters.insert(0, _UNHEARD)  # type: ignore[attr-defined]


def _guard_stream(name: str) -> None:
    stream = getattr(sys, name)
    bytes_of = getattr(stream, "buffer", None)
    for layer in (stream, bytes_of, getattr(bytes_of, "raw", None)):
        _guard(layer, "write", len)
        _guard(layer, "flush", _nothing)
    if not hasattr(stream.write, "guarded"):
        setattr(sys, name, _Changeable(stream))
        _guard_stream(name)


class _Changeable:
    """A wrapper of a stream whose attributes cannot be set."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _guard(owner: Any, name: str, instead: Callable[..., Any]) -> None:
    """Make a silent thread call `instead`, which may call the original."""
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "guarded"):
        return
    if hasattr(instead, "wants_original"):
        instead = partial(instead, original)

    @wraps(original)
    def guard(*args: Any, **more: Any) -> Any:
        return (instead if _silent() else original)(*args, **more)

    guard.guarded = True  # type: ignore[attr-defined]
    with suppress(AttributeError, TypeError):  # a stream that cannot be changed
        setattr(owner, name, guard)


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _with_original(instead: Callable[..., Any]) -> Callable[..., Any]:
    instead.wants_original = True  # type: ignore[attr-defined]
    return instead


@_with_original
def _start_silent(start: Callable[..., None], thread: threading.Thread) -> None:
    """Start a thread that is silent until it ends, also if it fails."""
    run = thread.run

    def silently() -> None:
        del thread.run
        _mine.depth = 1
        run()

    thread.run = silently  # type: ignore[method-assign]
    start(thread)


def _guard_submit() -> None:
    """Do a pool's work as silently as the thread that submits it, however its own threads began.

    A thread that private work began stays silent for the rest: for callbacks and finalisers.
    """
    submit: Any = ThreadPoolExecutor.submit
    if hasattr(submit, "guarded"):
        return

    @wraps(submit)
    def guard(pool: Any, work: Any, /, *args: Any, **more: Any) -> Any:
        silent = _silent()

        def alike() -> Any:
            with quiet() if silent else _heard():
                return work(*args, **more)

        return submit(pool, alike)

    guard.guarded = True  # type: ignore[attr-defined]
    ThreadPoolExecutor.submit = guard  # type: ignore[method-assign]


@contextmanager
def _heard() -> Iterator[None]:
    """Let a thread be heard for a while that was begun in silence."""
    depth, _mine.depth = getattr(_mine, "depth", 0), 0
    try:
        yield
    finally:
        _mine.depth = depth


@_with_original
def _call_back_silent(add: Callable[..., None], future: Any, work: Any) -> None:
    """Call back in silence, whatever thread does it; the pool would log what that raises."""

    def silently(done: Any) -> None:
        with quiet(), suppress(Exception):
            work(done)

    add(future, silently)


@_with_original
def _handles_to_nowhere(
    handles: Callable[..., Any], process: Any, stdin: Any, stdout: Any, stderr: Any
) -> Any:
    """Give a new process no standard descriptor of this one."""
    own = [subprocess.DEVNULL if _is_standard(each) else each for each in (stdout, stderr)]
    return handles(process, stdin, *own)


def _is_standard(target: Any) -> bool:
    if target is None:
        return True
    return (target if isinstance(target, int) else target.fileno()) in _DESCRIPTORS


class _InSilence:
    """A pattern for warning filters that matches any warning of a silent thread."""

    pattern = "(?!)"  # scikit-learn makes filters anew from their patterns: this one never matches

    def match(self, _: str) -> bool:
        return _silent()

    def __reduce__(self) -> str:
        return "_IN_SILENCE"  # filters travel to joblib's workers


_IN_SILENCE = _InSilence()
_UNHEARD: Any = ("ignore", _IN_SILENCE, Warning, None, 0)


def _no_other_process() -> Any:
    """Run joblib in this thread: its processes may be older than the silence.

    It also fixes the order of sums, whatever `n_jobs` is.
    """
    joblib: Any = sys.modules.get("joblib")  # nobody has a pool who has not imported it
    return nullcontext() if joblib is None else joblib.parallel_config(backend="sequential")


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


class Secret:
    """Base of what holds private records: no repr of them, no copy, no pickle."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private records to stay where they are; save the student.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"
