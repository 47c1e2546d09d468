"""Volumes for the papers on whole masks: who is public, who is a query, and Dice.

100 volumes give their masks to the codec, 100 are queries (their scans are public, their masks
are what perfect teachers answer), 60 are for tests; drawn once, at random, from all 260. Scans of
the first 100 are used only to choose settings, never in a release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.items import Workplace
from tacit.masks import Volumes, generated_volumes, load_volumes

HIPPOCAMPUS = "hippocampus_msd/hippocampus_48x64x48.npz"
SHAPE = (20, 28, 20)
PUBLIC, QUERIES = 100, 100
Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """Masks as answers: (n, *sides) for two classes, one channel a foreground class for more."""

    name: str
    scans: Array
    masks: Array
    n_classes: int

    @property
    def public(self) -> Array:
        """Masks for the codec."""
        return self.masks[:PUBLIC]

    @property
    def asked(self) -> Array:
        """Masks of the queries: what teachers answer."""
        return self.masks[PUBLIC : PUBLIC + QUERIES]

    @property
    def asked_scans(self) -> Array:
        """Scans of the queries, public."""
        return self.scans[PUBLIC : PUBLIC + QUERIES]

    @property
    def tests(self) -> tuple[Array, Array]:
        """Scans and masks that are neither the codec's nor queries."""
        return self.scans[PUBLIC + QUERIES :], self.masks[PUBLIC + QUERIES :]

    def dice(self, answers: Array, threshold: float, masks: Array) -> float:
        """Return the mean Dice of soft answers, cut at a threshold."""
        return dice(decided(answers, threshold, self.n_classes), masks, self.n_classes)


def hippocampus(place: Workplace, n_classes: int = 2) -> Task:
    """Return the Decathlon's hippocampus on a grid of 20 x 28 x 20 voxels."""
    volumes = load_volumes(f"npz:{place.path(HIPPOCAMPUS)}", n_classes=3)
    return task("hippocampus", volumes, n_classes)


def generated() -> Task:
    """Return generated volumes on the same grid."""
    return task("generated", generated_volumes(260, SHAPE), 2)


def task(name: str, volumes: Volumes, n_classes: int) -> Task:
    """Return volumes in a random order, as scans and masks."""
    scans, labels = volumes.resampled(SHAPE).normalised().arrays()
    assert labels is not None
    order = np.random.default_rng(0).permutation(len(labels))
    labels = labels[order]
    answers = [labels == one for one in range(1, n_classes)] if n_classes > 2 else [labels > 0]
    masks = np.stack(answers, axis=1)
    return Task(name, scans[order], masks if n_classes > 2 else masks[:, 0], n_classes)


def decided(answers: Array, threshold: float, n_classes: int) -> Array:
    """Soft answers to masks: foreground where the classes sum to more than the threshold."""
    if n_classes == 2:
        return np.asarray(answers > threshold)
    inside = answers.sum(axis=1, keepdims=True) > threshold
    best = answers.argmax(axis=1)[:, None] == np.arange(n_classes - 1)[:, None, None, None]
    return np.asarray(inside & best)


def dice(found: Array, true: Array, n_classes: int) -> float:
    """Mean Dice over volumes, and over foreground classes where there are several."""
    rows = len(found) * (n_classes - 1)
    found, true = found.reshape(rows, -1), true.reshape(rows, -1)
    both, sizes = (found & true).sum(axis=1), found.sum(axis=1) + true.sum(axis=1)
    return float(np.mean(2 * both / np.maximum(sizes, 1)))
