"""Losses of single rows: for autograd, and as slopes whose bits are each row's own.

A loss is a function from outputs and targets of some rows to one number a row. With a `slope`, the
loss by the outputs in exact arithmetic (`exact_rows`), it can be trained by ghost norms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats
from tacit.noisy_training.exact_rows import exp_of_negative

if TYPE_CHECKING:
    from torch import Tensor


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
    """Return softmax(scores) - one_hot(labels), class by class.

    >>> softmax_slope(np.array([[0.0, 0.0], [900.0, 0.0]]), np.array([0, 1])).tolist()
    [[-0.5, 0.5], [1.0, -1.0]]
    """
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
