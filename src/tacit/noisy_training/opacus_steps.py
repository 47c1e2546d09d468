"""Per-example gradients of known layers by Opacus' hooks, in small batches of one size.

Only Opacus' gradients are used (`GradSampleModule`); its optimiser, its accountant, its sampler and
its noise are not. Whatever tensor the hooks leave for a record is clipped as it is, so that the
bound on a part does not rest on the hooks being right, only on a row's tensor being its own: for
which `training.choose_engine` asks the module's `structure`.
"""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit._checks import Floats, Integers
from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument, MissingExtra
from tacit.noisy_training.blocks import Blocks
from tacit.noisy_training.examples import (
    Loss,
    PrivateExamples,
    need_torch,
    set_parameters,
    trained_parameters,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

ROWS = 16
"""Rows computed at a time: each holds a gradient of its own in memory."""


def need_opacus() -> Any:
    """Return Opacus' gradient samplers, or say which extra brings them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import opacus.grad_sample
            import opacus.validators
    except ImportError:
        raise MissingExtra(
            'Expected the package opacus for engine="hooks"; install tacit[baseline].'
        ) from None
    return opacus


def has_opacus() -> bool:
    """Tell whether Opacus is installed."""
    try:
        need_opacus()
    except MissingExtra:
        return False
    return True


def hooks_fit(module: Module) -> bool:
    """Tell whether Opacus is there, and finds nothing in the module that it cannot take apart."""
    if not has_opacus():
        return False
    opacus = need_opacus()
    trial = copy.deepcopy(module).train()
    complaints = opacus.validators.ModuleValidator.validate(trial, strict=False)
    return not complaints and not opacus.grad_sample.GradSampleModule.validate(trial, strict=False)


class HookParts:
    """Parts of single records of a module that Opacus accepts, in float64. Secret."""

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: Loss, blocks: Blocks
    ) -> None:
        need_opacus()
        self._examples, self._loss, self._blocks = examples, loss, blocks
        self._pristine = copy.deepcopy(module).double().train()
        if not hooks_fit(module):
            raise InvalidArgument(
                "Expected engine='single': the module has layers for which Opacus cannot give "
                "each record a gradient of its own."
            )
        self._renew()
        ends = np.cumsum([parameter.numel() for parameter in self._parameters])
        places = np.searchsorted(np.cumsum(blocks.sizes), ends)
        self._block_of = need_torch().from_numpy(places)

    def _renew(self) -> None:
        """Put hooks on a fresh copy: after an error old ones hold what they saw of other rows."""
        inner = copy.deepcopy(self._pristine)
        self._parameters = trained_parameters(inner)
        sampler = need_opacus().grad_sample.GradSampleModule
        self._module = sampler(inner, loss_reduction="sum")

    @property
    def n_units(self) -> int:
        """How many records there are. Secret."""
        return len(self._examples.inputs)

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step."""
        set_parameters(self._parameters, parameters)
        set_parameters(trained_parameters(self._pristine), parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some records, each of norm at most 1."""
        torch = need_torch()
        total = np.zeros(self._blocks.dimension)
        with quiet():
            for start in range(0, units.size, ROWS):
                gradients, factors = self._clipped(units[start : start + ROWS])
                sums = [own @ rows for own, rows in zip(factors, gradients, strict=True)]
                total += torch.cat(sums).numpy()
        return total

    def attempt(self, units: Integers) -> None:
        """Compute the gradients of public, made-up units, and let errors out."""
        for start in range(0, units.size, ROWS):
            self._gradients(units[start : start + ROWS])

    def each(self, units: Integers) -> list[Tensor]:
        """Return each record's part, parameter by parameter; padding and invalid rows are 0."""
        gradients, factors = self._clipped(units)
        return [rows * own[:, None] for own, rows in zip(factors, gradients, strict=True)]

    def _clipped(self, units: Integers) -> tuple[list[Tensor], list[Tensor]]:
        """Return rows' gradients, invalid ones 0, and each row's factor, for each parameter."""
        torch = need_torch()
        gradients = self._safe_gradients(units)
        squares = torch.stack([rows.square().sum(dim=1) for rows in gradients], dim=1)
        norms = torch.zeros(ROWS, len(self._blocks.sizes), dtype=torch.float64)
        norms.index_add_(1, self._block_of, squares).sqrt_()
        factors = self._blocks.factors(norms)
        factors[units.size :] = 0
        usable = (factors > 0).all(dim=1)
        for rows in gradients:
            rows[~usable] = 0
        return gradients, [factors[:, block] for block in self._block_of.tolist()]

    def _safe_gradients(self, units: Integers) -> list[Tensor]:
        """Return the rows' gradients; where rows fail, the others' all the same."""
        try:
            return self._gradients(units)
        except BaseException as error:  # told to nobody: it would tell that a row was sampled
            kind_of(error)
            self._renew()
        torch = need_torch()
        found = [torch.zeros(ROWS, own.numel(), dtype=torch.float64) for own in self._parameters]
        for place in range(units.size):
            try:
                alone = self._gradients(units[[place]])
            except BaseException as error:
                kind_of(error)
                self._renew()
                continue
            for rows, own in zip(found, alone, strict=True):
                rows[place] = own[0]
        return found

    def _gradients(self, units: Integers) -> list[Tensor]:
        """Return the rows' gradients, one matrix (rows, numbers) a parameter."""
        torch = need_torch()
        inputs, targets = self._examples.batch(units, ROWS, torch.float64)
        # Backward hooks warn where no input of the first layer asks for a gradient.
        losses = self._loss(self._module(inputs.requires_grad_()), targets)
        torch.autograd.backward(losses.sum())
        found, hooked = [], cast("list[Any]", self._parameters)  # hooks give them `grad_sample`
        for parameter in hooked:
            own = parameter.grad_sample
            found.append(torch.zeros(ROWS, parameter.numel()).double() if own is None else own)
            parameter.grad_sample = parameter.grad = None
        return [own.reshape(ROWS, -1).contiguous() for own in found]
