"""Labels that spread, or a line: the student that public inputs and a released table support.

Two public signs. First, the table is its own test set: prototypes are cut into folds, a student
that never saw the rows of a fold says a class for each of its prototypes, and sum_j T[j, said_j]
estimates without bias how many records there it has right, for the noise of the rows left out knows
nothing of the student. Second, how well the public inputs cluster: whether the labels of the line,
which knows no neighbours, agree between neighbours beyond chance. The first decides where it is
clear of its noise, the second otherwise (docs/theory/speak-once.md says when that is wrong).
Public: it sees public inputs and a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students import LabelSpreadingStudent, LinearStudent
from tacit.students.graph import nearest
from tacit.students.posterior import answer_weights
from tacit.summaries.table import table_posterior

PENALTY = 0.1
"""Ridge of the linear student: a compromise (docs/results/speak-once.md)."""
CLEAR = 2.0
"""Deviations of the noise by which one student must be ahead on the table."""
CLUSTERED = 0.8
"""Agreement of neighbours, beyond chance, from which labels spread: MNIST and digits have above
0.9, Adult 0.7, California housing 0.46."""
_SAMPLE = 1000
_NEIGHBOURS = 7


class Choice(NamedTuple):
    """The chosen student, the posterior it was fitted on, and why.

    `gains` are sums of noisy table entries at prototypes left out, for spreading and for the line;
    `noise` is the deviation of the noise in their difference; `agreement` is that of neighbours.
    """

    student: Any
    posterior: Floats
    gains: Floats
    noise: float
    agreement: float


def default_students() -> list[Any]:
    """Return the two: labels that spread over a graph, and a linear student.

    >>> [type(student).__name__ for student in default_students()]
    ['LabelSpreadingStudent', 'LinearStudent']
    """
    return [LabelSpreadingStudent(), LinearStudent(penalty=PENALTY)]


def choose_student(
    students: Sequence[Any],
    X_public: NDArray[Any],
    places: Integers,
    table: ArrayLike,
    sigma: float,
    *,
    folds: int = 5,
) -> Choice:
    """Fit the two `students`, spreading first, on a noisy table; return the one it supports.

    `places` are the prototypes' rows of X_public; row j of the table speaks of places[j].

    >>> inputs = np.array([[-3.0], [-2.9], [-2.8], [2.8], [2.9], [3.0]])
    >>> table = [[9, 1], [8, 0], [9, 0], [1, 9], [0, 8], [1, 9]]
    >>> choice = choose_student(default_students(), inputs, np.arange(6), table, 0.5, folds=3)
    >>> choice.gains.tolist(), type(choice.student).__name__  # a graph of six says little
    ([36.0, 52.0], 'LinearStudent')
    """
    cells, noise = finite_array(table=table), positive(sigma=sigma)
    if len(students) != 2 or len(cells) != len(places):
        raise InvalidArgument("Expected two students, and a row of the table for each prototype.")
    whole = (places, table_posterior(cells, noise))
    parts = _folds(len(cells), at_least(2, folds=folds))
    lessons = [whole, *(_without(out, places, cells, noise) for out in parts)]
    if not all((answer_weights(rows) > 0).any() for _, rows in lessons):
        # Hardly anything was released: too little to compare students by.
        return Choice(students[0].fit(X_public, *whole), whole[1], np.zeros(2), np.inf, np.nan)
    fitted = [student.fit_each(X_public, lessons) for student in students]
    said = np.array([_said(each[1:], X_public, places, parts) for each in fitted])
    gains = cells[np.arange(len(cells)), said].sum(axis=1)
    spread = noise * float(np.sqrt(2 * (said[0] != said[1]).sum()))
    agreement = neighbours_agree(fitted[0][0].points_, fitted[1][0].predict(X_public))
    better = int(gains[1] > gains[0])
    if abs(gains[1] - gains[0]) <= CLEAR * spread:
        better = int(agreement < CLUSTERED)
    return Choice(fitted[better][0], whole[1], gains, spread, agreement)


def neighbours_agree(points: NDArray[Any], labels: Integers) -> float:
    """Return how often nearest neighbours have the same label, beyond chance: 0 none, 1 always.

    (agreement - chance)/(1 - chance), chance being that of two random inputs (Cohen's kappa).

    >>> points = np.repeat([[0.0], [5.0]], 20, axis=0)
    >>> neighbours_agree(points, np.repeat([0, 1], 20))
    1.0
    """
    shares = np.bincount(labels) / len(labels)
    chance = float((shares**2).sum())
    if len(points) < 2 or chance == 1:
        return 0.0
    asked = np.arange(0, len(points), -(-len(points) // _SAMPLE))
    count = min(_NEIGHBOURS + 1, len(points))
    found, _ = nearest(points[asked], points, count)
    others = found != asked[:, None]
    same = (labels[found] == labels[asked][:, None]) & others
    return (float(same.sum() / others.sum()) - chance) / (1 - chance)


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
