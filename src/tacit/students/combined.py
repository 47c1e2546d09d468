"""Three students in one: label spreading, softmax regression and neighbours, weighted by gain.

Queries are cut into folds. What the releases of a fold say of the classes that a student predicts
without them, summed, is its gain. Its weight is exp(gain/scale): where noise hides which is best,
all weigh alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from tacit._checks import Floats, Integers, at_least, simplex_rows
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent, Lesson, normalised, read_lesson
from tacit.students.estimators import LinearStudent
from tacit.students.graph import LabelSpreadingStudent, NearestStudent
from tacit.students.posterior import answer_weights

_PARTS = ("spreading", "linear", "nearest")
_DISAGREE = 0.4
"""Share of the queries at which two students typically differ (docs/theory/speak-once.md)."""

Decode = Callable[[Integers], Floats]
"""From the indices of the queries in use to their posteriors."""


@dataclass(eq=False, repr=False)
class CombinedStudent(BaseStudent):
    """Label spreading, softmax regression and nearest queries, weighted by support of releases.

    Deterministic. With a noisy table of votes, `weigh` uses it in place of the posteriors to choose
    the weights. Source: docs/theory/speak-once.md#choosing-the-student.

    Parameters
    ----------
    features : transformer, optional
        A public scikit-learn transformer, for all three; None uses the inputs as they are.
    penalty : float, ridge of the linear part, above 0
    folds : int, of the queries, to weigh the three, at least 2
    most_points : int, optional
        Of label spreading: how many public inputs it stores for predictions; None for all
        (`LabelSpreadingStudent`, docs/results/growth.md#public-inputs).

    Attributes
    ----------
    shares_ : array of shape (3,), weights of spreading, linear, nearest; they sum to 1
    gains_ : array of shape (3,), the support of releases for each one's predictions; not saved
    foretold_ : array of shape (queries, classes) or None
        Out-of-fold predictions of all three together for each query; None where hardly anything was
        released. Not saved.
    parts_ : list of students, the three, fitted on the inputs in the feature space

    Examples
    --------
    >>> inputs = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> student = CombinedStudent().fit(inputs, [0, 1, 3, 4], [[0.9, 0.1]] * 2 + [[0.2, 0.8]] * 2)
    >>> student.predict([[0.3], [4.9]]).tolist()
    [0, 1]
    """

    features: Any = None
    _: KW_ONLY
    penalty: float = 0.1
    folds: int = 5
    most_points: int | None = 20_000

    def _learn(self, lesson: Lesson) -> None:
        posterior = lesson.posterior
        # What a right answer adds, and how uncertain that is, as far as the posteriors know.
        uncertain = float((posterior * (1 - posterior)).max(axis=1).sum())
        scale = np.sqrt(max(_DISAGREE * uncertain, 1e-12))
        self._weigh(lesson, posterior, scale, lambda kept: posterior[kept])

    def weigh(
        self,
        X_public: ArrayLike,
        indices: ArrayLike,
        table: Floats,
        noise: float,
        decode: Callable[[Floats], Floats],
    ) -> Self:
        """Learn from a table of noisy votes, which also weighs the three.

        Parameters
        ----------
        X_public : array of shape (inputs, features), all public inputs
        indices : array of shape (rows,), the rows of `X_public` of the table's rows
        table : array of shape (rows, classes), votes with independent noise; public
        noise : float, standard deviation of the noise
        decode : callable
            From some rows of such a table to their posteriors; run without the fold that is left
            out.

        Returns
        -------
        CombinedStudent, itself, fitted
        """
        every = decode(table)
        lesson = read_lesson(X_public, indices, every)
        self.n_classes_, self.classes_ = every.shape[1], None
        self._fit_features(lesson.inputs)
        scale = noise * np.sqrt(_DISAGREE * len(table))
        self._weigh(lesson, table, scale, lambda kept: decode(table[kept]))
        return self

    def _weigh(self, lesson: Lesson, judge: Floats, scale: float, decode: Decode) -> None:
        view = self._view(lesson.inputs, np.float64)
        places = lesson.indices
        count = min(at_least(2, folds=self.folds), len(places))
        # Dealt out in turn: queries may be in the order of their clusters' sizes.
        parts = [np.arange(start, len(places), count) for start in range(count)]
        lessons = [(places, lesson.posterior)]
        for out in parts:
            kept = np.delete(np.arange(len(places)), out)
            lessons.append((places[kept], decode(kept)))
        students = self._new_parts()
        known = count > 1 and all((answer_weights(rows) > 0).any() for _, rows in lessons)
        fitted = [student.fit_each(view, lessons if known else lessons[:1]) for student in students]
        self.parts_ = [each[0] for each in fitted]
        self.gains_, self.foretold_ = np.zeros(len(students)), None
        if known:  # else hardly anything was released: too little to compare by
            said = np.array([_said(each[1:], view[places], parts) for each in fitted])
            self.gains_ = judge[np.arange(len(places)), said.argmax(axis=2)].sum(axis=1)
        self.shares_ = softmax(self.gains_ / scale)
        if known:
            self.foretold_ = np.einsum("s,sqc->qc", self.shares_, said)

    def _new_parts(self) -> list[BaseStudent]:
        return [
            LabelSpreadingStudent(most_points=self.most_points),
            LinearStudent(penalty=self.penalty),
            NearestStudent(),
        ]

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        view = self._view(inputs, np.float64)
        scores = [normalised(part._scores(view)) for part in self.parts_]
        return np.asarray(
            sum(share * each for share, each in zip(self.shares_, scores, strict=True))
        )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        found = {"shares": self.shares_}
        for name, part in zip(_PARTS, self.parts_, strict=True):
            found |= {f"{name}.{key}": array for key, array in part._arrays().items()}
        return found

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        self.shares_ = simplex_rows(shares=np.atleast_2d(arrays["shares"]))[0]
        self.parts_ = self._new_parts()
        if self.shares_.size != len(self.parts_):
            raise InvalidArgument("Expected a share for each of the three students.")
        for name, part in zip(_PARTS, self.parts_, strict=True):
            own = {
                key.partition(".")[2]: each for key, each in arrays.items() if key.startswith(name)
            }
            part.n_classes_, part.features_ = self.n_classes_, None
            part._restore(own)
            part.n_features_in_ = own["weights" if name == "linear" else "points"].shape[-1]


def _said(students: Sequence[Any], asked: NDArray[Any], parts: Sequence[Integers]) -> Floats:
    """Return out-of-fold class probabilities at each query."""
    said = np.empty((len(asked), students[0].n_classes_))
    for student, out in zip(students, parts, strict=True):
        said[out] = student.predict_proba(asked[out])
    return said
