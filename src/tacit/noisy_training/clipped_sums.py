"""Engines of DP-SGD: clipped sums of the sampled units' gradients.

Block j of a gradient (all of it, or one a layer) is shortened to its radius T_j and scaled by
w_j / T_j; sum w_j^2 = 1, so that all blocks together have norm at most 1
(docs/theory/direct.md#blocks). Every engine computes a unit's part from that unit and the public
parameters alone: `UnitParts` any module, one unit at a time; `HookParts` known layers by Opacus'
hooks; `stack_sums.StackParts` chains of layers in exact arithmetic.
"""

from __future__ import annotations

import copy
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from tacit._checks import Floats, Integers, one_of, positive, refuse
from tacit._extras import need
from tacit._quiet import Secret, kind_of, quiet
from tacit.errors import InvalidArgument
from tacit.noisy_training.examples import (
    Loss,
    PrivateExamples,
    need_torch,
    set_parameters,
    trained_parameters,
)
from tacit.noisy_training.isolation import foreign_layer

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

MARGIN = 1e-6
"""By how much a part stays below norm 1: far more than float64 can be wrong by in a norm."""
_LARGEST = 1e100
CLIPPINGS = ("per-layer", "flat")
SPLITS = ("minimal", "equal")


def radius(clip: float) -> float:
    """Return a radius of clipping whose squares stay within float64."""
    if not 1 / _LARGEST <= positive(clip=clip) <= _LARGEST:
        raise refuse("clip", clip, f"between {1 / _LARGEST:g} and {_LARGEST:g}")
    return float(clip)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Consecutive blocks of the flat parameter vector, with their shares of the norm; public.

    Block j of a gradient becomes w_j min(1/T, 1/|g_j|) g_j, so that all blocks together have norm
    at most 1. `Blocks.cut` makes them. Source: `docs/theory/direct.md#blocks`.

    Parameters
    ----------
    sizes : tuple of int, how many numbers each block has
    shares : tuple of float, w_j, the norm of each block in a unit's part; sum of squares 1
    clip : float, T, the clipping radius of every block
    """

    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    clip: float

    @classmethod
    def cut(cls, layers: Sequence[int], *, clip: float, clipping: str, split: str) -> Self:
        """Cut layers of these sizes into blocks.

        The equal split has w_j^2 = 1/J. The minimal one has w_j^2 = sqrt(d_j) / sum_i sqrt(d_i),
        which gives the noise the least total power, in units of the radii.

        Parameters
        ----------
        layers : sequence of int, how many numbers each layer trains
        clip : float, the radius of every block, from 1e-100 to 1e100
        clipping : str, "per-layer" makes one block a layer, "flat" one for all
        split : str, how blocks share the noise: "minimal" (the least total power) or "equal"

        Returns
        -------
        Blocks
        """
        one_of(*CLIPPINGS, clipping=clipping)
        one_of(*SPLITS, split=split)
        sizes = tuple(layers) if clipping == "per-layer" else (sum(layers),)
        roots = np.sqrt(sizes) if split == "minimal" else np.ones(len(sizes))
        shares = np.sqrt(roots / roots.sum())
        return cls(sizes, tuple(float(share) for share in shares), radius(clip))

    @property
    def dimension(self) -> int:
        """How many numbers all blocks have."""
        return sum(self.sizes)

    def row_factors(self, norms: Floats) -> Floats:
        """Return w_j min(1/T, 1/norm), with a margin; 0 for a norm that is not finite. Secret.

        Parameters
        ----------
        norms : array of shape (rows, blocks), lengths of the rows' gradients; secret

        Returns
        -------
        array of shape (rows, blocks)
        """
        factors = np.multiply(self.shares, 1 - MARGIN) / np.maximum(norms, self.clip)
        return np.where(np.isfinite(norms), factors, 0.0)

    def factors(self, norms: Tensor) -> Tensor:
        """Return the factors of `row_factors` for tensors. Secret.

        Parameters
        ----------
        norms : tensor of shape (rows, blocks), lengths of the rows' gradients; secret

        Returns
        -------
        tensor of shape (rows, blocks)
        """
        import torch

        return torch.from_numpy(self.row_factors(norms.numpy()))

    def mean_gradient(self, noisy_sums: Floats, lot: float) -> Floats:
        """Return the noisy sum over w_j lot: the mean clipped gradient in units of radius.

        Parameters
        ----------
        noisy_sums : array of shape (dimension,), sum of a step with its noise: public already
        lot : float, the public, expected size of a sample, never the size of the sample drawn

        Returns
        -------
        array of shape (dimension,)
        """
        gradient = np.empty(self.dimension)
        start = 0
        for share, size in zip(self.shares, self.sizes, strict=True):
            own = slice(start, start := start + size)
            np.multiply(noisy_sums[own], 1.0 / (share * lot), out=gradient[own])
        return gradient


class Parts(Secret, ABC):
    """An engine: the sampled units' parts of one step, under the current parameters. Secret."""

    def __init__(self, examples: PrivateExamples, blocks: Blocks) -> None:
        self._examples, self._blocks = examples, blocks
        self.n_units = examples.n_units

    @abstractmethod
    def load(self, parameters: Floats) -> None:
        """Set the parameters of the next step."""

    @abstractmethod
    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some units, each of norm at most 1."""

    def attempt(self, units: Integers) -> None:
        """Compute parts of public, made-up units, and let errors out; private ones' would leak."""
        self.sums(units)


class UnitParts(Parts):
    """Parts of units, records or people, of any module, in the module's own dtype. Secret.

    Every unit is computed in a batch of its own, so that no kernel or rounding mixes units. A
    module that is not known to be stateless is copied afresh for every unit, and random numbers
    start anew. The slow engine for people, for unknown modules, and the reference of the faster
    ones' tests.

    Parameters
    ----------
    module : torch module, the network, which is copied; public
    examples : PrivateExamples, secret
    loss : function, from outputs and targets of some rows to one loss a row
    blocks : Blocks, how gradients are clipped, from `blocks_of`
    """

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: Loss, blocks: Blocks
    ) -> None:
        super().__init__(examples, blocks)
        self._module, self._loss = copy.deepcopy(module).train(), loss
        self._rows = examples.rows_by_unit()
        self._known = foreign_layer(module) is None

    def load(self, parameters: Floats) -> None:
        """Set the parameters of the next step.

        Parameters
        ----------
        parameters : array of shape (parameters,), all trained numbers as one vector; public
        """
        set_parameters(trained_parameters(self._module), parameters)

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
        with quiet():
            for unit in units:
                total += self.part(int(unit))
        return total

    def each(self, units: Integers) -> list[Tensor]:
        """Return the clipped parts of some units, as one matrix (units, dimension). Secret.

        Parameters
        ----------
        units : array of int, positions of units

        Returns
        -------
        list of one tensor
        """
        with quiet():
            parts = [self.part(int(unit)) for unit in units]
        return [need_torch().from_numpy(np.stack(parts))]

    def attempt(self, units: Integers) -> None:
        """Compute the gradients of public, made-up units, and let errors out.

        Parameters
        ----------
        units : array of int, positions of units; never private ones: an error would leak
        """
        for unit in units:
            self._gradient(self._rows[unit])

    def part(self, unit: int) -> Floats:
        """Return the part of one unit, of norm at most 1; 0 if it fails or is not finite. Secret.

        An error would end the run whenever this unit is sampled, and so leak it.

        Parameters
        ----------
        unit : int, position of the unit

        Returns
        -------
        array of float64 of shape (dimension,)
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
    """Give every unit the same random numbers, however many units were before it."""
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


HOOK_ROWS = 16
"""Rows computed at a time: each holds a gradient of its own in memory."""


def need_opacus() -> Any:
    """Return Opacus with its gradient samplers, or raise with the name of the extra."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in ("opacus.validators", "opacus.grad_sample", "opacus"):
            package = need(part, 'for engine="hooks"', extra="baseline")
    return package


def _hooks_fit(opacus: Any, module: Module) -> bool:
    """Return whether Opacus supports every layer of the module."""
    trial = copy.deepcopy(module).train()
    complaints = opacus.validators.ModuleValidator.validate(trial, strict=False)
    return not complaints and not opacus.grad_sample.GradSampleModule.validate(trial, strict=False)


class HookParts(Parts):
    """Parts of single records of a module that Opacus accepts, in float64. Secret.

    Only Opacus' gradients are used (`GradSampleModule`); its optimiser, accountant, sampler and
    noise are not. The bound on a part does not rest on the hooks being right, only on a row's
    tensor being its own, for which `training.choose_engine` checks the module's structure.

    Parameters
    ----------
    module, examples, loss, blocks : as in `UnitParts`
    """

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: Loss, blocks: Blocks
    ) -> None:
        super().__init__(examples, blocks)
        self._opacus, self._loss = need_opacus(), loss
        self._pristine = copy.deepcopy(module).double().train()
        if not _hooks_fit(self._opacus, module):
            raise InvalidArgument(
                "Expected engine='single': the module has layers for which Opacus cannot give "
                "each record a gradient of its own."
            )
        self._renew()
        ends = np.cumsum([parameter.numel() for parameter in self._parameters])
        places = np.searchsorted(np.cumsum(blocks.sizes), ends)
        self._block_of = need_torch().from_numpy(places)

    def _renew(self) -> None:
        """Put hooks on a fresh copy: after an error the old ones hold data of other rows."""
        inner = copy.deepcopy(self._pristine)
        self._parameters = trained_parameters(inner)
        sampler = self._opacus.grad_sample.GradSampleModule
        self._module = sampler(inner, loss_reduction="sum")

    def load(self, parameters: Floats) -> None:
        """Set the parameters of the next step.

        Parameters
        ----------
        parameters : array of shape (parameters,), all trained numbers as one vector; public
        """
        set_parameters(self._parameters, parameters)
        set_parameters(trained_parameters(self._pristine), parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of some records' parts, each of norm at most 1, no noise. Secret.

        Parameters
        ----------
        units : array of int, positions of the sampled records; secret

        Returns
        -------
        array of float64 of shape (dimension,)
        """
        torch = need_torch()
        total = np.zeros(self._blocks.dimension)
        with quiet():
            for start in range(0, units.size, HOOK_ROWS):
                gradients, factors = self._clipped(units[start : start + HOOK_ROWS])
                sums = [own @ rows for own, rows in zip(factors, gradients, strict=True)]
                total += torch.cat(sums).numpy()
        return total

    def attempt(self, units: Integers) -> None:
        """Compute the gradients of public, made-up units, and let errors out.

        Parameters
        ----------
        units : array of int, positions of units; never private ones: an error would leak
        """
        for start in range(0, units.size, HOOK_ROWS):
            self._gradients(units[start : start + HOOK_ROWS])

    def each(self, units: Integers) -> list[Tensor]:
        """Return each record's clipped part, one tensor a parameter; padding is 0. Secret.

        Parameters
        ----------
        units : array of int, positions of records, at most `HOOK_ROWS` of them

        Returns
        -------
        list of tensors of shape (HOOK_ROWS, numbers of the parameter)
        """
        gradients, factors = self._clipped(units)
        return [rows * own[:, None] for own, rows in zip(factors, gradients, strict=True)]

    def _clipped(self, units: Integers) -> tuple[list[Tensor], list[Tensor]]:
        """Return rows' gradients, invalid ones 0, and each row's factor, for each parameter."""
        torch = need_torch()
        gradients = self._safe_gradients(units)
        squares = torch.stack([rows.square().sum(dim=1) for rows in gradients], dim=1)
        norms = torch.zeros(HOOK_ROWS, len(self._blocks.sizes), dtype=torch.float64)
        norms.index_add_(1, self._block_of, squares).sqrt_()
        factors = self._blocks.factors(norms)
        factors[units.size :] = 0
        usable = (factors > 0).all(dim=1)
        for rows in gradients:  # before any product: 0 times what is not finite is not 0
            rows[~usable] = 0
        return gradients, [factors[:, block] for block in self._block_of.tolist()]

    def _safe_gradients(self, units: Integers) -> list[Tensor]:
        """Return the rows' gradients; where some rows fail, still the others'."""
        try:
            return self._gradients(units)
        except BaseException as error:  # told to nobody: it would tell that a row was sampled
            kind_of(error)
            self._renew()
        torch = need_torch()
        found = [
            torch.zeros(HOOK_ROWS, own.numel(), dtype=torch.float64) for own in self._parameters
        ]
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
        inputs, targets = self._examples.batch(units, HOOK_ROWS, torch.float64)
        # Backward hooks warn where no input of the first layer asks for a gradient.
        losses = self._loss(self._module(inputs.requires_grad_()), targets)
        torch.autograd.backward(losses.sum())
        found, hooked = [], cast("list[Any]", self._parameters)  # hooks give them `grad_sample`
        for parameter in hooked:
            own = parameter.grad_sample
            found.append(torch.zeros(HOOK_ROWS, parameter.numel()).double() if own is None else own)
            # Forgotten before the next batch: hooks would keep these rows beside its own.
            parameter.grad_sample = parameter.grad = None
        return [own.reshape(HOOK_ROWS, -1).contiguous() for own in found]
