"""A student that asks the nearest answered queries, and nothing else.

It assumes neither that inputs cluster nor that classes are apart by a line: it is what a released
table says of itself. Public inputs and releases only: nothing private ever enters this floor. The
fitted student holds the answered queries (in the feature space) and is published with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, at_least
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent
from tacit.students.graph import nearest
from tacit.students.inputs import Lesson, flat_rows
from tacit.students.posterior import posterior_rows


@dataclass(eq=False, repr=False)
class NearestStudent(BaseStudent):
    """Mean of the posteriors of the nearest answered queries (Cover and Hart 1967).

    features: a public scikit-learn transformer, or None to use the inputs as they are.
    n_neighbors: how many answered queries an input asks. Deterministic.
    Learned: `points_`, the answered queries, and `posterior_`, what was released on each.

    >>> student = NearestStudent(n_neighbors=1)
    >>> student = student.fit([[0.0], [0.1], [5.0]], [0, 2], [[0.9, 0.1], [0.2, 0.8]])
    >>> student.predict([[1.0], [4.0]]).tolist()
    [0, 1]
    """

    features: Any = None
    _: KW_ONLY
    n_neighbors: int = 3

    def _learn(self, lesson: Lesson) -> None:
        at_least(1, n_neighbors=self.n_neighbors)
        answered = lesson.inputs[lesson.indices[lesson.answered]]
        self.points_ = np.asarray(self._view(answered), dtype=np.float32)
        self.posterior_ = lesson.posterior[lesson.answered]

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        count = min(at_least(1, n_neighbors=self.n_neighbors), len(self.points_))
        view = np.asarray(self._view(inputs), dtype=np.float32)
        neighbours, _ = nearest(view, self.points_, count)
        return np.asarray(self.posterior_[neighbours].mean(axis=1))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"points": self.points_, "posterior": self.posterior_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.points_ = flat_rows(points=arrays["points"]).astype(np.float32, copy=False)
        self.posterior_ = posterior_rows(arrays["posterior"])
        if self.posterior_.shape != (len(self.points_), self.n_classes_):
            raise InvalidArgument("Expected one posterior for each of the saved points.")
