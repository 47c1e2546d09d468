"""Votes at public prototypes: what a record says, what the noisy table means, who learns from it.

**Votes.** A record's vote is a vector of norm 1 without negative entries over (prototypes x
classes): weight 1/sqrt(votes) for its class at each of its nearest prototypes. Which these are
depends on that record and on the prototypes alone, bit for bit: distances are integers
(`tacit.neighbours`), and a tie goes to the lower number. So adding or removing a record moves the
table by exactly 1, and replacing one by sqrt 2 at the most, whatever the number of prototypes
(docs/theory/speak-once.md).

**Posterior.** Cell (j, c) of the table is the mass L of records that said class c at prototype j,
plus Gaussian noise of known deviation. Masses are drawn from one distribution over [0, largest], of
which nothing is assumed: it is estimated from all released cells together (nonparametric maximum
likelihood on a grid, by EM; Kiefer and Wolfowitz 1956). The posterior mean of each mass is then
known (Robbins), and a prototype's label distribution is its masses over their sum. Where noise
dominates, all masses shrink to one, and the row becomes uniform: such a prototype says nothing.

**Student.** Labels that spread, a line, or neighbours, by two public signs. First, the table is its
own test set: prototypes are cut into folds, a student that never saw the rows of a fold says a
class for each of its prototypes, and sum_j T[j, said_j] estimates without bias how many records
there it has right, for the noise of the rows left out knows nothing of the student. Second, how
well the public inputs cluster: whether the labels of the line, which knows no neighbours, agree
between neighbours beyond chance. The second names a student; the first overrules it where another
is ahead beyond the noise (docs/theory/speak-once.md says when that is wrong). From the release on
all is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, blocks, finite_array, positive, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms import Contributions
from tacit.neighbours import extended, feature_rows, questions
from tacit.students import (
    LabelSpreadingStudent,
    LinearStudent,
    NearestStudent,
    answer_weights,
    nearest,
)

_DISTANCES_AT_ONCE = 2**20
_NUMBER_BITS = 32


def nearest_prototypes(
    features: ArrayLike, prototypes: ArrayLike, votes: int, *, radius: float
) -> Integers:
    """Return the numbers of the `votes` nearest prototypes of each record, nearest first. Secret.

    Parameters
    ----------
    features : array of shape (records, dimensions)
        Of the private records. Secret.
    prototypes : array of shape (prototypes, dimensions)
        Public rows in the same space.
    votes : int
        At how many prototypes a record votes, at most as many as there are; public.
    radius : float
        Public, as in `tacit.neighbours.quantise`: features are compared on a grid of 2048 steps to
        the radius, and longer ones are scaled down to it.

    Returns
    -------
    array of int of shape (records, votes)
        Each row depends on its own record and the prototypes alone, bit for bit; a tie goes to the
        lower number. Secret.

    References
    ----------
    docs/theory/speak-once.md#prototype-votes

    Examples
    --------
    >>> nearest_prototypes([[0.1], [0.9]], [[0.0], [0.5], [1.0]], 2, radius=1.0).tolist()
    [[0, 1], [2, 1]]
    """
    places, rows = feature_rows("prototypes", prototypes), feature_rows("features", features)
    count = at_least(1, votes=votes)
    if count > len(places):
        raise refuse("votes", votes, f"at most {len(places)}, the number of prototypes")
    if rows.shape[1] != places.shape[1]:
        raise InvalidArgument(
            f"Expected features with the prototypes' {places.shape[1]} dimensions, "
            f"got {rows.shape[1]}."
        )
    # Sums over (-2 x, 1) and (p, |p|^2) are exact integers below 2^24, whatever their order.
    there = extended(places, positive(radius=radius)).T
    found = np.empty((len(rows), count), dtype=np.int64)
    for block in blocks(len(rows), _DISTANCES_AT_ONCE // len(places)):
        found[block] = _smallest(questions(rows[block], radius) @ there, count)
    return found


def _smallest(distances: NDArray[np.float32], count: int) -> Integers:
    """Return the columns of the smallest distances; packed with its number, each is unique."""
    packed = distances.astype(np.int64)
    packed <<= _NUMBER_BITS
    packed |= np.arange(packed.shape[1])
    if count < packed.shape[1]:
        packed = np.partition(packed, count - 1, axis=1)[:, :count]
    packed.sort(axis=1)
    return np.asarray(packed & (2**_NUMBER_BITS - 1))


def compact_view(view: Floats, width: int = 64) -> Floats:
    """Return public inputs in their `width` main directions: k-means finds medoids sooner there.

    Parameters
    ----------
    view : array of shape (inputs, features)
        Public inputs; private ones would be fitted to.
    width : int
        How many directions are kept.

    Returns
    -------
    array of shape (inputs, width)
        The view itself where it has no more features than that.

    Examples
    --------
    >>> compact_view(np.diag([3.0, 2.0, 1.0]), width=2).shape
    (3, 2)
    """
    if view.shape[1] <= at_least(1, width=width):
        return view
    _, vectors = np.linalg.eigh(view.T @ view)
    return np.asarray(view @ vectors[:, -width:])


def prototype_votes(
    nearest: Integers,
    labels: Integers,
    *,
    n_prototypes: int,
    n_classes: int,
    units: NDArray[Any] | None = None,
) -> Contributions:
    """Return what records say at their prototypes: 1/sqrt(votes) for their class. Secret.

    Parameters
    ----------
    nearest : array of int of shape (records, votes)
        From `nearest_prototypes`. Secret.
    labels : array of int of shape (records,)
        Classes 0 .. n_classes - 1. Secret.
    n_prototypes : int
        How many prototypes there are; public.
    n_classes : int
        How many classes there are; public.
    units : array of shape (records,), optional
        Whose each record is, where a person may have several. Secret.

    Returns
    -------
    Contributions
        For a `NoisySum` of n_prototypes rows and n_classes columns. Secret.

    Notes
    -----
    A record's vote has norm 1, so that adding or removing it moves the table by 1 at the most.
    Unit: one record, or one person with `units`.

    Examples
    --------
    >>> prototype_votes(np.array([[0, 1]]), np.array([2]), n_prototypes=4, n_classes=3)
    Contributions(secret)
    """
    weight = 1 / math.sqrt(nearest.shape[1])

    def left(rows: Integers) -> Floats:
        votes = np.zeros((len(rows), n_prototypes))
        np.put_along_axis(votes, nearest[rows], weight, axis=1)
        return votes

    return Contributions(len(labels), left, one_hot(labels, n_classes), units)


def one_hot(labels: Integers, n_classes: int, centre: Floats | float = 0.0) -> Any:
    """Return a function of row numbers that gives e_label - centre. Secret.

    Parameters
    ----------
    labels : array of int of shape (records,)
        Classes 0 .. n_classes - 1. Secret.
    n_classes : int
        How many classes there are; public.
    centre : float or array of shape (classes,)
        What is taken off each label; public.

    Returns
    -------
    callable
        Of an array of row numbers; it returns an array (rows, classes). Secret.
    """
    basis = np.eye(n_classes) - centre

    def right(rows: Integers) -> Floats:
        return basis[labels[rows]]

    return right


_STEPS_A_SIGMA = 2.0
_MOST_STEPS = 400
_FEWEST_STEPS = 40
_ROUNDS = 200
_CELLS = 20_000
"""Cells from which the distribution of masses is estimated."""


def table_posterior(table: ArrayLike, sigma: float) -> Floats:
    """Return the expected label distribution of each row of a noisy table; rows sum to 1.

    Parameters
    ----------
    table : array of shape (prototypes, classes)
        A release of `prototype_votes`; public.
    sigma : float
        Standard deviation of the noise in each cell.

    Returns
    -------
    array of shape (prototypes, classes)
        E[L_jc | T_jc] / sum_c E[L_jc | T_jc]; uniform where noise dominates. Public.

    Notes
    -----
    The prior of the masses L is estimated from all cells: the docstring of
    `tacit.summaries.prototypes` says how.

    Examples
    --------
    >>> table = [[90.0, 3.0, -4.0], [2.0, 75.0, 1.0], [-3.0, 1.0, 88.0]]
    >>> table_posterior(table, sigma=3.0).argmax(axis=1).tolist()
    [0, 1, 2]
    """
    cells = finite_array(table=table)
    if cells.ndim != 2 or cells.shape[1] < 2 or 0 in cells.shape:
        raise InvalidArgument(
            f"Expected a table (prototypes, classes >= 2), got shape {cells.shape}."
        )
    noise = positive(sigma=sigma)
    masses = _expected(cells.reshape(-1), noise).reshape(cells.shape)
    sums = masses.sum(axis=1, keepdims=True)
    return np.asarray(np.where(sums > 0, masses / np.maximum(sums, 1e-300), 1 / cells.shape[1]))


def _expected(cells: Floats, sigma: float) -> Floats:
    """Return E[mass | cell] for each cell."""
    grid = _mass_grid(float(cells.max()), sigma)
    every = -(-cells.size // _CELLS)
    prior = _fitted(_likelihood(cells[::every], grid, sigma))
    expected = np.empty(cells.size)
    for block in blocks(cells.size, 2**20 // grid.size):
        weights = _likelihood(cells[block], grid, sigma) * prior
        expected[block] = (weights @ grid) / weights.sum(axis=1)
    return expected


def _mass_grid(largest: float, sigma: float) -> Floats:
    """Return masses from 0 to the largest cell: even steps of half a sigma, or coarser."""
    top = max(largest, sigma)
    steps = int(np.clip(_STEPS_A_SIGMA * top / sigma, _FEWEST_STEPS, _MOST_STEPS))
    # Quadratic spacing: small masses are many, and their shares matter.
    return np.asarray(top * np.linspace(0.0, 1.0, steps + 1) ** 1.5)


def _likelihood(cells: Floats, grid: Floats, sigma: float) -> Floats:
    """Return the likelihood of each mass, relative to the row's best."""
    logs = -0.5 * ((cells[:, None] - grid) / sigma) ** 2
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _fitted(likelihood: Floats) -> Floats:
    """Return the weights of the grid under which these cells are most likely, by EM."""
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    uniform = weights
    for _ in range(_ROUNDS):
        weights = weights * (likelihood.T @ (1 / (likelihood @ weights))) / len(likelihood)
    # The uniform prior counts as one cell: no mass is ever ruled out.
    return np.asarray((len(likelihood) * weights + uniform) / (len(likelihood) + 1))


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

    Returns
    -------
    list
        Students that are not fitted yet, in the order that `choose_student` expects.

    Examples
    --------
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

    Parameters
    ----------
    students : sequence of students
        Two or more. The first spreads labels, the second is linear: public inputs choose between
        these two.
    X_public : array of shape (inputs, features)
        All public inputs.
    places : array of int of shape (prototypes,)
        The prototypes' rows of X_public; row j of the table speaks of places[j].
    table : array of shape (prototypes, classes)
        A release of `prototype_votes`; public.
    sigma : float
        Standard deviation of the noise in each cell.
    folds : int
        Into how many parts prototypes are cut, at least 2.

    Returns
    -------
    Choice
        `student`, fitted; `posterior`, that it was fitted on; and why it was chosen: `gains`,
        `noise`, `agreement`. Public.

    References
    ----------
    docs/theory/speak-once.md#choosing-the-student

    Examples
    --------
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
    count = min(at_least(2, folds=folds), len(cells))
    # Dealt out in turn: prototypes are in the order of their clusters' sizes.
    parts = [np.arange(start, len(cells), folds) for start in range(count)]
    lessons = [whole]
    for out in parts:
        kept = np.delete(cells, out, axis=0)
        lessons.append((np.delete(places, out), table_posterior(kept, noise)))
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


def _said(
    students: Sequence[Any], inputs: NDArray[Any], places: Integers, parts: Sequence[Integers]
) -> Integers:
    """Return the class of each prototype, as the student says that was fitted without it."""
    said = np.empty(len(places), dtype=np.int64)
    for student, out in zip(students, parts, strict=True):
        said[out] = student.predict(inputs[places[out]])
    return said
