"""Tables with declared column roles: CSV in, numbers and indices of public categories out.

Nothing about the table's values is learned: categories, bins and classes come from the caller, an
undeclared category is `other` (or refused), an undeclared label is an error, and columns without a
role are not read. Public inputs come without labels: `load_inputs`. A file without a header begins
with a record, so that no message quotes the first line: it names declared columns, and of the line
no more than a separator that it contains.
"""

from __future__ import annotations

import csv
import io
import json
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, finite, flag, refuse
from tacit._files import PathLike
from tacit.datasets._reading import existing_file, open_binary, reading, utf8_text
from tacit.datasets.dataset import Dataset, Label, class_indices, declared_classes
from tacit.errors import InvalidArgument
from tacit.features import Categorical, Column, Numeric

_MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null")
_SEPARATORS = ";\t|,"  # what often stands between cells


@dataclass(frozen=True, slots=True)
class Roles:
    """What each column of a table is for; `missing` replaces an absent number, None refuses it.

    A target of None reads inputs only. Where `other` is false, an undeclared category is an error.
    """

    target: str | None
    columns: tuple[Column, ...]
    groups: str | None = None
    missing: float | None = None
    ignored: tuple[str, ...] = ()
    other: bool = True

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


def load_csv(
    path: PathLike,
    *,
    target: str,
    classes: Iterable[Label],
    numeric: Mapping[str, Iterable[float]] | Iterable[str] = (),
    categorical: Mapping[str, Iterable[str]] | None = None,
    groups: str | None = None,
    ignored: Iterable[str] = (),
    missing: float | None = None,
    other: bool = True,
    delimiter: str = ",",
    name: str | None = None,
) -> Dataset:
    r"""Load a CSV file with a header (`.gz` too) whose columns' roles and values are declared.

    Parameters
    ----------
    path : path
        The file, in UTF-8.
    target : str
        The column of labels.
    classes : iterable of str or int
        All the labels there are; one that is not declared is an error, and is not quoted.
    numeric : mapping or iterable of str
        Columns of numbers, with the public edges of their bins where `PublicBins` shall use them.
    categorical : mapping, optional
        Columns of words with their public categories.
    groups : str, optional
        The column that says whose record it is; an empty cell there is an error.
    ignored : iterable of str
        Columns that are there and not used, to say so; others without a role are not read either.
    missing : float, optional
        The public number that stands for an empty or `?` cell of a numeric column; without it such
        a cell is an error.
    other : bool
        Whether an undeclared category counts as `other`; if not, it is an error.
    delimiter : str
        The one character between cells, such as ";" or a tab.
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
    ...     people = load_csv(file, target="rich", classes=["no", "yes"],
    ...         numeric={"age": [18, 65]}, categorical={"sex": ["Female", "Male"]})
    ...     people.X.tolist(), people.y.tolist()
    ([[40.0, 1.0], [17.0, 2.0]], [0, 1])
    """
    found = existing_file(path)
    _column_name(target=target)
    roles = roles_of(target, numeric, categorical, groups, ignored, missing, other)
    declared = declared_classes(classes)
    cells = read_cells(found, roles, delimiter=delimiter)
    called = found.stem if name is None else name
    return as_dataset([cells], roles, declared, called, repr(found.name))


def load_inputs(path: PathLike, *, delimiter: str = ",", **declared: Any) -> Floats:
    r"""Load the inputs alone of a CSV file, as `load_csv` would: public rows need no labels.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "public.csv")
    ...     _ = file.write_text("age,sex\n40,Male\n17,unknown\n")
    ...     load_inputs(file, numeric=["age"], categorical={"sex": ["Female", "Male"]}).tolist()
    [[40.0, 1.0], [17.0, 2.0]]
    """
    found = existing_file(path)
    roles = roles_of(None, **declared)
    return read_cells(found, roles, delimiter=delimiter).X


def roles_of(
    target: str | None,
    numeric: Any = (),
    categorical: Any = None,
    groups: str | None = None,
    ignored: Any = (),
    missing: float | None = None,
    other: bool = True,
) -> Roles:
    """Check the declarations of a table's columns, before any row is read."""
    if isinstance(numeric, str) or not isinstance(numeric, Iterable):
        raise refuse("numeric", numeric, "names of columns, with or without public edges")
    if not isinstance(categorical, Mapping | None):
        raise refuse("categorical", categorical, "a mapping from columns to public categories")
    numbers = numeric if isinstance(numeric, Mapping) else dict.fromkeys(numeric, ())
    columns: tuple[Column, ...] = (
        *(Numeric(name, edges) for name, edges in numbers.items()),
        *(Categorical(name, categories) for name, categories in (categorical or {}).items()),
    )
    if not columns:
        raise InvalidArgument("Expected at least one numeric or categorical column.")
    if groups is not None:
        _column_name(groups=groups)
    if isinstance(ignored, str) or not isinstance(ignored, Iterable):
        raise refuse("ignored", ignored, "a list of columns")
    unused = tuple(_column_name(ignored=name) for name in ignored)
    absent = None if missing is None else finite(missing=missing)
    return Roles(target, columns, groups, absent, unused, flag(other=other))


def _column_name(**named: Any) -> str:
    ((role, name),) = named.items()
    if not isinstance(name, str) or not name:
        raise refuse(role, name, "the name of a column")
    return name


def read_cells(
    path: Path,
    roles: Roles,
    *,
    header: Sequence[str] | None = None,
    comment: str | None = None,
    delimiter: str = ",",
) -> Cells:
    """Read the declared columns of a file; `header` names them where the file does not."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise refuse("delimiter", delimiter, "one character between cells")
    with reading(path, "CSV file in UTF-8"), utf8_text(path), open_binary(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        lines = (line for line in text if comment is None or not line.startswith(comment))
        first = next(lines, "")
        whole = chain([first], lines)
        rows = csv.reader(whole, delimiter=delimiter, skipinitialspace=True, strict=True)
        hint = _separator_hint(first, delimiter)
        names = _read_header(rows, first, hint, path) if header is None else header
        positions = _positions(names, roles, hint, path)
        return _collect(rows, len(names), positions, roles, path)


def _separator_hint(line: str, delimiter: str) -> str | None:
    """Say which other separator a header without the delimiter has; None where there is none."""
    other = next((each for each in _SEPARATORS if each in line), None)
    if other is None or delimiter in line:
        return None
    said = json.dumps(other)  # as TOML and Python both write it, a tab included
    return f"it has one column and contains {said}; if that separates cells, set delimiter={said}"


def _read_header(rows: Any, first: str, hint: str | None, path: Path) -> list[str]:
    """Read the names of the columns, `first` being the line where they begin."""
    if not first:
        raise InvalidArgument(f"Expected a header in {path.name!r}; the file is empty.")
    try:
        names: list[str] = next(rows)
    except csv.Error:  # names in quotes, and between them what is no delimiter
        if hint is None:
            raise
        raise InvalidArgument(f"Expected columns in the header of {path.name!r}; {hint}.") from None
    if not names:
        raise InvalidArgument(f"Expected a header in {path.name!r}; its first line is blank.")
    return names


def _positions(header: Sequence[str], roles: Roles, hint: str | None, path: Path) -> list[int]:
    """Return where the columns stand that are read; each declared one must be there once."""
    names = [name.strip() for name in header]
    declared = (*roles.names, *roles.ignored)
    if twice := [name for name in declared if declared.count(name) > 1]:
        raise InvalidArgument(f"Expected each column to have one role; {twice[0]!r} has two.")
    for name in declared:
        place = f"column {name!r} in the header of {path.name!r}"
        if name not in names:
            raise InvalidArgument(f"Expected a {place}; {hint or 'there is none'}.")
        if names.count(name) > 1:
            raise InvalidArgument(f"Expected one {place}; there are {names.count(name)}.")
    return [names.index(name) for name in roles.names]


def _collect(rows: Any, width: int, positions: list[int], roles: Roles, path: Path) -> Cells:
    readers = [_reader(column, roles) for column in roles.columns]
    inputs = array("d")
    rest: list[list[str]] = []  # of each row: its label and its group, where they are read
    for row in filter(None, rows):
        if len(row) != width:
            raise InvalidArgument(
                f"Expected {width} cells in each line of {path.name!r}; line {rows.line_num} has "
                "another number."
            )
        cells = [row[k].strip() for k in positions]
        try:
            for read, cell in zip(readers, cells, strict=False):
                inputs.append(read(cell))
        except (KeyError, ValueError):
            column = roles.columns[len(inputs) % len(readers)]
            raise _odd_cell(column, roles, path, rows.line_num) from None
        rest.append(cells[len(readers) :])
        if roles.groups is not None and not cells[-1]:
            raise InvalidArgument(
                f"Expected {roles.groups!r} of {path.name!r} to say whose record it is; line "
                f"{rows.line_num} does not."
            )
    if not rest:
        raise InvalidArgument(f"Expected at least one record in {path.name!r}.")
    X = np.array(inputs).reshape(len(rest), len(readers))
    labels = [] if roles.target is None else [row[0] for row in rest]
    return Cells(X, labels, None if roles.groups is None else np.array([row[-1] for row in rest]))


def _odd_cell(column: Column, roles: Roles, path: Path, line: int) -> InvalidArgument:
    """Name the declared column and, for whoever repairs the file, the line; never the cell."""
    place = f"in column {column.name!r} of {path.name!r}; line {line} has"
    if isinstance(column, Categorical):
        return InvalidArgument(
            f"Expected declared categories only {place} another (declare it, or let it count as "
            "other)."
        )
    hole = "" if roles.missing is not None else "; an empty or ? cell needs missing=..."
    return InvalidArgument(
        f"Expected finite numbers {place} something else (write 1.5, not 1,5, and a date as a "
        f"number{hole})."
    )


def _reader(column: Column, roles: Roles) -> Callable[[str], float]:
    """Return what reads the cells of a column: KeyError or ValueError for one that it cannot."""
    if isinstance(column, Categorical):
        codes = {str(label): float(k) for k, label in enumerate(column.labels[:-1])}
        undeclared = float(len(codes))
        return (lambda cell: codes.get(cell, undeclared)) if roles.other else codes.__getitem__
    missing = roles.missing

    def read_number(cell: str) -> float:
        if missing is not None and cell in _MISSING:
            return missing
        number = float(cell)
        if not math.isfinite(number) or "_" in cell:  # Python's own 1_000 is not a number in a file
            raise ValueError
        return number

    return read_number


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
