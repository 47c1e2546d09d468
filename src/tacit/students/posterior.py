"""What a release tells about the labels: a posterior over classes, not a raw count.

The model. A query has one right class, uniform a priori over the C classes, and an agreement `a`,
uniform over [1/C, 1] a priori: each of K teachers independently votes the right class with
probability a, and each other class with probability b = (1 - a)/(C - 1). "Right" is what the
teachers as a body prefer: an error that most of them share cannot be seen in any release.
The mechanism adds its noise. Counts are treated as Gaussian: mean K p, variance K p (1 - p).
A *label* is then right with probability r = E_a[P(argmax is right | a)], and all other classes
share 1 - r; a check that was passed first reweighs `a` by its chance of passing. A *noisy
histogram* R gives P(class | R) ∝ sum_a w(a) N(R; counts of class at a), where the distribution w of
agreements is estimated from the released histograms together (empirical Bayes by EM). A hundred
very noisy histograms leave w uncertain; the posterior then errs towards less confidence.

Public inputs and releases only: nothing private ever enters this floor, so all of this is
post-processing and costs no privacy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, finite_array
from tacit.errors import InvalidArgument
from tacit.mechanisms import NO_ANSWER, Release, VoteReading
from tacit.students.histograms import Agreements, agreement_grid, decode_histograms

_QUANTILES = 400  # nodes for the mechanism's noise
_NODES = 12  # Gauss-Hermite nodes for the spread of one count


def label_posterior(
    release: Release, *, n_classes: int, n_teachers: int, agreement: float | None = None
) -> Floats:
    """Return P(class | release) for each query, `(queries, classes)`; each row sums to 1.

    Labels: r for the released class, (1 - r)/(C - 1) for the others, where r is what the noise
    allows. Histograms: softmax decoding with the noise level. An unanswered row (-1) is uniform:
    `answer_weights` gives it weight 0. `agreement`, if publicly known, replaces its prior.
    Of an Interactive-GNMax label nobody can tell whether teachers or student gave it, so it counts
    at the lower of r and the student's `confidence`. Source: the model in this module's docstring.

    >>> from tacit import GNMax, InsecureNoise
    >>> release = GNMax(sigma=20).release([[90, 10], [20, 80]], InsecureNoise(0))
    >>> label_posterior(release, n_classes=2, n_teachers=100).round(1).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """
    n_classes = at_least(2, n_classes=n_classes)
    n_teachers = at_least(1, n_teachers=n_teachers)
    grid = agreement_grid(n_classes, agreement)
    reading = release.mechanism.reading()
    if release.values is not None:
        if reading.sigma is None:
            raise InvalidArgument(
                f"Expected noisy votes with Gaussian noise, got those of {release.mechanism.name}."
            )
        return decode_histograms(_histogram(release, n_classes), reading.sigma, n_teachers, grid)
    right = _chance_right(reading, n_classes, n_teachers, grid)
    return _from_labels(np.asarray(release.labels), n_classes, right)


def answer_weights(posterior: ArrayLike) -> Floats:
    """Return how much each row says, (C max_c p_c - 1)/(C - 1): 1 if certain, 0 if uniform.

    >>> answer_weights([[1.0, 0.0], [0.75, 0.25], [0.5, 0.5]]).tolist()
    [1.0, 0.5, 0.0]
    """
    rows = posterior_rows(posterior)
    n_classes = rows.shape[1]
    weights = (n_classes * rows.max(axis=1) - 1) / (n_classes - 1)
    return np.where(weights < 1e-9, 0.0, weights)


def posterior_rows(posterior: ArrayLike) -> Floats:
    """Validate a posterior: `(queries, classes)`, at least two classes, rows in the simplex."""
    rows = finite_array(posterior=posterior)
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise InvalidArgument(
            f"Expected posterior of shape (queries, classes >= 2), got shape {rows.shape}."
        )
    if (rows < 0).any() or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-6):
        raise InvalidArgument("Expected each row of posterior to be >= 0 and to sum to 1.")
    return rows


def _from_labels(labels: NDArray[np.int64], n_classes: int, right: float) -> Floats:
    if labels.ndim != 1 or (labels < NO_ANSWER).any() or (labels >= n_classes).any():
        raise InvalidArgument(f"Expected labels in -1 .. {n_classes - 1} (n_classes={n_classes}).")
    posterior = np.full((labels.size, n_classes), (1 - right) / (n_classes - 1))
    answered = np.nonzero(labels != NO_ANSWER)[0]
    posterior[answered, labels[answered]] = right
    posterior[labels == NO_ANSWER] = 1 / n_classes
    return posterior


def _chance_right(reading: VoteReading, n_classes: int, n_teachers: int, grid: Agreements) -> float:
    """P(the released label is right), over the agreements that such a label leaves possible."""
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
    nodes, node_weights = _hermite()
    drawn = reading.quantile((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    chances = np.empty(grid.right.size)
    for place, (right, wrong) in enumerate(zip(grid.right, grid.wrong, strict=True)):
        ours = n_teachers * right + nodes * _spread(n_teachers, right)
        theirs = n_teachers * wrong + nodes * _spread(n_teachers, wrong)
        gaps = (ours[:, None] + drawn)[:, :, None] - theirs
        one_less = reading.below(gaps) @ node_weights
        chances[place] = node_weights @ (one_less ** (n_classes - 1)).mean(axis=1)
    return chances


def _hermite() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


def _spread(n_teachers: int, chance: float) -> float:
    return float(np.sqrt(n_teachers * chance * (1 - chance)))


def _histogram(release: Release, n_classes: int) -> Floats:
    values = finite_array(values=np.asarray(release.values))
    if values.ndim != 2 or values.shape[1] != n_classes:
        raise InvalidArgument(
            f"Expected noisy votes of shape (queries, {n_classes}), got shape {values.shape}."
        )
    return values
