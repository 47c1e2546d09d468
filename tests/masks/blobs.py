"""Ellipsoids of random place and size, as masks."""

from __future__ import annotations

import numpy as np


def blobs(count: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Masks (count, *shape) of zeros and ones."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(-1, 1, side) for side in shape), indexing="ij")
    masks = np.empty((count, *shape))
    for mask in masks:
        centre = rng.normal(scale=0.15, size=len(shape))
        half = rng.uniform(0.35, 0.7, size=len(shape))
        distance = sum(((axis - c) / h) ** 2 for axis, c, h in zip(axes, centre, half, strict=True))
        mask[:] = distance <= 1
    return masks
