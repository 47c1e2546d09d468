"""Each cell of a comparison in a process of its own: its seconds and its memory are its own.

A starter has the libraries loaded and forks a process for each job: a crash, or memory that runs
out, ends that process only. Job and answer are unnamed files, passed as descriptors.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

from numpy.typing import NDArray

from tacit.comparing.cells import FAILED, OK, REFUSED, Outcome
from tacit.comparing.scores import score_of
from tacit.errors import TacitError

_LONGEST = 300  # characters of a reason
_GLANCE = 0.5  # seconds between looks at the clock and at an interrupt
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Job:
    """An unfitted estimator and the rows of its cell; epsilon None: without privacy."""

    estimator: Any
    epsilon: float | None
    delta: float
    X: NDArray[Any]
    y: NDArray[Any]
    X_public: NDArray[Any]
    held_out: NDArray[Any]
    truth: NDArray[Any]
    by: str = "accuracy"
    groups: NDArray[Any] | None = None


def run_job(job: Job) -> Outcome:
    """Fit on private rows and public inputs, score on held-out rows; never raise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _attempt(job)
    told = tuple(dict.fromkeys(one_line(item.message) for item in caught))[:5]
    return replace(outcome, warnings=told)


def _attempt(job: Job) -> Outcome:
    baseline, cpu, wall = peak_mib(), time.process_time(), time.perf_counter()
    try:
        model = job.estimator
        # Equal rows are other people's: all rows of a comparison are public, as in Adult's own.
        if hasattr(model, "get_params") and "allow_overlap" in model.get_params(deep=False):
            model.set_params(allow_overlap=True)
        takes = inspect.signature(model.fit).parameters
        given = {"X_public": job.X_public, "groups": job.groups}
        known = {name: one for name, one in given.items() if one is not None and name in takes}
        model.fit(job.X, job.y, **known)
        accuracy = score_of(job.by, model, job.held_out, job.truth)
    except TacitError as error:
        return Outcome(REFUSED, one_line(error))
    except Exception as error:
        return Outcome(FAILED, one_line(f"{type(error).__name__}: {error}"))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    spent, noise, excess = _claim(model, job)
    return Outcome(
        FAILED if excess else OK,
        excess,
        accuracy=None if excess else accuracy,
        spent=spent,
        noise=noise,
        cpu=round(cpu, 3),
        wall=round(wall, 3),
        peak_mib=peak_mib(),
        baseline_mib=baseline,
    )


def _claim(model: Any, job: Job) -> tuple[float | None, str, str]:
    """Return the model's epsilon and noise, and how they break the common budget, unit or noise."""
    if job.epsilon is None or not hasattr(model, "statement_"):
        return None, "", ""
    stated = model.statement_
    spent = float(stated.epsilon)
    excess = ""
    if spent > job.epsilon * (1 + 1e-9) or stated.delta > job.delta:
        excess = "it stated a larger epsilon or delta than the budget"
    elif (stated.unit == "record") != (job.groups is None):
        unit = "record" if job.groups is None else "person"
        excess = f"its unit is one {stated.unit}, not one {unit}"
    elif stated.noise == "insecure-seeded":
        excess = "its noise is seeded, so that nothing it says is private"
    return spent, stated.noise, excess


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


@dataclass(slots=True, eq=False)
class Starter:
    """Starts a process for each job; the libraries are loaded once, with the first."""

    _process: subprocess.Popen[bytes] | None = None
    _line: socket.socket | None = None

    def run(
        self, job: Job, limit: float | None = None, stopped: threading.Event | None = None
    ) -> Outcome:
        """Run a job with one thread, until the limit or until the comparison is stopped."""
        import cloudpickle

        line = self._line or self._open()
        with tempfile.TemporaryFile() as message, tempfile.TemporaryFile() as answer:
            cloudpickle.dump(job, message)
            message.seek(0)
            socket.send_fds(line, [b"."], [message.fileno(), answer.fileno()])
            end = math.inf if limit is None else time.monotonic() + limit
            while (code := _received(line)) is None:
                late = time.monotonic() > end
                if late or (stopped is not None and stopped.is_set()):
                    self.close()
                    after = f" after {limit:g} seconds" if late else ""
                    return Outcome(FAILED, f"stopped{after}")
            if not code:  # the starter itself is gone, too
                self.close()
            answer.seek(0)
            return _outcome(answer.read(), int(code or -signal.SIGKILL))

    def _open(self) -> socket.socket:
        """Start the starter, in a session of its own: an interrupt reaches the comparison alone."""
        ours, theirs = socket.socketpair()
        ours.settimeout(_GLANCE)
        code = f"from tacit.comparing.processes import serve; serve({theirs.fileno()})"
        places = os.pathsep.join(place for place in sys.path if place)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # One thread, and the modules that are found here are found there.
            env=os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": places},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self._line = ours
        while _received(ours) is None:  # loading the libraries is no part of a cell's time
            pass
        return ours

    def close(self) -> None:
        """End the starter and all of its processes."""
        if self._process is not None and self._line is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._line.close()
        self._process = self._line = None


def _received(line: socket.socket) -> bytes | None:
    """Return the exit code of the job's process; None while it runs, b"" if it is lost."""
    try:
        return line.recv(16)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _outcome(answer: bytes, code: int) -> Outcome:
    """Read the process's answer, or why it died."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", as when memory runs out" if name == "SIGKILL" else ""
        return Outcome(FAILED, f"its process was ended by {name}{hint}")
    try:
        return Outcome.read(json.loads(answer))
    except (ValueError, TypeError, KeyError):
        return Outcome(FAILED, f"its process ended with code {code} and without an answer")


def serve(descriptor: int) -> None:
    """Run the starter: fork a process for each job, and send back how it ended."""
    import sklearn.ensemble
    import sklearn.neighbors
    import sklearn.pipeline  # noqa: F401  # loaded for the processes to come

    from tacit.methods import all_rules

    all_rules()
    line = socket.socket(fileno=descriptor)
    line.sendall(b"ready")
    while True:
        _, descriptors, _, _ = socket.recv_fds(line, 1, 2)
        if len(descriptors) != 2:  # the comparison is gone
            return
        pid = os.fork()
        if pid == 0:
            _answer(line, *descriptors)
        for each in descriptors:
            os.close(each)
        line.sendall(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _answer(line: socket.socket, message: int, answer: int) -> None:
    """Run the job in this process, and end it."""
    import cloudpickle

    threading.Thread(target=_leave_with, args=(line,), daemon=True).start()
    code = 1
    try:
        with os.fdopen(message, "rb") as file:
            outcome = run_job(cloudpickle.load(file))
        with os.fdopen(answer, "w", encoding="utf-8") as file:
            json.dump(asdict(outcome), file, allow_nan=False)
        code = 0
    finally:
        os._exit(code)


def _leave_with(line: socket.socket) -> None:
    """End this process when the comparison is gone."""
    line.recv(1, socket.MSG_PEEK)  # nothing is sent while a job runs
    os._exit(1)
