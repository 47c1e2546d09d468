"""What units add to a step of DP-MAC: clipped layer by layer, by ghost norms.

The gradient of layer k's term is the outer product of delta_k and [z_{k-1}, 1]; its length is the
product of theirs, so that no gradient of a single example is ever stored. Block j of a unit is
shortened to T_j and scaled by w_j/T_j, where the squares of all w_j add up to 1: the unit's part,
all blocks together, has norm at most 1. A unit of several records says the mean of what they say.
Proof: docs/theory/direct.md#blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from tacit._checks import Floats, Integers
from tacit.errors import InvalidArgument
from tacit.noisy_training.auxiliary import AuxiliaryCoordinates, PublicWeights, Slopes, slopes
from tacit.noisy_training.blocks import MARGIN, Blocks
from tacit.noisy_training.exact_rows import WholeRows, whole_rows
from tacit.noisy_training.examples import PrivateExamples

ROWS = 128
"""Records computed at a time: their coordinates stay in the processor's cache."""


class LayerRows(NamedTuple):
    """Of one layer and some records: inputs with a 1, deltas, curvatures, length of the gradient.

    A record that is not finite is 0 everywhere. Secret.
    """

    inputs: Floats
    deltas: Floats
    curvatures: Floats
    norms: Floats
    input_norms: Floats

    def __repr__(self) -> str:
        return "LayerRows(secret)"


class LayerParts:
    """Parts of private examples for DP-MAC; an engine of `GradientSteps`. Secret.

    thresholds: T_k of each layer's gradients and, where `curvature_thresholds` are given, of its
    second derivatives, which are then released too (second order).
    """

    def __init__(
        self,
        network: AuxiliaryCoordinates,
        examples: PrivateExamples,
        blocks: Blocks,
        thresholds: Sequence[float],
        curvature_thresholds: Sequence[float] = (),
    ) -> None:
        layers = len(network.widths) - 1
        if len(thresholds) != layers or len(curvature_thresholds) not in (0, layers):
            raise InvalidArgument(f"Expected a threshold for each of the {layers} layers.")
        self._network, self._blocks = network, blocks
        self._thresholds, self._curvature = list(thresholds), list(curvature_thresholds)
        self._inputs = np.asarray(examples.inputs, dtype=np.float64)
        self._targets = target_rows(network, examples)
        self._rows = None if examples.owners is None else examples.rows_by_unit()
        self._weights: PublicWeights | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private examples to stay where they are; save the student.")

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""
        return len(self._inputs) if self._rows is None else len(self._rows)

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step."""
        self._weights = PublicWeights(self._network.widths, parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some units, each of norm at most 1."""
        total = np.zeros(self._blocks.dimension)
        for rows, shares in self._records(units):
            total += np.concatenate(list(self._sums_of(rows, shares)))
        return total

    def norms(self, rows: Integers) -> Floats:
        """Return the length of each layer's gradient, (records, layers). Secret."""
        return np.hstack([layer.norms for layer in self._layers(rows)])

    def _records(self, units: Integers) -> Iterator[tuple[Integers, Floats]]:
        """Yield records of some units, and what share of its unit each is, a few at a time."""
        if self._rows is None:
            rows, shares = units, np.ones(units.size)
        else:
            own = [self._rows[unit] for unit in units]
            rows = np.concatenate(own) if own else np.empty(0, dtype=np.int64)
            shares = np.repeat([1.0 / len(one) for one in own], [len(one) for one in own])
        for start in range(0, rows.size, ROWS):
            yield rows[start : start + ROWS], shares[start : start + ROWS]

    def _layers(self, rows: Integers) -> list[LayerRows]:
        found = self._slopes(rows)
        with np.errstate(all="ignore"):  # what is not finite is put to 0
            return [
                _layer_rows(inputs, whole_rows(delta), curvature)
                for inputs, delta, curvature in zip(*found, strict=True)
            ]

    def _slopes(self, rows: Integers) -> Slopes:
        if self._weights is None:
            raise InvalidArgument("Expected load(parameters) before the first step.")
        return slopes(self._network, self._weights, self._inputs[rows], self._targets[rows])

    def _sums_of(self, rows: Integers, shares: Floats) -> Iterator[Floats]:
        """Yield the blocks of a sum: each layer's matrix and bias, then curvatures if any."""
        layers = self._layers(rows)
        weights = self._blocks.shares
        for layer, bound, weight in zip(layers, self._thresholds, weights, strict=False):
            scaled = layer.deltas * _factor(layer.norms, bound, weight, shares)
            both = scaled.T @ layer.inputs
            yield both[:, :-1].reshape(-1)
            yield both[:, -1]
        after = weights[len(layers) :]
        for layer, bound, weight in zip(layers, self._curvature, after, strict=False):
            yield from _curvature_sums(layer, bound, weight, shares)


def target_rows(network: AuxiliaryCoordinates, examples: PrivateExamples) -> Floats:
    """Return targets as rows of numbers; class indices become rows of 0 and 1. Secret."""
    targets = np.asarray(examples.targets)
    if targets.ndim == 1 and targets.dtype.kind in "iu":
        made = np.zeros((len(targets), network.widths[-1]))
        made[np.arange(len(targets)), targets] = 1.0
        return made
    if targets.ndim != 2 or targets.shape[1] != network.widths[-1]:
        raise InvalidArgument("Expected targets of as many numbers as the network has outputs.")
    return np.asarray(targets, dtype=np.float64)


def _layer_rows(inputs: WholeRows, deltas: WholeRows, curvature: Floats) -> LayerRows:
    """Put a 1 for the bias beside the inputs; zero what is not finite."""
    lengths = np.sqrt(inputs.norms() ** 2 + 1.0)
    norms = lengths * deltas.norms()
    usable = np.isfinite(norms) & np.isfinite(curvature).all(axis=1, keepdims=True)
    padded = np.hstack([inputs.values(), np.ones((len(norms), 1))])
    return LayerRows(
        np.where(usable, padded, 0.0),
        np.where(usable, deltas.values(), 0.0),
        np.where(usable, curvature, 0.0),
        np.where(usable, norms, 0.0),
        np.where(usable, lengths, 0.0),
    )


def _factor(norms: Floats, bound: float, weight: float, shares: Floats) -> Floats:
    """Return w min(1/T, 1/norm) times the record's share of its unit, with a margin."""
    scale = weight * (1 - MARGIN) / np.maximum(norms, bound)
    return np.asarray(scale * shares[:, None])


def upper_triangle(width: int) -> tuple[Integers, Integers, Floats]:
    """Return rows, columns and scales that make a symmetric matrix a vector of the same length.

    >>> _, _, scales = upper_triangle(2)
    >>> scales.round(3).tolist()
    [1.0, 1.414, 1.0]
    """
    rows, columns = np.triu_indices(width)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def _curvature_sums(
    layer: LayerRows, bound: float, weight: float, shares: Floats
) -> Iterator[Floats]:
    """Yield, for each output, the clipped sum of kappa a a^T as a vector of the same length.

    A unit's curvatures of all outputs are one block: |kappa| |a|^2 is its Frobenius norm.
    """
    kappas = whole_rows(layer.curvatures)
    with np.errstate(over="ignore"):  # an infinite length has the factor 0
        norms = kappas.norms() * layer.input_norms**2
    scaled = kappas.values() * _factor(norms, bound, weight, shares)
    rows, columns, scales = upper_triangle(layer.inputs.shape[1])
    for kappa in scaled.T:
        matrix = layer.inputs.T @ (layer.inputs * kappa[:, None])
        yield matrix[rows, columns] * scales
