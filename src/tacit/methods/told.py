"""Whether the releases of a fit show that its student learned anything.

From public inputs and releases alone, free of charge. The student stays as it is: falling back to
the most frequent label was 4 to 14 points worse on few digits (`python -m
benchmarks.nothing_learned`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._checks import Floats
from tacit._warn import warn
from tacit.errors import WeakSignal
from tacit.mechanisms import Release
from tacit.methods.base import PrivateClassifier
from tacit.students import Signal, signal_of


@dataclass(eq=False, repr=False)
class ToldByVotes(PrivateClassifier):
    """A classifier whose releases are votes, on public inputs or at prototypes."""

    signal_: Signal | None = field(init=False)

    def _hear(self, student: Any, told: Floats) -> None:
        """Compare the released shares, a row for each query, with a student's cross-validated ones.

        The student must have no other source: labels of a later round may be those of a student
        that had seen the very row.
        """
        self.signal_ = None
        if hasattr(student, "foretold_"):  # only the default student keeps folds
            self.signal_ = signal_of(told, student.foretold_)

    def _hear_votes(self, student: Any, releases: Sequence[Release], voters: int) -> None:
        shares = [shares_told(one, voters, self.classes_.size) for one in releases]
        self._hear(student, np.concatenate(shares))

    def _warn_of_signal(self) -> None:
        """Warn last: a user who turns warnings into errors has a student all the same."""
        if self.signal_ is not None and self.signal_.is_weak:
            warn(str(self.signal_), WeakSignal)

    def _notes(self) -> list[str]:
        signal = getattr(self, "signal_", None)
        return [*super()._notes(), *([] if signal is None else [str(signal)])]


def shares_told(release: Release, voters: int, n_classes: int) -> Floats:
    """Return released votes over the voters; a label counts 1, no answer nothing. Public."""
    if release.values is not None:
        return np.asarray(release.values, dtype=np.float64) / voters
    labels = np.asarray(release.labels)
    return np.asarray((labels[:, None] == np.arange(n_classes)).astype(np.float64))
