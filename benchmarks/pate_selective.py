"""What Confident- and Interactive-GNMax buy on MNIST at equal worst-case epsilon.

Same teachers, same budget, same student: a hundred medoids or three hundred random public inputs
are asked; plain GNMax answers all, Confident-GNMax pays for a check first and answers what passes,
Interactive-GNMax spends a second round where the first student and the teachers disagree, and noisy
votes release the histogram instead of its largest class. Accuracy of the released labels (an
unanswered query is left out) and of the label-spreading student, mean of random splits.

    python -m benchmarks.pate_selective --data DIR --epsilon 0.5 [--splits 5]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.mnist import splits
from tacit import PATEClassifier, Queries
from tacit.datasets import load_idx
from tacit.features import digit_features
from tacit.teachers import KernelRidgeTeachers

# Rounds of Interactive-GNMax share the queries, so that every row asks as many.
ROWS = {
    "gnmax": {"mechanism": "gnmax"},
    "confident-gnmax": {"mechanism": "confident-gnmax"},
    "interactive, 2 rounds": {"mechanism": "gnmax"},
    "noisy-votes": {"mechanism": "noisy-votes"},
}
ASKED = {"medoids": 100, "random": 300}


def main() -> None:
    options = parse()
    data = load_idx(options.data / "mnist")
    features = digit_features((28, 28))
    inside, outside = features.fit_transform(data.train.X), features.transform(data.test.X)
    start = time.process_time()
    table = Table("queries", "mechanism", "epsilon", "answered", "labels right", "student (min)")
    for strategy, queries in ASKED.items():
        for name, choice in ROWS.items():
            rounds = 2 if name.startswith("interactive") else 1
            runs = []
            for public, held_out in list(splits(options.splits).values())[1:]:
                model = PATEClassifier(
                    KernelRidgeTeachers(),
                    n_teachers=options.teachers,
                    epsilon=options.epsilon,
                    delta=1e-5,
                    queries=Queries(queries // rounds, strategy, rounds),
                    classes=tuple(range(10)),
                    random_state=0,
                    **choice,
                )
                model.fit(inside, data.train.y, X_public=outside[public])
                runs.append(figures(model, data.test.y[public], outside, held_out, data.test.y))
            table.add_row(f"{queries} {strategy}", name, *summary(runs))
    Console(width=100).print(table)
    print(f"{time.process_time() - start:.0f} CPU-s")


def figures(
    model: PATEClassifier,
    truth: np.ndarray,
    outside: np.ndarray,
    held_out: np.ndarray,
    labels: np.ndarray,
) -> tuple[float, int, float, float]:
    posterior = np.concatenate(model.posteriors_)
    answered = np.ptp(posterior, axis=1) > 1e-9
    right = posterior.argmax(axis=1) == truth[model.queries_]
    score = model.score(outside[held_out], labels[held_out])
    return model.ledger_.spent(), int(answered.sum()), float(right[answered].mean()), float(score)


def summary(runs: list[tuple[float, int, float, float]]) -> list[str]:
    epsilon, answered, right, score = (np.asarray(column) for column in zip(*runs, strict=True))
    return [
        f"{epsilon.max():.3f}",
        f"{answered.mean():.0f}",
        f"{100 * right.mean():.1f} %",
        f"{100 * score.mean():.2f} % ({100 * score.min():.1f})",
    ]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--teachers", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
