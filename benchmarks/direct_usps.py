"""Networks trained on private records: the autoencoder and the classifier of the DP-MAC paper.

Autoencoder: USPS (1,100 digits a class), 5,000 private images, 1,000 held out, widths
256-300-100-20-100-300-256, pixels between 0 and 1 less a constant 0.25. The paper prints a mean
squared error of 19, 14, 12.7, 12 for DP-MAC at epsilon 1, 2, 4, 8 and 23.5, 20.8, 16.8, 15.4 for
DP-SGD without saying of what; the summed squared error of an image (SSE) and half of it are shown.
Classifier: MNIST, 60,000 private images, the test set held out, widths 784-300-100-10; the paper
prints 0.91 at 0.5 and 0.95 at 2. Settings were chosen on MNIST images shrunk to 16 x 16
(`--set shrunk`) for the autoencoder, on MNIST's training images alone (`--set mnist-choice`) for
the classifier. With `--waves 64` the network sees the 64 lowest cosines of an
image, a public change of basis; what they cannot show counts as error. Every run is one priced
entry of a ledger, with fresh secure noise; docs/results/direct.md says what had been seen of the
data.

    python -m benchmarks.direct_usps --data DIR --set usps --method mac --epsilon 1 2 4 8
    python -m benchmarks.direct_usps --data DIR --set mnist --method layerwise --epsilon 0.5 2
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit.datasets import load_idx
from tacit.methods import (
    DPSGDAutoencoder,
    DPSGDClassifier,
    MACAutoencoder,
    MACClassifier,
    MACSteps,
    Training,
)

DELTA = 1e-5
TRAIN, TEST = 5000, 1000
CHOICE = 50_000
"""MNIST training images on which settings of the classifier are tried; the others score them."""
GREY = 0.25
HIDDEN = (300, 100, 20, 100, 300)
SETS = ("usps", "shrunk", "mnist", "mnist-choice")
METHODS = ("mac", "layerwise", "flat")


def usps(folder: Path) -> tuple[Any, Any]:
    with np.load(folder / "usps" / "usps_1100_per_class.npz") as arrays:
        images = arrays["x"].reshape(len(arrays["x"]), -1) / 255.0 - GREY
    return _cut(images)


def shrunk(folder: Path) -> tuple[Any, Any]:
    """MNIST digits without their border, 20 x 20, by areas to 16 x 16."""
    digits = _mnist(folder)[0][: 2 * (TRAIN + TEST)].reshape(-1, 28, 28)[:, 4:24, 4:24]
    areas = np.zeros((16, 20))
    for row in range(16):
        edges = np.clip(np.arange(21), row * 1.25, (row + 1) * 1.25)
        areas[row] = np.diff(edges) / 1.25
    return _cut((areas @ digits @ areas.T).reshape(len(digits), -1) - GREY)


def _cut(images: Any) -> tuple[Any, Any]:
    order = np.random.default_rng(0).permutation(len(images))
    return images[order[:TRAIN]], images[order[TRAIN : TRAIN + TEST]]


def _mnist(folder: Path) -> tuple[Any, Any, Any, Any]:
    data = load_idx(folder / "mnist")
    train, test = np.asarray(data.train.X, float), np.asarray(data.test.X, float)
    return train.reshape(len(train), -1), data.train.y, test.reshape(len(test), -1), data.test.y


def common(options: argparse.Namespace, epsilon: float, n_records: int) -> dict[str, Any]:
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "n_records": n_records,
        "activation": options.activation,
        "random_state": options.seed,
    }


def changes(options: argparse.Namespace) -> dict[str, Any]:
    training = Training(
        epochs=options.epochs,
        batch_size=options.batch,
        learning_rate=options.rate,
        decay=options.decay,
        clip=options.clip,
        split=options.split,
    )
    if options.method == "mac":
        steps = MACSteps(
            z_steps=options.z_steps, z_rate=options.z_rate, thresholds=options.thresholds
        )
        return {"training": training, "steps": steps}
    clipping = "per-layer" if options.method == "layerwise" else "flat"
    return {"training": training.set_params(clipping=clipping)}


def waves(count: int | None, side: int = 16) -> Any:
    """Return the lowest two-dimensional cosines of square images, orthonormal, (side^2, count)."""
    if count is None:
        return np.eye(side * side)
    places = np.arange(side)
    order = np.add.outer(places, places).ravel().argsort(kind="stable")[:count]
    one = np.cos(np.pi / side * np.outer(places + 0.5, places)) * np.sqrt(2 / side)
    one[:, 0] /= np.sqrt(2)
    return np.kron(one, one)[:, order]


def autoencoder(options: argparse.Namespace, epsilon: float) -> dict[str, Any]:
    inside, outside = (usps if options.set == "usps" else shrunk)(Path(options.data))
    kind = MACAutoencoder if options.method == "mac" else DPSGDAutoencoder
    basis = waves(options.waves)
    model = kind(HIDDEN, **common(options, epsilon, TRAIN), **changes(options)).fit(inside @ basis)
    errors = np.square(model.reconstruct(outside @ basis) @ basis.T - outside).sum(axis=1)
    mean = np.square(outside - inside.mean(axis=0)).sum(axis=1).mean()
    return {
        "SSE": round(float(errors.mean()), 2),
        "half": round(float(errors.mean()) / 2, 2),
        "SSE of the mean image": round(float(mean), 2),
        "spent": round(model.statement_.epsilon, 4),
        "accountant": model.statement_.accountant,
    }


def classifier(options: argparse.Namespace, epsilon: float) -> dict[str, Any]:
    rows, labels, others, truth = _mnist(Path(options.data))
    if options.set == "mnist-choice":
        rows, others = rows[:CHOICE], rows[CHOICE:]
        labels, truth = labels[:CHOICE], labels[CHOICE:]
    basis = waves(options.waves, side=28)
    kind = MACClassifier if options.method == "mac" else DPSGDClassifier
    settings = {**common(options, epsilon, len(rows)), **changes(options)}
    model = kind(hidden=(300, 100), classes=range(10), **settings).fit(rows @ basis, labels)
    return {
        "accuracy": round(float(model.score(others @ basis, truth)), 4),
        "spent": round(model.statement_.epsilon, 4),
        "accountant": model.statement_.accountant,
    }


def main() -> None:
    options = parse()
    run = classifier if options.set.startswith("mnist") else autoencoder
    for epsilon in options.epsilon:
        started, cpu = time.perf_counter(), time.process_time()
        found = run(options, epsilon)
        shown = {"set": options.set, "method": options.method, "epsilon": epsilon, **found}
        shown["cpu seconds"] = round(time.process_time() - cpu, 1)
        shown["seconds"] = round(time.perf_counter() - started, 1)
        print(json.dumps(shown), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", choices=SETS, default="usps")
    parser.add_argument("--method", choices=METHODS, default="mac")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--epochs", type=float, default=40)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--activation", default="tanh")
    parser.add_argument("--clip", type=float, default=1e-3)
    parser.add_argument("--split", default="minimal")
    parser.add_argument("--z-steps", type=int, default=30)
    parser.add_argument("--z-rate", type=float, default=1e-3)
    parser.add_argument("--thresholds", default="small")
    parser.add_argument(
        "--waves", type=int, help="learn so many low cosines of an image; none: pixels"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the docstring."""


if __name__ == "__main__":
    main()
