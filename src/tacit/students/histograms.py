"""Decoding noisy histograms: P(class | all counts), by empirical Bayes over the agreement.

P(class c | R) is proportional to sum_a w(a) prod_j N(R_j; K p_j, s^2 + K p_j (1 - p_j)), where
p_c = a and p_j = b elsewhere, and s^2 is the variance of the rounded noise. For one agreement this
is a softmax of a quadratic in R_c, nearly softmax(K (a - b) R / s^2). The model is stated in
`tacit.students.posterior`. Public inputs and releases only: nothing private ever enters this floor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit._checks import Floats, finite_array, refuse

_STEPS = 48  # of the grid of agreements over [1/C, 1]
_ROUNDS = 500
_ROWS = 2000  # releases from which the distribution of agreements is estimated
_BLOCK = 1 << 18  # entries (rows x classes) decoded at a time: they stay in the cache
_ROUNDING = 1 / 12  # variance of rounding the noise to the integers
_NEGLIGIBLE = 1e-9


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


def decode_histograms(values: Floats, sigma: float, n_teachers: int, grid: Agreements) -> Floats:
    """Return P(class | histogram) for each row, the agreements' weights fitted to all rows."""
    step = max(1, _BLOCK // values.shape[1])
    blocks = [values[start : start + step] for start in range(0, len(values), step)]
    models = [
        _Model(values.shape[1], sigma, n_teachers, right, wrong)
        for right, wrong in zip(grid.right, grid.wrong, strict=True)
    ]
    evidence = np.concatenate([_log_evidence(block, models) for block in blocks])
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    every = -(-len(likelihood) // _ROWS)
    shares = likelihood * _fitted_weights(likelihood[::every], grid.weights)
    shares /= shares.sum(axis=1, keepdims=True)
    parts = [
        _mixed(block, shares[place * step : place * step + step], models)
        for place, block in enumerate(blocks)
    ]
    return np.concatenate(parts)


class _Model:
    """What one agreement says of a histogram: log N(R; class c) = base(R) + quadratic(R_c)."""

    def __init__(
        self, n_classes: int, sigma: float, n_teachers: int, right: float, wrong: float
    ) -> None:
        extra = sigma**2 + _ROUNDING
        ours, theirs = n_teachers * right, n_teachers * wrong
        our_variance = extra + ours * (1 - right)
        their_variance = extra + theirs * (1 - wrong)
        self.bend = 0.5 / their_variance - 0.5 / our_variance
        self.slope = ours / our_variance - theirs / their_variance
        offset = theirs**2 / their_variance - ours**2 / our_variance
        self.offset = 0.5 * (offset + np.log(their_variance / our_variance))
        self.theirs, self.their_variance, self.n_classes = theirs, their_variance, n_classes

    def base(self, values: Floats) -> Floats:
        """Return sum_j log N(R_j; as a wrong class), up to what no agreement changes."""
        gaps = values - self.theirs
        squares = np.einsum("ij,ij->i", gaps, gaps)
        spread = self.n_classes * np.log(self.their_variance)
        return np.asarray(-0.5 * (squares / self.their_variance + spread))

    def odds(self, values: Floats) -> tuple[Floats, Floats]:
        """Return each class's likelihood over the row's largest, and that largest's logarithm."""
        # The bend is >= 0. Below its lowest point a count would look the likelier the lower it is.
        if self.bend > 0:
            values = np.maximum(values, -self.slope / (2 * self.bend))
        scores = values * self.bend
        scores += self.slope
        scores *= values
        tops = scores.max(axis=1)
        scores -= tops[:, None]
        return np.exp(scores, out=scores), tops + self.offset


def _log_evidence(values: Floats, models: list[_Model]) -> Floats:
    """Return log P(R | a) for each row and agreement."""
    columns = []
    for model in models:
        odds, tops = model.odds(values)
        columns.append(model.base(values) + tops + np.log(odds.sum(axis=1)))
    return np.stack(columns, axis=1)


def _fitted_weights(likelihood: Floats, prior: Floats) -> Floats:
    """Return the weights of the agreements under which these releases are most likely, by EM.

    The prior counts as one release, so that a handful of them cannot rule an agreement out.
    """
    weights = prior
    for _ in range(_ROUNDS):
        shares = likelihood * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = (shares.sum(axis=0) + prior) / (len(likelihood) + 1)
    return weights


def _mixed(values: Floats, shares: Floats, models: list[_Model]) -> Floats:
    """Return P(class | R) = sum_a P(a | R) P(class | a, R)."""
    posterior = np.zeros(values.shape)
    for share, model in zip(shares.T, models, strict=True):
        if share.max() > _NEGLIGIBLE:
            odds, _ = model.odds(values)
            odds *= (share / odds.sum(axis=1))[:, None]
            posterior += odds
    return np.asarray(posterior / posterior.sum(axis=1, keepdims=True))
