"""Families of teachers for the tests: they note that they trained, fail, or kill their process.

Workers import this module by its name, so that a family is the same thing in every process.
"""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.teachers import Shard

CANARY = 48151623.42
"""A value of private records that must turn up nowhere."""


class Planted(Exception):
    """An error whose text quotes a record, as libraries do."""


def digest(shard: Shard, X_query: np.ndarray, n_classes: int) -> np.ndarray:
    """Answers that change with anything that they may follow from."""
    total = float(np.dot(shard.X.sum(axis=1), shard.y + 1.0)) + shard.seed % 1009
    return np.floor(1e3 * (total + X_query.sum(axis=1))).astype(np.int64) % n_classes


def die_once(marker: str) -> None:
    """Kill this process if it is the first that comes here; later ones find the marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Noting:
    """Appends one line to `log` for every teacher that it trains."""

    log: str
    teachers_per_task: int = 1

    def predict_shards(self, shards: Sequence[Shard], X_query: Any, *, n_classes: int) -> Any:
        return np.array([self.train(shard, X_query, n_classes) for shard in shards])

    def train(self, shard: Shard, X_query: Any, n_classes: int) -> Any:
        with open(self.log, "a") as file:
            file.write(f"{shard.seed}\n")
        return digest(shard, X_query, n_classes)

    def trained(self) -> int:
        path = Path(self.log)
        return len(path.read_text().split()) if path.exists() else 0


@dataclass(frozen=True)
class KillingOnce:
    """Wraps a family: the first process that trains the shard of `seed` is killed half-way."""

    inner: Any
    seed: int
    marker: str

    def predict_shards(self, shards: Sequence[Shard], X_query: Any, *, n_classes: int) -> Any:
        if any(shard.seed == self.seed for shard in shards):
            die_once(self.marker)
        return self.inner.predict_shards(shards, X_query, n_classes=n_classes)


@dataclass(frozen=True)
class Packed:
    """A pickled family: a worker loads the libraries that it needs when it first trains."""

    content: bytes

    def predict_shards(self, shards: Sequence[Shard], X_query: Any, *, n_classes: int) -> Any:
        return pickle.loads(self.content).predict_shards(shards, X_query, n_classes=n_classes)


@dataclass(frozen=True)
class KillingAlways:
    """Wraps a family: whoever trains the shard of `seed` is killed."""

    inner: Any
    seed: int
    teachers_per_task: int = 1

    def predict_shards(self, shards: Sequence[Shard], X_query: Any, *, n_classes: int) -> Any:
        if any(shard.seed == self.seed for shard in shards):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.predict_shards(shards, X_query, n_classes=n_classes)


@dataclass(frozen=True)
class Failing(Noting):
    """Fails on every shard that holds the canary, and quotes the record."""

    def train(self, shard: Shard, X_query: Any, n_classes: int) -> Any:
        if (shard.X == CANARY).any():
            raise Planted(f"cannot learn from {shard.X.tolist()}")
        return super().train(shard, X_query, n_classes)


@dataclass(frozen=True)
class Stopping(Noting):
    """Is stopped, as by Ctrl-C, before the `limit`-th teacher."""

    limit: int = 0

    def train(self, shard: Shard, X_query: Any, n_classes: int) -> Any:
        if self.trained() >= self.limit:
            raise KeyboardInterrupt
        return super().train(shard, X_query, n_classes)


@dataclass(frozen=True)
class Complaining:
    """Warns, and quotes the record."""

    def predict_shards(self, shards: Sequence[Shard], X_query: Any, *, n_classes: int) -> Any:
        for shard in shards:
            warnings.warn(f"strange: {shard.X.tolist()}", RuntimeWarning, stacklevel=1)
        return np.array([digest(shard, X_query, n_classes) for shard in shards])


@dataclass(frozen=True)
class Mixed:
    """One of several families for each shard, by its seed."""

    families: tuple[Any, ...]

    def predict_shards(self, shards: Sequence[Shard], X_query: Any, *, n_classes: int) -> Any:
        rows = [
            self.families[shard.seed % len(self.families)].predict_shards(
                [shard], X_query, n_classes=n_classes
            )
            for shard in shards
        ]
        return np.concatenate(rows)


def seed_of(number: int, random_state: int = 0) -> int:
    """The seed of a teacher, as `predict_with_teachers` documents it."""
    return int(np.random.SeedSequence([random_state, number]).generate_state(1)[0])
