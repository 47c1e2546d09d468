"""What the releases of a fit tell of its student afterwards: whether it learned anything.

Public inputs and releases alone: nothing is charged for it, and nothing private is looked at. The
student stays what it is: where nothing was foretold, the label with most votes was 4 to 14 points
worse on few digits (`python -m benchmarks.nothing_learned`), as folds see less than the whole.
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
        """Compare what was released, a row for each query, with what a student foretold of it.

        The student must know of nothing else: labels of a later round may be those of a student
        that had seen the very row.
        """
        self.signal_ = None
        if hasattr(student, "foretold_"):  # only the default student keeps folds
            self.signal_ = signal_of(told, student.foretold_)

    def _hear_votes(self, student: Any, releases: Sequence[Release], voters: int) -> None:
        shares = [shares_told(one, voters, self.classes_.size) for one in releases]
        self._hear(student, np.concatenate(shares))

    def _warn_of_signal(self) -> None:
        """Warn last: whoever turns warnings into errors has a student all the same."""
        if self.signal_ is not None and self.signal_.is_weak:
            warn(str(self.signal_), WeakSignal)

    def _notes(self) -> list[str]:
        signal = getattr(self, "signal_", None)
        return [*super()._notes(), *([] if signal is None else [str(signal)])]


def shares_told(release: Release, voters: int, n_classes: int) -> Floats:
    """Return released votes over the voters; of a label 1 at it, of an unanswered query nothing.

    Parameters
    ----------
    release : Release
        Noisy votes, or labels; public.
    voters : int
        How many vote on a query.
    n_classes : int
        How many classes there are.

    Returns
    -------
    array of shape (queries, classes)
        Public.
    """
    if release.values is not None:
        return np.asarray(release.values, dtype=np.float64) / voters
    labels = np.asarray(release.labels)
    return np.asarray((labels[:, None] == np.arange(n_classes)).astype(np.float64))
