"""Data sets whose public inputs are of another kind than the private ones, in several ways.

Seven sets: scikit-learn's digits, USPS, images of MNIST and of Fashion-MNIST (where Debian's
package dataset-fashion-mnist has put it; 25,000 and 12,000 of them), Adult, California housing
(classes: a price above 265,000 dollars; or the price itself), the survey of affairs. Rows are
shuffled by a seed; some are held out, some are public inputs, the others are private. Private and
held-out rows are never changed: only what is public shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter, rotate

from benchmarks.pate_adult import HOUSING, housing_rows
from benchmarks.pate_choices import usps
from tacit.datasets import load_adult, load_affairs, load_digits, load_idx
from tacit.features import PublicBins, digit_features


class Shifted(NamedTuple):
    """Rows of a set in its public features; public inputs shifted in a way that has a name."""

    set: str
    shift: str
    X: np.ndarray
    y: np.ndarray
    public: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels of the held-out rows."""
        return tuple(np.unique(self.truth).tolist())


IMAGES = {"digits": (8, 8), "usps": (16, 16), "mnist": (28, 28), "fashion": (28, 28)}
FASHION = Path("/usr/share/datasets/fashion-mnist")
TABLES = ("adult", "housing", "affairs", "prices")
SETS = (*IMAGES, *TABLES)
_SIZES = {
    "digits": (400, 300),
    "usps": (2000, 1500),
    "mnist": (5000, 3000),
    "affairs": (1000, 1000),
}
_OTHERS = (3000, 3000)
_MNIST, _FASHION = 25_000, 12_000
_FEW = 100


def raw(name: str, data: Path) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return inputs, labels (or prices), and the declared columns of a table."""
    if name == "digits":
        found = load_digits()
        return found.X, found.y, None
    if name == "usps":
        return (*usps(data), None)
    if name == "mnist":
        train = load_idx(data / "mnist").train
        return np.asarray(train.X[:_MNIST], dtype=float), train.y[:_MNIST], None
    if name == "fashion":
        clothes = load_idx(FASHION).train
        return np.asarray(clothes.X[:_FASHION], dtype=float), clothes.y[:_FASHION], None
    if name in ("housing", "prices"):
        X, prices = housing_rows(data)
        return X, prices if name == "prices" else (prices > 265_000).astype(int), HOUSING
    found = load_adult(data / "adult") if name == "adult" else load_affairs()
    return found.X, found.y, found.columns


def shifts_of(name: str, data: Path, seed: int, only: str = "") -> Iterator[Shifted]:
    """Yield the set as it is, and then with other public inputs."""
    X, y, columns = raw(name, data)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    n_public, n_held_out = _SIZES.get(name, _OTHERS)
    features = PublicBins(columns, unit_norm=True) if columns else digit_features(IMAGES[name])
    features.fit(X[:n_public])
    view = np.asarray(features.transform(X))
    cut = [n_public, n_public + n_held_out]
    (_, held_out, inside), (_, truth, targets) = np.split(view, cut), np.split(y, cut)
    ways = _images(X[:n_public], IMAGES.get(name)) if columns is None else _table(X[:n_public])
    labels = y[:n_public]
    by_class: dict[str, Callable[[], np.ndarray]] = {
        "as the private ones": lambda: X[:n_public],
        **ways,
        "half of the labels": lambda: X[:n_public][labels <= np.median(np.unique(labels))],
        f"{_FEW} inputs": lambda: X[:_FEW],
    }
    for shift, change in by_class.items():
        if only in shift:
            public = np.asarray(features.transform(change()))
            yield Shifted(name, shift, inside, targets, public, held_out, truth)


def _images(X: np.ndarray, shape: Any) -> dict[str, Callable[[], np.ndarray]]:
    grey = X.reshape(-1, *(shape or (1, X.shape[1])))

    def turned(angle: float) -> np.ndarray:
        return rotate(grey, angle, axes=(1, 2), reshape=False, order=1).reshape(len(X), -1)

    blur = 1.0 if grey.shape[1] > 8 else 0.6
    return {
        **{f"turned by {angle}": (lambda angle=angle: turned(angle)) for angle in (5, 15, 45)},
        "blurred": lambda: gaussian_filter(grey, (0, blur, blur)).reshape(len(X), -1),
    }


def _table(X: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    wide = np.argsort(-X.std(axis=0))[:3]  # the columns whose numbers vary most

    def moved() -> np.ndarray:
        changed = X.copy()
        changed[:, wide] = changed[:, wide] + changed[:, wide].std(axis=0)
        return changed

    def one_side() -> np.ndarray:
        return X[X[:, wide[0]] > np.median(X[:, wide[0]])]

    return {"three columns moved": moved, "one side of a column": one_side}
