"""Row by row, bit by bit: products, norms and activations in which no row feels the others.

A unit's part must not change by a single bit when another unit joins the sample, but library
products round a row by the company it is in. Here rows and weights are rounded to whole steps, few
enough that float64 adds their products exactly, in any order: a product of matrices is then a
function of each row alone, by arithmetic and not by trust. Activations are made of operations that
IEEE 754 rounds correctly. Precision is about that of float32 (docs/theory/direct.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from tacit._checks import Floats, blocks
from tacit.features import WholeMatrix, WholeRows, exp_of_negative

_LOG_TERMS = 12
_BLOCK = 2**14  # numbers whose few temporary arrays stay in the processor's cache


class ExactLayer(NamedTuple):
    """A linear layer of the current step, for exact products in both directions. Public."""

    forward: WholeMatrix
    backward: WholeMatrix
    bias: Floats | None

    @classmethod
    def all_of(cls, parameters: Floats, shapes: Sequence[tuple[int, int, bool]]) -> list[Self]:
        """Cut one vector into layers (outputs, inputs, whether there is a bias): matrix, bias."""
        layers, rest = [], parameters.copy()
        for outputs, inputs, biased in shapes:
            flat, rest = np.split(rest, [outputs * inputs])
            bias, rest = np.split(rest, [outputs]) if biased else (None, rest)
            matrix = flat.reshape(outputs, inputs)
            layers.append(cls(WholeMatrix(matrix.T), WholeMatrix(matrix), bias))
        return layers

    def apply(self, rows: WholeRows) -> Floats:
        """Return what the layer makes of its inputs, before the activation."""
        outputs = self.forward.times(rows)
        if self.bias is not None:
            outputs += self.bias
        return outputs


def relu(values: Floats) -> tuple[Floats, Floats]:
    """Return max(u, 0) and its slope, 0 at 0.

    >>> [part.tolist() for part in relu(np.array([-1.0, 2.0]))]
    [[0.0, 2.0], [0.0, 1.0]]
    """
    return np.maximum(values, 0.0), (values > 0).astype(np.float64)


def softplus(values: Floats) -> tuple[Floats, Floats]:
    """Return log(1 + e^u) and its slope, the logistic function, to about 1e-11.

    >>> value, slope = softplus(np.array([0.0]))
    >>> round(float(value[0]), 9), float(slope[0])
    (0.693147181, 0.5)
    """
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
    """Return (1 - e^-2u)/(1 + e^-2u) and its slope, to about 1e-11.

    >>> [part.round(9).tolist() for part in tanh(np.array([0.0, 1.0, -1.0]))]
    [[0.0, 0.761594156, -0.761594156], [1.0, 0.419974342, 0.419974342]]
    """
    power = exp_of_negative(-2.0 * np.abs(values))
    value = np.copysign((1.0 - power) / (1.0 + power), values)
    return value, 1.0 - value * value


def logistic(values: Floats) -> Floats:
    """Return 1/(1 + e^-u), to about 1e-11.

    >>> logistic(np.array([0.0, 800.0, -800.0])).round(6).tolist()
    [0.5, 1.0, 0.0]
    """
    return _logistic(values, exp_of_negative(-np.abs(values)))


def _logistic(values: Floats, power: Floats) -> Floats:
    return np.asarray(np.where(values >= 0, 1.0, power) / (1.0 + power))


ACTIVATIONS = {"tanh": tanh, "relu": relu, "softplus": softplus}
"""Functions that return an activation and its slope."""
