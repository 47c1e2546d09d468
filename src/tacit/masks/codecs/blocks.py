"""Principal components of blocks, for volumes too large for a basis of their own.

A volume of 240 x 240 x 155 voxels is 1,000 blocks of 24 x 24 x 16. All blocks of a volume make one
code, which the mechanism clips as a whole: one volume is one query. A bound per block or per slice
counted once per volume would be the papers' largest mistake: epsilon 1 would really be 71.
Why: docs/theory/high-dimensional.md#the-bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least
from tacit.errors import InvalidArgument
from tacit.masks.codecs.base import PUBLIC, public_masks, shape_of
from tacit.masks.codecs.linear import COVERAGE, LinearCodec, radius_of
from tacit.masks.codecs.pca import principal

_MOST_BLOCKS = 2000
"""So many blocks, those that vary most, decide the basis; the spectrum uses all of them."""
_FEW = 500


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class BlockPCACodec(LinearCodec):
    """One orthonormal basis for all blocks of (answer - public mean volume); one code a volume.

    The code holds `n_components` numbers for each block, and the spectrum knows every one of them,
    so that blocks which are always empty cost nothing after `ellipsoid`. Volumes are padded with
    zeros to whole blocks; the padding is cut off again.

    >>> masks = np.zeros((3, 5, 4)); masks[0, :2] = 1; masks[1, 3:, 1:] = 1
    >>> codec = BlockPCACodec.fit(masks, block_shape=(2, 2), n_components=4)
    >>> codec.n_blocks, codec.length, bool(np.allclose(codec.decode(codec.encode(masks)), masks))
    (6, 24, True)
    """

    components: Floats
    block_shape: tuple[int, ...]

    @classmethod
    def fit(
        cls,
        masks: ArrayLike,
        *,
        block_shape: Sequence[int],
        n_components: int,
        coverage: float = COVERAGE,
    ) -> BlockPCACodec:
        """Fit public masks (n, ...), whose blocks share one basis, one mask at a time."""
        array = np.asarray(masks)
        block = shape_of(block_shape)
        if len(block) != array.ndim - 1 or not len(array):
            raise InvalidArgument(
                f"Expected masks (n, ...) with as many sides as block_shape={block}, got shape "
                f"{array.shape}."
            )
        mean = np.zeros(array.shape[1:])
        for mask in array:
            mean += public_masks(mask[None])[0] / len(array)
        basis = _basis(array, mean, block, at_least(1, n_components=n_components))
        examples = np.stack([(to_blocks(mask - mean, block) @ basis.T).ravel() for mask in array])
        return cls(
            mean=mean,
            components=basis,
            block_shape=block,
            spectrum=np.square(examples).mean(axis=0),
            weights=np.ones(examples.shape[1]),
            radius=radius_of(examples, coverage),
            examples=examples,
            coverage=coverage,
            provenance="public",
            statement=PUBLIC,
        )

    @property
    def n_blocks(self) -> int:
        """How many blocks a volume has."""
        return math.prod(blocks_per_side(self.shape, self.block_shape))

    def _project(self, offsets: Floats) -> Floats:
        codes = np.empty((len(offsets), self.length))
        for place, volume in enumerate(offsets):
            codes[place] = (to_blocks(volume, self.block_shape) @ self.components.T).ravel()
        return codes

    def _expand(self, codes: Floats) -> Floats:
        volumes = np.empty((len(codes), *self.shape))
        for place, code in enumerate(codes):
            blocks = code.reshape(self.n_blocks, -1) @ self.components
            volumes[place] = from_blocks(blocks, self.shape, self.block_shape)
        return volumes


def _basis(masks: NDArray[Any], mean: Floats, block: tuple[int, ...], n_components: int) -> Floats:
    """Return components of the blocks that differ most from the mean, at most `_MOST_BLOCKS`."""
    best, energy = np.empty((0, math.prod(block))), np.empty(0)
    for mask in masks:
        blocks = to_blocks(mask - mean, block)
        best = np.concatenate([best, blocks])
        energy = np.concatenate([energy, np.square(blocks).sum(axis=1)])
        if len(best) > _MOST_BLOCKS:
            chosen = np.sort(np.argsort(-energy, kind="stable")[:_MOST_BLOCKS])
            best, energy = best[chosen], energy[chosen]
    return _leading(best, n_components)


def _leading(rows: Floats, count: int) -> Floats:
    """Return the leading principal components; of long rows through their products, 10x faster."""
    if min(rows.shape) <= _FEW or 2 * count > min(rows.shape):
        return principal(rows, count)[0]
    _, vectors = np.linalg.eigh(rows @ rows.T)
    directions, _ = np.linalg.qr(rows.T @ vectors[:, ::-1][:, :count])
    return np.ascontiguousarray(directions.T)


def blocks_per_side(shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many blocks cover each side.

    >>> blocks_per_side((240, 240, 155), (24, 24, 16))
    (10, 10, 10)
    """
    return tuple(-(-side // part) for side, part in zip(shape, block, strict=True))


def to_blocks(volume: Floats, block: tuple[int, ...]) -> Floats:
    """Cut a volume, padded with zeros, into rows (blocks, voxels of a block).

    >>> to_blocks(np.arange(6.0).reshape(2, 3), (2, 2)).tolist()
    [[0.0, 1.0, 3.0, 4.0], [2.0, 0.0, 5.0, 0.0]]
    """
    counts = blocks_per_side(volume.shape, block)
    padded = np.zeros([count * part for count, part in zip(counts, block, strict=True)])
    padded[tuple(slice(0, side) for side in volume.shape)] = volume
    split = padded.reshape([side for pair in zip(counts, block, strict=True) for side in pair])
    places = range(0, split.ndim, 2)
    order = [*places, *(place + 1 for place in places)]
    return np.asarray(split.transpose(order).reshape(math.prod(counts), math.prod(block)))


def from_blocks(rows: Floats, shape: tuple[int, ...], block: tuple[int, ...]) -> Floats:
    """Put blocks together again and cut off the padding: the inverse of `to_blocks`."""
    counts = blocks_per_side(shape, block)
    ndim = len(shape)
    order = [axis for place in range(ndim) for axis in (place, place + ndim)]
    joined = rows.reshape(*counts, *block).transpose(order)
    whole = joined.reshape([count * part for count, part in zip(counts, block, strict=True)])
    return np.asarray(whole[tuple(slice(0, side) for side in shape)])
