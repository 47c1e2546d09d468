"""DP-MAC's data, its classifiers beside DP-SGD's, and our rule for its rates.

No item judges DP-MAC by the three sets of the rule, and every figure of the rule is one run.
"""

from __future__ import annotations

import csv
import gzip
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from papers.items import Floats, Workplace
from tacit.datasets import load_dataset
from tacit.methods import DPSGDClassifier, MACClassifier, MACSteps, Training
from tacit.noisy_training import steps_of
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
        parts = [(found[f"x_{part}"], found[f"y_{part}"]) for part in ("train", "test")]
    (X, y), (others, truth) = ((x.reshape(len(x), -1).astype(float), y) for x, y in parts)
    return X, y.astype(int), others, truth.astype(int)


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


# Data, epsilon, hidden layers, order.
CASES = (
    ("digits", 8.0, (300, 100), 1),
    ("digits", 8.0, (16,), 1),
    ("digits", 8.0, (16,), 2),
    ("digits", 2.0, (16,), 2),
    ("USPS", 2.0, (300, 100), 1),
    ("USPS", 8.0, (16,), 1),
    ("USPS", 8.0, (16,), 2),
)


def algorithm_1(place: Workplace) -> None:
    """Both orders at their defaults beside DP-SGD at its own; three seeds on digits, else one."""
    sets = {"digits": digits(), "USPS": usps_split(place)}
    others: dict[Any, float] = {}
    rows = []
    for name, epsilon, hidden, order in CASES:
        how = sets[name], epsilon, hidden, Training()
        steps, seeds = MACSteps(order=order), SEEDS if name == "digits" else SEEDS[:1]
        ours = [_right(MACClassifier, *how, random_state=seed, steps=steps) for seed in seeds]
        if (name, epsilon, hidden) not in others:
            others[name, epsilon, hidden] = _right(DPSGDClassifier, *how)
        told = name, epsilon, hidden, order, *mean_and_spread(ours), others[name, epsilon, hidden]
        place.progress(*told)
        rows.append(told)
    columns = ["data", "epsilon", "hidden", "order", "DP-MAC", "its deviation", "DP-SGD"]
    place.table("Algorithm 1: right at the defaults, three seeds on digits", columns, rows)


# Sides of MNIST images whose pixels are means of 4 x 4 or 2 x 2 original ones, and epsilons.
SHRUNK = ((7, 0.5), (7, 2.0), (14, 2.0))


def second_order_mnist(place: Workplace) -> None:
    """Second order on MNIST, images shrunk so that its matrices fit, beside first order."""
    X, y, others, truth = mnist(place)
    rows = []
    for side, epsilon in SHRUNK:
        data = _shrunk(X, side), y, _shrunk(others, side), truth
        how = data, epsilon, (16,), Training(epochs=MNIST_EPOCHS)
        both = (_right(MACClassifier, *how, steps=MACSteps(order=order)) for order in (2, 1))
        told = f"{side} x {side}", epsilon, *both, _right(DPSGDClassifier, *how)
        place.progress(*told)
        rows.append(told)
    columns = ["pixels", "epsilon", "second order", "first order", "DP-SGD"]
    place.table("Second order on MNIST: 16 hidden units, 2 epochs", columns, rows)


def _shrunk(images: Any, side: int) -> Any:
    cell = 28 // side
    cells = images.reshape(-1, side, cell, side, cell)
    return cells.mean(axis=(2, 4)).reshape(len(images), -1)


def _right(
    kind: Any, data: Split, epsilon: float, hidden: tuple[int, ...], training: Training, **how: Any
) -> float:
    X, y, others, truth = data
    classes = range(int(truth.max()) + 1)
    how = {"epsilon": epsilon, "delta": DELTA, "random_state": 0, **how}
    model = kind(hidden=hidden, n_records=len(y), classes=classes, training=training, **how)
    return float(model.fit(X, y).score(others, truth))


# The paper's DP-MAC takes 20; one epoch takes 18 seconds.
MNIST_EPOCHS = 2


def table_1a(place: Workplace) -> None:
    """DP-MAC on MNIST's pixels, three seeds, beside DP-SGD; all but the epochs by default."""
    both = mnist(place)
    printed = {0.5: (0.90, 0.92, 0.91), 2.0: (0.95, 0.95, 0.95)}
    found: dict[tuple[str, float], list[float]] = {}
    runs = [("DP-MAC", MACClassifier, seed) for seed in SEEDS] + [("DP-SGD", DPSGDClassifier, 0)]
    for name, kind, seed in runs:
        for epsilon in printed:
            how = both, epsilon, (300, 100), Training(epochs=MNIST_EPOCHS)
            right = _right(kind, *how, random_state=seed)
            place.progress(name, epsilon, seed, right)
            found.setdefault((name, epsilon), []).append(right)
    rows = [
        (epsilon, *said, *mean_and_spread(found["DP-MAC", epsilon]), *found["DP-SGD", epsilon])
        for epsilon, said in printed.items()
    ]
    columns = ["epsilon", "DP-SGD, printed", "DP-CDBN, printed", "DP-MAC, printed"]
    columns += ["DP-MAC here", "its deviation", "DP-SGD here, one seed"]
    place.table("Table 1a: MNIST, share of test images right", columns, rows)


def algorithm_2(place: Workplace) -> None:
    """Thresholds by a noisy histogram against small ones, on digits, and what it costs."""
    X, y, others, truth = digits()
    settings: dict[str, Any] = {"epsilon": 2.0, "delta": DELTA, "n_records": len(y)}
    rows = []
    for thresholds in ("small", "histogram"):
        steps = MACSteps(thresholds=thresholds)
        steps = MACSteps(thresholds=thresholds)
        model = MACClassifier((64,), classes=range(10), steps=steps, random_state=0, **settings)
        model.fit(X, y)
        bounds = ", ".join(f"{bound:.2g}" for bound in model.thresholds_)
        rows.append((thresholds, bounds, model.statement_.epsilon, model.score(others, truth)))
    columns = ["thresholds", "T of each layer", "epsilon", "right"]
    place.table("Algorithm 2: digits at epsilon 2, one hidden layer of 64", columns, rows)


LABELS = (0, 3, 5, 6, 8)
# The first has next to no noise.
EPSILONS = (1000.0, 2.0)


def figure_3(place: Workplace) -> None:
    """Show what the product of the weights weighs for a label, its contrast and roughness."""
    X, y, others, truth = usps_split(place)
    rows, shown = [], {}
    for epsilon in EPSILONS:
        model = MACClassifier(
            epsilon=epsilon, delta=DELTA, n_records=len(y), classes=range(10), random_state=0
        ).fit(X, y)
        features = linear_features(model.student_.network_)[list(LABELS)]
        right = float(model.score(others, truth))
        rows.append((epsilon, right, float(features.std()), roughness(features)))
        shown[f"epsilon {epsilon:,g}"] = features / features.std()
    columns = ["epsilon", "right", "contrast", "roughness"]
    place.table("Figure 3: features of 0, 3, 5, 6, 8 on USPS", columns, rows)
    title = "Figure 3: weights for 0, 3, 5, 6, 8 on USPS"
    strips(place, "mac-figure-3", title, shown, {"cmap": "gray", "vmin": -3, "vmax": 3}, LABELS)


def linear_features(network: Any) -> Floats:
    """Return the product of all weights: what a network without activations would weigh."""
    weights = [p.detach().numpy() for p in network.parameters() if p.ndim == 2]
    return np.asarray(reduce(lambda made, weight: weight @ made, weights), dtype=float)


def roughness(features: Floats) -> float:
    """Return the mean squared step to the next pixel over the variance; 2 for white noise.

    >>> round(roughness(np.random.default_rng(0).normal(size=(5, 256))), 1)
    2.0
    """
    images = features.reshape(len(features), 16, 16)
    steps = [np.square(np.diff(images, axis=axis)).mean() for axis in (1, 2)]
    return float(np.mean(steps) / images.var(axis=(1, 2)).mean())


SCENE, HOUSING = "multilabel/scene.npz", "housing/california_housing.csv.gz"
# Adam's rate times the root of a layer's inputs.
COLUMNS = (0.1, 0.2, 0.4, 0.8)
RADII = (0.1, 0.3, 1.0, 3.0)
# The default of both methods.
LOT = 512
# Data, private records, epsilon, hidden layers, epochs.
Case = tuple[str, int, float, tuple[int, ...], int]
TRIED: tuple[Case, ...] = (
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
    columns = ["data", "records", "epsilon", "hidden", "steps", "DP-SGD"]
    columns += [*(f"rate {column:g}" for column in COLUMNS), "the rule's"]
    with warnings.catch_warnings():  # what the class says of narrow layers follows from the tables
        warnings.filterwarnings("ignore", message="Expected (hidden|curvatures)")
        place.table("Rates times the root of a layer's inputs", columns, _rates(place))
        rows = [
            (hidden, *(_tried(place, ("blobs", 1_500, 8.0, hidden, 20), rate=rate) for rate in ONE))
            for hidden in ((16,), (300, 100))
        ]
        place.table("One rate for all layers: blobs at 8", ["hidden", *map(str, ONE)], rows)
        place.table("Z-steps: epsilon 8, 16 units", ["data", "6 of .03", "20 of .009"], _z(place))
        columns = ["data", "records", "epsilon", *(f"radius {radius:g}" for radius in RADII)]
        radii = []
        for case in SECOND:
            how = *case, (16,), 20
            found = (_tried(place, how, clip=clip, steps=MACSteps(order=2)) for clip in RADII)
            radii.append((*case, *found))
        place.table("Second order with 16 units: the radius of gradients", columns, radii)


def _rates(place: Workplace) -> Iterator[tuple[Any, ...]]:
    for case in TRIED:
        name, records, epsilon, hidden, epochs = case
        steps = steps_of(epochs, LOT / records)
        found = [_tried(place, case, with_rate(column * math.sqrt(steps))) for column in COLUMNS]
        told = name, records, epsilon, hidden, steps, _tried(place, case, DPSGDClassifier)
        place.progress(*told, *found)
        yield *told, *found, f"{3 / math.sqrt(steps):.2f}"


def _z(place: Workplace) -> Iterator[tuple[Any, ...]]:
    for name, records in (("blobs", 1_500), ("scenes", 1_400), ("housing", 3_000)):
        case = (name, records, 8.0, (16,), 20)
        both = (MACSteps(z_steps=count, z_rate=0.18 / count) for count in (6, 20))
        yield name, *(_tried(place, case, steps=steps) for steps in both)


def _tried(
    place: Workplace,
    case: Case,
    kind: Any = MACClassifier,
    rate: float | None = None,
    clip: float | None = None,
    **how: Any,
) -> float:
    name, records, epsilon, hidden, epochs = case
    X, y = _rows(place.path(SCENE), place.path(HOUSING))[name]
    end = records + 4_000
    data = X[:records], y[:records], X[records:end], y[records:end]
    training = Training(epochs=epochs, learning_rate=rate, clip=clip)
    return _right(kind, data, epsilon, hidden, training, **how)


def with_rate(scaled: float) -> type[MACClassifier]:
    """Return the classifier with another number in the place of the rule's 3."""
    return type("Tried", (MACClassifier,), {"_rate": scaled})


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
