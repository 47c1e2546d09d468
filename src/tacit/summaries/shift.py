"""Whether private records are distributed as public inputs, by releases alone.

Votes at each prototype, the sum of the features, or their second moment are compared with those of
public inputs. A difference must be certain (`z`, beyond noise and both samplings) *and* matter
(`effect`) before there is a warning. All of it is post-processing of releases.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit._checks import Floats, Integers

CERTAIN = 4.0
"""Standard deviations from which a difference is certain."""
TABLE_EFFECT, MOMENT_EFFECT, MEAN_EFFECT = 0.15, 0.06, 0.02
"""Of what size a difference matters (`python -m benchmarks.shift_warnings`)."""


class Shift(NamedTuple):
    """How far private records are from public inputs, by a release; public.

    Parameters
    ----------
    z : float
        In standard deviations, under the hypothesis of one distribution.
    effect : float
        Relative to what is compared; 0 for one distribution.
    least : float
        The effect that matters.
    """

    z: float
    effect: float
    least: float

    def __str__(self) -> str:
        """Return it in words."""
        if not self.is_told:
            if self._visible > self.least:
                return (
                    "The releases cannot tell whether public inputs resemble the private records: "
                    f"noise hides every effect below {self._visible:.2g}, and one of "
                    f"{self.least:g} matters."
                )
            return "The releases tell of no difference between public inputs and private records."
        return (
            "Public inputs do not resemble the private records: what was released of where these "
            f"lie is {self.z:.1f} deviations from what the public inputs would give (effect "
            f"{self.effect:.2f}). Expect a student that is worse than held-out public rows say; "
            "public inputs of the private records' kind would help."
        )

    @property
    def _visible(self) -> float:
        """The effect that would just be certain: both figures grow with the same difference."""
        return CERTAIN * self.effect / self.z if self.z else 0.0

    @property
    def is_told(self) -> bool:
        """Whether the distributions differ, certainly and by much."""
        return self.z > CERTAIN and self.effect > self.least


def table_shift(table: Floats, sigma: float, near: Integers) -> Shift:
    """Compare votes at prototypes with those that public inputs would give.

    Parameters
    ----------
    table : array of shape (prototypes, classes)
        A release of `prototype_votes`; public.
    sigma : float
        Standard deviation of the noise in each cell.
    near : array of int of shape (public inputs, votes)
        The prototypes at which public inputs would vote.

    Returns
    -------
    Shift
        `effect` is the chi-square divergence of the private shares from the public ones.

    Notes
    -----
    Row sums R_j have the noise K sigma^2. Under one distribution, with a share w_j of all votes at
    prototype j, R_j = N w_j up to the records' sampling, R_j/sqrt r, and the public inputs',
    N^2 w_j/(r inputs).
    """
    n_inputs, votes = near.shape
    shares = np.bincount(near.ravel(), minlength=len(table)) / near.size
    sums = table.sum(axis=1)
    total = max(float(sums.sum()), sigma)
    noise = table.shape[1] * sigma**2
    expected = total * shares
    spread = noise + expected / math.sqrt(votes) + total * expected / (votes * n_inputs)
    # Each prototype in units of what is expected there: rare places count as much as dense ones.
    weights = 1 / (shares + 1 / len(table))
    beyond = float(((sums - expected) ** 2 * weights).sum() - (spread * weights).sum())
    deviation = math.sqrt(2 * float((spread**2 * weights**2).sum()))
    return Shift(beyond / deviation, 2 * beyond / total**2, TABLE_EFFECT)


def moment_shift(moment: Floats, view: Floats, total: float, sigma: float) -> Shift:
    """Compare a second moment of the features with that of public inputs.

    Parameters
    ----------
    moment : array of shape (features, features)
        A release of sum phi phi^T with independent noise in every number; public.
    view : array of shape (inputs, features)
        Public inputs in the feature space; none of them a landmark, whose features are longer.
    total : float
        How many records there are, as released.
    sigma : float
        Standard deviation of that noise.

    Returns
    -------
    Shift
        `effect` is the squared difference over the squared norm of the public covariance.

    Notes
    -----
    Averaged with its transpose, the noise adds sigma^2 D (D + 1)/2 to the squared norm, n^2 times;
    sampling adds (1/n + 1/inputs)(E |phi|^4 - |C|^2).
    """
    size = view.shape[1]
    covariance = view.T @ view / len(view)
    seen = (moment + moment.T) / 2 / total
    squares = float((covariance**2).sum())
    noise = (sigma / total) ** 2
    lengths = float((np.einsum("ij,ij->i", view, view) ** 2).mean())
    sampling = (1 / total + 1 / len(view)) * max(lengths - squares, 0.0)
    expected = noise * size * (size + 1) / 2 + sampling
    # Of the sampling, half of its expectation: more than its spread in several dimensions.
    deviation = math.hypot(noise * math.sqrt(size * (size + 1.0)), sampling / 2)
    beyond = float(((seen - covariance) ** 2).sum()) - expected
    return Shift(beyond / deviation, beyond / squares, MOMENT_EFFECT)


def mean_shift(sums: Floats, view: Floats, total: float, sigma: float, unsure: float) -> Shift:
    """Compare the sum of the records' features with the mean of public inputs.

    Parameters
    ----------
    sums : array of shape (features,)
        A release of sum phi; public.
    view : array of shape (inputs, features)
        Public inputs in the feature space.
    total : float
        How many records there are, as released.
    sigma, unsure : float
        Standard deviations of the noise in each number of `sums`, and in `total`.

    Returns
    -------
    Shift
        `effect` is the squared distance of the means over the sum of the features' variances.

    Notes
    -----
    Under one distribution, of mean m and covariance C, the difference of the means has the
    covariance A = (sigma/n)^2 + (1/n + 1/inputs) C + (unsure/n)^2 m m^T. Its squared length is
    taken for chi-square with the mean tr A and the variance 2 tr A^2; `z` is the Gaussian number
    as unlikely (Wilson and Hilferty), for a few directions may hold all of the variance.

    Examples
    --------
    >>> view = np.array([[0.0, 1.0], [1.0, 0.0]] * 50)
    >>> sums = 1e4 * np.array([[0.5, 0.5], [0.9, 0.1]])
    >>> [mean_shift(each, view, 1e4, 1.0, 1.0).is_told for each in sums]
    [False, True]
    """
    mean = view.mean(axis=0)
    apart = view - mean
    covariance = apart.T @ apart / len(view)
    spread = (1 / total + 1 / len(view)) * covariance
    spread += (unsure / total) ** 2 * np.outer(mean, mean)
    spread[np.diag_indices_from(spread)] += (sigma / total) ** 2
    expected, squares = float(np.trace(spread)), float((spread**2).sum())
    seen = float(((sums / total - mean) ** 2).sum())
    narrow = 2 / 9 * squares / max(expected, 1e-300) ** 2  # 2/9 over the degrees of freedom
    z = ((seen / max(expected, 1e-300)) ** (1 / 3) - 1 + narrow) / math.sqrt(max(narrow, 1e-300))
    variance = max(float(np.trace(covariance)), 1e-300)
    return Shift(z, (seen - expected) / variance, MEAN_EFFECT)
