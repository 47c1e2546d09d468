"""Every comparison of `make bench`: what tacit takes, what the other way takes, side by side.

Each part runs both ways in one process, one after the other, on one thread; a ratio says how many
times faster tacit is (below 1: slower). Only ratios are kept: seconds of one machine are no
property of the library. The scripts of this folder measure more, and print it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import features, knn, noise, privacy, teacher_runs
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
    against = "the paper's formulas, query by query"
    return [
        Ratio("privacy", one.name, against, one.ratio)
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


def of_direct() -> list[Ratio]:
    """Whatever `benchmarks.direct` compares, where it is there: (name, against, ratio) each."""
    if importlib.util.find_spec("benchmarks.direct") is None:
        return []
    compared = getattr(importlib.import_module("benchmarks.direct"), "ratios", None)
    return [] if compared is None else [Ratio("direct", *one) for one in compared()]


PARTS: dict[str, Callable[[], list[Ratio]]] = {
    "privacy": of_privacy,
    "noise": of_noise,
    "features": of_features,
    "knn": of_knn,
    "teachers": of_teachers,
    "direct": of_direct,
}
