"""One task of teachers of masks: answer the queries from one shard, as a pure function.

What `tasks` is for classes, this is for masks: the same executors run it, so that a worker that
dies costs nothing but time. A teacher's answers follow from its own shard and public things alone
(docs/theory.md#words): no grid, scale or statistic is shared. Everything here is SECRET.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidArgument
from tacit.teachers.fingerprints import fingerprint, shard_fingerprint
from tacit.teachers.tasks import Answer, Shard, attempt
from tacit.teachers.threads import on_one_thread

Encode = Callable[[NDArray[Any]], ArrayLike]


@dataclass(frozen=True, slots=True)
class MaskShard:
    """A teacher's scans (n, [channels,] *spatial), masks (n, *spatial) and seed. Secret."""

    images: NDArray[Any] = field(repr=False)
    masks: NDArray[Any] = field(repr=False)
    seed: int


@runtime_checkable
class MaskTeacher(Protocol):
    """Teachers of masks of one kind; the answers follow from the shard and public things alone."""

    def segment_queries(
        self, shard: MaskShard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return soft masks (queries, n_classes, *spatial); the shard has at least one scan."""


@dataclass(frozen=True, slots=True)
class MaskJob:
    """What all tasks share: the teachers' config, the public queries, the public encoding."""

    family: MaskTeacher
    queries: NDArray[Any] = field(repr=False)
    n_classes: int
    encode: Encode | None = None

    def answer(self, shards: Sequence[MaskShard]) -> list[Answer]:
        """Let each shard's teacher answer every query, on one thread: the same bits anywhere."""
        return [on_one_thread(partial(self._one, shard)) for shard in shards]

    def _one(self, shard: MaskShard) -> Answer:
        """Answer, or report what went wrong by its type alone: its text may quote a scan."""
        said, failure = attempt(lambda: self._said(shard))
        return Answer(said, failure)

    def _said(self, shard: MaskShard) -> NDArray[np.float32]:
        soft = np.asarray(
            self.family.segment_queries(shard, self.queries, n_classes=self.n_classes)
        )
        if soft.shape != (len(self.queries), self.n_classes, *shard.masks.shape[1:]):
            raise InvalidArgument("Expected soft masks (queries, n_classes, *spatial).")
        return np.asarray(soft if self.encode is None else self.encode(soft), dtype=np.float32)

    def fingerprint(self) -> bytes:
        """Hash what all teachers share."""
        return fingerprint(self.family, self.encode, self.n_classes, self.queries)


def mask_shard_fingerprint(job_hash: bytes, shard: MaskShard) -> str:
    """Hash all that one teacher's answers follow from, in hexadecimal."""
    return shard_fingerprint(job_hash, Shard(shard.images, shard.masks, shard.seed))
