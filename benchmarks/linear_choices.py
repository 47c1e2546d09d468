"""How clip, rate and steps of linear noisy steps were chosen: on training parts of image sets.

Three tasks, none of which reads a test image. 20,000 of the training images of Fashion-MNIST, with
noise as if there were 60,000 (n mu is the same) and whitened `image_features`; and 8,000 of the
training images of Fashion-MNIST and of MNIST with `digit_features`. Others of the same part are
public or scored. All records take part in every step, and noise is simulated, the same for every
choice. A choice is clip:rate:steps, in parts of the rule's own.

Example: python -m benchmarks.linear_choices --data DIR --choices 4:1:1 2:1:1 1:1:1 1:1:2
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from tacit import load_dataset
from tacit.features import PublicWhitening, digit_features, image_features
from tacit.methods.linear_steps import _REACH, _SHARE, steps_borne
from tacit.privacy import gaussian_mu

Rows = NDArray[np.float32]
SMALL, PUBLIC, SCORED = slice(0, 8000), slice(8000, 9500), slice(9500, 16_000)


class Task(NamedTuple):
    """Private rows and scored ones, as the public frame shows them, and n mu."""

    name: str
    X: Rows
    y: NDArray[np.intp]
    others: Rows
    truth: NDArray[np.intp]
    known: float


def framed(public: Rows, *parts: Rows) -> list[Rows]:
    """Centre parts by public rows, and scale them to the length sqrt d."""
    centre = public.mean(axis=0)
    scale = math.sqrt(float(np.square(public - centre).mean()))
    return [np.asarray((part - centre) / scale, dtype=np.float32) for part in parts]


def tasks(folders: dict[str, Path], epsilons: list[float], seeds: int) -> Iterator[Task]:
    mus = [float(gaussian_mu(epsilon, 1e-5)) for epsilon in epsilons]
    for name, folder in folders.items():
        data = load_dataset(f"mnist:{folder}")
        X, y = np.asarray(data.X)[:60_000], np.asarray(data.y)[:60_000].astype(np.intp)
        for seed in range(seeds):
            rows = np.random.default_rng(seed).permutation(60_000)[:16_000]
            view, labels = digit_features((28, 28)).fit_transform(X[rows]), y[rows]
            own, scored = framed(view[PUBLIC], view[SMALL], view[SCORED])
            for mu in mus:
                known = 8000 * mu
                yield Task(f"{name}, 8,000", own, labels[SMALL], scored, labels[SCORED], known)
        if name == "fashion":
            yield from whitened(X, y, mus)


def whitened(X: Rows, y: NDArray[np.intp], mus: list[float]) -> Iterator[Task]:
    own, public, scored = slice(0, 20_000), slice(45_000, 54_000), slice(54_000, 60_000)
    *first, _ = [step for _, step in image_features((28, 28)).steps]
    seen = make_pipeline(*first).fit(X[public])
    parts = [seen.transform(X[rows]) for rows in (public, own, scored)]
    for mu in mus:
        view = PublicWhitening(strength=60_000 * mu).fit(parts[0])
        rows, others = framed(*(view.transform(parts[place]) for place in (0, 1, 2)))
        yield Task("fashion, as 60,000", rows, y[own], others, y[scored], 60_000 * mu)


def descended(task: Task, choice: tuple[float, float, float], seed: int) -> float:
    """Return the accuracy after noisy steps of all rows, with momentum and a falling rate."""
    shorter, faster, more = choice
    steps = max(2, round(more * steps_borne(task.known)))
    X = np.hstack([task.X, np.ones((len(task.X), 1), dtype=np.float32)])
    root = math.sqrt(task.X.shape[1])
    clip, rate = shorter * _SHARE * root, faster * _REACH / root
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    labels = np.eye(int(task.y.max()) + 1, dtype=np.float32)[task.y]
    draw = np.random.default_rng(seed)
    weights = np.zeros((X.shape[1], labels.shape[1]), dtype=np.float32)
    speed, noise = np.zeros_like(weights), math.sqrt(steps) / (task.known / len(X))
    for step in range(steps):
        scores = X @ weights
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        slopes = powers / powers.sum(axis=1, keepdims=True) - labels
        norms = np.linalg.norm(slopes, axis=1, keepdims=True) * lengths
        slopes /= np.maximum(norms, clip)  # parts of norm at most 1
        total = X.T @ slopes + draw.normal(0, noise, weights.shape).astype(np.float32)
        speed = 0.9 * speed + total / len(X)
        weights -= rate * (1 - 0.98 * step / max(1, steps - 1)) * speed
    others = np.hstack([task.others, np.ones((len(task.others), 1), dtype=np.float32)])
    return float(((others @ weights).argmax(axis=1) == task.truth).mean())


def main() -> None:
    """Print the accuracy of each choice for each task, and how far each is from the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="holds mnist/")
    parser.add_argument("--fashion", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.5, 2.0, 8.0])
    parser.add_argument("--choices", nargs="+", default=["4:1:1", "2:1:1", "1:1:1", "1:1:2"])
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    choices: list[Any] = [tuple(map(float, one.split(":"))) for one in given.choices]
    found: dict[tuple[str, int], list[list[float]]] = {}
    folders = {"fashion": given.fashion, "mnist": given.data / "mnist"}
    for task in tasks(folders, given.epsilon, given.seeds):
        row = [100 * descended(task, choice, given.seeds) for choice in choices]
        found.setdefault((task.name, round(task.known)), []).append(row)
    print("clip:rate:steps ", *(f"{one:>9}" for one in given.choices))
    means = {key: np.mean(rows, axis=0) for key, rows in found.items()}
    for (name, known), mean in means.items():
        print(f"{name}, n mu {known:>6}", *(f"{each:9.2f}" for each in mean))
    others = np.mean([mean - mean[0] for mean in means.values()], axis=0)
    print("beyond the first, mean", *(f"{each:+.2f}" for each in others))


if __name__ == "__main__":
    main()
