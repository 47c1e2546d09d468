"""Teachers that are one patient each: a labelled scan, registered to each query, its mask warped.

Nothing is trained, so that a single private scan can teach: with K patients there are K teachers,
where hospitals of many patients each would be far too few for a useful release
(docs/results/segmentation.md). Each answer is a pure function of the scan, its mask, the config and
the queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument
from tacit.masks.registration import Demons, need_torch, warp
from tacit.masks.teachers import MaskShard
from tacit.masks.unet import channelled
from tacit.teachers.torch_teacher import _one_thread

_VOXELS = 2**19  # of queries that are registered at a time: what fits into a cache


@dataclass(frozen=True, slots=True)
class AtlasTeacher:
    """Register a private scan to each query and let its mask follow: soft masks, no training.

    The scan and the queries are on one public grid, with intensities normalised
    (`Volumes.normalised().resampled(shape)`). A mask is warped class by class with linear
    interpolation, so that its border is soft. Several scans in a shard answer by their mean.

    demons: the registration's numbers.

    >>> from tacit.masks.phantoms import generated_volumes
    >>> images, masks = generated_volumes(3, (16, 20), noise=0.02).normalised().arrays()
    >>> answer = AtlasTeacher().segment_queries(
    ...     MaskShard(images[:1], masks[:1], seed=0), images[1:], n_classes=2)
    >>> answer.shape, bool((abs(answer.sum(axis=1) - 1) < 1e-5).all())
    ((2, 2, 16, 20), True)
    """

    demons: Demons = field(default_factory=Demons)

    def __post_init__(self) -> None:
        need_torch()

    def segment_queries(
        self, shard: MaskShard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return soft masks (queries, n_classes, *spatial)."""
        dimensions = shard.masks.ndim - 1
        if not len(shard.masks):
            raise InvalidArgument("Expected at least one scan in a shard.")
        scans, asked = channelled(shard.images, dimensions), channelled(queries, dimensions)
        total = np.zeros((len(asked), n_classes, *asked.shape[2:]), dtype=np.float32)
        with _one_thread(seed=0):  # there is nothing random here
            for scan, mask in zip(scans, shard.masks, strict=True):
                total += self._answers(scan, mask, asked, n_classes)
        return total / np.float32(len(scans))

    def _answers(
        self, scan: NDArray[Any], mask: NDArray[Any], asked: NDArray[Any], n_classes: int
    ) -> NDArray[Any]:
        torch = need_torch()
        moving = torch.from_numpy(np.ascontiguousarray(scan)[None])
        classes = np.arange(n_classes).reshape(-1, *[1] * mask.ndim)
        onehot = torch.from_numpy((mask == classes).astype(np.float32)[None])
        step = max(1, _VOXELS // math.prod(mask.shape))
        parts = []
        with torch.inference_mode():
            for start in range(0, len(asked), step):
                fixed = torch.from_numpy(np.ascontiguousarray(asked[start : start + step]))
                found = self.demons.field(fixed, moving)
                parts.append(warp(onehot.expand(len(fixed), *onehot.shape[1:]), found).numpy())
        return np.concatenate(parts)
