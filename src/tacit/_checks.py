"""Shared validators: they name the argument, its value, and what to do.

Each takes one keyword, the argument's own name, so that the message can quote it:
`positive(sigma=-1)` raises "Expected sigma=-1 to be a finite number > 0".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Shape = tuple[int, int]

MOST_VOTES = 2**40  # far beyond any ensemble, and far below where int64 sums wrap around


def refuse(name: str, value: object, expectation: str) -> InvalidArgument:
    """Make the error "Expected name=value to be …"; long values are abbreviated."""
    text = repr(value)
    if len(text) > 80:
        text = text[:77] + "..."
    return InvalidArgument(f"Expected {name}={text} to be {expectation}.")


def _one(named: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = named.items()
    return name, value


def _number(named: dict[str, Any], expectation: str, fits: Callable[[float], bool]) -> float:
    name, value = _one(named)
    try:
        if isinstance(value, bool | np.bool_ | str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or not fits(number):
        raise refuse(name, value, expectation)
    return number


def finite(**named: Any) -> float:
    """Return the argument as a finite float."""
    return _number(named, "a finite number", lambda number: True)


def positive(**named: Any) -> float:
    """Return the argument as a finite float > 0."""
    return _number(named, "a finite number > 0", lambda number: number > 0)


def noise_scale(**named: Any) -> float:
    """Return the argument as a float > 0 whose square, and that of its inverse, is finite."""
    positive(**named)
    return _number(named, "between 1e-100 and 1e100", lambda number: 1e-100 <= number <= 1e100)


def non_negative(**named: Any) -> float:
    """Return the argument as a finite float >= 0."""
    return _number(named, "a finite number >= 0", lambda number: number >= 0)


def probability(**named: Any) -> float:
    """Return the argument as a float strictly between 0 and 1."""
    return _number(named, "strictly between 0 and 1", lambda number: 0 < number < 1)


def sampling_rate(**named: Any) -> float:
    """Return the argument as a float in (0, 1]."""
    return _number(named, "a sampling rate in (0, 1]", lambda number: 0 < number <= 1)


def shape_pair(**named: Any) -> Shape:
    """Return the argument as `(height, width)` of an image, both integers >= 2."""
    name, value = _one(named)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or len(value) != 2:
        raise refuse(name, value, "a pair (height, width)")
    height, width = (at_least(2, **{name: side}) for side in value)  # a gradient needs two pixels
    return height, width


def renyi_order(**named: Any) -> float:
    """Return the argument as one finite Renyi order > 1."""
    return _number(named, "one finite Renyi order > 1", lambda number: number > 1)


def at_least(minimum: int, **named: Any) -> int:
    """Return the argument as an int >= minimum; a float or a bool is not an int."""
    name, value = _one(named)
    try:
        number = minimum - 1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = minimum - 1
    if number < minimum:
        raise refuse(name, value, f"an integer >= {minimum}")
    return number


def count(**named: Any) -> int:
    """Return the argument as an int >= 1."""
    return at_least(1, **named)


def set_checked(frozen: Any, **checks: Callable[..., Any]) -> None:
    """Validate fields of a frozen dataclass: `set_checked(self, sigma=positive)`."""
    for name, check in checks.items():
        object.__setattr__(frozen, name, check(**{name: getattr(frozen, name)}))


def _value(named: dict[str, Any], expectation: str, fits: Callable[[Any], bool]) -> Any:
    name, value = _one(named)
    if not fits(value):
        raise refuse(name, value, expectation)
    return value


def one_of(*choices: str, **named: Any) -> str:
    """Return the argument, which must be one of the given words."""
    expectation = "one of " + ", ".join(map(repr, choices))
    return str(_value(named, expectation, lambda it: isinstance(it, str) and it in choices))


def flag(**named: Any) -> bool:
    """Return the argument, which must be True or False."""
    return bool(_value(named, "true or false", lambda it: isinstance(it, bool)))


def word(**named: Any) -> str:
    """Return the argument, which must be a string."""
    return str(_value(named, "a word", lambda it: isinstance(it, str)))


def as_array(value: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return an array, an empty one of objects for ragged rows, which is refused later."""
    try:
        return np.asarray(value, dtype=dtype)
    except ValueError:
        return np.empty(0, dtype=object)


def column_names(X: Any) -> list[Any] | None:
    """Return the column names of a table or frame; None for an array."""
    names = getattr(X, "column_names", None)  # Arrow's `columns` are the cells
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else list(names)


def blocks(count: int, size: int) -> list[slice]:
    """Cut rows into blocks of `size`, at least 1.

    >>> blocks(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, size)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def finite_rows(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are finite, without a copy of all of them.

    >>> finite_rows(np.array([[1.0, 2.0], [np.inf, 0.0]])).tolist()
    [True, False]
    """
    told = np.ones(len(rows), dtype=np.bool_)
    for some in blocks(len(rows), 2**17 // max(1, math.prod(rows.shape[1:]))):
        told[some] = np.isfinite(rows[some]).all(axis=tuple(range(1, rows.ndim)))
    return told


def finite_array(**named: ArrayLike) -> Floats:
    """Return the argument as a float64 array without NaN or infinity."""
    array = number_array(**named)
    if not np.isfinite(array).all():
        (name,) = named
        raise InvalidArgument(f"Expected {name} to hold finite numbers only; remove NaN and inf.")
    return array


def simplex_rows(**named: ArrayLike) -> Floats:
    """Return the argument as float64 (rows, classes >= 2), each row >= 0 and of sum 1."""
    array = finite_array(**named)
    (name,) = named
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidArgument(
            f"Expected {name} of shape (queries, classes >= 2), got shape {array.shape}."
        )
    if (array < 0).any() or not np.allclose(array.sum(axis=1), 1.0, atol=1e-6):
        raise InvalidArgument(f"Expected each row of {name} to be >= 0 and to sum to 1.")
    return array


def number_array(**named: ArrayLike) -> Floats:
    """Return the argument as a float64 array; it is never quoted: it may be secret."""
    name, value = _one(named)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO":  # a bool, a complex or a string is not a number here
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"Expected {name} to be an array of numbers.") from None


def own_floats(**named: ArrayLike) -> Floats:
    """Return numbers as float64 in C order, each from its own cell alone; never quoted.

    One record's type changes neither the other records' numbers nor their order in memory.

    >>> own_floats(X=np.array([[1, 0.1]], dtype=object)).tolist()
    [[1.0, 0.1]]
    """
    name, value = _one(named)
    floats: Floats | None = None
    try:
        with quiet():
            array = np.asarray(value)
            if array.dtype.kind in "biufO":
                floats = np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)
    except BaseException as error:
        kind_of(error)  # an interrupt goes on
    if floats is None:  # out here the refusal has no context, which might quote a cell
        raise InvalidArgument(f"Expected {name} to be an array of numbers.")
    return floats


_Read = TypeVar("_Read")


def unquoted(work: Callable[[], _Read], expected: str) -> _Read:
    """Return the result of foreign code on private values, silenced; errors quote none of them."""
    with quiet():
        try:
            return work()
        except InvalidArgument:
            raise
        except BaseException as error:
            kind = kind_of(error)
    # Out here the refusal has no context, which would be shown or logged with it.
    raise InvalidArgument(f"Expected {expected}; reading it fails with {kind}.")


def order_array(orders: ArrayLike) -> Floats:
    """Return Renyi orders as a one-dimensional float64 array, each finite and > 1."""
    array = np.atleast_1d(finite_array(orders=orders))
    if array.ndim != 1 or array.size == 0 or (array <= 1).any():
        raise refuse("orders", orders, "a non-empty list of finite Renyi orders > 1")
    return array


def vote_matrix(votes: ArrayLike, *, n_teachers: int | None = None) -> Integers:
    """Return votes as int64 (queries, classes), non-negative, with equal sums; never quoted."""
    array = as_array(votes)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise InvalidArgument(
            f"Expected votes to be an array (queries, classes) with at least one query and two "
            f"classes, got shape {array.shape}; use count_votes(predictions, n_classes)."
        )
    if array.dtype.kind not in "iu":
        array = _integral(array)
    if (array > MOST_VOTES).any():
        raise InvalidArgument(f"Expected votes to be at most {MOST_VOTES} in each class.")
    if array.dtype.kind == "i" and (array < 0).any():
        raise InvalidArgument("Expected votes to be non-negative; a teacher cannot be subtracted.")
    counts = array.astype(np.int64, copy=False)
    if n_teachers is None and (counts.sum(axis=1) != counts[0].sum()).any():
        raise InvalidArgument(
            "Expected every row of votes to sum to one number of teachers; "
            "a teacher that cannot answer must still vote a fixed public class."
        )
    if n_teachers is not None and (counts.sum(axis=1) != n_teachers).any():
        raise InvalidArgument(f"Expected every row of votes to sum to n_teachers={n_teachers}.")
    return counts


def _integral(array: NDArray[Any]) -> NDArray[Any]:
    problem = "Expected votes to be integers (how many teachers chose each class)"
    if array.dtype.kind != "f":
        raise InvalidArgument(f"{problem}, got dtype {array.dtype}.")
    if not np.isfinite(array).all():
        raise InvalidArgument(f"{problem}, got NaN or infinity.")
    if (array != np.floor(array)).any():
        raise InvalidArgument(f"{problem}, got fractions; sum soft votes with sum_soft_votes.")
    # The caller refuses both ends, of which float16 knows the upper one as infinity.
    wide = array.astype(np.result_type(array, np.float64), copy=False)
    return np.asarray(np.clip(wide, -1, MOST_VOTES + 1), dtype=np.int64)
