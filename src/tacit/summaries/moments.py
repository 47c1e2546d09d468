"""Softmax weights from a noisy moment: labels from one release, the rest from public inputs.

The released T = sum phi(x) (e_y - c) + noise equals g(theta) = n mean_public phi (p_theta - c) up
to error: n times the curvature (records), n^2/n_public (public inputs) and the noise. Variances of
the weights' Gaussian priors are fitted by EM. Only releases and public inputs are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import softmax

from tacit._checks import Floats, Integers
from tacit.features import Column, Numeric

_ROUNDS = 40
_STEP = 0.5
"""Half steps: the classes' weights are moved one class at a time, as if the others stood still."""
_FLOOR = 1e-10
_MOST_FEATURES = 200
"""Features without groups are turned to so many main directions, if there are more."""


class WeightPrior(NamedTuple):
    """Weights are basis @ eta, with eta independent and one variance for each group of them.

    Parameters
    ----------
    basis : array of shape (features, directions)
        What each number of eta adds to the weights; public.
    groups : array of int of shape (directions,)
        The group of each direction, 0, 1, ...; `fit_moment` fits a variance to each group.
    """

    basis: Floats
    groups: Integers


def plain_prior(n_features: int) -> WeightPrior:
    """Return the prior of features of which nothing is known: one variance for all.

    Parameters
    ----------
    n_features : int
        How many features there are.

    Returns
    -------
    WeightPrior
        One direction for each feature, all in one group.
    """
    return WeightPrior(np.eye(n_features), np.zeros(n_features, dtype=np.int64))


def bins_prior(columns: Sequence[Column]) -> WeightPrior:
    """Return the prior of public bins: a variance for each column, and one for each trend.

    Parameters
    ----------
    columns : sequence of Numeric and Categorical
        The columns of a `PublicBins`, in order; public.

    Returns
    -------
    WeightPrior
        A direction for each bin or category, and one more for the trend of each numeric column:
        the rank of the bin. Columns without information get a variance of 0.

    Examples
    --------
    >>> prior = bins_prior([Numeric("age", [18, 65])])
    >>> prior.basis[:, -1].tolist(), prior.groups.tolist()
    ([-1.0, 0.0, 1.0, 0.0], [0, 0, 0, 0, 1])
    """
    widths = [len(column.labels) for column in columns]
    trends = block_diag(*map(_trend, columns))
    groups = np.repeat(np.arange(len(widths)), widths)
    own = len(widths) + np.arange(trends.shape[1])
    return WeightPrior(np.hstack([np.eye(sum(widths)), trends]), np.concatenate([groups, own]))


def _trend(column: Column) -> Floats:
    """Return the rank of each bin, a column of numbers; none where bins have no order."""
    ranks = np.linspace(-1, 1, len(column.labels) - 1)
    trend = np.append(ranks, 0.0)[:, None]  # the last bin, `other`, has no rank
    return trend if isinstance(column, Numeric) else trend[:, :0]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMoment:
    """A released moment: T = sum phi (e_y - centre) + noise, and what is known about it. Public.

    Parameters
    ----------
    values : array of shape (features, classes)
        T, in the units of phi.
    variance : float
        Of the noise in each number of T.
    total : float
        How many records there are, as released.
    shares : array of shape (classes,)
        Of the classes among them, as released; above 0, and they sum to 1.
    centre : array of shape (classes,)
        What was subtracted from each label (`best_centre`).
    """

    values: Floats
    variance: float
    total: float
    shares: Floats
    centre: Floats


class Solution(NamedTuple):
    """Weights (features, classes) and biases of a softmax regression; public.

    Parameters
    ----------
    weights : array of shape (features, classes)
        Of each feature for each class.
    bias : array of shape (classes,)
        Scores where all features are 0.
    """

    weights: Floats
    bias: Floats

    def chances(self, view: Floats) -> Floats:
        """Return P(class | x).

        Parameters
        ----------
        view : array of shape (inputs, features)
            Public inputs in the feature space. Of private ones a row's last bits might depend on
            the others: use `exact_scores` and `exact_softmax`.

        Returns
        -------
        array of shape (inputs, classes)
            softmax(view weights + bias); rows sum to 1.
        """
        return np.asarray(softmax(view @ self.weights + self.bias, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyEcho:
    """A released residual moment: sum phi (e_y - p(x)) + noise, p an earlier solution. Public.

    Both sums are over private inputs: no public input replaces any.

    Parameters
    ----------
    values : array of shape (features, classes)
        The moment, in the units of phi.
    variance : float
        Of the noise in each number of it.
    of : Solution
        The earlier solution, whose predictions p are subtracted.
    """

    values: Floats
    variance: float
    of: Solution


def best_centre(view: Floats, total: float, shares: Floats, mu: float, radius: float) -> Floats:
    """Return the centre between uniform and the classes' shares with the least expected error.

    Parameters
    ----------
    view : array of shape (inputs, features)
        Public inputs in the feature space.
    total : float
        How many records there are, as released.
    shares : array of shape (classes,)
        Of the classes among them, as released.
    mu : float
        1/sigma of the release to come, with contributions of norm 1.
    radius : float
        The largest norm of a row of features; public.

    Returns
    -------
    array of shape (classes,)
        To subtract from each label; it sums to 1. Public.

    Notes
    -----
    error(t) = (radius longest(t)/mu)^2 + total^2/n_public mean_eigenvalue |shares - centre(t)|^2:
    the noise is least at the uniform point, the public inputs' sampling error at the shares
    (docs/theory/speak-once.md#moments).

    Examples
    --------
    >>> view = np.eye(4)
    >>> best_centre(view, 1e6, np.array([0.9, 0.1]), mu=1.0, radius=1.0).round(2).tolist()
    [0.9, 0.1]
    """
    energy = float(np.square(view).sum() / len(view)) / view.shape[1]
    uniform = 1 / shares.size
    centres = uniform + np.linspace(0.0, 1.0, 21)[:, None] * (shares - uniform)
    noise = np.square([radius * longest_label(centre) / mu for centre in centres])
    missed = np.square(shares - centres).sum(axis=1)
    return np.asarray(centres[np.argmin(noise + total**2 / len(view) * energy * missed)])


def longest_label(centre: Floats) -> float:
    """Return the largest norm of e_y - centre over the classes y.

    Parameters
    ----------
    centre : array of shape (classes,)
        What is subtracted from each label; public.

    Returns
    -------
    float
        Divisor that bounds any centred label by norm 1.

    Examples
    --------
    >>> round(longest_label(np.array([0.75, 0.25])), 4)
    1.0607
    """
    return float(np.linalg.norm(np.eye(centre.size) - centre, axis=1).max())


def fit_moment(
    view: Floats, moment: NoisyMoment, prior: WeightPrior, echo: NoisyEcho | None = None
) -> Solution:
    """Return softmax weights and biases from a noisy moment, and an echo of an earlier solution.

    Parameters
    ----------
    view : array of shape (inputs, features)
        Public inputs in the feature space, in place of the private ones.
    moment : NoisyMoment
        The first release.
    prior : WeightPrior
        Which weights share a variance.
    echo : NoisyEcho, optional
        A second release, of the residuals.

    Returns
    -------
    Solution
        Public, as the releases are.

    Notes
    -----
    Each round linearises g at the current weights, takes the posterior mean of each class's
    weights, refits the prior variances, and sets the biases so that the mean prediction on public
    inputs is the classes' released shares (docs/theory/speak-once.md#moments).
    """
    if view.shape[1] > _MOST_FEATURES and not prior.groups.any():
        return _fit_turned(view, moment, echo)
    n_classes = moment.shares.size
    # Of two classes one is the other's mirror image.
    places = [1] if n_classes == 2 else list(range(n_classes))
    now = Solution(np.zeros((view.shape[1], n_classes)), np.log(moment.shares))
    chances = now.chances(view)
    heard = {}
    if echo is not None:
        before = echo.of.chances(view)
        heard = {
            place: _evidence(view, echo, moment.total, prior, echo.of, before, place)
            for place in places
        }
    variances = np.ones(int(prior.groups.max()) + 1)
    sizes = np.bincount(prior.groups) * len(places)
    for _ in range(_ROUNDS):
        energy, aim = np.zeros(prior.groups.size), np.zeros(now.weights.shape)
        for place in places:
            precision, pull = _evidence(view, moment, moment.total, prior, now, chances, place)
            if place in heard:
                precision += heard[place][0]
                pull += heard[place][1]
            covariance = np.linalg.inv(precision + np.diag(1 / variances[prior.groups]))
            mean = covariance @ pull
            energy += mean**2 + np.diag(covariance)
            aim[:, place] = prior.basis @ mean
        if len(places) == 1:
            aim[:, 0] = -aim[:, 1]
        aim -= aim.mean(axis=1, keepdims=True)
        variances = np.maximum(np.bincount(prior.groups, energy) / sizes, _FLOOR)
        now, chances = _balanced(view, now, aim, moment.shares)
    return now


def _fit_turned(view: Floats, moment: NoisyMoment, echo: NoisyEcho | None) -> Solution:
    """Fit in the main directions of the public inputs: many features would take cubic time.

    Noise and a plain prior are the same along all directions.
    """
    _, vectors = np.linalg.eigh(view.T @ view)
    main = vectors[:, -_MOST_FEATURES:]
    turned = replace(moment, values=main.T @ moment.values)
    if echo is not None:
        before = Solution(main.T @ echo.of.weights, echo.of.bias)
        echo = replace(echo, values=main.T @ echo.values, of=before)
    found = fit_moment(view @ main, turned, plain_prior(_MOST_FEATURES), echo)
    return Solution(main @ found.weights, found.bias)


def _evidence(
    view: Floats,
    said: NoisyMoment | NoisyEcho,
    total: float,
    prior: WeightPrior,
    about: Solution,
    chances: Floats,
    place: int,
) -> tuple[Floats, Floats]:
    """Linearise a release at a solution, for one class: gap = slope weights + N(0, error).

    Return the information about eta: precision, and precision times mean.
    """
    share, n_classes = total / len(view), chances.shape[1]
    chance = chances[:, place]
    error = share * _gram(view, chance * (1 - chance))
    slope = error * (n_classes / (n_classes - 1))  # the other classes' weights move against it
    # e_y - centre adds up to 0 over the classes: what does not is noise.
    gap = said.values[:, place] - said.values.mean(axis=1)
    if isinstance(said, NoisyMoment):  # public inputs stand for the private ones
        centred = chance - said.centre[place]
        gap -= share * (view.T @ centred)
        error += share**2 * _gram(view, np.square(centred))
    gap += slope @ about.weights[:, place]
    error += said.variance * (1 - 1 / n_classes) * np.eye(len(error))
    images = slope @ prior.basis
    believed = np.linalg.solve(error, images)
    return images.T @ believed, believed.T @ gap


def _gram(view: Floats, weights: Floats) -> Floats:
    rows = view * np.sqrt(weights)[:, None]
    return np.asarray(rows.T @ rows)


def _balanced(
    view: Floats, before: Solution, aim: Floats, shares: Floats
) -> tuple[Solution, Floats]:
    """Go half way to the aim; bring the mean chances on public inputs near the shares."""
    weights = before.weights + _STEP * (aim - before.weights)
    scores, bias = view @ weights, before.bias
    for _ in range(3):
        mean = softmax(scores + bias, axis=1).mean(axis=0)
        bias = bias + np.log(shares / np.maximum(mean, 1e-12))
    return Solution(weights, bias), np.asarray(softmax(scores + bias, axis=1))
