"""`PATEClassifier`: private table or images in, publishable model out.

Teachers trained on disjoint shards of the private rows vote on public inputs; a mechanism releases
noisy votes through a ledger; a student learns from them. After `fit` the object holds no teacher,
vote or record.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tacit._checks import Integers, at_least, finite_rows, own_floats, refuse
from tacit._registry import mechanism_class
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.mechanisms import ConfidentGNMax, InteractiveGNMax, Plan, Release, count_votes
from tacit.methods.base import AnyRecords, Task
from tacit.methods.calibration import accountant_terms, calibrate, proposed, rounded_up
from tacit.methods.checked_scores import map_by_votes
from tacit.methods.forecast import Forecast, JudgedEstimator, votes_forecast
from tacit.methods.method import (
    CLEAR,
    Facts,
    Method,
    Rule,
    asked_figures,
    boosting_student,
    common,
    fewest_queries,
    strength,
)
from tacit.methods.settings import CHECKS, Count, Features, Queries, Student, Teacher, choices
from tacit.methods.told import ToldByVotes
from tacit.records import Spread, StoredShards, StreamedRecords, view_alone
from tacit.students import ScoreMap, label_posterior
from tacit.teachers import (
    KernelRidgeTeachers,
    Shards,
    predict_with_shards,
    scaled_logistic,
    shard_key,
    sharded,
    teachers_of,
    teaching_order,
)

MECHANISMS = ("noisy-votes", "gnmax", "confident-gnmax")
# Why these: docs/replication/pate.md#sections-42-53-and-54-rules-for-parameters.
CHECK_SHARE = 0.1
"""Share of mu^2 that a selective mechanism spends on its checks."""
AGREEMENT = 0.6
"""Share of the teachers that a check asks for."""
HELPS = (
    "More teachers or a larger epsilon would help, fewer queries would not; records that speak "
    "once (prototypes, moments, ridge) get more out of the same budget."
)
ROUND_ONE_SHARE = 0.6
"""Share of mu^2 for the first of two rounds."""


@dataclass(eq=False, repr=False)
class PATEClassifier(ToldByVotes, JudgedEstimator):
    """Private aggregation of teacher ensembles, worst-case priced.

    Parameters
    ----------
    teacher : estimator, optional
        A scikit-learn estimator or pipeline, a `TorchTeacher`, or a batched family such as
        `KernelRidgeTeachers()`; by default scaled logistic regression. In run.toml: "logistic",
        "balanced-logistic" (every teacher weighs the classes of its records equally) or
        "kernel-ridge".
    student : student, optional
        `CombinedStudent()` by default; it sees public inputs and releases only. In run.toml:
        "label-spreading", "nearest", "linear", "kernel", "logistic", "cnn" (images) or "vat".
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks, classes
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks, label set.
    n_teachers : int
        How many shards, and so votes on each query; public and fixed, at most the number of units.
    mechanism : str or Mechanism
        "noisy-votes" (default), "gnmax" or "confident-gnmax", whose noise is then chosen so that
        the run costs at most epsilon; or, in Python, a mechanism with its own noise, for one
        round.
    queries : int or Queries
        How many public inputs are labelled, or `Queries(100, strategy=..., rounds=...)`: with two
        rounds, an Interactive-GNMax round follows on as many other inputs, with the first student.
        In run.toml: `queries`, `strategy` and `rounds`.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on public inputs alone. None for
        the inputs themselves. In run.toml: "none", "digits" (images) or "bins" (declared columns).
    executor : str or dask client
        Where teachers are trained: "serial" (here, or in a worker process where other packages'
        code may print), "local" (processes), a Dask client or its address; the answers are the
        same. In run.toml: `executor`, at the top.
    checkpoint : path, optional
        A directory (mode 0700) of finished teachers, from which a stopped fit resumes. Secret. A
        run has its own, `teachers`.

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
    features_ : transformer or None
        The features as fitted on public inputs.
    signal_ : Signal or None
        Whether the releases show that anything was learned (`WeakSignal` if not); None with
        another student than the default one.

    Notes
    -----
    A grid search spends the budget at every fit: with one ledger it is refused when that is used
    up, with `ledger=None` each fit has a statement of its own that does not include the others.
    Unit: one record, or one person with `groups=`: added or removed, it changes one teacher. In
    run.toml: `method = "pate"`, table `[pate]`. PATE 2018; `docs/theory/gaussian.md`,
    `docs/theory/data-dependent.md` and `docs/theory/selective.md`.
    """

    teacher: Teacher = None
    student: Student = None
    _: KW_ONLY
    n_teachers: Count = 100
    mechanism: Annotated[Any, choices(*MECHANISMS)] = "noisy-votes"
    queries: int | Queries = 100
    features: Features = None
    executor: Any = "serial"
    checkpoint: Any = None
    _own: ClassVar[dict[str, Any]] = {
        "queries": Queries(100, "medoids", 1),
        "checks": CHECKS,
    }
    _streams: ClassVar[bool] = True
    _as_stored: ClassVar[bool] = True

    def _learn(self, private: AnyRecords, task: Task, outside: Any) -> None:
        """Train teachers on the private rows, release their votes, train the student."""
        n_classes = task.n_classes or 0
        self._check_teachers(private.n_units)
        self._new_student()  # refuses, before anything is spent, what is no student
        view = self._public_view(outside)
        rows = self._choose(view)
        asked = np.concatenate(rows)
        plans = self._plans([len(part) for part in rows], n_classes)
        self._judge(votes_forecast(plans, self.n_teachers, n_classes, "teachers", HELPS))
        everything = [*plans, *self._check_plans()]
        # Gaussians leave the ledger open for later releases; what has no mu^2 is priced as a list.
        listed = any(plan.mu_squared() is None for plan in everything)
        terms = accountant_terms(everything, listed=listed)
        ledger = self._open_ledger(by_person=private.by_person, **terms)
        kept = self._refuse_early(ledger, everything, asked)
        executor = self._where(private)
        taught = partial(self._taught, private, outside, view.shape[1], n_classes)
        votes = cache(lambda: self._votes(taught(), view[asked], n_classes, executor))
        if kept < len(plans):  # now: what fails must fail before anything is paid or forgotten
            votes()
        self.__dict__.pop("student_", None)  # an earlier fit's: it would get this fit's statement
        self.__dict__.update(task.public, ledger_=ledger, queries_=asked)
        self._release(plans, rows, votes, outside)
        self._check_scores(private, ledger, outside)
        self._warn_of_signal()

    def _check_teachers(self, n_units: int) -> None:
        """Refuse too many; that depends on the private number of units, as `_check_delta` does."""
        if at_least(1, n_teachers=self.n_teachers) > n_units:
            most = "at most the number of people or records; ask fewer teachers"
            raise refuse("n_teachers", self.n_teachers, most)

    def _spread(self) -> Spread:
        seed = self.random_state
        key = secrets.token_bytes(16) if seed is None else shard_key(seed)
        return Spread(at_least(1, n_teachers=self.n_teachers), key)

    def _where(self, private: AnyRecords) -> Any:
        """Return the executor: unless one was given, that which reads the table."""
        unsaid = isinstance(self.executor, str) and self.executor == "serial"
        return (
            private.executor if unsaid and isinstance(private, StreamedRecords) else self.executor
        )

    def _taught(
        self, private: AnyRecords, outside: NDArray[Any], columns: int, n_classes: int
    ) -> Shards:
        """Give each teacher its rows; each row's position is independent of other rows. Secret.

        A row whose features are not finite is left out.
        """
        how: dict[str, Any] = {
            "n_teachers": self.n_teachers,
            "random_state": self.random_state or 0,
        }
        if isinstance(private, StreamedRecords):
            assert private.stored is not None  # as `_spread` asks for
            view = partial(self._private_view, outside=outside)
            return StoredShards(buckets=private.stored, view=view, columns=columns, **how)
        hashes = self._spread().hashes(private)
        order = teaching_order(hashes, self.n_teachers, private.rows, private.targets)
        inside = self._private_view(private.rows, outside)
        placed = finite_rows(inside)
        shards = teachers_of(hashes, self.n_teachers)
        return sharded(
            inside,
            private.targets,
            shards,
            n_classes=n_classes,
            order=order if placed.all() else order[placed[order]],
            **how,
        )

    def _public_view(self, outside: NDArray[Any]) -> NDArray[Any]:
        """Return public inputs in the feature space, which is fitted on them alone."""
        self.features_ = None if self.features is None else clone(self._view())
        if self.features_ is None:
            return outside
        self.features_.fit(outside)  # on public inputs, should it learn anything at all
        return np.asarray(self.features_.transform(outside))

    def _private_view(self, X: NDArray[Any], outside: NDArray[Any]) -> NDArray[Any]:
        """Return private inputs in that space, each row by itself. Secret.

        Features that depend on other rows would let one record reach every teacher.
        """
        return X if self.features_ is None else np.asarray(view_alone(self.features_, X, outside))

    def _choose(self, view: NDArray[Any]) -> list[Integers]:
        """Return the rows of each round: chosen from public inputs alone."""
        asked = self._settings("queries")
        if asked.rounds > 2:
            raise refuse("rounds", asked.rounds, "1 or 2")
        chosen = self._chosen(view, asked.number and asked.number * asked.rounds)
        if asked.rounds == 1:
            return [chosen]
        order = np.random.default_rng(self.random_state).permutation(chosen.size)
        return np.split(chosen[order], [chosen.size // 2])

    def _plans(self, queries: Sequence[int], n_classes: int) -> list[Plan]:
        """Return one plan per round; together they spend the budget in the worst case."""
        public = {"n_teachers": self.n_teachers, "n_classes": n_classes}
        if not isinstance(self.mechanism, str):
            if len(queries) > 1:
                raise InvalidArgument(
                    "Expected mechanism= a name where rounds=2: its noise is chosen."
                )
            return [Plan(self.mechanism, queries[0], **public)]
        if self.mechanism not in MECHANISMS:
            known = (
                "'noisy-votes', 'gnmax', 'confident-gnmax' or a mechanism such as GNMax(sigma=40)"
            )
            raise refuse("mechanism", self.mechanism, known)
        shares = [1.0] if len(queries) == 1 else [ROUND_ONE_SHARE, 1 - ROUND_ONE_SHARE]
        rounds = list(zip((self.mechanism, "interactive-gnmax"), queries, shares, strict=False))
        check = self._check_plans()
        plans = self._calibrated(
            lambda noise: (
                [
                    vote_plan(name, count, noise / math.sqrt(share), **public)
                    for name, count, share in rounds
                ]
                + check
            )
        )
        return plans[: len(rounds)]

    def _votes(
        self, taught: Shards, asked: NDArray[Any], n_classes: int, executor: Any
    ) -> Integers:
        """Train the teachers and count their votes. Secret: they leave only through a grant."""
        predictions = predict_with_shards(
            self._teacher(),
            taught,
            own_floats(X_query=asked),
            n_classes=n_classes,
            executor=executor,
            checkpoint=self.checkpoint,
        )
        return count_votes(predictions, n_classes)

    def _teacher(self) -> Any:
        return scaled_logistic() if self.teacher is None else self.teacher

    def _fresh(self, outside: Any) -> Integers:
        return np.setdiff1d(np.arange(len(outside)), self.queries_)

    def _free_map(self, outside: Any) -> ScoreMap | None:
        asked = outside[self.queries_]
        return map_by_votes(self.student_, asked, self.releases_, self.n_teachers)

    def _release(
        self,
        plans: list[Plan],
        rows: list[Integers],
        votes: Callable[[], Integers],
        outside: NDArray[Any],
    ) -> None:
        """Release round by round, each student trained on all releases so far."""
        self.releases_: list[Release] = []
        self.posteriors_: list[NDArray[np.float64]] = []
        ends = np.cumsum([len(part) for part in rows])
        for number, (plan, part) in enumerate(zip(plans, rows, strict=True), start=1):
            public: dict[str, Any] = (
                {} if number == 1 else {"student": self._opinion(outside[part])}
            )
            purpose = f"label {len(part)} public inputs, round {number} of {len(plans)}"
            asked = slice(ends[number - 1] - len(part), ends[number - 1])
            release = self._released(
                self.ledger_,
                plan,
                lambda asked=asked: votes()[asked],  # type: ignore[misc]
                purpose,
                **public,
            )
            self.releases_.append(release)
            about = {"n_classes": self.classes_.size, "n_teachers": self.n_teachers}
            self.posteriors_.append(label_posterior(release, **about))
            self.student_ = self._new_student().fit(
                outside, np.concatenate(rows[:number]), np.concatenate(self.posteriors_)
            )
            if number == 1:
                # Labels of a second round may be the first student's own, which saw each query.
                self._hear_votes(self.student_, self.releases_, self.n_teachers)


def vote_plan(
    name: str, queries: int, noise: float, *, answered: float | None = None, **public: int
) -> Plan:
    """Return the plan of a mechanism by its name, with mu^2 = 1/noise^2 for all queries.

    A selective one answers at most the share `answered` of them; its checks have a share of their
    own.
    """
    if name in ("noisy-votes", "gnmax"):
        sigma = noise * math.sqrt(2 * queries)
        return Plan(mechanism_class(name)(sigma), queries, **public)
    interactive = name == "interactive-gnmax"
    cap = math.ceil((answered or (0.5 if interactive else 0.75)) * queries)
    sigmas = {
        "sigma_check": noise * math.sqrt(queries / CHECK_SHARE),
        "sigma_answer": noise * math.sqrt(2 * cap / (1 - CHECK_SHARE)),
    }
    teachers = public["n_teachers"]
    mechanism: Any = ConfidentGNMax(threshold=round(AGREEMENT * teachers), **sigmas)
    if interactive:
        mechanism = InteractiveGNMax(threshold=round(0.3 * teachers), confidence=0.95, **sigmas)
    return Plan(mechanism, queries, max_answers=cap, **public)


def sigma_for(queries: int, budget: Budget, beside: Sequence[Plan] = ()) -> float:
    """Return the noise with which so many GNMax answers cost epsilon, rounded up to four digits.

    The price of what is released `beside` them is included.
    """
    plan, *_ = calibrate(lambda noise: [vote_plan("gnmax", queries, noise), *beside], budget)
    mechanism: Any = plan.mechanism
    return rounded_up(mechanism.sigma)


def propose_votes(
    queries: int, budget: Budget, classes: int, *, n_teachers: int, beside: Sequence[Plan] = ()
) -> list[Plan]:
    """Return plans that spend the budget: GNMax, NoisyVotes, and Confident-GNMax with a cap.

    Confident-GNMax spends a tenth of mu^2 on its checks, requires 60 % of the teachers, and
    answers at most half of the queries.
    """
    public = {"n_teachers": n_teachers, "n_classes": classes}
    names = ("gnmax", "noisy-votes", "confident-gnmax")
    plans = [partial(vote_plan, name, queries, answered=0.5, **public) for name in names]
    return [proposed(plan_with, budget, beside) for plan_with in plans]


_RECORDS = (60, 30, 15, 10)
_TABLE_RECORDS = 96


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Kernel-ridge teachers."""
    shared = common(facts, epsilon, delta, seed)
    if facts.kind == "table":
        return PATEClassifier(
            KernelRidgeTeachers(gamma=0.1),
            boosting_student(),
            n_teachers=max(2, facts.n_private // _TABLE_RECORDS),
            queries=Queries(strategy=np.arange(facts.n_public)),
            **shared,
        )
    power = strength(facts, epsilon, delta)
    clear = [size for size in _RECORDS if power / size / math.sqrt(200) >= CLEAR]
    size = clear[0] if clear else _RECORDS[-1]
    return PATEClassifier(
        KernelRidgeTeachers(),
        n_teachers=max(2, facts.n_private // size),
        queries=fewest_queries(facts, power / size / math.sqrt(2)),
        **shared,
    )


def _foreseen(plans: list[Plan], classes: int, voters: int) -> Forecast:
    return votes_forecast(plans[:1], voters, classes, "teachers", HELPS)


METHOD = Method(
    forecast=_foreseen,
    name="pate",
    summary="PATE: teachers, each trained on its own part of the private records, vote on "
    "public inputs; a student learns from the noisy votes.",
    estimator=PATEClassifier,
    rules={
        "pate": Rule(
            "PATE",
            _compared,
            "Kernel-ridge teachers. Images, numbers: the largest of 60, 30, 15, 10 records a "
            "teacher whose votes are 4.5 times the noise of 100 queries, fewer queries (2 a class "
            "at least) if none is; medoids, combined student (USPS). Tables: 96 records a teacher, "
            "all public inputs, boosted student (California housing).",
        ),
    },
    figures=asked_figures,
    propose=propose_votes,
    proposes_with=("n_teachers",),
)
