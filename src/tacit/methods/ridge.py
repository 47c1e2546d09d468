"""`ResidualRidgeClassifier`, `ResidualRidgeRegressor`: kernel regression in a few noisy rounds.

Nystroem features on public medoids have norm at most 1. In each round a private record says
phi(x) times what the last, public, solution leaves unexplained of its label, shortened to a public
length; the covariance of the features comes from public inputs. Residuals get small, so that a
short clip, and with it little noise, suffices (docs/theory/speak-once.md). For images and general
features, also where the public inputs do not cluster.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, at_least, positive
from tacit.ledger import Ledger
from tacit.methods.method import Facts, Method, Rule, common
from tacit.methods.settings import Count, Positive
from tacit.methods.summary import (
    PublicPart,
    ResidualEstimator,
    SummaryClassifier,
    SummaryRegressor,
    believed_counts,
)
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import KernelStudent, ValueStudent, choose_queries, kernel_width
from tacit.summaries import Descent, ExactNystroem, compact_view, longest_label, one_hot


@dataclass(eq=False, repr=False)
class LandmarkEstimator(ResidualEstimator):
    """Residual moments of kernel features on medoids of the public inputs."""

    _: KW_ONLY
    n_landmarks: Count = 500
    width: Positive = 0.3

    def _kernel(self, space: PublicSpace, view: Floats) -> ExactNystroem:
        count = min(at_least(1, n_landmarks=self.n_landmarks), len(view))
        chosen = choose_queries(compact_view(view), count, random_state=self.random_state)
        gamma = kernel_width(view, share=positive(width=self.width))
        return ExactNystroem(view[chosen], gamma=gamma, radius=space.radius)


def _landmarks(public: PublicPart) -> Floats:
    """Return them where a student looks for them: in features that are not centred."""
    return np.asarray(public.basis.landmarks, dtype=np.float64) + public.space.centre


@dataclass(eq=False, repr=False)
class ResidualRidgeClassifier(SummaryClassifier, LandmarkEstimator):
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
    ledger: a `Ledger`, a path, a `NewLedger`, or None for one in a temporary directory.
    random_state seeds the choice of landmarks, never noise.

    5 % of mu^2 buys the class counts. Unit: one record, or one person with `groups=`, who then
    speaks with the mean of the records. After `fit`: `releases_`, `student_`.
    """

    def _default_student(self) -> Any:
        return KernelStudent()

    def _release_and_learn(
        self, public: PublicPart, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        counts = self._count(ledger, public.plans[0], private)
        total, shares = believed_counts(counts)
        descent = Descent(public.view, total, shares.size, classes=True)
        labels = one_hot(private.targets, shares.size, shares)
        later = self._descend(descent, public, private, labels, longest_label(shares), ledger)
        kernel = KernelStudent(self.features).told(
            outside,
            landmarks=_landmarks(public),
            gamma=public.basis.gamma,
            whitening=public.basis.whitening,
            weights=descent.weights,
            bias=shares,
        )
        student = self._taught(kernel, kernel.predict_proba, outside)
        return {"releases_": [counts, *later], "student_": student}


@dataclass(eq=False, repr=False)
class ResidualRidgeRegressor(SummaryRegressor, LandmarkEstimator):
    """Kernel regression from noisy residual moments, worst-case priced.

    target_range: (low, high), public bounds to which y is clipped; there is no default.
    n_landmarks: how many medoids of the public inputs carry the kernel.
    width: gamma = width / mean squared distance of public inputs to their ten nearest.
    rounds, clip, student, epsilon, delta, ledger: as for `MomentRegressor`.
    features: a public transformer for private and public inputs alike, fitted on public inputs.
    radius: the public norm within which features are compared exactly.
    random_state seeds the choice of landmarks, never noise.

    Unit: one record, or one person with `groups=`. After `fit`: `releases_`, `student_`.
    """

    def _solution(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        kernel: ExactNystroem = public.basis
        student = ValueStudent(features=self.features)
        return student.told_kernel(
            outside, _landmarks(public), kernel.whitening @ weights, level, kernel.gamma
        )


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
