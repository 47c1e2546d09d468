"""DP-MAC's rule for rates, on data that it is not judged on: blobs, scenes, prices of houses.

It reads three sets that no item judges DP-MAC by, and every figure is one run.
"""

from __future__ import annotations

import csv
import gzip
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from papers.items import Workplace
from papers.mac_data import DELTA, Split
from tacit.methods import DPSGDClassifier, MACClassifier, MACSteps, Training
from tacit.noisy_training import steps_of

SCENE, HOUSING = "multilabel/scene.npz", "housing/california_housing.csv.gz"
# Adam's rate times the root of a layer's inputs.
COLUMNS = (0.1, 0.2, 0.4, 0.8)
RADII = (0.1, 0.3, 1.0, 3.0)
# The default of both methods.
LOT = 512
# Data, private records, epsilon, hidden layers, epochs.
CASES: tuple[tuple[str, int, float, tuple[int, ...], int], ...] = (
    ("blobs", 1_500, 8.0, (16,), 20),
    ("blobs", 1_500, 8.0, (300, 100), 20),
    ("blobs", 1_500, 8.0, (64,), 102),
    ("blobs", 10_000, 2.0, (64,), 20),
    ("scenes", 1_400, 8.0, (16,), 20),
    ("scenes", 1_400, 2.0, (64,), 20),
    ("housing", 3_000, 8.0, (16,), 20),
    ("housing", 12_000, 1.0, (16,), 20),
)
SECOND = (("blobs", 1_500, 8.0), ("housing", 3_000, 8.0))
# Rates that are given to all layers alike.
ONE = (0.02, 0.12)


def rule(place: Workplace) -> None:
    """Print what each rate gives, one rate for all layers, Z-steps, and radii of second order."""
    with _no_advice():
        place.table("Rates times the root of a layer's inputs", _headings(COLUMNS), _rates(place))
        rows = [
            (hidden, *(_right(place, ("blobs", 1_500, 8.0, hidden, 20), rate=rate) for rate in ONE))
            for hidden in ((16,), (300, 100))
        ]
        place.table("One rate for all layers: blobs at 8", ["hidden", *map(str, ONE)], rows)
        place.table("Z-steps: epsilon 8, 16 units", ["data", "6 of .03", "20 of .009"], _z(place))
        radii = [(*case, *_second(place, case)) for case in SECOND]
        columns = ["data", "records", "epsilon", *(f"radius {radius:g}" for radius in RADII)]
        place.table("Second order with 16 units: the radius of gradients", columns, radii)


def _headings(columns: tuple[float, ...]) -> list[str]:
    named = ["data", "records", "epsilon", "hidden", "steps", "DP-SGD"]
    return [*named, *(f"rate {column:g}" for column in columns), "the rule's"]


def _rates(place: Workplace) -> Iterator[tuple[Any, ...]]:
    for case in CASES:
        name, records, epsilon, hidden, epochs = case
        steps = steps_of(epochs, LOT / records)
        found = [_right(place, case, scaled=column * math.sqrt(steps)) for column in COLUMNS]
        told = name, records, epsilon, hidden, steps, _right(place, case, kind=DPSGDClassifier)
        place.progress(*told, *found)
        yield *told, *found, f"{3 / math.sqrt(steps):.2f}"


def _z(place: Workplace) -> Iterator[tuple[Any, ...]]:
    for name, records in (("blobs", 1_500), ("scenes", 1_400), ("housing", 3_000)):
        case = (name, records, 8.0, (16,), 20)
        both = (MACSteps(z_steps=count, z_rate=0.18 / count) for count in (6, 20))
        yield name, *(_right(place, case, steps=steps) for steps in both)


def _second(place: Workplace, case: tuple[str, int, float]) -> list[float]:
    how = (*case, (16,), 20)
    return [_right(place, how, steps=MACSteps(order=2), clip=radius) for radius in RADII]


def _right(
    place: Workplace,
    case: tuple[str, int, float, tuple[int, ...], int],
    *,
    kind: Any = MACClassifier,
    scaled: float | None = None,
    rate: float | None = None,
    clip: float | None = None,
    **how: Any,
) -> float:
    """Return the share right of one run; `scaled` is put in the place of the rule's 3."""
    name, records, epsilon, hidden, epochs = case
    X, y, others, truth = _split(place, name, records)
    kind = kind if scaled is None else with_rate(scaled)
    model = kind(
        hidden=hidden,
        epsilon=epsilon,
        delta=DELTA,
        n_records=records,
        classes=range(int(truth.max()) + 1),
        training=Training(epochs=epochs, learning_rate=rate, clip=clip),
        random_state=0,
        **how,
    )
    return float(model.fit(X, y).score(others, truth))


def with_rate(scaled: float) -> type[MACClassifier]:
    """Return the classifier with another number in the place of the rule's 3."""
    return type("Tried", (MACClassifier,), {"_rate": scaled})


def _split(place: Workplace, name: str, records: int) -> Split:
    X, y = _rows(place.path(SCENE), place.path(HOUSING))[name]
    held_out = slice(records, records + 4_000)
    return X[:records], y[:records], X[held_out], y[held_out]


@cache
def _rows(scene: Any, housing: Any) -> dict[str, tuple[Any, Any]]:
    made = {"blobs": _blobs(), "scenes": _scenes(scene), "housing": _houses(housing)}
    order = {name: np.random.default_rng(0).permutation(len(y)) for name, (_, y) in made.items()}
    return {name: (X[order[name]], y[order[name]]) for name, (X, y) in made.items()}


def _blobs() -> tuple[Any, Any]:
    """Return ten Gaussian blobs in 50 dimensions, whose centres are 5 apart."""
    draw = np.random.default_rng(0)
    centres, y = draw.normal(size=(10, 50)) / 2, draw.integers(0, 10, 14_000)
    return centres[y] + draw.normal(size=(len(y), 50)), y


def _scenes(path: Any) -> tuple[Any, Any]:
    """Return the scenes that have one label, 294 features between 0 and 1."""
    with np.load(path) as found:
        X, Y = (np.concatenate([found[f"{what}_train"], found[f"{what}_test"]]) for what in "xy")
    single = Y.sum(axis=1) == 1
    return X[single].astype(float), Y[single].argmax(axis=1)


def _houses(path: Any) -> tuple[Any, Any]:
    """Return districts of California, 8 standardised features, and four classes of price."""
    with gzip.open(path, "rt") as file:
        table = list(csv.DictReader(file))
    price = np.array([float(row.pop("median_house_value")) for row in table])
    names = [name for name in table[0] if name != "ocean_proximity"]
    X = np.array([[float(row[name] or 400) for name in names] for row in table])
    return (X - X.mean(axis=0)) / X.std(axis=0), np.digitize(price, [120e3, 180e3, 265e3])


@contextmanager
def _no_advice() -> Iterator[None]:
    """Silence what the class says of narrow layers: it follows from these tables."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Expected (hidden|curvatures)")
        yield
