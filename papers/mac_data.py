"""What DP-MAC is measured on: digits of 8 x 8 pixels, USPS and MNIST, and the paper's widths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from papers.items import Floats, Workplace
from tacit.datasets import load_dataset
from tacit.report import new_figure

USPS = "usps/usps_1100_per_class.npz"
USPS_SPLIT = "usps/usps_7291_2007.npz"
DELTA = 1e-5
CLASSIFIER = (784, 300, 100, 10)
AUTOENCODER = (256, 300, 100, 20, 100, 300, 256)
TRAIN, TEST = 5000, 1000
GREY = 0.25
SEEDS = range(3)
# A threshold that no gradient reaches.
HUGE = 1e6
# Private inputs and labels, held-out inputs and labels.
Split = tuple[Any, Any, Any, Any]


def digits() -> Split:
    """Return 1,400 private digits of 8 x 8 pixels, and 397 held out."""
    data = load_dataset("digits")
    order = np.random.default_rng(0).permutation(len(data.y))
    X, y = np.asarray(data.X, float)[order], np.asarray(data.y)[order]
    X = X.reshape(len(X), -1) / X.max()
    return X[:1400], y[:1400], X[1400:], y[1400:]


def usps(place: Workplace) -> tuple[Floats, Floats]:
    """Return 5,000 images to learn from and 1,000 held out, pixels less a constant grey."""
    with np.load(place.path(USPS)) as arrays:
        images = arrays["x"].reshape(len(arrays["x"]), -1) / 255.0 - GREY
    order = np.random.default_rng(0).permutation(len(images))
    return images[order[:TRAIN]], images[order[TRAIN : TRAIN + TEST]]


def usps_split(place: Workplace) -> Split:
    """Return the 7,291 images that USPS gives to learn from and its 2,007 test images."""
    with np.load(place.path(USPS_SPLIT)) as found:
        X, y, others, truth = (
            found[f"{what}_{part}"] for part in ("train", "test") for what in "xy"
        )
    return (
        X.reshape(len(X), -1).astype(float),
        y.astype(int),
        others.reshape(len(others), -1).astype(float),
        truth.astype(int),
    )


def mnist(place: Workplace) -> Split:
    """Return MNIST's training and test images, pixels between 0 and 1, with their labels."""
    data = load_dataset(f"mnist:{place.path('mnist')}")
    X, y = np.asarray(data.X, float).reshape(len(data.y), -1), np.asarray(data.y)
    cut = data.n_train
    return X[:cut], y[:cut], X[cut:], y[cut:]


def mean_and_spread(found: list[float]) -> tuple[float, float]:
    """Return the mean of some seeds and their deviation, NaN of one seed."""
    return float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else math.nan


def strips(
    place: Workplace,
    name: str,
    title: str,
    shown: Mapping[str, Floats],
    look: Mapping[str, Any],
    below: Sequence[Any] = (),
) -> None:
    """Draw rows of images of 16 x 16 pixels, each row with its name, and keep the picture."""
    figure = new_figure(title, size=(6.2, 3.0 if below else 3.6))
    axes = figure.axes[0]
    rows = [np.hstack(list(images.reshape(-1, 16, 16))) for images in shown.values()]
    axes.imshow(np.vstack(rows), **look)
    axes.grid(visible=False)
    axes.set_xticks([16 * at + 8 for at in range(len(below))], [str(one) for one in below])
    axes.set_yticks([16 * at + 8 for at in range(len(shown))], list(shown))
    place.picture(name, figure)
