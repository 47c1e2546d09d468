"""What the estimators on private neighbours share: validate, price, keep or teach, answer.

The k nearest private records, in a public feature space, of a Poisson sample of them speak; a
mechanism releases what they say, with noise, through a ledger. Either a student learns from such
releases on public inputs, and nothing private is left in the object, or the records stay in it and
`answer` pays for every question until the budget refuses (docs/theory/private-knn.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit._checks import Integers, at_least, sampling_rate
from tacit.errors import InvalidArgument
from tacit.ledger import Budget, Ledger, Statement
from tacit.mechanisms import Plan, Release, SelectiveMechanism
from tacit.methods.base import PrivateEstimator
from tacit.methods.knn_planning import Neighbourly
from tacit.methods.knn_records import LearnedView, RecordIndex, index_records, public_rounds
from tacit.methods.settings import Count, Positive, Rate
from tacit.methods.words import Features, Strategy, Student
from tacit.records import (
    PrivateRecords,
    PublicSpace,
    count_units,
    private_rows,
    units_of,
)
from tacit.students import choose_queries


@dataclass(frozen=True, slots=True, repr=False)
class Targets:
    """What y means: the records' targets (secret), and what is public about them."""

    targets: NDArray[Any]
    n_classes: int | None = None
    public: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class PrivateNeighbours(PrivateEstimator):
    """Fit, answer and statement; a subclass says what neighbours say and how it is released."""

    student: Student = None
    _: KW_ONLY
    k: Count = 100
    sampling_rate: Rate = 1.0
    queries: Count = 100
    strategy: Strategy = "medoids"
    features: Features = None
    radius: Positive | None = None
    votes_per_unit: Count = 1
    rounds: int = field(init=False, default=1)
    student_: Any = field(init=False)
    queries_: Integers = field(init=False)
    releases_: list[Release] = field(init=False)
    _fit_faults: tuple[str, ...] = field(init=False)
    _y_checks: ClassVar[dict[str, bool]] = {}

    @abstractmethod
    def _read(self, y: NDArray[Any]) -> Targets:
        """Check y against what was declared about it; nothing private is quoted."""

    @abstractmethod
    def _price(self, asked: Neighbourly, queries: int, budget: Budget, *, listed: bool) -> Plan:
        """Return the plan that spends the budget, from public information alone."""

    @abstractmethod
    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        """Fit a student on `queries_` of the public inputs and all `releases_` so far."""

    @abstractmethod
    def _answers(self, release: Release) -> Any:
        """Return what one release answers."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Let the private rows answer public inputs and train the student, or keep them to answer.

        With `X_public` a student is trained, and the private rows are dropped. Without, they stay
        in this object, which then cannot be pickled, and only `answer` works. Everything is
        validated, and the plan is priced, before features of private rows are computed.
        """
        rows, said = private_rows(self, X, y, **self._y_checks)
        task = self._read(said)
        people = units_of(groups, len(rows))
        outside = None if X_public is None else self._public_matrix(X_public, rows.shape[1])
        self._keep_apart(rows, outside)
        self._check_unit(people is not None)
        self._check_delta(count_units(people, len(rows)))
        private = PrivateRecords(rows, task.targets, people)
        asked = self._asking(people, task.n_classes)
        if outside is None:
            return self._keep(private, asked, task)
        return self._teach(private, asked, outside, task)

    def _asking(self, people: NDArray[Any] | None, n_classes: int | None) -> Neighbourly:
        votes = at_least(1, votes_per_unit=self.votes_per_unit)
        return Neighbourly(
            at_least(1, k=self.k),
            sampling_rate(sampling_rate=self.sampling_rate),
            1 if people is None else votes,
            n_classes,
            None if (ledger := self._given_ledger()) is None else ledger.order,
        )

    def _become(self, state: dict[str, Any]) -> None:
        """Take a new fit's state; leave nothing of an earlier one, above all no private records."""
        self._fit_faults = self._faults_with(state["ledger_"])
        earlier = ("student_", "queries_", "releases_", "posteriors_", "_index", "_mechanism")
        for name in earlier:
            self.__dict__.pop(name, None)
        self.__dict__.update(state)

    def _faults_with(self, ledger: Ledger) -> tuple[str, ...]:
        """Return what this fit asks for, and what one before it did that no answer has written."""
        unwritten: tuple[str, ...] = ()
        if hasattr(self, "ledger_") and self.ledger_.origin == ledger.origin:
            written = ledger.statement().warnings
            unwritten = tuple(fault for fault in self._fit_faults if fault not in written)
        return tuple(dict.fromkeys((*unwritten, *self._declared_faults())))

    def _keep(self, private: PrivateRecords, asked: Neighbourly, task: Targets) -> Self:
        """Make ready to answer: the ledger is charged by each answer."""
        plan = self._plan(asked, at_least(1, queries=self.queries), listed=False)
        space = PublicSpace.given(self.features, self.radius, private.rows.shape[1])
        terms = {} if plan.mu_squared() is not None else {"accountant": "rdp"}
        ledger = self._open_ledger(by_person=private.by_person, **terms)
        self._refuse_early(ledger, [asked.plan(plan.mechanism, 1)])
        index, _ = index_records(private, space, asked)
        state = {"ledger_": ledger, "_mechanism": plan.mechanism, "_index": index}
        self._become({**task.public, **state})
        return self

    def _teach(
        self, private: PrivateRecords, asked: Neighbourly, outside: NDArray[Any], task: Targets
    ) -> Self:
        """Ask public inputs round by round, each student from all releases so far."""
        counts = public_rounds(self.strategy, self.queries, self.rounds)
        self._check_student(len(counts))
        space = PublicSpace.around(self.features, outside, self.radius)
        chosen = self._choose(space, outside, counts[0])
        plan = self._plan(asked, sum(counts), listed=True)
        plans = [_share(asked, plan, count) for count in counts]
        ledger = self._open_ledger(by_person=private.by_person, **_terms(plans))
        self._refuse_early(ledger, plans)
        state = {"ledger_": ledger, "releases_": [], "queries_": chosen[:0]}
        self._become({**task.public, **state})
        self._ask(private, asked, outside, space, chosen, plans)
        return self

    def _ask(
        self,
        private: PrivateRecords,
        asked: Neighbourly,
        outside: NDArray[Any],
        space: PublicSpace,
        chosen: Integers,
        plans: list[Plan],
    ) -> None:
        """Release round by round; from the second on, in the last student's space.

        From the first release on nothing is refused because of a private row.
        """
        for number, each in enumerate(plans, start=1):
            if number > 1:
                space = PublicSpace.around(LearnedView(self.student_), outside)
                chosen = self._choose(space, outside, each.queries)
            purpose = f"ask {each.queries} public inputs, round {number} of {len(plans)}"
            index, private = index_records(private, space, asked)
            release = self._release(each, index, outside[chosen], purpose)
            self.queries_ = np.concatenate([self.queries_, chosen])
            self.releases_.append(release)
            self.student_ = self._train_student(self._new_student(), outside)

    def _check_student(self, rounds: int) -> None:
        """Refuse, before anything is spent, a student that could not learn or be looked through."""
        student = self._new_student()
        if rounds > 1 and not hasattr(student, "represent"):
            raise InvalidArgument(
                f"Expected student={type(student).__name__} to have represent() where "
                f"rounds={rounds}: its view is the next round's feature space."
            )

    def _choose(self, space: PublicSpace, outside: NDArray[Any], queries: int) -> Integers:
        """Return the public rows to ask, chosen from public inputs alone."""
        return choose_queries(
            space.view(outside), queries, strategy=self.strategy, random_state=self.random_state
        )

    def _plan(self, asked: Neighbourly, queries: int, *, listed: bool) -> Plan:
        """Price within epsilon; a ledger that exists adds up entries and prices no list."""
        ours = self._given_ledger() is None
        return self._price(asked, queries, self._budget(), listed=listed and ours)

    def _release(
        self, plan: Plan, index: RecordIndex, inputs: NDArray[Any], purpose: str
    ) -> Release:
        neighbours = index.around(inputs)
        # Of the fit: arguments may have changed since then.
        faults = self._fit_faults
        paid = self.ledger_.release(plan, purpose=purpose, noise=self.noise, faults=faults)
        with paid as grant:
            return grant.release(neighbours)

    @property
    def statement_(self) -> Statement:
        """What may be said of all that was released so far, and of what the next answer adds."""
        said = super().statement_
        return replace(said, warnings=tuple(dict.fromkeys([*said.warnings, *self._fit_faults])))

    def answer(self, X: ArrayLike) -> Any:
        """Let the private records answer public inputs now, and pay for it.

        Raises `BudgetExceeded`, with nothing spent or released, once the ledger refuses.
        """
        check_is_fitted(self, "ledger_")
        if not hasattr(self, "_index"):
            raise InvalidArgument(
                "Expected a fit without X_public before answer(): with public inputs a student "
                "was trained and the private records were dropped; use predict()."
            )
        inputs = np.asarray(validate_data(self, X, dtype="numeric", reset=False), dtype=np.float64)
        plan = self._index.asked.plan(self._mechanism, len(inputs))
        self._refuse_early(self.ledger_, [plan])
        purpose = f"answer {len(inputs)} questions"
        return self._answers(self._release(plan, self._index, inputs, purpose))

    def _student_inputs(self, X: ArrayLike) -> NDArray[Any]:
        if hasattr(self, "_index"):
            raise InvalidArgument(
                "Expected a student to predict: fit with X_public=, or call answer(), which pays "
                "for each answer."
            )
        return super()._student_inputs(X)


def _share(asked: Neighbourly, plan: Plan, count: int) -> Plan:
    """Return a round's share of the whole plan; of the answers it allows, rounded down."""
    cap = plan.max_answers
    return asked.plan(plan.mechanism, count, None if cap is None else cap * count // plan.queries)


def _terms(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return terms of a new ledger: exact Gaussians add up; others are priced as a list.

    A mechanism that selects may have a lower price than the sum of its Gaussians.
    """
    selects = isinstance(plans[0].mechanism, SelectiveMechanism)
    if not selects and all(plan.mu_squared() is not None for plan in plans):
        return {}
    return {"plans": list(plans)}
