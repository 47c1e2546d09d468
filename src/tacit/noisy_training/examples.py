"""Private examples of a training run, and what some of them add to a step. Secret.

A unit is one record, or a person with all records. An engine (`Parts`) turns units into the sum of
their clipped gradients; every engine computes a unit's part from that unit and the public
parameters alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit.errors import InvalidArgument, MissingExtra
from tacit.mechanisms.noisy_steps import MOST_UNITS

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter

Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""From outputs and targets of some rows to one loss for each row, from that row alone."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PrivateExamples:
    """Inputs and targets, row by row, and whose each row is (None: each is its own). Secret.

    >>> PrivateExamples(np.zeros((3, 2)), np.zeros(3), np.array(["a", "b", "a"])).n_units
    2
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]
    owners: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        # Of records, too, for `ROOM` of `noisy_steps` presumes it of the rounding of sums.
        if len(self.inputs) > MOST_UNITS:
            raise InvalidArgument("Expected at most 2**24 records in a training run.")
        if len(self.inputs) != len(self.targets):
            raise InvalidArgument("Expected as many targets as inputs.")
        if self.owners is not None and len(self.owners) != len(self.inputs):
            raise InvalidArgument("Expected an owner for each input.")

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""
        return len(self.inputs) if self.owners is None else int(np.unique(self.owners).size)

    def rows_by_unit(self) -> list[Integers]:
        """Return the rows of each unit."""
        if self.owners is None:
            return [np.array([row]) for row in range(len(self.inputs))]
        _, places = np.unique(self.owners, return_inverse=True)
        order = np.argsort(places, kind="stable")
        ends = np.flatnonzero(np.diff(places[order], append=-1)) + 1
        return np.split(order, ends[:-1])

    def batch(self, rows: Integers, size: int, dtype: Any) -> tuple[Tensor, Tensor]:
        """Return some rows as tensors of `size` rows, the last ones 0.

        Batches have one shape, whatever was sampled: library code rounds by shape, and no row's
        bits may depend on how many others there are.
        """
        labels = self.targets.dtype.kind in "iub"
        kind = need_torch().int64 if labels else dtype
        return _padded(self.inputs, rows, size, dtype), _padded(self.targets, rows, size, kind)

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private examples to stay where they are; save the student.")

    def __repr__(self) -> str:
        return "PrivateExamples(secret)"


class Parts(Protocol):
    """An engine: what sampled units add to one step, under the current parameters. Secret."""

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""

    def load(self, parameters: Floats) -> None:
        """Take the parameters of the next step."""

    def sums(self, units: Integers) -> Floats:
        """Return the sum of the parts of some units, each of norm at most 1."""


def need_torch() -> Any:
    """Return torch, or say which extra brings it."""
    try:
        import torch
    except ImportError:
        raise MissingExtra(
            "Expected the package torch to train a network; install tacit[torch]."
        ) from None
    return torch


def trained_parameters(module: Module) -> list[Parameter]:
    """Return the parameters that are trained, in the module's own order."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def layer_sizes(module: Module) -> list[int]:
    """Return how many numbers each layer trains: a layer is the module that owns them.

    >>> import torch
    >>> layer_sizes(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)))
    [15, 8]
    """
    sizes: dict[str, int] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            owner = name.rpartition(".")[0]
            sizes[owner] = sizes.get(owner, 0) + parameter.numel()
    if not sizes:
        raise InvalidArgument("Expected a module with parameters to train; it has none.")
    return list(sizes.values())


def flat_parameters(module: Module) -> Floats:
    """Return the trained parameters as one float64 vector."""
    parts = [
        parameter.detach().double().numpy().ravel() for parameter in trained_parameters(module)
    ]
    return np.concatenate(parts)


def set_parameters(parameters: Sequence[Parameter], values: Floats) -> None:
    """Put a flat vector into parameters, in their own dtype."""
    torch, start = need_torch(), 0
    if values.size != sum(parameter.numel() for parameter in parameters):
        raise InvalidArgument("Expected as many numbers as there are parameters.")
    with torch.no_grad():
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.copy_(torch.from_numpy(values[start:stop]).view(parameter.shape))
            start = stop


def _padded(array: NDArray[Any], rows: Integers, size: int, dtype: Any) -> Tensor:
    block: Tensor = need_torch().zeros((size, *array.shape[1:]), dtype=dtype)
    block[: rows.size] = need_torch().from_numpy(np.ascontiguousarray(array[rows]))
    return block
