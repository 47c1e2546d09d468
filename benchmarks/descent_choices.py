"""How features and directions were chosen: on the training part of Fashion-MNIST.

20,000 of its images are private, with noise as if there were 60,000 (n mu is the same), 9,000 are
public and 6,000 scored; noise is simulated, the same for all. No test image is read. Directions and
power are those of the rule, unless they are given; clip, rate and steps always
(`benchmarks.linear_choices`).

Example: python -m benchmarks.descent_choices --features mirror patches --epsilon 0.1 1 3
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline, make_union

from benchmarks.linear_choices import Task, descended, framed
from tacit import load_dataset
from tacit.features import PublicKernel, PublicPatches, PublicWhitening, ScaledHOG, Scattering
from tacit.privacy import gaussian_mu

PRIVATE, PUBLIC, SCORED = slice(0, 20_000), slice(45_000, 54_000), slice(54_000, 60_000)
STANDS_FOR = 60_000
FEATURES: dict[str, Any] = {
    "plain": lambda: [ScaledHOG((28, 28)), PublicWhitening(300, power=0.5)],
    "mirror": lambda: [ScaledHOG((28, 28), mirror=True), PublicWhitening(300, power=0.5)],
    "scattering": lambda: [Scattering((28, 28)), PublicWhitening(500, power=0.5)],
    "mirror and scattering": lambda: [
        make_union(ScaledHOG((28, 28), mirror=True), Scattering((28, 28))),
        PublicWhitening(500, power=0.5),
    ],
    "patches and scattering": lambda: [
        make_union(PublicPatches((28, 28), mirror=True), Scattering((28, 28))),
        PublicWhitening(500, power=0.5),
    ],
    "patches": lambda: [PublicPatches((28, 28), mirror=True), PublicWhitening(500, power=0.5)],
}


def main() -> None:
    """Print the accuracy of each choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--features", choices=FEATURES, nargs="+", default=list(FEATURES))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.5, 1.0, 3.0])
    parser.add_argument("--dimensions", type=int)
    parser.add_argument("--power", type=float)
    parser.add_argument("--repeat", type=int, default=2)
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
    view = PublicWhitening(given.dimensions, power=given.power, strength=known).fit(parts[1])
    private, public, others = (view.transform(part) for part in parts)
    own, apart = framed(public, private, others)
    return descended(Task("", own, y[PRIVATE], apart, y[SCORED], known), (1.0, 1.0, 1.0), seed)


if __name__ == "__main__":
    main()
