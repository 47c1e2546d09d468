"""What a codec is, how teachers' answers are encoded one at a time, and the naive codec.

Encoding accepts any values (NaN, 1e300): the mechanism turns a code that is not finite into its
public centre. Only a wrong shape is refused.
Why a codec must be public, or bought: docs/theory/high-dimensional.md#private-components.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import (
    Floats,
    at_least,
    finite_array,
    non_negative,
    number_array,
    positive,
    refuse,
)
from tacit.errors import InvalidArgument
from tacit.mechanisms import TeacherCodes
from tacit.privacy import calibrate_gaussian

PUBLIC = "fitted on masks that its maker declared public"


_CENTRE = 0.5


class Codec(Protocol):
    """Encodes long answers `(n, ...)` as codes `(n, length)`, and decodes them."""

    @property
    def length(self) -> int:
        """How many numbers a code has."""

    @property
    def diameter(self) -> float:
        """The largest distance of two clipped codes: 2 radius for `GaussianMean`."""

    @property
    def provenance(self) -> str:
        """Origin: "public", or "dp" if it was bought from private data."""

    @property
    def statement(self) -> str:
        """The provenance in a sentence; for "dp" it names the ledger entry that paid."""

    def encode(self, answers: ArrayLike) -> Floats:
        """Return codes, as secret as the answers.

        Parameters
        ----------
        answers : array of shape (n, ...), any values; only a wrong shape is refused

        Returns
        -------
        array of shape (n, length)
        """

    def decode(self, codes: ArrayLike) -> Floats:
        """Return answers from codes, noisy or not: post-processing.

        Parameters
        ----------
        codes : array of shape (n, length)

        Returns
        -------
        array of shape (n, ...)
        """


def public_masks(masks: ArrayLike) -> Floats:
    """Return public masks as finite numbers (n, ...), at least one."""
    array = _as_numbers("masks", masks)
    if array.ndim < 2 or 0 in array.shape or not np.isfinite(array).all():
        raise InvalidArgument(
            f"Expected public masks (n, ...) of finite numbers, got shape {array.shape}."
        )
    return array


def answer_rows(answers: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return answers (n, *shape) as float64, whatever their values; refuse another shape."""
    array = _as_numbers("answers", answers)
    if array.shape[1:] != shape or array.ndim != len(shape) + 1:
        raise InvalidArgument(f"Expected answers of shape (n, *{shape}), got {array.shape}.")
    return array


def _as_numbers(name: str, masks: ArrayLike) -> Floats:
    """Return masks as float64, where bools are 0 and 1."""
    try:
        array = np.asarray(masks)
    except ValueError:  # ragged
        array = np.empty(0, dtype=np.str_)
    return number_array(**{name: array.astype(np.uint8) if array.dtype == np.bool_ else array})


def code_rows(codes: ArrayLike, length: int) -> Floats:
    """Return codes (n, length) as float64; refuse another shape."""
    array = number_array(codes=codes)
    if array.ndim != 2 or array.shape[1] != length:
        raise InvalidArgument(f"Expected codes of shape (n, {length}), got {array.shape}.")
    return array


def shape_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of positive integers."""
    return tuple(at_least(1, shape=side) for side in shape)


def spatial_sides(shape: tuple[int, ...], dimensions: int | None) -> tuple[int, ...]:
    """Return the last `dimensions` sides of an answer, all of them unless given.

    >>> spatial_sides((2, 20, 28, 20), 3), spatial_sides((16, 16), None)
    ((20, 28, 20), (16, 16))
    """
    wanted = len(shape) if dimensions is None else at_least(1, dimensions=dimensions)
    if wanted > len(shape):
        raise InvalidArgument(f"Expected at least {wanted} sides, got answers of shape {shape}.")
    return shape[-wanted:]


def encoded_answers(
    codec: Codec, answer: Callable[[int, int], ArrayLike], n_teachers: int, n_queries: int
) -> TeacherCodes:
    """Return codes for `GaussianMean`, encoded one answer at a time when needed. Secret.

    Parameters
    ----------
    codec : Codec, public
    answer : callable, `answer(teacher, query)` returns one mask; only one is in memory at a time
    n_teachers, n_queries : int

    Returns
    -------
    TeacherCodes of shape (teachers, queries, length), for a grant's `release`
    """

    def part(teacher: int, rows: slice) -> Floats:
        said = (np.asarray(answer(teacher, query)) for query in range(rows.start, rows.stop))
        return np.concatenate([codec.encode(one[None]) for one in said])

    return TeacherCodes((n_teachers, n_queries, codec.length), part)


@dataclass(frozen=True, slots=True)
class IdentityCodec:
    """Codes are the answers themselves, less 1/2, for answers in [0, 1].

    The cube [0,1]^D has diameter sqrt(D) and lies in the ball of radius sqrt(D)/2 about its middle
    (the 2022 paper pays for twice that: `docs/theory/high-dimensional.md#what-the-papers-say`).

    Parameters
    ----------
    shape : tuple of int, of one answer
    """

    shape: tuple[int, ...]
    provenance: ClassVar[str] = "public"
    statement: ClassVar[str] = "made without any data"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", shape_of(self.shape))

    @property
    def length(self) -> int:
        """The number of voxels."""
        return math.prod(self.shape)

    @property
    def diameter(self) -> float:
        """sqrt(length), the diagonal of the cube."""
        return math.sqrt(self.length)

    def encode(self, answers: ArrayLike) -> Floats:
        """Return answers less 1/2, flat; as secret as the answers.

        Parameters
        ----------
        answers : array of shape (n, *shape)

        Returns
        -------
        array of shape (n, length)
        """
        rows = answer_rows(answers, self.shape)
        with np.errstate(all="ignore"):
            return rows.reshape(len(rows), -1) - _CENTRE

    def decode(self, codes: ArrayLike) -> Floats:
        """Return codes plus 1/2, in shape, not cut to [0, 1].

        Parameters
        ----------
        codes : array of shape (n, length)

        Returns
        -------
        array of shape (n, *shape)
        """
        return (code_rows(codes, self.length) + _CENTRE).reshape(-1, *self.shape)


COVERAGE = 0.95  # the radius holds this part of the public codes; longer answers are shortened


def _second_moments(spectrum: ArrayLike) -> Floats:
    """Return a spectrum as non-negative finite numbers."""
    values = finite_array(spectrum=spectrum)
    if values.ndim != 1 or (values < 0).any():
        raise refuse("spectrum", spectrum, "a list of finite numbers >= 0")
    return values


def wiener_weights(spectrum: ArrayLike, deviations: ArrayLike) -> Floats:
    """Return lambda / (lambda + sigma^2), 0 where sigma is infinite: the best linear shrinkage.

    Parameters
    ----------
    spectrum : array of shape (length,), lambda, the second moment of each coordinate without noise
    deviations : float or array of shape (length,)
        sigma, the deviation of the noise on each coordinate; infinite where it was left out.

    Returns
    -------
    array of shape (length,), from 0 to 1; 1 without noise
    """
    moments = _second_moments(spectrum)
    noise = np.square(np.broadcast_to(np.asarray(deviations, dtype=np.float64), moments.shape))
    if np.isnan(noise).any():
        raise InvalidArgument("Expected deviations without NaN.")
    weights = np.ones(moments.shape)  # without noise everything is kept, 0/0 included
    np.divide(moments, moments + noise, out=weights, where=noise > 0)
    return weights


def water_filling(spectrum: ArrayLike, noise: float) -> Floats:
    """Return q >= 0, sum q = 1, the best share of the radius for each coordinate.

    q_l = max(0, t sqrt(lambda_l) - G) minimises sum lambda G/(q + G), the error after Wiener
    shrinkage with weights sqrt(q_l/lambda_l) (`docs/theory/high-dimensional.md#what-to-keep`).

    Parameters
    ----------
    spectrum : array of shape (length,), lambda, second moments of the coordinates; public
    noise : float
        G, the variance of the noise on the mean of codes whose rms norm is 1 (`noise_to_signal`).

    Returns
    -------
    array of shape (length,), 0 for coordinates that are not worth their noise

    Examples
    --------
    >>> water_filling([4.0, 1.0, 0.0], noise=0.5).round(6).tolist()
    [0.833333, 0.166667, 0.0]
    """
    roots = np.sqrt(_second_moments(spectrum))
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

    Parameters
    ----------
    epsilon, delta : float, the worst-case budget of one release of all queries
    queries : int, N, how many share one bound
    n_teachers : int, K

    Returns
    -------
    float, G, where m is the deviation of the Gaussian noise that the budget needs at sensitivity 1

    Examples
    --------
    >>> round(noise_to_signal(8, 1e-5, queries=50, n_teachers=50), 4)
    0.0288
    """
    queries = at_least(1, queries=queries)
    reach = 2 * math.sqrt(queries) / at_least(1, n_teachers=n_teachers)
    return calibrate_gaussian(reach, epsilon, delta) ** 2


def combine_rounds(*rounds: tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """Return inverse-variance means of several releases of the same codes, with deviations.

    Parameters
    ----------
    *rounds : pairs of arrays
        Codes (queries, length) and deviations (length,) of each release; a deviation is infinite
        where a coordinate was left out.

    Returns
    -------
    codes : array of shape (queries, length), 0 where no round has the coordinate
    deviations : array of shape (length,), infinite where no round has the coordinate
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

    Attributes
    ----------
    mean : array of shape (*shape), the public mean answer
    spectrum : array of shape (length,), second moments of the coordinates about the mean
    weights : array of shape (length,)
        Of the norm in which codes are clipped; a coordinate of weight 0 is not released.
    examples : array of shape (n, length), optional, codes of the public masks
    provenance : str, "public", or "dp" if it was bought from private data
    statement : str, the provenance in a sentence; for "dp" it names the ledger entry that paid
    """

    mean: Floats
    spectrum: Floats
    weights: Floats
    examples: Floats | None = None
    provenance: str = "public"
    statement: str = PUBLIC

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one answer."""
        return self.mean.shape

    @property
    def length(self) -> int:
        """How many numbers a code has."""
        return self.spectrum.size

    @property
    def radius(self) -> float:
        """The clip of one query: a public quantile of |weight * code|, the rms if there is none."""
        radius = self.rms_radius
        if self.examples is not None:
            norms = np.sqrt(np.square(self.examples * self.weights).sum(axis=1))
            radius = float(np.quantile(norms, COVERAGE))
        return max(radius, np.finfo(np.float64).eps)

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2 * self.radius

    @property
    def rms_radius(self) -> float:
        """Root mean square of |weight * code|, from the spectrum."""
        return math.sqrt(float(np.square(self.weights) @ self.spectrum))

    def joint_radius(self, queries: int) -> float:
        """Return the clip of a teacher's codes of all queries together: sqrt(queries) rms_radius.

        Parameters
        ----------
        queries : int, how many share the bound; public

        Returns
        -------
        float
        """
        return math.sqrt(at_least(1, queries=queries)) * self.rms_radius

    @abstractmethod
    def _project(self, offsets: Floats) -> Floats:
        """Return coordinates (n, length) of answers less the mean."""

    @abstractmethod
    def _expand(self, codes: Floats) -> Floats:
        """Return offsets (n, *shape) from coordinates."""

    def _prepare(self, answers: Floats) -> Floats:
        """Return the answers to project: themselves, unless a subclass blurs them."""
        return answers

    def encode(self, answers: ArrayLike) -> Floats:
        """Return orthonormal coordinates of (answer - mean), unclipped; as secret as the answers.

        Parameters
        ----------
        answers : array of shape (n, *shape)
            Any values; what is not finite stays so, and the mechanism clips it to its centre.

        Returns
        -------
        array of shape (n, length)
        """
        with np.errstate(all="ignore"):
            return self.coordinates(self._prepare(answer_rows(answers, self.shape)))

    def coordinates(self, decoded: ArrayLike) -> Floats:
        """Return codes of decoded answers, without another blur.

        Parameters
        ----------
        decoded : array of shape (n, *shape), already blurred where the codec blurs

        Returns
        -------
        array of shape (n, length)
        """
        rows = answer_rows(decoded, self.shape)
        with np.errstate(all="ignore"):  # the mechanism makes a centre of what is not finite
            return self._project(rows - self.mean)

    def deviations(self, sigma: float) -> Floats:
        """Return the deviation of the noise on each coordinate: sigma/weight, infinite at 0.

        Parameters
        ----------
        sigma : float, deviation of the mechanism's noise on weighted codes

        Returns
        -------
        array of shape (length,)
        """
        spread = np.full(self.length, np.inf)
        np.divide(non_negative(sigma=sigma), self.weights, out=spread, where=self.weights > 0)
        return spread

    def decode(self, codes: ArrayLike, *, sigma: float = 0.0) -> Floats:
        """Return mean + expansion of w code: soft masks, not cut to [0, 1].

        Parameters
        ----------
        codes : array of shape (n, length), noisy or not
        sigma : float, deviation of the noise on weighted codes: w = lambda/(lambda + sigma^2)

        Returns
        -------
        array of shape (n, *shape)
        """
        weights = wiener_weights(self.spectrum, self.deviations(sigma))
        return self._expand(weights * code_rows(codes, self.length)) + self.mean

    def useful(self, sigma: float) -> Self:
        """Return the codec that releases only coordinates with lambda > sigma^2: the L* rule.

        It minimises L sigma^2 + sum of lambda over what is dropped; if L is 0, decode the mean.

        Parameters
        ----------
        sigma : float, deviation of the noise on each coordinate of a release

        Returns
        -------
        LinearCodec
        """
        return self.weighted((self.spectrum > non_negative(sigma=sigma) ** 2).astype(np.float64))

    def ellipsoid(self, noise: float) -> Self:
        """Return the codec with the weights of water-filling, sqrt(q_l / lambda_l).

        Parameters
        ----------
        noise : float, of `noise_to_signal`

        Returns
        -------
        LinearCodec
            It clips to an ellipsoid in place of a ball; the mean squared norm of a code is 1.
        """
        shares = water_filling(self.spectrum, noise)
        ratio = np.zeros(self.length)
        np.divide(shares, self.spectrum, out=ratio, where=shares > 0)
        return self.weighted(np.sqrt(ratio))

    def remaining(self, spectrum: ArrayLike) -> Self:
        """Return the codec for another round, about new centres: weights 1, no examples.

        Parameters
        ----------
        spectrum : array of shape (length,)
            Second moments of (code - centre), from earlier releases: `Smoothed.spectrum`.

        Returns
        -------
        LinearCodec
        """
        made = dataclasses.replace(self, spectrum=_second_moments(spectrum), examples=None)
        return made.weighted(np.ones(self.length))

    def weighted(self, weights: ArrayLike) -> Self:
        """Return the codec with these weights, and the radius that goes with them.

        Parameters
        ----------
        weights : array of shape (length,), of the norm in which codes are clipped; public

        Returns
        -------
        LinearCodec
        """
        return dataclasses.replace(self, weights=finite_array(weights=weights))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self.shape}, length={self.length}, "
            f"radius={self.radius:.4g}, provenance={self.provenance!r})"
        )
