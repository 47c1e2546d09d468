"""Votes at public prototypes: a record's vote, and the posterior of the noisy table.

A vote has norm 1 without negative entries: 1/sqrt(votes) for the class at each of the nearest
prototypes, which depend on that record and the prototypes alone, bit for bit. Adding or removing a
record moves the table by exactly 1, replacing one by at most sqrt 2 (docs/theory/speak-once.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, blocks, finite_array, positive, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms import Contributions
from tacit.neighbours import extended, feature_rows, questions

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
        Public, as in `tacit.neighbours.quantise`: a grid of 2048 steps to the radius, to which
        longer features are scaled down.

    Returns
    -------
    array of int of shape (records, votes)
        Each row depends on its own record and the prototypes alone, bit for bit; a tie goes to the
        lower number (docs/theory/speak-once.md#prototype-votes). Secret.

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
    """Return public inputs in their `width` main directions, where k-means is faster.

    Parameters
    ----------
    view : array of shape (inputs, features)
        Public inputs: it is fitted to them.
    width : int
        Number of directions.

    Returns
    -------
    array of shape (inputs, width)
        The view itself where it has no more features than that.
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
    """Return the records' votes at their prototypes: 1/sqrt(votes) for their class. Secret.

    Parameters
    ----------
    nearest : array of int of shape (records, votes)
        From `nearest_prototypes`. Secret.
    labels : array of int of shape (records,)
        Classes 0 .. n_classes - 1. Secret.
    n_prototypes, n_classes : int
        Public sizes of the table.
    units : array of shape (records,), optional
        Whose each record is, where a person may have several. Secret.

    Returns
    -------
    Contributions
        For a `NoisySum` of n_prototypes rows and n_classes columns. Secret. A record's vote has
        norm 1. Unit: one record, or one person with `units`.

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
        Public.
    centre : float or array of shape (classes,)
        What is subtracted from each label; public.

    Returns
    -------
    callable
        From an array of row numbers to an array (rows, classes). Secret.
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
    T_jc is the mass L_jc plus noise. The distribution of the masses over [0, largest] is estimated
    from all cells (nonparametric maximum likelihood on a grid, by EM; Kiefer and Wolfowitz 1956),
    which gives each posterior mean (Robbins).

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
