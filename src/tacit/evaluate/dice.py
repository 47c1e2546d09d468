"""Masks: mean Dice, of all that is not background and of each class, from one noisy sum.

A scan whose truth holds something says, of each of J Dice scores d, the three numbers
(d^2, sqrt 2 d (1 - d), (1 - d)^2)/sqrt J, whose norm is (d^2 + (1 - d)^2)/sqrt J <= 1/sqrt J: so
count, sum and sum of squares come out of one vector of norm at most 1. A scan with nothing to find
says only whether the model found nothing there (docs/theory/evaluation.md#masks).
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
    """Return how many numbers a scan says of so many Dice scores.

    Parameters
    ----------
    scores : int
        All that is not background, and each class where there are several.

    Returns
    -------
    int
        Three for each, and two for scans with nothing to find.
    """
    return _PARTS * scores + _EMPTY


def score_names(classes: Sequence[str]) -> list[str]:
    """Return what the Dice scores of classes are called.

    Parameters
    ----------
    classes : sequence of str
        Their names, the background's first.

    Returns
    -------
    list of str
        All that is not background, then each class where there are several.

    Examples
    --------
    >>> score_names(["background", "head", "tail"])
    ['all that is not background', 'head', 'tail']
    """
    return [WHOLE, *(classes[1:] if len(classes) > 2 else ())]


def said_of_masks(dice: Floats, there: NDArray[np.bool_], found: NDArray[np.bool_]) -> Floats:
    """Return what scans say of their Dice scores. Secret.

    Parameters
    ----------
    dice : array of shape (scans, scores)
        Between 0 and 1; the first is of all that is not background.
    there : array of bool, of shape (scans, scores)
        Whether the true mask holds it.
    found : array of bool, of shape (scans,)
        Whether the model's mask holds anything.

    Returns
    -------
    array of shape (scans, 3 scores + 2)
        Rows of norm at most 1; one of a score that is not finite is 0.
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
    """Noisy sums of what scans say of their masks.

    Parameters
    ----------
    sums : array of shape (..., 3 scores + 2)
        As released.
    sigma : float
        Deviation of the noise on each.
    n_records : int
        Scans, or people, as declared.
    share : float
        Of scans with something to find, as declared.
    names : list of str
        Of the scores; the first is of all that is not background.
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
        place : int
            Of the score.

        Returns
        -------
        Band
            That holds for every distribution of the scores.
        """
        first, second, third = self._parts_of(place)
        return bounded_mean(first, second, third, self.noise, max(1.0, self.n_records * self.share))

    def something(self) -> Band:
        """Return the share of scans with something to find.

        Returns
        -------
        Band
            Of the share.
        """
        cells = (_COUNTED * len(self.names), _EMPTY)
        return share_band(self._count(), self.sums[..., -2:].sum(-1), cells, self.sigma)

    def left_alone(self) -> Band:
        """Return, of scans with nothing to find, the share in which the model finds nothing.

        Returns
        -------
        Band
            Of the share.
        """
        return share_band(self.sums[..., -2], self.sums[..., -1], (1, 1), self.sigma)

    def figures(self) -> dict[str, Any]:
        """Return everything that is told, as expected from declared numbers.

        Returns
        -------
        dict
            `dice`, a Band for each score or None; `something` and `left_alone` as Bands.
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
