"""The header of a table: where its declared columns stand, and what is wrong where they do not.

A file without a header begins with a record, so that no message quotes the first line: it names
declared columns, and of the line no more than a separator that it contains.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tacit.errors import InvalidArgument

_SEPARATORS = ";\t|,"
"""What often stands between cells."""


def separator_hint(line: str, delimiter: str) -> str | None:
    """Say which other separator a header without the delimiter has; None where there is none."""
    other = next((each for each in _SEPARATORS if each in line), None)
    if other is None or delimiter in line:
        return None
    said = json.dumps(other)  # as TOML and Python both write it, a tab included
    return f"it has one column and contains {said}; if that separates cells, set delimiter={said}"


def read_header(rows: Iterator[list[str]], first: str, hint: str | None, path: Path) -> list[str]:
    """Read the names of the columns, `first` being the line where they begin."""
    if not first:
        raise InvalidArgument(f"Expected a header in {path.name!r}; the file is empty.")
    try:
        names = next(rows)
    except csv.Error:  # names in quotes, and between them what is no delimiter
        if hint is None:
            raise
        raise InvalidArgument(f"Expected columns in the header of {path.name!r}; {hint}.") from None
    if not names:
        raise InvalidArgument(f"Expected a header in {path.name!r}; its first line is blank.")
    return names


def column_positions(
    header: Sequence[str],
    read: Sequence[str],
    ignored: Sequence[str],
    hint: str | None,
    path: Path,
) -> list[int]:
    """Return where the columns stand that are read; each declared one must be there once."""
    names = [name.strip() for name in header]
    declared = (*read, *ignored)
    for name in declared:
        if declared.count(name) > 1:
            raise InvalidArgument(f"Expected each column to have one role; {name!r} has two.")
    for name in declared:
        if name not in names:
            raise InvalidArgument(
                f"Expected a column {name!r} in the header of {path.name!r}; "
                f"{hint or 'there is none'}."
            )
        if names.count(name) > 1:
            raise InvalidArgument(
                f"Expected one column {name!r} in the header of {path.name!r}; there are "
                f"{names.count(name)}."
            )
    return [names.index(name) for name in read]
