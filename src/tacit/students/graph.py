"""The neighbour graph of the public inputs, and the students that use neighbours.

Label spreading of Zhou et al. (2004): F = (I - alpha S)^-1 Y with S = D^-1/2 W D^-1/2, by conjugate
gradients on the sparse graph, with posteriors for labels. Nothing private enters. The students hold
public inputs (in the feature space) and are published with them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tacit._checks import Floats, Integers, at_least, positive, probability, simplex_rows
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent, Lesson, flat_rows, normalised, read_lesson
from tacit.students.neighbour_search import (
    Features,
    Lists,
    graph_neighbours,
    nearest,
    nearest_in_lists,
)

_TOLERANCE = 1e-8
_MOST_ROUNDS = 2000


def similarity(neighbours: Integers) -> Any:
    """Return sparse S = D^-1/2 W D^-1/2, W the mean of the kNN matrix and its transpose."""
    from scipy.sparse import csr_array, diags_array

    n, k = neighbours.shape
    starts = np.arange(0, n * k + 1, k)
    directed = csr_array((np.ones(n * k), neighbours.reshape(-1), starts), shape=(n, n))
    both = (directed + directed.T) / 2
    roots = diags_array(1 / np.sqrt(both.sum(axis=1)))
    return (roots @ both @ roots).tocsr()


def spread(graph: Any, labels: Floats, alpha: float) -> Floats:
    """Solve (I - alpha S) F = Y for all classes at once, by conjugate gradients.

    I - alpha S is positive definite for 0 <= alpha < 1. Rows that no label reaches stay exactly 0.
    """
    solution = np.zeros_like(labels)
    residual = labels.copy()
    direction = residual.copy()
    energy = (residual**2).sum(axis=0)
    goal = _TOLERANCE**2 * energy
    for _ in range(_MOST_ROUNDS):
        if (energy <= goal).all():
            break
        image = direction - alpha * (graph @ direction)
        # A class without labels has energy 0 and must stay at 0.
        step = energy / np.maximum((direction * image).sum(axis=0), np.finfo(float).tiny)
        solution += step * direction
        residual -= step * image
        before, energy = energy, (residual**2).sum(axis=0)
        direction = residual + energy / np.maximum(before, np.finfo(float).tiny) * direction
    return np.maximum(solution, 0.0)


class _NeighbourStudent(BaseStudent):
    """Base of both: public points, and a posterior of each, the second of `_saved`."""

    n_neighbors: int
    points_: Features
    lists_: Lists | None = None

    def _near(self, inputs: NDArray[Any]) -> tuple[Integers, Features]:
        count = min(at_least(1, n_neighbors=self.n_neighbors), len(self.points_))
        view = self._view(inputs, np.float32)
        if self.lists_ is not None:
            return nearest_in_lists(view, self.lists_, count)
        return nearest(view, self.points_, count, precise=True)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        centres = {} if self.lists_ is None else {"centres": self.lists_.centres}
        return super()._arrays() | centres

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        super()._restore(arrays)
        self.points_ = flat_rows(points=self.points_).astype(np.float32)
        posterior = simplex_rows(posterior=arrays[self._saved[1]])
        if posterior.shape != (len(self.points_), self.n_classes_):
            raise InvalidArgument("Expected one posterior for each of the saved points.")
        self.lists_ = None  # also where an older tacit saved very many points: they meet all
        if "centres" in arrays:
            centres = flat_rows(centres=arrays["centres"]).astype(np.float32)
            if centres.shape[1] != self.points_.shape[1]:
                raise InvalidArgument("Expected centres in the space of the saved points.")
            self.lists_ = Lists.around(np.ascontiguousarray(centres), self.points_)


@dataclass(eq=False, repr=False)
class NearestStudent(_NeighbourStudent):
    """Mean of the posteriors of the nearest answered queries (Cover and Hart 1967). Deterministic.

    Parameters
    ----------
    features : transformer, optional
        A public scikit-learn transformer, in whose space distances are taken; None uses the inputs.
    n_neighbors : int, how many answered queries are averaged; all of them if there are fewer

    Attributes
    ----------
    points_ : array of shape (answered queries, features)
        The answered queries in the feature space: public inputs, published with the student.
    posterior_ : array of shape (answered queries, classes), what was released on each
    """

    _saved = ("points", "posterior")

    features: Any = None
    _: KW_ONLY
    n_neighbors: int = 3

    def _learn(self, lesson: Lesson) -> None:
        at_least(1, n_neighbors=self.n_neighbors)
        answered = lesson.inputs[lesson.indices[lesson.answered]]
        self.points_ = self._view(answered, np.float32)
        self.posterior_ = lesson.posterior[lesson.answered]

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        neighbours, _ = self._near(inputs)
        return np.asarray(self.posterior_[neighbours].mean(axis=1))


_FLOOR = 1e-6  # no probability is 0: a neighbour proves nothing
NEAREST_SHARE = 1e-6
"""Of 1 and the largest distance: what counts as no distance at all."""


@dataclass(eq=False, repr=False)
class LabelSpreadingStudent(_NeighbourStudent):
    """Spread each released posterior over a k-nearest-neighbour graph of the public inputs.

    F = (I - alpha S)^-1 Y over all public inputs; a new input takes the mean of its neighbours'
    rows, weighted by inverse squared distance. The graph is exact up to 50,000 public inputs, and
    nearly so beyond. Queries count alike: where a dense class has few and a sparse one many, the
    sparse one wins everywhere; then take `NearestStudent`, or a smaller alpha. The defaults were
    chosen on MNIST training images and USPS. Deterministic. Source: Zhou et al., "Learning with
    local and global consistency" (2004).

    Parameters
    ----------
    features : transformer, optional
        A public scikit-learn transformer, in whose space the graph is made; None uses the inputs.
    n_neighbors : int, neighbours of each input in the graph, and of a new input
    alpha : float
        How far labels travel, strictly between 0 and 1: near 0 they stay where they were released.
    sharpness : float, power of a row before it is normalised, for spreading flattens; 1 for none
    most_points : int, optional
        How many public inputs the student stores for predictions, drawn once if there are more: all
        of them take part in spreading. None for all. Of more than 20,000, a new input is compared
        with those in the lists of its eight nearest of sqrt(n) centres alone, which are saved with
        the student; an ONNX model compares it with all, and may find a neighbour that they miss.

    Attributes
    ----------
    points_ : array of shape (stored inputs, features)
        The public inputs in the feature space, published with the student.
    spread_ : array of shape (stored inputs, classes), the posterior of each of them

    Examples
    --------
    >>> inputs = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> student = LabelSpreadingStudent(n_neighbors=2)
    >>> student = student.fit(inputs, [0, 3], [[0.9, 0.1], [0.2, 0.8]])
    >>> student.predict([[0.3], [4.9]]).tolist()
    [0, 1]
    """

    _saved = ("points", "spread")

    features: Any = None
    _: KW_ONLY
    n_neighbors: int = 7
    alpha: float = 0.98
    sharpness: float = 3.0
    most_points: int | None = 20_000

    def fit_each(
        self, X_public: ArrayLike, lessons: Sequence[tuple[ArrayLike, ArrayLike]]
    ) -> list[Self]:
        """Return one fitted clone for each training set; they share the graph of the inputs.

        Parameters
        ----------
        X_public : array of shape (inputs, features), all public inputs
        lessons : sequence of pairs, `indices` and `posterior` as `fit` takes them

        Returns
        -------
        list of LabelSpreadingStudent
        """
        first, inputs = clone(self), flat_rows(X_public=X_public)
        first._fit_features(inputs)
        connected = first._connected(inputs)
        students = []
        for indices, posterior in lessons:
            student, lesson = copy.copy(first), read_lesson(inputs, indices, posterior)
            student.n_classes_ = lesson.posterior.shape[1]
            student._spread(lesson, *connected)
            students.append(student)
        return students

    def _learn(self, lesson: Lesson) -> None:
        self._spread(lesson, *self._connected(lesson.inputs))

    def _spread(self, lesson: Lesson, points: Features, graph: Any) -> None:
        alpha, sharpness = probability(alpha=self.alpha), positive(sharpness=self.sharpness)
        answers = lesson.posterior[lesson.answered]
        known, kept = np.zeros((len(points), answers.shape[1])), self._kept(len(points))
        np.add.at(known, lesson.indices[lesson.answered], answers)
        if graph is not None:
            known = spread(graph, known, alpha)
        self.spread_ = _sharpened(normalised(known), sharpness)
        # What no label reaches gets the mean of the releases: the best guess there is.
        self.spread_[known.sum(axis=1) == 0] = answers.mean(axis=0)
        self.points_, self.spread_ = points[kept], self.spread_[kept]

    def _kept(self, count: int) -> Integers | slice:
        """Return which of so many inputs are stored for predictions: `most_points` of them."""
        if self.most_points is None or count <= at_least(1, most_points=self.most_points):
            return slice(None)
        drawn = np.random.default_rng(0).choice(count, self.most_points, replace=False)
        return np.asarray(np.sort(drawn))

    def _connected(self, inputs: NDArray[Any]) -> tuple[Features, Any]:
        """Return the public inputs in the feature space, and their graph; None for one input."""
        count = min(at_least(1, n_neighbors=self.n_neighbors), len(inputs) - 1)
        points = self._view(inputs, np.float32)
        self.lists_ = Lists.of(points[self._kept(len(points))])
        if not count:
            return points, None
        return points, similarity(graph_neighbours(points, count))

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        neighbours, distances = self._near(inputs)
        # Of its own neighbours alone: what an input is told does not depend on its company.
        least = NEAREST_SHARE * (1 + distances.max(axis=1, keepdims=True).astype(np.float64))
        weights = 1 / np.maximum(distances, least)
        return np.asarray((weights[:, :, None] * self.spread_[neighbours]).sum(axis=1))


def _sharpened(rows: Floats, power: float) -> Floats:
    sharp = normalised((rows / rows.max(axis=1, keepdims=True)) ** power)
    return np.asarray((1 - _FLOOR) * sharp + _FLOOR / rows.shape[1])
