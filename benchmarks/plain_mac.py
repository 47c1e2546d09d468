"""The method of auxiliary coordinates without privacy: what a step of DP-MAC is compared with.

The same objective, coordinates and optimiser as `tacit.noisy_training.auxiliary_coordinates`, by
plain products of PyTorch, in float32 or float64: nothing is rounded, clipped or noised. Written
apart from the library, so that it is also an independent oracle for its gradients.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor


class PlainMac:
    """A network, its coordinates and Adam; `step` takes one step on all rows."""

    def __init__(
        self,
        widths: tuple[int, ...],
        rows: Any,
        targets: Any,
        *,
        dtype: str = "float64",
        z_steps: int = 30,
        z_rate: float = 1e-3,
        rate: float = 1e-3,
    ) -> None:
        torch.manual_seed(0)
        self.kind = getattr(torch, dtype)
        self.binary = bool(np.isin(targets, (0, 1)).all())
        self.rows = torch.from_numpy(np.asarray(rows)).to(self.kind)
        self.targets = torch.from_numpy(np.asarray(targets)).to(self.kind)
        self.weights = [
            torch.randn(after, before + 1, dtype=self.kind) / before**0.5
            for before, after in pairwise(widths)
        ]
        self.z_steps, self.z_rate = z_steps, z_rate
        self.optimiser = torch.optim.Adam([w.requires_grad_(False) for w in self.weights], lr=rate)

    def step(self) -> None:
        """Find coordinates, then take one step of Adam on the mean gradient of each layer."""
        for weight, gradient in zip(self.weights, self.gradients(), strict=True):
            weight.grad = gradient / len(self.rows)
        self.optimiser.step()

    def gradients(self) -> list[Tensor]:
        """Return the sum over rows of each layer's gradient, the bias in the last column."""
        inputs = [self.rows, *self.coordinates()]
        deltas = self._deltas(inputs)[0]
        return [
            torch.hstack([delta.T @ a, delta.sum(dim=0)[:, None]])
            for delta, a in zip(deltas, inputs, strict=True)
        ]

    def coordinates(self) -> list[Tensor]:
        """Start at the forward pass and take steps of elementwise Adam."""
        z, flow = [], self.rows
        for layer in range(len(self.weights) - 1):
            flow = self._outputs(layer, flow).clamp_min(0)
            z.append(flow.clone())
        means, squares = [[torch.zeros_like(one) for one in z] for _ in range(2)]
        for count in range(1, self.z_steps + 1):
            deltas, gaps = self._deltas([self.rows, *z])
            for k in range(len(z)):
                pull = gaps[k] + deltas[k + 1] @ self.weights[k + 1][:, :-1]
                means[k] += 0.1 * (pull - means[k])
                squares[k] += 0.001 * (pull * pull - squares[k])
                spread = (squares[k] / (1 - 0.999**count)).sqrt() + 1e-8
                z[k] -= self.z_rate / (1 - 0.9**count) * means[k] / spread
        return z

    def _outputs(self, layer: int, inputs: Tensor) -> Tensor:
        return inputs @ self.weights[layer][:, :-1].T + self.weights[layer][:, -1]

    def _deltas(self, inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        deltas, gaps = [], []
        for layer, a in enumerate(inputs):
            outputs = self._outputs(layer, a)
            if layer < len(inputs) - 1:
                gaps.append(inputs[layer + 1] - outputs.clamp_min(0))
                deltas.append(-gaps[-1] * (outputs > 0))
            elif self.binary:
                deltas.append((outputs.sigmoid() - self.targets) / 2)
            else:
                deltas.append(outputs - self.targets)
        return deltas, gaps
