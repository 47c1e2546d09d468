"""Processes to be killed: forked from one that has imported everything, and started again.

A start costs milliseconds, so that a soak on two cores kills thousands; whatever such a process
knows is on disk, as if it had been started by a command.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping


class Zygote:
    """A process that has imported everything, opened nothing, and forks the others.

    Each of those runs one of `works`, by name, and is a process of its own whose state is on disk
    alone. Only the zygote buries them, so that an id that is killed is never somebody else's.
    """

    def __init__(self, works: Mapping[str, Callable[..., None]]) -> None:
        self._ours, theirs = socket.socketpair()
        self.process = os.fork()
        if not self.process:
            self._ours.close()
            _fork_for_ever(theirs, works)
        theirs.close()
        self._lines = self._ours.makefile("rw")

    def _ask(self, *words: object) -> int:
        self._lines.write(json.dumps(words) + "\n")
        self._lines.flush()
        return int(self._lines.readline())

    def start(self, work: str, *arguments: str) -> int:
        """Run a work in a process of its own; return its id."""
        return self._ask("start", work, *arguments)

    def kill(self, process: int) -> bool:
        """End this very process by SIGKILL; tell whether it was still running."""
        return bool(self._ask("kill", process))

    def ended(self, process: int) -> bool:
        """Tell whether a process has ended by itself."""
        return bool(self._ask("ended", process))

    def close(self) -> None:
        """Let the zygote end, and whatever it started with it."""
        self._ours.close()
        self._lines.close()
        os.waitpid(self.process, 0)


def _fork_for_ever(line: socket.socket, works: Mapping[str, Callable[..., None]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: set[int] = set()
    pipe = line.makefile("rw")
    for asked in map(json.loads, pipe):
        told = 0
        if asked[0] == "start":
            told = os.fork()
            if not told:
                _work(line, works[asked[1]], asked[2:])
            running.add(told)
        elif asked[1] in running:
            if asked[0] == "kill":
                os.kill(asked[1], signal.SIGKILL)
            who, status = os.waitpid(asked[1], 0 if asked[0] == "kill" else os.WNOHANG)
            told = int(who == asked[1] and (asked[0] == "ended" or os.WIFSIGNALED(status)))
            if asked[0] == "kill" or told:
                running.discard(asked[1])
        else:
            told = int(asked[0] == "ended")
        pipe.write(f"{told}\n")
        pipe.flush()
    for each in running:
        os.kill(each, signal.SIGKILL)
    os._exit(0)


def _work(line: socket.socket, work: Callable[..., None], arguments: list[str]) -> None:
    line.close()
    random.seed()
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def listens(port: int) -> bool:
    """Tell whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_for(port: int) -> None:
    """Wait until somebody listens there."""
    while not listens(port):
        time.sleep(0.05)


class Service:
    """A service that is killed some seconds after it began to serve, and started anew."""

    def __init__(self, zygote: Zygote, port: int, work: str, *arguments: str) -> None:
        self._zygote, self._port, self._work = zygote, port, (work, *arguments)
        self._spared, self._spared_until = True, 0.0
        self.process = self._start()

    def _start(self) -> int:
        return self._zygote.start(*self._work)

    def strike(self, *, at_once: bool = False) -> bool:
        """Kill it if it has served for its time, or at once; tell whether it was killed."""
        now = time.monotonic()
        if now < self._spared_until and not at_once:
            return False
        if not listens(self._port):
            self._spared_until = now + 1
            return False
        if self._spared and not at_once:
            self._spared, self._spared_until = False, now + random.uniform(1, 8)
            return False
        assert self._zygote.kill(self.process), "the service had ended by itself"
        self.process, self._spared = self._start(), True
        return True

    def end(self) -> None:
        """Kill it for good."""
        self._zygote.kill(self.process)
