"""The head of a ledger, stored outside its database, and the queue of its writers.

`run.ledger-head` has one line with a check sum: the hash of the header, the number and hash of the
last entry. It is written after the entry, so it may lag but never run ahead; later lines are
verified one by one, and all of them if it is lost. A ledger that was rolled back, cut short or
exchanged is refused at once. It guards against accidents: whoever may write to both files can
deceive both, and only a head stored elsewhere (`verify(head=…)`) shows that
(docs/theory/ledger.md#what-is-checked-when).
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tacit.ledger.chain import digest

if sys.platform != "win32":
    import fcntl

_MARK = "tacit-head/1"
_MOST_BYTES = 512
MOST_SECONDS = 30.0
"""A writer that holds its turn for longer has been stopped; SQLite's lock decides then."""
_PAUSES = (0.0003, 0.0015)
# No program that is started inherits it, no link leads elsewhere, and no pipe of that name holds
# anybody up.
_OURS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))


class Remembered(NamedTuple):
    """The end of a chain: hash of its header, number and hash of its last entry."""

    genesis: str
    sequence: int
    hash: str

    def as_line(self) -> str:
        """Return the line of the file, with its check sum."""
        text = f"{_MARK} {self.genesis} {self.sequence} {self.hash}"
        return f"{text} {digest(text)}\n"

    @classmethod
    def read(cls, line: str) -> Remembered | None:
        """Read the line; None if it is not whole, or was written by another version."""
        words = line.split()
        if len(words) != 5 or not words[2].isdecimal():
            return None
        found = cls(words[1], int(words[2]), words[3])
        return found if found.as_line() == line else None


class HeadFile:
    """The file that remembers a ledger's head, and whose lock is the queue of its writers."""

    __slots__ = ("path",)

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(f"{ledger.name}-head")

    def read(self) -> Remembered | None:
        """Return what is remembered; None if nothing is, or nothing that can be read."""
        try:
            return _read(os.open(self.path, os.O_RDONLY | _OURS), close=True)
        except OSError:
            return None

    @contextlib.contextmanager
    def turn(self, mode: int) -> Iterator[Turn]:
        """Wait until no other writer has its turn; `mode` is the ledger's own permissions.

        For fairness alone: SQLite's lock keeps writers apart, but may starve one for half a minute.
        """
        descriptor = self._opened(mode)
        try:
            waited = descriptor is not None and _wait_for(descriptor)
            yield Turn(descriptor, waited)
        finally:
            if descriptor is not None:
                _end_turn(descriptor)

    def _opened(self, mode: int) -> int | None:
        make = os.O_CREAT if mode else 0  # not beside a ledger that is not there
        for flags in (os.O_RDWR | make, os.O_RDONLY):
            with contextlib.suppress(OSError):  # not ours to write, or not to be made here
                return os.open(self.path, flags | _OURS, mode & 0o666)
        return None


class Turn:
    """A writer's turn: nobody else writes the head while it lasts; `waited` if one was first."""

    __slots__ = ("_descriptor", "waited")

    def __init__(self, descriptor: int | None, waited: bool = False) -> None:
        self._descriptor = descriptor
        self.waited = waited

    def remembered(self) -> Remembered | None:
        """Return the remembered end."""
        if self._descriptor is None:
            return None
        try:
            return _read(self._descriptor)
        except OSError:
            return None

    def remember(self, end: Remembered) -> None:
        """Write the new end over the old one; if that fails, the old one holds."""
        if self._descriptor is not None:
            line = end.as_line().encode()
            with contextlib.suppress(OSError):  # a full disk, or not ours to write
                os.pwrite(self._descriptor, line, 0)
                os.ftruncate(self._descriptor, len(line))


def _wait_for(descriptor: int) -> bool:
    """Wait for the lock; return whether another writer had it."""
    if sys.platform == "win32":  # pragma: no cover - SQLite's lock alone
        return False
    waited, patience = False, time.monotonic() + MOST_SECONDS
    while time.monotonic() < patience:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # At random times, so that nobody is overtaken again and again.
            waited = True
            time.sleep(random.uniform(*_PAUSES))
        except OSError:  # a file system without locks
            break
        else:
            break
    return waited


def _end_turn(descriptor: int) -> None:
    """Unlock and close: a child that another thread forked meanwhile still has it open."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _read(descriptor: int, *, close: bool = False) -> Remembered | None:
    try:
        data = os.pread(descriptor, _MOST_BYTES, 0)
    finally:
        if close:
            os.close(descriptor)
    return Remembered.read(data.decode("ascii", "replace"))
