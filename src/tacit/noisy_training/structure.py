"""Which modules are known, by what they are made of, to treat every row by itself.

Rows may share a batch only where no row can reach another. Trials cannot show that: a module may
couple rows beyond a size that no trial has tried. So the structure decides: a module whose every
piece is one of torch's own layers in the list below, of exactly that type and with nothing hung on
it, maps row to row by what the layers are defined to be. Anything else, however harmless, is
computed one unit at a time (docs/sharp-edges.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tacit.noisy_training.examples import need_torch

if TYPE_CHECKING:
    from torch.nn import Module

# fmt: off
_ELEMENTWISE = (
    "CELU", "ELU", "GELU", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "LeakyReLU",
    "LogSigmoid", "Mish", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink",
)
# fmt: on
_BY_ROW = ("Linear", "PReLU", "GroupNorm", "LayerNorm", "RMSNorm", "Sequential")
_IN_SPACE = [
    f"{kind}{sides}d"
    for kind in ("Conv", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool")
    for sides in (1, 2, 3)
]
"""Without a batch dimension pools still see row by row, and convolutions fit one size of batch."""
_NORMS = ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _beside_rows(dim: Any) -> bool:
    """Tell whether a dimension is not that of rows; all known layers keep two or more."""
    return isinstance(dim, int) and (dim >= 1 or dim == -1)


_CONDITIONS: dict[str, Callable[[Any], bool]] = {
    "Flatten": lambda layer: isinstance(layer.start_dim, int) and layer.start_dim >= 1,
    "Unflatten": lambda layer: isinstance(layer.dim, int) and layer.dim >= 1,
    **dict.fromkeys(("Softmax", "LogSoftmax", "GLU"), lambda layer: _beside_rows(layer.dim)),
    **dict.fromkeys(_NORMS, lambda layer: not layer.track_running_stats),
    **dict.fromkeys((*_ELEMENTWISE, *_BY_ROW, *_IN_SPACE), lambda layer: True),
}


def foreign_layer(module: Module) -> str | None:
    """Return the kind of the first piece that is not known to treat rows by themselves, or None.

    A layer whose shape is tied to one size of batch is for `refuse_coupled`, which tries another.

    >>> from torch import nn
    >>> foreign_layer(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.ReLU()))
    >>> foreign_layer(nn.Sequential(nn.Linear(2, 3), nn.Flatten(0)))
    'Flatten'
    >>> foreign_layer(nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 4)))
    'LSTM'
    """
    for layer in module.modules():
        if not _is_known(layer):
            return type(layer).__name__
    return None


def _is_known(layer: Module) -> bool:
    name = type(layer).__name__
    if name not in _CONDITIONS or type(layer) is not getattr(need_torch().nn, name, None):
        return False
    return _is_bare(layer) and _CONDITIONS[name](layer)


def _is_bare(layer: Module) -> bool:
    """Tell whether a layer is torch's own still: no hooks, methods of its own, or odd parameters.

    Where an instance has an attribute that can be called, it may stand for a method: `forward`,
    `_conv_forward`, or what `compile` leaves.
    """
    torch = need_torch()
    own = vars(layer)
    return (
        not any(own.get(kind) for kind in _HOOKS)
        and not any(callable(value) for value in own.values())
        and not any(True for _ in layer.buffers(recurse=False))
        and all(type(each) is torch.nn.Parameter for each in layer.parameters(recurse=False))
    )
