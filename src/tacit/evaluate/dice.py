"""Masks: mean Dice of the foreground and of each class, from one noisy sum.

A scan contributes, for each of J Dice scores d, (d^2, sqrt 2 d (1 - d), (1 - d)^2)/sqrt J, whose
norm is (d^2 + (1 - d)^2)/sqrt J <= 1/sqrt J. A scan with nothing to find contributes only whether
the model found nothing there (docs/theory/evaluation.md#masks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats
from tacit.evaluate.bands import Band, share_band
from tacit.evaluate.binary import CLEAR
from tacit.evaluate.bounded import bounded_mean

WHOLE = "all that is not background"
_PARTS = 3
_EMPTY = 2
_COUNTED = 4
"""Variance of the noise on a count, in that of one number: 1 + 2 + 1."""


def columns_of(scores: int) -> int:
    """Return how many numbers a scan contributes: three for each Dice score, and two more."""
    return _PARTS * scores + _EMPTY


def score_names(classes: Sequence[str]) -> list[str]:
    """Return the names of the Dice scores of classes, the background's first.

    >>> score_names(["background", "head", "tail"])
    ['all that is not background', 'head', 'tail']
    """
    return [WHOLE, *(classes[1:] if len(classes) > 2 else ())]


def said_of_masks(dice: Floats, there: NDArray[np.bool_], found: NDArray[np.bool_]) -> Floats:
    """Return the scans' contributions to the sum of Dice scores. Secret.

    Parameters
    ----------
    dice : array of shape (scans, scores), between 0 and 1; the first is of the foreground
    there : array of bool, of shape (scans, scores), whether the true mask holds it
    found : array of bool, of shape (scans,), whether the model's mask holds anything

    Returns
    -------
    array of shape (scans, 3 scores + 2), of norm at most 1; scores that are not finite give 0
    """
    d = np.clip(dice, 0.0, 1.0)
    parts = np.stack([d * d, math.sqrt(2) * d * (1 - d), (1 - d) ** 2], axis=-1)
    parts = np.where(there[..., None], parts, 0.0) / math.sqrt(dice.shape[1])
    nothing = ~there.any(axis=1)
    empty = np.stack([nothing & ~found, nothing & found], axis=1)
    rows = np.concatenate([parts.reshape(len(d), -1), empty], axis=1)
    whole = np.isfinite(dice).all(axis=1, keepdims=True)
    return np.where(whole, np.nan_to_num(rows), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class DiceSums:
    """Noisy sums of the scans' contributions.

    Parameters
    ----------
    sums : array of shape (..., 3 scores + 2), as released
    sigma : float, deviation of the noise on each
    n_records : int, scans, or people, as declared
    share : float, of scans with something to find, as declared
    names : list of str, of the scores; the first is of the foreground
    """

    sums: Floats
    sigma: float
    n_records: int
    share: float
    names: list[str]

    @property
    def noise(self) -> float:
        """Deviation of the noise on the sums of d^2 and of (1 - d)^2."""
        return self.sigma * math.sqrt(len(self.names))

    def _parts_of(self, place: int) -> Floats:
        """Return noisy sums of d^2, d (1 - d) and (1 - d)^2 of a score."""
        three = self.sums[..., _PARTS * place : _PARTS * (place + 1)] * math.sqrt(len(self.names))
        return np.moveaxis(three / [1.0, math.sqrt(2), 1.0], -1, 0)

    def _count(self) -> Floats:
        """Return the noisy number of scans with something to find."""
        squares, mixed, rest = self._parts_of(0)
        return np.asarray(squares + 2 * mixed + rest)

    def mean(self, place: int) -> Band:
        """Return the mean of a Dice score over the scans whose truth holds it.

        Parameters
        ----------
        place : int, index of the score

        Returns
        -------
        Band, valid for every distribution of the scores
        """
        first, second, third = self._parts_of(place)
        return bounded_mean(first, second, third, self.noise, max(1.0, self.n_records * self.share))

    def something(self) -> Band:
        """Return the share of scans with something to find.

        Returns
        -------
        Band
        """
        cells = (_COUNTED * len(self.names), _EMPTY)
        return share_band(self._count(), self.sums[..., -2:].sum(-1), cells, self.sigma)

    def left_alone(self) -> Band:
        """Return, of scans with nothing to find, the share in which the model finds nothing.

        Returns
        -------
        Band
        """
        return share_band(self.sums[..., -2], self.sums[..., -1], (1, 1), self.sigma)

    def figures(self) -> dict[str, Any]:
        """Return the figures that declared numbers allow.

        Returns
        -------
        dict, `dice`, a Band for each score or None; `something` and `left_alone` as Bands
        """
        clear = self.n_records * self.share / (math.sqrt(_COUNTED) * self.noise) >= CLEAR
        told: dict[str, Any] = {
            "dice": [self.mean(at) if clear else None for at in range(len(self.names))]
        }
        cells = _COUNTED * len(self.names) + _EMPTY
        if self.n_records / (self.sigma * math.sqrt(cells)) >= CLEAR:
            told["something"] = self.something()
        if self.n_records * (1 - self.share) / (self.sigma * math.sqrt(_EMPTY)) >= CLEAR:
            told["left_alone"] = self.left_alone()
        return told
