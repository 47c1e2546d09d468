"""`PrototypeClassifier`: each private record votes once, at its nearest public prototypes.

The medoids of the public inputs are the prototypes. Every private record adds its class, with
weight 1/sqrt(votes), at its nearest few; the table (prototypes x classes) is released once, with
noise that does not grow with the number of prototypes; a student spreads what it says over the
public inputs (docs/theory/speak-once.md).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, Integers, at_least, refuse
from tacit.ledger import Ledger
from tacit.methods.method import Facts, Method, Rule, common, strength
from tacit.methods.settings import Count, Strategy
from tacit.methods.summary import PublicPart, SummaryClassifier
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import choose_queries
from tacit.summaries import (
    choose_student,
    compact_view,
    default_students,
    nearest_prototypes,
    prototype_votes,
    table_posterior,
)


@dataclass(eq=False, repr=False)
class PrototypeClassifier(SummaryClassifier):
    """Noisy votes of private records at public prototypes, worst-case priced, released once.

    student: by default `LabelSpreadingStudent()`, `LinearStudent()` or `NearestStudent()`, as the
        released table supports (`tacit.summaries.choose_student`); any, `CNNStudent` for example.
    n_prototypes: how many public inputs are prototypes; the price does not depend on it, but more
        of them share the same votes. strategy: "medoids", "random", or row numbers.
    votes: at how many nearest prototypes each record votes, with weight 1/sqrt(votes).
    epsilon, delta: the worst-case budget of the ledger that `fit` makes; with `ledger=` epsilon
        still sets the noise.
    features: a public transformer for private and public inputs alike, fitted on public inputs.
    radius: the public norm within which features are compared exactly; by default the largest norm
        among the public inputs.
    classes: the public label set, or "from_data" (the statement then says so).
    ledger: a `Ledger`, a path, a `NewLedger`, or None for one in a temporary directory.
    random_state seeds the choice of prototypes, never noise.

    Unit: one record (norm 1: added or removed, the table moves by 1; replaced, by sqrt 2 at most),
    or one person with `groups=`, whose summed votes are shortened to norm 1, however many records.
    After `fit`: `table_` (the release), `posterior_`, `prototypes_` (rows of X_public), `choice_`
    (why the student was chosen, or None).
    """

    _: KW_ONLY
    n_prototypes: Count = 300
    votes: Count = 3
    strategy: Strategy = "medoids"

    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        votes = at_least(1, votes=self.votes)
        space = PublicSpace.around(self.features, outside, self.radius)
        view = space.view(outside)
        named = not isinstance(self.strategy, str)
        count = None if named else at_least(1, n_prototypes=self.n_prototypes)
        places = choose_queries(
            compact_view(view), count, strategy=self.strategy, random_state=self.random_state
        )
        if votes > places.size:
            raise refuse("votes", votes, f"at most {places.size}, the number of prototypes")
        plans = self._plans((1.0, int(places.size), columns))
        prototypes = view[places]

        def near(view: Floats) -> Integers:
            return nearest_prototypes(view, prototypes, votes, radius=space.radius)

        return PublicPart(space, prototypes, plans, places, near)

    def _release_and_learn(
        self, public: PublicPart, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        mechanism: Any = public.plans[0].mechanism
        sizes = {"n_prototypes": mechanism.rows, "n_classes": mechanism.columns}
        said = prototype_votes(private.rows, private.targets, units=private.people, **sizes)
        purpose = f"vote once at {mechanism.rows} public prototypes"
        release = self._release(ledger, public.plans[0], said, purpose)
        table, places = np.asarray(release.values), public.basis
        found = {"table_": release, "prototypes_": places, "prototype_inputs_": outside[places]}
        if self.student is not None:
            posterior = table_posterior(table, mechanism.sigma)
            student = self._new_student().fit(outside, places, posterior)
            return {**found, "posterior_": posterior, "student_": student, "choice_": None}
        students = [self._with_features(student) for student in default_students()]
        choice = choose_student(students, outside, places, table, mechanism.sigma)
        found |= {"posterior_": choice.posterior, "student_": choice.student}
        return {**found, "choice_": choice}

    def report(
        self, path: str | Path | None = None, *, image_shape: tuple[int, int] | None = None
    ) -> str:
        """Return the HTML report of the ledger; write it, too, where a path is given.

        With `image_shape` it shows the prototypes, each with what was released about its label.
        """
        shown = {} if image_shape is None else {"figures": self.figures(image_shape)}
        return self._report(path, **shown)

    def figures(self, image_shape: tuple[int, int]) -> list[tuple[str, Any]]:
        """Return a picture of the prototypes, each with what was released about its label."""
        from tacit.report import gallery_figure

        check_is_fitted(self, "ledger_")
        images = self.prototype_inputs_.reshape(-1, *image_shape)
        captions = [_caption(self.classes_, row) for row in self.posterior_]
        caption = "Public prototypes: the labels that the noisy table supports, and their shares."
        return [(caption, gallery_figure(images, captions))]


def _caption(classes: NDArray[Any], shares: Floats) -> str:
    """Name the best class, and the second where its share is worth it."""
    first, second = np.argsort(-shares, kind="stable")[:2]
    text = f"{classes[first]} {shares[first]:.0%}"
    return text if shares[second] < 0.1 else f"{text}, {classes[second]} {shares[second]:.0%}"


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Votes at public prototypes."""
    power = strength(facts, epsilon, delta)
    wanted = 300 if power >= 1000 else 100 if power >= 300 else 50
    count = max(3, min(wanted, facts.n_public // 3))
    return PrototypeClassifier(n_prototypes=count, **common(facts, epsilon, delta, seed))


METHOD = Method(
    name="prototype",
    estimator=PrototypeClassifier,
    rules={
        "prototype": Rule(
            "prototypes",
            _compared,
            "300 prototypes from n mu = 1,000 on, 100 from 300 on, else 50, at most a third of "
            "the public inputs; 3 votes (USPS); label spreading, a linear student or the nearest "
            "prototypes, whichever the release supports.",
        ),
    },
    figures=lambda model, public, shape: model.figures(shape),  # it keeps its prototypes
)
