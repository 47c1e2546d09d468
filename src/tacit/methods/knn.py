"""Private neighbours: the private records themselves answer, without training.

The k nearest private records, in a public feature space, of a Poisson sample vote, and a mechanism
releases the noisy result (docs/theory/private-knn.md). A student learns from releases on public
inputs, or the records stay in the object and `answer` pays for every query.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from tacit._checks import (
    Floats,
    Integers,
    at_least,
    finite_array,
    one_of,
    refuse,
)
from tacit._registry import mechanism_class
from tacit.errors import InvalidArgument
from tacit.ledger import Budget, Ledger, Statement
from tacit.mechanisms import (
    NO_ANSWER,
    Mechanism,
    NoisyScreening,
    Plan,
    Release,
    SampledLabels,
    SampledMean,
    SampledMedian,
    SampledVotes,
)
from tacit.methods.asked_neighbours import (
    Neighbourly,
    PassingRecords,
    RecordIndex,
    Turns,
    index_records,
)
from tacit.methods.base import (
    AnyRecords,
    PrivateRegressor,
    RowEstimator,
    Task,
)
from tacit.methods.calibration import accountant_terms, proposed
from tacit.methods.checked_scores import map_by_votes
from tacit.methods.forecast import Forecast, JudgedEstimator, votes_forecast
from tacit.methods.method import (
    Facts,
    Method,
    Rule,
    asked_figures,
    boosting_student,
    common,
    fewest_queries,
)
from tacit.methods.pate import AGREEMENT, CHECK_SHARE
from tacit.methods.settings import (
    CHECKS,
    Count,
    Features,
    Positive,
    Queries,
    Rate,
    Student,
    choices,
)
from tacit.methods.told import ToldByVotes
from tacit.privacy import gaussian_mu
from tacit.records import PrivateRecords, PublicSpace, Tags
from tacit.students import ScoreMap, ValueStudent, label_posterior

MECHANISMS = ("sampled-votes", "sampled-max", "noisy-screening")
STATISTICS = ("mean", "median")
MATCHED = "matched"
"""Value of `threshold=` that leaves the thresholds to the student's own shares."""
HELPS = (
    "More neighbours (k), as far as they are near, or a larger epsilon would help, fewer queries "
    "would not; records that speak once (prototypes, moments, ridge) get more out of the budget."
)
ANSWERED = 0.75
"""Share of the queries that noisy screening may answer at the most."""
_MOST_UNITS = 2**31 - 1
_MOST_ON_GRID = 2.0**19
"""Beyond, a rounded Gaussian would be too wide for the grid on which sums are counted."""


@dataclass(frozen=True, slots=True)
class LearnedView:
    """A student's representation as the feature map of the next round: public, it saw releases."""

    student: Any

    def fit(self, X: NDArray[Any]) -> LearnedView:
        """Do nothing: it is fitted."""
        del X
        return self

    def transform(self, X: NDArray[Any]) -> Floats:
        """Return the student's representation of the inputs."""
        return np.asarray(self.student.represent(X), dtype=np.float64)

    def __sklearn_clone__(self) -> LearnedView:
        return self


@dataclass(eq=False, repr=False)
class PrivateNeighbours(RowEstimator):
    """Fit, answer and statement; a subclass defines the neighbours' targets and the mechanism."""

    student: Student = None
    _: KW_ONLY
    k: Count = 100
    sampling_rate: Rate = 1.0
    queries: int | Queries = 100
    features: Features = None
    radius: Positive | None = None
    votes_per_unit: Count = 1
    student_: Any = field(init=False)
    queries_: Integers = field(init=False)
    releases_: list[Release] = field(init=False)
    _fit_faults: tuple[str, ...] = field(init=False)
    _turns: Turns = field(init=False, default_factory=Turns)
    _own: ClassVar[dict[str, Any]] = {"queries": Queries(100, "medoids", 1)}
    _needs_public: ClassVar[bool] = False
    _streams: ClassVar[bool] = True

    @abstractmethod
    def _plan(self, asked: Neighbourly, queries: int, *, listed: bool) -> Plan:
        """Return the plan that spends the budget, from public information alone.

        `listed`: the student's run is priced as one list; otherwise each answer is paid by itself,
        and the noise has to be larger.
        """

    def _foresee(self, plans: list[Plan], asked: Neighbourly) -> None:
        """Refuse, from public numbers alone, what cannot learn; no forecast for numbers."""

    @abstractmethod
    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        """Fit a student on `queries_` of the public inputs and all `releases_` so far."""

    @abstractmethod
    def _answers(self, release: Release) -> Any:
        """Return the answers in one release."""

    def _learn(self, private: AnyRecords, task: Task, outside: Any) -> None:
        asked = self._asking(private.by_person, task.n_classes)
        if private.n_units > _MOST_UNITS:
            raise InvalidArgument(f"Expected X to hold at most {_MOST_UNITS} records or people.")
        if isinstance(private, PrivateRecords) and outside is None:
            self._keep(private, asked, task)
        else:
            self._teach(private, asked, outside, task)

    def _asking(self, by_person: bool, n_classes: int | None) -> Neighbourly:
        votes = at_least(1, votes_per_unit=self.votes_per_unit)
        return Neighbourly(self.k, self.sampling_rate, votes if by_person else 1, n_classes)

    def _become(self, state: dict[str, Any]) -> None:
        """Take a new fit's state; leave nothing of an earlier one, above all no private records.

        A started answer is finished first: its records, ledger and classes are of one fit.
        """
        with self._turns.lock:
            self._fit_faults = self._faults_with(state["ledger_"])
            for name in (
                "student_",
                "queries_",
                "releases_",
                "posteriors_",
                "score_check_",
                "score_shift_",
                "signal_",
                "_index",
                "_mechanism",
            ):
                self.__dict__.pop(name, None)
            self.__dict__.update(state)

    def _faults_with(self, ledger: Ledger) -> tuple[str, ...]:
        """Return this fit's caveats, and those of one before it that no answer has written."""
        unwritten: tuple[str, ...] = ()
        if hasattr(self, "ledger_") and self.ledger_.origin == ledger.origin:
            written = ledger.statement().warnings
            unwritten = tuple(fault for fault in self._fit_faults if fault not in written)
        return tuple(dict.fromkeys((*unwritten, *self._declared_faults())))

    def _keep(self, private: PrivateRecords, asked: Neighbourly, task: Task) -> None:
        """Make ready to answer: the ledger is charged by each answer."""
        queries = self._settings("queries")
        number = len(queries.strategy) if queries.number is None else queries.number
        plan = self._plan(asked, number, listed=False)
        self._foresee([plan], asked)
        space = PublicSpace.given(self._view(), self.radius, private.rows.shape[1])
        terms = accountant_terms([plan])
        ledger = self._open_ledger(by_person=private.by_person, **terms)
        # The ledger refuses before any private row is looked at: a refusal tells nothing of them.
        self._refuse_early(ledger, [asked.plan(plan.mechanism, 1)])
        index = index_records(private, space, asked)
        state = {"ledger_": ledger, "_mechanism": plan.mechanism, "_index": index}
        self._become({**task.public, **state})

    def _teach(
        self, private: AnyRecords, asked: Neighbourly, outside: NDArray[Any], task: Task
    ) -> None:
        """Query public inputs round by round, each student trained on all releases so far.

        From the second on, in the last student's space. From the first release on nothing is
        refused because of a private row.
        """
        rounds = self._settings("queries").rounds
        self._check_student(rounds)
        space = PublicSpace.around(self._view(), outside, self.radius)
        chosen = self._choose(space, outside)
        plan = self._plan(asked, rounds * chosen.size, listed=True)
        # A round's share of the whole; of the answers that it allows, rounded down.
        cap = None if plan.max_answers is None else plan.max_answers // rounds
        plan = replace(plan, queries=chosen.size, max_answers=cap)
        self._foresee([plan] * rounds, asked)
        plans = [plan] * rounds + self._check_plans()
        terms = accountant_terms(plans, listed=True)
        ledger = self._open_ledger(by_person=private.by_person, **terms)
        self._refuse_early(ledger, plans)
        # Before the first charge: what fails later leaves a statement that counts it.
        state = {"ledger_": ledger, "releases_": [], "queries_": chosen[:0]}
        self._become({**task.public, **state})
        for number in range(1, rounds + 1):
            if number > 1:
                space = PublicSpace.around(LearnedView(self.student_), outside)
                # Kept: another number of threads rounds the student, and so might choose others.
                chosen = self._kept.questions(partial(self._choose, space, outside), len(outside))
            purpose = f"ask {plan.queries} public inputs, round {number} of {rounds}"
            passing = PassingRecords(private, space, asked)
            self.releases_.append(self._release(plan, passing, outside[chosen], purpose))
            self.queries_ = np.concatenate([self.queries_, chosen])
            self.student_ = self._train_student(self._new_student(), outside)
        self._finish(private, outside)

    def _finish(self, private: AnyRecords, outside: NDArray[Any]) -> None:
        """Do what follows the student; `private` has raw rows."""

    def _check_student(self, rounds: int) -> None:
        """Refuse, before anything is spent, a student that cannot learn or serve as features."""
        student = self._new_student()
        if rounds > 1 and not hasattr(student, "represent"):
            raise InvalidArgument(
                f"Expected student={type(student).__name__} to have represent() where "
                f"rounds={rounds}: its view is the next round's feature space."
            )

    def _choose(self, space: PublicSpace, outside: NDArray[Any]) -> Integers:
        """Return the public rows to query in a round, chosen from public inputs alone."""
        asked = self._settings("queries")
        if asked.rounds > 1 and not isinstance(asked.strategy, str):
            raise InvalidArgument(
                f"Expected strategy= a name where rounds={asked.rounds}: rows are chosen."
            )
        return self._chosen(space.view(outside), asked.number)

    def _planned(
        self, with_noise: Callable[[float], Mechanism], asked: Neighbourly, queries: int, **how: Any
    ) -> Plan:
        """Return so many uses of a mechanism, with the noise that epsilon needs."""
        return self._calibrated(lambda noise: [asked.plan(with_noise(noise), queries)], **how)[0]

    def _release(
        self,
        plan: Plan,
        index: RecordIndex | PassingRecords,
        inputs: NDArray[Any],
        purpose: str,
    ) -> Release:
        return self._released(
            self.ledger_,
            plan,
            lambda: index.around(inputs),
            purpose,
            inputs=(inputs,),
            faults=self._fit_faults,  # of the fit: arguments may have changed since then
        )

    @property
    def statement_(self) -> Statement:
        """What may be claimed of all that was released so far, and what the next answer adds."""
        said = super().statement_
        return replace(said, warnings=tuple(dict.fromkeys([*said.warnings, *self._fit_faults])))

    def answer(self, X: ArrayLike) -> Any:
        """Let the private records answer public inputs now, and pay for it.

        Parameters
        ----------
        X : array or frame of shape (queries, features), or TableStream
            Public inputs with the columns of the fit, which had no `X_public`. Each is paid for.

        Returns
        -------
        array
            What was released on each row: labels, numbers, or a row of 0 and 1; a row that noisy
            screening left unanswered is masked. Public.

        Raises
        ------
        BudgetExceeded
            With nothing spent or released, once the ledger refuses.

        Notes
        -----
        Threads take turns: each answer has its own entry. A query still waiting when `fit` is
        called again is refused, and costs nothing.
        """
        return self._answered(self._ready(), X)

    def _answered(self, index: RecordIndex, X: ArrayLike) -> Any:
        """Let the records answer when their turn comes, if they are still those of this object."""
        with self._turns.lock:
            if self.__dict__.get("_index") is not index:
                raise InvalidArgument(
                    "Expected no other fit while a question waits: the records that were asked are "
                    "gone. Nothing was spent; ask again."
                )
            inputs = self._inputs(X)
            plan = index.asked.plan(self._mechanism, len(inputs))
            self._refuse_early(self.ledger_, [plan])
            purpose = f"answer {len(inputs)} questions"
            return self._answers(self._release(plan, index, inputs, purpose))

    async def answer_async(self, X: ArrayLike) -> Any:
        """Answer as `answer` does, without blocking the event loop.

        Queries wait in one queue, for one thread. A task cancelled while it waits costs nothing; a
        started answer is finished and stays paid for: cancelling loses the answer, never the
        charge, and a new query pays again, with fresh noise.
        """
        return await self._turns.taken(partial(self._answered, self._ready(), X))

    def _ready(self) -> RecordIndex:
        """Return the records that answer; refuse where none are held."""
        check_is_fitted(self, "ledger_")
        if not hasattr(self, "_index"):
            raise InvalidArgument(
                "Expected a fit without X_public before answer(): with public inputs a student "
                "was trained and the private records were dropped; use predict()."
            )
        index: RecordIndex = self._index
        return index

    def _student_inputs(self, X: ArrayLike) -> NDArray[Any]:
        if hasattr(self, "_index"):
            raise InvalidArgument(
                "Expected a student to predict: fit with X_public=, or call answer(), which pays "
                "for each answer."
            )
        return super()._student_inputs(X)


@dataclass(eq=False, repr=False)
class PrivateKNNClassifier(ToldByVotes, PrivateNeighbours, JudgedEstimator):
    """Private k-nearest-neighbour votes, worst-case priced.

    Parameters
    ----------
    student : student, optional
        `CombinedStudent()` by default; it sees public inputs and releases only. In run.toml:
        "label-spreading", "nearest", "linear", "kernel", "logistic", "cnn" (images) or "vat".
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks.
    k : int
        How many neighbours vote on a query; public, never tuned on private records.
    sampling_rate : float
        Chance of each unit to take part in a query, in (0, 1]; 1 (default) is without sampling,
        with the exact Gaussian accountant.
    queries : int or Queries
        How many public inputs are labelled, or, without public inputs, for how many answers the
        noise is planned; or `Queries(100, strategy=..., rounds=...)`: from the second round on
        neighbours are those in the last student's representation. The budget is split evenly, in
        one ledger. In run.toml: `queries`, `strategy` and `rounds`.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on public inputs; None for the
        inputs themselves. Without `X_public` it must be fitted already, or one of tacit's that
        learn nothing. In run.toml: "none", "digits" or "images", "bins" (declared columns) or
        "whitened".
    radius : float, optional
        The public norm within which features are compared exactly: longer vectors are scaled down
        to it. By default the largest norm among the public inputs; without them it is required.
    votes_per_unit : int
        With `groups=`, how many of a person's records may be neighbours of one query: its nearest
        ones. The noise grows with it, so 1 is the default.
    classes : array or str
        As in `PrivateClassifier`.
    mechanism : str or Mechanism
        "sampled-votes" (default: the noisy histogram), "sampled-max" (its noisy plurality) or
        "noisy-screening" (only where enough neighbours agree), whose noise is chosen so that
        `queries` cost at most epsilon; or, in Python, a mechanism with its own noise and the same
        k, rate and votes.

    Attributes
    ----------
    score_shift_ : Shift or None
        Whether the noisy table of scores differs from those of public inputs that were not queried
        (`ShiftWarning`); None without `calibration`, or with fewer than 100 of these.
    releases_ : list of Release
        The noisy votes or labels, one release a round.
    queries_ : array of int
        The rows of `X_public` that were queried, round after round.
    posteriors_ : list of arrays of shape (queries, classes)
        The classes' posteriors after each release, from which the student learned.
    signal_ : Signal or None
        Whether the releases show that anything was learned (`WeakSignal` if not); None with
        another student than the default one.

    Notes
    -----
    With `X_public`, `fit` trains a student and drops the private rows. Without, the rows stay in
    this object, which then cannot be pickled, and only `answer` works: one label per row, paid for
    each time. Features, `radius` and k must be public: chosen on private records they break the
    claim. The time that an answer takes is not protected. Unit: one record, or one person with
    `groups=`, of which `votes_per_unit` records may vote. In run.toml: `method = "knn"`, table
    `[knn]`; always with public inputs. Private-kNN (2020), as corrected in
    `docs/theory/private-knn.md`.
    """

    _: KW_ONLY
    mechanism: Annotated[Any, choices(*MECHANISMS)] = "sampled-votes"
    _own: ClassVar[dict[str, Any]] = {**PrivateNeighbours._own, "checks": CHECKS}

    def _plan(self, asked: Neighbourly, queries: int, *, listed: bool) -> Plan:
        name = self.mechanism
        if isinstance(name, str):
            capped = listed and self._given_ledger() is None
            plan_with = partial(class_plan, name, asked, queries, capped=capped)
            check = self._check_plans() if listed else []
            return self._calibrated(lambda noise: [plan_with(noise), *check], listed=listed)[0]
        if any(getattr(name, key, None) != value for key, value in asked.sample.items()):
            raise InvalidArgument(
                f"Expected mechanism={name!r} to have k={asked.k}, sampling_rate="
                f"{asked.sampling_rate} and votes_per_unit={asked.votes_per_unit}."
            )
        return asked.plan(name, queries)

    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        self.posteriors_ = [self._posterior(release) for release in self.releases_]
        return student.fit(outside, self.queries_, np.concatenate(self.posteriors_))

    def _finish(self, private: AnyRecords, outside: NDArray[Any]) -> None:
        self._hear_votes(self.student_, self.releases_, self.k)
        self._check_scores(private, self.ledger_, outside)
        self._warn_of_signal()

    def _fresh(self, outside: Any) -> Integers:
        return np.setdiff1d(np.arange(len(outside)), self.queries_)

    def _free_map(self, outside: Any) -> ScoreMap | None:
        return map_by_votes(self.student_, outside[self.queries_], self.releases_, self.k)

    def _keep(self, private: PrivateRecords, asked: Neighbourly, task: Task) -> None:
        if share := self._calibration():
            raise refuse("calibration", share, "0 without X_public: it is a student's")
        super()._keep(private, asked, task)

    def _foresee(self, plans: list[Plan], asked: Neighbourly) -> None:
        self._judge(votes_forecast(plans, asked.k, asked.n_classes or 2, "neighbours", HELPS))

    def _posterior(self, release: Release) -> Floats:
        voters = getattr(release.mechanism, "k", self.k)
        return label_posterior(release, n_classes=self.classes_.size, n_teachers=voters)

    def _answers(self, release: Release) -> np.ma.MaskedArray[Any, Any]:
        # The likeliest class is that with most noisy votes: a posterior rises with a class's own.
        best = (
            np.asarray(release.values).argmax(axis=1) if release.labels is None else release.labels
        )
        return np.ma.MaskedArray(self.classes_[best.clip(0)], mask=best == NO_ANSWER)


def class_plan(name: str, asked: Neighbourly, queries: int, noise: float, *, capped: bool) -> Plan:
    """Return the plan of a mechanism by its name.

    Screening splits the budget between checks and answers as if without sampling.
    """
    one_of(*MECHANISMS, mechanism=name)
    if name != "noisy-screening":
        return asked.plan(mechanism_class(name)(sigma=noise, **asked.sample), queries)
    cap = max(1, math.ceil(ANSWERED * queries)) if capped else queries
    # mu^2 of the checks, queries/s^2, to that of the answers, 2 cap/sigma^2, as the shares.
    screen = noise * math.sqrt(queries / (2 * cap) * (1 - CHECK_SHARE) / CHECK_SHARE)
    mechanism = NoisyScreening(
        threshold=round(AGREEMENT * asked.k), sigma_screen=screen, sigma=noise, **asked.sample
    )
    return asked.plan(mechanism, queries, max_answers=cap if capped else None)


def propose_class_plan(
    name: str, asked: Neighbourly, queries: int, budget: Budget, beside: Sequence[Plan] = ()
) -> Plan:
    """Return the plan of a student's run that spends the budget; noise with four digits."""
    plan_with = partial(class_plan, name, asked, queries, capped=True)
    return proposed(plan_with, budget, beside, listed=True)


def propose_neighbours(
    queries: int,
    budget: Budget,
    classes: int,
    *,
    k: int,
    sampling_rate: float = 1.0,
    beside: Sequence[Plan] = (),
) -> list[Plan]:
    """Return plans that spend the budget: label, histogram, screening."""
    asked = Neighbourly(k, sampling_rate, 1, classes)
    label, screened = (
        propose_class_plan(name, asked, queries, budget, beside)
        for name in ("sampled-max", "noisy-screening")
    )
    # The histogram costs what its plurality costs.
    votes = SampledVotes(sigma=label.mechanism.sigma, **asked.sample)  # type: ignore[attr-defined]
    return [label, asked.plan(votes, queries), screened]


@dataclass(eq=False, repr=False)
class PrivateKNNRegressor(PrivateRegressor, PrivateNeighbours):
    """Private k-nearest-neighbour regression, worst-case priced.

    Parameters
    ----------
    student : student, optional
        `ValueStudent()` by default; it sees public inputs and releases only.
    epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PrivateEstimator`: budget, ledger, noise, seed.
    k, sampling_rate, queries, features, radius, votes_per_unit
        As in `PrivateKNNClassifier`.
    target_range : pair of float
        (low, high), public bounds to which y is clipped. Required: taken from the private numbers
        they would break the claim. The closer they are, the less noise.
    statistic : str
        "mean" (default), with noise of at least (high - low)/k, or "median", by the exponential
        mechanism on a grid. Noise is chosen so that `queries` cost at most epsilon.
    grid_points : int
        For the median: from how many evenly spaced points from low to high, at least 2, it is
        chosen.

    Attributes
    ----------
    bounds_ : tuple of float
        The bounds of `target_range`, within which predictions stay.
    releases_ : list of Release
        The noisy numbers, one release a round.
    queries_ : array of int
        The rows of `X_public` that were queried, round after round.

    Notes
    -----
    With and without `X_public` as `PrivateKNNClassifier`. Features, `radius` and k must be public:
    chosen on private records they break the claim. The time that an answer takes is not protected.
    Unit: one record, or one person with `groups=`, of which `votes_per_unit` records may take
    part. In run.toml: `method = "knn"` where `[data.options]` declares `target_range`, table
    `[knn]`. `docs/theory/private-knn.md#numbers`.
    """

    _: KW_ONLY
    statistic: Annotated[str, choices(*STATISTICS)] = "mean"
    grid_points: Count = 101

    def _plan(self, asked: Neighbourly, queries: int, *, listed: bool) -> Plan:
        low, high = self._bounds()
        if one_of(*STATISTICS, statistic=self.statistic) == "mean":
            one = (high - low) / asked.k  # what a displaced record can change is the noise's unit

            def mean(noise: float) -> Mechanism:
                return SampledMean(sigma=noise * one, low=low, high=high, **asked.sample)

            return self._planned(mean, asked, queries, listed=listed, most=_MOST_ON_GRID)
        grid = (low, high, at_least(2, grid_points=self.grid_points))

        def median(noise: float) -> Mechanism:
            return SampledMedian(epsilon_per_query=1 / noise, grid=grid, **asked.sample)

        return self._planned(median, asked, queries, listed=listed, least=0.01, most=2.0**12)

    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        values = np.concatenate([np.asarray(release.values) for release in self.releases_])
        # A mean's noise is known; how far a drawn median is off depends on the private numbers.
        noise = getattr(self.releases_[-1].mechanism, "sigma", None)
        return student.fit(outside, self.queries_, values, noise=noise)

    def _answers(self, release: Release) -> Floats:
        return self._within_bounds(release.values)


@dataclass(eq=False, repr=False)
class PrivateKNNMultiLabelClassifier(ClassifierMixin, PrivateNeighbours):  # type: ignore[misc]
    """Private k-nearest-neighbour votes on several labels at once, worst-case priced.

    y is a matrix of 0 and 1, a column for each label; predictions are such a matrix, too.

    Parameters
    ----------
    student : student, optional
        `ValueStudent()` by default; it learns the noisy shares of neighbours with each label.
    epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PrivateEstimator`: budget, ledger, noise, seed.
    k, sampling_rate, queries, features, radius, votes_per_unit
        As in `PrivateKNNClassifier`.
    labels : list of str, or int
        The public names of the labels, or how many there are; required.
    clip : tuple of str and float
        (norm, tau), ("l2", 1.0) by default. A record with up to tau labels counts in full; with
        more, less for each. The noise grows as the square root of tau. "l2" leaves more of such a
        record than "l1", the paper's tau-approximation, at the same price.
    threshold : float, list of float or str
        The public share of k, in (0, 1], that a label's clipped, noisy count must reach, or one
        for each label; or "matched": each label is predicted for as many public inputs as the
        student's shares add up to, for large neighbourhoods; needs `X_public`.

    Attributes
    ----------
    labels_ : array of shape (labels,)
        Their names, or 0, 1, 2 and so on: the columns of predictions.
    thresholds_ : array of shape (labels,)
        The share that a label must reach; where matched, from the student's shares.
    releases_ : list of Release
        The noisy counts, one release a round.
    queries_ : array of int
        The rows of `X_public` that were queried, round after round.

    Notes
    -----
    With and without `X_public` as `PrivateKNNClassifier`. Features, `radius` and k must be public:
    chosen on private records they break the claim. The time that an answer takes is not protected.
    Unit: one record, or one person with `groups=`, of which `votes_per_unit` records may vote. For
    Python alone. `docs/theory/private-knn.md#several-labels`.
    """

    _streams: ClassVar[bool] = False  # a table has one column of targets

    _: KW_ONLY
    labels: Any = None
    clip: tuple[str, float] = ("l2", 1.0)
    threshold: Any = 0.5

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags

    def _target(self, y: Any = None) -> Tags:
        return Tags(int(label_names(self.labels).size))

    def _task(self, target: Tags) -> Task:
        names = label_names(self.labels)
        # Matched thresholds follow from the student's shares; until then every label is a half.
        start = 0.5 if self._matched else self.threshold
        public = {"labels_": names, "thresholds_": label_thresholds(start, names.size)}
        return Task(int(names.size) if names.size > 1 else None, public)

    def _plan(self, asked: Neighbourly, queries: int, *, listed: bool) -> Plan:
        try:
            norm, tau = self.clip
        except (TypeError, ValueError):
            raise refuse("clip", self.clip, 'a norm and a number, such as ("l2", 1.0)') from None

        def labels(sigma: float) -> Mechanism:
            return SampledLabels(sigma=sigma, tau=tau, clip=norm, **asked.sample)

        return self._planned(labels, asked, queries, listed=listed, most=_MOST_ON_GRID)

    def _default_student(self) -> Any:
        return ValueStudent()

    def _keep(self, private: PrivateRecords, asked: Neighbourly, task: Task) -> None:
        if self._matched:
            raise InvalidArgument(
                f"Expected threshold={self.threshold!r} with X_public= only: it is a student's."
            )
        super()._keep(private, asked, task)

    @property
    def _matched(self) -> bool:
        return isinstance(self.threshold, str) and self.threshold == MATCHED

    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        mechanism: Any = self.releases_[-1].mechanism
        shares = np.concatenate([_shares(release) for release in self.releases_])
        student.fit(outside, self.queries_, shares, noise=mechanism.sigma / mechanism.k)
        if self._matched:
            shares = np.asarray(student.predict(outside)).reshape(len(outside), -1)
            self.thresholds_ = matched_thresholds(shares)
        return student

    def _answers(self, release: Release) -> Integers:
        return self._reached(_shares(release))

    def _reached(self, shares: Floats) -> Integers:
        return np.asarray(shares >= self.thresholds_, dtype=np.int64)

    def _public_facts(self) -> dict[str, Any]:
        return {"labels": self.labels_.tolist(), "thresholds": self.thresholds_.tolist()}

    def predict_shares(self, X: ArrayLike) -> Floats:
        """Return the student's share of neighbours with each label, clipped as by the mechanism.

        Parameters
        ----------
        X : array of shape (rows, features)
            Inputs with the columns of the fit, free of charge.

        Returns
        -------
        array of shape (rows, labels)
            Shares of k; noise can take them below 0 or above 1. Public.
        """
        inputs = self._student_inputs(X)
        return np.asarray(self.student_.predict(inputs), dtype=np.float64)

    def predict(self, X: ArrayLike) -> Integers:
        """Return 0 or 1 for each label: post-processing of the releases, free of charge.

        Parameters
        ----------
        X : array of shape (rows, features)
            Inputs with the columns of the fit.

        Returns
        -------
        array of shape (rows, labels)
            1 where the share reaches the label's threshold. Public.
        """
        return self._reached(self.predict_shares(X))


def _shares(release: Release) -> Floats:
    mechanism: Any = release.mechanism
    return np.asarray(np.asarray(release.values) / mechanism.k)


def matched_thresholds(shares: ArrayLike) -> Floats:
    """Return for each label the threshold that as many rows reach as its shares add up to.

    >>> matched_thresholds([[0.1, 0.4], [0.2, 0.3], [0.4, 0.1], [0.3, 0.2]]).tolist()
    [0.4, 0.4]
    """
    rows = np.sort(np.asarray(shares, dtype=np.float64), axis=0)
    wanted = np.rint(rows.clip(0, 1).sum(axis=0)).astype(np.int64)
    reached = rows[np.minimum(len(rows) - wanted, len(rows) - 1), np.arange(rows.shape[1])]
    return np.asarray(np.where(wanted > 0, reached, rows[-1] + 1))


def label_names(labels: Any) -> NDArray[Any]:
    """Return the public names of labels; a number n stands for 0 .. n - 1.

    >>> label_names(["sun", "rain"]).tolist(), label_names(2).tolist()
    (['sun', 'rain'], [0, 1])
    """
    if labels is None:
        raise InvalidArgument("Expected labels= the public names of y's columns, or their number.")
    if np.ndim(labels) == 0:
        return np.arange(at_least(1, labels=labels))
    names = np.asarray(labels)
    if names.ndim != 1 or names.size < 1 or np.unique(names).size != names.size:
        raise refuse("labels", labels, "a list of different names, or their number")
    return names


def label_thresholds(threshold: Any, n_labels: int) -> Floats:
    """Return one threshold for each label, each a share in (0, 1].

    >>> label_thresholds(0.5, 3).tolist()
    [0.5, 0.5, 0.5]
    """
    values = finite_array(threshold=threshold)
    in_range = ((values > 0) & (values <= 1)).all()
    if values.ndim > 1 or values.size not in (1, n_labels) or not in_range:
        raise refuse("threshold", threshold, f"a share in (0, 1], or {n_labels} of them")
    return np.broadcast_to(values, (n_labels,)).copy()


_NEIGHBOURS_CLEAR = 5.3
_CLASS_SHARE = 0.8
_TABLE_NEIGHBOURS = 0.005


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Private neighbours without sampling."""
    shared = common(facts, epsilon, delta, seed)
    if facts.kind == "table":
        return PrivateKNNClassifier(
            boosting_student(),
            k=max(2, round(_TABLE_NEIGHBOURS * facts.n_private)),
            queries=Queries(strategy=np.arange(facts.n_public)),
            **shared,
        )
    mu = float(gaussian_mu(epsilon, delta))
    most = max(2, int(_CLASS_SHARE * facts.n_private / facts.n_classes))
    k = min(most, max(2, math.ceil(_NEIGHBOURS_CLEAR * math.sqrt(200) / mu)))
    queries = fewest_queries(facts, k * mu / math.sqrt(2))
    return PrivateKNNClassifier(k=k, queries=queries, **shared)


def _foreseen(plans: list[Plan], classes: int, voters: int) -> Forecast:
    return votes_forecast(plans[:1], voters, classes, "neighbours", HELPS)


METHOD = Method(
    forecast=_foreseen,
    name="knn",
    summary="Private-kNN: the private records nearest to each public input vote on its "
    "label; a student learns from the noisy votes.",
    estimator=PrivateKNNClassifier,
    regressor=PrivateKNNRegressor,
    rules={
        "knn": Rule(
            "Private-kNN",
            _compared,
            "Every record takes part. Images, numbers: k is 5.3 times the noise of 100 queries, "
            "at most 0.8 n / classes, then fewer queries; medoids, combined student (USPS). "
            "Tables: k = 0.5 % of the records, all public inputs, boosted student (California "
            "housing).",
        ),
    },
    figures=asked_figures,
    propose=propose_neighbours,
    proposes_with=("k", "sampling_rate"),
)
