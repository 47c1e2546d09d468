"""Progress bars and a spinner after two seconds, on a terminal only.

One display at a time has the terminal's last line; a spinner shows public words and the time.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar, TextIO

from tacit._quiet import terminal

_PATIENCE = 2.0  # seconds that pass without a bar
_FRAME = 0.2
_FRAMES = "|/-\\"  # for terminals of any encoding


class _Line:
    """The terminal's last line: its owner, and the spinner's words without one."""

    lock: ClassVar[threading.RLock] = threading.RLock()
    owners: ClassVar[int] = 0
    moved: ClassVar[float] = 0.0
    text: ClassVar[str] = "Working"
    drawn_on: ClassVar[TextIO | None] = None


@contextmanager
def spinner() -> Iterator[None]:
    """Show activity until the block ends, wherever nothing has moved for two seconds."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    with terminal() as stream:
        stop = threading.Event()
        thread = threading.Thread(target=_spin, args=(stream, stop), daemon=True)
        moved()
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            moved()


def _spin(stream: TextIO, stop: threading.Event) -> None:
    for frame in itertools.cycle(_FRAMES):
        if stop.wait(_FRAME):
            return
        with _Line.lock:
            waited = time.monotonic() - _Line.moved
            if not _Line.owners and waited > _PATIENCE:
                stream.write(f"\r{frame} {_Line.text}, {waited:.0f} s")
                stream.flush()
                _Line.drawn_on = stream


def moved() -> None:
    """Remove the spinner: something else is shown, or about to be printed."""
    with _Line.lock:
        if _Line.drawn_on is not None:
            _Line.drawn_on.write("\r\x1b[2K")
            _Line.drawn_on.flush()
        _Line.drawn_on, _Line.moved = None, time.monotonic()


@contextmanager
def last_line() -> Iterator[None]:
    """Reserve the terminal's last line for a bar; the spinner waits."""
    with _Line.lock:
        moved()
        _Line.owners += 1
    try:
        yield
    finally:
        with _Line.lock:
            _Line.owners -= 1
            moved()


@contextmanager
def at_work(text: str) -> Iterator[None]:
    """Set the spinner's public words."""
    before, _Line.text = _Line.text, text
    try:
        yield
    finally:
        _Line.text = before


def _new_lock() -> None:
    """Renew the lock after a fork, which its owner did not survive."""
    _Line.lock, _Line.drawn_on = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


@contextmanager
def training_bar(
    description: str, total: int, *, shown: bool = True
) -> Iterator[Callable[[], None]]:
    """Yield a function to be called once a step; the bar goes to standard error, if a terminal.

    >>> with training_bar("Training", total=2) as step:
    ...     step()
    ...     step()
    """
    with ExitStack() as stack:
        watched = shown and sys.stderr.isatty()
        yield _stepper(description, total, stack) if watched else lambda: None


def _stepper(description: str, total: int, stack: ExitStack) -> Callable[[], None]:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(
        console=Console(file=stack.enter_context(terminal())),
        transient=True,
        redirect_stdout=False,  # what others print meanwhile would be shown
        redirect_stderr=False,
    )
    task, start, drawn = bar.add_task(description, total=total), time.monotonic(), False

    def step() -> None:
        nonlocal drawn
        bar.advance(task)
        if not drawn and time.monotonic() - start > _PATIENCE:
            stack.enter_context(last_line())
            stack.enter_context(bar)
            drawn = True

    return step
