"""One unit at a time: the gradient of any module, clipped, with nothing but autograd.

Slow and sure: every unit is computed in a batch of its own, so that no module, kernel or rounding
can mix units. A module that is not known to be stateless (`structure`) is copied afresh for every
unit, and random numbers start anew, so that nothing a module keeps reaches the next unit. The
engine for people, whose records' mean loss has one gradient; for modules that nobody knows; and
the yardstick that the faster engines are tested against.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from tacit._checks import Floats, Integers
from tacit._quiet import kind_of, quiet
from tacit.noisy_training.blocks import Blocks
from tacit.noisy_training.examples import (
    Loss,
    PrivateExamples,
    need_torch,
    set_parameters,
    trained_parameters,
)
from tacit.noisy_training.structure import foreign_layer

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class UnitParts:
    """Parts of units, records or people, of any module, in the module's own dtype. Secret."""

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: Loss, blocks: Blocks
    ) -> None:
        self._module = copy.deepcopy(module).train()
        self._examples, self._loss, self._blocks = examples, loss, blocks
        self._rows = examples.rows_by_unit()
        self._known = foreign_layer(module) is None

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""
        return len(self._rows)

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step."""
        set_parameters(trained_parameters(self._module), parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some units, each of norm at most 1."""
        total = np.zeros(self._blocks.dimension)
        with quiet():
            for unit in units:
                total += self.part(int(unit))
        return total

    def each(self, units: Integers) -> list[Tensor]:
        """Return the parts of some units, one after another, as rows of a matrix."""
        with quiet():
            parts = [self.part(int(unit)) for unit in units]
        return [need_torch().from_numpy(np.stack(parts))]

    def attempt(self, units: Integers) -> None:
        """Compute the gradients of public, made-up units, and let errors out."""
        for unit in units:
            self._gradient(self._rows[unit])

    def part(self, unit: int) -> Floats:
        """Return the part of one unit; one that fails or is not finite says nothing.

        An error would end the run for certain where this unit is sampled, and tell that it was.
        """
        try:
            gradient = self._gradient(self._rows[unit])
        except BaseException as error:
            kind_of(error)
            return np.zeros(self._blocks.dimension)
        return self._clipped(gradient)

    def _clipped(self, gradient: Tensor) -> Floats:
        torch = need_torch()
        pieces = torch.split(gradient, list(self._blocks.sizes))
        norms = torch.stack([_norm(piece) for piece in pieces])
        if not bool(torch.isfinite(norms).all()):
            return np.zeros(self._blocks.dimension)
        factors = self._blocks.factors(norms[None])[0]
        parts = [piece * factor for piece, factor in zip(pieces, factors, strict=True)]
        return np.asarray(torch.cat(parts).numpy())

    def _gradient(self, rows: Integers) -> Tensor:
        """Return the gradient of the mean loss of one unit's rows, as flat float64."""
        if self._known:
            return self._gradient_by(self._module, rows)
        with _same_chances():
            return self._gradient_by(copy.deepcopy(self._module), rows)

    def _gradient_by(self, module: Module, rows: Integers) -> Tensor:
        torch = need_torch()
        parameters = trained_parameters(module)
        inputs, targets = self._examples.batch(rows, rows.size, parameters[0].dtype)
        loss = self._loss(module(inputs), targets).mean()
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        flat = [
            (torch.zeros_like(parameter) if gradient is None else gradient).double().reshape(-1)
            for parameter, gradient in zip(parameters, gradients, strict=True)
        ]
        result: Tensor = torch.cat(flat)
        return result


@contextmanager
def _same_chances() -> Iterator[None]:
    """Let every unit meet the same random numbers, however many units were before it."""
    torch = need_torch()
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _norm(piece: Tensor) -> Tensor:
    """Return a length, divided by the largest number first: no square of the rest overflows."""
    largest = piece.abs().max()
    length: Tensor = largest * (piece / largest.clamp_min(1e-300)).norm()
    return length
