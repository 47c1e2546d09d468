"""Where teachers are trained: in this process, in local processes, or on a Dask cluster.

Training is a pure function, so that the choice changes the time and never an answer. Noise and
ledger stay in the process that asks: no executor ever sees them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from tacit.errors import InvalidArgument
from tacit.teachers.tasks import Answer, AnyJob, Task

Finished = tuple[Task, Sequence[Answer]]

ATTEMPTS = 4
"""How often a task is begun when its worker dies; then it is taken to be the killer."""

WORKER_DIED = "WorkerDied"
"""The failure of a teacher whose worker died `ATTEMPTS` times, for example out of memory."""


@runtime_checkable
class Executor(Protocol):
    """Runs tasks, in any order, and yields each with its answers; a task that is lost runs again.

    `tasks` is asked for the next one only when there is room, since tasks carry records.
    """

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield every task once, with one answer for each of its teachers."""


class Serial:
    """Trains one teacher after another in this process."""

    def run(self, job: AnyJob, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Yield the tasks in order."""
        for task in tasks:
            yield task, job.answer(task.shards)


def choose_executor(executor: Any) -> Executor:
    """Return the executor that a word, a Dask client or a scheduler's address stands for.

    >>> type(choose_executor("serial")).__name__
    'Serial'
    """
    from tacit.teachers.cluster import DaskCluster
    from tacit.teachers.local import LocalProcesses

    if isinstance(executor, str):
        if executor == "serial":
            return Serial()
        if executor == "local":
            return LocalProcesses()
        if ":" in executor:
            return DaskCluster(executor)
    elif _is_client(executor):
        return DaskCluster(executor)
    elif isinstance(executor, Executor) and not isinstance(executor, type):
        return executor
    raise InvalidArgument(
        f"Expected executor={_brief(executor)} to be 'serial', 'local', a dask.distributed Client "
        "or a scheduler's address such as 'tcp://10.0.0.1:8786'."
    )


def pickled_by_value(job: AnyJob) -> bytes:
    """Pickle also what is defined in a notebook or a script, which a worker cannot import."""
    import cloudpickle

    return bytes(cloudpickle.dumps(job, protocol=5))


def lost(task: Task, reason: str = WORKER_DIED) -> Finished:
    """Return what a task comes to that no worker finishes."""
    return task, [Answer(failure=reason)] * len(task.numbers)


def _is_client(executor: Any) -> bool:
    distributed = sys.modules.get("distributed")  # nobody has a client who has not imported it
    return distributed is not None and isinstance(executor, distributed.Client)


def _brief(executor: Any) -> str:
    return repr(executor)[:80] if isinstance(executor, str) else type(executor).__name__
