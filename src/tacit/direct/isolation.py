"""Ask, before anything private is touched, whether a module keeps examples apart.

A bounded part protects a unit only if it is the unit's own. Layers that look across a batch
(batch normalisation), random layers and layers that remember are refused; and whatever the module
is made of, it is tried out on public random rows: what one row is must not change, by a bit, what
another row gets. An engine that computes rows in batches by a library is asked the same of its
parts, so that rounding that depends on the company of a row is noticed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._checks import Floats
from tacit.direct.examples import PrivateExamples, flat_parameters, need_torch
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_FAR = 1e3
"""How large the strange row of a trial is: a shared statistic would show it."""


def refuse_coupled(module: Any, examples: Callable[[int], PrivateExamples]) -> None:
    """Raise unless the module keeps rows apart; `examples(n)` makes n public random ones."""
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
    if any(not torch.equal(before[name], value) for name, value in trial.state_dict().items()):
        raise _refusal("changes its own buffers when it is called")
    strange = rows.clone()
    strange[2] = _FAR * strange[2] + _FAR
    others = [0, 1, 3, 4, 5]
    if not torch.equal(_outputs(trial, strange)[others], first[others]):
        raise _refusal("lets one row change what another one gets")


def _outputs(module: Module, rows: Tensor) -> Tensor:
    torch = need_torch()
    try:
        with torch.no_grad():
            outputs: Any = module(rows)
    except Exception as error:
        kind = type(error).__name__
        outputs = None
    if outputs is None:
        raise InvalidArgument(f"Expected a module for rows like those of X; it fails with {kind}.")
    if not isinstance(outputs, torch.Tensor) or outputs.ndim < 2 or len(outputs) != len(rows):
        raise InvalidArgument("Expected a module that gives each row its own outputs, in order.")
    result: Tensor = outputs
    return result


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


def keeps_apart(
    engine: Callable[[PrivateExamples], Any],
    module: Module,
    examples: Callable[[int], PrivateExamples],
    rows: int,
) -> bool:
    """Tell whether a row's part has the same bits in any place of a batch and any company.

    Tried on public random rows, with this module, on this machine.
    """
    made = examples(3 * rows)
    made.inputs[2 * rows :] *= _FAR
    parts = engine(made)
    parts.load(_shaken(module))
    order = np.random.default_rng(1).permutation(rows)
    full = np.arange(rows)
    mixed = np.where(np.arange(rows) % 2 == 0, order, 2 * rows + np.arange(rows))
    reference = _flat(parts.each(full))
    for units in (order, mixed, full[: max(1, rows // 3)]):
        own = _flat(parts.each(units))
        known = units < rows
        if not np.array_equal(own[: units.size][known], reference[units[known]]):
            return False
    return True


def _shaken(module: Module) -> Floats:
    """Return the module's parameters, moved a little: initial ones may be 0."""
    parameters = flat_parameters(module)
    return parameters + np.random.default_rng(0).normal(scale=0.05, size=parameters.size)


def _flat(parts: list[Tensor]) -> Floats:
    """Return each row's part, one line a row."""
    return np.concatenate([part.reshape(len(part), -1).numpy() for part in parts], axis=1)
