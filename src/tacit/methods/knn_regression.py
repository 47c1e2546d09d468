"""`PrivateKNNRegressor`: the private records' numbers, averaged or by their median.

The k nearest private records of a Poisson sample say their numbers, clipped to public bounds; a
mechanism releases a noisy mean, or a point of a public grid near their median
(docs/theory/private-knn.md#numbers).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from tacit._checks import Floats, at_least, finite, one_of, refuse
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.mechanisms import Plan, Release
from tacit.methods.knn_base import PrivateNeighbours, Targets
from tacit.methods.knn_planning import Neighbourly, plan_mean, plan_median
from tacit.students import ValueStudent

STATISTICS = ("mean", "median")


@dataclass(eq=False, repr=False)
class PrivateKNNRegressor(RegressorMixin, PrivateNeighbours):  # type: ignore[misc]  # untyped
    """Private k-nearest-neighbour regression, worst-case priced.

    student: `ValueStudent()` by default; it sees public inputs and releases only.
    k: how many neighbours speak. sampling_rate: each unit takes part in each question with this
        probability; 1 means always, and then, for the mean, the exact Gaussian accountant applies.
    statistic: "mean", with noise of at least (high - low)/k, or "median", by the exponential
        mechanism on `grid_points` evenly spaced points. Noise is chosen so that `queries` questions
        cost at most epsilon.
    low, high: public bounds to which y is clipped. Bounds read off private numbers would break the
        claim, so there is no default. The closer they are, the less noise.
    queries, strategy, features, radius, votes_per_unit, ledger, random_state: as for
        `PrivateKNNClassifier`.

    Unit: one record, or one person with `groups=`. Source:
    docs/theory/private-knn.md#numbers.
    """

    _y_checks: ClassVar[dict[str, bool]] = {"y_numeric": True}

    _: KW_ONLY
    statistic: str = "mean"
    low: float | None = None
    high: float | None = None
    grid_points: int = 101

    def _read(self, y: NDArray[Any]) -> Targets:
        if self.low is None or self.high is None:
            raise InvalidArgument(
                "Expected low= and high=, the public bounds to which y is clipped; read from the "
                "private numbers they would leak the extreme ones."
            )
        low, high = finite(low=self.low), finite(high=self.high)
        if not low < high:
            raise refuse("low", self.low, f"below high={self.high!r}")
        targets = np.clip(y, low, high)
        return Targets(targets, public={"bounds_": (low, high)})

    def _price(self, asked: Neighbourly, queries: int, budget: Budget, *, listed: bool) -> Plan:
        low, high = finite(low=self.low), finite(high=self.high)
        if one_of(*STATISTICS, statistic=self.statistic) == "mean":
            return plan_mean(asked, queries, budget, low=low, high=high, listed=listed)
        grid = (low, high, at_least(2, grid_points=self.grid_points))
        return plan_median(asked, queries, budget, grid=grid, listed=listed)

    def _default_student(self) -> Any:
        return ValueStudent()

    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        values = np.concatenate([np.asarray(release.values) for release in self.releases_])
        # A mean's noise is known; how far a drawn median is off depends on the private numbers.
        noise = getattr(self.releases_[-1].mechanism, "sigma", None)
        return student.fit(outside, self.queries_, values, noise=noise)

    def _answers(self, release: Release) -> Floats:
        return self._within_bounds(release.values)

    def _public_facts(self) -> dict[str, Any]:
        return {"bounds": list(self.bounds_)}

    def predict(self, X: ArrayLike) -> Floats:
        """Return the student's numbers, within the bounds: post-processing, free of charge."""
        inputs = self._student_inputs(X)
        return self._within_bounds(self.student_.predict(inputs))

    def _within_bounds(self, values: Any) -> Floats:
        return np.asarray(np.clip(np.asarray(values, dtype=np.float64), *self.bounds_))
