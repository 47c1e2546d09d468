"""A cell in a process of its own, which `running.in_a_process` starts.

It reads a job from standard input, fits, scores and answers with one line of JSON. A crash, or
memory that runs out, ends this process and not the comparison; its peak of memory is its own.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.compare.cells import FAILED, OK, REFUSED, Outcome
from tacit.errors import TacitError

_LONGEST = 300  # characters of a reason


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Job:
    """An unfitted estimator and the rows of its cell; epsilon None: it claims no privacy."""

    estimator: Any
    epsilon: float | None
    delta: float
    X: NDArray[Any]
    y: NDArray[Any]
    X_public: NDArray[Any]
    held_out: NDArray[Any]
    truth: NDArray[Any]


def run_job(job: Job) -> Outcome:
    """Fit on private rows and public inputs, score on held-out rows; never raise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _attempt(job)
    told = tuple(dict.fromkeys(one_line(item.message) for item in caught))[:5]
    return Outcome(**(asdict(outcome) | {"warnings": told}))


def _attempt(job: Job) -> Outcome:
    baseline, cpu, wall = peak_mib(), time.process_time(), time.perf_counter()
    try:
        model = _allowing_equal_rows(job.estimator)
        model.fit(job.X, job.y, **_public(model, job))
        accuracy = float(np.mean(np.asarray(model.predict(job.held_out)) == job.truth))
    except TacitError as error:
        return Outcome(REFUSED, one_line(error))
    except Exception as error:
        return Outcome(FAILED, one_line(f"{type(error).__name__}: {error}"))
    seconds = time.process_time() - cpu, time.perf_counter() - wall
    spent, noise, excess = _claim(model, job)
    return Outcome(
        FAILED if excess else OK,
        excess,
        accuracy=None if excess else accuracy,
        spent=spent,
        noise=noise,
        cpu=round(seconds[0], 3),
        wall=round(seconds[1], 3),
        peak_mib=peak_mib(),
        baseline_mib=baseline,
    )


def _allowing_equal_rows(model: Any) -> Any:
    """Let equal rows be other people's: all rows of a comparison are public, as in Adult's own."""
    if hasattr(model, "get_params") and "allow_overlap" in model.get_params(deep=False):
        model.set_params(allow_overlap=True)
    return model


def _public(model: Any, job: Job) -> dict[str, Any]:
    """Offer the public inputs to whatever takes them."""
    takes = "X_public" in inspect.signature(model.fit).parameters
    return {"X_public": job.X_public} if takes else {}


def _claim(model: Any, job: Job) -> tuple[float | None, str, str]:
    """Return what the model states, and why it must not count: the budget is the same for all."""
    if job.epsilon is None or not hasattr(model, "statement_"):
        return None, "", ""
    statement = model.statement_
    spent = float(statement.epsilon)
    if spent > job.epsilon * (1 + 1e-9) or statement.delta > job.delta:
        return spent, statement.noise, "it stated a larger epsilon or delta than the budget"
    if statement.unit != "record":
        return spent, statement.noise, f"its unit is one {statement.unit}, not one record"
    if statement.noise == "insecure-seeded":
        return spent, statement.noise, "its noise is seeded, so that nothing it says is private"
    return spent, statement.noise, ""


def one_line(text: object) -> str:
    """Return a message as one line of bounded length."""
    return " ".join(str(text).split())[:_LONGEST]


def peak_mib() -> float:
    """Return the highest resident memory of this process; ru_maxrss counts a parent's, too."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return round(int(lines["VmHWM"].split()[0]) / 1024, 1)
    except (OSError, KeyError, ValueError):
        import resource

        scale = 2**20 if sys.platform == "darwin" else 2**10
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale, 1)


def leave_with(parent: int) -> None:
    """End this process when the comparison that asked is gone: nobody would read the answer."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    """Read a job, answer on what was standard output; whatever a library prints goes elsewhere."""
    import cloudpickle

    threading.Thread(target=leave_with, args=(os.getppid(),), daemon=True).start()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)
        outcome = run_job(cloudpickle.load(sys.stdin.buffer))
        answer.write(json.dumps(asdict(outcome), allow_nan=False))
