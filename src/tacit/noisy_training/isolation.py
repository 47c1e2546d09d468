"""Whether a module processes each example independently: checked before anything private is read.

Batch normalisation, random layers and layers with state are refused, after trials on public random
rows in different batches; trials prove nothing. So structure decides what may share a batch:
torch's own layers in the list below, of exactly that type and unmodified. Anything else is computed
one unit at a time (docs/sharp-edges.md).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._checks import Floats, Integers
from tacit._quiet import quiet
from tacit.errors import InvalidArgument
from tacit.noisy_training.examples import PrivateExamples, flat_parameters, need_torch

if TYPE_CHECKING:
    from torch import Tensor
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
"""Without a batch dimension pools still work row by row, and convolutions fit one batch size."""
_NORMS = ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _beside_rows(dim: Any) -> bool:
    """Return whether a dimension is not that of rows; all known layers have two or more."""
    return isinstance(dim, int) and (dim >= 1 or dim == -1)


_CONDITIONS: dict[str, Callable[[Any], bool]] = {
    "Flatten": lambda layer: isinstance(layer.start_dim, int) and layer.start_dim >= 1,
    "Unflatten": lambda layer: isinstance(layer.dim, int) and layer.dim >= 1,
    **dict.fromkeys(("Softmax", "LogSoftmax", "GLU"), lambda layer: _beside_rows(layer.dim)),
    **dict.fromkeys(_NORMS, lambda layer: not layer.track_running_stats),
    **dict.fromkeys((*_ELEMENTWISE, *_BY_ROW, *_IN_SPACE), lambda layer: True),
}


def foreign_layer(module: Module) -> str | None:
    """Return the kind of the first piece not known to treat rows independently, or None.

    >>> from torch import nn
    >>> foreign_layer(nn.Sequential(nn.Linear(2, 3), nn.Flatten(0)))
    'Flatten'
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
    """Return whether a layer is torch's own still: no hooks, methods of its own, or odd parameters.

    A callable attribute may replace a method: `forward`, `_conv_forward`, or what `compile` leaves.
    """
    torch = need_torch()
    own = vars(layer)
    return (
        not any(own.get(kind) for kind in _HOOKS)
        and not any(callable(value) for value in own.values())
        and not any(True for _ in layer.buffers(recurse=False))
        and all(type(each) is torch.nn.Parameter for each in layer.parameters(recurse=False))
    )


STRANGE = (1e3, 1e8, 1e38, np.inf, np.nan)
"""How large the strange rows of a trial are: a shared statistic would show them."""


def refuse_coupled(module: Any, examples: Callable[[int], PrivateExamples]) -> None:
    """Raise unless the module treats rows independently; `examples(n)` makes n public ones."""
    torch = need_torch()
    if not isinstance(module, torch.nn.Module):
        raise InvalidArgument(f"Expected module= a torch.nn.Module, got {type(module).__name__}.")
    _refuse_layers(module)
    with torch.random.fork_rng(devices=[]):  # a random module disturbs nobody's numbers
        _try_out(copy.deepcopy(module).double().train(), examples(6))


def _try_out(trial: Module, made: PrivateExamples) -> None:
    torch = need_torch()
    before = {name: value.clone() for name, value in trial.state_dict().items()}
    rows, _ = made.batch(np.arange(6), 6, torch.float64)
    first, second = _outputs(trial, rows), _outputs(trial, rows)
    if not torch.equal(first, second):
        raise _refusal("gives other outputs to the same rows: it is random, or remembers")
    others = [0, 1, 3, 4, 5]
    for size in STRANGE:
        strange = rows.clone()
        strange[2] = size * torch.sign(strange[2])
        company = _called(trial, strange)
        # A row that makes a module fail says nothing in a run, and nothing here.
        if isinstance(company, torch.Tensor) and not torch.equal(company[others], first[others]):
            raise _refusal("lets one row change what another one gets")
    if not torch.equal(_outputs(trial, rows), first):
        raise _refusal("remembers a row that it has seen")
    if any(not torch.equal(before[name], value) for name, value in trial.state_dict().items()):
        raise _refusal("changes its own buffers when it is called")


def _outputs(module: Module, rows: Tensor) -> Tensor:
    torch = need_torch()
    outputs = _called(module, rows)
    if isinstance(outputs, Exception):
        raise InvalidArgument(_failure(outputs))
    if not isinstance(outputs, torch.Tensor) or outputs.ndim < 2 or len(outputs) != len(rows):
        raise InvalidArgument("Expected a module that gives each row its own outputs, in order.")
    result: Tensor = outputs
    return result


def _called(module: Module, rows: Tensor) -> Any:
    """Return a module's outputs of public rows, or its error."""
    try:
        with quiet(), need_torch().no_grad():
            return module(rows)
    except Exception as error:
        return error


def _failure(error: Exception) -> str:
    return f"Expected a module for rows like those of X; it fails with {type(error).__name__}."


def _refuse_layers(module: Module) -> None:
    nn = need_torch().nn
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise _refusal(f"has batch normalisation ({name}); use GroupNorm or LayerNorm")
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
            raise _refusal(f"has dropout ({name}); its mask would be shared by rows; remove it")
        if getattr(layer, "track_running_stats", False):
            raise _refusal(f"has a layer with running statistics ({name})")


def _refusal(problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"Expected a module that treats every row by itself; this one {problem}."
    )


def failure_of(
    engine: Callable[[PrivateExamples], Any],
    module: Module,
    examples: Callable[[int], PrivateExamples],
    rows: int,
) -> str | None:
    """Return the error of an engine on public random rows, or None.

    In a run a row that fails contributes 0; a module that fails on all would train on nothing.
    """
    parts = engine(examples(rows))
    parts.load(_shaken(module))
    try:
        with quiet():
            parts.attempt(np.arange(rows))
    except Exception as error:
        return _failure(error)
    return None


def keeps_apart(
    engine: Callable[[PrivateExamples], Any],
    module: Module,
    examples: Callable[[int], PrivateExamples],
    rows: int,
    *,
    batches: int = 1,
) -> bool:
    """Return whether a row's part has the same bits at any position and in any batch.

    Tried on public random rows, strange ones among them, on this machine: `batches` of `rows`.
    """
    known = batches * rows
    made = examples(known + len(STRANGE))
    for place, size in enumerate(STRANGE, start=known):
        made.inputs[place] = np.sign(made.inputs[place]) * size
    parts = engine(made)
    parts.load(_shaken(module))
    batched = np.arange(known).reshape(batches, rows)
    reference = np.concatenate([_flat(parts.each(units))[:rows] for units in batched])
    return all(
        np.array_equal(own[: units.size][tame], reference[units[tame]])
        for units in _companies(rows, batches)
        for own, tame in [(_flat(parts.each(units)), units < known)]
    )


def _companies(rows: int, batches: int) -> Iterator[Integers]:
    """Yield units for trials: in another order, few, alone, each after a strange row, rotated.

    A kernel may round the last rows of a batch otherwise, and few rows of a narrow layer show it.
    """
    first = np.arange(rows)
    order = np.random.default_rng(1).permutation(rows)
    yield from (order, order[: max(1, rows // 3)])
    yield from first[:, None]
    for strange in range(batches * rows, batches * rows + len(STRANGE)):
        pairs = np.column_stack([np.full(rows, strange), order]).reshape(-1)
        yield from (pairs[:rows], pairs[rows:])
    for batch in range(batches):
        yield batch * rows + np.roll(first, 1 + batch % max(1, rows - 1))


def _shaken(module: Module) -> Floats:
    """Return the module's parameters, moved a little: initial ones may be 0."""
    parameters = flat_parameters(module)
    return parameters + np.random.default_rng(0).normal(scale=0.05, size=parameters.size)


def _flat(parts: list[Tensor]) -> Floats:
    """Return each row's part, one line a row."""
    return np.concatenate([part.reshape(len(part), -1).numpy() for part in parts], axis=1)
