"""`MomentRegressor` and `ResidualRidgeRegressor`: numbers from a few noisy moments.

Least squares needs two things of the data: sum phi(x) t, in which the targets t appear, and the
covariance of the features, which public inputs tell as well. A record's target is brought to
[-1, 1] by public bounds, so that each record says phi(x) t with |phi| <= 1: norm at most 1, as for
classes (docs/theory/speak-once.md). Later rounds speak of what the last public solution leaves
unexplained, shortened to a public length.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from tacit._checks import Floats, Integers, at_least, finite, positive, refuse
from tacit.errors import InvalidArgument
from tacit.ledger import Ledger
from tacit.mechanisms import STEP, Contributions, NoisySum, Plan, Release, unit_steps
from tacit.methods.summary_base import COUNT_SHARE, SummaryEstimator, measured, residuals_of
from tacit.records import PrivateRecords, PublicSpace, private_rows
from tacit.students import ValueStudent, choose_queries
from tacit.students.linear import kernel_width
from tacit.summaries import Descent, ExactNystroem, compact_view

_LEAST_VARIANCE = 1e-4
"""Of t in [-1, 1]: noise may make the released variance negative."""


class PublicBasis(NamedTuple):
    """A public feature map of norm at most 1; `kernel` is None where it is the inputs' own."""

    space: PublicSpace
    kernel: ExactNystroem | None

    def steps(self, view: Floats) -> NDArray[Any]:
        """Return phi in whole steps of 2^-14, each row's bits its own."""
        if self.kernel is not None:
            return self.kernel.steps(view)
        return unit_steps(view / self.space.radius, view.shape)


class RegressionPlan(NamedTuple):
    """What a fit rests on, made of public inputs, and the plans that it pays for."""

    basis: PublicBasis
    view: Floats
    plans: list[Plan]


@dataclass(eq=False, repr=False)
class SummaryRegressor(RegressorMixin, SummaryEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Fit and predict; a subclass says which features the records speak of."""

    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    rounds: int = 2
    clip: float = 0.5

    @abstractmethod
    def _basis(self, outside: NDArray[Any]) -> PublicBasis:
        """Return the feature map, made of public inputs."""

    @abstractmethod
    def _solution(
        self, basis: PublicBasis, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        """Return the student that is the solution, in the units of y."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Let each private record speak once a round over public inputs.

        Everything is validated, and the ledger asked, before features of private rows are computed.
        `groups` says whose each row is: then one person is one unit, with all records.
        """
        rows, numbers = private_rows(self, X, y, y_numeric=True)
        low, high = self._bounds()
        # Each number by itself; halves first, so that nothing overflows.
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        targets = np.clip((np.clip(numbers, low, high) - middle) / half, -1, 1)
        self._fit_rows(rows, targets, 1, X_public, groups)
        self.bounds_ = (low, high)
        return self

    def _bounds(self) -> tuple[float, float]:
        if self.low is None or self.high is None:
            raise InvalidArgument(
                "Expected low= and high=, the public bounds to which y is clipped; read from the "
                "private numbers they would leak the extreme ones."
            )
        low, high = finite(low=self.low), finite(high=self.high)
        if not low < high:
            raise refuse("low", self.low, f"below high={self.high!r}")
        return low, high

    def _default_student(self) -> Any:
        return ValueStudent()

    def _prepare(
        self, outside: NDArray[Any], columns: int, budget: tuple[float, float]
    ) -> RegressionPlan:
        rounds, _ = at_least(1, rounds=self.rounds), positive(clip=self.clip)
        basis = self._basis(outside)
        view = np.asarray(basis.steps(basis.space.view(outside)) * STEP)
        if not view.any():
            raise InvalidArgument("Expected public inputs that differ from each other.")
        plans = [NoisySum.for_budget(*budget, rows=1, columns=3, share=COUNT_SHARE)]
        share = (1 - COUNT_SHARE) / rounds
        plan = NoisySum.for_budget(*budget, rows=view.shape[1], columns=columns, share=share)
        return RegressionPlan(basis, view, plans + [plan] * rounds)

    def _look_at(self, public: RegressionPlan, private: PrivateRecords) -> PrivateRecords:
        return private.seen_in(public.basis.space, public.basis.steps)

    def _release_and_learn(
        self, public: RegressionPlan, private: PrivateRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        first = self._release(
            ledger, public.plans[0], level_of(private), "count, and add up y and its square"
        )
        releases = [first]
        count, level, variance = believed_level(first)
        descent = Descent(public.view, count, 1, variance=variance)
        clip = 1 + abs(level)  # nothing is explained yet, and nothing is shortened
        for number, plan in enumerate(public.plans[1:], start=1):
            said = residuals_of(
                private, lambda rows: private.targets[rows, None] - level, descent.weights, clip
            )
            purpose = f"a moment of residuals, round {number} of {len(public.plans) - 1}"
            releases.append(self._release(ledger, plan, said, purpose))
            descent.step(*measured(releases[-1], clip))
            clip = min(clip, float(self.clip))
        student = self._train_student(public.basis, outside, descent.weights[:, 0], level)
        return {"releases_": releases, "student_": student}

    def _train_student(
        self, basis: PublicBasis, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        """Return the solution, or the given student, taught what it says of all public inputs."""
        low, high = self._bounds()
        half = high / 2 - low / 2
        told = self._solution(basis, outside, weights * half, low / 2 + high / 2 + level * half)
        if self.student is None:
            return told
        values = np.clip(told.predict(outside), low, high)
        return self._new_student().fit(outside, np.arange(len(outside)), values)

    def _public_facts(self) -> dict[str, Any]:
        return {"bounds": list(self.bounds_)}

    def predict(self, X: ArrayLike) -> Floats:
        """Return the student's numbers, within the bounds: post-processing, free of charge."""
        inputs = self._student_inputs(X)
        values = np.asarray(self.student_.predict(inputs), dtype=np.float64)
        return np.asarray(np.clip(values, *self.bounds_))


@dataclass(eq=False, repr=False)
class MomentRegressor(SummaryRegressor):
    """Linear regression from noisy moments of public features, worst-case priced.

    low, high: public bounds to which y is clipped; there is no default.
    features: a public transformer, `PublicBins(columns, unit_norm=True)` for tables; by default the
        inputs themselves. Rows count from the public mean; those longer than `radius` (the largest
        norm among the public inputs) are shortened to it.
    rounds: how many residual moments are released; they share the budget evenly.
    clip: from the second round on, residuals, in halves of high - low, are shortened to this.
    student: None for the linear solution itself; a student is trained on what it says of all public
        inputs. epsilon, delta, ledger: as for `MomentClassifier`.

    5 % of mu^2 buys the number of records, mean and variance of y. Unit: one record, or one person
    with `groups=`, who then speaks with the mean of the records. After `fit`: `releases_`,
    `student_`.
    """

    def _basis(self, outside: NDArray[Any]) -> PublicBasis:
        return PublicBasis(PublicSpace.around(self.features, outside, self.radius), None)

    def _solution(
        self, basis: PublicBasis, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        slopes = weights / basis.space.radius
        level = level - float(np.sum(basis.space.centre * slopes))
        return ValueStudent(features=self.features).told_line(outside, slopes, level)


@dataclass(eq=False, repr=False)
class ResidualRidgeRegressor(SummaryRegressor):
    """Kernel regression from noisy residual moments, worst-case priced.

    low, high: public bounds to which y is clipped; there is no default.
    n_landmarks: how many medoids of the public inputs carry the kernel.
    width: gamma = width / mean squared distance of public inputs to their ten nearest.
    rounds, clip, student, epsilon, delta, ledger: as for `MomentRegressor`.
    features: a public transformer for private and public inputs alike, fitted on public inputs.
    radius: the public norm within which features are compared exactly.
    random_state seeds the choice of landmarks, never noise.

    Unit: one record, or one person with `groups=`. After `fit`: `releases_`, `student_`.
    """

    _: KW_ONLY
    n_landmarks: int = 500
    width: float = 0.3

    def _basis(self, outside: NDArray[Any]) -> PublicBasis:
        space = PublicSpace.around(self.features, outside, self.radius)
        view = space.view(outside)
        count = min(at_least(1, n_landmarks=self.n_landmarks), len(view))
        chosen = choose_queries(compact_view(view), count, random_state=self.random_state)
        gamma = kernel_width(view, share=positive(width=self.width))
        return PublicBasis(space, ExactNystroem(view[chosen], gamma=gamma, radius=space.radius))

    def _solution(
        self, basis: PublicBasis, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        kernel: Any = basis.kernel
        # Landmarks where the student looks for them: in features that are not centred.
        points = np.asarray(kernel.landmarks, dtype=np.float64) + basis.space.centre
        student = ValueStudent(features=self.features)
        return student.told_kernel(outside, points, kernel.whitening @ weights, level, kernel.gamma)


def level_of(private: PrivateRecords) -> Contributions:
    """Return 1 and (1, t, t^2)/sqrt 3, of norm at most 1 for |t| <= 1. Secret."""
    own = private.shares()

    def right(rows: Integers) -> Floats:
        t = private.targets[rows]
        return np.column_stack([np.ones(len(rows)), t, t * t]) * (own[rows, None] / math.sqrt(3))

    return Contributions(
        len(private.targets), lambda rows: np.ones((len(rows), 1)), right, private.people
    )


def believed_level(release: Release) -> tuple[float, float, float]:
    """Return the number of records, at least 1, and mean and variance of t, within their bounds."""
    count, total, squares = (np.asarray(release.values)[0] * math.sqrt(3)).tolist()
    count = max(count, 1.0)
    level = min(max(total / count, -1.0), 1.0)
    return count, level, min(max(squares / count - level**2, _LEAST_VARIANCE), 1.0)
