"""Words for the exact samplers, chosen by a test."""

from __future__ import annotations

import os

import numpy as np


class Tape:
    """A source of chosen words, followed by random ones; it counts what was read."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)
        self.read = 0

    def __call__(self, count: int) -> np.ndarray:
        self.read += count
        taken, self.words = self.words[:count], self.words[count:]
        extra = np.frombuffer(os.urandom(8 * (count - len(taken))), dtype=np.uint64)
        return np.concatenate([np.array(taken, dtype=np.uint64), extra])
