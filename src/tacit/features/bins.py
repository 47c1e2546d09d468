"""Public bins: a table as zeros and ones, cut by declarations of its columns.

The edges and categories are the caller's constants, so the features are public and
data-independent, and every row has the same length: the root of the number of columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit._checks import Floats, as_array, refuse
from tacit.errors import InvalidArgument
from tacit.features.columns import Categorical, Column, Numeric

Codes = NDArray[np.intp]


@dataclass(eq=False, repr=False)
class PublicBins(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One-hot encode a table by declared public bins and categories; nothing is fitted.

    Each column becomes one feature for each of its bins or categories and one, `other`, for what is
    not a number or not declared. In an array of numbers a categorical column declared by words
    holds their indices, as `tacit.datasets` loads it; one declared by numbers holds those numbers.

    Parameters
    ----------
    columns : sequence of Numeric and Categorical, one for each column of X, in order; public
    unit_norm : bool, divide by the square root of the number of columns: each row has length 1

    Examples
    --------
    >>> columns = [Numeric("age", [18, 65]), Categorical("sex", ["Female", "Male"])]
    >>> PublicBins(columns).transform([[40, "Male"], [17, "unknown"]]).astype(int).tolist()
    [[0, 1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 1]]
    """

    columns: Sequence[Column]
    _: KW_ONLY
    unit_norm: bool = False

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check the declarations and the shape of X; nothing is learned from its values.

        Parameters
        ----------
        X : array of shape (n, columns), numbers or words
        y : object, ignored

        Returns
        -------
        PublicBins
        """
        _as_table(X, len(self._declared()))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the zeros and ones, as secret as X; each row depends on its own row of X alone.

        Parameters
        ----------
        X : array of shape (n, columns), numbers or words; also NaN

        Returns
        -------
        array of float32 of shape (n, bins and categories of all columns)
        """
        declared = self._declared()
        table = _as_table(X, len(declared))
        widths = [len(column.labels) for column in declared]
        encoded = np.zeros((len(table), sum(widths)), dtype=np.float32)
        starts = np.cumsum([0, *widths[:-1]])
        rows = np.arange(len(table))
        for column, start, values in zip(declared, starts, table.T, strict=True):
            encoded[rows, start + _column_codes(column, values)] = 1
        return encoded / np.float32(math.sqrt(len(declared))) if self.unit_norm else encoded

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return names such as `age=18..65` and `sex=other`.

        Parameters
        ----------
        input_features : object, ignored: the columns have declared names

        Returns
        -------
        array of str
        """
        names = [f"{column.name}={label}" for column in self._declared() for label in column.labels]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _declared(self) -> list[Column]:
        columns = list(self.columns) if isinstance(self.columns, Sequence) else []
        if not columns or not all(isinstance(column, Numeric | Categorical) for column in columns):
            raise refuse("columns", self.columns, "a list of Numeric(...) and Categorical(...)")
        return columns


def _as_table(X: ArrayLike, n_columns: int) -> NDArray[Any]:
    """Return X as an array of numbers or of objects with the declared number of columns."""
    table = as_array(X, object if isinstance(X, list | tuple) else None)
    if table.ndim != 2 or table.shape[1] != n_columns:
        raise InvalidArgument(
            f"Expected X to have a column for each of the {n_columns} declared, "
            f"got shape {table.shape}."
        )
    if table.dtype.kind not in "buifOU":
        raise InvalidArgument(f"Expected X to hold numbers or words, got dtype {table.dtype}.")
    return table.astype(object) if table.dtype.kind == "U" else table


def _column_codes(column: Column, values: NDArray[Any]) -> Codes:
    """Return which bin or category each value falls in; the last code is `other`.

    >>> _column_codes(Numeric("age", [18, 65]), np.array([17, 18, 64, 65, np.nan])).tolist()
    [0, 1, 1, 2, 3]
    """
    other = len(column.labels) - 1
    if isinstance(column, Numeric):
        numbers = _numbers(values)
        bins = np.searchsorted(np.array(column.edges), numbers, side="right")
        return np.where(np.isnan(numbers), other, bins)
    words = all(isinstance(category, str) for category in column.categories)
    if values.dtype == object or not words:
        return _looked_up(column, values.astype(object))
    numbers = values.astype(np.float64)
    known = (numbers >= 0) & (numbers < other) & (numbers == np.floor(numbers))
    return np.where(known, numbers, other).astype(np.intp)


def _looked_up(column: Categorical, values: NDArray[Any]) -> Codes:
    codes = {category: code for code, category in enumerate(column.categories)}
    other = len(codes)

    def code(value: Any) -> int:
        if isinstance(value, str):
            word = value.strip()
            return codes.get(word, codes.get(_number(word), other))
        return codes.get(_number(value), other)

    return np.fromiter(map(code, values), dtype=np.intp, count=len(values))


def _numbers(values: NDArray[Any]) -> Floats:
    if values.dtype != object:
        return values.astype(np.float64)
    return np.fromiter(map(_number, values), dtype=np.float64, count=len(values))


def _number(value: Any) -> float:
    """Return the value as a number, NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
