"""Which student a released table supports: the table is its own test set.

Prototypes are cut into folds. A student that never saw the rows of a fold says a class for each of
its prototypes, and the table says how many records there have that class: sum_j T[j, said_j]. The
noise of different rows is independent, so that the noise of the rows left out knows nothing of the
student, and the sum has the expectation sum_j L[j, said_j]: the mass of records that the student
labels rightly. Whichever student gets the larger sum is taken. On inputs that cluster labels spread
well to prototypes left out, on others a linear student is ahead; no measure of clusters is needed.
Public: it sees public inputs and a release (docs/theory/speak-once.md says when it is wrong).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students import LabelSpreadingStudent, LinearStudent
from tacit.students.posterior import answer_weights
from tacit.summaries.table import table_posterior

PENALTY = 0.1
"""Ridge of the linear candidate; chosen on California housing."""


class Choice(NamedTuple):
    """The chosen student, fitted on the whole table, and what each candidate had right.

    `gains` are sums of noisy table entries at prototypes left out; `noise` is the deviation of the
    noise in the difference of the two largest.
    """

    student: Any
    gains: Floats
    noise: float


def default_students() -> list[Any]:
    """Return the candidates: labels that spread over a graph, and a linear student.

    >>> [type(student).__name__ for student in default_students()]
    ['LabelSpreadingStudent', 'LinearStudent']
    """
    return [LabelSpreadingStudent(), LinearStudent(penalty=PENALTY)]


def choose_student(
    candidates: Sequence[Any],
    X_public: NDArray[Any],
    places: Integers,
    table: ArrayLike,
    sigma: float,
    *,
    folds: int = 5,
) -> Choice:
    """Fit each candidate, with and without each fold of prototypes, and keep the best.

    `places` are the prototypes' rows of X_public; row j of the noisy table speaks of places[j]. A
    tie goes to the first candidate. Public: it sees public inputs and a release.

    >>> from tacit.students import LabelSpreadingStudent, LinearStudent
    >>> inputs = np.array([[-3.0], [-2.9], [-2.8], [2.8], [2.9], [3.0]])
    >>> table = [[9, 1], [8, 0], [9, 0], [1, 9], [0, 8], [1, 9]]
    >>> students = [LabelSpreadingStudent(n_neighbors=2), LinearStudent()]
    >>> choice = choose_student(students, inputs, np.arange(6), table, 0.5, folds=3)
    >>> choice.gains.tolist()
    [52.0, 52.0]
    """
    cells, noise = finite_array(table=table), positive(sigma=sigma)
    if not candidates or len(cells) != len(places):
        raise InvalidArgument("Expected candidates, and a row of the table for each prototype.")
    whole = (places, table_posterior(cells, noise))
    if len(candidates) == 1:
        return Choice(candidates[0].fit(X_public, *whole), np.zeros(1), np.inf)
    parts = _folds(len(cells), at_least(2, folds=folds))
    lessons = [whole, *(_without(out, places, cells, noise) for out in parts)]
    if not all((answer_weights(rows) > 0).any() for _, rows in lessons):
        # Hardly anything was released: too little to compare students by.
        return Choice(candidates[0].fit(X_public, *whole), np.zeros(len(candidates)), np.inf)
    fitted = [student.fit_each(X_public, lessons) for student in candidates]
    said = np.array([_said(students[1:], X_public, places, parts) for students in fitted])
    gains = cells[np.arange(len(cells)), said].sum(axis=1)
    order = np.argsort(-gains, kind="stable")
    differ = int((said[order[0]] != said[order[1]]).sum())
    return Choice(fitted[order[0]][0], gains, noise * float(np.sqrt(2 * differ)))


def _folds(n_rows: int, folds: int) -> list[Integers]:
    """Deal the prototypes out in turn; they are in the order of their clusters' sizes."""
    return [np.arange(start, n_rows, folds) for start in range(min(folds, n_rows))]


def _without(
    out: Integers, places: Integers, cells: Floats, noise: float
) -> tuple[Integers, Floats]:
    """Return the lesson of the table without some of its rows."""
    kept = np.delete(np.arange(len(cells)), out)
    return places[kept], table_posterior(cells[kept], noise)


def _said(
    students: Sequence[Any], inputs: NDArray[Any], places: Integers, parts: Sequence[Integers]
) -> Integers:
    """Return the class of each prototype, as the student says that was fitted without it."""
    said = np.empty(len(places), dtype=np.int64)
    for student, out in zip(students, parts, strict=True):
        said[out] = student.predict(inputs[places[out]])
    return said
