"""Bins of scores, fixed by public scores alone, and the public scores inside them.

Edges are quantiles of public scores under a measure that gives half of its mass to predicted
negatives and half to positives; thresholds that matter (0.5, the model's own) are edges, too. No
private record is used (docs/theory/evaluation.md#bins).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, number_array
from tacit.errors import InvalidArgument

_SHARPEST = 1e-6
"""Probabilities are clipped to [this, 1 - this] before their logit is taken."""


def logit(probabilities: ArrayLike) -> Floats:
    """Return log p/(1 - p), with p clipped to [1e-6, 1 - 1e-6]."""
    p = np.clip(np.asarray(probabilities, dtype=np.float64), _SHARPEST, 1 - _SHARPEST)
    return np.asarray(np.log(p / (1 - p)))


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBins:
    """Edges between bins of a probability, and the public scores inside each bin.

    Parameters
    ----------
    edges : array of shape (bins - 1,), rising; a score that equals an edge lies above it
    mass : array of shape (bins,), share of the public scores in each bin
    mean : array of shape (bins,), mean score
    logits, gini : array of shape (bins,), mean logit, and mean difference of two logits
    """

    edges: Floats
    mass: Floats
    mean: Floats
    logits: Floats
    gini: Floats

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.edges) + 1

    @classmethod
    def of(cls, scores: ArrayLike, bins: int, *, thresholds: Sequence[float] = ()) -> Self:
        """Cut public scores into bins.

        Parameters
        ----------
        scores : array of shape (inputs,), the model's probabilities of public inputs
        bins : int, the most bins: equal scores may leave fewer
        thresholds : sequence of float, each becomes an edge, in place of the nearest other one

        Returns
        -------
        ScoreBins, a function of public numbers alone

        Examples
        --------
        >>> ScoreBins.of(np.linspace(0.01, 0.99, 99), 4).edges.round(2).tolist()
        [0.25, 0.5, 0.75]
        """
        public = number_array(scores=scores)
        at_least(2, bins=bins)
        if public.ndim != 1 or len(public) < 2 or not ((public >= 0) & (public <= 1)).all():
            raise InvalidArgument("Expected public scores to be probabilities, two at least.")
        edges = _edges(np.sort(public), bins)
        for threshold in thresholds:
            if 0 < threshold < 1 and threshold not in edges:
                if len(edges) >= bins - 1 > len(thresholds):
                    # Never one that was asked for: figures would be told of another threshold.
                    free = edges[~np.isin(edges, thresholds)]
                    edges = edges[edges != free[np.abs(free - threshold).argmin()]]
                edges = np.sort(np.append(edges, threshold))
        return cls(edges, *_inside(public, edges))

    @classmethod
    def even(cls, bins: int, *, thresholds: Sequence[float] = ()) -> Self:
        """Cut [0, 1] evenly, where there are no public inputs to score.

        Parameters
        ----------
        bins : int
        thresholds : sequence of float, each becomes an edge, in place of the nearest other one

        Returns
        -------
        ScoreBins, as of evenly spread scores
        """
        grid = (np.arange(100 * bins) + 0.5) / (100 * bins)
        return cls.of(grid, bins, thresholds=thresholds)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data.

        Returns
        -------
        dict of str to list
        """
        return {name: getattr(self, name).tolist() for name in self.__slots__}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Read what `as_dict` returned.

        Parameters
        ----------
        plain : dict

        Returns
        -------
        ScoreBins
        """
        made = {name: np.asarray(plain[name], dtype=np.float64) for name in cls.__slots__}
        return cls(**made)


def _edges(rising: Floats, bins: int) -> Floats:
    """Return quantiles of half negatives, half positives, as far as they differ."""
    negative, positive = 1 - rising, rising
    weights = negative / max(negative.sum(), 1e-12) + positive / max(positive.sum(), 1e-12)
    reached = np.cumsum(weights) / weights.sum()
    places = np.searchsorted(reached, np.arange(1, bins) / bins)
    edges = np.unique(rising[np.minimum(places, len(rising) - 1)])
    return np.asarray(edges[(edges > rising[0]) & (edges > 0)])


def _inside(public: Floats, edges: Floats) -> tuple[Floats, ...]:
    """Return the fields of `ScoreBins` of each bin, in its order."""
    place = np.searchsorted(edges, public, side="right")
    ends = np.concatenate([[0.0], edges, [1.0]])
    facts = []
    for number in range(len(edges) + 1):
        own = np.sort(public[place == number])
        mass = len(own) / len(public)
        if own.size == 0:  # a threshold beyond all public scores
            own = np.array([ends[number : number + 2].mean()])
        logits = logit(own)
        ranks = 2 * np.arange(1, len(own) + 1) - len(own) - 1
        gini = 2 * float((ranks * logits).sum()) / max(len(own) * (len(own) - 1), 1)
        facts.append((mass, own.mean(), logits.mean(), gini))
    return tuple(np.array(column) for column in zip(*facts, strict=True))
