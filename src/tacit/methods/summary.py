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
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers, at_least, positive
from tacit.errors import InvalidArgument
from tacit.ledger import Ledger
from tacit.mechanisms import STEP, Contributions, NoisySum, Plan, Release, unit_steps
from tacit.methods.base import PrivateClassifier, PrivateRegressor, RowEstimator, Targets
from tacit.methods.settings import Count, Features, Positive, Student
from tacit.records import PrivateRecords, PublicSpace
from tacit.summaries import Descent, ExactNystroem, exact_scores, one_hot

COUNT_SHARE = 0.05
"""Share of mu^2 for counts, on which later releases are centred."""
_LEAST_VARIANCE = 1e-4
"""Of t in [-1, 1]: noise may make the released variance negative."""


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
    """

    space: PublicSpace
    view: Floats
    plans: list[Plan]
    basis: Any = None
    look: Callable[[Floats], NDArray[Any]] = np.asarray


@dataclass(eq=False, repr=False)
class SummaryEstimator(RowEstimator):
    """What all estimators share whose records speak once; a subclass says what and who learns."""

    student: Student = None
    _: KW_ONLY
    features: Features = None
    radius: Positive | None = None

    @abstractmethod
    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        """Check all settings and build what is public; nothing private is seen."""

    @abstractmethod
    def _release_and_learn(
        self, public: PublicPart, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        """Release through the ledger and learn; return the fitted attributes.

        From the first release on nothing private may be refused: that would tell of one record.
        """

    def _learn(self, private: PrivateRecords, task: Targets, outside: Any) -> None:
        """Let each private record speak once (a round) over public inputs, then train the student.

        The ledger is asked before features of private rows are computed.
        """
        self._new_student()
        public = self._prepare(outside, task.n_classes or 1)
        ledger = self._open_ledger(by_person=private.by_person)
        self._refuse_early(ledger, public.plans)
        private = private.seen_in(public.space, public.look)
        learned = self._release_and_learn(public, private, ledger, outside)
        self.__dict__.update(learned | task.public, ledger_=ledger)

    def _plans(self, *sums: tuple[float, int, int]) -> list[Plan]:
        """Return a plan for each (share of mu^2, rows, columns), which together spend epsilon."""
        noise = self._gaussian_noise()
        return [
            Plan(NoisySum(noise / math.sqrt(share), rows, columns), 1)
            for share, rows, columns in sums
        ]

    def _release(self, ledger: Ledger, plan: Plan, said: Contributions, purpose: str) -> Release:
        return self._released(ledger, plan, lambda: said, purpose)

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

    Attributes
    ----------
    student_ : student
        The model to publish: it saw public inputs and releases only.
    classes_ : array of shape (classes,)
        The label set, in order: the columns of `predict_proba`.
    ledger_ : Ledger
        Who paid.
    statement_ : Statement
        What may be said of all that this ledger has released so far.
    n_features_in_ : int
        How many columns X had; `feature_names_in_` are their names, where it had any.

    Notes
    -----
    A subclass is a dataclass, and so has also `student`, `features` and `radius` as arguments. What
    makes it private is in two places: `_prepare` may look at public inputs alone, and what
    `_release_and_learn` lets a record say must be computed from that record alone, have norm at
    most 1, and go through `_release`.

    References
    ----------
    `docs/theory/speak-once.md#the-bound`; CONTRIBUTING.md has a whole subclass
    """

    def _count(self, ledger: Ledger, plan: Plan, private: PrivateRecords) -> Release:
        """Release how many records, or people, each class has."""
        classes = one_hot(private.targets, plan.mechanism.columns)  # type: ignore[attr-defined]
        shares = private.shares()[:, None]
        said = said_by(private, lambda rows: shares[rows], classes)
        return self._release(ledger, plan, said, "count the classes")


@dataclass(eq=False, repr=False)
class ResidualEstimator(SummaryEstimator):
    """What those share that release moments of residuals, round by round, to a public descent."""

    _: KW_ONLY
    rounds: Count = 2
    clip: Positive = 0.5
    _counted: ClassVar[int | None] = None  # numbers of the first release; None: one a class

    @abstractmethod
    def _kernel(self, space: PublicSpace, view: Floats) -> ExactNystroem | None:
        """Return the features, made of public inputs; None for these themselves."""

    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        space = PublicSpace.around(self.features, outside, self.radius)
        view = space.view(outside)
        kernel = self._kernel(space, view)

        def look(view: Floats) -> NDArray[Any]:
            # Features of norm at most 1 in whole steps of 2^-14, each row's bits its own.
            if kernel is not None:
                return kernel.steps(view)
            return unit_steps(view / space.radius, view.shape)

        seen = np.asarray(look(view) * STEP)
        if not seen.any():
            raise InvalidArgument("Expected public inputs that differ from each other.")
        rounds, _ = at_least(1, rounds=self.rounds), positive(clip=self.clip)
        # Of what counts leave of mu^2, each round has the same share.
        each = ((1 - COUNT_SHARE) / rounds, seen.shape[1], columns)
        counts = (COUNT_SHARE, 1, self._counted or columns)
        return PublicPart(space, seen, self._plans(counts, *[each] * rounds), kernel, look)

    def _descend(
        self,
        descent: Descent,
        public: PublicPart,
        private: PrivateRecords,
        targets: Callable[[Integers], Floats],
        clip: float,
        ledger: Ledger,
    ) -> list[Release]:
        """Release a moment of residuals a round; in the first nothing is explained, or clipped."""
        releases = []
        for number, plan in enumerate(public.plans[1:], start=1):
            said = residuals_of(private, targets, descent.weights, clip)
            purpose = f"a moment of residuals, round {number} of {len(public.plans) - 1}"
            releases.append(self._release(ledger, plan, said, purpose))
            descent.step(*measured(releases[-1], clip))
            # Only now: this round's noise was in units of the length that bounded its residuals.
            clip = min(clip, float(self.clip))
        return releases


@dataclass(eq=False, repr=False)
class SummaryRegressor(PrivateRegressor, ResidualEstimator):
    """Fit and predict; a subclass says which features the records speak of."""

    _counted: ClassVar[int | None] = 3  # records, the sum of y and that of its squares

    @abstractmethod
    def _solution(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        """Return the student that is the solution, in the units of y."""

    def _read(self, y: NDArray[Any]) -> Targets:
        low, high = bounds = self._bounds()
        # Each number by itself; halves first, so that nothing overflows.
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        targets = np.clip((np.clip(y, low, high) - middle) / half, -1, 1)
        return Targets(targets, public={"bounds_": bounds})

    def _release_and_learn(
        self, public: PublicPart, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        purpose = "count, and add up y and its square"
        first = self._release(ledger, public.plans[0], level_of(private), purpose)
        count, level, variance = believed_level(first)
        descent = Descent(public.view, count, 1, variance=variance)

        def targets(rows: Integers) -> Floats:
            return np.asarray(private.targets[rows, None] - level)

        later = self._descend(descent, public, private, targets, 1 + abs(level), ledger)
        low, high = self._bounds()
        half = high / 2 - low / 2
        weights, level = descent.weights[:, 0] * half, low / 2 + high / 2 + level * half
        told = self._solution(public, outside, weights, level)
        student = self._taught(told, lambda X: np.clip(told.predict(X), low, high), outside)
        return {"releases_": [first, *later], "student_": student}


def said_by(
    private: PrivateRecords,
    left: Callable[[Integers], Floats],
    right: Callable[[Integers], Floats],
) -> Contributions:
    """Return what the records say, a product each. Secret."""
    return Contributions(len(private.targets), left, right, private.people)


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

    return said_by(private, left, right)


def level_of(private: PrivateRecords) -> Contributions:
    """Return 1 and (1, t, t^2)/sqrt 3, of norm at most 1 for |t| <= 1. Secret."""
    own = private.shares()

    def right(rows: Integers) -> Floats:
        t = private.targets[rows]
        return np.column_stack([np.ones(len(rows)), t, t * t]) * (own[rows, None] / math.sqrt(3))

    return said_by(private, lambda rows: np.ones((len(rows), 1)), right)


def believed_level(release: Release) -> tuple[float, float, float]:
    """Return the number of records, at least 1, and mean and variance of t, within their bounds."""
    count, total, squares = (np.asarray(release.values)[0] * math.sqrt(3)).tolist()
    count = max(count, 1.0)
    level = min(max(total / count, -1.0), 1.0)
    return count, level, min(max(squares / count - level**2, _LEAST_VARIANCE), 1.0)
