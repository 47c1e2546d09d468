"""What the estimators whose private records speak once share: validate, price, release, learn.

Private records are read once or a few times, each time through one `NoisySum`; then any number of
public inputs is labelled for free. Everything that shapes what a record says (features, prototypes,
bins, centres) comes from public inputs or from earlier releases. After `fit` such an object holds a
student, releases and a ledger, and nothing private.
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
    """What a fit rests on, made of public inputs alone, and the plans that it pays for.

    Parameters
    ----------
    space : PublicSpace
        The public feature space in which private rows are looked at.
    view : array of shape (public rows, features)
        Public inputs as the records are seen.
    plans : list of Plan
        One for each release of the fit, in this order.
    basis : any
        What else shapes what a record says, such as landmarks of a kernel.
    look : callable
        What is seen of private rows in the space, of each alone.
    typical : any
        What the same looks like of public inputs that shape nothing: to compare with.
    """

    space: PublicSpace
    view: Floats
    plans: list[Plan]
    basis: Any = None
    look: Callable[[Floats], NDArray[Any]] = np.asarray
    typical: Any = None


@dataclass(eq=False, repr=False)
class SummaryEstimator(ForecastEstimator):
    """What all estimators share whose records speak once; a subclass says what and who learns."""

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

        From the first release on nothing private may be refused: that would tell of one record.
        """

    def _forecast(self, public: PublicPart) -> Forecast:
        """Say what can be learned, from public numbers alone."""
        return strength_forecast(declared(self), self._mu())

    def _learn(self, private: AnyRecords, task: Task, outside: Any) -> None:
        """Let each private record speak once (a round) over public inputs, then train the student.

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
        """Do what comes behind the student; `private` has raw rows."""

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
        """Release what records say; `say` makes that of some records and public things alone."""
        return self._released(ledger, plan, lambda: private.said(plan.mechanism, say), purpose)

    def _taught(self, solution: Any, say: Callable[[Any], Any], outside: NDArray[Any]) -> Any:
        """Return the solution, or the given student, taught what it says of all public inputs."""
        if self.student is None:
            return solution
        return self._new_student().fit(outside, np.arange(len(outside)), say(outside))


class SummaryClassifier(PrivateClassifier, SummaryEstimator):
    """Fit and statement; a subclass says what records contribute and what a student makes of it.

    Parameters
    ----------
    epsilon : float
        Epsilon of the worst-case budget. It sets the noise, also where a `Ledger` is given: all
        releases of a fit cost at most this together. In run.toml: `[privacy]`.
    delta : float
        Delta of that budget, below one over the number of records or people; a given `Ledger`
        counts with its own instead. In run.toml: `[privacy]`.
    ledger : Ledger, NewLedger or path, optional
        Who pays. A `Ledger` is charged as it is; at a path, or by a `NewLedger`, one is made for
        epsilon and delta; None makes it in a temporary directory. A run has its own, `run.ledger`.
    allow_overlap : bool
        True: do not look for private rows that equal public ones; the ledger then says, for ever,
        that nobody looked. False: such a row is refused. In run.toml: `[data]`.
    noise : InsecureNoise, optional
        Seeded noise for tests and research, without any privacy; the statement says so. None:
        secure noise, the only one of a run.
    random_state : int, optional
        Seeds the choice of public inputs, never noise. In run.toml: `seed`, at the top.
    classes : array or str
        The public label set; required. "from_data" reads it off the private labels, which no cost
        covers: the statement then says so. A run takes the classes that its data declare.
    checks : Checks, optional
        `Checks(calibration=0.05)` lets the records tell once how sure the student may be;
        `allow_hopeless=True` goes on where public numbers say that nothing can be learned. Each of
        its parts is a key of its own in run.toml.

    Attributes
    ----------
    student_ : student
        The model to publish: it saw public inputs and releases only.
    classes_ : array of shape (classes,)
        The label set, in order: the columns of `predict_proba`.
    score_check_ : Release or None
        The noisy table of outcomes by score; None without `calibration`.
    ledger_ : Ledger
        Who paid.
    statement_ : Statement
        What may be said of all that this ledger has released so far.
    n_features_in_ : int
        How many columns X had; `feature_names_in_` are their names, where it had any.

    Notes
    -----
    A subclass is a dataclass, and so has also `student`, `features`, `radius`, `n_records` and
    `checks` as arguments. What makes it private is in two places: `_prepare` may look at
    public inputs alone, and what `_release_and_learn` lets a record say must be computed from that
    record alone, have norm at most 1, and go through `_release`.

    References
    ----------
    `docs/theory/speak-once.md#the-bound`; CONTRIBUTING.md has a whole subclass
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
    """Return what the records say, a product each, of which a person says the mean. Secret."""
    return Contributions(len(private.targets), left, right, private.people, mean=True)


def ones_of(rows: Integers) -> Floats:
    """Return a 1 for each of some records: what is beside it is added up as it is."""
    return np.ones((len(rows), 1))


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
