"""The one reader of private cells: each becomes a number, a day or a word by itself.

A rule here looks at one value and its column's declaration, never at another cell or the type of an
array: whatever record joins a table, every other record is read as before, bit for bit
(docs/theory/limits.md#one-record-at-a-time). No cell raises: what cannot be read is NaN or None,
and the caller decides about that record alone.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers

MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null"})
"""Texts that stand for a missing cell."""

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\.0+")
_EXACT = 2.0**53  # from here on a float may stand for several whole numbers
_DAY = np.timedelta64(1, "D")
_NANOSECONDS = 86_400e9
_WRITTEN = {
    sign: re.compile(
        rf"[+-]?([0-9]+([{sign}][0-9]*)?|[{sign}][0-9]+)([eE][+-]?[0-9]+)?", re.ASCII
    ).fullmatch
    for sign in ".,"
}
"""Matches a number in text, by the decimal sign."""


class Plain(NamedTuple):
    """Values of a column: `cells[places]`, or `cells`; a place of -1 is missing."""

    cells: NDArray[Any] | list[Any]
    places: Integers | None = None


def plain(column: Any) -> Plain:
    """Return the values of a column of any container, each as it is. Secret.

    Numbers and times as an array, other values as a list.
    """
    if isinstance(column, np.ndarray):
        return _of_array(column)
    if isinstance(column, list | tuple | range):
        return Plain(list(column))
    reader = _READERS.get(_package(column))
    if reader is not None:
        return reader(column)
    if hasattr(column, "__array__"):
        return _of_array(np.asarray(column))
    return Plain(list(column))


def is_column(column: Any) -> bool:
    """Tell whether it is a column of pandas, Polars or Arrow, which keeps each cell as it is."""
    return _package(column) in _READERS and not hasattr(column, "columns")


def _package(column: Any) -> str:
    return type(column).__module__.partition(".")[0]


def _of_array(column: NDArray[Any]) -> Plain:
    if isinstance(column, np.ma.MaskedArray):
        known = ~np.ma.getmaskarray(column)
        return _with_missing(_of_array(np.asarray(column.data)), known)
    if column.dtype.kind in "biufM" and not _is_finer(column.dtype):
        return Plain(column)
    if column.dtype.kind in "OUScM":
        return Plain(list(column))
    return Plain([_UNREADABLE] * len(column))  # durations, fields


def _of_pandas(column: Any) -> Plain:
    import pandas as pd

    if not isinstance(column, pd.Series):
        return _of_pandas(pd.Series(column))
    kind = column.dtype
    if isinstance(kind, np.dtype):
        return _of_array(column.to_numpy())
    if hasattr(kind, "categories") and hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy().astype(np.int64)
        return _taken(plain(column.cat.categories), codes)
    if hasattr(kind, "pyarrow_dtype"):
        import pyarrow as pa

        return _of_arrow(pa.array(column.array))
    if hasattr(kind, "tz"):
        return Plain(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    return Plain(list(column))


def _of_polars(column: Any) -> Plain:
    if str(column.dtype) in ("Object", "Int128", "UInt128"):  # Arrow has no such type
        return Plain(column.to_list())
    return _of_arrow(column.to_arrow())


def _of_arrow(column: Any) -> Plain:
    """Extract Arrow's values by their own type; a cast would look at all of a column."""
    import pyarrow as pa
    from pyarrow import compute, types

    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return _of_arrow(column.chunk(0))
        return _joined([_of_arrow(chunk) for chunk in column.chunks])
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _of_arrow(column.storage)
    if types.is_dictionary(kind):
        codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return _taken(_of_arrow(column.dictionary), codes)
    found = Plain(_arrow_values(column))
    if isinstance(found.cells, list) or not column.null_count:
        return found
    return _with_missing(found, compute.is_valid(column).to_numpy(zero_copy_only=False))


def _arrow_values(column: Any) -> NDArray[Any] | list[Any]:
    """Return numbers and times as an array, zeros for nulls; words as a list."""
    from pyarrow import types

    kind = column.type
    if types.is_temporal(kind):
        return _arrow_times(column)
    if types.is_boolean(kind):
        return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False))
    if types.is_integer(kind) or types.is_floating(kind):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False))
    if any(is_kind(kind) for is_kind in _arrow_words()):
        return _arrow_list(column)
    return [_UNREADABLE] * len(column)  # lists, structs: no cell is a number or a word


def _arrow_list(column: Any) -> list[Any]:
    """Return words; where one is no UTF-8, which Arrow does not check, that one stays bytes."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_one_word(cell) for cell in column]


def _one_word(cell: Any) -> Any:
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return bytes(cell.as_buffer())


def _arrow_words() -> list[Callable[[Any], bool]]:
    from pyarrow import types

    text = [types.is_string, types.is_large_string, types.is_string_view]
    raw = [types.is_binary, types.is_large_binary, types.is_fixed_size_binary]
    return [*text, *raw, types.is_binary_view, types.is_decimal, types.is_null]


def _arrow_times(column: Any) -> NDArray[Any] | list[Any]:
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_date32(kind):
        days = column.view(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(days.astype(np.int64).view("datetime64[D]"))
    if types.is_date64(kind) or types.is_timestamp(kind):
        unit = "ms" if types.is_date64(kind) else kind.unit  # with a zone: the instant, in UTC
        values = column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(values.view(f"datetime64[{unit}]"))
    return [_UNREADABLE] * len(column)  # durations, times of day


def _with_missing(found: Plain, known: NDArray[np.bool_]) -> Plain:
    places = np.arange(len(known)) if found.places is None else found.places
    return Plain(found.cells, np.where(known, places, -1))


def _taken(found: Plain, places: Integers) -> Plain:
    if found.places is not None:
        places = np.append(found.places, -1)[places]
    return Plain(found.cells, places)


def _joined(parts: list[Plain]) -> Plain:
    """Join the values of several parts, each with its own type."""
    arrays = [part.cells for part in parts if isinstance(part.cells, np.ndarray)]
    if parts and len(arrays) == len(parts) and all(part.places is None for part in parts):
        return Plain(np.concatenate(arrays))  # chunks have one type
    cells: list[Any] = []
    places: list[Integers] = []
    for part in parts:
        own = np.arange(len(part.cells)) if part.places is None else part.places
        places.append(np.where(own < 0, -1, own + len(cells)))
        cells.extend(part.cells)
    return Plain(cells, np.concatenate(places) if places else np.empty(0, dtype=np.int64))


class _Unreadable:
    """Stands for a value that no rule reads."""


_UNREADABLE = _Unreadable()


_READERS: dict[str, Callable[[Any], Plain]] = {
    "pandas": _of_pandas,
    "polars": _of_polars,
    "pyarrow": _of_arrow,
}


def numbers_of(column: Any, decimal: str = ".") -> tuple[Floats, NDArray[np.bool_]]:
    """Return each cell as a float64 (NaN if no finite number), and which cells are missing. Secret.

    `decimal` is the decimal sign of numbers in text, "." or ",".
    """
    cells, places = plain(column)
    if isinstance(cells, np.ndarray):
        values, missing = _array_numbers(cells)
    else:
        values = np.fromiter((number_of(cell, decimal) for cell in cells), np.float64, len(cells))
        missing = _missing_among(cells, np.isnan(values))
    return _at(values, places, math.nan), _at(missing, places, True)


def _array_numbers(cells: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    if cells.dtype.kind == "M":
        return np.full(len(cells), math.nan), np.isnat(cells)
    with np.errstate(all="ignore"):
        values = cells.astype(np.float64)
    missing = np.isnan(values)
    return np.where(np.isfinite(values), values, math.nan), missing


def _missing_among(cells: Sequence[Any], odd: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of the unreadable cells are missing."""
    missing = np.zeros(len(cells), dtype=np.bool_)
    for at in np.flatnonzero(odd).tolist():
        missing[at] = is_missing(cells[at])
    return missing


def _at(values: NDArray[Any], places: Integers | None, otherwise: Any) -> NDArray[Any]:
    if places is None:
        return values
    return np.append(values, np.array([otherwise], dtype=values.dtype))[places]


def number_of(cell: Any, decimal: str = ".") -> float:
    """Return a cell as a float; NaN where it is no finite number.

    >>> number_of("1e3"), number_of(True), number_of("1,5", ","), number_of("1_000")
    (1000.0, 1.0, 1.5, nan)
    """
    if isinstance(cell, str):
        word = str.strip(cell)
        return _finite(float(word.replace(",", "."))) if _WRITTEN[decimal](word) else math.nan
    if isinstance(cell, np.ndarray) and cell.ndim == 0:
        return number_of(cell.item(), decimal)
    if cell is np.ma.masked or not isinstance(cell, _NUMBERS):
        return math.nan
    try:
        return _finite(float(_real(cell)))
    except Exception:  # a whole number too large for a float
        return math.nan


_NUMBERS = (numbers.Number, Decimal, np.bool_)


def _real(cell: Any) -> Any:
    """Return the real value of a complex number: another cell may have made it complex."""
    if not isinstance(cell, complex | np.complexfloating):
        return cell
    return cell.real if cell.imag == 0 else math.nan


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, no time, or one of the words for missing."""
    if cell is None or cell is np.ma.masked or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, str):
        return str.strip(cell) in MISSING
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def days_of(column: Any, start: dt.date) -> tuple[Floats, NDArray[np.bool_]]:
    """Return days since a public day, NaN where a cell is no date, and which cells are missing.

    Cells are dates, times (an aware one counts in UTC), or text such as "2024-05-01". Secret.
    """
    first = np.datetime64(start, "D")
    cells, places = plain(column)
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "M":
            values, missing = _days_since(cells, first), np.isnat(cells)
        else:  # plain numbers are no dates
            values, missing = np.full(len(cells), math.nan), _array_numbers(cells)[1]
    else:
        times = [_time_of(cell) for cell in cells]
        days = [math.nan if time is None else _days_since(time, first) for time in times]
        values = np.array(days, dtype=np.float64)
        missing = _missing_among(cells, np.isnan(values))
    return _at(values, places, math.nan), _at(missing, places, True)


def _days_since(times: Any, first: np.datetime64) -> Any:
    """Return whole days and the fraction in nanoseconds: exact in every unit of time."""
    day = times.astype("datetime64[D]")
    rest = (times - day).astype("timedelta64[ns]")
    return np.asarray((day - first) / _DAY + rest / np.timedelta64(1, "ns") / _NANOSECONDS)[()]


def _time_of(cell: Any) -> np.datetime64 | None:
    """Return a cell as a date or instant, or None."""
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) or _is_finer(cell.dtype) else cell
    if isinstance(cell, str):
        return _written_time(str.strip(cell))
    if is_missing(cell) or not isinstance(cell, dt.date):
        return None
    try:
        if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
            cell = cell.astimezone(dt.UTC).replace(tzinfo=None)
        exact = getattr(cell, "to_datetime64", None)  # of pandas, to the nanosecond
        return np.datetime64(cell) if exact is None else exact()
    except Exception:  # a time that UTC cannot name
        return None


_WRITTEN_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)(Z|[+-][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)


def _written_time(word: str) -> np.datetime64 | None:
    """Read a day, or an instant of it, as ISO 8601 and Python write them."""
    found = _WRITTEN_TIME.fullmatch(word)
    if found is None:
        return None
    day, clock, zone = found.groups()
    try:
        if clock is None:
            return np.datetime64(day, "D")
        time = np.datetime64(f"{day}T{clock}", "ns")
    except ValueError:  # the 31st of February
        return None
    if zone in (None, "Z"):
        return time
    east = int(zone[1:3]) * 60 + int(zone[4:6])
    return time - np.timedelta64(east if zone[0] == "+" else -east, "m")


def _is_finer(kind: np.dtype[Any]) -> bool:
    """Tell whether times are finer than nanoseconds, which reach no day of ours."""
    return kind.kind == "M" and np.datetime_data(kind)[0] in ("ps", "fs", "as")


def words_of(column: Any) -> list[str | None]:
    """Return each cell as a word (`word_of`), or None. Secret."""
    cells, places = plain(column)
    words = list(map(word_of, cells))
    return words if places is None else [None if at < 0 else words[at] for at in places.tolist()]


def word_of(cell: Any) -> str | None:
    """Return the word for a value, which its value alone decides, or None.

    A whole number is its digits, as 7, 7.0, "7" or "7.0". Another number is the shortest text that
    names it in its own precision. A date is 2024-05-01, with a time 2024-05-01T12:30:00, in UTC if
    it has a zone. Bytes are their text, or hexadecimal digits if they are not text.

    >>> [word_of(cell) for cell in (7, 7.0, " 7 ", "7.0", True, 0.5, None)]
    ['7', '7', '7', '7', 'true', '0.5', None]
    """
    if isinstance(cell, np.ndarray) and cell.ndim == 0:
        return word_of(cell.item())
    for kinds, write in _WORDS:
        if isinstance(cell, kinds):
            try:
                return write(cell)
            except Exception:  # a number of somebody's own kind that cannot be written
                return None
    time = _time_of(cell)
    return None if time is None else _time_word(time)


def _text_word(cell: str) -> str:
    word = str.strip(cell)
    return word.partition(".")[0] if _WHOLE.fullmatch(word) else word


def _number_word(cell: Any) -> str | None:
    if isinstance(cell, Decimal):
        if not cell.is_finite():
            return None
        return f"{(cell or abs(cell)).normalize():f}"  # -0 is 0
    value = float(cell)
    if not math.isfinite(value):
        return None
    if value == math.floor(value):
        return f"{value + 0.0:.0f}"
    with np.errstate(all="ignore"):
        single = np.float32(value)
    return str(single) if float(single) == value else repr(value)


def _time_word(time: np.datetime64) -> str:
    day = time.astype("datetime64[D]")
    rest = int((time - day).astype("timedelta64[ns]") / np.timedelta64(1, "ns"))
    if not rest:
        return str(day)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{day}T{clock}{digits}"


def _text_in(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.hex()
    return _text_word(text) if text.isprintable() else raw.hex()


_WORDS: tuple[tuple[Any, Callable[[Any], str | None]], ...] = (
    (str, _text_word),
    (bool | np.bool_, lambda cell: "true" if cell else "false"),
    (bytes, lambda cell: _text_in(bytes(cell))),
    (uuid.UUID, lambda cell: cell.hex),
    (numbers.Integral, lambda cell: str(int(cell))),
    (numbers.Number | Decimal, lambda cell: _number_word(_real(cell))),
)


def id_of(cell: Any) -> str | None:
    """Return the text of a person's id, None where it is missing; equal however it is stored.

    A float from 2^53 on may be several ids: None.

    >>> [id_of(cell) for cell in ("ann", 7, 7.0, "", None, 2.0**60)]
    ['ann', '7', '7', None, None, None]
    """
    if isinstance(cell, float | np.floating) and abs(float(cell)) >= _EXACT:
        return None
    if isinstance(cell, bool | np.bool_):
        return None
    word = word_of(cell)
    return None if word is None or word in MISSING else word


def ids_of(column: Any) -> list[str | None]:
    """Return the text of each person's id (`id_of`), None where there is none. Secret."""
    cells, places = plain(column)
    read = list(map(id_of, cells))
    return read if places is None else [None if at < 0 else read[at] for at in places.tolist()]


def texts_of(column: Any) -> list[str]:
    """Return each cell as text without space around it; empty where it is none. Secret."""
    cells, places = plain(column)
    read = [str.strip(cell) if isinstance(cell, str) else word_of(cell) or "" for cell in cells]
    return read if places is None else ["" if at < 0 else read[at] for at in places.tolist()]


def frame_columns(source: Any) -> tuple[list[Any], list[Any]] | None:
    """Return names and columns of a frame or Arrow table, None for other types. Secret."""
    for package, kinds in (("pandas", ("DataFrame",)), ("polars", ("DataFrame",))):
        library: Any = sys.modules.get(package)  # nobody has a frame who has not imported it
        if library is not None and isinstance(source, getattr(library, kinds[0])):
            if package == "polars":
                return list(source.columns), source.get_columns()
            return list(source.columns), [source.iloc[:, at] for at in range(source.shape[1])]
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(source, arrow.Table | arrow.RecordBatch):
        return list(source.schema.names), list(source.columns)
    return None
