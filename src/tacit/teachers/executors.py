"""Where teachers are trained: in this process, in local processes, or on a Dask cluster.

Training is a pure function: the choice changes the time and never an answer. Noise and ledger stay
in the calling process. The task of a dead worker is run again; one that kills every worker is split
until the one teacher is found that causes it.
"""

from __future__ import annotations

import ipaddress
import os
import pickle
import signal
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO, NoReturn, Protocol, cast, runtime_checkable

from tacit._checks import at_least, refuse
from tacit._extras import need
from tacit._quiet import quiet_process
from tacit._warn import warn
from tacit.errors import InvalidArgument, TeacherFailed
from tacit.teachers.tasks import Answer, AnyJob, Task

Finished = tuple[Task, Sequence[Answer]]

ATTEMPTS = 4
"""How often a task is started when its worker dies; then the task is blamed."""
WORKER_DIED = "WorkerDied"
"""The failure of a teacher whose worker died `ATTEMPTS` times, for example out of memory."""

_PER_WORKER = 2  # tasks under way for each worker: one runs, one is ready
_PATIENCE = 30  # seconds for a Dask scheduler to answer, and for a first worker to come
_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_READY = "ready"  # what a local worker says once it has its job


@runtime_checkable
class Executor(Protocol):
    """Runs tasks, in any order, and yields each with its answers; a lost task runs again.

    `tasks` is advanced only when there is room, since tasks carry records. All that an executor
    handles is secret; noise and ledger stay in the calling process.
    """

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield every task once, with one answer for each of its teachers. Secret.

        Parameters
        ----------
        job : job, what all tasks share, and how one is answered: a pure function
        tasks : iterable, some teachers each, with their shards; secret

        Yields
        ------
        pair, a task and the answers of its teachers, in its order
        """


class Serial:
    """Trains one teacher after another in this process, silenced but for native code.

    The word "serial" instead trains teachers whose native code may print in a worker process.
    """

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield the tasks in order.

        Parameters
        ----------
        job, tasks : as in `Executor.run`

        Yields
        ------
        pair, a task and the answers of its teachers; secret
        """
        for task in tasks:
            yield task, job.answer(task.shards)


def choose_executor(executor: Any) -> Executor:
    """Return the executor for a word, a Dask client or a scheduler's address."""
    word = executor if isinstance(executor, str) else ""
    if word in ("serial", "local"):
        return Serial() if word == "serial" else LocalProcesses()
    if ":" in word or _is_client(executor):
        return DaskCluster(executor)
    if isinstance(executor, Executor) and not isinstance(executor, type):
        return executor
    given = repr(executor)[:80] if isinstance(executor, str) else type(executor).__name__
    raise InvalidArgument(
        f"Expected executor={given} to be 'serial', 'local', a dask.distributed Client "
        "or a scheduler's address such as 'tcp://10.0.0.1:8786'."
    )


def _is_client(executor: Any) -> bool:
    distributed = sys.modules.get("distributed")  # nobody has a client who has not imported it
    return distributed is not None and isinstance(executor, distributed.Client)


def _pickled_by_value(job: AnyJob) -> bytes:
    """Pickle also what is defined in a notebook or a script, which a worker cannot import."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(job, protocol=5))
    except Exception as error:
        raise InvalidArgument(
            f"Expected teacher= to be picklable for a worker process; it fails with "
            f"{type(error).__name__}. With executor=Serial() it is trained in this process."
        ) from None


def _lost(task: Task, reason: str = WORKER_DIED) -> Finished:
    """Return the answers of a task that no worker finishes."""
    return task, [Answer(failure=reason)] * len(task.numbers)


class LocalProcesses:
    """Worker processes of one thread, as many as there are processors unless given.

    A worker is a fresh interpreter, not a fork: a fork would hold everything that this process
    holds and may lock up; a worker gets its own shards and the queries.

    Parameters
    ----------
    workers : int, optional, None for as many as there are processors that this one may use
    """

    # The threads are those of `concurrent.futures`, the processes are not: the workers of a
    # `ProcessPoolExecutor` share one pipe for results, of which this process, too, holds the end
    # to write to. Where a worker is killed half-way through an answer, the rest of it never comes
    # and the pipe never ends: the run would hang. A worker with pipes of its own ends them by
    # dying, at whatever moment.

    def __init__(self, workers: int | None = None) -> None:
        self._workers = _processors() if workers is None else at_least(1, workers=workers)

    def __repr__(self) -> str:
        return f"LocalProcesses({self._workers})"

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield tasks as they finish; one thread here drives each worker.

        Parameters
        ----------
        job, tasks : as in `Executor.run`; a job is pickled by value, also what a notebook defines

        Yields
        ------
        pair, a task and the answers of its teachers; secret
        """
        crew, left = _Crew([sys.path, _pickled_by_value(job)]), iter(tasks)
        with closing(crew), ThreadPoolExecutor(self._workers, "tacit-teachers") as threads:
            try:
                some = islice(left, _PER_WORKER * self._workers)
                under_way = {threads.submit(crew.attempt, task) for task in some}
                while under_way:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    some = islice(left, len(done))
                    under_way |= {threads.submit(crew.attempt, task) for task in some}
                    for future in done:
                        yield future.result()
            finally:
                crew.halt()  # before the threads are waited for, who may be in a task


class _Crew:
    """The worker processes of a run, one for each calling thread, replaced when they die."""

    def __init__(self, opening: list[Any]) -> None:
        self._opening, self._stopping = opening, False
        self._own, self._lock = threading.local(), threading.Lock()
        self._workers: set[subprocess.Popen[bytes]] = set()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._workers):
            self._bury(worker)

    def halt(self) -> None:
        """Kill the workers, also in the middle of a task, and start no other."""
        with self._lock:
            self._stopping = True
            for worker in self._workers:
                worker.kill()

    def attempt(self, task: Task) -> Finished:
        """Let this thread's worker do a task; where it dies, the next one."""
        for _ in range(ATTEMPTS):
            worker = getattr(self._own, "worker", None) or self._new_worker()
            if worker is None:
                break
            answers = self._exchange(worker, task.shards)
            if answers is not None:
                return task, answers
        if len(task.numbers) == 1 or self._stopping:
            return _lost(task)
        return task, [self.attempt(one)[1][0] for one in task.alone()]

    def _new_worker(self) -> subprocess.Popen[bytes] | None:
        """Start a worker and give it its job; None where the run is being stopped."""
        for _ in range(ATTEMPTS):
            with self._lock:
                if self._stopping:
                    return None
                worker = self._own.worker = _start()
                self._workers.add(worker)
            if self._exchange(worker, *self._opening) == _READY:
                return worker
        raise TeacherFailed(
            "Local workers could not be started, or could not load the teachers; standard error "
            "says why."
        )

    def _exchange(self, worker: subprocess.Popen[bytes], *messages: Any) -> Any:
        """Send messages and return the reply, or None where the worker died."""
        try:
            for message in messages:
                _send(cast(BinaryIO, worker.stdin), message)
            return pickle.load(cast(BinaryIO, worker.stdout))
        except (EOFError, OSError, pickle.UnpicklingError):  # nothing came, or half of it
            self._own.worker = None
            self._bury(worker)
            return None

    def _bury(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker and close its pipes, ignoring errors."""
        worker.kill()
        for pipe in (worker.stdin, worker.stdout):
            with suppress(OSError):
                cast(BinaryIO, pipe).close()
        worker.wait()
        with self._lock:
            self._workers.discard(worker)


def _start() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-c", "from tacit.teachers.executors import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **dict.fromkeys(_LIMITS, "1"), "PYTHONPATH": paths},
    )


def _processors() -> int:
    """Return how many processors this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def _send(pipe: BinaryIO, message: Any) -> None:
    """Write one message; a pickle marks its own end."""
    pickle.dump(message, pipe, protocol=5)
    pipe.flush()


def serve() -> None:
    """Be a worker of `LocalProcesses`: a job first, then tasks, until the input ends.

    It uses its standard input and output; standard error is silenced from the first private record
    on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    requests, replies = _take_pipes()
    try:
        # The parent's own modules first: what follows may be defined in them.
        sys.path[:] = pickle.load(requests)
        job: AnyJob = pickle.loads(pickle.load(requests))
    except (EOFError, BrokenPipeError):
        os._exit(0)
    with quiet_process():
        _answer_tasks(job, requests, replies)


def _answer_tasks(job: AnyJob, requests: BinaryIO, replies: BinaryIO) -> NoReturn:
    """Answer until the parent is gone or something fails, silently."""
    try:
        _send(replies, _READY)
        while True:
            _send(replies, job.answer(pickle.load(requests)))
    finally:
        os._exit(0)  # nothing here is worth tidying, exit handlers could hang, and errors tell


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output, and put the null device and standard error in their place."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies


class DaskCluster:
    """An open `dask.distributed.Client`, or a scheduler's address to open one for a run.

    Only as many tasks are submitted as keep the workers busy. Best with one thread a worker.
    Records cross the network and may be spilled to a worker's disk: use `tls://` and machines that
    you trust with them. It needs `tacit[cluster]`.

    Parameters
    ----------
    client : Client or str
        The client, which stays open, or an address such as "tls://10.0.0.1:8786".
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield tasks as they finish; those of a dead worker are run elsewhere.

        Parameters
        ----------
        job, tasks : as in `Executor.run`; a job is pickled by value and given to every worker once

        Yields
        ------
        pair, a task and the answers of its teachers; secret
        """
        with self._opened() as client:
            yield from _run(client, job, iter(tasks))

    def _opened(self) -> Any:
        distributed = _distributed()
        if not isinstance(self._client, str):
            return nullcontext(self._client)
        try:
            return distributed.Client(self._client, set_as_default=False, timeout=_PATIENCE)
        except (OSError, ValueError, TypeError, AssertionError, RuntimeError) as error:
            answers = (
                f"a Dask scheduler that answers ({type(error).__name__}){_with_keys(self._client)}"
            )
            raise refuse("executor", self._client, answers) from None


def _with_keys(address: str) -> str:
    """Return the hint, for a TLS address, where its keys are set."""
    if not address.startswith("tls:"):
        return ""
    return (
        "; for its keys give a Client(address, security=Security(...)), or set Dask's "
        "distributed.comm.tls.ca-file, and cert and key under distributed.comm.tls.client"
    )


def _is_safe(address: str) -> bool:
    """Return whether traffic to an address is encrypted, or stays on this machine."""
    protocol, _, place = address.rpartition("://")
    host = place.rpartition(":")[0].strip("[]")
    if protocol in ("tls", "wss", "inproc") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _run(client: Any, job: AnyJob, tasks: Iterator[Task]) -> Iterator[Finished]:
    """Give every worker the job, also later ones, and run the tasks.

    The job is a plugin, not data: data of a killed worker is awaited for 30 seconds, in vain.
    """
    sealed, name = _Sealed(_pickled_by_value(job)), f"tacit-{uuid.uuid4().hex}"

    class Plugin(_distributed().WorkerPlugin):  # type: ignore[misc]  # Dask is untyped
        job = sealed  # a worker loads it with its first task
        home = _home()

    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise InvalidArgument(
            f"Expected the Dask cluster to have a worker within {_PATIENCE} s; start some."
        ) from None
    if not _is_safe(address := str(client.scheduler.address)):
        warn(
            f"Private rows, or sums of them without noise, go to {address} unencrypted: use tls:// "
            "(distributed.security.Security)."
        )
    client.register_plugin(Plugin(), name=name)
    try:
        yield from _collect(client, name, tasks)
    finally:
        with suppress(Exception):  # a worker that starts or dies just now: the answers are here
            client.unregister_worker_plugin(name)


def _collect(client: Any, plugin: str, tasks: Iterator[Task]) -> Iterator[Finished]:
    attempts: dict[Any, tuple[Task, int]] = {}
    under_way = _distributed().as_completed([], loop=client.loop)

    def begin(task: Task, attempt: int) -> None:
        sealed = _Sealed(pickle.dumps(task.shards, protocol=5))
        with warnings.catch_warnings():
            # Dask advises to scatter large arguments; what is scattered dies with its worker.
            warnings.filterwarnings("ignore", message="Sending large graph")
            future = client.submit(_answer, plugin, sealed, pure=False, retries=0)
        attempts[future] = (task, attempt)
        under_way.add(future)

    def fill() -> None:
        room = _PER_WORKER * max(1, len(client.nthreads())) - len(attempts)
        for task in islice(tasks, max(0, room)):
            begin(task, 1)

    fill()
    for future in under_way:
        task, attempt = attempts.pop(future)
        outcome = _outcome(future)
        if not isinstance(outcome, str):
            yield task, outcome
        elif attempt < ATTEMPTS:
            begin(task, attempt + 1)
        elif len(task.numbers) > 1:
            for one in task.alone():
                begin(one, 1)
        else:
            yield _lost(task, outcome)
        fill()


def _outcome(future: Any) -> Sequence[Answer] | str:
    """Return the answers, or the type of the error where no worker lived to give them."""
    try:
        return cast("Sequence[Answer]", future.result())
    except Exception as error:
        return type(error).__name__
    finally:
        future.release()


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Bytes that are never printed: Dask logs the arguments of a task that raises."""

    content: bytes = field(repr=False)


def _answer(plugin: str, shards: _Sealed) -> list[Answer]:
    held = _distributed().get_worker().plugins[plugin]
    if isinstance(held.job, _Sealed):
        held.job = pickle.loads(held.job.content)
    # A cluster may also live in threads of the process that asks.
    with nullcontext() if held.home == _home() else quiet_process():
        return cast(AnyJob, held.job).answer(pickle.loads(shards.content))


_HERE = uuid.uuid4().hex


def _home() -> tuple[str, int]:
    """Return an identity of this process."""
    return _HERE, os.getpid()


def _distributed() -> Any:
    return need("distributed", "for a Dask cluster", extra="cluster")
