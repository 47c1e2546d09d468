"""What linear codecs share: a spectrum, weights for the ellipsoid, a public radius, shrinkage.

docs/theory/high-dimensional.md#what-to-keep. Codes are orthonormal coordinates of (answer - public
mean). Weights say in which norm the mechanism clips: |weight * code| <= radius; a weight of 0
leaves a coordinate out of the release.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, finite_array, non_negative, positive, sampling_rate
from tacit.masks.codecs.base import answer_rows, code_rows
from tacit.masks.codecs.shrinkage import second_moments, useful, water_filling, wiener_weights

COVERAGE = 0.95
"""The radius holds this part of the public codes; longer answers are shortened."""


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

    def decode(
        self,
        codes: ArrayLike,
        *,
        sigma: float = 0.0,
        centres: ArrayLike | None = None,
        spectrum: ArrayLike | None = None,
    ) -> Floats:
        """Return answers (n, *shape): mean + expansion of centre + w (code - centre).

        w = lambda/(lambda + sigma^2) shrinks a code with noise `sigma` towards its centre; with
        sigma = 0 it is 1. `spectrum` replaces lambda, e.g. by `remaining_spectrum`.
        """
        rows = code_rows(codes, self.length)
        moments = self.spectrum if spectrum is None else second_moments(spectrum)
        places = 0.0 if centres is None else finite_array(centres=centres)
        shrunk = places + wiener_weights(moments, self.deviations(sigma)) * (rows - places)
        return self._expand(np.asarray(shrunk)) + self.mean

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
