"""Three students in one: labels that spread, a line, and neighbours, by what each foretells.

Each is fitted on all releases; how much it counts is told by folds. Releases are cut into parts,
and a student that never saw those of a part says a class for each of its inputs. What releases
there say of these classes, added up, is the student's gain. A student counts with
exp(gain/scale): where noise hides which is best, all count alike, and the mean of three is better
than the wrong one.
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
"""From the numbers of the queries that are kept to the posterior of each of them."""


@dataclass(eq=False, repr=False)
class CombinedStudent(BaseStudent):
    """Labels that spread, a softmax regression and nearest queries, as releases support each.

    Parameters
    ----------
    features : transformer, optional
        A public scikit-learn transformer, in whose space all three look; None uses the inputs as
        they are.
    penalty : float
        Ridge of the linear part, above 0.
    folds : int
        Into how many parts the queries are cut to weigh the three, at least 2.
    most_points : int, optional
        Of the spreading part: how many public inputs it keeps for predictions; None keeps all
        (`LabelSpreadingStudent`, docs/results/growth.md#public-inputs).

    Attributes
    ----------
    shares_ : array of shape (3,)
        How much each counts: spreading, linear, nearest. They add up to 1.
    gains_ : array of shape (3,)
        What the releases say of the classes that each foretold; not saved.
    foretold_ : array of shape (queries, classes) or None
        What all three, as they count, say of each query without having seen what was released of
        it; None where hardly anything was released. Not saved.
    parts_ : list of students
        The three, fitted on the inputs in the feature space.
    n_features_in_, n_classes_ : int
        Numbers in an input, and classes in a posterior.
    features_ : transformer or None
        `features`, fitted on the public inputs.

    Notes
    -----
    Deterministic. Where a noisy table of votes is at hand, `weigh` takes it as the judge instead of
    the posteriors.

    References
    ----------
    docs/theory/speak-once.md#choosing-the-student

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
        """Learn from a table of noisy votes, which judges the three as well.

        Parameters
        ----------
        X_public : array of shape (inputs, features)
            All public inputs.
        indices : array of shape (rows,)
            Which rows of `X_public` the table's rows are about.
        table : array of shape (rows, classes)
            Votes with independent noise; public.
        noise : float
            Standard deviation of the noise.
        decode : callable
            From some rows of such a table to the posterior of each: what is left out of a fold must
            not shape what the others mean.

        Returns
        -------
        CombinedStudent
            Itself, fitted.
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
    """Return the classes' chances at each query, as the student says that was fitted without it."""
    said = np.empty((len(asked), students[0].n_classes_))
    for student, out in zip(students, parts, strict=True):
        said[out] = student.predict_proba(asked[out])
    return said
