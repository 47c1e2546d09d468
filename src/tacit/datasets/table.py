"""Tables with declared column roles: CSV in, numbers and indices of public categories out.

Nothing about the table's values is learned: categories, bins and classes come from the caller, an
undeclared category is `other`, an undeclared label is an error, undeclared columns are not read.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, finite, refuse
from tacit.datasets._reading import PathLike, existing_file, open_binary, reading
from tacit.datasets.dataset import Dataset, Label, class_indices, declared_classes
from tacit.errors import InvalidArgument
from tacit.features.columns import Categorical, Column, Numeric

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null")


@dataclass(frozen=True, slots=True)
class Roles:
    """What each column of a table is for; `missing` replaces an absent number, None refuses it."""

    target: str
    columns: tuple[Column, ...]
    groups: str | None = None
    missing: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read: the inputs, the target, the groups."""
        extra = () if self.groups is None else (self.groups,)
        return (*(column.name for column in self.columns), self.target, *extra)


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
    missing: float | None = None,
    delimiter: str = ",",
    name: str | None = None,
) -> Dataset:
    r"""Load a CSV file with a header (`.gz` too) whose columns' roles and values are declared.

    - `target`, `classes`: the column of labels and all the labels there are.
    - `numeric`: columns of numbers, with the public edges of their bins where `PublicBins` shall
      use them; `categorical`: columns of words with their public categories.
    - `groups`: the column that says whose record it is.
    - `missing`: the public number that stands for an empty or `?` cell of a numeric column;
      without it such a cell is an error.

    X holds numbers and the categories' indices (the next one for `other`), columns in the order of
    the declaration, numbers first. Columns that are not declared are not read.

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
    columns = declared_columns(numeric, {} if categorical is None else categorical)
    fill = None if missing is None else finite(missing=missing)
    roles = Roles(target, columns, groups, fill)
    declared = declared_classes(classes)
    with reading(found, "CSV file in UTF-8"):
        cells = read_cells(found, roles, delimiter=delimiter)
    return as_dataset(
        [cells], roles, declared, found.stem if name is None else name, repr(found.name)
    )


def declared_columns(numeric: Any, categorical: Any) -> tuple[Column, ...]:
    """Return the declared columns; numeric ones may be a list of names without edges."""
    if isinstance(numeric, str) or not isinstance(numeric, Iterable):
        raise refuse("numeric", numeric, "names of columns, with or without public edges")
    if not isinstance(categorical, Mapping):
        raise refuse("categorical", categorical, "a mapping from columns to public categories")
    numbers = numeric if isinstance(numeric, Mapping) else dict.fromkeys(numeric, ())
    columns: tuple[Column, ...] = (
        *(Numeric(name, edges) for name, edges in numbers.items()),
        *(Categorical(name, categories) for name, categories in categorical.items()),
    )
    if not columns:
        raise InvalidArgument("Expected at least one numeric or categorical column.")
    return columns


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
    with open_binary(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        lines = (line for line in text if comment is None or not line.startswith(comment))
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
        names = next(rows, []) if header is None else list(header)
        positions = _positions([name.strip() for name in names], roles.names, path)
        return _collect(_checked_rows(rows, len(names), path), positions, roles, path)


def _positions(names: Sequence[str], wanted: Sequence[str], path: Path) -> list[int]:
    if len(set(wanted)) < len(wanted):
        raise InvalidArgument("Expected each column to have one role; a name was declared twice.")
    absent = [name for name in wanted if names.count(name) != 1]
    if absent:
        raise InvalidArgument(f"Expected one column {absent[0]!r} in the header of {path.name!r}.")
    return [names.index(name) for name in wanted]


def _checked_rows(rows: Any, width: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    for row in rows:
        if not row:
            continue
        if len(row) != width:
            raise InvalidArgument(
                f"Expected {width} cells in each line of {path.name!r}; line {rows.line_num} has "
                "another number."
            )
        yield rows.line_num, row


def _collect(
    rows: Iterator[tuple[int, list[str]]], positions: list[int], roles: Roles, path: Path
) -> Cells:
    readers = [_reader(column, roles.missing) for column in roles.columns]
    inputs, labels, groups = array("d"), [], []
    for line, row in rows:
        cells = [row[k].strip() for k in positions]
        try:
            inputs.extend([read(cell) for read, cell in zip(readers, cells, strict=False)])
        except ValueError:
            raise InvalidArgument(
                f"Expected finite numbers in the numeric columns of {path.name!r}; line {line} has "
                "something else (an empty or ? cell needs missing=...)."
            ) from None
        labels.append(cells[len(readers)])
        groups.extend(cells[len(readers) + 1 :])
    if not labels:
        raise InvalidArgument(f"Expected at least one record in {path.name!r}.")
    X = np.array(inputs).reshape(len(labels), len(readers))
    return Cells(X, labels, np.array(groups) if roles.groups is not None else None)


def _reader(column: Column, missing: float | None) -> Callable[[str], float]:
    if isinstance(column, Categorical):
        codes = {str(label): float(k) for k, label in enumerate(column.labels[:-1])}
        other = float(len(codes))
        return lambda cell: codes.get(cell, other)

    def read_number(cell: str) -> float:
        if missing is not None and cell in MISSING:
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
        tuple(column.name for column in roles.columns),
        classes,
        name,
        columns=roles.columns,
        groups=np.concatenate(groups) if groups else None,
        n_train=len(parts[0].labels) if len(parts) > 1 else None,
    )
