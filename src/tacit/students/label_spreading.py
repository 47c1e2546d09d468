"""A student that spreads the released labels over the neighbour graph of the public inputs.

Zhou et al., "Learning with local and global consistency" (2004), with posteriors instead of
certain labels. Public inputs and releases only: nothing private ever enters
this floor. The fitted student holds the public inputs (in the feature space) and is published with
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tacit._checks import Floats, at_least, positive, probability
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent
from tacit.students.graph import Features, nearest, similarity, spread
from tacit.students.inputs import Lesson, flat_rows, normalised, read_lesson
from tacit.students.posterior import posterior_rows

_FLOOR = 1e-6  # no probability is 0: a neighbour proves nothing


@dataclass(eq=False, repr=False)
class LabelSpreadingStudent(BaseStudent):
    """Spread each released posterior over a k-nearest-neighbour graph of the public inputs.

    F = (I - alpha S)^-1 Y over all public inputs; a new input takes the mean of its neighbours'
    rows, weighted by inverse squared distance. Spreading flattens: a row is raised to the power
    `sharpness` before it is normalised, or its probabilities would be far too modest.

    It assumes that classes cluster. Queries count alike, however many inputs they stand for: where
    a dense class has few of them and a sparse one many, the sparse one wins everywhere; then take
    `NearestStudent`, or a smaller alpha.

    features: a public scikit-learn transformer, or None to use the inputs as they are.
    n_neighbors, alpha, sharpness: the defaults were chosen on MNIST training images and USPS.
    Learned: `spread_`, the posterior of every public input. Deterministic.

    >>> inputs = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> student = LabelSpreadingStudent(n_neighbors=2)
    >>> student = student.fit(inputs, [0, 3], [[0.9, 0.1], [0.2, 0.8]])
    >>> student.predict([[0.3], [4.9]]).tolist()
    [0, 1]
    """

    features: Any = None
    _: KW_ONLY
    n_neighbors: int = 7
    alpha: float = 0.98
    sharpness: float = 3.0

    def fit_each(
        self, X_public: ArrayLike, lessons: Sequence[tuple[ArrayLike, ArrayLike]]
    ) -> list[Self]:
        """Return one fitted clone for each lesson; they share the graph of the inputs."""
        first, inputs = clone(self), flat_rows(X_public=X_public)
        first._see(inputs)
        connected = first._connected(inputs)
        students = []
        for indices, posterior in lessons:
            student, lesson = clone(self), read_lesson(inputs, indices, posterior)
            student.n_features_in_, student.features_ = first.n_features_in_, first.features_
            student.n_classes_ = lesson.posterior.shape[1]
            student._spread(lesson, *connected)
            students.append(student)
        return students

    def _learn(self, lesson: Lesson) -> None:
        self._spread(lesson, *self._connected(lesson.inputs))

    def _spread(self, lesson: Lesson, points: Features, graph: Any) -> None:
        alpha, sharpness = probability(alpha=self.alpha), positive(sharpness=self.sharpness)
        known, self.points_ = _released(lesson), points
        if graph is not None:
            known = spread(graph, known, alpha)
        self.spread_ = _sharpened(normalised(known), sharpness)
        # What no label reaches gets the mean of the releases: the best guess there is.
        answers = lesson.posterior[lesson.answered]
        self.spread_[known.sum(axis=1) == 0] = answers.mean(axis=0)

    def _connected(self, inputs: NDArray[Any]) -> tuple[Features, Any]:
        """Return the public inputs in the feature space, and their graph; None for one input."""
        count = min(at_least(1, n_neighbors=self.n_neighbors), len(inputs) - 1)
        points = np.asarray(self._view(inputs), dtype=np.float32)
        if not count:
            return points, None
        return points, similarity(nearest(points, points, count, same=True)[0])

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        count = min(at_least(1, n_neighbors=self.n_neighbors), len(self.points_))
        view = np.asarray(self._view(inputs), dtype=np.float32)
        neighbours, distances = nearest(view, self.points_, count)
        weights = 1 / np.maximum(distances.astype(np.float64), 1e-6 * (1 + distances.max()))
        return np.asarray((weights[:, :, None] * self.spread_[neighbours]).sum(axis=1))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"points": self.points_, "spread": self.spread_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.points_ = flat_rows(points=arrays["points"]).astype(np.float32, copy=False)
        self.spread_ = posterior_rows(arrays["spread"])
        if self.spread_.shape != (len(self.points_), self.n_classes_):
            raise InvalidArgument("Expected one posterior for each of the saved points.")


def _released(lesson: Lesson) -> Floats:
    """Return Y: the posteriors of the answered queries, at their public inputs."""
    labels = np.zeros((len(lesson.inputs), lesson.posterior.shape[1]))
    answered = lesson.answered
    np.add.at(labels, lesson.indices[answered], lesson.posterior[answered])
    return labels


def _sharpened(rows: Floats, power: float) -> Floats:
    sharp = normalised((rows / rows.max(axis=1, keepdims=True)) ** power)
    return np.asarray((1 - _FLOOR) * sharp + _FLOOR / rows.shape[1])
