"""How features, steps and directions were chosen: on the training part of Fashion-MNIST.

25,000 of its images are private, with noise as if there were 60,000 (n mu is the same), 9,000 are
public and 6,000 scored; noise is simulated. No test image is read. Directions, power and steps are
those of the rule, unless they are given.

Example: python -m benchmarks.descent_choices --features mirror patches --epsilon 0.1 1 3
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from tacit import load_dataset
from tacit.features import PublicKernel, PublicPatches, PublicWhitening, ScaledHOG
from tacit.methods.linear_steps import steps_borne
from tacit.privacy import gaussian_mu

PRIVATE, PUBLIC, SCORED = slice(0, 25_000), slice(45_000, 54_000), slice(54_000, 60_000)
STANDS_FOR = 60_000
FEATURES: dict[str, Any] = {
    "plain": lambda: [ScaledHOG((28, 28)), PublicWhitening(300, power=0.5)],
    "mirror": lambda: [ScaledHOG((28, 28), mirror=True), PublicWhitening(300, power=0.5)],
    "patches": lambda: [PublicPatches((28, 28), mirror=True), PublicWhitening(500, power=0.5)],
}


def descended(
    view: NDArray[np.float32], y: NDArray[np.intp], mu: float, steps: int, rate: float, seed: int
) -> NDArray[np.float32]:
    """Return weights after noisy steps of all rows, with momentum and a rate that falls to 0."""
    draw, count = np.random.default_rng(seed), int(y.max()) + 1
    labels = np.eye(count, dtype=np.float32)[y]
    weights = np.zeros((view.shape[1], count), dtype=np.float32)
    speed = np.zeros_like(weights)
    for step in range(steps):
        scores = 10 * (view @ weights)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        residual = labels - powers / powers.sum(axis=1, keepdims=True)
        residual /= np.maximum(1, np.linalg.norm(residual, axis=1, keepdims=True))
        noise = draw.normal(0, math.sqrt(steps) / mu, weights.shape)
        speed = 0.9 * speed + ((view.T @ residual + noise) / len(y)).astype(np.float32)
        weights = weights + rate * 0.5 * (1 + math.cos(math.pi * step / steps)) * speed
    return weights


def main() -> None:
    """Print the accuracy of each choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--features", choices=FEATURES, nargs="+", default=list(FEATURES))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.5, 1.0, 3.0])
    parser.add_argument("--dimensions", type=int)
    parser.add_argument("--power", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    data = load_dataset(f"mnist:{given.folder}")
    X, y = np.asarray(data.X)[:60_000], np.asarray(data.y)[:60_000].astype(np.intp)
    for name in given.features:
        first = make_pipeline(*FEATURES[name](), PublicKernel()).fit(X[PUBLIC])
        parts = [first.transform(X[rows]) for rows in (PRIVATE, PUBLIC, SCORED)]
        for epsilon in given.epsilon:
            found = np.mean(
                [scored(given, epsilon, parts, y, seed) for seed in range(given.repeat)]
            )
            print(f"{name}, epsilon {epsilon:g}: {100 * float(found):.2f} %", flush=True)


def scored(given: Any, epsilon: float, parts: Any, y: NDArray[np.intp], seed: int) -> float:
    """Return the accuracy of one noisy descent, on training images that it did not see."""
    known = float(gaussian_mu(epsilon, 1e-5)) * STANDS_FOR
    white = PublicWhitening(given.dimensions, power=given.power, strength=known).fit(parts[1])
    private, others = white.transform(parts[0]), white.transform(parts[2])
    steps, mu = given.steps or steps_borne(known), known / len(private)
    weights = descended(private, y[PRIVATE], mu, steps, given.rate, seed)
    return float(np.mean((others @ weights).argmax(1) == y[SCORED]))


if __name__ == "__main__":
    main()
