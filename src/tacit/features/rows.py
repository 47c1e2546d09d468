"""Features of private records, each computed from its own row alone, bit for bit.

Which records are a query's neighbours decides what one record can change (SPEC-pate-knn 5.2). A
transformer that multiplies matrices may round a row differently when another row stands beside it,
and so one record could move many neighbours. tacit's own transformers are built not to; any other
one is given the rows one by one, which is slower and sure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_OWN = "tacit.features."


def transform_rows(transformer: Any, X: ArrayLike) -> NDArray[Any]:
    """Return `transformer.transform(X)`, with every row as if it had been alone.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> transform_rows(FunctionTransformer(lambda X: X - X.mean()), [[1.0, 3.0], [5.0, 9.0]])
    array([[-1.,  1.],
           [-2.,  2.]])
    """
    rows = np.asarray(X)
    if is_row_wise(transformer):
        return np.asarray(transformer.transform(rows))
    first = np.asarray(transformer.transform(rows[:1]))
    result = np.empty((len(rows), *first.shape[1:]), dtype=first.dtype)
    for place in range(len(rows)):
        result[place] = np.asarray(transformer.transform(rows[place : place + 1]))[0]
    return result


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
