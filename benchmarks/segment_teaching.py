"""Students and teachers of the real run: a student of masks with the public volume, and an ear.

A mean of soft masks, of atlases that disagree or after a blur, is small where it is cut at 1/2.
How large an organ is on average is public, since masks for the codec are: the releases are cut
where their mean volume is that. Post-processing, free of any cost.
"""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from benchmarks.segmentation_data import Array
from tacit.students.masks import organ_dice
from tacit.students.segmentation import UNetStudent
from tacit.teachers.segmentation import MaskShard

LEVELS = np.arange(0.2, 0.651, 0.01)


def public_level(soft: Array, volume: float) -> float:
    """Return the level at which soft masks (n, *spatial) have this many voxels on average."""
    volumes = np.array([(soft > level).sum() / len(soft) for level in LEVELS])
    return float(LEVELS[np.abs(volumes - volume).argmin()])


class VolumeStudent(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`UNetStudent`s of releases cut at the public volume; they answer by their mean.

    volume: voxels of the organ, the mean of public masks. members: how many networks, of seeds
    0, 1, ...; steps: of each.
    """

    def __init__(self, volume: float = 1.0, *, members: int = 1, steps: int = 300) -> None:
        self.volume, self.members, self.steps = volume, members, steps

    def fit(self, images: ArrayLike, targets: ArrayLike) -> Self:
        """Learn from public scans and soft masks (n, 2, *spatial)."""
        soft = np.asarray(targets)[:, 1]
        self.level_ = public_level(soft, self.volume)
        masks = (soft > self.level_).astype(np.uint8)
        self.networks_ = [
            UNetStudent(random_state=seed, steps=self.steps).fit(images, masks)
            for seed in range(self.members)
        ]
        return self

    def predict_proba(self, images: ArrayLike) -> Array:
        """Return the networks' mean probabilities (n, 2, *spatial)."""
        return np.asarray(np.mean([one.predict_proba(images) for one in self.networks_], axis=0))

    def predict(self, images: ArrayLike) -> Array:
        """Return masks (n, *spatial)."""
        return np.asarray(self.predict_proba(images).argmax(axis=1), dtype=np.uint8)


class Overheard:
    """A teacher whose answers are added up as it speaks, to say how good they were.

    Their mean is SECRET wherever the data are: here all of it is an open data set. `folder` keeps
    every answer, so that a run that was stopped goes on.
    """

    def __init__(self, teacher: Any, folder: Path | None = None) -> None:
        self.teacher, self.folder = teacher, folder
        self.total, self.count = np.zeros(1), 0

    def segment_queries(self, shard: MaskShard, queries: Array, *, n_classes: int) -> Array:
        """Answer as the teacher does, for two classes."""
        organ = self._kept(shard, queries)
        self.total, self.count = self.total + organ, self.count + 1
        return np.stack([1 - organ, organ], axis=1)

    def _kept(self, shard: MaskShard, queries: Array) -> Array:
        if self.folder is None:
            return self._said(shard, queries)
        told = (repr(self.teacher), shard.seed, shard.images, shard.masks, queries)
        path = (
            self.folder / f"{hashlib.blake2b(pickle.dumps(told), digest_size=16).hexdigest()}.npy"
        )
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            np.save(path, self._said(shard, queries))
        return np.asarray(np.load(path))

    def _said(self, shard: MaskShard, queries: Array) -> Array:
        return np.asarray(self.teacher.segment_queries(shard, queries, n_classes=2)[:, 1])

    @property
    def mean(self) -> Array:
        """The mean mask of each query over all teachers that spoke."""
        return np.asarray(self.total / self.count)


def score(predicted: Array, truth: Array) -> float:
    """Return the mean Dice of masks."""
    return float(organ_dice(np.asarray(predicted, dtype=np.uint8), truth).mean())
