"""Teachers of masks for the tests of executors and checkpoints: light, noting, killing.

Workers import this module by its name, so that a teacher is the same thing in every process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from teacher_families import die_once

from tacit.teachers import Shard


@dataclass(frozen=True)
class NotingMasks:
    """Answers that change with all they may follow from; one line in `log` for each teacher."""

    log: str

    def segment_queries(self, shard: Shard, queries: Any, *, n_classes: int) -> Any:
        with open(self.log, "a") as file:
            file.write(f"{shard.seed}\n")
        level = shard.X.mean() + shard.y.mean() + shard.seed % 1009
        organ = 0.5 + 0.5 * np.sin(level + queries.astype(np.float64))
        return np.stack([1 - organ, organ], axis=1)

    def answered(self) -> int:
        path = Path(self.log)
        return len(path.read_text().split()) if path.exists() else 0


@dataclass(frozen=True)
class KillingMasksOnce(NotingMasks):
    """The first process that answers for the shard of `seed` is killed half-way."""

    seed: int
    marker: str

    def segment_queries(self, shard: Shard, queries: Any, *, n_classes: int) -> Any:
        if shard.seed == self.seed:
            die_once(self.marker)
        return super().segment_queries(shard, queries, n_classes=n_classes)


@dataclass(frozen=True)
class RowSums:
    """A public encoding of soft masks."""

    weight: float = 1.0

    def __call__(self, soft: Any) -> Any:
        return self.weight * soft[:, 1].sum(axis=2)


def mask_table() -> dict[str, Any]:
    """Nine scans of six teachers, one of whom has none."""
    rng = np.random.default_rng(0)
    return {
        "images": rng.normal(size=(9, 6, 5)).astype(np.float32),
        "masks": rng.integers(0, 2, size=(9, 6, 5)),
        "shards": np.array([0, 0, 1, 2, 2, 2, 3, 5, 5]),
        "n_teachers": 6,
        "queries": rng.normal(size=(4, 6, 5)).astype(np.float32),
        "n_classes": 2,
    }
