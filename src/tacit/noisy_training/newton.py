"""Second-order DP-MAC: weights from a noisy quadratic model of each layer.

A step releases, for each layer, the gradient g and the Gauss-Newton curvatures H_h of its outputs,
2M blocks in all. The rest is post-processing: H is symmetric by construction, its eigenvalues are
raised above a multiple of its own noise, and (H_h + ridge) dw_h = -g_h is solved with a cap on the
length of a step. Memory and noise grow with outputs times inputs squared: for narrow layers only.
Derived in docs/theory/direct.md#coordinates-of-dp-mac.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tacit._checks import Floats, at_least, one_of, positive
from tacit.errors import InvalidArgument
from tacit.noisy_training.blocks import Blocks
from tacit.noisy_training.layer_parts import upper_triangle
from tacit.noisy_training.training import GradientSteps

MOST_NUMBERS = 2**22
"""Released in one step, at the most: beyond, curvature is noise and nothing else."""


@dataclass(frozen=True, slots=True)
class NoisyNewton:
    """How weights follow from noisy gradients and curvatures: public settings.

    thresholds, curvatures: T_k of gradients and of curvatures, in the units of the objective.
    noise_multiplier: of the run. lot: the public divisor of sums.
    rate: of the solved step; ridge: eigenvalues are raised to ridge + damping noise levels.
    cap: the longest step of the weights into one output.
    """

    widths: tuple[int, ...]
    blocks: Blocks
    thresholds: tuple[float, ...]
    curvatures: tuple[float, ...]
    noise_multiplier: float
    lot: float
    rate: float = 1.0
    ridge: float = 1e-3
    damping: float = 2.0
    cap: float = 0.1

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "lot", "rate", "ridge", "damping", "cap"):
            positive(**{name: getattr(self, name)})

    def step(self, parameters: Floats, noisy_sums: Floats) -> None:
        """Move the parameters, in place, to a lower point of the noisy model."""
        pieces = np.split(noisy_sums, np.cumsum(self.blocks.sizes)[:-1])
        layers, start = len(self.widths) - 1, 0
        for k, (before, after) in enumerate(pairwise(self.widths)):
            size = (before + 1) * after
            own = parameters[start : start + size]
            slope = self._gradient(pieces[k], k, before, after)
            move = self._solved(slope, self._curvature(pieces[layers + k], k, before, after), k)
            own[: before * after] += self.rate * move[:, :-1].reshape(-1)
            own[before * after :] += self.rate * move[:, -1]
            start += size

    def _gradient(self, piece: Floats, layer: int, before: int, after: int) -> Floats:
        """Return the mean gradient (outputs, inputs and bias) in the objective's units."""
        scale = self.thresholds[layer] / (self.blocks.shares[layer] * self.lot)
        matrix = piece[: before * after].reshape(after, before)
        return np.hstack([matrix, piece[before * after :, None]]) * scale

    def _curvature(self, piece: Floats, layer: int, before: int, after: int) -> Floats:
        """Return the mean curvatures (outputs, inputs and bias, inputs and bias), symmetric."""
        rows, columns, scales = upper_triangle(before + 1)
        made = np.zeros((after, before + 1, before + 1))
        made[:, rows, columns] = piece.reshape(after, -1) / scales * self._scale(layer)
        made[:, columns, rows] = made[:, rows, columns]
        return made

    def _scale(self, layer: int) -> float:
        """Return the unit of a layer's curvature sums."""
        share = self.blocks.shares[len(self.widths) - 1 + layer]
        return self.curvatures[layer] / (share * self.lot)

    def _solved(self, slope: Floats, curvature: Floats, layer: int) -> Floats:
        """Return -(H + ridge)^-1 g with eigenvalues above the noise, no longer than the cap."""
        noise = self.noise_multiplier * self._scale(layer) * np.sqrt(slope.shape[1])
        values, vectors = np.linalg.eigh(curvature)
        values = np.maximum(values, 0.0) + self.ridge + self.damping * noise
        turned = np.einsum("hij,hi->hj", vectors, slope) / values
        move = -np.einsum("hij,hj->hi", vectors, turned)
        lengths = np.linalg.norm(move, axis=1, keepdims=True)
        return np.asarray(move * np.minimum(1.0, self.cap / np.maximum(lengths, 1e-300)))


class NewtonSteps(GradientSteps):
    """A run of second-order steps for `NoisySteps`. Secret until it is over."""

    def __init__(self, newton: NoisyNewton, *run: Any) -> None:
        super().__init__(*run)
        self._newton = newton

    def learn(self, noisy_sums: Floats) -> None:
        """Take one step from the noisy sums alone."""
        self._newton.step(self._parameters, noisy_sums)
        self._private.load(self._parameters)
        self._tick()


def second_order_blocks(widths: Sequence[int], split: str) -> Blocks:
    """Return the blocks of a second-order step: gradients of all layers, then curvatures.

    >>> second_order_blocks([2, 1], "equal").sizes
    (3, 6)
    """
    one_of("equal", "minimal", split=split)
    gradients = [(at_least(1, width=before) + 1) * after for before, after in pairwise(widths)]
    curvatures = [after * (before + 1) * (before + 2) // 2 for before, after in pairwise(widths)]
    if sum(curvatures) > MOST_NUMBERS:
        raise InvalidArgument(
            f"Expected order=1 for layers of widths {tuple(widths)}: their second derivatives have "
            f"{sum(curvatures):,} numbers, which noise would drown."
        )
    return Blocks.cut([*gradients, *curvatures], clip=1.0, clipping="per-layer", split=split)
