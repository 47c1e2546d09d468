"""Codes that cannot be too long: one teacher's answers, clipped and counted in whole steps.

docs/theory/high-dimensional.md#the-clip-in-a-computer. This is the one place where a norm is
bounded, so that no property of a teacher or of a codec is relied upon. The bound is certified in
integers: after clipping in float64 a code is truncated to a public grid, and the sum of its squared
steps is compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, finite_array, number_array
from tacit.errors import InvalidArgument
from tacit.mechanisms.base import BLOCK

SAFETY = 1 + 1e-9
"""A clipped code is this much shorter than allowed: far above float64's rounding."""
RADIUS_BITS = 30
"""A radius is at most 2^30 steps, so that int64 holds sums of squared steps."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TeacherCodes:
    """Codes `(teachers, queries, length)` that are made when they are summed. Secret.

    `part(teacher, rows)` returns the codes of one teacher for a slice of the queries. Only one
    teacher's codes are held at a time: fifty volumes of nine million voxels need not fit together.
    An array of that shape serves as well, where it fits.

    >>> volumes = [np.full((2, 3), 0.5), np.ones((2, 3))]
    >>> TeacherCodes((2, 2, 3), lambda teacher, rows: volumes[teacher][rows])
    TeacherCodes(shape=(2, 2, 3))
    """

    shape: tuple[int, int, int]
    part: Callable[[int, slice], ArrayLike]

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1 or not callable(self.part):
            raise InvalidArgument(
                "Expected a shape (teachers, queries, length) and a function part(teacher, rows)."
            )

    def __repr__(self) -> str:
        return f"TeacherCodes(shape={tuple(self.shape)})"


def teacher_codes(answers: Any) -> TeacherCodes:
    """Return answers as `TeacherCodes`; the messages never quote them, for they are secret."""
    if isinstance(answers, TeacherCodes):
        return answers
    try:
        array = np.asarray(answers)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.ndim != 3 or 0 in array.shape or array.dtype.kind not in "iufO":
        raise InvalidArgument(
            f"Expected codes to be numbers (teachers, queries, length), got shape {array.shape} "
            f"and dtype {array.dtype}; encode answers with a codec."
        )
    teachers, queries, length = array.shape
    return TeacherCodes((teachers, queries, length), lambda teacher, rows: array[teacher, rows])


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Public coordinates of a release: codes are measured as (code - centre) * weight.

    A weight of 0 leaves a coordinate out: its release is the centre.
    """

    centres: Floats
    weights: Floats

    def rows(self, rows: slice) -> Frame:
        """Return the frame of some of the queries."""
        return Frame(self.centres[rows], self.weights[rows])

    def back(self, offsets: Floats) -> Floats:
        """Return codes from weighted offsets."""
        inverse = np.zeros(self.weights.shape)
        np.divide(1.0, self.weights, out=inverse, where=self.weights > 0)
        return np.asarray(self.centres + offsets * inverse)


def public_frame(
    centres: ArrayLike | None, weights: ArrayLike | None, shape: tuple[int, int]
) -> Frame:
    """Validate public centres and weights: numbers that fit (queries, length)."""
    places = finite_array(centres=0.0 if centres is None else centres)
    scales = finite_array(weights=1.0 if weights is None else weights)
    # A weight must be invertible: 1/weight is finite.
    if (scales < 0).any() or ((scales > 0) & (scales < 1e-300)).any() or not scales.any():
        raise InvalidArgument("Expected weights to be 0 or at least 1e-300, and not all of them 0.")
    try:
        return Frame(np.broadcast_to(places, shape), np.broadcast_to(scales, shape))
    except ValueError:
        raise InvalidArgument(
            f"Expected centres and weights that fit (queries, length)={shape}, got shapes "
            f"{places.shape} and {scales.shape}."
        ) from None


def clip_rows(vectors: Floats, radius: float) -> Floats:
    """Return each row shortened to the radius; a row with a non-finite entry becomes 0.

    min(1, radius / (norm (1 + 1e-9))) v, in float64, for any finite v: entries are divided by the
    largest first, so that no square overflows.

    >>> clip_rows(np.array([[3.0, 4.0], [1e300, 0.0], [np.nan, 1.0]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [1.0, 0.0], [0.0, 0.0]]
    """
    with np.errstate(all="ignore"):  # an overflowing length is infinite, which is the right answer
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        usable = np.isfinite(largest) & (largest > 0)
        unit = np.where(usable, vectors / largest, 0.0)
        norm = np.sqrt(np.square(unit).sum(axis=1, keepdims=True)) * SAFETY
        unit *= radius / np.maximum(norm, 1.0)
        return np.where(usable & (largest * norm <= radius), vectors, unit)


def bounded_steps(
    codes: ArrayLike, frame: Frame, radius: float, grid: float, joint: int
) -> Integers:
    """Return one teacher's codes in whole steps of the grid, each bound's norm within the radius.

    `joint` consecutive queries share one bound. Exactly, in integers: sum of steps^2 over a bound
    <= (radius / grid)^2. Truncation goes towards the centre, so it never lengthens a code.
    """
    array = number_array(codes=codes)
    if array.shape != frame.centres.shape:
        raise InvalidArgument(
            f"Expected every teacher's codes to have shape {frame.centres.shape}, as declared, "
            f"got {array.shape}."
        )
    with np.errstate(all="ignore"):
        offsets = (array - frame.centres) * frame.weights
    bounds = offsets.reshape(array.shape[0] // joint, -1)
    # The grid is a power of two: the quotient is exact.
    steps = np.trunc(clip_rows(bounds, radius) / grid).astype(np.int64)
    certify(steps, radius, grid)
    return steps.reshape(array.shape)


def certify(steps: Integers, radius: float, grid: float) -> None:
    """Shorten rows, in place, until the sum of squares is at most (radius/grid)^2, exactly.

    Clipping leaves a margin of 1e-9, more than float64 can be wrong by, so that no row is ever
    touched; if it were wrong, the bound would hold all the same.
    """
    limit = ratio_squared(radius, grid)
    while (long := np.square(steps).sum(axis=1) > limit).any():
        steps[long] -= np.sign(steps[long])


def ratio_squared(radius: float, grid: float) -> int:
    """Return floor((radius/grid)^2) of these very float64 values.

    >>> ratio_squared(1.0, 2.0**-14) == 2**28
    True
    """
    radius_top, radius_bottom = radius.as_integer_ratio()
    grid_top, grid_bottom = grid.as_integer_ratio()
    return (radius_top * grid_bottom) ** 2 // (radius_bottom * grid_top) ** 2


def summed_steps(
    codes: TeacherCodes, rows: slice, frame: Frame, radius: float, grid: float, joint: int
) -> Integers:
    """Add all teachers' bounded steps for some queries; sums of integers are exact."""
    total = np.zeros((rows.stop - rows.start, codes.shape[2]), dtype=np.int64)
    for teacher in range(codes.shape[0]):
        # Each teacher is bounded before the sum: a clip of the sum would bound nobody's part in it.
        part = codes.part(teacher, rows)
        total += bounded_steps(part, frame.rows(rows), radius, grid, joint)
    return total


def bounds_at_a_time(n_queries: int, length: int, joint: int) -> list[slice]:
    """Cut the queries into runs of whole bounds, small enough for the processor's cache."""
    step = joint * max(1, BLOCK // (joint * length))
    return [slice(start, min(start + step, n_queries)) for start in range(0, n_queries, step)]


def power_of_two_above(value: float) -> float:
    """Return the least power of two >= value.

    >>> power_of_two_above(5.0), power_of_two_above(4.0)
    (8.0, 4.0)
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))
