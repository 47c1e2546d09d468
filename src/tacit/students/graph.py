"""The neighbour graph of the public inputs, and spreading of labels over it.

Exact nearest neighbours by blocks of matrix products; label spreading of Zhou et al. (2004):
F = (I - alpha S)^-1 Y with S = D^-1/2 W D^-1/2, solved by conjugate gradients on the sparse graph.
Public inputs and releases only: nothing private ever enters this floor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers

Features = NDArray[np.float32]

_BLOCK = 1 << 22  # distances held at a time: 16 MiB
_TOLERANCE = 1e-8
_MOST_ROUNDS = 2000


def nearest(
    queries: NDArray[Any], rows: NDArray[Any], n_neighbors: int, *, same: bool = False
) -> tuple[Integers, Features]:
    """Return the nearest rows of each query and their squared Euclidean distances, nearest first.

    `same` says that queries and rows are one array, and nobody is a neighbour of oneself.
    |q - x|^2 = |q|^2 - 2 q x + |x|^2, in float32 after the rows' mean is taken off both.

    >>> import numpy as np
    >>> points = np.array([[0.0], [1.0], [5.0]])
    >>> nearest(points, points, 1, same=True)[0].tolist()
    [[1], [0], [1]]
    """
    centre = rows.mean(axis=0, dtype=np.float64)
    points = np.asarray(rows - centre, dtype=np.float32)
    squares = np.einsum("ij,ij->i", points, points)
    found = np.empty((len(queries), n_neighbors), dtype=np.int64)
    distances = np.empty((len(queries), n_neighbors), dtype=np.float32)
    step = max(1, _BLOCK // len(points))
    for start in range(0, len(queries), step):
        block = np.asarray(queries[start : start + step] - centre, dtype=np.float32)
        gaps = block @ points.T
        gaps *= -2
        gaps += squares
        gaps += np.einsum("ij,ij->i", block, block)[:, None]
        if same:
            gaps[np.arange(len(block)), np.arange(start, start + len(block))] = np.inf
        place = slice(start, start + len(block))
        found[place], distances[place] = _smallest(gaps, n_neighbors)
    return found, distances


def _smallest(gaps: Features, count: int) -> tuple[Integers, Features]:
    if count < gaps.shape[1]:
        columns = np.argpartition(gaps, count - 1, axis=1)[:, :count]
    else:
        columns = np.broadcast_to(np.arange(count), gaps.shape).copy()
    values = np.take_along_axis(gaps, columns, axis=1)
    order = np.lexsort((columns, values), axis=1)  # ties by row number
    smallest = np.take_along_axis(values, order, axis=1)
    return np.take_along_axis(columns, order, axis=1), np.maximum(smallest, 0)


def similarity(neighbours: Integers) -> Any:
    """Return S = D^-1/2 W D^-1/2 (sparse), where W is the mean of the kNN matrix and its transpose.

    >>> import numpy as np
    >>> similarity(np.array([[1], [0], [1]])).toarray().round(2).tolist()
    [[0.0, 0.82, 0.0], [0.82, 0.0, 0.58], [0.0, 0.58, 0.0]]
    """
    from scipy.sparse import csr_array, diags_array

    n, k = neighbours.shape
    starts = np.arange(0, n * k + 1, k)
    directed = csr_array((np.ones(n * k), neighbours.reshape(-1), starts), shape=(n, n))
    both = (directed + directed.T) / 2
    roots = diags_array(1 / np.sqrt(both.sum(axis=1)))
    return (roots @ both @ roots).tocsr()


def spread(graph: Any, labels: Floats, alpha: float) -> Floats:
    """Solve (I - alpha S) F = Y for all classes at once, by conjugate gradients.

    I - alpha S is positive definite for 0 <= alpha < 1. Rows that no label reaches stay exactly 0.
    """
    solution = np.zeros_like(labels)
    residual = labels.copy()
    direction = residual.copy()
    energy = (residual**2).sum(axis=0)
    goal = _TOLERANCE**2 * energy
    for _ in range(_MOST_ROUNDS):
        if (energy <= goal).all():
            break
        image = direction - alpha * (graph @ direction)
        # A class without labels has energy 0 and must stay at 0.
        step = energy / np.maximum((direction * image).sum(axis=0), np.finfo(float).tiny)
        solution += step * direction
        residual -= step * image
        before, energy = energy, (residual**2).sum(axis=0)
        direction = residual + energy / np.maximum(before, np.finfo(float).tiny) * direction
    return np.maximum(solution, 0.0)
