"""Checkpoints of a release that is made in steps: weights, optimiser state, position.

What is stored was computed from noisy sums alone, each of which is a release in the accountant's
sense: it is public, whatever comes of the run (docs/theory/ledger.md#steps-that-were-begun).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import write_atomically
from tacit.errors import InvalidArgument
from tacit.mechanisms import ResumableSteps


@dataclass(frozen=True, slots=True)
class StepCheckpoint:
    """State of a run of steps: the entry that paid, steps behind it (skipped ones too), `state`."""

    entry: str
    position: int
    state: Mapping[str, Any]

    @property
    def learned(self) -> int:
        """Number of noisy sums that it was learned from."""
        return int(self.state["learned"]) if self.state else 0

    @classmethod
    def read(cls, path: Path) -> StepCheckpoint | None:
        """Read one; None where there is no file, and an error where it is damaged."""
        if not path.exists():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                about = json.loads(str(arrays["about"]))
                state = {name: arrays[name] for name in arrays.files if name != "about"}
                int(state["learned"])
                return cls(str(about["entry"]), int(about["position"]), state)
        except Exception:  # whatever a damaged file provokes: it is damaged
            raise _damaged(path) from None


def _damaged(path: Path) -> InvalidArgument:
    return InvalidArgument(
        f"Expected {str(path)!r} to be a checkpoint of training; it is damaged, or another file. "
        "Restore it from a copy, or remove it: --again then pays for the whole training once more."
    )


def storing(
    path: Path, training: ResumableSteps, entry: Callable[[], str]
) -> Callable[[int], None]:
    """Return a function that stores a run's state, durably and atomically."""

    def store(position: int) -> None:
        about = {"entry": entry(), "position": position}
        buffer = io.BytesIO()
        np.savez(buffer, about=np.array(json.dumps(about)), **training.state())
        write_atomically(path, buffer.getvalue())

    return store


def take_up(
    training: ResumableSteps, checkpoint: StepCheckpoint | None, position: int, path: Path
) -> None:
    """Resume a run from its stored state, behind all steps that were begun."""
    try:
        training.go_on({} if checkpoint is None else checkpoint.state, position)
    except (KeyError, TypeError, ValueError):  # another shape than this network has
        raise _damaged(path) from None


def is_old(checkpoint: StepCheckpoint | None, entry: str, notes: Sequence[int]) -> bool:
    """Whether a checkpoint lies before the last note but one, so that it was rolled back."""
    before_last = notes[-2] if len(notes) > 1 else 0
    if checkpoint is None:
        return before_last > 0
    return checkpoint.entry != entry or checkpoint.position < before_last
