"""What the estimators whose private records speak once share: validate, price, release, learn.

Private records are read once or a few times, each time through one `NoisySum`; then any number of
public inputs is labelled for free. Everything that shapes what a record says (features, prototypes,
bins, centres) comes from public inputs or from earlier releases. After `fit` such an object holds a
student, releases and a ledger, and nothing private.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers
from tacit.ledger import Ledger
from tacit.mechanisms import STEP, Contributions, NoisySum, Plan, Release, unit_steps
from tacit.methods.base import PrivateClassifier, PrivateEstimator
from tacit.methods.settings import Positive
from tacit.methods.words import Features, Student
from tacit.records import (
    PrivateRecords,
    class_indices,
    count_units,
    private_rows,
    units_of,
)
from tacit.summaries import exact_scores, one_hot

COUNT_SHARE = 0.05
"""Share of mu^2 for the class counts, on which later releases are centred."""


@dataclass(eq=False, repr=False)
class SummaryEstimator(PrivateEstimator):
    """What all estimators share whose records speak once; a subclass says what and who learns."""

    student: Student = None
    _: KW_ONLY
    features: Features = None
    radius: Positive | None = None

    @abstractmethod
    def _prepare(self, outside: NDArray[Any], columns: int, budget: tuple[float, float]) -> Any:
        """Check all settings and build what is public; nothing private is seen."""

    @abstractmethod
    def _look_at(self, public: Any, private: PrivateRecords) -> PrivateRecords:
        """Look at the private rows in the public space, before anything is paid."""

    @abstractmethod
    def _release_and_learn(
        self, public: Any, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        """Release through the ledger and learn; return the fitted attributes.

        From the first release on nothing private may be refused: that would tell of one record.
        """

    def _fit_rows(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        columns: int,
        X_public: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> None:
        """Check everything, ask the ledger, and only then let the private records speak."""
        people = units_of(groups, len(rows))
        outside = self._public_matrix(X_public, rows.shape[1])
        self._keep_apart(rows, outside)
        self._check_delta(count_units(people, len(rows)))
        self._new_student()
        budget = self._budget().epsilon, self._budget().delta
        public = self._prepare(outside, columns, budget)
        ledger = self._open_ledger(by_person=people is not None)
        self._refuse_early(ledger, [NoisySum.for_budget(*budget, rows=1, columns=1)])
        private = self._look_at(public, PrivateRecords(rows, targets, people))
        self.__dict__.update(self._release_and_learn(public, private, ledger, outside))
        self.ledger_ = ledger

    def _release(self, ledger: Ledger, plan: Plan, said: Contributions, purpose: str) -> Release:
        paid = self._paid(ledger, plan, purpose)
        with paid as grant, np.errstate(all="ignore"):  # a warning would tell of a record
            return grant.release(said)


class SummaryClassifier(PrivateClassifier, SummaryEstimator):
    """Fit and statement; a subclass says what records contribute and what a student makes of it."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Let each private record speak once over public inputs, then train the student.

        Everything is validated, and the ledger asked, before features of private rows are computed.
        `groups` says whose each row is: then one person is one unit, with all records.
        """
        rows, labels = private_rows(self, X, y)
        known, targets = class_indices(labels, self.classes)
        self._fit_rows(rows, targets, int(known.size), X_public, groups)
        self.classes_ = known
        return self

    def _count(self, ledger: Ledger, plan: Plan, private: PrivateRecords) -> Release:
        """Release how many records, or people, each class has."""
        classes = one_hot(private.targets, plan.mechanism.columns)  # type: ignore[attr-defined]
        shares = private.shares()[:, None]
        said = Contributions(
            len(private.targets), lambda rows: shares[rows], classes, private.people
        )
        return self._release(ledger, plan, said, "count the classes")


def believed_counts(release: Release) -> tuple[float, Floats]:
    """Return the total of noisy class counts, at least 1, and the classes' shares, none of them 0.

    Counts below their noise are put to it: an empty class is not known to be empty.
    """
    counts = np.maximum(np.asarray(release.values)[0], release.mechanism.sigma)  # type: ignore[attr-defined]
    total = max(float(np.asarray(release.values).sum()), 1.0)
    return total, np.asarray(counts / counts.sum())


def measured(release: Release, bound: float) -> tuple[Floats, float]:
    """Return a release in the units of the moment, and the variance of its noise there."""
    mechanism: Any = release.mechanism
    return np.asarray(release.values) * bound, (bound * float(mechanism.sigma)) ** 2


def residuals_of(
    private: PrivateRecords,
    targets: Callable[[Integers], Floats],
    weights: Floats,
    clip: float,
) -> Contributions:
    """Return phi(x) and (target - phi(x) weights)/clip, each shortened to norm 1. Secret.

    The records' rows are phi, in whole steps, and so are the weights, so that products are exact:
    no record's residual depends on which others are computed beside it.
    """
    own = private.shares()[:, None]

    def left(rows: Integers) -> Floats:
        return np.asarray(private.rows[rows] * STEP)

    def right(rows: Integers) -> Floats:
        residual = (targets(rows) - exact_scores(private.rows[rows], weights)) / clip
        # Shortened before a person's records are averaged; exactly, row by row.
        return np.asarray(unit_steps(residual, residual.shape) * STEP * own[rows])

    return Contributions(len(private.targets), left, right, private.people)
