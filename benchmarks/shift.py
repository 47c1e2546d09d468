"""Public inputs of another kind: what residual moments and the other methods make of them.

For each set and shift of `benchmarks.shift_data`: the score on held-out rows of two plain rounds
(residual ridge before it was corrected), of one plain round, and of the estimator as it is.

    python -m benchmarks.shift --data DIR --sets usps,mnist --epsilon 0.5,2 [--runs 3]

How often warnings are given: `benchmarks.shift_warnings`.

Scores are accuracies, for prices R^2. The plain rounds have 5 % of mu^2 for counts and share the
rest, with simulated noise; S is n mu.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shift_data import SETS, Shifted, shifts_of
from tacit import (
    InsecureNoise,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.mechanisms import NoisySum
from tacit.methods.residual_rounds import believed_level, level_of, residuals_of
from tacit.methods.summary import COUNT_SHARE, measured
from tacit.privacy import gaussian_mu
from tacit.records import PrivateRecords
from tacit.summaries import Descent, longest_label, one_hot

DELTA = 1e-5
PRICES = (0.0, 500_000.0)


def main() -> None:
    options = parse()
    print("set | shift | S | two rounds | one round | as it is | counts for most")
    for name in options.sets.split(","):
        for epsilon in map(float, options.epsilon.split(",")):
            compare(name, epsilon, options)


def compare(name: str, epsilon: float, options: argparse.Namespace) -> None:
    found: dict[str, list[Any]] = {}
    for run in range(options.runs):
        for task in shifts_of(name, options.data, run, options.only):
            some = task._replace(X=task.X[: options.records], y=task.y[: options.records])
            found.setdefault(task.shift, []).append(scores(some, epsilon, run))
            strength = len(some.y) * gaussian_mu(epsilon, DELTA)
    for shift, rows in found.items():
        numbers = np.mean([row[:3] for row in rows], axis=0)
        shown = " | ".join(f"{number:.3f}" for number in numbers)
        print(f"{name} | {shift} | {strength:.0f} | {shown} | {rows[-1][3]}", flush=True)


def scores(task: Shifted, epsilon: float, seed: int) -> tuple[float, float, float, str]:
    model = estimator(task, epsilon, seed)
    two, one = (plain(model, task, rounds, seed) for rounds in (2, 1))
    model.fit(task.X, task.y, X_public=task.public)
    best = max(model.candidates_, key=model.candidates_.__getitem__)
    return two, one, float(model.score(task.held_out, task.truth)), best


def estimator(task: Shifted, epsilon: float, seed: int) -> Any:
    own = {"epsilon": epsilon, "delta": DELTA, "random_state": seed, "noise": InsecureNoise(seed)}
    own["allow_overlap"] = True  # tables hold a few rows that look the same
    if task.set == "prices":
        return ResidualRidgeRegressor(target_range=PRICES, **own)
    return ResidualRidgeClassifier(classes=task.classes, **own)


def plain(model: Any, task: Shifted, rounds: int, seed: int) -> float:
    """Return the score of plain rounds, which believe the public covariance."""
    noise, values = InsecureNoise(1000 + seed), task.set == "prices"
    columns = 1 if values else len(task.classes)
    public = model._prepare(task.public, columns)
    low, high = PRICES
    targets = (
        (task.y - low) / (high - low) * 2 - 1 if values else np.searchsorted(task.classes, task.y)
    )
    private = PrivateRecords(task.X, targets, None).seen_in(public.space, public.look)
    sigma = model._gaussian_noise()
    if values:
        first = NoisySum(sigma / COUNT_SHARE**0.5, 1, 3).release(level_of(private), noise)
        total, level, variance = believed_level(first)
        descent = Descent(public.view, total, 1, variance=variance)
        clip, about = 1 + abs(level), lambda rows: targets[rows, None] - level
    else:
        counts = np.bincount(targets, minlength=columns) + np.random.default_rng(seed).normal(
            scale=sigma / COUNT_SHARE**0.5, size=columns
        )
        total, level = max(counts.sum(), 1.0), np.maximum(counts, sigma / COUNT_SHARE**0.5)
        level = level / level.sum()
        descent = Descent(public.view, total, columns, classes=True)
        clip, about = longest_label(level), one_hot(targets, columns, level)
    each = NoisySum(sigma / ((1 - COUNT_SHARE) / rounds) ** 0.5, public.view.shape[1], columns)
    for _ in range(rounds):
        said = residuals_of(private, about, descent.weights, clip)
        descent.step(*measured(each.release(said, noise), clip))
        clip = min(clip, 0.5)
    seen = public.look(public.space.view(task.held_out)) * 2.0**-14
    scores = seen @ descent.weights + level
    if not values:
        return float((scores.argmax(axis=1) == np.searchsorted(task.classes, task.truth)).mean())
    said = np.clip((scores[:, 0] + 1) / 2 * (high - low) + low, low, high)
    return float(
        1 - ((said - task.truth) ** 2).sum() / ((task.truth - task.truth.mean()) ** 2).sum()
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilon", default="0.5,2")
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default="", help="shifts whose name holds this")
    return parser.parse_args()


if __name__ == "__main__":
    main()
