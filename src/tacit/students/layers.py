"""Networks as plain data: a chain of known layers, so that it can be saved without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidArgument
from tacit.students.networks import need_torch

if TYPE_CHECKING:
    from torch.nn import Module

Layers = tuple[tuple[Any, ...], ...]
"""One tuple a layer: its name in torch.nn, then pairs (argument, value)."""

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features", "bias"),
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding", "bias"),
    "GroupNorm": ("num_groups", "num_channels"),
    "LayerNorm": ("normalized_shape",),
    "MaxPool2d": ("kernel_size", "stride", "padding"),
    "AvgPool2d": ("kernel_size", "stride", "padding"),
    "Flatten": ("start_dim", "end_dim"),
    "Unflatten": ("dim", "unflattened_size"),
    "LeakyReLU": ("negative_slope",),
    "ELU": ("alpha",),
    **dict.fromkeys(("ReLU", "Tanh", "Sigmoid", "Softplus", "GELU", "SiLU", "Identity"), ()),
}


def describe_layers(module: Module) -> Layers | None:
    """Return a chain of known layers as plain data, or None where a module is something else.

    >>> from torch import nn
    >>> describe_layers(nn.Sequential(nn.Linear(2, 3), nn.Tanh()))
    (('Linear', ('in_features', 2), ('out_features', 3), ('bias', True)), ('Tanh',))
    """
    nn = need_torch().nn
    if type(module) is not nn.Sequential:
        return None
    found = []
    for layer in module:  # type: ignore[attr-defined]
        name = type(layer).__name__
        if name not in _ARGUMENTS or type(layer) is not getattr(nn, name):
            return None
        pairs = tuple((key, _plain(getattr(layer, key))) for key in _ARGUMENTS[name])
        found.append((name, *pairs))
    layers = tuple(found)
    # An option that is not described (a dilation, say) would be lost: then it is something else.
    return layers if repr(build_layers(layers)) == repr(module) else None


def _plain(value: Any) -> Any:
    tensor = need_torch().Tensor
    if isinstance(value, tensor | need_torch().nn.Parameter) or value is None:
        return value is not None  # only a bias is asked for
    return tuple(value) if isinstance(value, Sequence) else value


def build_layers(layers: Any) -> Module:
    """Make the network that `describe_layers` described; its weights are still to be set.

    >>> build_layers([["Linear", ["in_features", 2], ["out_features", 3]], ["ReLU"]])
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """
    nn = need_torch().nn
    made = []
    for name, *pairs in layers:
        if name not in _ARGUMENTS or any(key not in _ARGUMENTS[name] for key, _ in pairs):
            raise InvalidArgument("Expected layers that tacit can build; some are unknown.")
        made.append(getattr(nn, name)(**{key: _tuples(value) for key, value in pairs}))
    network: Module = nn.Sequential(*made)
    return network


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def perceptron(widths: Sequence[int], activation: str) -> Layers:
    """Describe linear layers of these widths with an activation between them.

    >>> [layer[0] for layer in perceptron((4, 3, 2), "tanh")]
    ['Linear', 'Tanh', 'Linear']
    """
    names = {"tanh": "Tanh", "relu": "ReLU", "softplus": "Softplus"}
    layers: list[tuple[Any, ...]] = []
    for before, after in pairwise(widths):
        layers.append(("Linear", ("in_features", before), ("out_features", after), ("bias", True)))
        layers.append((names[activation],))
    return tuple(layers[:-1])
