"""Row by row, bit by bit: products, norms and activations in which no row affects the others.

A unit's part must not change by a bit when another unit joins the sample, but library products
round a row by its batch. Whole steps are added exactly, in any order
(`tacit.features.whole_numbers`); activations are made of operations that IEEE 754 rounds correctly
(docs/theory/direct.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from tacit._checks import Floats, blocks
from tacit._loops import loop
from tacit.features import WholeMatrix, WholeRows, exp_of_negative
from tacit.noisy_training.examples import need_torch

_LOG_TERMS = 12
_BLOCK = 2**13  # numbers whose few temporary arrays stay in the processor's cache
_CELLS = 2**8  # of a table between two whole numbers
_TANH_IS_ONE = 20.0  # in float64, from there on


def product(left: Floats, right: Floats) -> Floats:
    """Return a product of matrices by torch, whose kernels are a fifth quicker than NumPy's."""
    torch = need_torch()
    made: Floats = torch.mm(torch.from_numpy(left), torch.from_numpy(right)).numpy()
    return made


def add_product(total: Floats, left: Floats, right: Floats) -> None:
    """Add left^T right to the total, in place and without a matrix in between.

    >>> total = np.ones((1, 1))
    >>> add_product(total, np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    >>> total.tolist()
    [[12.0]]
    """
    torch = need_torch()
    torch.from_numpy(total).addmm_(torch.from_numpy(left).T, torch.from_numpy(right))


class ExactLayer(NamedTuple):
    """A linear layer of the current step, for exact products in both directions. Public."""

    forward: WholeMatrix
    backward: WholeMatrix | None
    """None for the first layer: nothing goes back to the inputs."""
    bias: Floats | None

    @classmethod
    def all_of(
        cls, parameters: Floats, shapes: Sequence[tuple[int, int, bool]], *, first: bool = True
    ) -> list[Self]:
        """Cut one vector into layers (outputs, inputs, whether there is a bias): matrix, bias."""
        layers: list[Self] = []
        rest = parameters
        for outputs, inputs, biased in shapes:
            flat, rest = np.split(rest, [outputs * inputs])
            bias, rest = np.split(rest, [outputs]) if biased else (None, rest)
            matrix = flat.reshape(outputs, inputs)
            backward = WholeMatrix(matrix) if layers or not first else None
            layers.append(cls(WholeMatrix(matrix.T), backward, None if bias is None else +bias))
        return layers

    def apply(self, rows: WholeRows) -> Floats:
        """Return the layer's outputs, before the activation."""
        return self.forward.times(rows, product, self.bias)

    def back(self, rows: WholeRows) -> Floats:
        """Return the loss by the layer's inputs, from the loss by its outputs."""
        if self.backward is None:
            raise AssertionError("Expected a layer behind the first.")
        return self.backward.times(rows, product)


def relu(values: Floats) -> tuple[Floats, Floats]:
    """Return max(u, 0) and its slope, 0 at 0."""
    return np.maximum(values, 0.0), (values > 0).astype(np.float64)


def softplus(values: Floats) -> tuple[Floats, Floats]:
    """Return log(1 + e^u) and its slope, the logistic function, to about 1e-11."""
    power = exp_of_negative(-np.abs(values))
    result = np.maximum(values, 0.0)
    for block in blocks(len(values), _BLOCK // max(1, values[:1].size)):
        result[block] += _log_of_one_more(power[block])
    return result, _logistic(values, power)


def _log_of_one_more(power: Floats) -> Floats:
    """log(1 + e) = 2 artanh(e / (2 + e)), at most artanh(1/3): a series of odd powers."""
    ratio = power / (2.0 + power)
    square = ratio * ratio
    series = np.full_like(ratio, 1.0 / (2 * _LOG_TERMS - 1))
    for term in range(_LOG_TERMS - 2, -1, -1):
        series *= square
        series += 1.0 / (2 * term + 1)
    ratio *= 2.0
    ratio *= series
    return ratio


def tanh(values: Floats) -> tuple[Floats, Floats]:
    """Return the hyperbolic tangent, to about 3e-12, and its slope 1 - tanh^2.

    A Hermite cubic between points 2^-8 apart: its error is at most 2^-32 / 384 of the largest
    fourth derivative, 4.1: below 2.6e-12.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    result, slope = np.empty_like(flat), np.empty_like(flat)
    if _tanh_in_one_pass:
        _tanh_in_one_pass(flat, _tanh_cubics(), result, slope)
        return result.reshape(values.shape), slope.reshape(values.shape)
    cubics = np.empty((min(_BLOCK, flat.size), 4))
    for block in blocks(flat.size, _BLOCK):
        own = flat[block]
        _tanh_into(own, result[block], slope[block], cubics[: own.size])
    return result.reshape(values.shape), slope.reshape(values.shape)


def _tanh_into(values: Floats, result: Floats, slope: Floats, cubics: Floats) -> None:
    """Write tanh and its slope into given arrays, which saves memory pages."""
    offsets = np.abs(values, out=slope)
    np.minimum(offsets, _TANH_IS_ONE, out=offsets)
    offsets *= _CELLS
    np.floor(offsets, out=result)
    offsets -= result
    with np.errstate(invalid="ignore"):  # of NaN, whose offset is NaN, whatever cell is taken
        cells = result.astype(np.int64)
    _tanh_cubics().take(cells, axis=0, mode="clip", out=cubics)
    np.multiply(cubics[:, 3], offsets, out=result)
    for power in (2, 1):
        result += cubics[:, power]
        result *= offsets
    result += cubics[:, 0]
    np.copysign(result, values, out=result)
    np.multiply(result, result, out=slope)
    np.subtract(1.0, slope, out=slope)


@loop("void(float64[::1], float64[:, ::1], float64[::1], float64[::1])")
def _tanh_in_one_pass(values, cubics, result, slope):  # type: ignore[no-untyped-def]
    """Do what `_tanh_into` does, number by number."""
    for place in range(values.size):
        value = values[place]
        known = not np.isnan(value)
        offset = min(abs(value), _TANH_IS_ONE) * _CELLS if known else 0.0
        below = np.floor(offset)
        cell = np.uint64(below)
        offset -= below
        near = cubics[cell, 3] * offset
        near += cubics[cell, 2]
        near *= offset
        near += cubics[cell, 1]
        near *= offset
        near += cubics[cell, 0]
        near = np.copysign(near, value) if known else value
        result[place] = near
        slope[place] = 1.0 - near * near


@cache
def _tanh_cubics() -> Floats:
    """Return, for each cell, coefficients in the offset as a part of the cell."""
    nodes = np.arange(int(_TANH_IS_ONE) * _CELLS + 2, dtype=np.float64)
    powers = exp_of_negative(nodes * (-2.0 / _CELLS))
    points = (1.0 - powers) / (1.0 + powers)
    slopes = (1.0 - points * points) / _CELLS
    left, right, start, end = points[:-1], points[1:], slopes[:-1], slopes[1:]
    rise = right - left
    square, cube = 3.0 * rise - 2.0 * start - end, start + end - 2.0 * rise
    return np.stack([left, start, square, cube], axis=1)


def logistic(values: Floats) -> Floats:
    """Return 1/(1 + e^-u), to about 1e-11."""
    return _logistic(values, exp_of_negative(-np.abs(values)))


def _logistic(values: Floats, power: Floats) -> Floats:
    return np.asarray(np.where(values >= 0, 1.0, power) / (1.0 + power))


ACTIVATIONS = {"tanh": tanh, "relu": relu, "softplus": softplus}
"""Functions that return an activation and its slope."""
