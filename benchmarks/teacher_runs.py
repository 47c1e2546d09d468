"""The runs that `benchmarks.teachers` measures, each called in a process of its own."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measured import Stopwatch, reset_peak
from tacit.teachers import KernelRidgeTeachers, LocalProcesses, predict_with_teachers

FEATURES = 768
CLASSES = 10
DELTA = 1e-8
SIGMA = 100.0  # of the answers in the Glyph experiment of PATE 2018


def generated_votes(teachers: int, queries: int, classes: int) -> np.ndarray:
    """Predictions as uint8: on average 80 % of the teachers agree on a query, in few on less."""
    random = np.random.default_rng(0)
    truth = random.integers(0, classes, queries, dtype=np.uint8)
    agreement = random.beta(8, 2, queries).astype(np.float32)
    predictions = np.empty((teachers, queries), dtype=np.uint8)
    for row in predictions:
        row[:] = random.integers(0, classes, queries, dtype=np.uint8)
        np.copyto(row, truth, where=random.random(queries, dtype=np.float32) < agreement)
    return predictions


def count_price_release(teachers: int, queries: int, classes: int) -> dict[str, Any]:
    """Count the votes, price them by Theorem 6, and release labels through a ledger."""
    from tacit import Budget, GNMax, Ledger, Plan, count_votes
    from tacit.privacy import DEFAULT_ORDERS, RdpCurve, gnmax_rdp_total

    predictions = generated_votes(teachers, queries, classes)
    plan = Plan(GNMax(SIGMA), queries=queries, n_teachers=teachers, n_classes=classes)
    before, watch = reset_peak(), Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        budget = Budget(epsilon=1.01 * plan.epsilon(DELTA), delta=DELTA)
        ledger = Ledger(f"{folder}/scale.ledger", budget=budget)
        with watch.part("counted"):
            votes = count_votes(predictions, classes)
        with watch.part("priced"):
            total = gnmax_rdp_total(votes, SIGMA, DEFAULT_ORDERS, bound="theorem6")
            RdpCurve(DEFAULT_ORDERS, total).epsilon(DELTA)  # secret: made, not shown
        with watch.part("released"), ledger.release(plan, purpose="benchmark") as grant:
            released = grant.release(votes)
    return {
        "wall": watch.wall,
        "cpu": watch.cpu,
        "predictions_mib": before,
        "answers": len(released),
    }


def table(records: int, queries: int, teachers: int) -> tuple[Any, ...]:
    """Unit-length features of the size of `digit_features`, in shards of about equal size."""
    random = np.random.default_rng(0)
    y = random.integers(0, CLASSES, records)
    means = random.random((CLASSES, FEATURES), dtype=np.float32)
    X = random.random((records, FEATURES), dtype=np.float32)
    X += means[y]
    X_query = (
        random.random((queries, FEATURES), dtype=np.float32)
        + means[random.integers(0, CLASSES, queries)]
    )
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X_query /= np.linalg.norm(X_query, axis=1, keepdims=True)
    return X, y, random.integers(0, teachers, records), teachers, X_query


def kernel_ridge(records: int, queries: int, teachers: int) -> dict[str, Any]:
    """Train and ask kernel ridge teachers in this process, on one thread."""
    inputs = table(records, queries, teachers)
    before, watch = reset_peak(), Stopwatch()
    with watch.part("all"):
        predict_with_teachers(KernelRidgeTeachers(), *inputs, n_classes=CLASSES)
    return {
        "wall": watch.wall["all"],
        "cpu": watch.cpu["all"],
        "inputs_mib": before,
    }


def executors(records: int, queries: int, teachers: int, workers: int) -> dict[str, Any]:
    """Train the same teachers here and in local processes; say whether they agree."""
    inputs = table(records, queries, teachers)
    watch, rows = Stopwatch(), {}
    for name, executor in (("serial", "serial"), ("local", LocalProcesses(workers))):
        with watch.part(name):
            rows[name] = predict_with_teachers(
                KernelRidgeTeachers(), *inputs, n_classes=CLASSES, executor=executor
            )
    return {"wall": watch.wall, "equal": bool((rows["serial"] == rows["local"]).all())}


def dask_with_a_kill(records: int, queries: int, teachers: int) -> dict[str, Any]:
    """Kill one of two Dask workers while it trains, and compare with one process, bit for bit."""
    from distributed import Client, LocalCluster

    inputs = table(records, queries, teachers)
    expected = predict_with_teachers(KernelRidgeTeachers(), *inputs, n_classes=CLASSES)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        assassin = _Assassin(next(iter(client.run(os.getpid).values())))
        start = time.perf_counter()
        found = predict_with_teachers(
            _Watched(assassin.started_at), *inputs, n_classes=CLASSES, executor=client
        )
        seconds = time.perf_counter() - start
        workers = set(client.run(os.getpid).values())
    return {
        "wall": round(seconds, 3),
        "killed_while_training": assassin.done.is_set() and assassin.pid not in workers,
        "equal": expected.tobytes() == found.tobytes(),
    }


@dataclass(frozen=True)
class _Watched:
    """Kernel ridge teachers that leave a note of the process in which they are trained."""

    folder: str
    teachers_per_task: int = 8

    def predict_shards(self, shards: Any, X_query: Any, *, n_classes: int) -> Any:
        """Train, with a file of the process's number while it lasts."""
        with open(f"{self.folder}/{os.getpid()}", "w"):
            answers = KernelRidgeTeachers().predict_shards(shards, X_query, n_classes=n_classes)
        os.unlink(f"{self.folder}/{os.getpid()}")
        return answers


class _Assassin:
    """Kills a process as soon as its note says that it is training."""

    def __init__(self, pid: int) -> None:
        self.pid, self.done = pid, threading.Event()
        self.started_at = tempfile.mkdtemp()
        threading.Thread(target=self._wait_and_kill, daemon=True).start()

    def _wait_and_kill(self) -> None:
        while not os.path.exists(f"{self.started_at}/{self.pid}"):
            time.sleep(0.002)
        os.kill(self.pid, signal.SIGKILL)
        self.done.set()
