"""`PrivateKNNClassifier`: the private records themselves vote, without training.

The k nearest private records of a Poisson sample say their classes; a mechanism releases the noisy
count. Fitted with public inputs it is a teacher, whose student may be published; fitted without, it
answers questions until the budget refuses.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats
from tacit.ledger import Budget
from tacit.mechanisms import NO_ANSWER, Plan, Release
from tacit.methods.base import PrivateClassifier
from tacit.methods.facts import Facts, boosting_student, common, fewest_queries
from tacit.methods.knn_base import PrivateNeighbours, Targets
from tacit.methods.knn_planning import (
    MECHANISMS,
    Neighbourly,
    plan_classes,
    propose_neighbours,
)
from tacit.methods.method import Method, Rule, asked_figures
from tacit.methods.settings import Count, choices
from tacit.privacy import gaussian_mu
from tacit.records import class_indices
from tacit.students import label_posterior


@dataclass(eq=False, repr=False)
class PrivateKNNClassifier(PrivateClassifier, PrivateNeighbours):
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
    votes_per_unit: with `groups=`, how many of a person's records may be neighbours of one query:
        its nearest ones. The noise grows with it, so 1 is the default.
    ledger: a `Ledger`, a path, or None for a ledger in a temporary directory.
    random_state seeds training and queries, never noise.

    Unit: one record, or one person with `groups=`. Features, `radius` and k must be public: chosen
    on private records they break the claim. Source: Private-kNN (2020) as corrected in
    docs/theory/private-knn.md; the time that an answer takes is not protected.
    """

    _: KW_ONLY
    mechanism: Annotated[Any, choices(*MECHANISMS)] = "sampled-votes"
    rounds: Count = 1

    def _read(self, y: NDArray[Any]) -> Targets:
        known, targets = class_indices(y, self.classes)
        return Targets(targets, int(known.size), {"classes_": known})

    def _price(self, asked: Neighbourly, queries: int, budget: Budget, *, listed: bool) -> Plan:
        return plan_classes(self.mechanism, asked, queries, budget, listed=listed)

    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        self.posteriors_ = [self._posterior(release) for release in self.releases_]
        return student.fit(outside, self.queries_, np.concatenate(self.posteriors_))

    def _posterior(self, release: Release) -> Floats:
        voters = getattr(release.mechanism, "k", self.k)
        return label_posterior(release, n_classes=self.classes_.size, n_teachers=voters)

    def _answers(self, release: Release) -> np.ma.MaskedArray[Any, Any]:
        best = release.labels
        if best is None:
            best = self._posterior(release).argmax(axis=1)
        return np.ma.MaskedArray(self.classes_[best.clip(0)], mask=best == NO_ANSWER)

    def answer(self, X: ArrayLike) -> np.ma.MaskedArray[Any, Any]:
        """Let the private records label public inputs now, and pay for it.

        Returns one label per row; a row that noisy screening left unanswered is masked. Raises
        `BudgetExceeded`, with nothing spent or released, once the ledger refuses.
        """
        labels: np.ma.MaskedArray[Any, Any] = super().answer(X)
        return labels


_NEIGHBOURS_CLEAR = 5.3
_CLASS_SHARE = 0.8
_TABLE_NEIGHBOURS = 0.005


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Private neighbours, all of them present in every query."""
    shared = common(facts, epsilon, delta, seed)
    if facts.kind == "table":
        return PrivateKNNClassifier(
            boosting_student(),
            k=max(2, round(_TABLE_NEIGHBOURS * facts.n_private)),
            queries=facts.n_public,
            strategy=np.arange(facts.n_public),
            **shared,
        )
    mu = float(gaussian_mu(epsilon, delta))
    most = max(2, int(_CLASS_SHARE * facts.n_private / facts.n_classes))
    k = min(most, max(2, math.ceil(_NEIGHBOURS_CLEAR * math.sqrt(200) / mu)))
    queries = fewest_queries(facts, k * mu / math.sqrt(2))
    return PrivateKNNClassifier(k=k, queries=queries, **shared)


METHOD = Method(
    name="knn",
    estimator=PrivateKNNClassifier,
    rules={
        "knn": Rule(
            "Private-kNN",
            _compared,
            "Every record takes part. Images, numbers: k is 5.3 times the noise of 100 queries, "
            "at most 0.8 n / classes, then fewer queries; medoids, label spreading (USPS). "
            "Tables: k = 0.5 % of the records, all public inputs, boosted student (California "
            "housing).",
        ),
    },
    figures=asked_figures,
    propose=propose_neighbours,
    proposes_with=("k", "sampling_rate"),
)
