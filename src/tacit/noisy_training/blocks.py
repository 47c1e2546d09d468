"""Which parameters are clipped together, how far, and how the one unit of norm is shared out.

The gradient of one unit is cut into blocks: one for all (flat clipping), or one a layer. Block j is
shortened to its radius T_j and scaled by w_j / T_j; the squares of the shares w_j add up to 1, so
that the blocks together have norm at most 1 (docs/theory/direct.md#blocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from tacit._checks import Floats, one_of, positive, refuse

if TYPE_CHECKING:
    from torch import Tensor

MARGIN = 1e-6
"""By how much a part stays below norm 1: far more than float64 can be wrong by in a norm."""
_LARGEST = 1e100
CLIPPINGS = ("per-layer", "flat")
SPLITS = ("minimal", "equal")


def radius(clip: float) -> float:
    """Return a radius of clipping, neither so small nor so large that squares leave float64.

    A square that underflows would make a norm 0, and a part of norm 0 may not be scaled by 1/clip.
    """
    if not 1 / _LARGEST <= positive(clip=clip) <= _LARGEST:
        raise refuse("clip", clip, f"between {1 / _LARGEST:g} and {_LARGEST:g}")
    return float(clip)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Consecutive blocks of the flat parameter vector: how many numbers, and each one's share.

    `clip` is the radius of every block.

    >>> blocks = Blocks.cut([300, 100], clip=0.1, clipping="per-layer", split="equal")
    >>> [round(share, 4) for share in blocks.shares]
    [0.7071, 0.7071]
    """

    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    clip: float

    @classmethod
    def cut(cls, layers: Sequence[int], *, clip: float, clipping: str, split: str) -> Self:
        """Cut layers of these sizes into blocks.

        The equal split has w_j^2 = 1/J. The minimal one has w_j^2 = sqrt(d_j) / sum_i sqrt(d_i),
        which gives the noise the least total power, in units of the radii.
        """
        one_of(*CLIPPINGS, clipping=clipping)
        one_of(*SPLITS, split=split)
        sizes = tuple(layers) if clipping == "per-layer" else (sum(layers),)
        roots = np.sqrt(sizes) if split == "minimal" else np.ones(len(sizes))
        shares = np.sqrt(roots / roots.sum())
        return cls(sizes, tuple(float(share) for share in shares), radius(clip))

    @property
    def dimension(self) -> int:
        """How many numbers all blocks have."""
        return sum(self.sizes)

    def row_factors(self, norms: Floats) -> Floats:
        """Return w_j min(1/T, 1/norm), with a margin, of norms (rows, blocks).

        A norm that is not finite has factor 0: such a row says nothing.
        """
        factors = np.multiply(self.shares, 1 - MARGIN) / np.maximum(norms, self.clip)
        return np.where(np.isfinite(norms), factors, 0.0)

    def factors(self, norms: Tensor) -> Tensor:
        """Return the same for tensors."""
        import torch

        return torch.from_numpy(self.row_factors(norms.numpy()))

    def mean_gradient(self, noisy_sums: Floats, lot: float) -> Floats:
        """Return the noisy sum over w_j lot: the mean clipped gradient in units of the radius.

        `lot` is the public, expected size of a sample, never the size of the sample drawn.
        """
        scale = np.repeat(np.divide(1.0, self.shares), self.sizes)
        return np.asarray(noisy_sums * scale / lot)
