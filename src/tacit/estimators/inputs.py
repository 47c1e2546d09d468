"""What every estimator checks before anything private is touched, let alone released."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from tacit._checks import Integers
from tacit.errors import InvalidArgument
from tacit.features.rows import transform_rows
from tacit.students.progress import training_bar
from tacit.teachers import unit_names

_AT_ONCE = 1024
"""Rows that are compared at a time."""
FROM_DATA = "from_data"
"""Value of `classes=` that reads the label set off the private labels: the statement says so."""

READ_CLASSES = (
    "the set of class labels was read from the private data, which no cost covers; declare "
    "classes= to remove this warning"
)


class OverlapWarning(UserWarning):
    """Public and private inputs share rows: declare such rows public, or remove them."""


def public_matrix(X_public: ArrayLike | None, n_features: int) -> NDArray[Any]:
    """Return the public inputs: present, finite, with as many features as the private ones."""
    if X_public is None:
        raise InvalidArgument(
            "Expected X_public=, the public inputs that teachers label and the student learns "
            "from; without public inputs there is nothing that may be published."
        )
    array = np.asarray(X_public)
    if array.ndim != 2 or array.shape[0] < 2:
        raise InvalidArgument(f"Expected X_public of shape (rows, features), got {array.shape}.")
    if array.shape[1] != n_features:
        raise InvalidArgument(
            f"Expected X_public with {n_features} features as in X, got {array.shape[1]}."
        )
    if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        raise InvalidArgument("Expected X_public to hold finite numbers only; remove NaN and inf.")
    return array


def class_indices(y: NDArray[Any], classes: Any) -> tuple[NDArray[Any], Integers, bool]:
    """Return the label set, y as indices into it, and whether it was read from private labels.

    The labels that are not in the set are not named: they are private.
    """
    if classes is None:
        raise InvalidArgument(
            'Expected classes= the public set of labels, or classes="from_data" to read it from '
            "the private labels, which the statement then says."
        )
    from_data = isinstance(classes, str) and classes == FROM_DATA
    known = np.unique(y) if from_data else np.unique(np.asarray(classes))
    if known.size < 2:
        raise InvalidArgument(f"Expected at least two classes, got {known.size} class.")
    place = np.searchsorted(known, y).clip(0, known.size - 1)
    if (known[place] != y).any():
        raise InvalidArgument(
            "Expected every label of y to be one of classes=; some are not. Add them or drop rows."
        )
    return known, place.astype(np.int64), from_data


def private_rows(estimator: Any, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
    """Validate private inputs and labels as scikit-learn does; no message quotes a cell."""
    try:
        return validate_data(estimator, X, y, dtype="numeric", **checks)  # type: ignore[no-any-return]
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
    raise InvalidArgument(
        "Expected X and y to hold numbers (y may hold labels); some cell is text. Encode "
        "categories with a public list of them."
    )


def view_alone(features: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return features of private rows, each as if it were alone. Secret."""
    with training_bar("Features of private records", total=len(rows)) as step:
        return transform_rows(features, rows, step=step)


def units_of(groups: Any, n_rows: int) -> NDArray[np.bytes_] | None:
    """Return the person of each row as a name of fixed length, or None where each is its own unit.

    Each id is written by itself (`unit_names`): a list is never made an array, in which one
    person's odd id would change how everybody else's is written.
    """
    if groups is None:
        return None
    if np.ndim(groups) != 1 and not isinstance(groups, list | tuple | range):
        raise InvalidArgument(f"Expected groups of length {n_rows}, one per row of X.")
    people = unit_names(groups)
    if len(people) != n_rows:
        raise InvalidArgument(f"Expected groups of length {n_rows}, one per row of X.")
    return people


def count_units(people: NDArray[np.bytes_] | None, n_rows: int) -> int:
    """Return how many units there are: people, or rows where each is its own. Secret."""
    return n_rows if people is None else int(np.unique(people).size)


def warn_of_overlap(X: NDArray[Any], X_public: NDArray[Any]) -> None:
    """Warn of rows that are both private and public; how many is secret."""
    public = set(_row_bytes(X_public))
    if any(row in public for row in _row_bytes(X)):
        warnings.warn(
            "Some private rows are identical to public rows; a row cannot be both.",
            OverlapWarning,
            stacklevel=3,
        )


def _row_bytes(rows: NDArray[Any]) -> Iterator[bytes]:
    """Yield each row as bytes of float64, without a copy of them all."""
    for start in range(0, len(rows), _AT_ONCE):
        for row in np.ascontiguousarray(rows[start : start + _AT_ONCE], dtype=np.float64):
            yield row.tobytes()
