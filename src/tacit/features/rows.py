"""Features of private records, each computed from its own row alone, bit for bit.

One record may change only its own features (docs/theory/private-knn.md#what-one-unit-can-move), but
a matrix product may round a row by the rows beside it. tacit's own transformers do not; any other
is given rows one by one. A refusal depends on public rows alone: by a private one, it would leak.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import own_floats
from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument

_OWN = "tacit.features."
_TRIED = 3
"""Public rows on which a transformer is tried out."""


def transform_rows(
    transformer: Any, X: ArrayLike, public: ArrayLike, *, step: Callable[[], None] | None = None
) -> NDArray[Any]:
    """Return `transformer.transform(X)`, with every row as if it had been alone. Secret.

    A transformer that stores rows in an object outside itself cannot be detected. Nothing that the
    transformer prints, logs or warns of is shown.

    Parameters
    ----------
    transformer : transformer, public and fitted, of scikit-learn or tacit
    X : array of shape (n, features), private rows; secret
    public : array of shape (rows, features)
        Public rows, of which the first few are tried, to find the number of outputs. A transformer
        that fails on one of them, or does not repeat its numbers, is refused.
    step : callable, optional, called after each row that was transformed alone, for a progress bar

    Returns
    -------
    array of shape (n, features out)
        NaN where the transformer fails or returns anything but as many numbers. Secret.

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> centred = FunctionTransformer(lambda X: X - X.mean())
    >>> transform_rows(centred, [[1.0, 3.0], [5.0, 9.0]], public=[[0.0, 0.0]])
    array([[-1.,  1.],
           [-2.,  2.]])
    """
    rows, few = own_floats(X=X), own_floats(public=public)[:_TRIED]
    with quiet():
        # Public rows first: what is refused is refused before the transformer sees a private row.
        return _each_alone(transformer, rows, _tried_out(transformer, few), step)


def _each_alone(
    transformer: Any, rows: NDArray[Any], first: NDArray[Any], step: Callable[[], None] | None
) -> NDArray[Any]:
    """Return the features of rows, of the width and type of the `first`, public one."""
    if is_row_wise(transformer):
        together = _transformed(transformer, rows)
        if together is not None and together.shape == (len(rows), first.size):
            return together
    # What is not tacit's own may give each row another type: none of them decides for all.
    kind = first.dtype if is_row_wise(transformer) else np.float64
    result = np.full((len(rows), first.size), np.nan, dtype=kind)
    for place in range(len(rows)):
        view = _transformed(transformer, rows[[place]])  # a copy: nobody writes into private rows
        if view is not None and view.shape == (1, first.size):
            result[place] = view[0]
        if step is not None:
            step()
    return result


def _tried_out(transformer: Any, few: NDArray[Any]) -> NDArray[Any]:
    """Return the features of the first public row, or refuse, before a private one is read."""
    fresh = copy.deepcopy(transformer)
    views = [_transformed(transformer, few[[place]]) for place in range(len(few))]
    first = views[0]
    if first is None or any(view is None or view.shape != (1, first.size) for view in views):
        raise InvalidArgument(
            "Expected features= to turn each row by itself into one dense row of numbers, all of "
            "one length; of a public row, alone, this transformer does not."
        )
    for one, place in ((transformer, 0), (fresh, -1)):
        again, before = _transformed(one, few[[place]]), views[place]
        if again is None or before is None or not np.array_equal(again, before, equal_nan=True):
            raise InvalidArgument(
                "Expected features= to give a row the same numbers every time; this transformer "
                "is random, or remembers the rows that it has seen."
            )
    return np.asarray(first[0])


def _transformed(transformer: Any, rows: NDArray[Any]) -> NDArray[Any] | None:
    """Return features of some rows as numbers; None where the transformer fails, silently."""
    try:
        view = np.asarray(transformer.transform(rows))
        view = own_floats(view=view) if view.dtype.kind == "O" else view
    except BaseException as error:
        kind_of(error)  # an interrupt goes on
        return None
    return view if view.dtype.kind in "biuf" and view.ndim == 2 else None


def is_row_wise(transformer: Any) -> bool:
    """Return whether each row's bits are known to depend on that row alone.

    Parameters
    ----------
    transformer : transformer, any, or a scikit-learn pipeline of some

    Returns
    -------
    bool, true for tacit's own transformers, and for pipelines of nothing else
    """
    steps = getattr(transformer, "steps", None)
    if steps is not None and type(transformer).__module__ == "sklearn.pipeline":
        return all(is_row_wise(step) for _, step in steps)
    return type(transformer).__module__.startswith(_OWN)


def steps_of(transformer: Any) -> list[Any]:
    """Return all transformers in a pipeline, union or `ColumnTransformer`, in order."""
    for name in ("steps", "transformer_list", "transformers"):
        if (parts := getattr(transformer, name, None)) is not None:
            rest = getattr(transformer, "remainder", None)  # of columns that nobody named
            last = [] if rest is None or isinstance(rest, str) else [("remainder", rest)]
            return [step for _, part, *_ in [*parts, *last] for step in steps_of(part)]
    return [transformer]
