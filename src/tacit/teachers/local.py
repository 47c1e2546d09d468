"""Local processes of one thread each; a worker that is killed is replaced and its task run again.

Two processes of one thread train small teachers faster than one process of two threads. A worker
is a fresh interpreter, not a fork: forking a process that has threads can lock up, and a fork
would hold everything that this process holds, while a worker gets its own shards and the queries.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from tacit._checks import at_least
from tacit.errors import TeacherFailed
from tacit.teachers.executors import ATTEMPTS, Finished, lost, pickled_by_value
from tacit.teachers.tasks import AnyJob, Task
from tacit.teachers.worker import READY, receive, send

_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class LocalProcesses:
    """As many worker processes as there are processors, or as many as asked for.

    >>> LocalProcesses(2)
    LocalProcesses(2)
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = _processors() if workers is None else at_least(1, workers=workers)

    def __repr__(self) -> str:
        return f"LocalProcesses({self._workers})"

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield tasks as they finish; one thread here drives each worker."""
        opening = [pickle.dumps(sys.path), pickled_by_value(job)]
        waiting: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        finished: queue.SimpleQueue[Finished | BaseException] = queue.SimpleQueue()
        crew = [_Driver(opening, waiting, finished) for _ in range(self._workers)]
        try:
            yield from _collect(iter(tasks), crew, waiting, finished)
        finally:
            for driver in crew:
                driver.halt()
                waiting.put(None)
            for driver in crew:
                driver.end()


def _collect(
    tasks: Iterator[Task],
    crew: list[_Driver],
    waiting: queue.SimpleQueue[Task | None],
    finished: queue.SimpleQueue[Finished | BaseException],
) -> Iterator[Finished]:
    """Keep two tasks a worker under way, one running and one ready."""
    under_way = 0
    for driver in crew:
        driver.start()
    while True:
        while under_way < 2 * len(crew) and (task := next(tasks, None)) is not None:
            waiting.put(task)
            under_way += 1
        if not under_way:
            return
        outcome = finished.get()
        if isinstance(outcome, BaseException):
            raise outcome
        under_way -= 1
        yield outcome


class _Driver(threading.Thread):
    """Feeds one worker process, and starts another when it dies."""

    def __init__(
        self,
        opening: list[bytes],
        waiting: queue.SimpleQueue[Task | None],
        finished: queue.SimpleQueue[Finished | BaseException],
    ) -> None:
        super().__init__(daemon=True, name="tacit-teachers")
        self._opening, self._waiting, self._finished = opening, waiting, finished
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._lock = threading.Lock()

    def run(self) -> None:
        while (task := self._waiting.get()) is not None:
            try:
                self._finished.put(self._attempt(task))
            except BaseException as error:
                self._finished.put(error)
                return

    def halt(self) -> None:
        """Kill the worker, also in the middle of a task, and start no other."""
        with self._lock:
            self._stopping = True
            if self._worker is not None:
                self._worker.kill()

    def end(self) -> None:
        """Wait for this thread, once there is a None for each of them in the queue."""
        if self.ident is not None:
            self.join()
        self._bury()

    def _attempt(self, task: Task) -> Finished:
        request = pickle.dumps(task.shards, protocol=5)
        for _ in range(ATTEMPTS):
            worker = self._worker or self._new_worker()
            if worker is None:
                break
            answers = self._exchange(worker, request)
            if answers is not None:
                return task, pickle.loads(answers)
        if len(task.numbers) == 1 or self._stopping:
            return lost(task)
        return task, [self._attempt(one)[1][0] for one in task.alone()]

    def _new_worker(self) -> subprocess.Popen[bytes] | None:
        """Start a worker and give it its job; None where the run is being stopped."""
        for _ in range(ATTEMPTS):
            with self._lock:
                if self._stopping:
                    return None
                worker = self._worker = _start()
            if self._exchange(worker, *self._opening) == READY:
                return worker
        raise TeacherFailed(
            "Local workers could not be started, or could not load the teachers; standard error "
            "says why."
        )

    def _exchange(self, worker: subprocess.Popen[bytes], *messages: bytes) -> bytes | None:
        """Send messages and return the reply, or bury a worker that did not live to give one."""
        try:
            for message in messages:
                send(cast(BinaryIO, worker.stdin), message)
            return receive(cast(BinaryIO, worker.stdout))
        except (EOFError, OSError):
            self._bury()
            return None

    def _bury(self) -> None:
        """Close what is left of a worker; its last words may fail, and that is all right."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.kill()
        for pipe in (worker.stdin, worker.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass
        worker.wait()


def _start() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-c", "from tacit.teachers.worker import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **dict.fromkeys(_LIMITS, "1"), "PYTHONPATH": paths},
    )


def _processors() -> int:
    """Return how many processors this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)
