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
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tacit._checks import Integers, at_least
from tacit.errors import InvalidArgument
from tacit.mechanisms import Plan, Release, count_votes
from tacit.methods.base import PrivateClassifier
from tacit.methods.facts import CLEAR, Facts, boosting_student, common, fewest_queries, strength
from tacit.methods.method import Method, Rule, asked_figures
from tacit.methods.pate_planning import plan_rounds, propose_votes
from tacit.methods.settings import Count, choices
from tacit.methods.words import Features, Strategy, Student, Teacher
from tacit.records import (
    class_indices,
    count_units,
    private_rows,
    units_of,
    view_alone,
)
from tacit.students import choose_queries, label_posterior
from tacit.teachers import (
    KernelRidgeTeachers,
    predict_with_teachers,
    record_ids,
    shard_key,
    shard_of,
)


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
    queries: how many public inputs are labelled; strategy: "medoids", "random", or row numbers.
    rounds: 2 adds an Interactive-GNMax round on as many other inputs, with the first student.
    features: a public, data-independent transformer for private and public inputs alike.
    classes: the public label set, or "from_data" (the statement then says so).
    executor: "serial", "local", a Dask client or address.
    ledger: a `Ledger`, a path, or None for a ledger in a temporary directory.
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
    mechanism: Annotated[Any, choices("noisy-votes", "gnmax", "confident-gnmax")] = "noisy-votes"
    queries: Count = 100
    strategy: Strategy = "medoids"
    rounds: Count = 1
    features: Features = None
    executor: Any = "serial"
    checkpoint: Any = None

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
        records, labels = private_rows(self, X, y)
        known, y_index = class_indices(labels, self.classes)
        people = units_of(groups, len(records))
        outside = self._public_matrix(X_public, records.shape[1])
        self._keep_apart(records, outside)
        self._check_size(count_units(people, len(records)))
        self._new_student()  # refuses, before anything is spent, what is no student
        inside, view = self._views(records, outside)
        placed = np.isfinite(inside).all(axis=1)  # a row whose features are not teaches nobody
        rows = self._choose(view)
        plans = self._plans([len(part) for part in rows], known.size)
        ledger = self._open_ledger(by_person=people is not None)
        self._refuse_early(ledger, plans)
        # Ids come from the raw rows: a feature's last bit may depend on the rows beside it.
        ids = record_ids(records, y_index) if people is None else people
        shards = shard_of(ids[placed], self.n_teachers, self._shard_key())
        asked = view[np.concatenate(rows)]
        votes = self._votes(inside[placed], y_index[placed], shards, asked, known.size)
        self.__dict__.pop("student_", None)  # an earlier fit's: it would get this fit's statement
        self.classes_, self.ledger_, self.queries_ = known, ledger, np.concatenate(rows)
        self._learn(plans, rows, votes, outside)
        return self

    def _check_size(self, n_units: int) -> None:
        """Refuse too many teachers or too large a delta.

        Either refusal depends on the private number of units: see `_check_delta`.
        """
        if at_least(1, n_teachers=self.n_teachers) > n_units:
            raise InvalidArgument(
                f"Expected n_teachers={self.n_teachers} to be at most the number of people or "
                "records; ask fewer teachers."
            )
        self._check_delta(n_units)

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
        rounds = at_least(1, rounds=self.rounds)
        if rounds > 2:
            raise InvalidArgument(f"Expected rounds={rounds} to be 1 or 2.")
        chosen = choose_queries(
            view,
            at_least(1, queries=self.queries) * rounds,
            strategy=self.strategy,
            random_state=self.random_state,
        )
        if rounds == 1:
            return [chosen]
        order = np.random.default_rng(self.random_state).permutation(chosen.size)
        half = chosen.size // 2
        return [chosen[order[:half]], chosen[order[half:]]]

    def _plans(self, queries: Sequence[int], n_classes: int) -> list[Plan]:
        return plan_rounds(
            self.mechanism,
            queries=queries,
            budget=self._budget(),
            n_teachers=self.n_teachers,
            n_classes=n_classes,
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
            queries=facts.n_public,
            strategy=np.arange(facts.n_public),
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
