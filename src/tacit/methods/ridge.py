"""`ResidualRidgeClassifier`, `ResidualRidgeRegressor`: kernel regression in a few noisy rounds.

Nystroem features phi on public medoids have norm at most 1. In each round a record contributes
phi(x) times its label's residual from the last, public, solution, shortened to a public clip; the
covariance comes from public inputs (docs/theory/speak-once.md). For images and general features.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from tacit._checks import Floats, Integers, at_least, positive
from tacit.features import ends_at_unit_length
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import Plan
from tacit.methods.base import AnyRecords
from tacit.methods.forecast import strength_within
from tacit.methods.method import Method, Rule, with_defaults
from tacit.methods.residual_rounds import (
    ByRow,
    Gains,
    ResidualEstimator,
    SummaryRegressor,
    Told,
    residual_outline,
)
from tacit.methods.settings import Count, Positive
from tacit.methods.summary import PublicPart, SummaryClassifier, believed_counts
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import (
    KernelStudent,
    LinearStudent,
    ValueStudent,
    choose_queries,
    kernel_width,
)
from tacit.summaries import ExactNystroem, compact_view, longest_label, one_hot

_SHARPNESS = (0.1, 1e4)
"""Between which a softmax of shares is as sure as they are."""


@dataclass(eq=False, repr=False)
class LandmarkEstimator(ResidualEstimator):
    """Residual moments of kernel features on medoids of the public inputs.

    Whitened rows are features already, for a linear model: in so many directions of equal length a
    kernel finds no near neighbours.
    """

    _: KW_ONLY
    n_landmarks: Count = 500
    width: Positive = 0.3

    def _kernel(self, space: PublicSpace, view: Floats) -> ExactNystroem | None:
        if ends_at_unit_length(self.features):
            return None
        count = min(at_least(1, n_landmarks=self.n_landmarks), len(view))
        chosen = choose_queries(compact_view(view), count, random_state=self.random_state)
        gamma = kernel_width(view, share=positive(width=self.width))
        return ExactNystroem(view[chosen], gamma=gamma, radius=space.radius)


def _landmarks(public: PublicPart) -> Floats:
    """Return the landmarks in features that are not centred, as a student reads them."""
    return np.asarray(public.basis.landmarks, dtype=np.float64) + public.space.centre


@dataclass(eq=False, repr=False)
class ResidualRidgeClassifier(SummaryClassifier, LandmarkEstimator):
    """Least squares on kernel features from noisy residual moments, worst-case priced.

    Parameters
    ----------
    student : student, optional
        None (default) for the kernel regression itself; a student is trained on its labels of all
        public inputs. In run.toml: "label-spreading", "nearest", "linear", "kernel", "logistic",
        "cnn" (images) or "vat".
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks.
    n_records : int, optional
        How many private records there are, if that is public anyway: for the forecast alone, which
        can then refuse. Never count them for it.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on public inputs; None for the
        inputs themselves. Where its last step is `PublicWhitening` there are no landmarks: the
        model is linear. In run.toml: "none", "digits" or "images", "bins" (declared columns) or
        "whitened".
    radius : float, optional
        The public norm within which features are compared exactly: longer vectors are scaled down
        to it. By default the largest norm among the public inputs.
    rounds : int
        How many residual moments are released, 2 by default; they share what is left evenly. Below
        n mu = 250, n as released, it is one.
    clip : float
        From the second round on, residuals (a vector over classes) are shortened to this length.
    n_landmarks : int
        How many medoids of the public inputs carry the kernel; all of them, where there are fewer.
    width : float
        gamma = width / mean squared distance of public inputs to their ten nearest.
    classes : array or str
        As in `PrivateClassifier`.

    Attributes
    ----------
    releases_ : list of Release
        The class counts; from n mu = 1,000 on a second moment of the features; a moment of
        residuals a round; and how well each of several solutions does.
    candidates_ : dict from str to float
        Weight of each solution in the student, by the last release.
    shift_ : Shift or None
        Whether the second moment is that of public inputs (`ShiftWarning` if not); None where none
        was released.

    Notes
    -----
    5 % of mu^2 buys the class counts, another 5 % the comparison of solutions, and from n mu =
    1,000 on 10 % (from 5,000 on 20 %) a second moment, which shows where public inputs differ from
    private ones; n is the released number of records. As these shares react to a release, the
    ledger's accountant must be "gaussian" or "rdp". Unit: one record, or one person with
    `groups=`, who contributes the records' mean. In run.toml: `method = "ridge"`, table `[ridge]`.
    `docs/theory/speak-once.md#residual-moments`,
    `docs/theory/speak-once.md#public-inputs-of-another-kind`.
    """

    def _default_student(self) -> Any:
        return KernelStudent()

    def _release_and_learn(
        self, public: PublicPart, private: AnyRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        counts = self._count(ledger, public.plans[0], private)
        total, shares = believed_counts(counts)

        def labels(some: PrivateRecords) -> ByRow:
            told_labels: ByRow = one_hot(some.targets, shares.size, shares)
            return told_labels

        def gains(some: PrivateRecords) -> Gains:
            def right(rows: Integers, scores: Floats) -> Floats:
                said = (scores + shares).argmax(axis=1)
                return np.asarray(said == some.targets[rows], dtype=np.float64)

            return right

        told = Told(total, shares.size, labels, longest_label(shares), gains)
        found = self._descend(told, public, private, ledger)
        told_by = self._kernel_student if public.basis is not None else self._linear_student
        solved = told_by(public, outside, found.weights, shares)
        student = self._taught(solved, solved.predict_proba, outside)
        releases = [counts, *found.releases]
        learned = {"releases_": releases, "candidates_": found.candidates}
        return {**learned, "shift_": found.shift, "student_": student}

    def _kernel_student(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, shares: Floats
    ) -> KernelStudent:
        return KernelStudent(self._view()).told(
            outside,
            landmarks=_landmarks(public),
            gamma=public.basis.gamma,
            whitening=public.basis.whitening,
            weights=weights,
            bias=shares,
        )

    def _linear_student(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, shares: Floats
    ) -> LinearStudent:
        sharpness = sharpness_of(public.view @ weights + shares)
        slopes = weights / public.space.radius * sharpness
        bias = shares * sharpness - public.space.centre @ slopes
        return LinearStudent(self._view()).told(outside, slopes, bias)


@dataclass(eq=False, repr=False)
class ResidualRidgeRegressor(SummaryRegressor, LandmarkEstimator):
    """Kernel regression from noisy residual moments, worst-case priced.

    Parameters
    ----------
    student : student, optional
        None (default) for the kernel regression itself; a student is trained on its predictions
        for all public inputs.
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks (no `calibration`).
    n_records, features, radius
        As in `ResidualRidgeClassifier`.
    rounds : int
        How many residual moments are released, 2 by default; they share what is left evenly.
    clip : float
        From the second round on, residuals, in halves of high - low, are shortened to this.
    n_landmarks, width
        As in `ResidualRidgeClassifier`.
    target_range : pair of float
        (low, high), public bounds to which y is clipped. Required: taken from the private numbers
        they would break the claim.

    Attributes
    ----------
    bounds_ : tuple of float
        The bounds of `target_range`, within which predictions stay.
    releases_ : list of Release
        Number of records, sums of y and of its square; from n mu = 1,000 on a second moment of the
        features; a moment of residuals a round; and how well each of several solutions does.
    candidates_, shift_
        As in `ResidualRidgeClassifier`.

    Notes
    -----
    5 % of mu^2 buys the number of records, mean and variance of y; the other shares are those of
    `ResidualRidgeClassifier`, and need the same accountants: "gaussian" or "rdp". Unit: one
    record, or one person with `groups=`, who contributes the records' mean. In run.toml: `method =
    "ridge"` where `[data.options]` declares `target_range`, table `[ridge]`.
    `docs/theory/speak-once.md#residual-moments`, `docs/theory/speak-once.md#numbers`.
    """

    def _solution(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        kernel: ExactNystroem | None = public.basis
        student = ValueStudent(features=self._view())
        if kernel is None:
            slopes = weights / public.space.radius
            return student.told_line(outside, slopes, level - float(public.space.centre @ slopes))
        return student.told_kernel(
            outside, _landmarks(public), kernel.whitening @ weights, level, kernel.gamma
        )


def sharpness_of(shares: Floats) -> float:
    """Return the factor with which a softmax of shares is as sure, in the mean, as they are.

    >>> round(sharpness_of(np.array([[0.9, 0.1], [0.2, 0.8]])), 2)
    2.51
    """
    believed = np.maximum(shares, 0.0)
    sure = float((believed.max(axis=1) / np.maximum(believed.sum(axis=1), 1e-12)).mean())

    def missing(logarithm: float) -> float:
        return float(softmax(np.exp(logarithm) * shares, axis=1).max(axis=1).mean()) - sure

    low, high = np.log(_SHARPNESS)
    least, most = missing(low), missing(high)
    if not least < 0 < most:  # nor where shares are beyond all bounds: what was paid for is kept
        return float(np.exp(low if least >= 0 else high))
    return float(np.exp(brentq(missing, low, high, xtol=1e-6)))


def _outline(budget: Budget, classes: int, n_records: int | None) -> list[tuple[str, Plan]]:
    """Return the releases with default settings, for a declared number of records."""
    model = ResidualRidgeClassifier
    return residual_outline(budget, classes, n_records, model.n_landmarks, model.rounds)


METHOD = Method(
    outline=_outline,
    forecast=strength_within,
    name="ridge",
    summary="Residual ridge: each private record adds once to the sums of a least-squares "
    "fit; the model is computed from the noisy sums.",
    estimator=ResidualRidgeClassifier,
    regressor=ResidualRidgeRegressor,
    rules={
        "ridge": Rule(
            "residual ridge",
            with_defaults(ResidualRidgeClassifier),
            "500 landmarks, width 0.3, two rounds, clip 0.5 (USPS).",
        ),
    },
)
