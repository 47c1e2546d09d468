"""Row by row, bit by bit: products, norms and powers of e in which no row affects the others.

Library products round a row by its batch. Here rows and matrices are rounded to whole steps, few
enough that float64 adds their products exactly, in any order; everything else is one operation for
each number, rounded as IEEE 754 says. Precision is about float32's (docs/theory/direct.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacit._checks import Floats, blocks
from tacit._loops import loop

Multiply = Callable[[Floats, Floats], Floats]

EXACT_BITS = 53
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_LOWEST = -700.0
_EXP_SERIES = [1 / math.factorial(power) for power in range(11, -1, -1)]
_BLOCK = 2**14  # numbers whose few temporary arrays stay in the processor's cache
_TINIEST = 2.0**-900
"""A row whose largest number is smaller counts as 0: its scale would not be a float."""


class WholeRows(NamedTuple):
    """Rows as whole steps (integers in float64) times a power of two for each row.

    A row that is not finite has steps 0 and the unit NaN: its results are NaN.
    """

    steps: Floats
    units: Floats

    def __repr__(self) -> str:
        return "WholeRows(secret)"

    def values(self) -> Floats:
        """Return the rows that these steps stand for."""
        return self.steps * self.units

    def norms(self) -> Floats:
        """Return each row's length: the sum of squares is an exact integer."""
        if _squares_in_one_pass and _plain(self.steps):
            squares = np.empty(len(self.steps))
            _squares_in_one_pass(self.steps, squares)
        else:
            squares = np.einsum("ij,ij->i", self.steps, self.steps)
        return np.asarray(np.sqrt(squares)[:, None] * self.units)


def row_bits(width: int) -> int:
    """Return how many bits of a number are used: squares and products then add exactly."""
    return (EXACT_BITS - math.ceil(math.log2(max(width, 2)))) // 2


def whole_rows(rows: Floats, out: Floats | None = None) -> WholeRows:
    """Round each row to whole steps of a power of two, by its own largest number."""
    steps = np.empty_like(rows) if out is None else out
    fits = _plain(rows) and _plain(steps) and steps.shape == rows.shape
    if _rows_in_one_pass and fits:
        units = np.empty((len(rows), 1))
        _rows_in_one_pass(rows, rows.view(np.int64), row_bits(rows.shape[1]), steps, units)
        return WholeRows(steps, units)
    return _whole_rows(rows, out)


def _plain(rows: Floats) -> bool:
    """Return whether rows are contiguous in memory, as loops need."""
    return rows.dtype == np.float64 and rows.flags.c_contiguous and rows.flags.writeable


def _whole_rows(rows: Floats, out: Floats | None) -> WholeRows:
    largest = np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True))
    usable = np.isfinite(largest) & (largest > _TINIEST)
    _, exponents = np.frexp(np.where(usable, largest, 1.0))
    exponents -= row_bits(rows.shape[1])
    # Powers of two: the product is exact, as a quotient would be.
    steps: Floats = np.multiply(rows, np.ldexp(1.0, -exponents), out=out)
    np.rint(steps, out=steps)
    units = np.ldexp(1.0, exponents)
    if not usable.all():
        steps[~usable[:, 0]] = 0.0
        units[~np.isfinite(largest)] = np.nan
    return WholeRows(steps, units)


_SIGNLESS = 2**63 - 1
_INFINITE = 0x7FF0_0000_0000_0000
_TINIEST_BITS = int(np.float64(_TINIEST).view(np.int64))


@loop("void(float64[:, ::1], int64[:, ::1], int64, float64[:, ::1], float64[:, ::1])")
def _rows_in_one_pass(rows, bits_of_rows, bits, steps, units):  # type: ignore[no-untyped-def]
    """Do what `_whole_rows` does, row by row while it is in the cache.

    Without their sign, float64 numbers are ordered as their bits are, and the largest shows whether
    a row is finite.
    """
    for row in range(rows.shape[0]):
        largest = np.int64(0)
        for place in range(rows.shape[1]):
            largest = max(largest, bits_of_rows[row, place] & _SIGNLESS)
        usable = _TINIEST_BITS < largest < _INFINITE
        exponent = (largest >> 52) - 1022 if usable else 1  # as frexp has it
        exponent -= bits
        scale = np.int64((1023 - exponent) << 52).view(np.float64)
        if usable:
            for place in range(rows.shape[1]):
                steps[row, place] = np.rint(rows[row, place] * scale)
        else:
            for place in range(rows.shape[1]):
                steps[row, place] = 0.0
        unit = np.int64((1023 + exponent) << 52).view(np.float64)
        units[row, 0] = unit if largest < _INFINITE else np.nan


@loop("void(float64[::1], float64, float64[::1])")
def _numbers_in_one_pass(numbers, scale, steps):  # type: ignore[no-untyped-def]
    """Multiply and round."""
    for place in range(numbers.size):
        steps[place] = np.rint(numbers[place] * scale)


@loop("void(float64[:, ::1], float64[::1])")
def _squares_in_one_pass(steps, squares):  # type: ignore[no-untyped-def]
    """Add the squares of each row, four at a time: whole numbers, exact in any order."""
    last = steps.shape[1] - steps.shape[1] % 4
    for row in range(steps.shape[0]):
        own = steps[row]
        first = second = third = fourth = 0.0
        for place in range(0, last, 4):
            first += own[place] * own[place]
            second += own[place + 1] * own[place + 1]
            third += own[place + 2] * own[place + 2]
            fourth += own[place + 3] * own[place + 3]
        for place in range(last, steps.shape[1]):
            first += own[place] * own[place]
        squares[row] = (first + second) + (third + fourth)


@loop("void(float64[:, ::1], float64[:, ::1], float64[::1])")
def _scaled_in_one_pass(product, scales, bias):  # type: ignore[no-untyped-def]
    """Multiply each row by its scale, and add the bias."""
    for row in range(product.shape[0]):
        for place in range(product.shape[1]):
            product[row, place] = product[row, place] * scales[row, 0] + bias[place]


def _in_memory(matrix: Floats) -> Floats | None:
    """Return a matrix's or its transpose's contiguous numbers, or None."""
    whole = matrix if matrix.flags.c_contiguous else matrix.T
    return whole.reshape(-1) if _plain(whole) else None


class WholeMatrix:
    """A public matrix (inputs, outputs) in whole steps, for exact products with rows."""

    def __init__(self, matrix: Floats, bits: int | None = None) -> None:
        if bits is None:  # as many as rows that are as wide as the matrix is high leave
            inputs = matrix.shape[0]
            bits = EXACT_BITS - math.ceil(math.log2(max(inputs, 2))) - row_bits(inputs)
        largest = float(max(matrix.max(initial=0.0), -matrix.min(initial=0.0)))
        _, exponent = math.frexp(largest if largest > _TINIEST else 1.0)
        self.unit = math.ldexp(1.0, exponent - bits)
        self.steps = np.empty_like(matrix)
        if _numbers_in_one_pass and (flat := _in_memory(matrix)) is not None:
            _numbers_in_one_pass(flat, 1.0 / self.unit, _in_memory(self.steps))
            return
        np.multiply(matrix, 1.0 / self.unit, out=self.steps)
        np.rint(self.steps, out=self.steps)

    def times(
        self, rows: WholeRows, multiply: Multiply = np.matmul, bias: Floats | None = None
    ) -> Floats:
        """Return rows times this matrix; any float64 product multiplies the whole steps exactly."""
        product: Floats = multiply(rows.steps, self.steps)
        scales = rows.units * self.unit
        fits = bias is not None and bias.shape == product.shape[1:] and _plain(product)
        if _scaled_in_one_pass and fits:
            _scaled_in_one_pass(product, scales, bias)
            return product
        product *= scales
        if bias is not None:
            product += bias
        return product


def exp_of_negative(values: Floats) -> Floats:
    """e^x for x <= 0: 2^k times a Taylor series in x - k log 2, by correctly rounded operations."""
    flat = np.ascontiguousarray(values).reshape(-1)
    powers = np.empty_like(flat)
    for block in blocks(flat.size, _BLOCK):
        powers[block] = _exp_of_block(flat[block])
    return powers.reshape(values.shape)


def _exp_of_block(values: Floats) -> Floats:
    x = np.maximum(values, _LOWEST)
    whole = np.rint(x * (1 / math.log(2.0)))
    x -= whole * _LN2_HIGH
    x -= whole * _LN2_LOW
    series = np.full_like(x, _EXP_SERIES[0])
    for coefficient in _EXP_SERIES[1:]:
        series *= x
        series += coefficient
    with np.errstate(invalid="ignore"):  # of NaN, which stays NaN by the series
        exponents = np.where(np.isfinite(whole), whole, 0.0).astype(np.int64)
    exponents += 1023
    exponents <<= 52
    series *= exponents.view(np.float64)
    return series
