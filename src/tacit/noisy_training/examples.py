"""Private examples of a training run, the losses of single rows, and parameters as one vector.

A unit is one record, or a person with all records. A loss gives one number a row; with a `slope`,
the loss by the outputs in exact arithmetic (`exact_rows`), it can be trained by ghost norms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit._extras import need
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.features import exp_of_negative
from tacit.mechanisms import MOST_UNITS

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter

Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""From outputs and targets of some rows to one loss for each row, from that row alone."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PrivateExamples(Secret):
    """Inputs and targets, row by row, and each row's owner. Secret; neither printed nor pickled.

    Parameters
    ----------
    inputs : array of shape (records, ...), one row a record, at most 2^24 of them
    targets : array of shape (records, ...), class indices, or rows of numbers
    owners : array of shape (records,), optional
        The person of each row, who is then the unit of privacy with all rows; else each row is one.
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
        """Return the rows of each unit. Secret.

        Returns
        -------
        list of arrays of int
        """
        if self.owners is None:
            return [np.array([row]) for row in range(len(self.inputs))]
        _, places = np.unique(self.owners, return_inverse=True)
        order = np.argsort(places, kind="stable")
        ends = np.flatnonzero(np.diff(places[order], append=-1)) + 1
        return np.split(order, ends[:-1])

    def batch(self, rows: Integers, size: int, dtype: Any) -> tuple[Tensor, Tensor]:
        """Return some rows as tensors of `size` rows, the last ones 0. Secret.

        Batches have one shape, whatever was sampled: library code rounds by shape, and no row's
        bits may depend on how many others there are.

        Parameters
        ----------
        rows : array of int, positions of records, at most `size` of them; secret
        size : int, rows of the batch; public
        dtype : torch dtype, of inputs, and of targets that are no class indices

        Returns
        -------
        tuple of two tensors, inputs and targets
        """
        labels = self.targets.dtype.kind in "iub"
        kind = need_torch().int64 if labels else dtype
        return _padded(self.inputs, rows, size, dtype), _padded(self.targets, rows, size, kind)


def trained_parameters(module: Module) -> list[Parameter]:
    """Return the parameters that are trained, in the module's own order."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def layer_sizes(module: Module) -> list[int]:
    """Return how many numbers each layer trains: a layer is the module that owns them."""
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


def need_torch() -> Any:
    """Return torch, or raise with the name of the extra that installs it."""
    return need("torch", "to train a network", extra="torch")


@dataclass(frozen=True, slots=True)
class RowLoss:
    """One loss for each row, and its slope by the row's outputs."""

    of_rows: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Floats, NDArray[np.generic]], Floats]

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the losses of some rows."""
        return self.of_rows(outputs, targets)


def _cross_entropies(scores: Tensor, labels: Tensor) -> Tensor:
    from torch.nn.functional import cross_entropy as entropy

    return entropy(scores, labels, reduction="none")


def softmax_slope(scores: Floats, labels: NDArray[np.generic]) -> Floats:
    """Return softmax(scores) - one_hot(labels), class by class."""
    powers = exp_of_negative(scores - scores.max(axis=1, keepdims=True))
    total = powers[:, 0].copy()
    for column in powers.T[1:]:  # in this order, whatever the company
        total += column
    slope = powers / total[:, None]
    slope[np.arange(len(slope)), labels.astype(np.int64)] -= 1.0
    return slope


def _half_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(dim=1) / 2


def _gaps(outputs: Floats, targets: NDArray[np.generic]) -> Floats:
    return np.asarray(outputs - targets.astype(np.float64))


cross_entropy = RowLoss(_cross_entropies, softmax_slope)
"""Cross-entropy of class scores; targets are class indices."""
half_squares = RowLoss(_half_squares, _gaps)
"""Half the summed squared error; targets are rows of numbers."""
LOSSES = (cross_entropy, half_squares)
"""Losses that are known to give each row its own."""
