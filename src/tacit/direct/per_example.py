"""One unit at a time: the gradient of any module, clipped, with nothing but autograd.

Slow and sure: every unit is computed in a batch of its own, so that no module, kernel or rounding
can mix units. The engine for people, whose records' mean loss has one gradient; for modules that
come in float32; and the yardstick that the faster engines are tested against.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from tacit._checks import Floats, Integers
from tacit.direct.blocks import Blocks
from tacit.direct.examples import (
    Loss,
    PrivateExamples,
    need_torch,
    set_parameters,
    trained_parameters,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class UnitParts:
    """Parts of units, records or people, of any module, in the module's own dtype. Secret."""

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: Loss, blocks: Blocks
    ) -> None:
        self._module = copy.deepcopy(module).train()
        self._parameters = trained_parameters(self._module)
        self._examples, self._loss, self._blocks = examples, loss, blocks
        self._rows = examples.rows_by_unit()

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""
        return len(self._rows)

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step."""
        set_parameters(self._parameters, parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some units, each of norm at most 1."""
        total = np.zeros(self._blocks.dimension)
        for unit in units:
            total += self.part(int(unit))
        return total

    def part(self, unit: int) -> Floats:
        """Return the part of one unit; one whose gradient is not finite says nothing."""
        torch = need_torch()
        gradient = self._gradient(self._rows[unit])
        pieces = torch.split(gradient, list(self._blocks.sizes))
        norms = torch.stack([_norm(piece) for piece in pieces])
        if not bool(torch.isfinite(norms).all()):
            return np.zeros(self._blocks.dimension)
        factors = self._blocks.factors(norms[None])[0]
        parts = [piece * factor for piece, factor in zip(pieces, factors, strict=True)]
        return np.asarray(torch.cat(parts).numpy())

    def _gradient(self, rows: Integers) -> Tensor:
        """Return the gradient of the mean loss of one unit's rows, as flat float64."""
        torch = need_torch()
        inputs, targets = self._examples.batch(rows, rows.size, self._parameters[0].dtype)
        loss = self._loss(self._module(inputs), targets).mean()
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        flat = [
            (torch.zeros_like(parameter) if gradient is None else gradient).double().reshape(-1)
            for parameter, gradient in zip(self._parameters, gradients, strict=True)
        ]
        result: Tensor = torch.cat(flat)
        return result


def _norm(piece: Tensor) -> Tensor:
    """Return a length, divided by the largest number first: no square of the rest overflows."""
    largest = piece.abs().max()
    length: Tensor = largest * (piece / largest.clamp_min(1e-300)).norm()
    return length
