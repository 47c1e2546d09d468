"""`ResidualRidgeClassifier`: kernel regression from a few rounds of noisy residual moments.

Nystroem features on public medoids have norm at most 1. In each round a private record says
phi(x) times what the last, public, solution leaves unexplained of its label, shortened to a public
length; the covariance of the features comes from public inputs. Residuals get small, so that a
short clip, and with it little noise, suffices (docs/theory/speak-once.md). For images and general
features, also where the public inputs do not cluster.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, at_least, positive
from tacit.ledger import Ledger
from tacit.mechanisms import STEP, NoisySum, Plan
from tacit.methods.facts import Facts, common
from tacit.methods.method import Method, Rule
from tacit.methods.settings import Count, Positive
from tacit.methods.summary_base import (
    COUNT_SHARE,
    SummaryClassifier,
    believed_counts,
    measured,
    residuals_of,
)
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import KernelStudent, choose_queries
from tacit.students.linear import kernel_width
from tacit.summaries import (
    Descent,
    ExactNystroem,
    compact_view,
    longest_label,
    one_hot,
)


class RidgePlan(NamedTuple):
    """What a fit rests on, made of public inputs, and the plans that it pays for."""

    space: PublicSpace
    features: ExactNystroem
    view: Floats
    plans: list[Plan]


@dataclass(eq=False, repr=False)
class ResidualRidgeClassifier(SummaryClassifier):
    """Least squares on kernel features from noisy residual moments, worst-case priced.

    n_landmarks: how many medoids of the public inputs carry the kernel.
    width: gamma = width / mean squared distance of public inputs to their ten nearest.
    rounds: how many residual moments are released; they share the budget evenly.
    clip: from the second round on, residuals (a vector over classes) are shortened to this length;
        in the first, when nothing is explained yet, none is.
    student: None for the kernel regression itself; a student is trained on what it says of all
        public inputs.
    epsilon, delta: the worst-case budget of the ledger that `fit` makes; with `ledger=` epsilon
        still sets the noise.
    features: a public transformer for private and public inputs alike, fitted on public inputs.
    radius: the public norm within which features are compared exactly.
    classes: the public label set, or "from_data" (the statement then says so).
    ledger: a `Ledger`, a path, or None for a ledger in a temporary directory.
    random_state seeds the choice of landmarks, never noise.

    5 % of mu^2 buys the class counts. Unit: one record, or one person with `groups=`, who then
    speaks with the mean of the records. After `fit`: `releases_`, `student_`.
    """

    _: KW_ONLY
    n_landmarks: Count = 500
    width: Positive = 0.3
    rounds: Count = 2
    clip: Positive = 0.5

    def _default_student(self) -> Any:
        return KernelStudent()

    def _prepare(
        self, outside: NDArray[Any], columns: int, budget: tuple[float, float]
    ) -> RidgePlan:
        rounds, _ = at_least(1, rounds=self.rounds), positive(clip=self.clip)
        space = PublicSpace.around(self.features, outside, self.radius)
        view = space.view(outside)
        count = min(at_least(1, n_landmarks=self.n_landmarks), len(view))
        chosen = choose_queries(compact_view(view), count, random_state=self.random_state)
        gamma = kernel_width(view, share=positive(width=self.width))
        features = ExactNystroem(view[chosen], gamma=gamma, radius=space.radius)
        plans = [NoisySum.for_budget(*budget, rows=1, columns=columns, share=COUNT_SHARE)]
        share = (1 - COUNT_SHARE) / rounds
        rows = features.n_features
        plans += [NoisySum.for_budget(*budget, rows=rows, columns=columns, share=share)] * rounds
        return RidgePlan(space, features, np.asarray(features.steps(view) * STEP), plans)

    def _look_at(self, public: RidgePlan, private: PrivateRecords) -> PrivateRecords:
        return private.seen_in(public.space, public.features.steps)

    def _release_and_learn(
        self, public: RidgePlan, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        releases = [self._count(ledger, public.plans[0], private)]
        total, shares = believed_counts(releases[0])
        descent = Descent(public.view, total, shares.size, classes=True)
        labels = one_hot(private.targets, shares.size, shares)
        clip = longest_label(shares)  # nothing is explained yet, and nothing is shortened
        for number, plan in enumerate(public.plans[1:], start=1):
            said = residuals_of(private, labels, descent.weights, clip)
            purpose = f"a moment of residuals, round {number} of {len(public.plans) - 1}"
            releases.append(self._release(ledger, plan, said, purpose))
            descent.step(*measured(releases[-1], clip))
            clip = min(clip, float(self.clip))
        kernel = KernelStudent(self.features).told(
            outside,
            # Landmarks where the student looks for them: in features that are not centred.
            landmarks=np.asarray(public.features.landmarks, dtype=np.float64) + public.space.centre,
            gamma=public.features.gamma,
            whitening=public.features.whitening,
            weights=descent.weights,
            bias=shares,
        )
        return {"releases_": releases, "student_": self._final_student(kernel, outside)}

    def _final_student(self, kernel: Any, outside: NDArray[Any]) -> Any:
        """Return the kernel student, or the given one, taught what it says of public inputs."""
        if self.student is None:
            return kernel
        posterior = kernel.predict_proba(outside)
        return self._new_student().fit(outside, np.arange(len(outside)), posterior)


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Residual moments on kernel features, with the defaults."""
    return ResidualRidgeClassifier(**common(facts, epsilon, delta, seed))


METHOD = Method(
    name="ridge",
    estimator=ResidualRidgeClassifier,
    rules={
        "ridge": Rule(
            "residual ridge",
            _compared,
            "500 landmarks, width 0.3, two rounds, clip 0.5 (USPS).",
        ),
    },
)
