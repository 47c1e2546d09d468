"""Private records from arrays, lists and frames: rows of numbers, targets, and their people.

Each cell is read by itself as its column's declared type (`tacit._cells`). One that cannot be read
makes a fit refuse before there is a ledger, naming the column and never a cell; at a site, in later
passes over a table, and with `unreadable="drop"` its record alone is left out silently, so that
what is released moves by no more than one record's share. Other refusals depend on no cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning

from tacit._cells import frame_columns, is_column, number_of, numbers_of, word_of, words_of
from tacit._checks import (
    Floats,
    column_names,
    finite,
    finite_rows,
    own_floats,
    refuse,
    unquoted,
)
from tacit._warn import warn
from tacit.errors import InvalidArgument
from tacit.records.spaces import PrivateRecords
from tacit.teachers import unit_names

FROM_DATA = "from_data"
"""Value of `classes=` that reads the label set from the private labels: the statement says so."""

READ_CLASSES = (
    "the set of class labels was read from the private data, which no cost covers; declare "
    "classes= to remove this warning"
)


class UnreadableCell(InvalidArgument, TypeError):
    """A private cell cannot be read as its type, which scikit-learn calls a `TypeError`."""


class Target(Protocol):
    """Meaning of y: how a column of it is read, cell by cell. Frozen and picklable."""

    @property
    def expected(self) -> str:
        """What each cell must be, for the message of a refusal."""

    def read(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a target for each cell of y, and which cells could be read. Secret."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a declared public set, as indices into it; 1, 1.0 and "1" are one label."""

    classes: tuple[Any, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        words = [word_of(label) for label in self.classes]
        if len(self.classes) < 2:
            raise InvalidArgument("Expected at least two classes; of one class there is no other.")
        if None in words or len(set(words)) < len(words):
            raise InvalidArgument(
                "Expected classes= of different labels, words or numbers; two of them read alike, "
                "or one is no label."
            )
        places = {str(word): place for place, word in enumerate(words)}
        # A truth value is 0 or 1 among numbers, and a word in any case among words.
        for word, number in (("true", "1"), ("false", "0")):
            alike = (place for known, place in places.items() if known.lower() == word)
            place = next(alike, places.get(number))
            if place is not None:
                places.setdefault(word, place)
        object.__setattr__(self, "_places", places)

    @property
    def expected(self) -> str:
        """What each label must be."""
        return f"one of the {len(self.classes)} declared classes="

    def read(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the index of each label, 0 where it is not declared. Secret."""
        known = self._places
        places = [-1 if word is None else known.get(word, -1) for word in words_of(_one_column(y))]
        found = np.array(places, dtype=np.int64)
        return found.clip(min=0), found >= 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers, clipped to declared public bounds; `scaled` maps low to -1 and high to 1."""

    low: float
    high: float
    decimal: str = "."
    scaled: bool = False
    expected: str = field(init=False, default="a finite number", repr=False)

    def read(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return each number within the bounds, NaN where there is none. Secret."""
        values, _ = numbers_of(_one_column(y), self.decimal)
        fits, values = np.isfinite(values), np.clip(values, self.low, self.high)
        if self.scaled:
            # Each number by itself; halves first, so that nothing overflows.
            middle, half = self.low / 2 + self.high / 2, self.high / 2 - self.low / 2
            values = np.clip((values - middle) / half, -1, 1)
        return values, fits


@dataclass(frozen=True, slots=True)
class Tags:
    """Several labels at once, each 0 or 1; their count is public."""

    count: int
    expected: str = field(init=False, default="0 or 1", repr=False)

    def read(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return (records, labels), 0 and unreadable where a cell is neither 0 nor 1. Secret."""
        rows = read_rows(y, self.count, name="y").values
        fits = np.asarray(((rows == 0) | (rows == 1)).all(axis=1))
        return np.where(fits[:, None], rows, 0).astype(np.int8), fits


@dataclass(frozen=True, slots=True)
class NoTargets:
    """No y: unsupervised."""

    expected: str = field(init=False, default="", repr=False)

    def read(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a zero for each of `y` records."""
        return np.zeros(int(y), dtype=np.int64), np.ones(int(y), dtype=np.bool_)


def labels_of(classes: Any, y: Any = None) -> Labels:
    """Return the declared labels in order, or those of y for "from_data"; at least two.

    No cost covers "from_data": the statement then says so. y is secret, and read for it only.
    """
    if classes is None:
        raise InvalidArgument(
            'Expected classes= the public set of labels, or classes="from_data" to read it from '
            "the private labels, which the statement then says."
        )
    if is_from_data(classes):
        if y is None:
            raise InvalidArgument("Expected classes= to be declared where X is a table.")
        return Labels(_distinct(y))
    if np.ndim(classes) == 0:  # without a quote: somebody may write classes=set(y)
        raise InvalidArgument(
            "Expected classes= a list of all the labels there are, such as range(10) or ['no', "
            f"'yes']; got one {type(classes).__name__}."
        )
    listed = list(classes)
    if len({_kind(label) for label in listed}) > 1 or None in listed:
        raise InvalidArgument("Expected classes= to be all words or all numbers, not some of each.")
    return Labels(tuple(np.unique(np.asarray(listed)).tolist()))


def _kind(label: Any) -> str:
    """Return whether a label is text, bytes or a number."""
    kinds = {str: "word", bytes: "bytes"}
    return next((name for kind, name in kinds.items() if isinstance(label, kind)), "number")


def _distinct(y: Any) -> tuple[Any, ...]:
    """Return the labels that occur, in order: the one function that reads all of them."""
    column = _one_column(y)
    words = {word for word in words_of(column) if word is not None}
    if len(words) > 1:
        numbers = {number_of(word): word for word in words}
        if len(numbers) == len(words) and not any(map(np.isnan, numbers)):
            if not all(number.is_integer() for number in numbers):
                raise InvalidArgument(
                    "Expected y of labels, words or whole numbers (Unknown label type: continuous)."
                )
            return tuple(sorted(map(int, numbers)))
    return tuple(sorted(words))


def is_from_data(value: Any) -> bool:
    """Whether an argument is to be read from the private data."""
    return isinstance(value, str) and value == FROM_DATA


def bounds_of(target_range: Any) -> tuple[float, float]:
    """Return declared bounds of numbers, (low, high)."""
    if target_range is None:
        raise InvalidArgument(
            "Expected target_range=(low, high), the public bounds to which y is clipped; read "
            "from the private numbers they would leak the extreme ones."
        )
    try:
        low, high = target_range
    except (TypeError, ValueError):
        raise refuse("target_range", target_range, "two numbers, (low, high)") from None
    low, high = finite(low=low), finite(high=high)
    if not low < high:
        raise refuse("target_range", target_range, "(low, high) with low below high")
    return low, high


class Rows(NamedTuple):
    """Rows of numbers, NaN where a cell could not be read; column names if there are any."""

    values: NDArray[Any]
    names: list[str] | None = None

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Which rows could be read."""
        return finite_rows(self.values)


_SHAPE = (
    "Expected {name} of shape (rows, features). Reshape your data with .reshape(-1, 1) if it has a "
    "single feature, or .reshape(1, -1) if it is a single record."
)


def read_rows(
    X: Any, width: int | None = None, *, as_stored: bool = False, name: str = "X"
) -> Rows:
    """Return rows of numbers in C order, each cell read by itself as float64, or NaN. Secret.

    `width` is the public number of columns, by default the container's. With `as_stored` an array
    keeps type and order, for a caller that converts rows later. `name` is what messages call X.
    """
    frame = frame_columns(X)
    if frame is not None:
        rows = _rows_of_frame(*frame, name)
    elif isinstance(X, list | tuple):
        rows = Rows(_rows_of_list(X, width, name))
    else:
        names = column_names(X)
        rows = Rows(
            _rows_of_array(X, width, as_stored, name), None if names is None else _texts(names)
        )
    if width is not None and rows.values.shape[1] != width:
        raise InvalidArgument(f"Expected {name} of shape (rows, {width}).")
    if not rows.values.shape[1]:
        raise InvalidArgument(
            f"Expected {name} with columns: 0 feature(s) (shape=(, 0)) while a minimum of 1 is "
            "required."
        )
    return rows


def _rows_of_frame(names: Sequence[Any], columns: Sequence[Any], name: str) -> Rows:
    values = np.empty((len(columns[0]) if columns else 0, len(columns)))
    for place, column in enumerate(columns):
        values[:, place], _ = numbers_of(column)
    return Rows(values, _texts(names))


def _texts(names: Sequence[Any]) -> list[str] | None:
    """Return names that are text; numbers are not names."""
    texts = [isinstance(each, str) for each in names]
    if any(texts) and not all(texts):
        raise InvalidArgument("Expected the columns of X to have names that are text, or no names.")
    return list(names) if all(texts) else None


def _rows_of_list(X: Sequence[Any], width: int | None, name: str) -> Floats:
    """Read rows one by one: one array of all of them would mix their types."""
    lengths = [len(row) if _is_row(row) else -1 for row in X]
    if X and width is None:
        if min(lengths) < 0 or len(set(lengths)) > 1:
            raise InvalidArgument(_SHAPE.format(name=name))
        width = lengths[0]
    values = np.full((len(X), width or 0), np.nan)
    for place, (row, length) in enumerate(zip(X, lengths, strict=True)):
        if length == width:
            values[place], _ = numbers_of(row)
    return values


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _rows_of_array(X: Any, width: int | None, as_stored: bool, name: str) -> NDArray[Any]:
    if hasattr(X, "toarray"):
        raise InvalidArgument(
            f"Expected dense {name}. Sparse data is not supported; use .toarray()."
        )
    array = _as_array(X, name)
    if array.ndim == 1 and array.dtype.kind == "O" and any(map(_is_row, array)):
        return _rows_of_list(list(array), width, name)  # of which one has another length
    if array.ndim != 2:
        raise InvalidArgument(_SHAPE.format(name=name))
    if isinstance(array, np.ma.MaskedArray) or array.dtype.kind not in "biuf":
        flat, _ = numbers_of(array.reshape(-1))
        return flat.reshape(array.shape)
    if as_stored and array.dtype.itemsize <= 8:
        return array
    return own_floats(X=array)


def _as_array(X: Any, name: str) -> NDArray[Any]:
    if isinstance(X, np.ndarray):
        return X
    return unquoted(lambda: np.asarray(X), f"{name} to be an array or a frame")


def _one_column(y: Any) -> Any:
    """Return y as one column, also from two dimensions with one column."""
    frame = frame_columns(y)
    if frame is not None:
        y = frame[1][0] if len(frame[1]) == 1 else np.empty((0, len(frame[1])))
    if hasattr(y, "toarray"):
        raise InvalidArgument("Expected dense y. Sparse data is not supported; use .toarray().")
    if isinstance(y, list | tuple | range):
        return y
    if is_column(y):  # as it is: an array of it has one type for all, which one hole decides
        return y
    if not hasattr(y, "ndim") and hasattr(y, "__array__"):
        y = np.asarray(y)
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        warn(
            "A column-vector y was passed when a 1d array was expected; its one column is used.",
            DataConversionWarning,
        )
        return np.asarray(y)[:, 0]
    if isinstance(y, str | bytes) or getattr(y, "ndim", 1) != 1 or not hasattr(y, "__len__"):
        raise InvalidArgument("Expected y of shape (rows,): y should be a 1d array.")
    return y


def read_stack(stack: Any, shape: tuple[int, ...] | None = None, *, name: str) -> Any:
    """Return scans or masks (n, *shape) as float32, each voxel by itself, else NaN. Secret.

    `shape` is that of one entry, where it is public; otherwise the first one's, and all must have
    it.
    """
    if isinstance(stack, list | tuple):
        parts = [_one_array(each) for each in stack]
        wanted = parts[0].shape if shape is None and parts else shape or ()
        if shape is None and any(part.shape != wanted for part in parts):
            raise InvalidArgument(f"Expected {name} of one shape; bring them onto one grid first.")
        found = np.full((len(parts), *wanted), np.nan, dtype=np.float32)
        for place, part in enumerate(parts):
            if part.shape == wanted:
                found[place] = part
        return found
    array = _as_array(stack, name)
    if array.dtype.kind not in "biufcO" or array.ndim < 1:
        raise InvalidArgument(f"Expected {name} to be an array of numbers.")
    if shape is not None and array.shape[1:] != shape:
        raise InvalidArgument(f"Expected {name} of shape (n, {', '.join(map(str, shape))}).")
    return _single(array)


def _one_array(entry: Any) -> NDArray[np.float32]:
    try:
        array = np.asarray(entry)
        return _single(array) if array.dtype.kind in "biuf" else np.empty(0, dtype=np.float32)
    except Exception:  # ragged, or an object of its own kind: this entry cannot be read
        return np.empty(0, dtype=np.float32)


def _single(array: NDArray[Any]) -> NDArray[np.float32]:
    if array.dtype == np.float32:
        return np.ascontiguousarray(array)  # the same, without the way
    if array.dtype.kind in "cO":
        array = numbers_of(array.reshape(-1))[0].reshape(array.shape)
    with np.errstate(all="ignore"):  # too large a number becomes infinite, and is unreadable
        return own_floats(voxels=array).astype(np.float32)


def people_of(groups: Any, n_rows: int) -> NDArray[np.bytes_] | None:
    """Return each row's person as bytes of one length, or None; refuse gaps. Secret."""
    people = names_of_people(groups, n_rows)
    if people is not None and (people == b"").any():
        raise InvalidArgument(
            "Expected groups= to say for each row whose it is; some ids are missing, or neither "
            "text, a whole number nor a date."
        )
    return people


def names_of_people(groups: Any, n_rows: int) -> NDArray[np.bytes_] | None:
    """Return each row's person as bytes of fixed length, empty where missing. Secret."""
    if groups is None:
        return None
    listed = isinstance(groups, list | tuple | range) or getattr(groups, "ndim", 1) == 1
    if isinstance(groups, str | bytes) or not listed or not hasattr(groups, "__len__"):
        listed = False
    if not listed or len(groups) != n_rows:
        raise InvalidArgument("Expected groups= to say for each row of X whose it is, once.")
    return unit_names(groups)


def check_containers(X: Any, y: Any, *, needs_y: bool) -> None:
    """Refuse complex numbers and a missing y, as scikit-learn's contract demands."""
    if needs_y and y is None:
        raise InvalidArgument(
            "Expected y: this estimator requires y to be passed, but the target y is None."
        )
    for name, array in (("X", X), ("y", y)):
        if getattr(getattr(array, "dtype", None), "kind", "") == "c":
            raise InvalidArgument(f"Expected {name} of real numbers. Complex data not supported.")


_NO_NUMBER = (
    "Expected finite numbers in column {column} of X: some cell is missing, NaN, inf, too large or "
    "text that is no number (an argument must be a string that reads as a number, or a real "
    "number). Mend or leave out such records, or declare missing= and unreadable= with open_table."
)


def refuse_unreadable(rows: Rows, fits: NDArray[np.bool_] | None, target: Target) -> None:
    """Refuse records with an unreadable cell, naming its column and type and no cell."""
    odd: list[int] = []
    if not rows.readable.all():
        odd = np.flatnonzero(~finite_rows(rows.values.T)).tolist()
    if odd:
        column = odd[0] if rows.names is None else repr(rows.names[odd[0]])
        raise UnreadableCell(_NO_NUMBER.format(column=column))
    if fits is not None and not fits.all():
        # "Unknown label type" is what scikit-learn's contract calls other things than labels.
        raise InvalidArgument(
            f"Expected every cell of y to be {target.expected}; some are not (Unknown label type). "
            "NaN and inf are none. Declare them, or leave out such records."
        )


def read_records(
    X: Any,
    y: Any,
    groups: Any,
    target: Target,
    *,
    width: int | None = None,
    drop: bool = False,
    as_stored: bool = False,
) -> tuple[PrivateRecords, list[str] | None]:
    """Return private records, and the names of their columns where they have any.

    Parameters
    ----------
    X : array, list of rows, or frame, secret
    y : array, list or column, labels or numbers; None without targets; secret
    groups : sequence, optional, person of each row, secret
    target : Target, how y is read
    width : int, optional, number of columns of X, where that is public
    drop : bool, leave out unreadable records silently; otherwise refuse all
    as_stored : bool, as for `read_rows`

    Returns
    -------
    records : PrivateRecords, those that could be read, secret
    names : list of str or None, public
    """
    rows = read_rows(X, width, as_stored=as_stored)
    count = len(rows.values)
    if not count and not drop:
        raise InvalidArgument("Expected X with rows: 0 sample(s) while a minimum of 1 is required.")
    targets, fits = target.read(count if isinstance(target, NoTargets) else y)
    if len(targets) != count:
        raise InvalidArgument(
            "Expected y with one entry for each row of X: the input variables have inconsistent "
            "numbers of samples."
        )
    if not drop:
        refuse_unreadable(rows, fits, target)
        return PrivateRecords(rows.values, targets, people_of(groups, count)), rows.names
    people = names_of_people(groups, count)
    known = np.ones(count, dtype=np.bool_) if people is None else people != b""
    readable = rows.readable & fits & known
    return PrivateRecords(rows.values, targets, people).only(readable), rows.names


def public_matrix(
    X_public: ArrayLike | None, n_features: int, names: Sequence[Any] | None = None
) -> Floats:
    """Return the public inputs: present, finite, with as many features as the private ones.

    Parameters
    ----------
    X_public : array of shape (rows, features)
        At least two rows; None is refused: without public inputs nothing may be published.
    n_features : int, number of private columns
    names : sequence of str, optional
        The private columns, which the public ones must repeat where both came as frames.

    Returns
    -------
    array of float64, of shape (rows, features)
    """
    if X_public is None:
        raise InvalidArgument(
            "Expected X_public=, the public inputs that teachers label and the student learns "
            "from; without public inputs there is nothing that may be published."
        )
    check_containers(X_public, None, needs_y=False)
    rows = read_rows(X_public, name="X_public")
    if len(rows.values) < 2:
        raise InvalidArgument(
            f"Expected X_public of shape (rows, features), at least two rows; got "
            f"{rows.values.shape}."
        )
    if rows.values.shape[1] != n_features:
        raise InvalidArgument(
            f"Expected X_public with {n_features} features as in X, got {rows.values.shape[1]}."
        )
    if names is not None and rows.names is not None and rows.names != list(names):
        raise InvalidArgument("Expected X_public to have the columns of X, in the same order.")
    if not rows.readable.all():
        raise InvalidArgument("Expected X_public to hold finite numbers only; remove NaN and inf.")
    return np.asarray(rows.values, dtype=np.float64)
