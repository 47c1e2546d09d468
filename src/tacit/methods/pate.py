"""`PATEClassifier`: private table or images in, publishable model out.

Teachers are trained on disjoint shards of the private rows and vote on public inputs; a mechanism
releases noisy votes through a ledger; a student learns from the releases. After `fit` the object
holds the student, the releases and the ledger, and nothing private: no teacher, no vote, no record.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tacit._checks import Integers, at_least
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    NoisyVotes,
    Plan,
    Release,
    count_votes,
)
from tacit.methods.base import PrivateClassifier
from tacit.methods.calibration import calibrate, readable, rounded_up
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
from tacit.methods.settings import Count, Features, Queries, Student, Teacher, choices
from tacit.records import count_units, view_alone
from tacit.students import choose_queries, label_posterior
from tacit.teachers import (
    KernelRidgeTeachers,
    predict_with_teachers,
    record_ids,
    shard_key,
    shard_of,
)

MECHANISMS = ("noisy-votes", "gnmax", "confident-gnmax")
# Why these: docs/replication/pate.md#sections-42-53-and-54-rules-for-parameters.
CHECK_SHARE = 0.1
"""Share of mu^2 that a selective mechanism spends on its checks."""
AGREEMENT = 0.6
"""Share of the teachers that a check asks for."""
ROUND_ONE_SHARE = 0.6
"""Share of mu^2 for the first of two rounds."""


@dataclass(eq=False, repr=False)
class PATEClassifier(PrivateClassifier):
    """Private aggregation of teacher ensembles, worst-case priced.

    teacher: a scikit-learn estimator or pipeline, a `TorchTeacher`, or a batched family such as
        `KernelRidgeTeachers()`; by default scaled logistic regression.
    student: `LabelSpreadingStudent()` by default; it sees public inputs and releases only.
    n_teachers: how many shards; public and fixed.
    mechanism: "noisy-votes" (default), "gnmax", "confident-gnmax", whose noise is then chosen so
        that the run costs at most epsilon, or a mechanism with its own noise.
    epsilon, delta: the worst-case budget of the ledger that `fit` makes; ignored with `ledger=`
        except that epsilon still sets the noise.
    queries: how many public inputs are labelled, or `Queries(100, strategy=..., rounds=...)`: with
        two rounds, an Interactive-GNMax round follows on as many other inputs, with the first
        student.
    features: a public, data-independent transformer for private and public inputs alike.
    classes: the public label set, or "from_data" (the statement then says so).
    executor: "serial", "local", a Dask client or address.
    ledger: a `Ledger`, a path, a `NewLedger`, or None for one in a temporary directory.
    allow_overlap: do not look for private rows that equal public ones; otherwise such a row is
        refused. The ledger then says, for ever, that nobody looked.
    random_state seeds training, queries and shards, never noise.

    A grid search spends the budget at every fit: with one ledger it is refused when that is used
    up, with `ledger=None` each fit has a statement of its own that knows nothing of the others.
    Unit: one record, or one person with `groups=`. Source: PATE 2018;
    docs/theory/gaussian.md, docs/theory/data-dependent.md and docs/theory/selective.md.
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
    _own: ClassVar = {"queries": Queries(100, "medoids", 1)}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train teachers on the private rows, release their votes, train the student.

        Everything is validated, and the plan is priced, before a teacher is trained; the ledger is
        charged before noise is drawn.
        """
        private, task, outside = self._admit(X, y, X_public, groups)
        records, y_index, people = private.rows, private.targets, private.people
        n_classes = task.n_classes or 0
        self._check_teachers(count_units(people, len(records)))
        self._new_student()  # refuses, before anything is spent, what is no student
        inside, view = self._views(records, outside)
        placed = np.isfinite(inside).all(axis=1)  # a row whose features are not teaches nobody
        rows = self._choose(view)
        plans = self._plans([len(part) for part in rows], n_classes)
        ledger = self._open_ledger(by_person=people is not None)
        self._refuse_early(ledger, plans)
        # Ids come from the raw rows: a feature's last bit may depend on the rows beside it.
        ids = record_ids(records, y_index) if people is None else people
        shards = shard_of(ids[placed], self.n_teachers, self._shard_key())
        asked = view[np.concatenate(rows)]
        votes = self._votes(inside[placed], y_index[placed], shards, asked, n_classes)
        self.__dict__.pop("student_", None)  # an earlier fit's: it would get this fit's statement
        self.__dict__.update(task.public, ledger_=ledger, queries_=np.concatenate(rows))
        self._learn(plans, rows, votes, outside)
        return self

    def _check_teachers(self, n_units: int) -> None:
        """Refuse too many; that depends on the private number of units, as `_check_delta` does."""
        if at_least(1, n_teachers=self.n_teachers) > n_units:
            raise InvalidArgument(
                f"Expected n_teachers={self.n_teachers} to be at most the number of people or "
                "records; ask fewer teachers."
            )

    def _shard_key(self) -> bytes:
        if self.random_state is None:
            return secrets.token_bytes(16)
        return shard_key(self.random_state)

    def _views(self, X: NDArray[Any], outside: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return private and public inputs in the public feature space.

        Each private row by itself: features that depend on the rows beside it would let one record
        reach every teacher.
        """
        self.features_ = None if self.features is None else clone(self.features)
        if self.features_ is None:
            return X, outside
        self.features_.fit(outside)  # on public inputs, should it learn anything at all
        return view_alone(self.features_, X, outside), self.features_.transform(outside)

    def _choose(self, view: NDArray[Any]) -> list[Integers]:
        """Return the rows of each round: chosen from public inputs alone."""
        asked = self._settings("queries")
        if asked.rounds > 2:
            raise InvalidArgument(f"Expected rounds={asked.rounds} to be 1 or 2.")
        chosen = choose_queries(
            view,
            None if asked.number is None else asked.number * asked.rounds,
            strategy=asked.strategy,
            random_state=self.random_state,
        )
        if asked.rounds == 1:
            return [chosen]
        order = np.random.default_rng(self.random_state).permutation(chosen.size)
        half = chosen.size // 2
        return [chosen[order[:half]], chosen[order[half:]]]

    def _plans(self, queries: Sequence[int], n_classes: int) -> list[Plan]:
        """Return one plan per round, which together spend the budget in the worst case."""
        public = {"n_teachers": self.n_teachers, "n_classes": n_classes}
        if not isinstance(self.mechanism, str):
            if len(queries) > 1:
                raise InvalidArgument(
                    "Expected mechanism= a name where rounds=2: its noise is chosen."
                )
            return [Plan(self.mechanism, queries[0], **public)]
        if self.mechanism not in MECHANISMS:
            raise InvalidArgument(
                f"Expected mechanism={self.mechanism!r} to be 'noisy-votes', 'gnmax', "
                "'confident-gnmax' or a mechanism such as GNMax(sigma=40)."
            )
        first = 1.0 if len(queries) == 1 else ROUND_ONE_SHARE
        shares = [("interactive-gnmax", 1 - first)] * (len(queries) - 1)
        return self._calibrated(
            lambda noise: [
                vote_plan(name, count, noise / math.sqrt(share), **public)
                for count, (name, share) in zip(
                    queries, [(self.mechanism, first), *shares], strict=True
                )
            ]
        )

    def _votes(
        self,
        inside: NDArray[Any],
        y_index: Integers,
        shards: Integers,
        asked: NDArray[Any],
        n_classes: int,
    ) -> Integers:
        """Train the teachers and count their votes. Secret: they leave only through a grant."""
        predictions = predict_with_teachers(
            self._teacher(),
            inside,
            y_index,
            shards,
            self.n_teachers,
            asked,
            n_classes=n_classes,
            executor=self.executor,
            random_state=self.random_state or 0,
            checkpoint=self.checkpoint,
        )
        return count_votes(predictions, n_classes)

    def _teacher(self) -> Any:
        if self.teacher is not None:
            return self.teacher
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))

    def _learn(
        self, plans: list[Plan], rows: list[Integers], votes: Integers, outside: NDArray[Any]
    ) -> None:
        """Release round by round, each student from all releases so far."""
        self.releases_: list[Release] = []
        self.posteriors_: list[NDArray[np.float64]] = []
        start = 0
        for number, (plan, part) in enumerate(zip(plans, rows, strict=True), start=1):
            public = {} if number == 1 else {"student": self._opinion(outside[part])}
            purpose = f"label {len(part)} public inputs, round {number} of {len(plans)}"
            with self._paid(self.ledger_, plan, purpose) as grant:
                release = grant.release(votes[start : start + len(part)], **public)
            start += len(part)
            self.releases_.append(release)
            self.posteriors_.append(
                label_posterior(release, n_classes=self.classes_.size, n_teachers=self.n_teachers)
            )
            self.student_ = self._new_student().fit(
                outside, np.concatenate(rows[:number]), np.concatenate(self.posteriors_)
            )


def vote_plan(
    name: str, queries: int, noise: float, *, answered: float | None = None, **public: int
) -> Plan:
    """Return the plan of a mechanism by its name, with mu^2 = 1/noise^2 for all queries.

    One that selects answers at most the share `answered` of them, and has checks that cost their
    own share.
    """
    if name in ("noisy-votes", "gnmax"):
        sigma = noise * math.sqrt(2 * queries)
        return Plan(GNMax(sigma) if name == "gnmax" else NoisyVotes(sigma), queries, **public)
    interactive = name == "interactive-gnmax"
    cap = math.ceil((answered or (0.5 if interactive else 0.75)) * queries)
    sigmas = {
        "sigma_check": noise * math.sqrt(queries / CHECK_SHARE),
        "sigma_answer": noise * math.sqrt(2 * cap / (1 - CHECK_SHARE)),
    }
    teachers = public["n_teachers"]
    if interactive:
        one = InteractiveGNMax(threshold=round(0.3 * teachers), confidence=0.95, **sigmas)
        return Plan(one, queries, max_answers=cap, **public)
    two = ConfidentGNMax(threshold=round(AGREEMENT * teachers), **sigmas)
    return Plan(two, queries, max_answers=cap, **public)


def sigma_for(queries: int, budget: Budget) -> float:
    """Return the noise with which so many GNMax answers cost epsilon, rounded up to four digits."""
    (plan,) = calibrate(lambda noise: [vote_plan("gnmax", queries, noise)], budget)
    mechanism: Any = plan.mechanism
    return rounded_up(mechanism.sigma)


def propose_votes(queries: int, budget: Budget, classes: int, *, n_teachers: int) -> list[Plan]:
    """Return plans that spend the budget: GNMax, NoisyVotes, and Confident-GNMax with a cap.

    Confident-GNMax spends a tenth of mu^2 on its checks, asks for 60 % of the teachers, and answers
    at most half of the queries.
    """
    public = {"n_teachers": n_teachers, "n_classes": classes}

    def proposed(name: str) -> Plan:
        (plan,) = calibrate(
            lambda noise: [vote_plan(name, queries, noise, answered=0.5, **public)], budget
        )
        return readable(plan, budget)

    return [proposed(name) for name in ("gnmax", "noisy-votes", "confident-gnmax")]


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


METHOD = Method(
    name="pate",
    estimator=PATEClassifier,
    rules={
        "pate": Rule(
            "PATE",
            _compared,
            "Kernel-ridge teachers. Images, numbers: the largest of 60, 30, 15, 10 records a "
            "teacher whose votes are 4.5 times the noise of 100 queries, fewer queries (2 a class "
            "at least) if none is; medoids, label spreading (USPS). Tables: 96 records a teacher, "
            "all public inputs, boosted student (California housing).",
        ),
    },
    figures=asked_figures,
    propose=propose_votes,
    proposes_with=("n_teachers",),
)
