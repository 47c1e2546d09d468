"""Labels that spread, a line, or neighbours: the student that a released table supports.

Two public signs. First, the table is its own test set: prototypes are cut into folds, a student
that never saw the rows of a fold says a class for each of its prototypes, and sum_j T[j, said_j]
estimates without bias how many records there it has right, for the noise of the rows left out knows
nothing of the student. Second, how well the public inputs cluster: whether the labels of the line,
which knows no neighbours, agree between neighbours beyond chance. The second names a student; the
first overrules it where another is ahead beyond the noise (docs/theory/speak-once.md says when that
is wrong). Public: it sees public inputs and a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students import (
    LabelSpreadingStudent,
    LinearStudent,
    NearestStudent,
    answer_weights,
    nearest,
)
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

    `gains` are sums of noisy table entries at prototypes left out, for spreading, the line and
    neighbours; `noise` are the deviations of the noise in their differences from the student that
    the public inputs alone would choose; `agreement` is that of neighbours.
    """

    student: Any
    posterior: Floats
    gains: Floats
    noise: Floats
    agreement: float


def default_students() -> list[Any]:
    """Return the three: labels that spread over a graph, a line, and the nearest prototypes.

    >>> [type(student).__name__ for student in default_students()]
    ['LabelSpreadingStudent', 'LinearStudent', 'NearestStudent']
    """
    return [LabelSpreadingStudent(), LinearStudent(penalty=PENALTY), NearestStudent()]


def choose_student(
    students: Sequence[Any],
    X_public: NDArray[Any],
    places: Integers,
    table: ArrayLike,
    sigma: float,
    *,
    folds: int = 5,
) -> Choice:
    """Fit the `students` on a noisy table and return the one it supports.

    The first spreads labels, the second is linear: public inputs choose between these two.
    `places` are the prototypes' rows of X_public; row j of the table speaks of places[j].

    >>> inputs = np.array([[-3.0], [-2.9], [-2.8], [2.8], [2.9], [3.0]])
    >>> table = [[9, 1], [8, 0], [9, 0], [1, 9], [0, 8], [1, 9]]
    >>> choice = choose_student(default_students(), inputs, np.arange(6), table, 0.5, folds=3)
    >>> choice.gains.tolist(), type(choice.student).__name__  # a graph of six says little
    ([36.0, 52.0, 52.0], 'LinearStudent')
    """
    cells, noise = finite_array(table=table), positive(sigma=sigma)
    if len(students) < 2 or len(cells) != len(places):
        raise InvalidArgument(
            "Expected two students or more, and a row of the table for each prototype."
        )
    whole = (places, table_posterior(cells, noise))
    parts = _folds(len(cells), at_least(2, folds=folds))
    lessons = [whole, *(_without(out, places, cells, noise) for out in parts)]
    if not all((answer_weights(rows) > 0).any() for _, rows in lessons):
        # Hardly anything was released: too little to compare students by.
        nothing = np.zeros(len(students))
        return Choice(students[0].fit(X_public, *whole), whole[1], nothing, nothing, np.nan)
    fitted = [student.fit_each(X_public, lessons) for student in students]
    said = np.array([_said(each[1:], X_public, places, parts) for each in fitted])
    agreement = neighbours_agree(fitted[0][0].points_, fitted[1][0].predict(X_public))
    preferred = int(agreement < CLUSTERED)
    gains = cells[np.arange(len(cells)), said].sum(axis=1)
    spread = noise * np.sqrt(2.0 * (said != said[preferred]).sum(axis=1))
    best = int(gains.argmax())
    if gains[best] - gains[preferred] <= CLEAR * spread[best]:
        best = preferred
    return Choice(fitted[best][0], whole[1], gains, spread, agreement)


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
