"""Stacks of linear layers: clipped sums without per-example gradients (ghost norms).

The gradient of one row in layer k is the outer product of delta_k (the loss by the layer's output)
and the layer's input a_k with a 1 for the bias. Its norm is |delta_k| sqrt(|a_k|^2 + 1), and the
clipped sum over rows is one product of matrices (docs/theory/direct.md#blocks). What is summed is
built from the very delta and a whose norms were taken, so the bound needs no trust in automatic
differentiation; and rows go through exact products (`exact_rows`), so that no row feels the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tacit._checks import Floats, Integers
from tacit.errors import InvalidArgument
from tacit.noisy_training.blocks import Blocks
from tacit.noisy_training.exact_rows import (
    WholeMatrix,
    WholeRows,
    relu,
    softplus,
    tanh,
    whole_rows,
)
from tacit.noisy_training.examples import PrivateExamples, flat_parameters, need_torch
from tacit.noisy_training.losses import RowLoss
from tacit.noisy_training.structure import foreign_layer

if TYPE_CHECKING:
    from torch.nn import Module, Sequential

ROWS = 512
"""Rows computed at a time."""


_ACTIVATIONS: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "ReLU": relu,
    "Softplus": softplus,
    "Tanh": tanh,
}


def is_stack(module: Any) -> bool:
    """Tell whether a module is a chain of linear layers with known activations between them.

    >>> from torch import nn
    >>> is_stack(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)))
    True
    >>> is_stack(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
    False
    """
    nn = need_torch().nn
    if type(module) is not nn.Sequential or not len(module) % 2 or foreign_layer(module):
        return False
    linear, between = list(module)[::2], list(module)[1::2]
    known = all(type(layer) is nn.Linear for layer in linear) and all(
        type(layer).__name__ in _ACTIVATIONS and getattr(layer, "beta", 1) == 1 for layer in between
    )
    if not known or not all(parameter.requires_grad for parameter in module.parameters()):
        return False
    # Shared parameters are listed once: their gradient has two terms.
    return len(list(module.parameters())) == sum(1 + (one.bias is not None) for one in linear)


class _Layer(NamedTuple):
    """A linear layer of the current step, for exact products in both directions."""

    forward: WholeMatrix
    backward: WholeMatrix
    bias: Floats | None


class _Rows(NamedTuple):
    """Of each layer: inputs, deltas, and the length of each row's gradient. Secret."""

    inputs: list[WholeRows]
    deltas: list[WholeRows]
    norms: Floats

    def __repr__(self) -> str:
        return "_Rows(secret)"


class StackParts:
    """Parts of single records in a stack of linear layers, in exact rows. Secret."""

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: RowLoss, blocks: Blocks
    ) -> None:
        layers: list[Any] = list(cast("Sequential", module))
        self._shapes = [(*layer.weight.shape, layer.bias is not None) for layer in layers[::2]]
        self._activations = [_ACTIVATIONS[type(layer).__name__] for layer in layers[1::2]]
        self._examples, self._slope, self._blocks = examples, loss.slope, blocks
        self._layers: list[_Layer] = []
        self.load(flat_parameters(module))

    @property
    def n_units(self) -> int:
        """How many records there are. Secret."""
        return len(self._examples.inputs)

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step: of each layer a matrix, then the bias."""
        expected = self._blocks.dimension
        if parameters.size != expected:
            raise InvalidArgument(f"Expected as many numbers as parameters, {expected}.")
        self._layers, rest = [], parameters.copy()
        for outputs, inputs, biased in self._shapes:
            flat, rest = np.split(rest, [outputs * inputs])
            matrix = flat.reshape(outputs, inputs)
            bias, rest = np.split(rest, [outputs]) if biased else (None, rest)
            self._layers.append(_Layer(WholeMatrix(matrix.T), WholeMatrix(matrix), bias))

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some records, each of norm at most 1."""
        total = np.zeros(self._blocks.dimension)
        for start in range(0, units.size, ROWS):
            total += self._sums_of(units[start : start + ROWS])
        return total

    def _sums_of(self, units: Integers) -> Floats:
        rows = self.each(units)
        norms = rows.norms
        if len(self._blocks.sizes) == 1:
            norms = np.sqrt(np.square(norms).sum(axis=1, keepdims=True))
        factors = np.broadcast_to(self._blocks.row_factors(norms), rows.norms.shape)
        usable = (factors > 0).all(axis=1, keepdims=True)
        sums = []
        for layer, inputs, deltas, own in zip(
            self._layers, rows.inputs, rows.deltas, factors.T, strict=True
        ):
            scaled = np.where(usable, deltas.values(), 0.0) * own[:, None]
            sums.append((scaled.T @ np.where(usable, inputs.values(), 0.0)).reshape(-1))
            if layer.bias is not None:
                sums.append(scaled.sum(axis=0))
        return np.concatenate(sums)

    def each(self, units: Integers) -> _Rows:
        """Return what makes up each record's part: a function of that record alone, bit by bit."""
        with np.errstate(all="ignore"):  # what is not finite is found by its norm
            inputs, deltas = self._passes(units)
            norms = [
                d.norms() * np.sqrt(a.norms() ** 2 + (layer.bias is not None))
                for layer, a, d in zip(self._layers, inputs, deltas, strict=True)
            ]
            return _Rows(inputs, deltas, np.hstack(norms))

    def _passes(self, units: Integers) -> tuple[list[WholeRows], list[WholeRows]]:
        """Return the inputs of every layer, and the loss by its outputs."""
        flow = np.asarray(self._examples.inputs[units], dtype=np.float64)
        inputs, slopes = [], []
        for number, layer in enumerate(self._layers):
            inputs.append(whole_rows(flow))
            flow = layer.forward.times(inputs[-1])
            if layer.bias is not None:
                flow += layer.bias
            if number < len(self._activations):
                flow, slope = self._activations[number](flow)
                slopes.append(slope)
        deltas = [whole_rows(self._slope(flow, self._examples.targets[units]))]
        for layer, slope in zip(self._layers[:0:-1], slopes[::-1], strict=True):
            deltas.append(whole_rows(layer.backward.times(deltas[-1]) * slope))
        return inputs, deltas[::-1]
