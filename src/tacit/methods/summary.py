"""Base of the estimators of one-shot summaries: validate, price, release, learn.

Private records are read a few times, each time through one `NoisySum`; labelling public inputs is
then free. What defines a record's contribution (features, prototypes, bins, centres) comes from
public inputs or earlier releases.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit._warn import warn
from tacit.errors import ShiftWarning
from tacit.ledger import Ledger
from tacit.mechanisms import Contributions, NoisySum, Plan, Release
from tacit.methods.base import AnyRecords, PrivateClassifier, Task
from tacit.methods.forecast import Forecast, ForecastEstimator, declared, strength_forecast
from tacit.methods.settings import Features, Positive, Student
from tacit.records import PrivateRecords, PublicSpace, Say
from tacit.summaries import Shift, one_hot

COUNT_SHARE = 0.05
"""Share of mu^2 for counts, on which later releases are centred."""
_ROUNDING = 1 + 2.0**-40
"""More noise, so that shares rounded to floats do not add up to more than a ledger has."""


class PublicPart(NamedTuple):
    """What a fit makes of public inputs alone, and the plans that it pays for.

    Parameters
    ----------
    space : PublicSpace
        The public feature space of private rows.
    view : array of shape (public rows, features)
        Public inputs in that space.
    plans : list of Plan
        One for each release of the fit, in this order.
    basis : any
        What else defines a record's contribution, such as landmarks of a kernel.
    look : callable
        Maps private rows in the space, each by itself.
    typical : any
        The same map of public inputs that define nothing: for comparison.
    """

    space: PublicSpace
    view: Floats
    plans: list[Plan]
    basis: Any = None
    look: Callable[[Floats], NDArray[Any]] = np.asarray
    typical: Any = None


@dataclass(eq=False, repr=False)
class SummaryEstimator(ForecastEstimator):
    """Base of one-shot estimators; a subclass defines the contributions and the student."""

    student: Student = None
    _: KW_ONLY
    features: Features = None
    radius: Positive | None = None
    _streams: ClassVar[bool] = True
    shift_: Shift | None = field(init=False)

    @abstractmethod
    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        """Check all settings and build what is public; nothing private is seen."""

    @abstractmethod
    def _release_and_learn(
        self, public: PublicPart, private: AnyRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        """Release through the ledger and learn; return the fitted attributes.

        From the first release on nothing private may be refused: that would reveal one record.
        """

    def _forecast(self, public: PublicPart) -> Forecast:
        """Predict what can be learned, from public numbers alone."""
        return strength_forecast(declared(self), self._mu())

    def _learn(self, private: AnyRecords, task: Task, outside: Any) -> None:
        """Release the records' contributions, once a round, then train the student.

        The ledger is asked before features of private rows are computed.
        """
        self._new_student()
        public = self._prepare(outside, task.n_classes or 1)
        self._judge(self._forecast(public))
        ledger = self._open_ledger(by_person=private.by_person)
        self._refuse_early(ledger, [*public.plans, *self._check_plans()])
        seen = private.seen_in(public.space, public.look)
        learned = {"shift_": None} | self._release_and_learn(public, seen, ledger, outside)
        self.__dict__.update(learned | task.public, ledger_=ledger)
        self._finish(private, outside)
        if self.shift_ is not None and self.shift_.is_told:
            # Last: whoever turns warnings into errors has a student all the same.
            warn(str(self.shift_), ShiftWarning)

    def _finish(self, private: AnyRecords, outside: NDArray[Any]) -> None:
        """Do what follows the student; `private` has raw rows."""

    def _notes(self) -> list[str]:
        said = "The releases of this method tell nothing of whether public inputs resemble the "
        said = f"{said}private records." if self.shift_ is None else str(self.shift_)
        return [*super()._notes(), said]

    def _plans(self, *sums: tuple[float, int, int]) -> list[Plan]:
        """Return a plan for each (share of mu^2, rows, columns), which together spend epsilon."""
        noise = self._gaussian_noise() / math.sqrt(self._main_share())
        return [
            Plan(NoisySum(noise / math.sqrt(share) * _ROUNDING, rows, columns), 1)
            for share, rows, columns in sums
        ]

    def _release(
        self, ledger: Ledger, plan: Plan, private: AnyRecords, say: Say, purpose: str
    ) -> Release:
        """Release the sum of `say(some)`, contributions of some records and public things alone."""
        return self._released(ledger, plan, lambda: private.said(plan.mechanism, say), purpose)

    def _taught(self, solution: Any, say: Callable[[Any], Any], outside: NDArray[Any]) -> Any:
        """Return the solution, or the given student, trained on its labels of all public inputs."""
        if self.student is None:
            return solution
        return self._new_student().fit(outside, np.arange(len(outside)), say(outside))


class SummaryClassifier(PrivateClassifier, SummaryEstimator):
    """Fit and statement; a subclass defines the records' contributions and the student.

    Parameters
    ----------
    epsilon, delta, ledger, allow_overlap, noise, random_state, classes, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, label set, checks.

    Notes
    -----
    A subclass is a dataclass, and so has also `student`, `features`, `radius` and `n_records` as
    arguments. What makes it private is in two places: `_prepare` may use public inputs alone, and
    a contribution in `_release_and_learn` must be computed from that record alone, have norm at
    most 1, and go through `_release` (`docs/theory/speak-once.md#the-bound`; CONTRIBUTING.md has a
    whole one).
    """

    def _finish(self, private: AnyRecords, outside: NDArray[Any]) -> None:
        self._check_scores(private, self.ledger_, outside)

    def _count(self, ledger: Ledger, plan: Plan, private: AnyRecords) -> Release:
        """Release how many records, or people, each class has."""
        columns: int = plan.mechanism.columns  # type: ignore[attr-defined]

        def say(some: PrivateRecords) -> Contributions:
            return said_by(some, ones_of, one_hot(some.targets, columns))

        return self._release(ledger, plan, private, say, "count the classes")


def said_by(
    private: PrivateRecords,
    left: Callable[[Integers], Floats],
    right: Callable[[Integers], Floats],
) -> Contributions:
    """Return the records' contributions, a product each, of which a person has the mean. Secret."""
    return Contributions(len(private.targets), left, right, private.people, mean=True)


def ones_of(rows: Integers) -> Floats:
    """Return a 1 for each of some records: the other factor is then summed as it is."""
    return np.ones((len(rows), 1))


def believed_counts(release: Release) -> tuple[float, Floats]:
    """Return the total of noisy class counts, at least 1, and the classes' shares, none of them 0.

    Counts are at least their noise: an empty class is not known to be empty.
    """
    counts = np.maximum(np.asarray(release.values)[0], release.mechanism.sigma)  # type: ignore[attr-defined]
    total = max(float(np.asarray(release.values).sum()), 1.0)
    return total, np.asarray(counts / counts.sum())


def measured(release: Release, bound: float) -> tuple[Floats, float]:
    """Return a release in the units of the moment, and the variance of its noise there."""
    mechanism: Any = release.mechanism
    return np.asarray(release.values) * bound, (bound * float(mechanism.sigma)) ** 2
