"""Choose the number of teachers and queries for MNIST on USPS, so that no private record is seen.

What counts is how noisy a query's votes are: with n records of which a teacher has r, K = n/r
teachers, and the noise of Q queries is sigma = sqrt(2 Q)/mu. USPS has fewer records than MNIST, so
its mu is larger by the same factor: noise and teachers then stand in the same ratio for equal r and
Q, and the best r and Q of one are a guess for the other. 8,000 images private, 2,000 public inputs,
1,000 held out, five random splits.

    python -m benchmarks.pate_choices --data DIR --epsilon 0.5
    python -m benchmarks.pate_choices --data DIR --epsilon 0.5 --cnn 30

With `--cnn R` the convolutional student's variants are compared instead, at R records a teacher.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from tacit import NoisyVotes, PATEClassifier
from tacit.features import Deskew, digit_features
from tacit.privacy import gaussian_mu
from tacit.students import CNNStudent
from tacit.teachers import KernelRidgeTeachers

PRIVATE, PUBLIC, TARGET = 8_000, 2_000, 60_000
RECORDS = (10, 15, 30, 60, 120)
QUERIES = (50, 100, 200)
SIDE = (16, 16)
# MNIST has 4.5 times as many public images, so as many steps are as many fewer epochs.
VARIANTS = {
    "deskew": (False,),
    "epochs": (12, 25),
    "views": (1,),
    "channels": ((16, 32, 48), (32, 64, 128)),
    "rate": (0.002, 0.008),
}


def main() -> None:
    options = parse()
    X, y = usps(options.data)
    view = digit_features(SIDE).fit_transform(X)
    mu = gaussian_mu(options.epsilon, 1e-5) * TARGET / PRIVATE
    print(f"epsilon {options.epsilon} on {TARGET:,} records: mu {mu:.3f} on {PRIVATE:,} of USPS")
    if options.cnn:
        compare_networks(X, view, y, options, mu)
        return
    print("records a teacher | queries: held-out accuracy, mean (min) of random splits")
    for records in RECORDS:
        line = [f"{records:4d}"]
        for queries in QUERIES:
            scores = [accuracy(view, y, records, queries, mu, s) for s in range(options.splits)]
            line.append(f"{queries}: {np.mean(scores):.4f} ({min(scores):.3f})")
        print(" | ".join(line), flush=True)


def accuracy(
    view: np.ndarray, y: np.ndarray, records: int, queries: int, mu: float, seed: int
) -> float:
    _, _, held_out = split(len(y), seed)
    model = taught(view, y, records, queries, mu, seed)
    return float(model.score(view[held_out], y[held_out]))


def split(n: int, seed: int) -> list[np.ndarray]:
    """Return private, public and held-out rows."""
    return np.split(np.random.default_rng(seed).permutation(n), [PRIVATE, PRIVATE + PUBLIC])


def taught(
    view: np.ndarray, y: np.ndarray, records: int, queries: int, mu: float, seed: int
) -> PATEClassifier:
    private, public, _ = split(len(y), seed)
    model = PATEClassifier(
        KernelRidgeTeachers(),
        n_teachers=PRIVATE // records,
        mechanism=NoisyVotes(sigma=float(np.sqrt(2 * queries) / mu)),
        epsilon=1e3,
        delta=1e-5,
        queries=queries,
        classes=tuple(range(10)),
        random_state=seed,
    )
    return model.fit(view[private], y[private], X_public=view[public])


def compare_networks(
    X: np.ndarray, view: np.ndarray, y: np.ndarray, options: argparse.Namespace, mu: float
) -> None:
    """Print the held-out accuracy of variants of `CNNStudent` on the same releases.

    The network alone, half network and half graph, and the graph alone are one student each.
    """
    models = [taught(view, y, options.cnn, 100, mu, seed) for seed in range(options.splits)]
    base = {"deskew": True, "epochs": 50, "views": 8, "channels": (32, 64, 96), "rate": 0.004}
    print("mean (min): network alone | half and half | graph alone")
    for changed in ({}, *({key: value} for key, values in VARIANTS.items() for value in values)):
        scores = [network_scores(X, y, model, s, base | changed) for s, model in enumerate(models)]
        means, least = np.mean(scores, axis=0), np.min(scores, axis=0)
        cells = [f"{mean:.4f} ({low:.3f})" for mean, low in zip(means, least, strict=True)]
        print(f"{changed or base}: {' | '.join(cells)}", flush=True)


def network_scores(
    X: np.ndarray, y: np.ndarray, model: PATEClassifier, seed: int, v: dict[str, Any]
) -> list[float]:
    """Return the accuracy of one trained network with no, half and all of its graph's vote."""
    _, public, held_out = split(len(y), seed)
    student = CNNStudent(
        SIDE,
        features=digit_features(SIDE),
        preprocess=Deskew(SIDE) if v["deskew"] else None,
        channels=v["channels"],
        epochs=v["epochs"],
        views=v["views"],
        learning_rate=v["rate"],
        random_state=seed,
    ).fit(X[public], model.queries_, np.concatenate(model.posteriors_))
    predicted = [
        student.set_params(graph_share=share).predict(X[held_out]) for share in (0.0, 0.5, 1.0)
    ]
    return [float((labels == y[held_out]).mean()) for labels in predicted]


def usps(data: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data / "usps" / "usps_1100_per_class.npz") as file:
        names = file.files
        X, y = file[names[0]], file[names[1]]
    return X.reshape(len(X), -1).astype(np.float64), y.astype(np.int64).ravel()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--cnn", type=int, metavar="R", help="compare networks, R records each")
    return parser.parse_args()


if __name__ == "__main__":
    main()
