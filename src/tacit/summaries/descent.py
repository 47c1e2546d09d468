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
from tacit.summaries.shrinking import Residual, shrinkage


class Descent:
    """The public side of the rounds, for `columns` targets; those of classes add up to 0.

    `variance`, of one target, says what there is to explain, where that is known.

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
        covariance = view.T @ view / len(view)
        if variance is not None:
            covariance = _cautious(view, covariance)
        values, self.basis = np.linalg.eigh(covariance)
        self.bends = np.repeat(total * np.maximum(values, 0.0)[:, None], columns, axis=1)
        self.prior = np.ones(self.bends.shape)
        self.weights = np.zeros(self.bends.shape)
        self.classes = classes
        ratio = total / len(view)
        self.residual = None if variance is None else Residual(variance, total, ratio)

    def step(self, moment: Floats, variance: float) -> None:
        """Move by the posterior mean of what is missing, given one residual moment.

        `variance` is that of the noise in each number of the moment.
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


def _cautious(view: Floats, covariance: Floats) -> Floats:
    """Pull the covariance of few public inputs towards a multiple of 1 (Ledoit and Wolf, 2004).

    Its small eigenvalues come out too small, and a step along them would be too long.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    part = float(ledoit_wolf_shrinkage(view, assume_centered=True))
    mean = np.trace(covariance) / len(covariance)
    return np.asarray((1 - part) * covariance + part * mean * np.eye(len(covariance)))
