"""Choose the settings of DP-MAC's and DP-SGD's classifiers for `tacit compare`, on other data.

USPS: of 11,000 images some are private and 1,000 held out; HOG features. Housing: 13,600 private
and 2,440 held-out rows in public bins, price above 265,000 dollars, at the epsilon that gives as
many records as Adult has the same weight against the noise. delta 1e-5, layers of 300 and 100 (none
for `linear`). Epochs, lots and rates are tried in turn. Nothing of the data sets that are compared
is seen. One split and one seed a line.

    python -m benchmarks.direct_choices --data DIR --method layerwise --rate 1e-2 3e-2
    python -m benchmarks.direct_choices --data DIR --method mac --z-steps 6 --z-rate 3e-2
    python -m benchmarks.direct_choices --data DIR --method linear --set housing --lots 0.25 1
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pate_adult import HOUSING, housing
from benchmarks.pate_choices import SIDE, usps
from tacit.features import PublicBins, digit_features
from tacit.methods import DPSGDClassifier, MACClassifier, MACSteps, Training

HELD_OUT = 1_000


class Problem(NamedTuple):
    """Private rows, held-out rows, in their public features, and the budget."""

    X: np.ndarray
    y: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray
    epsilon: float


def digits(options: argparse.Namespace) -> Problem:
    X, y = usps(options.data)
    rows = np.random.default_rng(0).permutation(len(y))[: options.private + HELD_OUT]
    view, labels, n = digit_features(SIDE).fit_transform(X[rows]), y[rows], options.private
    return Problem(view[:n], labels[:n], view[n:], labels[n:], options.epsilon)


def houses(options: argparse.Namespace) -> Problem:
    found = housing(options.data, options.epsilon, seed=0)
    view = PublicBins(HOUSING, unit_norm=True).fit(found.public)
    inside, outside = view.transform(found.X), view.transform(found.held_out)
    return Problem(inside, found.y, outside, found.truth, found.epsilon)


def build(
    options: argparse.Namespace, problem: Problem, epochs: float, lot: float, rate: float
) -> Any:
    common = {
        "epsilon": problem.epsilon,
        "n_records": len(problem.y),
        "classes": range(int(problem.y.max()) + 1),
        "random_state": 0,
    }
    batch = max(1, round(lot * len(problem.y)))
    training = Training(batch_size=batch, epochs=epochs, learning_rate=rate)
    if options.method == "mac":
        steps = MACSteps(z_steps=options.z_steps, z_rate=options.z_rate)
        return MACClassifier(training=training, steps=steps, **common)
    if options.method == "linear":
        flat = training.set_params(clipping="flat")
        return DPSGDClassifier(hidden=(), training=flat, **common)
    return DPSGDClassifier(training=training, **common)


def main() -> None:
    options = parse()
    problem = {"usps": digits, "housing": houses}[options.set](options)
    print(f"{options.method}, {len(problem.y):,} records of {options.set}, {problem.epsilon=:.3g}")
    for epochs, lot, rate in itertools.product(options.epochs, options.lots, options.rate):
        start = time.process_time()
        model = build(options, problem, epochs, lot, rate).fit(problem.X, problem.y)
        right = model.score(problem.held_out, problem.truth)
        seconds = time.process_time() - start
        print(
            f"{epochs:g} epochs, lots of {lot:g} of the records, rate {rate:g}: "
            f"{right:.3f}, {seconds:.0f} CPU-s",
            flush=True,
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=("usps", "housing"), default="usps")
    parser.add_argument("--method", choices=("linear", "layerwise", "mac"), default="layerwise")
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--private", type=int, default=2_000)
    parser.add_argument("--epochs", type=float, nargs="+", default=[20])
    parser.add_argument("--lots", type=float, nargs="+", default=[0.25])
    parser.add_argument("--rate", type=float, nargs="+", default=[1e-2, 3e-2])
    parser.add_argument("--z-steps", type=int, default=30)
    parser.add_argument("--z-rate", type=float, default=1e-3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
