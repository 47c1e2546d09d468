"""What linear codecs share: a spectrum, weights for the ellipsoid, a public radius, shrinkage.

Codes are orthonormal coordinates of (answer - public mean). Weights say in which norm the mechanism
clips: |weight * code| <= radius; a weight of 0 leaves a coordinate out of the release. How much of
each coordinate survives the noise (Wiener weights, L*, water-filling) is a function of public
numbers or of releases: lambda is the second moment of a coordinate about the public centre, sigma
the deviation of its noise. Derived in docs/theory/high-dimensional.md#what-to-keep.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import (
    Floats,
    at_least,
    finite_array,
    non_negative,
    positive,
    refuse,
    sampling_rate,
)
from tacit.errors import InvalidArgument
from tacit.masks.codecs.base import answer_rows, code_rows
from tacit.privacy import calibrate_gaussian

COVERAGE = 0.95
"""The radius holds this part of the public codes; longer answers are shortened."""


def second_moments(spectrum: ArrayLike) -> Floats:
    """Return a spectrum as non-negative finite numbers."""
    values = finite_array(spectrum=spectrum)
    if values.ndim != 1 or (values < 0).any():
        raise refuse("spectrum", spectrum, "a list of finite numbers >= 0")
    return values


def wiener_weights(spectrum: ArrayLike, deviations: ArrayLike) -> Floats:
    """Return lambda / (lambda + sigma^2), 0 where sigma is infinite: the best linear shrinkage.

    Its mean squared error, lambda sigma^2/(lambda + sigma^2), is between 1/2 and 1 times that of
    the better of keeping and dropping the coordinate.

    >>> wiener_weights([1.0, 4.0, 1.0], [1.0, 0.0, np.inf]).tolist()
    [0.5, 1.0, 0.0]
    """
    moments = second_moments(spectrum)
    noise = np.square(np.broadcast_to(np.asarray(deviations, dtype=np.float64), moments.shape))
    if np.isnan(noise).any():
        raise InvalidArgument("Expected deviations without NaN.")
    weights = np.ones(moments.shape)  # without noise everything is kept, 0/0 included
    np.divide(moments, moments + noise, out=weights, where=noise > 0)
    return weights


def useful(spectrum: ArrayLike, sigma: float) -> NDArray[np.bool_]:
    """Tell which coordinates have lambda > sigma^2: the L* rule; their number may be 0.

    It minimises L sigma^2 + sum of lambda over what is dropped.

    >>> useful([4.0, 2.0, 0.5], sigma=1.0).tolist()
    [True, True, False]
    """
    return np.asarray(second_moments(spectrum) > non_negative(sigma=sigma) ** 2)


def water_filling(spectrum: ArrayLike, noise: float) -> Floats:
    """Return q >= 0, sum q = 1, the best share of the radius for each coordinate.

    q_l = max(0, t sqrt(lambda_l) - G) minimises sum lambda G/(q + G), the error after Wiener
    shrinkage when codes are weighted by sqrt(q_l/lambda_l), so that their mean squared norm is 1,
    and the noise on the weighted mean has variance G = `noise`. It chooses the components itself.

    >>> water_filling([4.0, 1.0, 0.0], noise=0.5).round(6).tolist()
    [0.833333, 0.166667, 0.0]
    """
    roots = np.sqrt(second_moments(spectrum))
    level = positive(noise=noise)
    if not roots.any():
        raise refuse("spectrum", spectrum, "not all 0: there is nothing to encode")
    falling = np.sort(roots)[::-1]
    slopes = (1 + level * np.arange(1, roots.size + 1)) / np.cumsum(falling)
    # The last m whose smallest coordinate still gets a share.
    last = np.flatnonzero(slopes * falling > level)[-1]
    shares = np.maximum(0.0, slopes[last] * roots - level)
    return np.asarray(shares / shares.sum())


def noise_to_signal(epsilon: float, delta: float, *, queries: int, n_teachers: int) -> float:
    """Return G = 4 m^2 N / K^2: noise variance per coordinate when codes have rms norm 1.

    >>> round(noise_to_signal(8, 1e-5, queries=50, n_teachers=50), 4)
    0.0288
    """
    queries = at_least(1, queries=queries)
    reach = 2 * math.sqrt(queries) / at_least(1, n_teachers=n_teachers)
    return calibrate_gaussian(reach, epsilon, delta) ** 2


def combine_rounds(*rounds: tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """Return codes and deviations of several releases of the same codes: inverse-variance means.

    Each round is (codes, deviations); a deviation is infinite where a coordinate was left out, and
    a coordinate that no round has is 0 with an infinite one. Rounds may have had different centres:
    what clipping left alone has no bias.

    >>> first, second = ([[1.0, 5.0]], [1.0, np.inf]), ([[2.0, 7.0]], [1.0, 2.0])
    >>> codes, deviations = combine_rounds(first, second)
    >>> codes.tolist(), deviations.round(3).tolist()
    ([[1.5, 7.0]], [0.707, 2.0])
    """
    precision, total = np.zeros(1), np.zeros((1, 1))
    for codes, deviations in rounds:
        spread = np.asarray(deviations, dtype=np.float64)
        if not (spread > 0).all():
            raise InvalidArgument("Expected positive deviations.")
        weight = 1 / np.square(spread)
        precision = precision + weight
        total = total + finite_array(codes=codes) * weight
    spread = np.full(precision.shape, np.inf)
    np.divide(1.0, np.sqrt(precision), out=spread, where=precision > 0)
    return total / np.where(precision > 0, precision, 1.0), spread


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class LinearCodec(ABC):
    """A codec of orthonormal coordinates; `fit` of a subclass makes one.

    mean: the public mean answer. spectrum: second moments of the coordinates about it.
    weights: of the norm in which codes are clipped. radius: of that clip, for one query.
    examples: codes of the public masks, None where there were none.
    """

    mean: Floats
    spectrum: Floats
    weights: Floats
    radius: float
    examples: Floats | None
    coverage: float
    provenance: str
    statement: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one answer."""
        return self.mean.shape

    @property
    def length(self) -> int:
        """How many numbers a code has."""
        return self.spectrum.size

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2 * self.radius

    @property
    def rms_radius(self) -> float:
        """Root mean square of |weight * code|, from the spectrum."""
        return math.sqrt(float(np.square(self.weights) @ self.spectrum))

    def joint_radius(self, queries: int) -> float:
        """Return a radius for so many queries under one bound: sqrt(queries) rms_radius.

        Norms of single codes vary; their root mean square over many queries hardly does.
        """
        return math.sqrt(at_least(1, queries=queries)) * self.rms_radius

    @abstractmethod
    def _project(self, offsets: Floats) -> Floats:
        """Return coordinates (n, length) of answers less the mean."""

    @abstractmethod
    def _expand(self, codes: Floats) -> Floats:
        """Return offsets (n, *shape) from coordinates."""

    def _prepare(self, answers: Floats) -> Floats:
        """Return what is projected of the answers: themselves, unless a subclass blurs them."""
        return answers

    def encode(self, answers: ArrayLike) -> Floats:
        """Return codes (n, length): orthonormal coordinates of (answer - mean)."""
        rows = answer_rows(answers, self.shape)
        with np.errstate(all="ignore"):  # the mechanism makes a centre of what is not finite
            return self._project(self._prepare(rows) - self.mean)

    def coordinates(self, decoded: ArrayLike) -> Floats:
        """Return codes of answers as `decode` makes them, which no blur touches again."""
        rows = answer_rows(decoded, self.shape)
        with np.errstate(all="ignore"):
            return self._project(rows - self.mean)

    def deviations(self, sigma: float) -> Floats:
        """Return the deviation of the noise on each coordinate: sigma/weight, infinite at 0."""
        spread = np.full(self.length, np.inf)
        np.divide(non_negative(sigma=sigma), self.weights, out=spread, where=self.weights > 0)
        return spread

    def decode(self, codes: ArrayLike, *, sigma: float = 0.0) -> Floats:
        """Return answers (n, *shape): mean + expansion of w code.

        w = lambda/(lambda + sigma^2) shrinks a code with noise `sigma`; with sigma = 0 it is 1.
        """
        weights = wiener_weights(self.spectrum, self.deviations(sigma))
        return self._expand(weights * code_rows(codes, self.length)) + self.mean

    def n_useful(self, sigma: float) -> int:
        """L*: how many coordinates have lambda > sigma^2. At 0, decode the mean instead."""
        return int(useful(self.spectrum, sigma).sum())

    def useful(self, sigma: float) -> Self:
        """Return the codec that releases only coordinates with lambda > sigma^2."""
        return self.weighted(useful(self.spectrum, sigma).astype(np.float64))

    def ellipsoid(self, noise: float) -> Self:
        """Return the codec whose weights are those of water-filling at this `noise_to_signal`.

        weight_l = sqrt(q_l / lambda_l), so that the mean squared norm of a code is sum q = 1.
        """
        shares = water_filling(self.spectrum, noise)
        ratio = np.zeros(self.length)
        np.divide(shares, self.spectrum, out=ratio, where=shares > 0)
        return self.weighted(np.sqrt(ratio))

    def remaining(self, spectrum: ArrayLike) -> Self:
        """Return the codec for another round, in which codes differ so much from their centres."""
        moments = second_moments(spectrum)
        made = dataclasses.replace(self, spectrum=moments, examples=None)
        return made.weighted(np.ones(self.length))

    def weighted(self, weights: ArrayLike) -> Self:
        """Return the codec with these weights, and the radius that goes with them."""
        scales = finite_array(weights=weights)
        made = dataclasses.replace(self, weights=scales)
        norms = None if self.examples is None else self.examples * scales
        radius = made.rms_radius if norms is None else radius_of(norms, self.coverage)
        return dataclasses.replace(made, radius=radius)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self.shape}, length={self.length}, "
            f"radius={self.radius:.4g}, provenance={self.provenance!r})"
        )


def radius_of(codes: Floats, coverage: float) -> float:
    """Return the public quantile of the codes' norms, at least a tiny number."""
    norms = np.sqrt(np.square(codes).sum(axis=1))
    quantile = float(np.quantile(norms, sampling_rate(coverage=coverage)))
    return positive(radius=max(quantile, np.finfo(np.float64).eps))
