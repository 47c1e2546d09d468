"""Private-kNN beyond one class: several labels (scene, yeast) and numbers (California housing).

Multi-label: training rows private, half of the test rows public inputs, the other half held out.
Housing: 15,000 rows private, 2,640 public inputs, 3,000 held out. A hundred medoids are asked (two
hundred for housing); the student is a Gaussian process that knows the noise. k follows from the
budget alone: as many neighbours as make the noise a tenth of what is measured, but at most 200 (a
thousand for housing). A first run of housing with k = 100 throughout had shown that a fixed k
drowns in noise at small epsilon; nothing else was changed. Worst-case epsilon at delta 1e-5; mean
of five noise draws, or `--runs`.

    python -m benchmarks.knn_values --data DIR [--only labels,numbers]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import f1_score, hamming_loss
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from tacit import PrivateKNNMultiLabelClassifier, PrivateKNNRegressor
from tacit.privacy import gaussian_mu

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
TAU = {"scene": 1.0, "yeast": 4.0}  # how many labels a record may bear in full
PLAIN_K = 20
QUERIES = {"labels": 100, "numbers": 200}
MOST = {"labels": 200, "numbers": 1000}
LOW, HIGH = 0.0, 500_000.0  # dollars; public knowledge of the census' cap


def neighbours(epsilon: float, sensitivity: float, what: str) -> int:
    """Return k with which the noise, sensitivity sqrt(queries)/(k mu), is a tenth."""
    noise = sensitivity * np.sqrt(QUERIES[what]) / gaussian_mu(epsilon, 1e-5)
    return int(min(np.ceil(10 * noise), MOST[what]))


def labels(data: Path, runs: int) -> Table:
    table = Table(
        "set", "epsilon", "clip", "threshold", "micro-F1", "Hamming loss", title="Several labels"
    )
    for name, tau in TAU.items():
        with np.load(data / "multilabel" / f"{name}.npz") as file:
            X, y = file["x_train"], file["y_train"]
            public, truth = file["x_test"][::2], file["y_test"][1::2]
            held_out = file["x_test"][1::2]
        near = KNeighborsRegressor(PLAIN_K).fit(X, y).predict(held_out) >= 0.5
        table.add_row(name, "-", f"{PLAIN_K}-NN, not private", "0.5", *scores(truth, near))
        for epsilon, clip, threshold in product(EPSILONS, ("l1", "l2"), (0.5, "matched")):
            private = (X, y, public, held_out, epsilon, clip, tau, threshold)
            pairs = [scores(truth, labelled(*private)) for _ in range(runs)]
            means = np.asarray(pairs, dtype=float).mean(axis=0)
            cells = (f"{value:.3f}" for value in means)
            table.add_row(name, f"{epsilon:g}", clip, str(threshold), *cells)
    return table


def labelled(
    X: Any,
    y: Any,
    public: Any,
    held_out: Any,
    epsilon: float,
    clip: str,
    tau: float,
    threshold: Any,
) -> np.ndarray:
    model = PrivateKNNMultiLabelClassifier(
        k=neighbours(epsilon, np.sqrt(2 * tau), "labels"),
        labels=y.shape[1],
        clip=(clip, tau),
        threshold=threshold,
        epsilon=epsilon,
        delta=1e-5,
        queries=QUERIES["labels"],
        features=StandardScaler(),
        random_state=0,
        allow_overlap=True,  # four rows of scene are in both files
    )
    return model.fit(X, y, X_public=public).predict(held_out)


def scores(truth: np.ndarray, predicted: np.ndarray) -> list[str]:
    return [
        f"{f1_score(truth, predicted, average='micro', zero_division=0):.3f}",
        f"{hamming_loss(truth, predicted):.3f}",
    ]


def numbers(data: Path, runs: int) -> Table:
    X, y = housing(data)
    order = np.random.default_rng(0).permutation(len(y))
    private, public, held_out = np.split(order, [15_000, 17_640])
    truth = y[held_out]
    scaler = StandardScaler().fit(X[public])
    near = KNeighborsRegressor(PLAIN_K).fit(scaler.transform(X[private]), y[private])
    table = Table("epsilon", "statistic", "RMSE, thousand dollars", "worst", title="Housing")
    table.add_row("-", "mean of all", *rmse(truth, [np.full(truth.size, y[private].mean())]))
    table.add_row(
        "-",
        f"{PLAIN_K}-NN, not private",
        *rmse(truth, [near.predict(scaler.transform(X[held_out]))]),
    )
    for epsilon in EPSILONS:
        for statistic in ("mean", "median"):
            found = []
            for _ in range(runs):
                model = PrivateKNNRegressor(
                    k=neighbours(epsilon, 1.0, "numbers"),
                    statistic=statistic,
                    target_range=(LOW, HIGH),
                    epsilon=epsilon,
                    delta=1e-5,
                    queries=QUERIES["numbers"],
                    features=StandardScaler(),
                    random_state=0,
                )
                found.append(
                    model.fit(X[private], y[private], X_public=X[public]).predict(X[held_out])
                )
            table.add_row(f"{epsilon:g}", statistic, *rmse(truth, found))
    return table


def rmse(truth: np.ndarray, predictions: list[np.ndarray]) -> list[str]:
    errors = [float(np.sqrt(((one - truth) ** 2).mean())) / 1000 for one in predictions]
    return [f"{np.mean(errors):.1f}", f"{max(errors):.1f}"]


def housing(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return eight numeric columns, skewed counts as logarithms, and the house value in dollars."""
    with gzip.open(data / "housing" / "california_housing.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    y = np.array([float(row.pop("median_house_value")) for row in rows])
    names = [name for name in rows[0] if name != "ocean_proximity"]
    X = np.array([[float(row[name] or 0) for name in names] for row in rows])
    counts = [place for place, name in enumerate(names) if name not in ("longitude", "latitude")]
    X[:, counts] = np.log1p(X[:, counts])
    return X, y


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="labels,numbers")
    return parser.parse_args()


def main() -> None:
    options = parse()
    console = Console(width=90)
    for part in options.only.split(","):
        console.print({"labels": labels, "numbers": numbers}[part](options.data, options.runs))


if __name__ == "__main__":
    main()
