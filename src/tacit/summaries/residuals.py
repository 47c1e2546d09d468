"""Rounds of noisy residual moments: features and scores whose bits are a row's own, and the steps.

**Exact.** A record may speak of what an earlier, public solution leaves unexplained, and that must
depend on this record and the solution alone: library products and exponentials may round a row
differently when others stand beside it. Features are whole steps, weights are rounded to whole
steps, so that products are exact integers; exponentials are taken one number at a time; sums go
class by class.

**Kernel features.** phi(x) = W k(x), k(x)_j = exp(-gamma |x - z_j|^2), W W^T = K^+ for the kernel
matrix K of public landmarks z (Nystroem), so that |phi(x)|^2 = k^T K^+ k <= 1. Distances are exact
integers, the kernel is looked up in a public table of integers, and W is rounded to integers, so
that every sum is exact in any order (docs/theory/speak-once.md).

**Shrinking.** A moment in the eigenbasis of the public inputs is t = h theta + sampling error +
noise, where h is the curvature of the likelihood along that direction. With weights
theta ~ N(0, scale prior), a sampling error of variance spread h, and noise of known variance, t has
the variance scale prior h^2 + spread h + noise. The two unknown numbers, scale and spread, are
those under which the released moments are most likely (evidence, on a grid). No knob is left to
turn, and nothing is seen but a release and public inputs.

**Rounds.** Round t releases sum phi(x) r_t(x), where r_t is what the public weights theta_t leave
unexplained of a record's target. Where nothing was shortened, its expectation is
n C (theta* - theta_t), with C the covariance of the features, taken from public inputs. The step is
the posterior mean of theta* - theta_t (`shrinkage`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, blocks, finite_array, non_negative, positive, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms import STEP, unit_steps
from tacit.neighbours import GRID_RADIUS, extended, feature_rows, questions

WEIGHT_STEP = 2.0**-18
_LARGEST_WEIGHT = 2.0**10
"""|steps| <= 2^14 and |weights| <= 2^28 sqrt(2^18) steps: any partial sum is below 2^53."""


def whole_weights(weights: Floats) -> Floats:
    """Return weights in whole steps of 2^-18, none beyond 2^10 in magnitude.

    >>> whole_weights(np.array([[0.5], [1e9]])).tolist()
    [[131072.0], [268435456.0]]
    """
    within = np.clip(finite_array(weights=weights), -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
    return np.asarray(np.rint(within / WEIGHT_STEP))


def exact_scores(steps: NDArray[Any], weights: Floats) -> Floats:
    """Return features (in whole steps) times weights (rounded to whole steps), exactly.

    Parameters
    ----------
    steps : array of int of shape (rows, features)
        Features in whole steps of 2^-14, none beyond 2^14 steps. Secret where the rows are.
    weights : array of shape (features, columns)
        Public; rounded to whole steps of 2^-18, and shortened to 2^10 in magnitude.

    Returns
    -------
    array of shape (rows, columns)
        Scores; each row's bits are its own, whatever the others are. As secret as the rows.

    References
    ----------
    docs/theory/speak-once.md#in-a-computer

    Examples
    --------
    >>> exact_scores(np.array([[2**14, 0]]), np.array([[0.25], [9.0]])).tolist()
    [[0.25]]
    """
    whole = whole_weights(weights)
    return np.asarray((steps.astype(np.float64) @ whole) * (STEP * WEIGHT_STEP))


def exact_softmax(scores: Floats) -> Floats:
    """Return softmax of each row, computed number by number.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        From `exact_scores`. Secret where the rows are.

    Returns
    -------
    array of shape (rows, classes)
        Probabilities; each row's bits are its own, whatever the others are. As secret as the rows.

    References
    ----------
    docs/theory/speak-once.md#in-a-computer

    Examples
    --------
    >>> exact_softmax(np.array([[0.0, 0.0], [900.0, -900.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    gaps = scores - scores.max(axis=1, keepdims=True)
    powers = np.array([math.exp(gap) for gap in gaps.ravel().tolist()]).reshape(gaps.shape)
    total = np.cumsum(powers, axis=1)[:, -1:]  # in sequence, as a sum need not be
    return np.asarray(powers / total)


Steps = NDArray[np.int16]

_LEVEL_BITS = 6
_LEVELS = 4 * GRID_RADIUS**2 >> _LEVEL_BITS
_KERNEL_STEPS = 2**16
_WHITE_STEPS = 2**24
_MOST_LANDMARKS = 2**12
"""2^12 products of 2^16 and 2^24 steps add up to less than 2^53."""
_SMALLEST = 1e-4
"""Directions whose eigenvalue is below this part of the mean diagonal are left out."""
_AT_ONCE = 2**20


class ExactNystroem:
    """Features of norm at most 1 in whole steps of 2^-14, for private and public rows alike.

    Parameters
    ----------
    landmarks : array of shape (m, dimensions)
        Public rows, at most 4096 of them. One that was taken from private data breaks the claim.
    gamma : float
        Of the kernel exp(-gamma distance^2), above 0; public.
    radius : float
        As in `tacit.neighbours.quantise`; public.

    Attributes
    ----------
    landmarks : array of shape (m, dimensions)
        The landmarks.
    gamma, radius : float
        As given.
    whitening : array of shape (m, n_features)
        W, learned from the landmarks: phi(x) = k(x) W, up to rounding.

    References
    ----------
    docs/theory/speak-once.md#residual-moments

    Examples
    --------
    >>> features = ExactNystroem([[0.0], [0.5], [1.0]], gamma=1.0, radius=1.0)
    >>> steps = features.steps([[0.5]]) / 2**14
    >>> bool((steps**2).sum() > 0.99)
    True
    """

    __slots__ = ("_table", "_there", "_weights", "gamma", "landmarks", "radius", "whitening")

    def __init__(self, landmarks: ArrayLike, *, gamma: float, radius: float) -> None:
        self.landmarks = feature_rows("landmarks", landmarks)
        at_least(1, landmarks=len(self.landmarks))
        if len(self.landmarks) > _MOST_LANDMARKS:
            raise refuse("landmarks", len(self.landmarks), f"at most {_MOST_LANDMARKS} rows")
        self.gamma, self.radius = positive(gamma=gamma), positive(radius=radius)
        grid = (np.arange(_LEVELS + 1) + 0.5) * 2**_LEVEL_BITS * (self.radius / GRID_RADIUS) ** 2
        self._table = np.rint(np.exp(-self.gamma * grid) * _KERNEL_STEPS)  # at every distance
        self._there = extended(self.landmarks, self.radius).T
        kernel = self._kernel(self.landmarks) / _KERNEL_STEPS
        values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
        kept = values > _SMALLEST
        # Largest first: the first features say the most.
        white = (vectors[:, kept] / np.sqrt(values[kept]))[:, ::-1]
        unit = np.abs(white).max() / _WHITE_STEPS
        self._weights = np.rint(white / unit)
        self.whitening = self._weights * unit

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.whitening.shape[1])

    def steps(self, rows: ArrayLike) -> Steps:
        """Return the features of each row in whole steps, its own bits whatever the others are.

        Parameters
        ----------
        rows : array of shape (rows, dimensions)
            Private or public inputs, in the landmarks' space.

        Returns
        -------
        array of int16 of shape (rows, n_features)
            Whole steps of 2^-14. As secret as the rows.
        """
        inputs = feature_rows("rows", rows)
        result = np.empty((len(inputs), self.n_features), dtype=np.int16)
        scale = float(np.abs(self.whitening).max() / np.abs(self._weights).max()) / _KERNEL_STEPS
        for block in blocks(len(inputs), _AT_ONCE // len(self.landmarks)):
            # Integers below 2^53: no sum is ever rounded.
            sums = self._kernel(inputs[block]) @ self._weights
            result[block] = unit_steps(sums * scale, sums.shape)
        return result

    def _kernel(self, rows: NDArray[np.generic]) -> Floats:
        """Return k(x) in whole steps of 2^-16, looked up by exact integer distances."""
        asked = questions(rows, self.radius)
        squares = np.einsum("ij,ij->i", asked[:, :-1], asked[:, :-1]) / 4  # of -2 x: exact
        distances = (asked @ self._there).astype(np.int64) + squares.astype(np.int64)[:, None]
        return np.asarray(self._table[distances >> _LEVEL_BITS])


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
        Public inputs in the feature space, which tell the curvature.
    total : float
        How many records there are, as released.
    columns : int
        How many numbers a record's target has.
    classes : bool
        Whether the targets are centred labels, which add up to 0: what does not is noise.
    variance : float, optional
        Of one target, as released: it says what there is to explain, where that is known.

    Attributes
    ----------
    weights : array of shape (features, columns)
        The public solution so far, in whole steps of 2^-18; 0 before the first step.

    References
    ----------
    docs/theory/speak-once.md#residual-moments and #numbers

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
    ) -> None:
        from sklearn.covariance import ledoit_wolf

        covariance = view.T @ view / len(view)
        if variance is not None:
            # Small eigenvalues of few public inputs come out too small, and a step along them
            # would be too long: towards a multiple of 1 (Ledoit and Wolf, 2004).
            covariance, _ = ledoit_wolf(view, assume_centered=True)
        values, self.basis = np.linalg.eigh(covariance)
        self.bends = np.repeat(total * np.maximum(values, 0.0)[:, None], columns, axis=1)
        self.prior = np.ones(self.bends.shape)
        self.weights = np.zeros(self.bends.shape)
        self.classes = classes
        ratio = total / len(view)
        self.residual = None if variance is None else Residual(variance, total, ratio)

    def step(self, moment: Floats, variance: float) -> None:
        """Move by the posterior mean of what is missing, given one residual moment.

        Parameters
        ----------
        moment : array of shape (features, columns)
            A release of sum phi(x) r(x), where r is what `weights` leave unexplained of a target;
            public.
        variance : float
            Of the noise in each number of the moment.
        """
        turned = self.basis.T @ moment
        if self.classes:
            turned -= turned.mean(axis=1, keepdims=True)
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
