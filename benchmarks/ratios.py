"""Every comparison of `make bench`: what tacit takes, what the other way takes, side by side.

Each part runs both ways in one process, one after the other, on one thread; a ratio says how many
times faster tacit is (below 1: slower). Only ratios are kept: seconds of one machine are no
property of the library. The scripts of this folder measure more, and print it.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import features, knn, noise, privacy, teacher_runs
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


DIRECT_STEPS = (
    ("classifier", "a private step", "ours-per-layer", "Opacus, hooks", "opacus-hooks"),
    ("classifier", "a private step, flat", "ours-flat", "Opacus, ghost", "opacus-ghost"),
    ("classifier", "a private step", "ours-per-layer", "no privacy, float32", "plain"),
    ("autoencoder", "a private step", "ours-per-layer", "Opacus, hooks", "opacus-hooks"),
    ("autoencoder", "a step of DP-MAC", "mac-private", "no privacy, float64", "mac-plain64"),
)
"""Network, what is done and how `benchmarks.direct` calls it, and the other way."""


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

    return [
        Ratio(
            "direct",
            f"{what}, {network}" + (", plain" if "no privacy" in against else ""),
            against,
            milliseconds(network, other) / milliseconds(network, ours),
        )
        for network, what, ours, against, other in DIRECT_STEPS
    ]


PARTS: dict[str, Callable[[], list[Ratio]]] = {
    "privacy": of_privacy,
    "noise": of_noise,
    "features": of_features,
    "knn": of_knn,
    "teachers": of_teachers,
    "direct": of_direct,
}
