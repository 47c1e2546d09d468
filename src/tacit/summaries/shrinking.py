"""How far to believe a noisy moment: a prior that is fitted to the release itself.

A moment in the eigenbasis of the public inputs is t = h theta + sampling error + noise, where h is
the curvature of the likelihood along that direction. With weights theta ~ N(0, scale prior), a
sampling error of variance spread h, and noise of known variance, t has the variance
scale prior h^2 + spread h + noise. The two unknown numbers, scale and spread, are those under which
the released moments are most likely (evidence, on a grid). No knob is left to turn, and nothing is
seen but a release and public inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, finite_array, non_negative
from tacit.errors import InvalidArgument

_SPREADS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
_SCALES = 61
_LEAST_LEFT = 0.01
_RANGE = 9.0
"""Decades of scales that are tried below the largest that the moments could mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Shrinkage:
    """The variances of weights, before and after the release, and of all error in a moment."""

    prior: Floats
    error: Floats
    curvature: Floats

    def mean(self, moments: Floats) -> Floats:
        """Return the posterior mean of the weights: prior h t / (prior h^2 + error)."""
        total = self.prior * self.curvature**2 + self.error
        return np.asarray(self.prior * self.curvature * moments / total)

    @property
    def posterior(self) -> Floats:
        """Return the variance of the weights that is left after the release."""
        total = self.prior * self.curvature**2 + self.error
        return np.asarray(self.prior * self.error / total)


class Residual(NamedTuple):
    """What is left to explain of the targets: its variance, among how many records.

    `ratio` is the number of records over that of the public inputs which tell the curvature.
    """

    variance: float
    records: float
    ratio: float

    def explained(self, scale: float, energy: Floats) -> float:
        """Return the variance that weights of this scale explain: scale tr C, but not all."""
        return min(scale * float(energy.sum()) / self.records, (1 - _LEAST_LEFT) * self.variance)

    def spread(self, scale: float, energy: Floats) -> float:
        """Return the sampling error, in units of the curvature.

        Records: what is not explained. Public inputs: n C theta is wrong by
        n^2/n_public E[phi_k^2 (phi theta)^2], about curvature x ratio x what is explained.
        """
        explained = self.explained(scale, energy)
        return self.variance - explained + self.ratio * explained


def shrinkage(
    moments: ArrayLike,
    curvature: ArrayLike,
    noise: float,
    prior: ArrayLike = 1.0,
    *,
    residual: Residual | None = None,
) -> Shrinkage:
    """Fit scale and spread to noisy moments (directions, columns) of known noise variance.

    `curvature` and `prior` (relative variances of weights) fit the moments' shape. Where curvature
    is the same along all directions, scale and spread cannot be told apart by the moments alone;
    `residual` then says what there is to explain, and the spread is the part of its variance that
    weights of this scale leave, and what few public inputs get wrong of the part they explain.

    >>> moments = np.array([[90.0], [-70.0], [1.0], [-110.0]])
    >>> shrinkage(moments, 10.0, noise=1.0).mean(moments).round().ravel().tolist()
    [9.0, -7.0, 0.0, -11.0]
    """
    seen = finite_array(moments=moments)
    bends = np.broadcast_to(finite_array(curvature=curvature), seen.shape)
    relative = np.broadcast_to(finite_array(prior=prior), seen.shape)
    if (bends < 0).any() or (relative < 0).any() or not (bends * relative > 0).any():
        raise InvalidArgument("Expected curvature and prior >= 0, and not all of them 0.")
    known = max(non_negative(noise=noise), 1e-300)
    signal = relative * bends**2
    top = float((seen**2).sum() / signal.sum()) + known / float(signal.max())
    scales = 10 * top * np.logspace(-_RANGE, 0.0, _SCALES)
    best, chosen = -np.inf, (scales[0], _SPREADS[0])
    for scale in scales:
        spreads = _SPREADS if residual is None else [residual.spread(scale, relative * bends)]
        for spread in spreads:
            variance = scale * signal + spread * bends + known
            evidence = -0.5 * float((np.log(variance) + seen**2 / variance).sum())
            if evidence > best:
                best, chosen = evidence, (scale, spread)
    scale, spread = chosen
    return Shrinkage(scale * relative, spread * bends + known, bends)
