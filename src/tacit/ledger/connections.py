"""Connections to a ledger's file: closed after each use, except in a burst of appends.

Closing merges the log, so that the file alone is the whole ledger, but costs more than an append. A
process in a burst, or among waiting writers, keeps its connection until a moment passes without
one. No connection crosses a fork: it is closed before.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

Read = TypeVar("Read")
BURST = 8
"""So many appends within `MOMENT` of each other, and the connection is kept."""
MOMENT = 0.25
_LOOK_EVERY = 0.25


class Connections:
    """Lends a connection to one file, to one thread at a time."""

    __slots__ = ("__weakref__", "_file", "_kept", "_last", "_path", "_run", "lock")

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        self._path = path
        self._kept: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._last = 0.0
        self._run = 0
        with _all_of_them:
            _everywhere.add(self)

    @contextlib.contextmanager
    def lent(
        self, opened: Callable[[], sqlite3.Connection], *, crowded: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """Lend the cached connection, or one from `opened`; cache it in a burst or if `crowded`."""
        with self.lock:
            database = self._take() or opened()
            try:
                yield database
            except BaseException:
                # Whatever happened to it: the next one begins with a connection of its own.
                database.close()
                raise
            self._give_back(database, crowded)
        # Outside of the lock: whoever holds all of them, before a fork, must not wait for us.
        if self._kept is not None and not _see_to_it():
            with self.lock:
                self.close_kept()

    def read(self, read: Callable[[sqlite3.Connection], Read]) -> Read | None:
        """Read through the cached connection; None where it is missing or another thread has it."""
        if self._kept is None or not self.lock.acquire(blocking=False):
            return None
        try:
            if (database := self._take()) is None:
                return None
            try:
                database.execute("BEGIN")
                found = read(database)
                database.execute("COMMIT")
            except BaseException:
                database.close()
                raise
            self._kept = database  # for no longer than the last append asked for
            return found
        finally:
            self.lock.release()

    def _take(self) -> sqlite3.Connection | None:
        """Return the cached connection, unless the file was replaced."""
        kept, self._kept = self._kept, None
        if kept is not None and self._file != _identity(self._path):
            kept.close()
            return None
        return kept

    def _give_back(self, database: sqlite3.Connection, crowded: bool) -> None:
        now = time.monotonic()
        self._run = self._run + 1 if now - self._last < MOMENT else 1
        self._last = now
        if self._run < BURST and not crowded:
            database.close()
        else:
            self._kept, self._file = database, _identity(self._path)

    def close_kept(self) -> None:
        """Close the cached connection, if any; the caller holds the lock."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def close_if_idle(self) -> bool:
        """Close what was not used for a moment; return whether nothing is cached."""
        if not self.lock.acquire(blocking=False):
            return False  # in use
        try:
            if time.monotonic() - self._last >= MOMENT:
                self.close_kept()
            return self._kept is None
        finally:
            self.lock.release()

    def __del__(self) -> None:
        self.close_kept()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_everywhere: weakref.WeakSet[Connections] = weakref.WeakSet()
_all_of_them = threading.RLock()
_watcher: list[threading.Thread] = []


def _see_to_it() -> bool:
    """Start a thread that closes the cached connection after its burst; return whether one runs."""
    with _all_of_them:
        if not _watcher:
            thread = threading.Thread(target=_close_idle, name="tacit-ledger", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads here: what was paid for must not fail for that
                return False
            _watcher.append(thread)
    return True


def _close_idle() -> None:
    while True:
        time.sleep(_LOOK_EVERY)
        with _all_of_them:
            idle = [connections.close_if_idle() for connections in tuple(_everywhere)]
            if all(idle):
                _watcher.clear()
                return


def _before_fork() -> None:
    _all_of_them.acquire()
    for connections in tuple(_everywhere):
        connections.lock.acquire()
        connections.close_kept()


def _after_fork() -> None:
    for connections in tuple(_everywhere):
        with contextlib.suppress(RuntimeError):  # made by nobody else meanwhile, but collected
            connections.lock.release()
    _all_of_them.release()


def _after_fork_in_child() -> None:
    _watcher.clear()  # threads do not cross a fork
    _after_fork()


def _close_all() -> None:
    with _all_of_them:
        for connections in tuple(_everywhere):
            with connections.lock:
                connections.close_kept()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
