"""Votes at prototypes: each private record says its class at its few nearest public prototypes.

A record's vote is a vector of norm 1 without negative entries over (prototypes x classes): weight
1/sqrt(votes) for its class at each of its nearest prototypes. Which these are depends on that
record and on the prototypes alone, bit for bit: distances are integers (`tacit.neighbours`), and a
tie goes to the lower number. So adding or removing a record moves the table by exactly 1, and
replacing one by sqrt 2 at the most, whatever the number of prototypes (docs/theory/speak-once.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, positive, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms import Contributions
from tacit.neighbours.quantising import extended, feature_rows, questions

_DISTANCES_AT_ONCE = 2**20
_NUMBER_BITS = 32


def nearest_prototypes(
    features: ArrayLike, prototypes: ArrayLike, votes: int, *, radius: float
) -> Integers:
    """Return the numbers of the `votes` nearest prototypes of each record, nearest first. Secret.

    `radius` is public, as in `tacit.neighbours.quantise`: features are compared on a grid of
    2048 steps to the radius, and longer ones are scaled down to it.

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
    step = max(1, _DISTANCES_AT_ONCE // len(places))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
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
    """Return a function of row numbers that gives e_label - centre. Secret."""
    basis = np.eye(n_classes) - centre

    def right(rows: Integers) -> Floats:
        return basis[labels[rows]]

    return right
