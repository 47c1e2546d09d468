"""Steps of a public descent from noisy residual moments.

Round t releases sum phi(x) r_t(x), r_t the residual of the public weights theta_t; its expectation
is n C (theta* - theta_t), C the features' covariance, and the step is the posterior mean of
theta* - theta_t (`shrinkage`). Corrections of C: `covariance_gap`; of solutions: `weighted_by`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, finite_array, non_negative
from tacit.errors import InvalidArgument
from tacit.summaries.residuals import WEIGHT_STEP, whole_weights

_SPREADS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
_SCALES = 61
_LEAST_LEFT = 0.01
_FAR_BEHIND = 3.0
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
        """Return the variance of the weights after the release."""
        total = self.prior * self.curvature**2 + self.error
        return np.asarray(self.prior * self.error / total)


class Residual(NamedTuple):
    """What is left to explain of the targets: its variance, among how many records.

    `ratio` is the number of records over that of the public inputs.
    """

    variance: float
    records: float
    ratio: float

    def explained(self, scale: float, energy: Floats) -> float:
        """Return the variance that weights of this scale explain: scale tr C, but not all."""
        return min(scale * float(energy.sum()) / self.records, (1 - _LEAST_LEFT) * self.variance)

    def spread(self, scale: float, energy: Floats) -> float:
        """Return the sampling error, in units of the curvature.

        Records: what is not explained. Public inputs: n C theta is wrong by n^2/n_public E[phi_k^2
        (phi theta)^2], about curvature x ratio x what is explained.
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

    t = h theta + error, h the `curvature`, theta ~ N(0, scale prior), sampling error of variance
    spread h: t has the variance scale prior h^2 + spread h + noise, and scale and spread are those
    of greatest evidence, on a grid. If h is the same everywhere only `residual` identifies the
    spread.

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

    def evidence(pair: tuple[float, float]) -> float:
        variance = pair[0] * signal + pair[1] * bends + known
        return -0.5 * float((np.log(variance) + seen**2 / variance).sum())

    pairs = [(scale, spread) for scale in scales for spread in _SPREADS]
    if residual is not None:
        pairs = [(scale, residual.spread(scale, relative * bends)) for scale in scales]
    scale, spread = max(pairs, key=evidence)
    return Shrinkage(scale * relative, spread * bends + known, bends)


class Descent:
    """The public side of the rounds, for `columns` targets; those of classes add up to 0.

    Parameters
    ----------
    view : array of shape (inputs, features)
        Public inputs in the feature space, which give the curvature.
    total : float
        How many records there are, as released.
    columns : int
        Length of a record's target.
    classes : bool
        Whether the targets are centred labels, which add up to 0: the rest is noise.
    variance : float, optional
        Of one target, as released: what there is to explain, where that is known.
    gap : array of shape (features, features), optional
        Added to the public covariance, from `covariance_gap`.

    Attributes
    ----------
    weights : array of shape (features, columns)
        The public solution so far, in whole steps of 2^-18; 0 before the first step.

    Notes
    -----
    docs/theory/speak-once.md#residual-moments and #numbers.

    Examples
    --------
    >>> view = np.repeat(np.eye(2), 100, axis=0)
    >>> descent = Descent(view, total=200.0, columns=1, variance=0.5)
    >>> descent.step(np.array([[80.0], [-40.0]]), 0.01)
    >>> descent.weights.round(1).ravel().tolist()
    [0.8, -0.4]
    """

    def __init__(
        self,
        view: Floats,
        total: float,
        columns: int,
        *,
        classes: bool = False,
        variance: float | None = None,
        gap: Floats | None = None,
    ) -> None:
        from sklearn.covariance import ledoit_wolf

        covariance = view.T @ view / len(view)
        if variance is not None:
            # Small eigenvalues of few public inputs come out too small, and a step along them
            # would be too long: towards a multiple of 1 (Ledoit and Wolf, 2004).
            covariance, _ = ledoit_wolf(view, assume_centered=True)
        if gap is not None:
            covariance = covariance + gap
        values, self.basis = np.linalg.eigh(covariance)
        self.bends = np.repeat(total * np.maximum(values, 0.0)[:, None], columns, axis=1)
        self.prior = np.ones(self.bends.shape)
        self.weights = np.zeros(self.bends.shape)
        self.classes, self.total = classes, total
        ratio = total / len(view)
        self.residual = None if variance is None else Residual(variance, total, ratio)

    def step(self, moment: Floats, variance: float) -> None:
        """Take a step: the posterior mean of what `weights` leave unexplained.

        Parameters
        ----------
        moment : array of shape (features, columns)
            A release of sum phi(x) r(x), r the residual of `weights`; public.
        variance : float
            Of the noise in each number of the moment.
        """
        turned = self._turned(moment)
        # Curvature in units of the residuals' variance, which `shrinkage` fits as a spread.
        shrunk = shrinkage(turned, self.bends, variance, self.prior, residual=self.residual)
        moved = self.weights + self.basis @ shrunk.mean(turned)
        if self.residual is not None:
            explained = self.residual.explained(1.0, shrunk.prior * self.bends)
            missing = self.residual.explained(1.0, shrunk.posterior * self.bends)
            variance = self.residual.variance - explained + missing
            self.residual = self.residual._replace(variance=variance)
        self.prior = shrunk.posterior / max(float(shrunk.posterior.max()), 1e-300)
        self.weights = whole_weights(moved) * WEIGHT_STEP

    def ridge(self, moment: Floats, penalty: float) -> Floats:
        """Return the weights after a plain ridge step, which is not taken.

        Parameters
        ----------
        moment, penalty
            As in `step`; added to the eigenvalues of the features' covariance, of norm at most 1.

        Returns
        -------
        array of shape (features, columns)
            In whole steps of 2^-18; public.
        """
        turned = self._turned(moment)
        moved = self.basis @ (turned / (self.bends + penalty * self.total))
        return np.asarray(whole_weights(self.weights + moved) * WEIGHT_STEP)

    def _turned(self, moment: Floats) -> Floats:
        turned = np.asarray(self.basis.T @ moment)
        return turned - turned.mean(axis=1, keepdims=True) if self.classes else turned


def covariance_gap(moment: Floats, view: Floats, total: float, sigma: float) -> Floats:
    """Return the difference of the private covariance from the public one, beyond the noise.

    Parameters
    ----------
    moment : array of shape (features, features)
        A release of sum phi phi^T with independent noise in every number; public.
    view : array of shape (inputs, features)
        Public inputs in the feature space.
    total : float
        How many records there are, as released.
    sigma : float
        Standard deviation of that noise.

    Returns
    -------
    array of shape (features, features)
        Symmetric. Eigenvalues up to 2 (sigma/sqrt 2) sqrt(features)/total, as of noise alone, are
        left out, larger ones shortened by it
        (docs/theory/speak-once.md#public-inputs-of-another-kind).

    Examples
    --------
    >>> view = np.eye(2)
    >>> covariance_gap(np.diag([900.0, 100.0]), view, 1000.0, 1.0).round(2).tolist()
    [[0.4, 0.0], [0.0, -0.4]]
    """
    seen = (moment + moment.T) / 2 / total - view.T @ view / len(view)
    values, vectors = np.linalg.eigh(seen)
    edge = 2 * sigma / math.sqrt(2) * math.sqrt(len(seen)) / total
    beyond = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    return np.asarray((vectors * (np.sign(values) * beyond)) @ vectors.T)


def weighted_by(gains: Floats, noise: float) -> Floats:
    """Return the weights of several solutions, from noisy gains: they add up to 1.

    Parameters
    ----------
    gains : array of shape (solutions,)
        Gain of each, as released.
    noise : float
        Standard deviation of the noise in each.

    Returns
    -------
    array of shape (solutions,)
        exp(gain/noise), normalised; 0 for more than three deviations behind the best: a solution
        that diverged is long, and would matter at any weight.

    Examples
    --------
    >>> weighted_by(np.array([100.0, 99.0, 20.0]), 10.0).round(2).tolist()
    [0.52, 0.48, 0.0]
    """
    behind = (float(gains.max()) - gains) / noise
    shares = np.where(behind <= _FAR_BEHIND, np.exp(-behind), 0.0)
    return np.asarray(shares / shares.sum())
