"""Rounds of noisy residual moments: weights, and how sure of each direction they are.

Round t releases sum phi(x) r_t(x), where r_t is what the public weights theta_t leave unexplained
of a record's target. Where nothing was shortened, its expectation is n C (theta* - theta_t), with C
the covariance of the features, taken from public inputs. The step is the posterior mean of
theta* - theta_t (`shrinkage`). Public: it sees releases and public inputs.
"""

from __future__ import annotations

import numpy as np

from tacit._checks import Floats
from tacit.summaries.exact import WEIGHT_STEP, whole_weights
from tacit.summaries.shrinking import shrinkage


class Descent:
    """The public side of the rounds, for `columns` targets; those of classes add up to 0.

    `variance`, of one target, says what there is to explain, where that is known.

    >>> descent = Descent(np.eye(2), total=200.0, columns=1, variance=0.5)
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
        covariance = view.T @ view / len(view)
        if variance is not None:
            covariance = _cautious(view, covariance)
        values, self.basis = np.linalg.eigh(covariance)
        self.bends = np.repeat(total * np.maximum(values, 0.0)[:, None], columns, axis=1)
        self.prior = np.ones(self.bends.shape)
        self.weights = np.zeros(self.bends.shape)
        self.classes, self.total = classes, total
        self.variance = variance

    def step(self, moment: Floats, variance: float) -> None:
        """Move by the posterior mean of what is missing, given one residual moment.

        `variance` is that of the noise in each number of the moment.
        """
        turned = self.basis.T @ moment
        if self.classes:
            turned -= turned.mean(axis=1, keepdims=True)
        # Curvature in units of the residuals' variance, which `shrinkage` fits as a spread.
        left = None if self.variance is None else (self.variance, self.total)
        shrunk = shrinkage(turned, self.bends, variance, self.prior, residual=left)
        moved = self.weights + self.basis @ shrunk.mean(turned)
        if self.variance is not None:
            missing = float((shrunk.posterior * self.bends).sum()) / self.total
            spread = self.variance - float((shrunk.prior * self.bends).sum()) / self.total
            self.variance = max(spread, 0.01 * self.variance) + missing
        self.prior = shrunk.posterior / max(float(shrunk.posterior.max()), 1e-300)
        self.weights = whole_weights(moved) * WEIGHT_STEP


def _cautious(view: Floats, covariance: Floats) -> Floats:
    """Pull the covariance of few public inputs towards a multiple of 1 (Ledoit and Wolf, 2004).

    Its small eigenvalues come out too small, and a step along them would be too long.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    part = float(ledoit_wolf_shrinkage(view, assume_centered=True))
    mean = np.trace(covariance) / len(covariance)
    return np.asarray((1 - part) * covariance + part * mean * np.eye(len(covariance)))
