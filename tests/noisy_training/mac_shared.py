"""Small networks and data for the tests of DP-MAC."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tacit.noisy_training.auxiliary_coordinates import (
    AuxiliaryCoordinates,
    LayerParts,
    second_order_blocks,
)
from tacit.noisy_training.clipped_sums import Blocks
from tacit.noisy_training.exact_rows import ExactLayer
from tacit.noisy_training.examples import PrivateExamples


def network(widths: tuple[int, ...] = (5, 7, 4, 5), **settings: Any) -> AuxiliaryCoordinates:
    return AuxiliaryCoordinates(widths, **{"steps": 8, **settings})


def parameters(widths: tuple[int, ...], seed: int = 0, scale: float = 1.0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    parts = []
    for before, after in pairwise(widths):
        parts += [draw.normal(size=after * before) / before**0.5, draw.normal(size=after) * 0.1]
    return np.concatenate(parts) * scale


def weights(net: AuxiliaryCoordinates, seed: int = 0) -> list[ExactLayer]:
    return net.layers(parameters(net.widths, seed))


def examples(net: AuxiliaryCoordinates, count: int, seed: int = 1, owners: Any = None) -> Any:
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(count, net.widths[0]))
    if net.loss == "binary":
        return PrivateExamples(rows, draw.integers(net.widths[-1], size=count), owners)
    return PrivateExamples(rows, draw.normal(size=(count, net.widths[-1])), owners)


def parts_of(
    net: AuxiliaryCoordinates,
    given: PrivateExamples,
    *,
    bounds: Any = None,
    split: str = "equal",
    order: int = 1,
    kind: type[LayerParts] = LayerParts,
    seed: int = 0,
) -> LayerParts:
    layers = len(net.sizes)
    if order == 2:
        blocks, curved = second_order_blocks(net.widths, split), (0.5,) * layers
    else:
        blocks = Blocks.cut(net.sizes, clip=1.0, clipping="per-layer", split=split)
        curved = ()
    made = kind(net, given, blocks, bounds or (0.1,) * layers, curved)
    made.load(parameters(net.widths, seed))
    return made
