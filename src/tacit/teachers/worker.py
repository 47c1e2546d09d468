"""The process that trains teachers for `LocalProcesses`: reads tasks, writes answers, until told.

It talks over its standard input and output, which it takes for itself. Standard error is heard
until the teachers are loaded; from the first private record on nothing is. When its parent is gone,
its input ends, and so does it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import BinaryIO, NoReturn

from tacit._quiet import quiet
from tacit.teachers.tasks import AnyJob

READY = b"ready"
"""What a worker says once it has its job."""

_LENGTH = 8


def send(pipe: BinaryIO, message: bytes) -> None:
    """Write one message: its length, then itself."""
    pipe.write(len(message).to_bytes(_LENGTH, "little"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes:
    """Read one message; raise `EOFError` where the other side is gone."""
    length = int.from_bytes(_exactly(pipe, _LENGTH), "little")
    return _exactly(pipe, length)


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    data = pipe.read(count)
    if len(data) != count:
        raise EOFError
    return data


def main() -> None:
    """Serve one parent: a job first, then tasks, one answer a task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    requests, replies = _take_pipes()
    try:
        # The parent's own modules first: what follows may be defined in them.
        sys.path[:] = pickle.loads(receive(requests))
        job: AnyJob = pickle.loads(receive(requests))
    except (EOFError, BrokenPipeError):
        os._exit(0)
    with quiet():
        _serve(job, requests, replies)


def _serve(job: AnyJob, requests: BinaryIO, replies: BinaryIO) -> NoReturn:
    """Answer until the parent is gone or something fails, and say nothing of either."""
    try:
        send(replies, READY)
        while True:
            answers = job.answer(pickle.loads(receive(requests)))
            send(replies, pickle.dumps(answers, protocol=5))
    finally:
        os._exit(0)  # nothing here is worth tidying, exit handlers could hang, and errors tell


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output, and leave the null device and standard error behind."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies
