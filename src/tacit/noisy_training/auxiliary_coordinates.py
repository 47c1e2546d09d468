"""DP-MAC, the method of auxiliary coordinates: a network trained layer by layer in noisy steps.

E = loss(y, u_M)/2 + (mu/2) sum_k |z_k - f(u_k)|^2 with u_k = W_k [z_{k-1}, 1]: each layer's
gradient needs no other layer. An example's coordinates z depend on that example and the public
weights alone, bit for bit, and are never released (docs/theory/direct.md#coordinates-of-dp-mac and
#blocks).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tacit._checks import Floats, Integers, at_least, one_of, positive
from tacit.errors import InvalidArgument
from tacit.features import WholeRows, whole_rows
from tacit.mechanisms import Contributions, NoisySum, Plan
from tacit.noisy_training.clipped_sums import MARGIN, Blocks, Parts
from tacit.noisy_training.exact_rows import ACTIVATIONS, ExactLayer, logistic
from tacit.noisy_training.examples import PrivateExamples
from tacit.noisy_training.training import Adam, GradientSteps

ROWS = 128
"""Records computed at a time: their coordinates stay in the processor's cache."""
LOSSES = ("squares", "binary")


@dataclass(frozen=True, slots=True)
class AuxiliaryCoordinates:
    """How examples find their coordinates: public settings.

    Hidden layers have the weight mu = 1 in the objective. Coordinates depend on their own example
    and the public weights alone and are never released: their steps cost nothing. Source:
    `docs/theory/direct.md#coordinates-of-dp-mac`.

    Parameters
    ----------
    widths : tuple of int, units of all layers, inputs and outputs included: at least two numbers
    loss : str, optional
        "squares" (half the squared error of a linear output) or "binary" (half the binary
        cross-entropy of output units; targets are 0 or 1).
    activation : str, optional, of hidden layers: a name in `ACTIVATIONS`
    steps : int, optional
        Steps of elementwise Adam on an example's coordinates: at least as many as hidden layers, or
        nothing reaches the first one.
    rate : float, optional, learning rate of these steps
    """

    widths: tuple[int, ...]
    loss: str = "squares"
    activation: str = "tanh"
    steps: int = 30
    rate: float = 1e-3

    def __post_init__(self) -> None:
        one_of(*LOSSES, loss=self.loss)
        one_of(*ACTIVATIONS, activation=self.activation)
        positive(z_rate=self.rate)
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

    def scales(self) -> Floats:
        """Return 1/sqrt(inputs) of each parameter's layer, the range of its first weights.

        Returns
        -------
        array of shape (parameters,)
        """
        inputs = np.asarray(self.widths[:-1], dtype=float)
        return np.repeat(inputs**-0.5, self.sizes)

    def layers(self, parameters: Floats) -> list[ExactLayer]:
        """Return the layers of one vector: of each a matrix (outputs, inputs), then the bias.

        Parameters
        ----------
        parameters : array of shape (parameters,), one layer after another; public

        Returns
        -------
        list of ExactLayer, ready for exact products
        """
        shapes = [(after, before, True) for before, after in pairwise(self.widths)]
        return ExactLayer.all_of(parameters, shapes)


class Slopes(NamedTuple):
    """Of each layer: its inputs, and derivatives of the loss by its outputs. Secret."""

    inputs: list[WholeRows]
    deltas: list[Floats]
    curvatures: list[Floats]

    def __repr__(self) -> str:
        return "Slopes(secret)"


def slopes(
    network: AuxiliaryCoordinates, layers: list[ExactLayer], inputs: Floats, targets: Floats
) -> Slopes:
    """Return layer inputs and deltas after the steps of coordinates, row by row. Secret."""
    with np.errstate(all="ignore"):  # what is not finite says nothing, and is found later
        first = whole_rows(inputs)
        coordinates = _moved(network, layers, first, targets)
        rows = [first, *(whole_rows(z) for z in coordinates)]
        parts = [
            _layer(network, layer.apply(rows[number]), number, coordinates, targets)
            for number, layer in enumerate(layers)
        ]
    return Slopes(rows, [part.delta for part in parts], [part.curvature for part in parts])


class _Layer(NamedTuple):
    delta: Floats
    """The loss by the layer's outputs u."""
    gap: Floats | float
    """z - f(u), of the layer's own coordinates; 0 for the output, which has none."""
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
        gap = coordinates[layer] - value
        return _Layer(-gap * slope, gap, slope * slope)
    if network.loss == "squares":
        return _Layer(outputs - targets, 0.0, np.ones_like(outputs))
    chance = logistic(outputs)
    return _Layer((chance - targets) / 2, 0.0, chance * (1 - chance) / 2)


def _moved(
    network: AuxiliaryCoordinates, layers: list[ExactLayer], first: WholeRows, targets: Floats
) -> list[Floats]:
    """Return the coordinates of all hidden layers after their steps, from the forward pass."""
    activate = ACTIVATIONS[network.activation]
    into_first = layers[0].apply(first)  # does not move: neither inputs nor weights do
    coordinates: list[Floats] = []
    outputs = into_first
    for layer in layers[1:]:
        coordinates.append(activate(outputs)[0])
        outputs = layer.apply(whole_rows(coordinates[-1]))
    adams = [Adam(z.shape, network.rate) for z in coordinates]
    for _ in range(network.steps):
        pulls = _pulls(network, layers, into_first, coordinates, targets)
        for z, adam, pull in zip(coordinates, adams, pulls, strict=True):
            adam.step(z, pull)
    return coordinates


def _pulls(
    network: AuxiliaryCoordinates,
    layers: list[ExactLayer],
    into_first: Floats,
    coordinates: list[Floats],
    targets: Floats,
) -> list[Floats]:
    """Return dE/dz_k of each example's own E: (z_k - f(u_k)) + W_{k+1}^T delta_{k+1}."""
    slopes = [_layer(network, into_first, 0, coordinates, targets)]
    for number, z in enumerate(coordinates, start=1):
        outputs = layers[number].apply(whole_rows(z))
        slopes.append(_layer(network, outputs, number, coordinates, targets))
    return [
        own.gap + layer.back(whole_rows(after.delta))
        for layer, (own, after) in zip(layers[1:], pairwise(slopes), strict=True)
    ]


class LayerRows(NamedTuple):
    """Of one layer and some records: inputs with a 1, deltas, curvatures, gradient norms. Secret.

    A record that is not finite is 0 everywhere.
    """

    inputs: Floats
    deltas: Floats
    curvatures: Floats
    norms: Floats
    input_norms: Floats

    def __repr__(self) -> str:
        return "LayerRows(secret)"


class LayerParts(Parts):
    """Parts of private examples for DP-MAC; an engine of `GradientSteps`. Secret.

    The gradient of one record in layer k is the outer product of delta_k and [z_{k-1}, 1], its
    length the product of theirs: no record's gradient is ever stored. A unit of several records
    contributes the mean of their clipped parts. A record that is not finite in a layer adds 0
    there. Source: `docs/theory/direct.md#blocks`, `docs/theory/direct.md#coordinates-of-dp-mac`.

    Parameters
    ----------
    network : AuxiliaryCoordinates, public
    examples : PrivateExamples, secret; class indices as targets become rows of 0 and 1
    blocks : Blocks
        One block a layer, then one for each layer's curvature if there are any. Only sizes and
        shares are used, for the radii are the thresholds here.
    thresholds : sequence of float, t_k, to which each layer's gradients are clipped; public
    curvature_thresholds : sequence of float, optional
        The same for each layer's second derivatives, which are then released too (second order).
    """

    def __init__(
        self,
        network: AuxiliaryCoordinates,
        examples: PrivateExamples,
        blocks: Blocks,
        thresholds: Sequence[float],
        curvature_thresholds: Sequence[float] = (),
    ) -> None:
        super().__init__(examples, blocks)
        layers = len(network.widths) - 1
        if len(thresholds) != layers or len(curvature_thresholds) not in (0, layers):
            raise InvalidArgument(f"Expected a threshold for each of the {layers} layers.")
        self._network = network
        self._thresholds, self._curvature = list(thresholds), list(curvature_thresholds)
        self._inputs = np.asarray(examples.inputs, dtype=np.float64)
        self._targets = target_rows(network, examples)
        self._rows = None if examples.owners is None else examples.rows_by_unit()
        self._public: list[ExactLayer] | None = None

    def load(self, parameters: Floats) -> None:
        """Set the parameters of the next step.

        Parameters
        ----------
        parameters : array of shape (parameters,), all trained numbers as one vector; public
        """
        self._public = self._network.layers(parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of some units' parts, each of norm at most 1, without noise. Secret.

        Parameters
        ----------
        units : array of int, positions of the sampled units; secret

        Returns
        -------
        array of float64 of shape (dimension,)
        """
        total = np.zeros(self._blocks.dimension)
        for rows, shares in self._records(units):
            total += np.concatenate(list(self._sums_of(rows, shares)))
        return total

    def norms(self, rows: Integers) -> Floats:
        """Return the length of each layer's gradient before clipping; 0 if not finite. Secret.

        Parameters
        ----------
        rows : array of int, positions of records, not of units

        Returns
        -------
        array of shape (records, layers)
        """
        return np.hstack([layer.norms for layer in self._layers(rows)])

    def _records(self, units: Integers) -> Iterator[tuple[Integers, Floats]]:
        """Yield records of some units, and each one's share of its unit, a few at a time."""
        if self._rows is None:
            rows, shares = units, np.ones(units.size)
        else:
            own = [self._rows[unit] for unit in units]
            rows = np.concatenate(own) if own else np.empty(0, dtype=np.int64)
            shares = np.repeat([1.0 / len(one) for one in own], [len(one) for one in own])
        for start in range(0, rows.size, ROWS):
            yield rows[start : start + ROWS], shares[start : start + ROWS]

    def _layers(self, rows: Integers) -> list[LayerRows]:
        if self._public is None:
            raise InvalidArgument("Expected load(parameters) before the first step.")
        found = slopes(self._network, self._public, self._inputs[rows], self._targets[rows])
        with np.errstate(all="ignore"):  # what is not finite is put to 0
            return [
                _layer_rows(inputs, whole_rows(delta), curvature)
                for inputs, delta, curvature in zip(*found, strict=True)
            ]

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
    """Append a 1 for the bias to the inputs; zero what is not finite."""
    lengths = np.sqrt(inputs.norms() ** 2 + 1.0)
    norms = lengths * deltas.norms()
    usable = np.isfinite(norms) & np.isfinite(curvature).all(axis=1, keepdims=True)
    padded = np.hstack([inputs.values(), np.ones((len(norms), 1))])
    parts = (padded, deltas.values(), curvature, norms, lengths)
    return LayerRows(*(np.where(usable, part, 0.0) for part in parts))


def _factor(norms: Floats, bound: float, weight: float, shares: Floats) -> Floats:
    """Return w min(1/T, 1/norm) times the record's share of its unit, with a margin."""
    scale = weight * (1 - MARGIN) / np.maximum(norms, bound)
    return np.asarray(scale * shares[:, None])


def upper_triangle(width: int) -> tuple[Integers, Integers, Floats]:
    """Return rows, columns and scales that make a symmetric matrix a vector of the same length."""
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


EDGES: Floats = np.geomspace(1e-6, 1e2, 33)
"""Upper edges of public bins; whatever is longer counts in the last one."""
EDGES.setflags(write=False)


def histogram_plan(layers: int, noise: float) -> Plan:
    """Return the plan of a histogram with `noise` on every count: mu = sqrt(layers)/noise.

    Source: `docs/theory/direct.md#thresholds`.

    Parameters
    ----------
    layers : int, how many layers have a histogram; a unit puts one count into each
    noise : float, deviation of the noise on a count, where a unit counts 1

    Returns
    -------
    Plan, one noisy sum over the bins of all layers, to be charged together with the run
    """
    columns = layers * EDGES.size
    return Plan(NoisySum(positive(noise=noise) / math.sqrt(layers), 1, columns), 1)


def histogram_of(parts: LayerParts, examples: PrivateExamples, layers: int) -> Contributions:
    """Return contributions to the histogram: one count a layer, over sqrt(layers). Secret.

    A unit of several records contributes their mean, of norm at most 1.

    Parameters
    ----------
    parts : LayerParts, with the public first weights loaded: it measures the gradients
    examples : PrivateExamples, the records that the engine holds; secret
    layers : int, how many layers have a histogram

    Returns
    -------
    Contributions, for `histogram_plan`
    """
    shares = np.ones(len(examples.inputs))
    if examples.owners is not None:
        _, owner, count = np.unique(examples.owners, return_inverse=True, return_counts=True)
        shares = 1.0 / count[owner]

    def counts(rows: Integers) -> Floats:
        places = np.searchsorted(EDGES, parts.norms(rows)).clip(0, EDGES.size - 1)
        said = np.zeros((rows.size, layers, EDGES.size))
        np.put_along_axis(said, places[:, :, None], 1.0 / math.sqrt(layers), axis=2)
        return np.asarray(said.reshape(rows.size, -1) * shares[rows, None])

    return Contributions(
        len(examples.inputs), lambda rows: np.ones((rows.size, 1)), counts, examples.owners
    )


def thresholds_from(released: Floats, layers: int) -> tuple[float, ...]:
    """Return T_k: the upper edge of each layer's fullest noisy bin; post-processing.

    Parameters
    ----------
    released : array of layers x bins numbers, the noisy histogram, in any shape; public
    layers : int, how many layers have a histogram

    Returns
    -------
    tuple of float, one threshold a layer
    """
    fullest = released.reshape(layers, EDGES.size).argmax(axis=1)
    return tuple(float(EDGES[place]) for place in fullest)


MOST_NUMBERS = 2**22
"""Released in one step, at the most: beyond, curvature is noise and nothing else."""


@dataclass(frozen=True, slots=True)
class NoisyNewton:
    """How weights follow from noisy gradients and curvatures: public settings.

    A layer moves by -(H + ridge + damping level)^-1 g with negative eigenvalues of H put to 0 and
    level = noise_multiplier T/(w lot) sqrt(inputs + 1): post-processing of noisy sums. Source:
    `docs/theory/direct.md#coordinates-of-dp-mac`.

    Parameters
    ----------
    widths : tuple of int, units of all layers, inputs and outputs included
    blocks : Blocks, of `second_order_blocks`: gradients of all layers, then curvatures
    thresholds, curvatures : tuples of float
        T_k of gradients and of curvatures, one a layer, in the units of the objective.
    noise_multiplier : float, of the run's mechanism: how much of a curvature is noise
    lot : float, the public divisor of sums: expected size of a sample, never that of the one drawn
    rate : float, optional, factor of the solved step
    ridge : float, optional, added to eigenvalues of the curvature in any case
    damping : float, optional, how many noise levels are added besides
    cap : float, optional, the longest step, before `rate`, of the weights into one output
    """

    widths: tuple[int, ...]
    blocks: Blocks
    thresholds: tuple[float, ...]
    curvatures: tuple[float, ...]
    noise_multiplier: float
    lot: float
    rate: float = 1.0
    ridge: float = 1e-3
    damping: float = 2.0
    cap: float = 0.1

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "lot", "rate", "ridge", "damping", "cap"):
            positive(**{name: getattr(self, name)})

    def step(self, parameters: Floats, noisy_sums: Floats) -> None:
        """Move the parameters, in place, to a lower point of the noisy model.

        Parameters
        ----------
        parameters : array of shape (parameters,), weights and biases of all layers; changed
        noisy_sums : array of shape (blocks.dimension,), noisy gradients, curvatures; public already
        """
        pieces = np.split(noisy_sums, np.cumsum(self.blocks.sizes)[:-1])
        layers, start = len(self.widths) - 1, 0
        for k, (before, after) in enumerate(pairwise(self.widths)):
            size = (before + 1) * after
            own = parameters[start : start + size]
            slope = self._gradient(pieces[k], k, before, after)
            move = self._solved(slope, self._curvature(pieces[layers + k], k, before, after), k)
            own[: before * after] += self.rate * move[:, :-1].reshape(-1)
            own[before * after :] += self.rate * move[:, -1]
            start += size

    def _gradient(self, piece: Floats, layer: int, before: int, after: int) -> Floats:
        """Return the mean gradient (outputs, inputs and bias) in the objective's units."""
        scale = self.thresholds[layer] / (self.blocks.shares[layer] * self.lot)
        matrix = piece[: before * after].reshape(after, before)
        return np.hstack([matrix, piece[before * after :, None]]) * scale

    def _curvature(self, piece: Floats, layer: int, before: int, after: int) -> Floats:
        """Return the mean curvatures (outputs, inputs and bias, inputs and bias), symmetric."""
        rows, columns, scales = upper_triangle(before + 1)
        made = np.zeros((after, before + 1, before + 1))
        made[:, rows, columns] = piece.reshape(after, -1) / scales * self._scale(layer)
        made[:, columns, rows] = made[:, rows, columns]
        return made

    def _scale(self, layer: int) -> float:
        """Return the unit of a layer's curvature sums."""
        share = self.blocks.shares[len(self.widths) - 1 + layer]
        return self.curvatures[layer] / (share * self.lot)

    def _solved(self, slope: Floats, curvature: Floats, layer: int) -> Floats:
        """Return -(H + ridge)^-1 g with eigenvalues above the noise, no longer than the cap."""
        noise = self.noise_multiplier * self._scale(layer) * np.sqrt(slope.shape[1])
        values, vectors = np.linalg.eigh(curvature)
        values = np.maximum(values, 0.0) + self.ridge + self.damping * noise
        turned = np.einsum("hij,hi->hj", vectors, slope) / values
        move = -np.einsum("hij,hj->hi", vectors, turned)
        lengths = np.linalg.norm(move, axis=1, keepdims=True)
        return np.asarray(move * np.minimum(1.0, self.cap / np.maximum(lengths, 1e-300)))


class NewtonSteps(GradientSteps):
    """A run of second-order steps for `NoisySteps`. Secret until it is over.

    Parameters
    ----------
    newton : NoisyNewton, with its own rate and divisor
    *run : any
        The arguments of `GradientSteps`, in order. The recipe's optimiser, its rate and `scales`
        are not used.
    """

    def __init__(self, newton: NoisyNewton, *run: Any) -> None:
        super().__init__(*run)
        self._newton = newton

    def learn(self, noisy_sums: Floats) -> None:
        """Take one step from the noisy sums alone.

        Parameters
        ----------
        noisy_sums : array of shape (dimension,), noisy gradients, then curvatures: public already
        """
        self._newton.step(self._parameters, noisy_sums)
        self._move_on()


def second_order_blocks(widths: Sequence[int], split: str) -> Blocks:
    """Return the blocks of a second-order step: gradients of all layers, then curvatures.

    Source: `docs/theory/direct.md#blocks`.

    Parameters
    ----------
    widths : sequence of int, units of all layers, inputs and outputs included
    split : str, how blocks share the noise: "minimal" (the least total power) or "equal"

    Returns
    -------
    Blocks, two for each layer; a symmetric matrix has the numbers of its upper triangle
    """
    one_of("equal", "minimal", split=split)
    gradients = [(at_least(1, width=before) + 1) * after for before, after in pairwise(widths)]
    curvatures = [after * (before + 1) * (before + 2) // 2 for before, after in pairwise(widths)]
    if sum(curvatures) > MOST_NUMBERS:
        raise InvalidArgument(
            f"Expected order=1, or hidden= narrower, for layers of widths {tuple(widths)}: their "
            f"second derivatives have {sum(curvatures):,} numbers, which noise would drown."
        )
    return Blocks.cut([*gradients, *curvatures], clip=1.0, clipping="per-layer", split=split)
