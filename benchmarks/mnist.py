"""PATE on MNIST at worst-case epsilon: student accuracy on the papers' split and on random ones.

The 60,000 training images are private; 9,000 of the 10,000 test images are public inputs without
labels, the others are held out. Every choice (features, teachers' kernel, number of teachers and
queries, the students) was made on USPS (`benchmarks.pate_choices`); nothing here looks at held-out
images or private labels before the run. Noise is drawn anew in every run.

    python -m benchmarks.pate_mnist --data DIR [--epsilon 0.5 --teachers 1000 --queries 100] [--cnn]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from tacit import PATEClassifier
from tacit.datasets import load_idx
from tacit.features import Deskew, digit_features
from tacit.students import CNNStudent, LabelSpreadingStudent
from tacit.teachers import KernelRidgeTeachers


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
    features = digit_features((28, 28))
    inside, outside = features.fit_transform(train.X), features.transform(test.X)
    print(f"features of 70,000 images: {time.perf_counter() - start:.1f} s", flush=True)
    rows = []
    for name, (public, held_out) in splits(options.splits).items():
        start = time.perf_counter()
        model = PATEClassifier(
            KernelRidgeTeachers(),
            LabelSpreadingStudent(),
            n_teachers=options.teachers,
            epsilon=options.epsilon,
            delta=1e-5,
            queries=options.queries,
            mechanism=options.mechanism,
            rounds=options.rounds,
            classes=tuple(range(10)),
            random_state=options.seed,
        )
        model.fit(inside, train.y, X_public=outside[public])
        row = {
            "split": name,
            "epsilon": model.ledger_.spent(),
            "label spreading": model.score(outside[held_out], test.y[held_out]),
            "seconds": time.perf_counter() - start,
        }
        if options.cnn:
            start = time.perf_counter()
            student = CNNStudent(
                (28, 28),
                features=features,
                preprocess=Deskew((28, 28)),
                views=8,
                random_state=options.seed,
            )
            student.fit(test.X[public], model.queries_, np.concatenate(model.posteriors_))
            row["cnn"] = float((student.predict(test.X[held_out]) == test.y[held_out]).mean())
            row["cnn seconds"] = time.perf_counter() - start
        rows.append(row)
        print(json.dumps(row), flush=True)
    for student in ("label spreading", "cnn"):
        random = [row[student] for row in rows[1:] if student in row]
        if random:
            print(f"{student}: random splits mean {np.mean(random):.4f}, minimum {min(random):.4f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--teachers", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--mechanism", default="noisy-votes")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cnn", action="store_true", help="train the convolutional student too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
