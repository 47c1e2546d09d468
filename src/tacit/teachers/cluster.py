"""Teachers on a Dask cluster, by futures: a worker that dies takes no teacher with it.

The job travels as a task of its own, not as scattered data: Dask can make it again when the
workers that held it are gone. Only as many tasks are under way as keep the workers busy, so that
the scheduler never holds all shards. Best with one thread a worker: a worker trains one teacher at
a time, on one thread. Records cross the network and may be spilled to a worker's disk: use `tls://`
and machines that you trust with them.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tacit._checks import refuse
from tacit._extras import need
from tacit.errors import InvalidArgument
from tacit.teachers.executors import ATTEMPTS, Finished, lost, pickled_by_value
from tacit.teachers.tasks import Answer, AnyJob, Task

_PER_WORKER = 2  # tasks under way for each worker: one runs, one is ready
_PATIENCE = 30  # seconds for the scheduler to answer, and for a first worker to come


class DaskCluster:
    """A `dask.distributed.Client` that is open, or a scheduler's address to open one for a run."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield tasks as they finish; what a dead worker had is run elsewhere."""
        distributed = _distributed()
        if not isinstance(self._client, str):
            yield from _collect(self._client, job, iter(tasks))
            return
        try:
            client = distributed.Client(self._client, set_as_default=False, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise refuse(
                "executor", self._client, f"a Dask scheduler that answers ({type(error).__name__})"
            ) from None
        with client:
            yield from _collect(client, job, iter(tasks))


def _collect(client: Any, job: AnyJob, tasks: Iterator[Task]) -> Iterator[Finished]:
    _wait_for_a_worker(client)
    shared = _submit(client, _load, _Sealed(pickled_by_value(job)))
    attempts: dict[Any, tuple[Task, int]] = {}
    under_way = _distributed().as_completed([], loop=client.loop)

    def begin(task: Task, attempt: int) -> None:
        future = _submit(client, _answer, shared, _Sealed(pickle.dumps(task.shards, protocol=5)))
        attempts[future] = (task, attempt)
        under_way.add(future)

    def fill() -> None:
        room = _PER_WORKER * max(1, len(client.nthreads()))
        while len(attempts) < room and (task := next(tasks, None)) is not None:
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
            yield lost(task, outcome)
        fill()


def _wait_for_a_worker(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise InvalidArgument(
            f"Expected the Dask cluster to have a worker within {_PATIENCE} s; start some."
        ) from None


def _outcome(future: Any) -> Sequence[Answer] | str:
    """Return the answers, or the type of the error where no worker lived to give them.

    What fails in training comes back as an answer; an error here is the cluster's own.
    """
    try:
        return cast("Sequence[Answer]", future.result())
    except Exception as error:
        return type(error).__name__
    finally:
        future.release()


def _submit(client: Any, function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        # Dask advises to scatter large arguments; what is scattered dies with its worker.
        warnings.filterwarnings("ignore", message="Sending large graph")
        return client.submit(function, *arguments, pure=False, retries=0)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Bytes that are never printed: Dask logs the arguments of a task that raises."""

    content: bytes = field(repr=False)


def _load(job: _Sealed) -> AnyJob:
    return cast(AnyJob, pickle.loads(job.content))


def _answer(job: AnyJob, shards: _Sealed) -> list[Answer]:
    return job.answer(pickle.loads(shards.content))


def _distributed() -> Any:
    return need("distributed", "for a Dask cluster", extra="cluster")
