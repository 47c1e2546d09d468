"""Posterior over classes from a release: post-processing, free of charge.

Model: one right class, uniform over C, and an agreement a, uniform over [1/C, 1]; each of K
teachers independently votes it with probability a, each other class with b = (1 - a)/(C - 1).
Counts are Gaussian: mean K p, variance K p (1 - p). An error that most teachers share is invisible.

A *label* is right with probability r = E_a[P(argmax is right | a)], other classes share 1 - r; a
passed check reweighs a by its chance of passing. For a *noisy histogram* R with noise variance s^2,
P(class c | R) is proportional to sum_a w(a) prod_j N(R_j; K p_j, s^2 + K p_j (1 - p_j)), p_c = a,
p_j = b elsewhere; w is fitted to all released histograms (empirical Bayes by EM). Where a hundred
very noisy histograms leave w uncertain, the posterior errs towards less confidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, blocks, finite_array, refuse, simplex_rows
from tacit.errors import InvalidArgument
from tacit.mechanisms import NO_ANSWER, Release, VoteReading

_QUANTILES = 400  # nodes for the mechanism's noise
_NODES = 12  # Gauss-Hermite nodes for the spread of one count


def label_posterior(
    release: Release, *, n_classes: int, n_teachers: int, agreement: float | None = None
) -> Floats:
    """Return P(class | release) for each query; each row sums to 1.

    Labels: r for the released class, (1 - r)/(C - 1) for the others. Histograms: softmax decoding
    with the noise level. An Interactive-GNMax label may be the teachers' or the student's, so it
    counts at the lower of r and the student's `confidence`. Source: `tacit.students.posterior`.

    Parameters
    ----------
    release : Release
        Of a mechanism that counts votes: labels, or noisy histograms with Gaussian noise.
    n_classes : int, at least 2; public
    n_teachers : int, how many teachers (or neighbours) vote on a query; public
    agreement : float, optional
        Share of the teachers that vote the right class, from 1/n_classes to 1, where it is publicly
        known. None gives it a uniform prior.

    Returns
    -------
    array of shape (queries, classes), public; an unanswered row (-1) is uniform, of weight 0

    Examples
    --------
    >>> from tacit import GNMax, InsecureNoise
    >>> release = GNMax(sigma=20).release([[90, 10], [20, 80]], InsecureNoise(0))
    >>> label_posterior(release, n_classes=2, n_teachers=100).round(1).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """
    n_classes = at_least(2, n_classes=n_classes)
    n_teachers = at_least(1, n_teachers=n_teachers)
    grid = _agreement_grid(n_classes, agreement)
    reading = release.mechanism.reading()
    if release.values is not None:
        if reading.sigma is None:
            raise InvalidArgument(
                f"Expected noisy votes with Gaussian noise, got those of {release.mechanism.name}."
            )
        values = finite_array(values=np.asarray(release.values))
        if values.ndim != 2 or values.shape[1] != n_classes:
            raise InvalidArgument(
                f"Expected noisy votes of shape (queries, {n_classes}), got shape {values.shape}."
            )
        return _decode_histograms(values, reading.sigma, n_teachers, grid)
    right = _chance_right(reading, n_classes, n_teachers, grid)
    return _from_labels(np.asarray(release.labels), n_classes, right)


def answer_weights(posterior: ArrayLike) -> Floats:
    """Return each row's weight, (C max_c p_c - 1)/(C - 1): 1 if certain, 0 if uniform.

    Parameters
    ----------
    posterior : array of shape (queries, classes), rows that sum to 1

    Returns
    -------
    array of shape (queries,)

    Examples
    --------
    >>> answer_weights([[1.0, 0.0], [0.75, 0.25], [0.5, 0.5]]).tolist()
    [1.0, 0.5, 0.0]
    """
    rows = simplex_rows(posterior=posterior)
    n_classes = rows.shape[1]
    weights = (n_classes * rows.max(axis=1) - 1) / (n_classes - 1)
    return np.where(weights < 1e-9, 0.0, weights)


def _from_labels(labels: NDArray[np.int64], n_classes: int, right: float) -> Floats:
    if labels.ndim != 1 or (labels < NO_ANSWER).any() or (labels >= n_classes).any():
        raise InvalidArgument(f"Expected labels in -1 .. {n_classes - 1} (n_classes={n_classes}).")
    posterior = np.full((labels.size, n_classes), (1 - right) / (n_classes - 1))
    posterior[np.arange(labels.size), labels] = right
    posterior[labels == NO_ANSWER] = 1 / n_classes
    return posterior


def _chance_right(reading: VoteReading, n_classes: int, n_teachers: int, grid: Agreements) -> float:
    """P(the released label is right), over the agreements that are possible after it."""
    chances = _right_given_agreement(reading, n_classes, n_teachers, grid)
    weights = grid.weights
    if reading.check is not None:
        weights = weights * reading.passing(n_teachers, grid.right)
        weights = weights / weights.sum() if weights.sum() > 0 else grid.weights
    right = min(float(weights @ chances), reading.at_most)
    return max(right, 1 / n_classes)


def _right_given_agreement(
    reading: VoteReading, n_classes: int, n_teachers: int, grid: Agreements
) -> Floats:
    """P(right count + noise exceeds all C - 1 others) for each agreement, by quadrature.

    E over the right count and its noise of P(one wrong count + its noise is less)^(C - 1).
    """
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(_NODES)
    node_weights = node_weights / node_weights.sum()
    drawn = reading.quantile((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    chances = np.empty(grid.right.size)
    for place, (right, wrong) in enumerate(zip(grid.right, grid.wrong, strict=True)):
        ours = n_teachers * right + nodes * _spread(n_teachers, right)
        theirs = n_teachers * wrong + nodes * _spread(n_teachers, wrong)
        gaps = (ours[:, None] + drawn)[:, :, None] - theirs
        one_less = reading.below(gaps) @ node_weights
        chances[place] = node_weights @ (one_less ** (n_classes - 1)).mean(axis=1)
    return chances


def _spread(n_teachers: int, chance: float) -> float:
    return float(np.sqrt(n_teachers * chance * (1 - chance)))


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


def _agreement_grid(n_classes: int, agreement: float | None) -> Agreements:
    """Return the middles of equal steps over [1/C, 1], or the one agreement that is known."""
    if agreement is None:
        steps = (np.arange(_STEPS) + 0.5) / _STEPS
        right = 1 / n_classes + steps * (1 - 1 / n_classes)
    else:
        right = np.atleast_1d(finite_array(agreement=agreement))
        if right.size != 1 or not 1 / n_classes <= right[0] <= 1:
            raise refuse("agreement", agreement, "one number between 1/n_classes and 1")
    return Agreements(right, (1 - right) / (n_classes - 1), np.full(right.size, 1 / right.size))


def _decode_histograms(values: Floats, sigma: float, n_teachers: int, grid: Agreements) -> Floats:
    """Return P(class | histogram) for each row, the agreements' weights fitted to all rows."""
    rows = blocks(len(values), _BLOCK // values.shape[1])
    models = [
        _Model(values.shape[1], sigma, n_teachers, right, wrong)
        for right, wrong in zip(grid.right, grid.wrong, strict=True)
    ]
    evidence = np.concatenate([_log_evidence(values[some], models) for some in rows])
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    every = -(-len(likelihood) // _ROWS)
    shares = likelihood * _fitted_weights(likelihood[::every], grid.weights)
    shares /= shares.sum(axis=1, keepdims=True)
    return np.concatenate([_mixed(values[some], shares[some], models) for some in rows])


class _Model:
    """The likelihood of one agreement: log N(R; class c) = base(R) + quadratic(R_c)."""

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
        """Return sum_j log N(R_j; as a wrong class), without terms that no agreement changes."""
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
    """Return the most likely weights of the agreements, by EM; the prior counts as one release."""
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
