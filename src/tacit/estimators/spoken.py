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
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, positive
from tacit.estimators.inputs import (
    class_indices,
    count_units,
    private_rows,
    public_matrix,
    units_of,
)
from tacit.estimators.records import PublicSpace
from tacit.estimators.taught import TaughtClassifier, TaughtEstimator
from tacit.ledger import Ledger
from tacit.mechanisms import Contributions, NoisySum, Plan, Release
from tacit.summaries import one_hot

COUNT_SHARE = 0.05
"""Share of mu^2 for the class counts, on which later releases are centred."""


@dataclass(frozen=True, slots=True, repr=False)
class PrivateSpeakers:
    """The private rows of a fit, their class indices or numbers, and whose they are. Secret.

    `rows` are inputs, or what is seen of them in a public space.
    """

    rows: NDArray[Any]
    labels: NDArray[Any]
    people: NDArray[Any] | None

    @property
    def by_person(self) -> bool:
        """Whether the unit is a person."""
        return self.people is not None

    def shares(self) -> Floats:
        """Return one over the number of records of each record's own person."""
        if self.people is None:
            return np.ones(len(self.labels))
        _, owner, count = np.unique(self.people, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / count[owner])

    def seen_in(
        self, space: PublicSpace, look: Callable[[Floats], NDArray[Any]]
    ) -> PrivateSpeakers:
        """Return them with what `look` sees of each row in the space; who has no place is silent.

        Who says nothing is not counted, either.
        """
        seen, placed = space.seen(self.rows, look)
        people = None if self.people is None else self.people[placed]
        return PrivateSpeakers(seen, self.labels[placed], people)

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private records to stay where they are; save the student.")

    def __repr__(self) -> str:
        return "PrivateSpeakers(secret)"


@dataclass(eq=False, repr=False)
class Speaking(TaughtEstimator):
    """What all estimators share whose records speak once; a subclass says what and who learns."""

    student: Any = None
    _: KW_ONLY
    features: Any = None
    radius: float | None = None

    @abstractmethod
    def _prepare(self, outside: NDArray[Any], columns: int, budget: tuple[float, float]) -> Any:
        """Check all settings and build what is public; nothing private is seen."""

    @abstractmethod
    def _see(self, public: Any, private: PrivateSpeakers) -> PrivateSpeakers:
        """Look at the private rows in the public space, before anything is paid."""

    @abstractmethod
    def _speak(
        self, public: Any, private: PrivateSpeakers, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        """Release through the ledger and learn; return the fitted attributes.

        From the first release on nothing private may be refused: that would tell of one record.
        """

    def _budget(self) -> tuple[float, float]:
        """Return epsilon, which sets the noise, and the delta at which it is counted."""
        delta = self.delta
        if isinstance(self.ledger, Ledger):
            delta = self.ledger.budget.delta - self.ledger.reserved_delta
        return positive(epsilon=self.epsilon), delta

    def _listen(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        columns: int,
        X_public: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> None:
        """Check everything, ask the ledger, and only then let the private records speak."""
        people = units_of(groups, len(rows))
        outside = public_matrix(X_public, rows.shape[1])
        self._keep_apart(rows, outside)
        self._check_delta(count_units(people, len(rows)))
        self._new_student()
        budget = self._budget()
        public = self._prepare(outside, columns, budget)
        ledger = self._open_ledger(by_person=people is not None)
        self._refuse_early(ledger, [NoisySum.for_budget(*budget, rows=1, columns=1)])
        private = self._see(public, PrivateSpeakers(rows, targets, people))
        self.__dict__.update(self._speak(public, private, ledger, outside))
        self.ledger_ = ledger

    def _release(self, ledger: Ledger, plan: Plan, said: Contributions, purpose: str) -> Release:
        paid = self._paid(ledger, plan, purpose)
        with paid as grant, np.errstate(all="ignore"):  # a warning would tell of a record
            return grant.release(said)


class SpokenOnce(TaughtClassifier, Speaking):
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
        self._listen(rows, targets, int(known.size), X_public, groups)
        self.classes_ = known
        return self

    def _count(self, ledger: Ledger, plan: Plan, private: PrivateSpeakers) -> Release:
        """Release how many records, or people, each class has."""
        classes = one_hot(private.labels, plan.mechanism.columns)  # type: ignore[attr-defined]
        shares = private.shares()[:, None]
        said = Contributions(
            len(private.labels), lambda rows: shares[rows], classes, private.people
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
