"""Small networks and private examples for the engines of DP-SGD."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tacit.noisy_training.clipped_sums import (
    HOOK_ROWS,
    Blocks,
    HookParts,
    UnitParts,
)
from tacit.noisy_training.examples import PrivateExamples, layer_sizes
from tacit.noisy_training.examples import cross_entropy as losses
from tacit.noisy_training.stack_sums import StackParts

WIDTH, CLASSES = 7, 3
ENGINES = {"ghost": StackParts, "hooks": HookParts, "single": UnitParts}
CLIPPINGS = ("flat", "per-layer")


def need(engine: str) -> None:
    """Skip where Opacus is missing."""
    import pytest

    if engine == "hooks":
        pytest.importorskip("opacus", reason="needs tacit[baseline]")


def stack(seed: int = 0) -> nn.Sequential:
    """A chain of linear layers, one of them without a bias."""
    torch.manual_seed(seed)
    layers = [nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, 5, bias=False), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(5, CLASSES)).double()


def convolution(seed: int = 0) -> nn.Sequential:
    """A small convolutional network of rows of 16 numbers, with group normalisation."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    ).double()


def examples(count: int, width: int = WIDTH, seed: int = 0) -> PrivateExamples:
    """Random rows with labels; public ones, too, to try an engine out."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count, width)).astype(np.float32)
    return PrivateExamples(rows, generator.integers(CLASSES, size=count))


class Separate(HookParts):
    """An engine that keeps rows apart on every processor: it says a row's own numbers, rounded."""

    def _gradients(self, units: Any) -> list[torch.Tensor]:
        inputs, _ = self._examples.batch(units, HOOK_ROWS, torch.float64)
        wide = inputs.mul(8).round()
        return [wide[:, np.arange(own.numel()) % wide.shape[1]] for own in self._parameters]


def blocks_for(module: nn.Module, clipping: str, clip: float = 0.5, split: str = "minimal") -> Any:
    return Blocks.cut(layer_sizes(module), clip=clip, clipping=clipping, split=split)


def parts_of(engine: str, module: nn.Module, data: PrivateExamples, clipping: str, **how: Any):
    return ENGINES[engine](module, data, losses, blocks_for(module, clipping, **how))


def plain_part(module: nn.Module, data: PrivateExamples, row: int, blocks: Blocks) -> np.ndarray:
    """One record's part by the formula, in NumPy: w_j g_j / max(clip, |g_j|)."""
    scores = module(torch.from_numpy(data.inputs[[row]]).double())
    loss = nn.functional.cross_entropy(scores, torch.from_numpy(data.targets[[row]]))
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    flat = np.concatenate([gradient.numpy().ravel() for gradient in gradients])
    pieces = np.split(flat, np.cumsum(blocks.sizes)[:-1])
    return np.concatenate(
        [
            share * piece / max(blocks.clip, np.linalg.norm(piece))
            for share, piece in zip(blocks.shares, pieces, strict=True)
        ]
    )
