"""Which public inputs to query: medoids, a random sample, or rows that the caller names.

Medoids, with answers spread over their neighbours, gain most from a privacy budget. The choice uses
public inputs only and costs nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, at_least, one_of, refuse
from tacit.errors import InvalidArgument
from tacit.students.base import flat_rows, row_numbers, seed_of
from tacit.students.neighbour_search import nearest

STRATEGIES = ("medoids", "random")


def choose_queries(
    X_public_features: ArrayLike,
    n: int | None,
    *,
    strategy: str | ArrayLike = "medoids",
    random_state: int | None = 0,
) -> Integers:
    """Return the rows of the public inputs to be labelled, all different.

    Parameters
    ----------
    X_public_features : array of shape (inputs, features)
        Public inputs, in the space in which distances mean something.
    n : int or None, how many rows, at most all inputs; None where `strategy` names them
    strategy : str or array of int
        "medoids": the rows nearest to the n centres of k-means, those of the largest clusters first
        (a cap on the answers then loses the least). "random": a uniform sample without
        replacement. An array: these very rows; n is then None or their number.
    random_state : int, optional, seeds k-means or the sample; None draws a fresh seed

    Returns
    -------
    array of int of shape (n,), row numbers, in the order of the queries

    Examples
    --------
    >>> blobs = [[9.0], [9.1], [9.2], [0.0], [0.1], [0.2], [0.1]]
    >>> choose_queries(blobs, 2).tolist()
    [4, 1]
    """
    rows = flat_rows(X_public_features=X_public_features)
    if not isinstance(strategy, str):
        return _named(strategy, n, len(rows))
    one_of(*STRATEGIES, strategy=strategy)
    n = at_least(1, n=n)
    if n > len(rows):
        raise refuse("n", n, "at most the number of public inputs")
    seed = seed_of(random_state)
    if strategy == "random":
        return np.random.default_rng(seed).permutation(len(rows))[:n]
    return _medoids(rows.astype(np.float32), n, seed)


def _named(rows: ArrayLike, n: int | None, n_public: int) -> Integers:
    numbers = row_numbers(rows, n_public, strategy=True)
    if np.unique(numbers).size != numbers.size:
        raise InvalidArgument("Expected strategy to name each row once; a query is paid once.")
    if n is not None and n != numbers.size:
        raise refuse("n", n, f"{numbers.size}, the number of rows that strategy names")
    return numbers


def _medoids(rows: Any, n: int, seed: int) -> Integers:
    centres, sizes = _cluster(rows, n, seed)
    order = np.argsort(-sizes, kind="stable")
    # A centre may share its nearest row with another: then it takes the next that is free.
    candidates, _ = nearest(centres[order], rows, min(8, len(rows)))
    taken: dict[int, None] = {}
    for choice, centre in zip(candidates, centres[order], strict=True):
        free = [int(row) for row in choice if int(row) not in taken]
        if not free:
            distances = ((rows - centre) ** 2).sum(axis=1)
            distances[list(taken)] = np.inf
            free = [int(distances.argmin())]
        taken[free[0]] = None
    return np.fromiter(taken, dtype=np.int64)


def _cluster(rows: Any, n: int, seed: int) -> tuple[Floats, Integers]:
    """Return the centres and the number of rows of each cluster."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # One OpenMP thread: with several, partial sums are added in the order in which they finish.
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        model = KMeans(n, n_init=1, random_state=seed, max_iter=100).fit(rows)
    return model.cluster_centers_, np.bincount(model.labels_, minlength=n)
