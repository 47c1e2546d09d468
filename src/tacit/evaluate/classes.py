"""Several classes: accuracy, its calibration, and the confusion matrix.

Two tables share the price equally: right and wrong labels by the probability of the predicted
label, which gives the binary figures of "is the label right"; and true against predicted classes
(docs/theory/evaluation.md#several-classes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._checks import Floats
from tacit.evaluate.bands import ANYWHERE, Band, share_band
from tacit.evaluate.binary import CLEAR


@dataclass(frozen=True, slots=True, eq=False)
class ConfusionTable:
    """A noisy table of true against predicted classes.

    Parameters
    ----------
    table : array of shape (..., classes, classes), noisy counts: rows true, columns predicted
    sigma : float, deviation of the noise on one cell
    n_records : int, as declared
    shares : array of shape (classes,), of the classes, as declared
    """

    table: Floats
    sigma: float
    n_records: int
    shares: Floats

    @property
    def told(self) -> list[bool]:
        """The classes with recall: those whose count is expected to be clear."""
        noise = self.sigma * math.sqrt(len(self.shares))
        return [bool(self.n_records * share / noise >= CLEAR) for share in self.shares]

    def accuracy(self) -> Band:
        """Return the share of right labels.

        Returns
        -------
        Band
        """
        classes = self.table.shape[-1]
        right = np.trace(self.table, axis1=-2, axis2=-1)
        wrong = self.table.sum((-2, -1)) - right
        return share_band(right, wrong, (classes, classes * (classes - 1)), self.sigma)

    def recall(self, place: int, ends: tuple[float, float] = (0.0, 1.0)) -> Band:
        """Return the recall of a class.

        Parameters
        ----------
        place : int, index of the class
        ends : tuple of float, limits of the band

        Returns
        -------
        Band
        """
        right = self.table[..., place, place]
        others = self.table[..., place, :].sum(-1) - right
        return share_band(right, others, (1, self.table.shape[-1] - 1), self.sigma, ends)

    def balanced_accuracy(self) -> Band:
        """Return the mean of all classes' recall.

        Returns
        -------
        Band
        """
        each = [self.recall(place, ANYWHERE) for place in range(self.table.shape[-1])]
        value = np.mean([one.value for one in each], axis=0)
        below = np.sqrt(np.sum([(one.value - one.low) ** 2 for one in each], axis=0)) / len(each)
        above = np.sqrt(np.sum([(one.high - one.value) ** 2 for one in each], axis=0)) / len(each)
        return Band(*(np.clip(end, 0.0, 1.0) for end in (value, value - below, value + above)))

    def figures(self) -> dict[str, Any]:
        """Return all figures that may be read.

        Returns
        -------
        dict, `accuracy`, `balanced_accuracy` and `recall`, a Band or None for each class
        """
        told: dict[str, Any] = {}
        if self.n_records / (self.sigma * self.table.shape[-1]) >= CLEAR:
            told["accuracy"] = self.accuracy()
        if all(self.told):
            told["balanced_accuracy"] = self.balanced_accuracy()
        told["recall"] = [self.recall(at) if clear else None for at, clear in enumerate(self.told)]
        return told
