"""Records that speak once: MNIST and Adult at small worst-case epsilon.

MNIST: 60,000 training images private, 9,000 of the test images public inputs without labels, 1,000
held out: the papers' split and random ones. Adult: the training file private, the first 11,000
rows of the test file public, the other 5,281 held out. Housing (`--set housing`) is where the
choices for Adult were made, at the epsilon that gives as many rows the same noise; `--choices`
shows prototypes and votes on USPS. docs/results/speak-once.md says what had been seen of the data.
Each epsilon is that of adding or removing a record; that of replacing one is printed beside it.
Noise is drawn anew in every run.

    python -m benchmarks.speak_once --data DIR --set mnist --epsilon 0.1 --prototypes 300 [--cnn]
    python -m benchmarks.speak_once --data DIR --set mnist --method ridge --epsilon 0.5
    python -m benchmarks.speak_once --data DIR --set adult --epsilon 0.1 --runs 10
    python -m benchmarks.speak_once --data DIR --set mnist --shift
    python -m benchmarks.speak_once --data DIR --choices --epsilon 0.1
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import rotate

from benchmarks.mnist import SIDE, convolutional, splits
from benchmarks.pate_adult import adult, housing
from benchmarks.pate_choices import PRIVATE, TARGET, split, usps
from benchmarks.pate_choices import SIDE as USPS_SIDE
from tacit import MomentClassifier, PrototypeClassifier, ResidualRidgeClassifier
from tacit.datasets import load_idx
from tacit.features import PublicBins, digit_features
from tacit.privacy import gaussian_epsilon, gaussian_mu
from tacit.students import LabelSpreadingStudent

DELTA = 1e-5
DIGITS = tuple(range(10))


def replacing(epsilon: float, factor: float) -> float:
    """Epsilon where a record is replaced, which moves the sums by `factor` times as much."""
    return round(float(gaussian_epsilon(DELTA, factor * gaussian_mu(epsilon, DELTA))), 4)


def digit_model(options: argparse.Namespace, **changes: Any) -> Any:
    """Return the unfitted classifier; its inputs are features already."""
    common = {
        "epsilon": options.epsilon,
        "delta": DELTA,
        "classes": DIGITS,
        "random_state": options.seed,
    } | changes
    if options.method == "ridge":
        student = LabelSpreadingStudent() if options.spread else None
        return ResidualRidgeClassifier(student, **common)
    student = None if options.rule else LabelSpreadingStudent()
    return PrototypeClassifier(
        student, n_prototypes=options.prototypes, votes=options.votes, **common
    )


def mnist(options: argparse.Namespace) -> None:
    data = load_idx(options.data / "mnist")
    train, test = data.train, data.test
    start = time.process_time()
    features = digit_features(SIDE)
    inside, outside = features.fit_transform(train.X), features.transform(test.X)
    print(f"features of 70,000 images: {time.process_time() - start:.1f} CPU-s", flush=True)
    rows = []
    for name, (public, held_out) in splits(options.splits).items():
        start = time.process_time()
        model = digit_model(options).fit(inside, train.y, X_public=outside[public])
        # A residual may point anywhere, a vote has no negative entry.
        factor = 2.0 if options.method == "ridge" else math.sqrt(2)
        row = {
            "split": name,
            "epsilon": round(model.ledger_.spent(), 6),
            "epsilon, replacing": replacing(options.epsilon, factor),
            "student": model.score(outside[held_out], test.y[held_out]),
            "cpu seconds": round(time.process_time() - start, 1),
        }
        if options.cnn:
            model.queries_, model.posteriors_ = model.prototypes_, [model.posterior_]
            row |= convolutional(options, model, test.X[public], test.X[held_out], test.y[held_out])
        rows.append(row)
        print(json.dumps(row), flush=True)
    for student in ("student", "cnn and graph", "cnn alone"):
        if random := [row[student] for row in rows[1:] if student in row]:
            print(f"{student}: random splits mean {np.mean(random):.4f}, minimum {min(random):.4f}")


def turned(images: Any, angle: float) -> Any:
    """Return the features of images that are turned about their middle."""
    grey = np.asarray(images, dtype=np.float64).reshape(-1, *SIDE)
    flat = rotate(grey, angle, axes=(1, 2), reshape=False, order=1).reshape(len(grey), -1)
    return digit_features(SIDE).fit_transform(flat)


def shift(options: argparse.Namespace) -> None:
    """Public inputs of another kind: turned, of USPS, or without some of the classes."""
    data = load_idx(options.data / "mnist")
    train, test = data.train, data.test
    features = digit_features(SIDE)
    inside, outside = features.fit_transform(train.X), features.transform(test.X)
    public, held_out = splits(1)["random 0"]
    images, _ = usps(options.data)
    foreign = digit_features(USPS_SIDE).fit_transform(images)[:9000]
    few = public[test.y[public] > 2]
    for name, view in {
        "as the private ones": outside[public],
        **{f"turned by {angle} degrees": turned(test.X[public], angle) for angle in (15, 30, 60)},
        "USPS digits": foreign,
        "without the digits 0 to 2": outside[few],
    }.items():
        model = digit_model(options).fit(inside, train.y, X_public=view)
        right = model.predict(outside[held_out]) == test.y[held_out]
        known = test.y[held_out] > 2
        result = {"public inputs": name, "right": float(right.mean())}
        print(json.dumps(result | {"right on 3 to 9": float(right[known].mean())}), flush=True)


def tables(options: argparse.Namespace) -> None:
    load = {"adult": adult, "housing": housing}[options.set]
    scores, epsilon, start = [], 0.0, time.process_time()
    for run in range(options.runs):
        problem = load(options.data, options.epsilon, run)
        model = MomentClassifier(
            epsilon=problem.epsilon,
            delta=DELTA,
            rounds=options.rounds,
            features=PublicBins(problem.columns, unit_norm=True),
            classes=(0, 1),
            allow_overlap=True,  # both of Adult's files hold a few rows that look the same
        )
        model.fit(problem.X, problem.y, X_public=problem.public)
        scores.append(model.score(problem.held_out, problem.truth))
        epsilon = max(epsilon, model.ledger_.spent())
    result = {
        "set": options.set,
        "epsilon": round(epsilon, 6),
        "epsilon, replacing": replacing(epsilon, 2.0),
        "mean": round(float(np.mean(scores)), 4),
        "min": round(float(min(scores)), 4),
        "runs": options.runs,
        "cpu seconds each": round((time.process_time() - start) / options.runs, 1),
    }
    print(json.dumps(result), flush=True)


def choices(options: argparse.Namespace) -> None:
    """Prototypes and votes on USPS, with as much noise for each record as on MNIST."""
    images, y = usps(options.data)
    view = digit_features(USPS_SIDE).fit_transform(images)
    mu = gaussian_mu(options.epsilon, DELTA) * TARGET / PRIVATE
    scaled = float(gaussian_epsilon(DELTA, mu))
    for options.prototypes in (50, 100, 200, 300):
        line = [f"{options.prototypes:4d} prototypes"]
        for options.votes in (1, 3, 5):
            scores = []
            for seed in range(options.splits):
                private, public, held_out = split(len(y), seed)
                model = digit_model(options, epsilon=scaled, random_state=seed)
                model.fit(view[private], y[private], X_public=view[public])
                scores.append(model.score(view[held_out], y[held_out]))
            line.append(f"{options.votes} votes {np.mean(scores):.4f} ({min(scores):.3f})")
        print(" | ".join(line), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--set", choices=("mnist", "adult", "housing"), default="mnist")
    parser.add_argument("--method", choices=("prototypes", "ridge"), default="prototypes")
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--prototypes", type=int, default=300)
    parser.add_argument("--votes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="of moments, for tables")
    parser.add_argument("--runs", type=int, default=10, help="noise draws, for tables")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cnn", action="store_true", help="train the convolutional student too")
    parser.add_argument("--rule", action="store_true", help="let the table choose the student")
    parser.add_argument("--spread", action="store_true", help="spread what the ridge says")
    parser.add_argument("--shift", action="store_true", help="public inputs of another kind")
    parser.add_argument("--choices", action="store_true", help="try prototypes and votes on USPS")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.choices:
        choices(options)
    elif options.shift:
        shift(options)
    elif options.set == "mnist":
        mnist(options)
    else:
        tables(options)


if __name__ == "__main__":
    main()
