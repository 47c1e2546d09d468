"""DP-MAC's Figure 3: what a classifier has learned of some digits, with and without noise."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tacit._checks import Floats
from tacit.methods import MACClassifier
from tacit.replication.items import Workplace
from tacit.replication.mac_data import DELTA, strips, usps_split

LABELS = (0, 3, 5, 6, 8)
EPSILONS = (1000.0, 2.0)
"""The first has next to no noise."""


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
