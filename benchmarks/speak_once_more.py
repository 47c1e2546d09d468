"""Records that speak once: the rule that chooses a student, a set without clusters, numbers.

`--part rule`: the three students, and which of them the released table chose, on MNIST, Adult, the
survey of affairs, and squares of photographs (benchmarks.patches; 6,480 private, 1,000 public,
1,000 held out). `--part affairs`: the survey (statsmodels ships it; 4,366 rows private, 1,000
public, 1,000 held out, random splits) at equal epsilon by every method. Nothing was chosen on it
but what docs/results/speak-once.md says. `--part housing`: house values, as in
benchmarks.knn_values: 15,000 rows private, 2,640 public, 3,000 held out. Worst-case epsilon of
adding or removing a record, delta 1e-5; noise is drawn anew in every run.

    python -m benchmarks.speak_once_more --data DIR --part rule
    python -m benchmarks.speak_once_more --part affairs --runs 10
    python -m benchmarks.speak_once_more --data DIR --part housing --runs 5
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.knn_values import housing, rmse
from benchmarks.mnist import SIDE, splits
from benchmarks.patches import patch_table
from benchmarks.pate_adult import HOUSING, adult
from tacit import (
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PrivateKNNClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.datasets import load_affairs, load_idx
from tacit.features import Numeric, PublicBins, digit_features
from tacit.students import LabelSpreadingStudent, LinearStudent, NearestStudent, SupervisedStudent
from tacit.teachers import KernelRidgeTeachers

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0)


class Task(NamedTuple):
    """A classification: private rows, public inputs, held-out rows, features."""

    name: str
    X: np.ndarray
    y: np.ndarray
    public: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray
    features: Any
    epsilon: float
    prototypes: int


def affairs(seed: int, epsilon: float = 1.0) -> Task:
    data = load_affairs()
    private, public, held_out = data.split(public=1000, held_out=1000, random_state=seed)
    bins = PublicBins(data.columns or (), unit_norm=True)
    parts = private.X, private.y, public.X, held_out.X, held_out.y
    return Task("affairs", *parts, bins, epsilon, 300)


def mnist(data: Path, epsilon: float) -> Task:
    images, features = load_idx(data / "mnist"), digit_features(SIDE)
    train, test = images.train, images.test
    inside, outside = features.fit_transform(train.X), features.transform(test.X)
    public, held_out = splits(1)["random 0"]
    truth = test.y[held_out]
    parts = inside, train.y, outside[public], outside[held_out], truth
    return Task("mnist", *parts, None, epsilon, 300)


def people(data: Path, epsilon: float) -> Task:
    problem = adult(data, epsilon, 0)
    bins = PublicBins(problem.columns, unit_norm=True)
    return Task("adult", *problem[:5], bins, epsilon, 300)


def patches(epsilon: float) -> Task:
    X, labels = patch_table()
    order = np.random.default_rng(0).permutation(len(X))
    private, public, held_out = np.split(order, [-2000, -1000])
    y = np.searchsorted(np.unique(labels), labels)
    parts = X[private], y[private], X[public], X[held_out], y[held_out]
    return Task("patches", *parts, None, epsilon, 300)


def tasks(data: Path, sets: str) -> Iterator[Task]:
    if "affairs" in sets:
        yield from (affairs(seed, epsilon) for epsilon in EPSILONS for seed in range(3))
    if "patches" in sets:
        yield from (patches(epsilon) for epsilon in (0.2, 1.0, 2.0, 8.0))
    if "adult" in sets:
        yield from (people(data, epsilon) for epsilon in (0.1, 1.0))
    if "mnist" in sets:
        yield mnist(data, 0.1)


def rule(options: argparse.Namespace) -> None:
    print(
        "set, epsilon: spreading, linear, nearest (held-out accuracy); gains; shares; combined",
        flush=True,
    )
    for task in tasks(options.data, options.sets):
        model = PrototypeClassifier(
            n_prototypes=task.prototypes,
            epsilon=task.epsilon,
            delta=DELTA,
            features=task.features,
            classes=np.unique(task.y),
            allow_overlap=True,
            random_state=0,
        )
        model.fit(task.X, task.y, X_public=task.public)
        found = []
        for student in (
            LabelSpreadingStudent(task.features),
            LinearStudent(task.features, penalty=0.1),
            NearestStudent(task.features),
        ):
            student.fit(task.public, model.prototypes_, model.posterior_)
            found.append(float((student.predict(task.held_out) == task.truth).mean()))
        gains = " ".join(f"{gain:,.0f}" for gain in model.student_.gains_)
        counted = " ".join(f"{share:.2f}" for share in model.student_.shares_)
        alone = " ".join(f"{share:.3f}" for share in found)
        combined = model.score(task.held_out, task.truth)
        print(
            f"{task.name}, {task.epsilon}: {alone}; {gains}; {counted}; {combined:.3f}", flush=True
        )


def methods(task: Task) -> dict[str, Callable[[], Any]]:
    common = {
        "epsilon": task.epsilon,
        "delta": DELTA,
        "features": task.features,
        "classes": (0, 1),
        "allow_overlap": True,  # tables hold a few rows that look the same
        "random_state": 0,
    }
    linear = SupervisedStudent(LogisticRegression(max_iter=300))
    return {
        "prototypes, the rule": lambda: PrototypeClassifier(**common),
        "moments": lambda: MomentClassifier(**common),
        "residual ridge": lambda: ResidualRidgeClassifier(**common),
        "PATE, 50 teachers, spreading": lambda: PATEClassifier(
            KernelRidgeTeachers(gamma=0.1), n_teachers=50, queries=100, **common
        ),
        "PATE, 50 teachers, linear": lambda: PATEClassifier(
            KernelRidgeTeachers(gamma=0.1), n_teachers=50, queries=100, student=linear, **common
        ),
        "Private-kNN, k = 300, spreading": lambda: PrivateKNNClassifier(
            k=300, queries=100, **common
        ),
        "Private-kNN, k = 300, linear": lambda: PrivateKNNClassifier(
            k=300, queries=100, student=linear, **common
        ),
    }


def compare(options: argparse.Namespace) -> None:
    larger = [float(np.mean(affairs(seed).truth == 0)) for seed in range(options.runs)]
    print(f"larger class: {np.mean(larger):.4f}", flush=True)
    for epsilon in options.epsilon or EPSILONS:
        for name in methods(affairs(0)):
            scores, start = [], time.process_time()
            for seed in range(options.runs):
                task = affairs(seed, epsilon)
                model = methods(task)[name]().fit(task.X, task.y, X_public=task.public)
                scores.append(model.score(task.held_out, task.truth))
            spent = (time.process_time() - start) / options.runs
            mean, least = np.mean(scores), min(scores)
            print(f"{epsilon} | {name} | {mean:.4f} ({least:.3f}) | {spent:.1f} CPU-s", flush=True)
    plain = []
    for seed in range(options.runs):
        task = affairs(seed)
        view = task.features.fit(task.X)
        fitted = LogisticRegression(max_iter=500, C=30).fit(view.transform(task.X), task.y)
        plain.append(fitted.score(view.transform(task.held_out), task.truth))
    print(f"logistic regression without privacy: {np.mean(plain):.4f} ({min(plain):.3f})")


def values(options: argparse.Namespace) -> None:
    X, y = housing(options.data)
    order = np.random.default_rng(0).permutation(len(y))
    private, public, held_out = np.split(order, [15_000, 17_640])
    kept = ("longitude", "latitude")
    columns = [
        Numeric(c.name, c.edges if c.name in kept else np.log1p(np.asarray(c.edges, float)))
        for c in HOUSING[:-1]
    ]
    kinds: dict[str, Callable[..., Any]] = {
        "moments, bins": lambda **given: MomentRegressor(
            features=PublicBins(columns, unit_norm=True), **given
        ),
        "residual ridge": lambda **given: ResidualRidgeRegressor(
            features=StandardScaler(), random_state=0, **given
        ),
    }
    for epsilon in options.epsilon or (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        for name, make in kinds.items():
            found, start = [], time.process_time()
            for _ in range(options.runs):
                model = make(target_range=(0.0, 500_000.0), epsilon=epsilon, delta=DELTA)
                model.fit(X[private], y[private], X_public=X[public])
                found.append(model.predict(X[held_out]))
            spent = (time.process_time() - start) / options.runs
            mean, worst = rmse(y[held_out], found)
            print(f"{epsilon} | {name} | RMSE {mean} ({worst}) | {spent:.1f} CPU-s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--part", choices=("rule", "affairs", "housing"), required=True)
    parser.add_argument("--sets", default="affairs,patches,adult,mnist", help="of the rule")
    parser.add_argument("--epsilon", type=float, nargs="*", help="instead of those of the page")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    {"rule": rule, "affairs": compare, "housing": values}[options.part](options)


if __name__ == "__main__":
    main()
