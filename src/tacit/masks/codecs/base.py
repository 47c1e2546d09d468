"""What a codec is, how teachers' answers are encoded one at a time, and the naive codec.

Encoding must survive anything that a teacher says (NaN, 1e300): what is not a number stays so, and
the mechanism turns such a code into its public centre. Only a wrong shape is refused.
Why a codec must be public, or bought: docs/theory/high-dimensional.md#private-components.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, number_array
from tacit.errors import InvalidArgument
from tacit.mechanisms import TeacherCodes

PUBLIC = "fitted on masks that its maker declared public"
_CENTRE = 0.5


class Codec(Protocol):
    """Long answers `(n, ...)` to codes `(n, length)` and back."""

    @property
    def length(self) -> int:
        """How many numbers a code has."""

    @property
    def diameter(self) -> float:
        """How far apart two codes can be once they are clipped: 2 radius for `GaussianMean`."""

    @property
    def provenance(self) -> str:
        """Where it comes from: "public", or "dp" if it was bought from private data."""

    @property
    def statement(self) -> str:
        """The same in a sentence; for "dp" it names the ledger entry that paid."""

    def encode(self, answers: ArrayLike) -> Floats:
        """Return codes (n, length)."""

    def decode(self, codes: ArrayLike) -> Floats:
        """Return answers (n, ...) from codes, noisy or not: post-processing."""


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
    """Return codes for `GaussianMean` that are encoded when needed, one answer at a time. Secret.

    `answer(teacher, query)` is one long answer, a mask; never more than one of them is held here.

    >>> from tacit.masks.codecs import IdentityCodec
    >>> masks = np.zeros((3, 2, 4, 4))
    >>> encoded_answers(IdentityCodec((4, 4)), lambda t, q: masks[t, q], 3, 2)
    TeacherCodes(shape=(3, 2, 16))
    """

    def part(teacher: int, rows: slice) -> Floats:
        codes = np.empty((rows.stop - rows.start, codec.length))
        for place, query in enumerate(range(rows.start, rows.stop)):
            codes[place] = codec.encode(np.asarray(answer(teacher, query))[None])[0]
        return codes

    return TeacherCodes((n_teachers, n_queries, codec.length), part)


@dataclass(frozen=True, slots=True)
class IdentityCodec:
    """Codes are the answers themselves, less 1/2, for answers in [0, 1].

    The cube [0,1]^D has diameter sqrt(D) and lies in the ball of radius sqrt(D)/2 about its middle
    (the 2022 paper pays for twice that:
    docs/theory/high-dimensional.md#what-the-papers-say).

    >>> codec = IdentityCodec((2, 2))
    >>> codec.length, codec.diameter, codec.decode(codec.encode([[[0, 1], [1, 0]]])).tolist()
    (4, 2.0, [[[0.0, 1.0], [1.0, 0.0]]])
    """

    shape: tuple[int, ...]

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

    @property
    def provenance(self) -> str:
        """It was made from nothing: "public"."""
        return "public"

    @property
    def statement(self) -> str:
        """Say that no data was used."""
        return "made without any data"

    def encode(self, answers: ArrayLike) -> Floats:
        """Return answers less 1/2, flat."""
        rows = answer_rows(answers, self.shape)
        with np.errstate(all="ignore"):
            return rows.reshape(len(rows), -1) - _CENTRE

    def decode(self, codes: ArrayLike) -> Floats:
        """Return codes plus 1/2, in shape."""
        return (code_rows(codes, self.length) + _CENTRE).reshape(-1, *self.shape)
