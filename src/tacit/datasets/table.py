"""Tables with declared column roles: records in, numbers and indices of public categories out.

Nothing is learned from the values: categories, bins and classes are declared, an undeclared
category is `other` (or refused), an undeclared label is an error, other columns are not read. Each
cell is read by itself (`tacit._cells`); a record with an unreadable one is refused, or left out
where that was declared. A file without a header begins with a record: no message quotes that line.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._cells import days_of, ids_of, numbers_of, plain, texts_of, word_of, words_of
from tacit._checks import Floats, finite, finite_rows, flag, one_of, refuse
from tacit.datasets.batches import Batches, Cells, TextFormat, batches_of
from tacit.datasets.dataset import Dataset, Label, declared_classes
from tacit.errors import InvalidArgument
from tacit.features import Categorical, Column, Numeric

if TYPE_CHECKING:
    from tacit.records import Target

UNREADABLE = ("refuse", "drop")


@dataclass(frozen=True, slots=True)
class Roles:
    """What each column of a table is for, and how its cells are read; all of it public.

    `missing` replaces absent numbers, None refuses them; `unreadable` is "refuse" or "drop".
    """

    target: str | None
    columns: tuple[Column, ...]
    groups: str | None = None
    missing: float | Mapping[str, float] | None = None
    ignored: tuple[str, ...] = ()
    other: bool = True
    dates: Mapping[str, date] = field(default_factory=dict)
    unreadable: str = "refuse"

    @property
    def drop(self) -> bool:
        """Whether a record that cannot be read is left out."""
        return self.unreadable == "drop"

    def stand_in(self, column: Column) -> float | None:
        """Return the replacement of an absent number of this column."""
        missing = self.missing
        return missing.get(column.name) if isinstance(missing, Mapping) else missing

    def of_inputs(self) -> Roles:
        """Return the roles of the inputs alone, without target and groups."""
        return Roles(None, self.columns, None, self.missing, (), self.other, self.dates)

    def reading(self, column: Column) -> tuple[Any, ...]:
        """Return all that decides the number of a cell in this column; bins do not."""
        if isinstance(column, Categorical):
            return (column.labels, self.other)
        return (self.dates.get(column.name), self.stand_in(column))

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read: the inputs, the target, the groups."""
        extra = [name for name in (self.target, self.groups) if name is not None]
        return (*(column.name for column in self.columns), *extra)


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
    unreadable: str = "refuse",
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
        All the labels there are; an undeclared one is an error, and is not quoted.
    target_range : pair of float, optional
        (low, high) instead of `classes`: the target holds numbers, clipped to these public bounds
        when they are learned. Read off the file they would disclose its extreme records.
    numeric : mapping or iterable of str
        Columns of numbers, with the public edges of their bins for `PublicBins`.
    categorical : mapping, optional
        Columns of words with their public categories.
    groups : str, optional
        The column of the records' people; an empty cell, or NA, there is an error.
    ignored : iterable of str
        Columns that are knowingly not used; others without a role are not read either.
    missing : float or mapping, optional
        The public number that replaces an empty or `?` cell of a numeric column, or one for each
        column; without it such a cell is an error.
    other : bool
        Whether an undeclared category counts as `other`; if not, it is an error.
    dates : mapping, optional
        Numeric columns that hold dates, each with the public day from which days are counted:
        {"joined": "2020-01-01"}. A day read off the file would disclose a record.
    delimiter : str
        The one character between cells of a text file, such as ";" or a tab.
    decimal : str
        Decimal sign of numbers in a text file, "." or ",".
    encoding : str
        Of a text file; "latin-1" for many old exports.
    unreadable : str
        "refuse" (default): a record with a cell that cannot be read as declared is an error;
        "drop": each such record is left out by itself, silently. Of a text file each line is then
        a record.
    name : str, optional
        Name of the set; by default the file's without its ending.

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
    columns = (numeric, categorical, groups, ignored, missing, other, dates, unreadable)
    roles = roles_of(column_name(target=target), *columns)
    text = TextFormat(delimiter, decimal, encoding)
    bounds = None if target_range is None else declared_range(target_range, classes)
    declared = declared_classes(classes) if bounds is None else ()
    block = read_table(source, roles, text, target_of(declared, bounds, decimal))
    called = type(source).__name__
    if isinstance(source, str | os.PathLike):
        called = Path(source).name.partition(".")[0]
    return as_dataset([block], roles, declared, called if name is None else name, bounds)


def table_names(
    source: Any,
    *,
    target: str,
    classes: Any = (),
    target_range: Any = None,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    **declared: Any,
) -> list[bytes]:
    """Return each record's person, or a hash of its inputs, in `load_table`'s order. Secret."""
    roles = roles_of(target, **declared)
    bounds = None if target_range is None else declared_range(target_range, classes)
    labels = declared_classes(classes) if bounds is None else ()
    wanted = target_of(labels, bounds, decimal)
    text = TextFormat(delimiter, decimal, encoding)
    block = read_table(source, roles, text, wanted, with_rows=True)
    return names_of_ids(block.ids) if block.ids is not None else block.rows or []


def names_of_ids(ids: Iterable[str]) -> list[bytes]:
    """Return ids as bytes, to be hashed. Secret."""
    return [one.encode("utf-8", "surrogatepass") for one in ids]


def ids_as_written(
    source: Any, groups: str, *, delimiter: str = ",", encoding: str = "utf-8"
) -> list[bytes]:
    """Return the person of each record as 0.2 read them: 7.0 in a text was not yet 7. Secret."""
    table = batches_of(source, TextFormat(delimiter, ".", encoding))
    found: list[str] = []
    for batch in table.of([groups]):
        if getattr(plain(batch[groups]).cells, "dtype", np.dtype(np.str_)).kind == "M":
            raise InvalidArgument(
                f"Expected {groups!r} to hold text or whole numbers where split_rule = 1, no times."
            )
        found += texts_of(batch[groups])
    return names_of_ids(found)


def target_of(
    classes: tuple[Label, ...], bounds: tuple[float, float] | None, decimal: str = "."
) -> Target:
    """Return how a column of targets is read: as numbers where bounds are declared."""
    from tacit.records import Labels, Numbers  # with scikit-learn, which loaders alone do without

    # Data are kept as they are; whoever learns from them clips them to the bounds.
    return Labels(classes) if bounds is None else Numbers(-math.inf, math.inf, decimal)


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
    """Yield inputs of a public table, with the texts of column `ids` beside each batch."""
    declared.pop("unreadable", None)  # a rule for private records
    roles, text = roles_of(None, **declared), TextFormat(delimiter, decimal, encoding)
    table = batches_of(source, text)
    check_names(table, roles)
    named = [] if ids is None else [ids]
    if ids is not None and table.names.count(ids) != 1:
        raise InvalidArgument(f"Expected one column {ids!r} in {table.name!r}.")
    read = 0
    for batch in table.of(list(dict.fromkeys([*roles.names, *named]))):
        words = [word for name in named for word in texts_of(batch[name])]
        yield read_batch(batch, roles, text, None, table=table, before=read).X, words
        read += batch.count
    if not read:
        raise _no_record(table.name)


def _no_record(name: str) -> InvalidArgument:
    return InvalidArgument(f"Expected at least one record in {name!r}.")


class WholeColumn(NamedTuple):
    """A column of a public table: numbers (NaN where a cell is none), missing cells, and words."""

    numbers: Floats
    holes: NDArray[np.bool_]
    words: list[str]


def read_columns(table: Batches, text: TextFormat) -> Iterator[tuple[str, WholeColumn]]:
    """Read a public table in one pass, then yield column by column."""
    once = [name for name in table.names if table.names.count(name) == 1]
    batches = list(table.of(once))
    if not batches:
        raise _no_record(table.name)
    for name in once:
        parts = [numbers_of(batch[name], text.decimal) for batch in batches]
        words = [word or "" for batch in batches for word in words_of(batch[name])]
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
    unreadable: str = "refuse",
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
    policy = one_of(*UNREADABLE, unreadable=unreadable)
    return Roles(target, columns, groups, absent, unused, flag(other=other), days, policy)


def _category(name: str, categories: Any) -> Categorical:
    """Declare a column by words, also for numbers: X holds indices of categories."""
    found = Categorical(name, categories)
    return Categorical(name, [str(word_of(each)) for each in found.categories])


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
    """Return an argument that names a column; another type is not quoted."""
    ((role, name),) = named.items()
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"Expected {role}= the name of a column, got {type(name).__name__}.")
    return name


@dataclass(frozen=True, slots=True, repr=False)
class Block:
    """Records read: inputs, targets, ids of people, and of rows where wanted. Secret."""

    X: Floats
    targets: NDArray[Any]
    ids: list[str] | None
    rows: list[bytes] | None = None


def read_table(
    source: Any, roles: Roles, text: TextFormat, target: Target | None, *, with_rows: bool = False
) -> Block:
    """Read the declared columns of a table, batch by batch; each cell is read by itself."""
    table = batches_of(source, text, by_line=roles.drop)
    check_names(table, roles)
    parts: list[Block] = []
    read = 0
    for batch in table.of(list(roles.names)):
        how: dict[str, Any] = {"table": table, "before": read, "with_rows": with_rows}
        parts.append(read_batch(batch, roles, text, target, **how))
        read += batch.count
    if not sum(len(part.X) for part in parts):
        raise _no_record(table.name)
    return joined(parts)


def joined(parts: Sequence[Block]) -> Block:
    """Join blocks of one table."""
    ids = [one for part in parts for one in part.ids or ()]
    rows = [one for part in parts for one in part.rows or ()]
    return Block(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.targets for part in parts]),
        None if parts[0].ids is None else ids,
        None if parts[0].rows is None else rows,
    )


def check_names(table: Batches, roles: Roles) -> None:
    """Refuse a table that lacks a declared column, or has it twice."""
    declared = (*roles.names, *roles.ignored)
    if twice := [name for name in declared if declared.count(name) > 1]:
        raise InvalidArgument(f"Expected each column to have one role; {twice[0]!r} has two.")
    for name in declared:
        where = f"column {name!r} in the header of {table.name!r}"
        if name not in table.names:
            raise InvalidArgument(f"Expected a {where}; {table.hint or 'there is none'}.")
        if (times := table.names.count(name)) > 1:
            raise InvalidArgument(f"Expected one {where}; there are {times}.")


def read_batch(
    batch: Cells,
    roles: Roles,
    text: TextFormat,
    target: Target | None,
    *,
    table: Batches,
    before: int = 0,
    drop: bool | None = None,
    with_rows: bool = False,
) -> Block:
    """Read one batch, after `before` records; unreadable ones are refused, or left out."""
    inputs = np.empty((batch.count, len(roles.columns)))
    for at, column in enumerate(roles.columns):
        inputs[:, at] = _values(batch[column.name], column, roles, text)
    targets, fits = _targets(batch, roles, target)
    ids = None if roles.groups is None else ids_of(batch[roles.groups])
    known = np.array([one is not None for one in ids or [""] * batch.count], dtype=np.bool_)
    rows = _row_ids(batch, roles, text) if with_rows else None
    readable = finite_rows(inputs) & fits & known
    people = None if ids is None else [str(one) for one in ids]
    if readable.all():
        return Block(inputs, targets, people, rows)
    if not (roles.drop if drop is None else drop):
        row = int((~readable).argmax())
        where = table.row(before + row)
        raise _refusal(inputs[row], bool(fits[row]), roles, text, target, table.name, where)
    left = np.flatnonzero(readable).tolist()
    return Block(
        inputs[readable],
        targets[readable],
        None if people is None else [people[at] for at in left],
        None if rows is None else [rows[at] for at in left],
    )


def _targets(
    batch: Cells, roles: Roles, target: Target | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if roles.target is None or target is None:
        return np.zeros(batch.count, dtype=np.int64), np.ones(batch.count, dtype=np.bool_)
    return target.read(batch[roles.target])


def _row_ids(batch: Cells, roles: Roles, text: TextFormat) -> list[bytes]:
    """Return a hash of each record's inputs as stored: values of numbers, words, missing cells."""
    parts: list[list[bytes]] = []
    for column in roles.columns:
        cells = batch[column.name]
        if isinstance(column, Categorical):
            words = words_of(cells)
            parts.append([(word or "").encode("utf-8", "surrogatepass") for word in words])
        else:
            values = _numbers_or_days(cells, column, roles, text)[0] + 0.0  # one zero
            parts.append([value.tobytes() for value in np.asarray(values, dtype="<f8")])
    return [hash_of(cells) for cells in zip(*parts, strict=True)]


def hash_of(cells: Iterable[bytes]) -> bytes:
    """Return a hash of cells, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16, person=b"tacit row")
    for cell in cells:
        digest.update(len(cell).to_bytes(8, "little") + cell)
    return digest.hexdigest().encode()


def _refusal(
    row: Floats,
    fits: bool,
    roles: Roles,
    text: TextFormat,
    target: Target | None,
    name: str,
    where: str,
) -> InvalidArgument:
    """Name the declared column and the line, never the cell."""
    odd = np.flatnonzero(~np.isfinite(row))
    if odd.size:
        return _odd_input(roles.columns[int(odd[0])], roles, text, name, where)
    if not fits and target is not None:
        return InvalidArgument(
            f"Expected every cell of column {roles.target!r} of {name!r} to be {target.expected}; "
            f"{where} has another."
        )
    return InvalidArgument(
        f"Expected {roles.groups!r} of {name!r} to say whose record it is, by text, a whole number "
        f"or a date; {where} does not."
    )


def _odd_input(
    column: Column, roles: Roles, text: TextFormat, name: str, where: str
) -> InvalidArgument:
    odd = f"in column {column.name!r} of {name!r}; {where} has"
    if isinstance(column, Categorical):
        return InvalidArgument(
            f"Expected declared categories only {odd} another (declare it, or let it count as "
            "other)."
        )
    if column.name in roles.dates:
        return InvalidArgument(
            f"Expected dates {odd} something else (write 2024-05-01; a hole needs missing=...)."
        )
    hole = "" if roles.stand_in(column) is not None else "; an empty or ? cell needs missing=..."
    wrong, right = ("1,5", "1.5") if text.decimal == "." else ("1.5", "1,5")
    return InvalidArgument(
        f"Expected finite numbers {odd} something else (write {right}, not {wrong}, or say "
        f"decimal=..., and declare a date under dates{hole})."
    )


def _values(cells: Any, column: Column, roles: Roles, text: TextFormat) -> Floats:
    """Return a column's cells as numbers; what cannot be read is NaN."""
    if isinstance(column, Categorical):
        return _category_indices(words_of(cells), column, other=roles.other)
    values, holes = _numbers_or_days(cells, column, roles, text)
    missing = roles.stand_in(column)
    return values if missing is None else np.where(holes, missing, values)


def _numbers_or_days(
    cells: Any, column: Column, roles: Roles, text: TextFormat
) -> tuple[Floats, NDArray[np.bool_]]:
    start = roles.dates.get(column.name)
    return numbers_of(cells, text.decimal) if start is None else days_of(cells, start)


def _category_indices(words: Sequence[str | None], column: Categorical, *, other: bool) -> Floats:
    """Return the index of each declared category; the next one, or NaN, for another."""
    known: dict[str | None, int] = {
        word_of(label): at for at, label in enumerate(column.labels[:-1])
    }
    strange = float(len(known)) if other else math.nan
    return np.array([known.get(word, strange) for word in words], dtype=np.float64)


def as_dataset(
    parts: Sequence[Block],
    roles: Roles,
    classes: tuple[Label, ...],
    name: str,
    target_range: tuple[float, float] | None = None,
) -> Dataset:
    """Join blocks into a data set; the first of two parts is the training part."""
    whole = joined(parts)
    return Dataset(
        whole.X,
        whole.targets,
        classes,
        name,
        columns=roles.columns or None,
        groups=None if whole.ids is None else np.array(whole.ids, dtype=object),
        n_train=len(parts[0].X) if len(parts) > 1 else None,
        target_range=target_range,
    )
