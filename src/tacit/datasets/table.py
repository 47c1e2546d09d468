"""Tables with declared column roles: records in, numbers and indices of public categories out.

Nothing about the table's values is learned: categories, bins and classes come from the caller, an
undeclared category is `other` (or refused), an undeclared label is an error, and columns without a
role are not read. Public inputs come without labels: `load_inputs`. A file without a header begins
with a record, so that no message quotes the first line: it names declared columns, and of the line
no more than a separator that it contains.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, finite, flag, refuse
from tacit.datasets._reading import reading
from tacit.datasets.batches import Batches, TextFormat, batches_of, kind_of, other_types
from tacit.datasets.dataset import (
    Dataset,
    Label,
    class_indices,
    declared_classes,
    undeclared_label,
)
from tacit.errors import InvalidArgument
from tacit.features import Categorical, Column, Numeric

if TYPE_CHECKING:
    import pyarrow as pa

_MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null")


@dataclass(frozen=True, slots=True)
class Roles:
    """What each column of a table is for; `missing` replaces absent numbers, None refuses them.

    A target of None reads inputs only. Where `other` is false, an undeclared category is an error.
    `dates` are numeric columns that hold dates, each with the public day from which it is counted.
    """

    target: str | None
    columns: tuple[Column, ...]
    groups: str | None = None
    missing: float | Mapping[str, float] | None = None
    ignored: tuple[str, ...] = ()
    other: bool = True
    dates: Mapping[str, date] = field(default_factory=dict)

    def stand_in(self, column: Column) -> float | None:
        """Return what replaces an absent number of this column."""
        missing = self.missing
        return missing.get(column.name) if isinstance(missing, Mapping) else missing

    def of_inputs(self) -> Roles:
        """Return the roles of the inputs alone, without target and groups."""
        return Roles(None, self.columns, None, self.missing, (), self.other, self.dates)

    def reading(self, column: Column) -> tuple[Any, ...]:
        """Return all that decides which number a cell of this column becomes; bins do not."""
        if isinstance(column, Categorical):
            return (column.labels, self.other)
        return (self.dates.get(column.name), self.stand_in(column))

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read: the inputs, the target, the groups."""
        extra = [name for name in (self.target, self.groups) if name is not None]
        return (*(column.name for column in self.columns), *extra)


@dataclass(frozen=True, slots=True)
class Cells:
    """What was read: inputs, the labels as words, and the groups' words or None."""

    X: Floats
    labels: list[str]
    groups: NDArray[Any] | None


def load_table(
    source: Any,
    *,
    target: str,
    classes: Iterable[Label] = (),
    target_range: Iterable[float] | None = None,
    numeric: Mapping[str, Iterable[float]] | Iterable[str] = (),
    categorical: Mapping[str, Iterable[str]] | None = None,
    groups: str | None = None,
    ignored: Iterable[str] = (),
    missing: float | Mapping[str, float] | None = None,
    other: bool = True,
    dates: Mapping[str, str | date] | None = None,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    name: str | None = None,
) -> Dataset:
    r"""Load a table whose columns' roles and values are declared.

    Parameters
    ----------
    source : path or table
        A CSV file with a header (also `.gz`, `.bz2`, `.xz`, `.zst`), a Parquet file or a folder of
        them, a frame of pandas, Polars or Dask, a table or reader of pyarrow, a relation of DuckDB.
    target : str
        The column of labels, or of the numbers that are to be learned.
    classes : iterable of str or int
        All the labels there are; one that is not declared is an error, and is not quoted.
    target_range : pair of float, optional
        (low, high) instead of `classes`: the target holds numbers, clipped to these public bounds
        when they are learned. Read off the file they would tell of its extreme records.
    numeric : mapping or iterable of str
        Columns of numbers, with the public edges of their bins where `PublicBins` shall use them.
    categorical : mapping, optional
        Columns of words with their public categories.
    groups : str, optional
        The column that says whose record it is; an empty cell, or NA, there is an error.
    ignored : iterable of str
        Columns that are there and not used, to say so; others without a role are not read either.
    missing : float or mapping, optional
        The public number that stands for an empty or `?` cell of a numeric column, or one for each
        column; without it such a cell is an error.
    other : bool
        Whether an undeclared category counts as `other`; if not, it is an error.
    dates : mapping, optional
        Numeric columns that hold dates, each with the public day from which days are counted:
        {"joined": "2020-01-01"}. A day read off the file would tell of somebody.
    delimiter : str
        The one character between cells of a text file, such as ";" or a tab.
    decimal : str
        "." or ",": what stands before the fraction of a number in a text file.
    encoding : str
        Of a text file; "latin-1" for many old exports.
    name : str, optional
        What the set is called; by default the file's name without its ending.

    Returns
    -------
    Dataset
        X holds numbers and the categories' indices (the next one for `other`), columns in the
        order of the declaration, numbers first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("sex,age,rich\nMale,40,no\nunknown,17,yes\n")
    ...     people = load_table(file, target="rich", classes=["no", "yes"],
    ...         numeric={"age": [18, 65]}, categorical={"sex": ["Female", "Male"]})
    ...     people.X.tolist(), people.y.tolist()
    ([[40.0, 1.0], [17.0, 2.0]], [0, 1])
    """
    column_name(target=target)
    roles = roles_of(target, numeric, categorical, groups, ignored, missing, other, dates)
    text = TextFormat(delimiter, decimal, encoding)
    bounds = None if target_range is None else declared_range(target_range, classes)
    declared = declared_classes(classes) if bounds is None else ()
    cells = read_cells(source, roles, text)
    if isinstance(source, str | os.PathLike):
        called, where = Path(source).name.partition(".")[0], repr(Path(source).name)
    else:
        called = where = type(source).__name__
    called = called if name is None else name
    if bounds is not None:
        about: dict[str, Any] = {"columns": roles.columns, "groups": cells.groups}
        numbers = _target_numbers(cells.labels, text, target, where)
        return Dataset(cells.X, numbers, (), called, target_range=bounds, **about)
    return as_dataset([cells], roles, declared, called, where)


def declared_range(target_range: Any, classes: Any) -> tuple[float, float]:
    """Return declared bounds of a target; labels cannot be declared beside them."""
    if not isinstance(target_range, list | tuple) or len(target_range) != 2:
        raise refuse("target_range", target_range, "two numbers, [low, high]")
    low, high = finite(low=target_range[0]), finite(high=target_range[1])
    if not low < high:
        raise refuse("target_range", target_range, "[low, high] with low below high")
    if isinstance(classes, int) or tuple(classes):
        raise InvalidArgument("Expected classes (for labels) or target_range (for numbers).")
    return low, high


def _target_numbers(words: Sequence[str], text: TextFormat, target: str, where: str) -> Floats:
    """Return the target as numbers; a cell that is none is not quoted."""
    import pyarrow as pa

    return read_target_numbers(pa.array(words), text, target, where)


load_csv = load_table
"""The same: what it reads, it tells by the file."""


def load_inputs(
    source: Any,
    *,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    **declared: Any,
) -> Floats:
    r"""Load the inputs alone of a table, as `load_table` would: public rows need no labels.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "public.csv")
    ...     _ = file.write_text("age,sex\n40,Male\n17,unknown\n")
    ...     load_inputs(file, numeric=["age"], categorical={"sex": ["Female", "Male"]}).tolist()
    [[40.0, 1.0], [17.0, 2.0]]
    """
    text = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}
    return np.concatenate([inputs for inputs, _ in input_blocks(source, **text, **declared)])


def input_blocks(
    source: Any,
    *,
    ids: str | None = None,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    **declared: Any,
) -> Iterator[tuple[Floats, list[str]]]:
    """Go through the inputs of a table, a batch at a time, each with the words of column `ids`."""
    roles, text = roles_of(None, **declared), TextFormat(delimiter, decimal, encoding)
    table = batches_of(source, text)
    check_names(table, roles)
    named = [] if ids is None else [ids]
    if ids is not None and table.names.count(ids) != 1:
        raise InvalidArgument(f"Expected one column {ids!r} in {table.name!r}.")
    read = 0
    with reading(Path(table.name), "table"):  # a type that is no number or word, too
        for batch in table.of(list(dict.fromkeys([*roles.names, *named]))):
            words = [word for name in named for word in _words(batch[name]).to_pylist()]
            yield read_batch(batch, roles, text, table, read).X, words
            read += batch.num_rows
    if not read:
        raise InvalidArgument(f"Expected at least one record in {table.name!r}.")


class WholeColumn(NamedTuple):
    """A column of a public table: numbers (NaN where a cell is none), holes, and words."""

    numbers: Floats
    holes: NDArray[np.bool_]
    words: list[str]


def read_columns(table: Batches, text: TextFormat) -> Iterator[tuple[str, WholeColumn]]:
    """Go through a public table once, then column by column."""
    once = [name for name in table.names if table.names.count(name) == 1]
    batches = list(table.of(once))
    if not batches:
        raise InvalidArgument(f"Expected at least one record in {table.name!r}.")
    for name in once:
        parts = [_numbers(batch[name], text) for batch in batches]
        words = [word for batch in batches for word in _words(batch[name]).to_pylist()]
        numbers, holes = (np.concatenate(part) for part in zip(*parts, strict=True))
        yield name, WholeColumn(numbers, holes, words)


def roles_of(
    target: str | None,
    numeric: Any = (),
    categorical: Any = None,
    groups: str | None = None,
    ignored: Any = (),
    missing: Any = None,
    other: bool = True,
    dates: Any = None,
) -> Roles:
    """Check the declarations of a table's columns, before any row is read."""
    if isinstance(numeric, str) or not isinstance(numeric, Iterable):
        raise refuse("numeric", numeric, "names of columns, with or without public edges")
    if not isinstance(categorical, Mapping | None):
        raise refuse("categorical", categorical, "a mapping from columns to public categories")
    numbers = numeric if isinstance(numeric, Mapping) else dict.fromkeys(numeric, ())
    columns: tuple[Column, ...] = (
        *(Numeric(name, edges) for name, edges in numbers.items()),
        *(_category(name, categories) for name, categories in (categorical or {}).items()),
    )
    if not columns:
        raise InvalidArgument("Expected at least one numeric or categorical column.")
    if groups is not None:
        column_name(groups=groups)
    if isinstance(ignored, str) or not isinstance(ignored, Iterable):
        raise refuse("ignored", ignored, "a list of columns")
    unused = tuple(column_name(ignored=name) for name in ignored)
    days = _declared_dates(dates, numbers)
    absent = _declared_missing(missing, numbers)
    return Roles(target, columns, groups, absent, unused, flag(other=other), days)


def _category(name: str, categories: Any) -> Categorical:
    """Declare a column by words, also where numbers were given: X holds places among them."""
    return Categorical(name, Categorical(name, categories).labels[:-1])


def _declared_missing(missing: Any, numbers: Mapping[str, Any]) -> Any:
    if not isinstance(missing, Mapping):
        return None if missing is None else finite(missing=missing)
    if strange := [name for name in missing if name not in numbers]:
        raise refuse("missing", strange[0], "numbers for numeric columns")
    return {name: finite(missing=number) for name, number in missing.items()}


def _declared_dates(dates: Any, numbers: Mapping[str, Any]) -> dict[str, date]:
    if not isinstance(dates, Mapping | None) or any(name not in numbers for name in dates or ()):
        raise refuse("dates", dates, "numeric columns, each with the public day it is counted from")
    days = {}
    for name, day in (dates or {}).items():
        try:
            days[name] = day if isinstance(day, date) else date.fromisoformat(day)
        except (TypeError, ValueError):
            raise refuse("dates", day, f'a day such as "2020-01-01" for column {name!r}') from None
    return days


def column_name(**named: Any) -> str:
    """Return an argument that names a column; what else was given is not quoted."""
    ((role, name),) = named.items()
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"Expected {role}= the name of a column, got {type(name).__name__}.")
    return name


def read_cells(source: Any, roles: Roles, text: TextFormat) -> Cells:
    """Read the declared columns of a table, batch by batch; each cell is read by itself."""
    table = batches_of(source, text)
    check_names(table, roles)
    parts: list[Cells] = []
    read = 0
    with reading(Path(table.name), "table"):  # a type that is no number or word, too
        for batch in table.of(list(roles.names)):
            parts.append(read_batch(batch, roles, text, table, read))
            read += batch.num_rows
    if not parts:
        raise InvalidArgument(f"Expected at least one record in {table.name!r}.")
    groups = [part.groups for part in parts if part.groups is not None]
    return Cells(
        np.concatenate([part.X for part in parts]),
        [label for part in parts for label in part.labels],
        np.concatenate(groups) if groups else None,
    )


def check_names(table: Batches, roles: Roles) -> None:
    """Each declared column must be there once."""
    declared = (*roles.names, *roles.ignored)
    if twice := [name for name in declared if declared.count(name) > 1]:
        raise InvalidArgument(f"Expected each column to have one role; {twice[0]!r} has two.")
    for name in declared:
        place = f"column {name!r} in the header of {table.name!r}"
        if name not in table.names:
            raise InvalidArgument(f"Expected a {place}; {table.hint or 'there is none'}.")
        if (times := table.names.count(name)) > 1:
            raise InvalidArgument(f"Expected one {place}; there are {times}.")


def read_batch(
    batch: pa.RecordBatch,
    roles: Roles,
    text: TextFormat,
    table: Batches,
    before: int,
    *,
    labels: bool = True,
) -> Cells:
    """Read one batch; `before` records came before it."""
    inputs = np.empty((batch.num_rows, len(roles.columns)))
    for place, column in enumerate(roles.columns):
        inputs[:, place] = _values(batch[column.name], column, roles, text)
    odd = ~np.isfinite(inputs)
    if odd.any():
        row = int(odd.any(axis=1).argmax())
        raise _odd_cell(
            roles.columns[int(odd[row].argmax())], roles, text, table, table.place(before + row)
        )
    wanted = labels and roles.target is not None
    words = _words(batch[roles.target]).to_pylist() if wanted else []
    return Cells(inputs, words, _groups(batch, roles, table, before))


def read_labels(cells: pa.Array, classes: Sequence[Label], where: str) -> NDArray[Any]:
    """Return the declared labels of a column's cells; one that is not declared is not quoted."""
    import pyarrow as pa
    from pyarrow import compute

    declared = pa.array([str(label) for label in classes], pa.string())
    places = compute.index_in(_words(cells), value_set=declared)
    if places.null_count:
        raise undeclared_label(where, len(classes))
    return np.asarray(np.array(classes)[places.to_numpy(zero_copy_only=False)])


def read_target_numbers(cells: pa.Array, text: TextFormat, target: str, where: str) -> Floats:
    """Return a target as numbers; a cell that is none is not quoted."""
    values, _ = _numbers(cells, text)
    if not np.isfinite(values).all():
        raise InvalidArgument(
            f"Expected finite numbers in column {target!r} of {where}: target_range is declared "
            "for it, and at least one cell is none."
        )
    return values


def _groups(
    batch: pa.RecordBatch, roles: Roles, table: Batches, before: int
) -> NDArray[Any] | None:
    if roles.groups is None:
        return None
    # Else one person's words could differ from part to part, or two people's be the same.
    if table.kinds.get(roles.groups, kind := kind_of(batch[roles.groups].type)) != kind:
        raise other_types(roles.groups)
    people = np.array(_words(batch[roles.groups]).to_pylist(), dtype=str)
    nobody = np.isin(people, _MISSING)  # all of them would be one person
    if nobody.any():
        where = table.place(before + int(nobody.argmax()))
        raise InvalidArgument(
            f"Expected {roles.groups!r} of {table.name!r} to say whose record it is; {where} does "
            "not."
        )
    return people


def _odd_cell(
    column: Column, roles: Roles, text: TextFormat, table: Batches, where: str
) -> InvalidArgument:
    """Name the declared column and, for whoever repairs the file, the line; never the cell."""
    place = f"in column {column.name!r} of {table.name!r}; {where} has"
    if isinstance(column, Categorical):
        return InvalidArgument(
            f"Expected declared categories only {place} another (declare it, or let it count as "
            "other)."
        )
    if column.name in roles.dates:
        return InvalidArgument(
            f"Expected dates {place} something else (write 2024-05-01; a hole needs missing=...)."
        )
    hole = "" if roles.stand_in(column) is not None else "; an empty or ? cell needs missing=..."
    wrong = "1,5" if text.decimal == "." else "1.5"
    right = "1.5" if text.decimal == "." else "1,5"
    return InvalidArgument(
        f"Expected finite numbers {place} something else (write {right}, not {wrong}, or say "
        f"decimal=..., and declare a date under dates{hole})."
    )


def _values(cells: pa.Array, column: Column, roles: Roles, text: TextFormat) -> Floats:
    """Return a column's cells as numbers; what cannot be read is NaN."""
    if isinstance(column, Categorical):
        return _category_indices(_words(cells), column, other=roles.other)
    start = roles.dates.get(column.name)
    values, holes = _days(cells, start) if start is not None else _numbers(cells, text)
    missing = roles.stand_in(column)
    return values if missing is None else np.where(holes, missing, values)


def _numbers(cells: pa.Array, text: TextFormat) -> tuple[Floats, NDArray[np.bool_]]:
    """Return numbers, NaN where a cell is none, and which cells are holes."""
    import pyarrow as pa
    from pyarrow import compute

    kind = cells.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        values = compute.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(values, dtype=np.float64), np.isnan(values)
    words = _words(cells)
    holes = compute.is_in(words, pa.array(_MISSING)).to_numpy(zero_copy_only=False)
    digits, point = ("[0-9]+", re.escape(text.decimal))
    number = f"^[+-]?({digits}({point}[0-9]*)?|{point}{digits})([eE][+-]?{digits})?$"
    valid = compute.match_substring_regex(words, number)
    plain = compute.replace_substring(compute.if_else(valid, words, ""), text.decimal, ".")
    values = np.array([float(word) if word else math.nan for word in plain.to_pylist()])
    return values, holes


def _days(cells: pa.Array, start: date) -> tuple[Floats, NDArray[np.bool_]]:
    """Return days since a public day, NaN where a cell is no date, and which cells are holes."""
    import pyarrow as pa
    from pyarrow import compute

    first = np.datetime64(start, "D")
    if pa.types.is_temporal(cells.type):
        words = compute.cast(cells, pa.timestamp("ns")).to_numpy(zero_copy_only=False)
        days = (words.astype("datetime64[ns]") - first) / np.timedelta64(1, "D")
        return np.asarray(days, dtype=np.float64), np.isnat(words.astype("datetime64[ns]"))
    text = _words(cells)
    holes = compute.is_in(text, pa.array(_MISSING)).to_numpy(zero_copy_only=False)
    parsed = compute.strptime(text, format="%Y-%m-%d", unit="s", error_is_null=True)
    found = parsed.to_numpy(zero_copy_only=False).astype("datetime64[D]")
    # The 31st of February, or the year 24, is none.
    odd = np.datetime_as_string(found) != np.array(text.to_pylist(), dtype=str)
    days = np.asarray((found - first) / np.timedelta64(1, "D"), dtype=np.float64)
    return np.where(odd, math.nan, days), holes


def _words(cells: pa.Array) -> pa.Array:
    """Return cells as words without space around them; nothing is an empty one."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_dictionary(cells.type):
        words = cells.dictionary
        if pa.types.is_string_view(words.type):  # of Polars; Arrow cannot take them
            words = compute.cast(words, pa.string())
        cells = words.take(cells.indices)
    if isinstance(cells.type, pa.BaseExtensionType):
        cells = cells.storage
    if pa.types.is_fixed_size_binary(cells.type):  # as of UUIDs: bytes that are no text
        told = cells.to_pylist()
        return pa.array(["" if one is None else one.hex() for one in told], pa.string())
    if pa.types.is_floating(cells.type):
        told = cells.to_numpy(zero_copy_only=False)
        return pa.array([_number_word(number) for number in told], pa.string())
    if pa.types.is_decimal(cells.type):  # how many digits there are is no word of one cell
        exact = cells.to_pylist()
        # -0 is 0, as in memory: one person.
        words = ["" if one is None else f"{(one or abs(one)).normalize():f}" for one in exact]
        return pa.array(words, pa.string())
    text = compute.cast(cells, pa.string())
    return compute.fill_null(compute.utf8_trim_whitespace(text), "")


def _number_word(number: np.floating[Any]) -> str:
    """Return a number as a declared one is written, 1 and not 1.0, with all of its digits.

    Two people whose numbers differ in the last digit are two people.
    """
    if np.isnan(number):
        return ""
    return f"{number + 0.0:.0f}" if number == np.floor(number) else str(number)  # -0 is 0


def _category_indices(words: pa.Array, column: Categorical, *, other: bool) -> Floats:
    """Return places among the declared categories; the next one, or NaN, for another."""
    import pyarrow as pa
    from pyarrow import compute

    declared = pa.array([str(label) for label in column.labels[:-1]], pa.string())
    places = compute.index_in(words, value_set=declared)
    found = compute.fill_null(compute.cast(places, pa.float64()), math.nan)
    values = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)
    return np.where(np.isnan(values), float(len(declared)), values) if other else values


def as_dataset(
    parts: Sequence[Cells], roles: Roles, classes: tuple[Label, ...], name: str, source: str
) -> Dataset:
    """Join what was read into a data set; the first of two parts is the training part."""
    labels = [label for part in parts for label in part.labels]
    words = [str(label) for label in classes]
    groups = [part.groups for part in parts if part.groups is not None]
    return Dataset(
        np.concatenate([part.X for part in parts]),
        class_indices(labels, words, f"column {roles.target!r} of {source}"),
        classes,
        name,
        columns=roles.columns,
        groups=np.concatenate(groups) if groups else None,
        n_train=len(parts[0].labels) if len(parts) > 1 else None,
    )
