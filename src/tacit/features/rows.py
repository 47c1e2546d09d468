"""Features of private records, each computed from its own row alone, bit for bit.

Which records are a query's neighbours decides what one record can change
(docs/theory/private-knn.md#what-one-unit-can-move). A transformer that multiplies matrices may
round a row differently when another row stands beside it, and so one record could move many
neighbours. tacit's own transformers are built not to; any other one is given the rows one by one,
which is slower and sure.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument

_OWN = "tacit.features."


def transform_rows(
    transformer: Any, X: ArrayLike, *, step: Callable[[], None] | None = None
) -> NDArray[Any]:
    """Return `transformer.transform(X)`, with every row as if it had been alone.

    `step` is called after each row that had to be transformed alone. A transformer that does not
    give a row the same numbers twice is refused: then no row's features are its own. (One that
    remembers rows in an object outside itself cannot be told from an honest one.) Nothing that it
    prints, logs or warns of is shown.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> transform_rows(FunctionTransformer(lambda X: X - X.mean()), [[1.0, 3.0], [5.0, 9.0]])
    array([[-1.,  1.],
           [-2.,  2.]])
    """
    with quiet():
        return _transformed(transformer, np.asarray(X), step)


def _transformed(
    transformer: Any, rows: NDArray[Any], step: Callable[[], None] | None
) -> NDArray[Any]:
    if is_row_wise(transformer):
        return np.asarray(transformer.transform(rows))
    rows, fresh = as_floats(rows), copy.deepcopy(transformer)
    first = _alone(transformer, rows[:1])
    result = np.empty((len(rows), first.size))  # not of the first row's dtype: that is its own
    for place in range(len(rows)):
        result[place] = _alone(transformer, rows[place : place + 1], first.size)
        if step is not None:
            step()
    again = [(transformer, 0, first), (fresh, len(rows) - 1, result[-1])]
    if any(not np.array_equal(_alone(t, rows[[i]]), seen, equal_nan=True) for t, i, seen in again):
        raise InvalidArgument(
            "Expected features= to give a row the same numbers every time; this transformer is "
            "random, or remembers the rows that it has seen."
        )
    return result


def _alone(transformer: Any, row: NDArray[Any], width: int | None = None) -> NDArray[Any]:
    """Transform one row; no message quotes it, not even the transformer's own."""
    try:
        view = np.asarray(transformer.transform(row))
    except BaseException as error:
        kind = kind_of(error)
        view = None
    if view is None:
        raise InvalidArgument(
            f"Expected features= to transform every private row; on one of them it fails with "
            f"{kind}."
        )
    if view.ndim != 2 or len(view) != 1 or view.shape[1] != (width or view.shape[1]):
        raise InvalidArgument(
            "Expected features= to turn each row into one dense row of numbers, all of one length."
        )
    return np.asarray(view[0])


def as_floats(rows: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as float64: one fraction among them must not change all the others."""
    return rows.astype(np.float64) if rows.dtype.kind in "biu" else rows


def is_row_wise(transformer: Any) -> bool:
    """Tell whether each row's bits are known to depend on that row alone.

    >>> from tacit.features import digit_features
    >>> is_row_wise(digit_features((8, 8)))
    True
    """
    steps = getattr(transformer, "steps", None)
    if steps is not None and type(transformer).__module__ == "sklearn.pipeline":
        return all(is_row_wise(step) for _, step in steps)
    return type(transformer).__module__.startswith(_OWN)
