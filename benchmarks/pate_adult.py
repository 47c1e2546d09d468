"""PATE on UCI Adult at worst-case epsilon, with a student that regresses noisy vote shares.

Adult's training file is private, the first 11,000 rows of its test file are public inputs without
labels, the other 5,281 are held out. The recipe is the best found on California housing (`--set
housing`: price above 265,000 dollars, at the epsilon that gives teachers of as many records the
same noise); docs/results/pate-adult.md says what had been seen of Adult by then. Shards and noise
are new in every run.

    python -m benchmarks.pate_adult --data DIR [--epsilon 1.9 --teachers 500 --runs 5]
    python -m benchmarks.pate_adult --data DIR --queries 200 --all-students
    python -m benchmarks.pate_adult --data DIR --set housing --teachers 0 --runs 4
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from tacit import PATEClassifier, Queries
from tacit.datasets import load_adult
from tacit.features import Categorical, Numeric, PublicBins
from tacit.privacy import gaussian_epsilon, gaussian_mu
from tacit.students import LabelSpreadingStudent, SupervisedStudent
from tacit.teachers import KernelRidgeTeachers

DELTA = 1e-5
ADULT_PRIVATE = 32_561
RECORDS_PER_TEACHER = (32, 48, 64, 96, 128)  # tried on housing


class Problem(NamedTuple):
    """A binary task: private rows, public inputs, held-out rows, declared columns, a budget."""

    X: np.ndarray
    y: np.ndarray
    public: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray
    columns: tuple[Any, ...]
    epsilon: float


def adult(folder: Path, epsilon: float, seed: int) -> Problem:
    data = load_adult(folder / "adult")
    parts = data.split(public=11_000, held_out=5_281)
    private, public, held_out = parts
    return Problem(
        private.X, private.y, public.X, held_out.X, held_out.y, data.columns or (), epsilon
    )


HOUSING = (
    Numeric("longitude", np.arange(-124, -114, 0.5)),
    Numeric("latitude", np.arange(33, 42, 0.5)),
    Numeric("housing_median_age", range(5, 55, 5)),
    Numeric("total_rooms", (500, 1000, 1500, 2000, 2500, 3000, 4000, 6000)),
    Numeric("total_bedrooms", (100, 200, 300, 400, 500, 600, 800, 1200)),
    Numeric("population", (300, 600, 900, 1200, 1500, 2000, 3000)),
    Numeric("households", (100, 200, 300, 400, 500, 600, 800, 1200)),
    Numeric("median_income", (1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 10)),
    Categorical("ocean_proximity", ["<1H OCEAN", "INLAND", "NEAR OCEAN", "NEAR BAY", "ISLAND"]),
)


def housing_rows(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of California housing, and the prices."""
    with gzip.open(folder / "housing" / "california_housing.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    words = HOUSING[-1].categories
    X = np.array(
        [
            [*(float(row[c.name] or 0) for c in HOUSING[:-1]), words.index(row["ocean_proximity"])]
            for row in rows
        ]
    )
    return X, np.array([float(row["median_house_value"]) for row in rows])


def housing(folder: Path, epsilon: float, seed: int) -> Problem:
    """13,600 private, 4,600 public, 2,440 held-out rows; mu grows as the rows get fewer."""
    X, prices = housing_rows(folder)
    y = (prices > 265_000).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    mu = gaussian_mu(epsilon, DELTA) * ADULT_PRIVATE / 13_600
    scaled = float(gaussian_epsilon(DELTA, mu))
    return Problem(
        X[:13_600], y[:13_600], X[13_600:18_200], X[18_200:], y[18_200:], HOUSING, scaled
    )


@dataclass
class ShareStudent(ClassifierMixin):
    """Linear regression of released vote shares, whose noise is known and has mean zero.

    share = 1/2 + (R_1 - R_0)/(2 K), noise variance sigma^2/(2 K^2). Inputs: public bins, and for
    each numeric column its bin's rank, so that trends cost one weight. Weights of one column share
    a prior variance; these variances are fitted to the releases (evidence, by EM). With small
    shards every vote leans to the larger class, and shrinking leans further, so the threshold is
    not 1/2: the student says 1 as often, on the public inputs, as the teachers did on average. That
    average has hardly any noise, 1/(mu K). Public inputs and releases only.
    """

    columns: tuple[Any, ...]
    rounds: int = 60

    def fit(self, inputs: np.ndarray, shares: np.ndarray, variance: float) -> ShareStudent:
        """Learn from public inputs and the shares released on them."""
        rows = self._view(inputs)
        self.centre, mean = rows.mean(axis=0), float(shares.mean())
        self.weights = self._regress(rows - self.centre, shares - mean, variance)
        scores = (rows - self.centre) @ self.weights
        self.threshold = float(np.quantile(scores, 1 - np.clip(mean, 0, 1)))
        self.middle = 0.5 - mean
        return self

    def predict(self, inputs: np.ndarray, *, matched: bool = True) -> np.ndarray:
        """Return 0 or 1; `matched=False` cuts at a share of 1/2."""
        scores = (self._view(inputs) - self.centre) @ self.weights
        return (scores > (self.threshold if matched else self.middle)).astype(np.int64)

    def _view(self, inputs: np.ndarray) -> np.ndarray:
        bins = PublicBins(self.columns).transform(inputs).astype(np.float64)
        ends = np.cumsum([len(column.labels) for column in self.columns])
        parts = np.split(bins, ends[:-1], axis=1)
        ranks = [
            part[:, :-1] @ np.linspace(-1, 1, part.shape[1] - 1)
            for part, column in zip(parts, self.columns, strict=True)
            if isinstance(column, Numeric)
        ]
        sizes = [part.shape[1] for part in parts] + [1] * len(ranks)
        self.groups = np.repeat(np.arange(len(sizes)), sizes)
        return np.hstack([bins, np.array(ranks).T]) if ranks else bins

    def _regress(self, rows: np.ndarray, shares: np.ndarray, variance: float) -> np.ndarray:
        """Posterior mean of the weights; misfit adds to the noise, but never takes from it."""
        gram, moment, energy = rows.T @ rows, rows.T @ shares, shares @ shares
        prior = np.full(self.groups.max() + 1, 0.01)
        noise = variance
        for _ in range(self.rounds):
            scale = np.sqrt(prior[self.groups])
            inverse = np.linalg.inv(np.eye(scale.size) + gram * np.outer(scale, scale) / noise)
            spread = inverse * np.outer(scale, scale)
            weights = spread @ moment / noise
            error = energy - 2 * weights @ moment + weights @ gram @ weights
            noise = max(variance, (error + (gram * spread).sum()) / len(shares))
            moments = np.bincount(self.groups, weights**2 + np.diag(spread))
            prior = np.maximum(moments / np.bincount(self.groups), 1e-12)
        return weights


def share_student(model: PATEClassifier, problem: Problem) -> ShareStudent:
    """Fit the student to what the model released."""
    release = model.releases_[0]
    values, teachers = np.asarray(release.values, dtype=np.float64), model.n_teachers
    shares = 0.5 + (values[:, 1] - values[:, 0]) / (2 * teachers)
    variance = (release.mechanism.sigma**2 + 1 / 12) / (2 * teachers**2)
    return ShareStudent(problem.columns).fit(problem.public[model.queries_], shares, variance)


def teacher(name: str) -> Any:
    if name == "logistic":
        return LogisticRegression(C=10.0, max_iter=300)
    if name == "boosting":
        return HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=5, early_stopping=False)
    return KernelRidgeTeachers(gamma=0.1, alpha=0.01)


def run(problem: Problem, options: argparse.Namespace, teachers: int, seed: int) -> dict[str, Any]:
    """One release, every student on it."""
    start = time.process_time()
    everything = not options.queries
    model = PATEClassifier(
        teacher(options.teacher),
        SupervisedStudent(LogisticRegression(max_iter=1000)),
        n_teachers=teachers,
        epsilon=problem.epsilon,
        delta=DELTA,
        queries=Queries(strategy=np.arange(len(problem.public))) if everything else options.queries,
        features=PublicBins(problem.columns, unit_norm=True),
        classes=(0, 1),
        random_state=seed,
        allow_overlap=True,  # both of Adult's files hold a few rows that look the same
    )
    model.fit(problem.X, problem.y, X_public=problem.public)
    student = share_student(model, problem)
    bins, posterior = model.features_, np.concatenate(model.posteriors_)
    right = {
        "vote shares": student.predict(problem.held_out),
        "vote shares, threshold 1/2": student.predict(problem.held_out, matched=False),
        "logistic on posterior": model.predict(problem.held_out),
    }
    others = {
        "label spreading on posterior": LabelSpreadingStudent(features=bins),
        "boosting on posterior": SupervisedStudent(
            HistGradientBoostingClassifier(max_iter=50, max_depth=3, random_state=0)
        ),
    }
    for name, other in others.items() if options.all_students else ():
        right[name] = other.fit(problem.public, model.queries_, posterior).predict(problem.held_out)
    return {
        "epsilon": model.ledger_.spent(),
        **{name: float((label == problem.truth).mean()) for name, label in right.items()},
        "cpu seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    options = parse()
    load = {"adult": adult, "housing": housing}[options.set]
    private = ADULT_PRIVATE if options.set == "adult" else 13_600
    sizes = [private // n for n in RECORDS_PER_TEACHER]
    for teachers in [options.teachers] if options.teachers else sizes:
        rows = [
            run(load(options.data, options.epsilon, seed), options, teachers, seed)
            for seed in range(options.runs)
        ]
        summary: dict[str, Any] = {"teachers": teachers, "epsilon": max(r["epsilon"] for r in rows)}
        for name in list(rows[0])[1:-1]:
            accuracy = [row[name] for row in rows]
            summary[name] = {"mean": round(np.mean(accuracy), 4), "min": round(min(accuracy), 4)}
        summary["cpu seconds each"] = round(np.mean([row["cpu seconds"] for row in rows]), 1)
        print(json.dumps(summary), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--set", choices=("adult", "housing"), default="adult")
    parser.add_argument("--epsilon", type=float, default=1.9)
    parser.add_argument("--teachers", type=int, default=500, help="0 tries several numbers")
    parser.add_argument("--teacher", default="kernel-ridge", help="or logistic, boosting")
    parser.add_argument("--queries", type=int, default=0, help="medoids; 0 asks all public inputs")
    parser.add_argument("--all-students", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
