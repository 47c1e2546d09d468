"""Every comparison of `make bench`: what tacit takes, what the other way takes, side by side.

Each part runs both ways in one process, one after the other, on one thread; a ratio says how many
times faster tacit is (below 1: slower). Only ratios are kept: seconds of one machine are no
property of the library. The scripts of this folder measure more, and print it.
"""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import (
    answering,
    direct,
    features,
    growth,
    knn,
    ledger_scale,
    noise,
    privacy,
    student_search,
    teacher_runs,
)
from benchmarks.measured import in_a_process
from benchmarks.privacy import cpu_seconds


@dataclass(frozen=True, slots=True)
class Ratio:
    """One comparison: what is done, against what, and how many times faster tacit is."""

    part: str
    name: str
    against: str
    ratio: float

    @property
    def key(self) -> str:
        """Under which it is recorded."""
        return f"{self.part}: {self.name}"


def of_privacy() -> list[Ratio]:
    return [
        Ratio("privacy", one.name, one.against, one.ratio)
        for one in privacy.measure()
        if one.ratio is not None
    ]


def of_noise() -> list[Ratio]:
    against = "NumPy's generator, insecure and unrounded"
    return [Ratio("noise", case.name, against, noise.measure(case).ratio) for case in noise.cases()]


def of_features() -> list[Ratio]:
    return [
        Ratio("features", one.name, "a loop over images", one.ratio) for one in features.rates()
    ]


def of_knn() -> list[Ratio]:
    """Compare searches of generated features of unit length: no download is needed."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((20_400, 128), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = knn.speed(rows[:20_000], random.integers(10, size=20_000), rows[20_000:])
    return [
        Ratio(
            "knn", "sampled neighbours", "a search of each query's sample", found.faster_than_eager
        ),
        Ratio("knn", "with screening", "two such searches", found.faster_with_screening),
        Ratio("knn", "search and draw", "one exact search, not private", 1 / found.over_batched),
    ]


def of_teachers() -> list[Ratio]:
    X, y, shards, n_teachers, queries = teacher_runs.table(6_000, 500, 100)
    predictions = teacher_runs.generated_votes(500, 5_000, 10)
    return [
        Ratio(
            "teachers",
            "kernel ridge, 100 of 60 records",
            "scikit-learn's KernelRidge, one by one",
            _kernel_ridge(X, y, shards, n_teachers, queries),
        ),
        Ratio(
            "teachers",
            "votes of 500 teachers counted",
            "np.bincount, query by query",
            _counting(predictions, 10),
        ),
    ]


def _kernel_ridge(
    X: np.ndarray, y: np.ndarray, shards: np.ndarray, n_teachers: int, queries: np.ndarray
) -> float:
    from sklearn.kernel_ridge import KernelRidge

    from tacit.teachers import KernelRidgeTeachers, predict_with_teachers

    def plain() -> None:
        for teacher in range(n_teachers):
            own = shards == teacher
            model = KernelRidge(kernel="rbf", gamma=1.0, alpha=0.01)
            model.fit(X[own], np.eye(10)[y[own]]).predict(queries).argmax(axis=1)

    def ours() -> None:
        predict_with_teachers(
            KernelRidgeTeachers(), X, y, shards, n_teachers, queries, n_classes=10
        )

    return cpu_seconds(plain) / cpu_seconds(ours)


def _counting(predictions: np.ndarray, n_classes: int) -> float:
    from tacit import count_votes

    def plain() -> None:
        np.array([np.bincount(column, minlength=n_classes) for column in predictions.T])

    return cpu_seconds(plain) / cpu_seconds(lambda: count_votes(predictions, n_classes))


STREAMED_ROWS = 100_000


def of_streams() -> list[Ratio]:
    """Compare fits that go through a file with the least that they could do: see the growth page.

    A ratio of 0.1 says that a fit takes ten times what one bare pass over its file takes.
    """
    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as folder:
        path = Path(folder) / "rows.parquet"
        growth.write(path, STREAMED_ROWS)
        once = cpu_seconds(lambda: growth.bare_pass(path, STREAMED_ROWS))
        product = cpu_seconds(lambda: growth.bare_product(STREAMED_ROWS))
        found = []
        for name in ("prototype", "moments", "ridge", "knn", "pate"):
            took = cpu_seconds(lambda name=name: _streamed(name, path))  # type: ignore[misc]
            said = f"{name}, {STREAMED_ROWS:,} rows of Parquet"
            found.append(Ratio("streams", said, "a bare pass over the file", once / took))
            against = "a bare product of its columns"
            found.append(Ratio("streams", f"{said}, product", against, product / took))
    return found


def _streamed(name: str, path: Path) -> None:
    growth.model(name).fit(str(path), "label", X_public=growth.public())


DIRECT_STEPS = (
    ("classifier", "a private step", "ours-per-layer", "Opacus, hooks", "opacus-hooks"),
    ("classifier", "a private step", "ours-per-layer", "no privacy, float32", "plain"),
    ("autoencoder", "a private step", "ours-per-layer", "Opacus, hooks", "opacus-hooks"),
    ("autoencoder", "a step of DP-MAC", "mac-private", "no privacy, float64", "mac-plain64"),
)
"""Network, what is done and how `benchmarks.direct` calls it, and the other way."""
GHOSTS = ("classifier-256", "classifier-1024", "convolutions-256")
"""Networks, and lots, that are compared with Opacus' ghost clipping, in turn in one process."""


def of_direct() -> list[Ratio]:
    """Compare training steps, each in a process of its own, where torch and Opacus are there."""
    needed = ("benchmarks.direct", "torch", "opacus")
    if any(importlib.util.find_spec(name) is None for name in needed):
        return []

    @functools.cache
    def milliseconds(network: str, kind: str) -> float:
        settings = {"network": network, "kind": kind, "repeats": 7}
        found = in_a_process("benchmarks.direct", "measure", one_thread=True, **settings)
        return float(found["ms"])

    steps = [
        Ratio(
            "direct",
            f"{what}, {network}" + (", plain" if "no privacy" in against else ""),
            against,
            milliseconds(network, other) / milliseconds(network, ours),
        )
        for network, what, ours, against, other in DIRECT_STEPS
    ]
    return [*steps, *(one for network in GHOSTS for one in _ghosts(network))]


def _ghosts(network: str) -> list[Ratio]:
    settings = {"network": network, "repeats": 7}
    found = in_a_process("benchmarks.direct", "side_by_side", one_thread=True, **settings)
    return [
        Ratio("direct", f"{network}, {clipping}, {clock}", "Opacus, ghost clipping", theirs / own)
        for kind, clipping in direct.CLIPPED.items()
        for clock, theirs, own in zip(
            ("wall", "CPU"), found["opacus-ghost"], found[kind], strict=True
        )
    ]


def of_ledger() -> list[Ratio]:
    """Compare wall time, which is what a durable append takes; at 100,000 entries."""
    against, several = "a bare durable append", "eight processes of bare durable appends"
    with tempfile.TemporaryDirectory() as folder:
        found = ledger_scale.at_lengths(Path(folder), [10, 100_000], whole=0)
        race = ledger_scale.together(Path(folder), writers=8, each=100)
    alone = [
        one
        for what, (longer, over) in ledger_scale.ratios(found).items()
        for one in (
            Ratio("ledger", what, against, 1 / over),
            Ratio("ledger", f"{what}, grown", "the same at 10 entries", 1 / longer),
        )
    ]
    waits = Ratio("ledger", "worst wait of eight writers", "five seconds", 5 / race.worst_wait)
    together = Ratio("ledger", "eight writers", several, race.rate / race.bare_rate)
    return [*alone, together, waits]


def of_answering() -> list[Ratio]:
    found = answering.measure(100_000, 50)
    against = "a bare product of the question with all records"
    return [Ratio("answering", "one answer of 100,000", against, found.bare / found.cpu)]


def of_students() -> list[Ratio]:
    """Compare how a student's graph of many public inputs is found."""
    points, _ = student_search.made_up(60_000)
    exact = cpu_seconds(lambda: student_search.nearest(points, points, 7, same=True))
    ours = cpu_seconds(lambda: student_search.graph_neighbours(points, 7))
    return [Ratio("students", "neighbours of 60,000 inputs", "an exact search", exact / ours)]


PARTS: dict[str, Callable[[], list[Ratio]]] = {
    "privacy": of_privacy,
    "noise": of_noise,
    "features": of_features,
    "knn": of_knn,
    "teachers": of_teachers,
    "streams": of_streams,
    "students": of_students,
    "direct": of_direct,
    "ledger": of_ledger,
    "answering": of_answering,
}
