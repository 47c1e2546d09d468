"""The method of auxiliary coordinates: a network trained layer by layer.

Every hidden layer of every example gets coordinates z_k of its own, which start at the forward pass
and take some steps towards both neighbours: E = loss(y, u_M)/2 + (mu/2) sum_k |z_k - f(u_k)|^2 with
u_k = W_k [z_{k-1}, 1]. The weights of a layer then have a gradient that needs no other layer. The
steps use one example's sum of losses and elementwise Adam, so that an example's coordinates depend
on that example and the public weights alone, bit for bit: they are never released and cost nothing.
Derived in docs/theory/direct.md#coordinates-of-dp-mac.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tacit._checks import Floats, at_least, one_of, positive
from tacit.errors import InvalidArgument
from tacit.noisy_training.exact_rows import (
    ACTIVATIONS,
    WholeMatrix,
    WholeRows,
    logistic,
    whole_rows,
)

LOSSES = ("squares", "binary")


@dataclass(frozen=True, slots=True)
class AuxiliaryCoordinates:
    """How examples find their coordinates: public settings.

    widths: of all layers, inputs and outputs included.
    loss: "squares" (half the squared error of a linear output) or "binary" (half the binary
        cross-entropy of output units; targets are 0 or 1).
    steps: of elementwise Adam, at least as many as there are hidden layers, for with fewer nothing
        reaches the first one. rate: of these steps. weight: mu, of the hidden layers.
    """

    widths: tuple[int, ...]
    loss: str = "squares"
    activation: str = "tanh"
    steps: int = 30
    rate: float = 1e-3
    weight: float = 1.0

    def __post_init__(self) -> None:
        one_of(*LOSSES, loss=self.loss)
        one_of(*ACTIVATIONS, activation=self.activation)
        positive(z_rate=self.rate)
        positive(weight=self.weight)
        if len(self.widths) < 2 or any(at_least(1, width=width) < 1 for width in self.widths):
            raise InvalidArgument("Expected widths of at least an input and an output layer.")
        if at_least(0, z_steps=self.steps) < len(self.widths) - 2:
            raise InvalidArgument(
                f"Expected z_steps={self.steps} to be at least the {len(self.widths) - 2} hidden "
                "layers: with fewer the first layer learns nothing."
            )

    @property
    def sizes(self) -> list[int]:
        """How many parameters each layer has."""
        return [(before + 1) * after for before, after in pairwise(self.widths)]


class PublicWeights:
    """The weights of the next step, ready for exact products in both directions.

    They come as one vector, layer by layer: a matrix (outputs, inputs), then the bias.
    """

    def __init__(self, widths: Sequence[int], parameters: Floats) -> None:
        self.forward: list[WholeMatrix] = []
        self.backward: list[WholeMatrix] = []
        self.biases: list[Floats] = []
        start = 0
        for before, after in pairwise(widths):
            matrix = parameters[start : start + before * after].reshape(after, before)
            start += before * after
            self.biases.append(parameters[start : start + after].copy())
            start += after
            self.forward.append(WholeMatrix(matrix.T))
            self.backward.append(WholeMatrix(matrix))

    def apply(self, layer: int, rows: WholeRows) -> Floats:
        """Return what a layer makes of its inputs, before the activation."""
        return self.forward[layer].times(rows) + self.biases[layer]


class Slopes(NamedTuple):
    """Of each layer: its inputs, the loss by its outputs, the curvature by its outputs. Secret."""

    inputs: list[WholeRows]
    deltas: list[Floats]
    curvatures: list[Floats]

    def __repr__(self) -> str:
        return "Slopes(secret)"


def slopes(
    network: AuxiliaryCoordinates, weights: PublicWeights, inputs: Floats, targets: Floats
) -> Slopes:
    """Return layer inputs and deltas after the steps of coordinates, row by row. Secret."""
    with np.errstate(all="ignore"):  # what is not finite says nothing, and is found later
        first = whole_rows(inputs)
        coordinates = _moved(network, weights, first, targets)
        rows = [first, *(whole_rows(z) for z in coordinates)]
        parts = [
            _layer(network, weights.apply(layer, rows[layer]), layer, coordinates, targets)
            for layer in range(len(network.widths) - 1)
        ]
    return Slopes(rows, [part.delta for part in parts], [part.curvature for part in parts])


class _Layer(NamedTuple):
    delta: Floats
    """The loss by the layer's outputs u."""
    gap: Floats | None
    """mu (z - f(u)), what the layer's own coordinates feel; None for the output."""
    curvature: Floats
    """Gauss-Newton: never negative."""

    def __repr__(self) -> str:
        return "_Layer(secret)"


def _layer(
    network: AuxiliaryCoordinates,
    outputs: Floats,
    layer: int,
    coordinates: list[Floats],
    targets: Floats,
) -> _Layer:
    """Return the derivatives of one layer's term of E, with the half of E."""
    if layer < len(coordinates):
        value, slope = ACTIVATIONS[network.activation](outputs)
        gap = network.weight * (coordinates[layer] - value)
        return _Layer(-gap * slope, gap, network.weight * slope * slope)
    if network.loss == "squares":
        return _Layer(outputs - targets, None, np.ones_like(outputs))
    chance = logistic(outputs)
    return _Layer((chance - targets) / 2, None, chance * (1 - chance) / 2)


def _moved(
    network: AuxiliaryCoordinates, weights: PublicWeights, first: WholeRows, targets: Floats
) -> list[Floats]:
    """Return the coordinates of all hidden layers after their steps, from the forward pass."""
    activate = ACTIVATIONS[network.activation]
    into_first = weights.apply(0, first)  # does not move: neither inputs nor weights do
    coordinates: list[Floats] = []
    outputs = into_first
    for layer in range(1, len(network.widths) - 1):
        coordinates.append(activate(outputs)[0])
        outputs = weights.apply(layer, whole_rows(coordinates[-1]))
    adams = [_RowAdam(z, network.rate) for z in coordinates]
    for _ in range(network.steps):
        pulls = _pulls(network, weights, into_first, coordinates, targets)
        for z, adam, pull in zip(coordinates, adams, pulls, strict=True):
            adam.step(z, pull)
    return coordinates


def _pulls(
    network: AuxiliaryCoordinates,
    weights: PublicWeights,
    into_first: Floats,
    coordinates: list[Floats],
    targets: Floats,
) -> list[Floats]:
    """Return dE/dz_k of each example's own E: mu (z_k - f(u_k)) + W_{k+1}^T delta_{k+1}."""
    layers = [_layer(network, into_first, 0, coordinates, targets)]
    for layer, z in enumerate(coordinates, start=1):
        outputs = weights.apply(layer, whole_rows(z))
        layers.append(_layer(network, outputs, layer, coordinates, targets))
    return [
        _gap(own) + weights.backward[layer].times(whole_rows(after.delta))
        for layer, (own, after) in enumerate(pairwise(layers), start=1)
    ]


def _gap(layer: _Layer) -> Floats:
    return np.zeros(1) if layer.gap is None else layer.gap


class _RowAdam:
    """Adam number by number: no state is shared between numbers, let alone between rows."""

    def __init__(self, like: Floats, rate: float) -> None:
        self._mean, self._square = np.zeros_like(like), np.zeros_like(like)
        self._rate, self._count = rate, 0

    def step(self, values: Floats, gradient: Floats) -> None:
        """Take one step down, in place."""
        self._count += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient * gradient - self._square)
        spread = np.sqrt(self._square / (1 - 0.999**self._count))
        spread += 1e-8
        values -= self._rate / (1 - 0.9**self._count) * (self._mean / spread)
