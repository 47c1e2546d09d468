"""The model behind a posterior: how teachers agree, and what noise a mechanism adds to a count.

`tacit.students.posterior` states it in full. Public inputs and releases only: nothing private ever
enters this floor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit._checks import Floats, finite_array, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms import SelectiveMechanism

_STEPS = 48  # of the grid of agreements over [1/C, 1]
_QUANTILES = 400  # nodes for the mechanism's noise


class VoteNoise(NamedTuple):
    """The mechanism's noise on one count: which law, and its scale."""

    law: str
    scale: float

    def quantiles(self) -> Floats:
        """Equally likely values."""
        levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        if self.law == "laplace":
            side = np.minimum(levels, 1 - levels)
            return np.asarray(self.scale * np.sign(0.5 - levels) * np.log(2 * side))
        from scipy.special import ndtri

        return np.asarray(self.scale * ndtri(levels))

    def below(self, x: Floats) -> Floats:
        """P(noise <= x)."""
        if self.law == "laplace":
            tail = 0.5 * np.exp(-np.abs(x) / self.scale)
            return np.where(x < 0, tail, 1 - tail)
        from scipy.special import ndtr

        return np.asarray(ndtr(x / self.scale))


def noise_of(mechanism: Any) -> VoteNoise:
    """Read the noise of a mechanism that adds it to votes."""
    if isinstance(mechanism, SelectiveMechanism):
        return noise_of(mechanism.answer)
    if mechanism.name in ("gnmax", "noisy-votes", "sampled-max", "sampled-votes"):
        return VoteNoise("gaussian", mechanism.sigma)
    if mechanism.name == "lnmax":
        return VoteNoise("laplace", 1 / mechanism.gamma)
    raise InvalidArgument(
        f"Expected a release of class labels or noisy votes, got one of {mechanism.name!r}."
    )


class Agreements(NamedTuple):
    """Possible agreements: probability of the right class, of each other one, prior weight."""

    right: Floats
    wrong: Floats
    weights: Floats


def agreement_grid(n_classes: int, agreement: float | None) -> Agreements:
    """Return the middles of equal steps over [1/C, 1], or the one agreement that is known."""
    if agreement is None:
        steps = (np.arange(_STEPS) + 0.5) / _STEPS
        right = 1 / n_classes + steps * (1 - 1 / n_classes)
    else:
        right = np.atleast_1d(finite_array(agreement=agreement))
        if right.size != 1 or not 1 / n_classes <= right[0] <= 1:
            raise refuse("agreement", agreement, "one number between 1/n_classes and 1")
    return Agreements(right, (1 - right) / (n_classes - 1), np.full(right.size, 1 / right.size))
