"""`PrivateKNNClassifier`: the private records themselves vote, without training.

The k nearest private records, in a public feature space, of a Poisson sample of them say their
classes; a mechanism releases the noisy count through a ledger. Either a student learns from such
releases on public inputs, and nothing private is left in the object, or the records stay in it and
`answer` pays for every question until the budget refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tacit._checks import Floats, Integers, at_least
from tacit.errors import InvalidArgument
from tacit.estimators.inputs import class_indices, public_matrix, units_of, warn_of_overlap
from tacit.estimators.knn_planning import Neighbourly, plan_classes
from tacit.estimators.records import LearnedView, PrivateRecords, public_rounds
from tacit.estimators.taught import TaughtClassifier
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import NO_ANSWER, Plan, Release
from tacit.students import choose_queries, label_posterior

if TYPE_CHECKING:
    from tacit.noise import InsecureNoise


class PrivateKNNClassifier(TaughtClassifier):
    """Private k-nearest-neighbour votes, worst-case priced.

    student: `LabelSpreadingStudent()` by default; it sees public inputs and releases only.
    k: how many neighbours vote. sampling_rate: each unit takes part in each question with this
        probability; 1 means always, and then the exact Gaussian accountant applies.
    mechanism: "sampled-votes" (default: the noisy histogram), "sampled-max" (its noisy plurality),
        "noisy-screening" (only where enough neighbours agree), whose noise is chosen so that
        `queries` questions cost at most epsilon, or a mechanism with its own noise.
    queries: how many public inputs are labelled, or, without public inputs, for how many answers
        the noise is planned; strategy: "medoids", "random", or row numbers.
    rounds: 2 or more asks again in each round, among neighbours in the representation that the last
        student learned. The budget is split evenly, in one ledger.
    features: a public transformer for private and public inputs alike, fitted on public inputs.
    radius: the public norm within which features are compared exactly (longer vectors are scaled
        down to it); by default the largest norm among the public inputs.
    classes: the public label set, or "from_data" (the statement then says so).
    votes_per_person: with `groups=`, how many of a person's records may be neighbours of one query:
        its nearest ones. The noise grows with it, so 1 is the default.
    ledger: a `Ledger`, a path, or None for a ledger in a temporary directory.
    random_state seeds training and queries, never noise.

    Unit: one record, or one person with `groups=`. Features, `radius` and k must be public: chosen
    on private records they break the claim. Source: Private-kNN (2020) as corrected by
    SPEC-pate-knn 5; the time that an answer takes is not protected.
    """

    def __init__(
        self,
        student: Any = None,
        *,
        k: int = 100,
        sampling_rate: float = 1.0,
        mechanism: Any = "sampled-votes",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        queries: int = 100,
        strategy: Any = "medoids",
        rounds: int = 1,
        features: Any = None,
        radius: float | None = None,
        classes: Any = None,
        votes_per_person: int = 1,
        ledger: Any = None,
        dataset: str = "",
        allow_large_delta: bool = False,
        noise: InsecureNoise | None = None,
        random_state: int | None = None,
    ) -> None:
        self.student = student
        self.k = k
        self.sampling_rate = sampling_rate
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.queries = queries
        self.strategy = strategy
        self.rounds = rounds
        self.features = features
        self.radius = radius
        self.classes = classes
        self.votes_per_person = votes_per_person
        self.ledger = ledger
        self.dataset = dataset
        self.allow_large_delta = allow_large_delta
        self.noise = noise
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Let the private rows label public inputs and train the student, or keep them to answer.

        With `X_public` a student is trained, and the private rows are dropped. Without, they stay
        in this object, which then cannot be pickled, and only `answer` works.
        """
        rows, labels = validate_data(self, X, y, dtype="numeric")
        check_classification_targets(labels)
        self.classes_, y_index, self._from_data = class_indices(labels, self.classes)
        people = units_of(groups, len(rows))
        outside = None if X_public is None else public_matrix(X_public, rows.shape[1])
        if outside is not None:
            warn_of_overlap(rows, outside)
        self._check_delta(len(rows) if people is None else np.unique(people).size)
        self._asked = Neighbourly(self.k, self.sampling_rate, self._votes(people), self._n_classes)
        private = PrivateRecords(rows, y_index, people, self._asked)
        self._forget()
        if outside is None:
            return self._keep(private)
        return self._teach(private, outside)

    @property
    def _n_classes(self) -> int:
        return int(self.classes_.size)

    def _votes(self, people: NDArray[Any] | None) -> int:
        votes = at_least(1, votes_per_person=self.votes_per_person)
        return 1 if people is None else votes

    def _forget(self) -> None:
        """Leave nothing of an earlier fit: neither a student nor, above all, private records."""
        for name in ("student_", "queries_", "releases_", "posteriors_", "_index"):
            self.__dict__.pop(name, None)

    def _keep(self, private: PrivateRecords) -> Self:
        """Make ready to answer: the ledger is charged by each answer."""
        at_least(1, queries=self.queries)
        plan = self._plan(self.queries, listed=False)
        terms = {} if plan.mu_squared() is not None else {"accountant": "rdp"}
        index = private.index(self.features, None, self.radius)
        self.ledger_ = self._open_ledger(by_person=private.by_person, **terms)
        self._mechanism = plan.mechanism
        self._index = index
        return self

    def _teach(self, private: PrivateRecords, outside: NDArray[Any]) -> Self:
        """Label public inputs round by round, each student from all releases so far."""
        counts = public_rounds(self.strategy, self.queries, self.rounds)
        plan = self._plan(sum(counts), listed=True)
        plans = [self._asked.plan(plan.mechanism, count, _part(plan, count)) for count in counts]
        ledger = self._open_ledger(by_person=private.by_person, **self._terms(plans))
        self._refuse_early(ledger, plans)
        self.ledger_, self.releases_, self.posteriors_ = ledger, [], []
        features, chosen = self.features, []
        for number, each in enumerate(plans, start=1):
            index = private.index(features, outside, self.radius)
            chosen.append(self._choose(index.view(outside), each.queries))
            neighbours = index.around(outside[chosen[-1]])
            purpose = f"label {each.queries} public inputs, round {number} of {len(plans)}"
            release = self._release(each, neighbours, purpose)
            self.releases_.append(release)
            self.posteriors_.append(self._posterior(release))
            self.queries_ = np.concatenate(chosen)
            self.student_ = self._new_student().fit(
                outside, self.queries_, np.concatenate(self.posteriors_)
            )
            features = LearnedView(self.student_)
        return self

    def _choose(self, view: Floats, queries: int) -> Integers:
        """Return the public rows to ask, chosen from public inputs alone."""
        return choose_queries(view, queries, strategy=self.strategy, random_state=self.random_state)

    def _plan(self, queries: int, *, listed: bool) -> Plan:
        budget = self.ledger.budget if isinstance(self.ledger, Ledger) else None
        return plan_classes(
            self.mechanism,
            self._asked,
            queries,
            Budget(self.epsilon, self.delta if budget is None else budget.delta),
            listed=listed and budget is None,
        )

    def _terms(self, plans: Sequence[Plan]) -> dict[str, Any]:
        """Return terms of a new ledger: exact Gaussians add up; others are priced as a list."""
        if all(plan.mu_squared() is not None for plan in plans):
            return {}
        return {"plans": list(plans)}

    def _release(self, plan: Plan, neighbours: Any, purpose: str) -> Release:
        with self.ledger_.release(plan, purpose=purpose, noise=self.noise) as grant:
            return grant.release(neighbours)

    def _posterior(self, release: Release) -> Floats:
        return label_posterior(release, n_classes=self._n_classes, n_teachers=self.k)

    def answer(self, X: ArrayLike) -> np.ma.MaskedArray[Any, Any]:
        """Let the private records label public inputs now, and pay for it.

        Returns one label per row; a row that noisy screening left unanswered is masked. Raises
        `BudgetExceeded`, with nothing spent or released, once the ledger refuses.
        """
        if not hasattr(self, "_index"):
            raise InvalidArgument(
                "Expected a fit without X_public before answer(): with public inputs a student "
                "was trained and the private records were dropped; use predict()."
            )
        inputs = validate_data(self, X, dtype="numeric", reset=False)
        plan = self._asked.plan(self._mechanism, len(inputs))
        self._refuse_early(self.ledger_, [plan])
        neighbours = self._index.around(inputs)
        release = self._release(plan, neighbours, f"answer {len(inputs)} questions")
        best = release.labels
        if best is None:
            best = self._posterior(release).argmax(axis=1)
        return np.ma.MaskedArray(self.classes_[best.clip(0)], mask=best == NO_ANSWER)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the student's probabilities; the columns are `classes_`."""
        if hasattr(self, "_index"):
            raise InvalidArgument(
                "Expected a student to predict: fit with X_public=, or call answer(), which pays "
                "for each label."
            )
        return super().predict_proba(X)

    @property
    def statement_(self) -> Any:
        """What may be said of all that was released so far."""
        return self._statement(self.ledger_, self._from_data)


def _part(plan: Plan, count: int) -> int | None:
    """Return a round's share of the answers that the whole plan allows, rounded down."""
    return None if plan.max_answers is None else plan.max_answers * count // plan.queries
