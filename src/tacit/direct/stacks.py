"""Stacks of linear layers: clipped sums without per-example gradients (ghost norms).

The gradient of one row in layer k is the outer product of delta_k (the loss by the layer's output)
and the layer's input a_k with a 1 for the bias. Its norm is |delta_k| sqrt(|a_k|^2 + 1), and the
clipped sum over rows is one product of matrices (SPEC-highdim-mac B.5). What is summed is built
from the very delta and a whose norms were taken, so the bound needs no trust in autograd.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit._checks import Floats, Integers
from tacit.direct.blocks import Blocks
from tacit.direct.examples import Loss, PrivateExamples, need_torch, set_parameters

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

ROWS = 128
"""Rows computed at a time, in batches of exactly this size."""
_ELEMENTWISE = (
    "ReLU", "Tanh", "Sigmoid", "Softplus", "ELU", "GELU", "SiLU", "LeakyReLU", "Identity", "Flatten"
)  # fmt: skip


def is_stack(module: Any) -> bool:
    """Tell whether a module is a plain chain of linear layers and elementwise functions.

    >>> from torch import nn
    >>> is_stack(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)))
    True
    >>> is_stack(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
    False
    """
    nn = need_torch().nn
    if type(module) is not nn.Sequential or _hooked(module):
        return False
    linear = [layer for layer in module if type(layer) is nn.Linear]
    simple = tuple(getattr(nn, name) for name in _ELEMENTWISE)
    known = all(type(layer) is nn.Linear or type(layer) in simple for layer in module)
    trained = all(p.requires_grad for p in module.parameters())
    apart = len(list(module.parameters())) == sum(1 + (x.bias is not None) for x in linear)
    return bool(linear and known and trained and apart)


def _hooked(module: Any) -> bool:
    """Tell whether somebody looks into, or changes, what passes through a module."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


class _Rows(NamedTuple):
    """Of each linear layer: inputs, and deltas times the factor of clipping."""

    inputs: list[Tensor]
    deltas: list[Tensor]


class StackParts:
    """Parts of single records in a stack of linear layers, in float64. Secret."""

    def __init__(
        self, module: Module, examples: PrivateExamples, loss: Loss, blocks: Blocks
    ) -> None:
        self._module = copy.deepcopy(module).double()
        self._parameters = list(self._module.requires_grad_(False).parameters())
        self._examples, self._loss, self._blocks = examples, loss, blocks
        linear = need_torch().nn.Linear
        self._linear = [layer for layer in self._module if isinstance(layer, linear)]  # type: ignore[attr-defined]

    @property
    def n_units(self) -> int:
        """How many records there are. Secret."""
        return len(self._examples.inputs)

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step."""
        set_parameters(self._parameters, parameters)

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some records, each of norm at most 1."""
        total = np.zeros(self._blocks.dimension)
        for start in range(0, units.size, ROWS):
            rows = self.each(units[start : start + ROWS])
            sums = []
            for layer, inputs, deltas in zip(self._linear, *rows, strict=True):
                sums.append((deltas.T @ inputs).reshape(-1))
                if layer.bias is not None:
                    sums.append(deltas.sum(dim=0))
            total += need_torch().cat(sums).numpy()
        return total

    def each(self, units: Integers) -> _Rows:
        """Return what makes up each record's part; padding and invalid rows are 0."""
        torch = need_torch()
        inputs, deltas = self._passes(units)
        norms = torch.stack(
            [
                (d.square().sum(dim=1) * (a.square().sum(dim=1) + (layer.bias is not None))).sqrt()
                for layer, a, d in zip(self._linear, inputs, deltas, strict=True)
            ],
            dim=1,
        )
        if len(self._blocks.sizes) == 1:
            norms = norms.square().sum(dim=1, keepdim=True).sqrt()
        factors = self._blocks.factors(norms)
        factors[units.size :] = 0
        factors = factors.expand(-1, len(deltas))
        usable = (factors > 0).all(dim=1, keepdim=True)
        return _Rows(
            [torch.where(usable, a, 0.0) for a in inputs],
            [torch.where(usable, d, 0.0) * factors[:, [k]] for k, d in enumerate(deltas)],
        )

    def _passes(self, units: Integers) -> tuple[list[Tensor], list[Tensor]]:
        """Return the inputs of every linear layer, and the loss by its outputs, row by row."""
        torch = need_torch()
        layer_type = torch.nn.Linear
        flow, wanted = self._examples.batch(units, ROWS, torch.float64)
        inputs, outputs = [], []
        with torch.enable_grad():
            for layer in self._module:  # type: ignore[attr-defined]
                if isinstance(layer, layer_type):
                    inputs.append(flow.detach())
                flow = layer(flow)
                if isinstance(layer, layer_type):
                    flow = flow if flow.requires_grad else flow.requires_grad_()
                    outputs.append(flow)
            losses = self._loss(flow, wanted)
            deltas = torch.autograd.grad(losses, outputs, torch.ones_like(losses))
        return inputs, list(deltas)
