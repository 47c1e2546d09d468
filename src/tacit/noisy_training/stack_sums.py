"""The engine of DP-SGD for chains of known layers: clipped sums in exact arithmetic.

Of a linear layer no record's gradient is ever stored (ghost norms); of a convolution, whose kernels
are small, each record's own is. Pieces of the chain are in `exact_pieces`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._checks import Floats, Integers, blocks
from tacit.errors import InvalidArgument
from tacit.features import whole_rows
from tacit.noisy_training.clipped_sums import Blocks, Parts
from tacit.noisy_training.exact_pieces import Gradients, Shape, added, pieces_of
from tacit.noisy_training.examples import PrivateExamples, RowLoss, flat_parameters, need_torch
from tacit.noisy_training.isolation import foreign_layer

if TYPE_CHECKING:
    from torch.nn import Module

MOST_ROWS, _FEWEST_ROWS = 512, 16
"""Rows computed at a time: few enough for a processor's cache, 16 for the proof of `ROOM`."""
_NUMBERS = 2**21
"""Numbers that patches or kernels of all rows may have together."""


def is_stack(module: Any, shape: Shape) -> bool:
    """Return whether a module is a chain of known layers, all of them trained, for such records."""
    if type(module) is not need_torch().nn.Sequential or foreign_layer(module):
        return False
    if not all(parameter.requires_grad for parameter in module.parameters()):
        return False
    named = [[name for name, _ in layer.named_parameters()] for layer in module]
    # In this order, for parameters are told apart by their place in one vector.
    if not all(names in ([], ["weight"], ["weight", "bias"]) for names in named):
        return False
    # Shared parameters are listed once: their gradient has two terms.
    each = sum(map(len, named))
    return len(list(module.parameters())) == each and pieces_of(module, shape) is not None


class StackParts(Parts):
    """Parts of single records in a chain of linear layers and convolutions. Secret.

    The gradient of one row in layer k is the outer product of delta_k (the loss by the layer's
    output) and the layer's input a_k with a 1 for the bias; its norm is |delta_k| sqrt(|a_k|^2 +
    1), and the clipped sum over rows is one product of matrices. A convolution's is the sum of such
    products over the positions of an image. What is summed is built from the very numbers whose
    norms were taken: the bound needs no trust in automatic differentiation; and products are exact
    (`exact_rows`), so that no row affects the others. Source: `docs/theory/direct.md#blocks`.

    Parameters
    ----------
    module : torch Sequential
        Linear, Conv2d, MaxPool2d, Flatten and Unflatten layers, with ReLU, Tanh or Softplus between
        them; public.
    examples : PrivateExamples, secret
    loss : cross_entropy or half_squares, a loss of single rows with a slope by their outputs
    blocks : Blocks, how gradients are clipped, from `blocks_of`
    """

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: RowLoss, blocks: Blocks
    ) -> None:
        super().__init__(examples, blocks)
        shape = examples.inputs.shape[1:]
        pieces = pieces_of(module, shape)
        if pieces is None:
            raise InvalidArgument("Expected a chain of known layers for records of this shape.")
        self._pieces, self._slope = pieces, loss.slope
        ends = np.cumsum([piece.size for piece in pieces if piece.trained]).tolist()
        self._places = [slice(*pair) for pair in pairwise([0, *ends])]
        self._first = next(piece for piece in pieces if piece.trained)
        most = max(piece.numbers for piece in pieces)
        self._at_once = max(_FEWEST_ROWS, min(MOST_ROWS, _NUMBERS // max(1, most)))
        self.load(flat_parameters(module))

    def load(self, parameters: Floats) -> None:
        """Set the parameters of the next step: of each layer a matrix, then the bias.

        Parameters
        ----------
        parameters : array of shape (parameters,), all trained numbers as one vector; public
        """
        expected = self._blocks.dimension
        if parameters.size != expected:
            raise InvalidArgument(f"Expected as many numbers as parameters, {expected}.")
        rest = parameters
        for piece in self._pieces:
            if piece.trained:
                own, rest = rest[: piece.size], rest[piece.size :]
                piece.load(own, first=piece is self._first)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of some records' parts, each of norm at most 1, no noise. Secret.

        Parameters
        ----------
        units : array of int, positions of the sampled records; secret

        Returns
        -------
        array of float64 of shape (dimension,)
        """
        total = np.zeros(self._blocks.dimension)
        for block in blocks(units.size, self._at_once):
            self._add(self.each(units[block]), total)
        return total

    def _add(self, layers: list[Gradients], total: Floats) -> None:
        """Add the parts of some records to the total, layer by layer."""
        with np.errstate(all="ignore"):  # what is not finite is found by its norm
            norms = np.hstack([layer.norms for layer in layers])
            own = np.sqrt(added(np.square(norms))) if len(self._blocks.sizes) == 1 else norms
        factors = np.broadcast_to(self._blocks.row_factors(own), norms.shape)
        # A record that is not finite in one layer says nothing in any.
        factors = np.where((factors > 0).all(axis=1, keepdims=True), factors, 0.0)
        for layer, place, factor in zip(layers, self._places, factors.T, strict=True):
            layer.add(total[place], factor[:, None])

    def each(self, units: Integers) -> list[Gradients]:
        """Return layers' gradients before clipping, each record's from itself, bit by bit.

        Parameters
        ----------
        units : array of int, positions of records

        Returns
        -------
        list of Gradients
        """
        with np.errstate(all="ignore"):
            return self._gradients(units)

    def _gradients(self, units: Integers) -> list[Gradients]:
        flow = self._examples.inputs[units].astype(np.float64).reshape(units.size, -1)
        kept: list[Any] = []
        for piece in self._pieces:
            flow, own = piece.forward(flow)
            kept.append(own)
        flow = self._slope(flow, self._examples.targets[units])
        found: list[Gradients] = []
        for piece, own in zip(self._pieces[::-1], kept[::-1], strict=True):
            if not piece.trained:
                flow = piece.back(own, flow)
                continue
            deltas = whole_rows(flow, out=flow)
            found.append(piece.gradients(own, deltas))
            if piece is self._first:
                return found[::-1]
            flow = piece.back(own, deltas)
        raise AssertionError("Expected a layer that is trained.")
