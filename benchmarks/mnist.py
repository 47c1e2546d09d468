"""MNIST at worst-case epsilon: student accuracy on the papers' split and on random ones.

The 60,000 training images are private; 9,000 of the 10,000 test images are public inputs without
labels, the others are held out. Every choice (features, teachers' kernel, number of teachers,
neighbours and queries, the students) was made on USPS (`benchmarks.pate_choices`,
`benchmarks.knn_choices`); nothing here looks at held-out images or private labels before the run.
Noise is drawn anew in every run.

    python -m benchmarks.mnist --data DIR --method pate --epsilon 0.5 --teachers 1000 [--cnn]
    python -m benchmarks.mnist --data DIR --method knn --epsilon 0.2 --k 1200 [--rate 0.05]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit import PATEClassifier, PrivateKNNClassifier
from tacit.datasets import load_idx
from tacit.features import Deskew, digit_features
from tacit.students import CNNStudent
from tacit.teachers import KernelRidgeTeachers

SIDE = (28, 28)
STUDENTS = ("label spreading", "cnn and graph", "cnn alone")


def splits(count: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return public and held-out rows of the test set: the papers' split, then random ones."""
    rows = np.arange(10_000)
    result = {"papers": (rows[:9000], rows[9000:])}
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(10_000)
        result[f"random {seed}"] = (order[:9000], order[9000:])
    return result


def main() -> None:
    options = parse()
    data = load_idx(options.data / "mnist")
    train, test = data.train, data.test
    start = time.perf_counter()
    features = digit_features(SIDE)
    inside, outside = features.fit_transform(train.X), features.transform(test.X)
    print(f"features of 70,000 images: {time.perf_counter() - start:.1f} s", flush=True)
    rows = []
    for name, (public, held_out) in splits(options.splits).items():
        start = time.perf_counter()
        model = make(options).fit(inside, train.y, X_public=outside[public])
        row = {
            "split": name,
            "epsilon": round(model.ledger_.spent(), 6),
            "label spreading": model.score(outside[held_out], test.y[held_out]),
            "seconds": round(time.perf_counter() - start, 1),
        }
        if options.cnn:
            row |= convolutional(options, model, test.X[public], test.X[held_out], test.y[held_out])
        rows.append(row)
        print(json.dumps(row), flush=True)
    for student in STUDENTS:
        random = [row[student] for row in rows[1:] if student in row]
        if random:
            print(f"{student}: random splits mean {np.mean(random):.4f}, minimum {min(random):.4f}")


def make(options: argparse.Namespace) -> Any:
    """Return the unfitted estimator; its inputs are features already."""
    common = {
        "epsilon": options.epsilon,
        "delta": 1e-5,
        "queries": options.queries,
        "rounds": options.rounds,
        "classes": tuple(range(10)),
        "random_state": options.seed,
    }
    if options.method == "knn":
        mechanism = options.mechanism or "sampled-votes"
        return PrivateKNNClassifier(
            k=options.k, sampling_rate=options.rate, mechanism=mechanism, **common
        )
    mechanism = options.mechanism or "noisy-votes"
    return PATEClassifier(
        KernelRidgeTeachers(), n_teachers=options.teachers, mechanism=mechanism, **common
    )


def convolutional(
    options: argparse.Namespace,
    model: Any,
    public: np.ndarray,
    held_out: np.ndarray,
    truth: np.ndarray,
) -> dict[str, float]:
    """Train the convolutional student on the same releases: with and without its graph's vote."""
    start = time.perf_counter()
    student = CNNStudent(
        SIDE,
        features=digit_features(SIDE),
        preprocess=Deskew(SIDE),
        views=8,
        random_state=options.seed,
    ).fit(public, model.queries_, np.concatenate(model.posteriors_))
    both = float((student.predict(held_out) == truth).mean())
    seconds = round(time.perf_counter() - start, 1)
    alone = float((student.set_params(graph_share=0.0).predict(held_out) == truth).mean())
    return {"cnn and graph": both, "cnn alone": alone, "cnn seconds": seconds}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--method", choices=("pate", "knn"), default="pate")
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--teachers", type=int, default=1000)
    parser.add_argument("--k", type=int, default=1200)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--mechanism")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cnn", action="store_true", help="train the convolutional student too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
