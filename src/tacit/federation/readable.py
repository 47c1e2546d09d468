"""The records of a table that are as declared: each is judged by itself, and none stops a study.

A cell that is no number, a label that nobody declared or a record of nobody must decide neither
whether a site takes part nor what other teachers learn (docs/theory/federation.md#who-takes-part).
So such a record is left out, which only its own teacher would notice. What says nothing of any
record is refused as ever: a wrong declaration, a missing file or column, a file that is no table.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.datasets import (
    Dataset,
    TextFormat,
    declared_roles,
    existing_file,
    load_table,
    named_kind,
    reading,
    text_lines,
)
from tacit.errors import InvalidArgument
from tacit.features import Categorical

if TYPE_CHECKING:
    import pyarrow as pa

_WRITTEN = ("delimiter", "decimal", "encoding")


def example_of(source: str, options: Mapping[str, Any]) -> Dataset:
    """Return a made-up record as declared; a declaration that cannot be met is refused here.

    Parameters
    ----------
    source : str
        "csv:FILE" or "parquet:FILE".
    options : mapping
        The declarations of its columns.

    Returns
    -------
    Dataset
        Of one record that is nobody's.
    """
    if named_kind(source).partition(":")[0] not in ("csv", "parquet"):
        raise InvalidArgument(
            "Expected a table as source in [data], csv:FILE or parquet:FILE; arrays go through "
            "Site.answer(X=..., y=...) in Python."
        )
    try:
        return load_table(_made_up(source, options), **_of_cells(options))
    except TypeError as error:
        raise InvalidArgument(f"Expected options that tables take: {error}.") from None


def _made_up(source: str, options: Mapping[str, Any]) -> pa.Table:
    """Return one record that declarations ask for, as words."""
    import pyarrow as pa

    roles = declared_roles(source, **options)
    assert roles is not None
    cells: dict[str, str] = {}
    for column in roles.columns:
        if isinstance(column, Categorical):
            cells[column.name] = str(column.labels[0])
        else:
            cells[column.name] = str(roles.dates.get(column.name, 0))
    classes = options.get("classes", ())
    first = next(iter(classes), "0") if not isinstance(classes, int) else 0
    cells[str(options.get("target"))] = str(first)
    if "groups" in options:
        cells[str(options["groups"])] = "somebody"
    cells.update(dict.fromkeys(options.get("ignored", ()), ""))
    return pa.table({name: pa.array([word], pa.string()) for name, word in cells.items()})


def readable_records(source: str, options: Mapping[str, Any]) -> tuple[Dataset | None, bool]:
    """Return the records that are as declared, and whether all are. Secret.

    Parameters
    ----------
    source : str
        "csv:FILE" or "parquet:FILE".
    options : mapping
        The declarations of its columns, which `example_of` has checked.

    Returns
    -------
    tuple of Dataset or None, and bool
        None if there is no such record.
    """
    table, whole = _as_written(source, options)
    try:
        return load_table(table, **_of_cells(options)), whole
    except InvalidArgument:
        pass
    words = np.array(table[str(options["target"])].to_pylist(), dtype=str)
    classes = options.get("classes", ())
    declared = range(classes) if isinstance(classes, int) else classes
    known = np.isin(words, [str(each) for each in declared])
    parts = _parts(table.filter(known), _of_cells(options))
    if not parts:
        return None, False
    X, y = (np.concatenate([getattr(each, name) for each in parts]) for name in ("X", "y"))
    groups = [each.groups for each in parts if each.groups is not None]
    whose = np.concatenate(groups) if groups else None
    return Dataset(X, y, parts[0].classes, parts[0].name, groups=whose), False


def _of_cells(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of cells: how a file was cut into them is over."""
    return {name: value for name, value in options.items() if name not in ("delimiter", "encoding")}


def _as_written(source: str, options: Mapping[str, Any]) -> tuple[pa.Table, bool]:
    """Return the declared columns, those of a text as words, and whether every line was cut."""
    roles = declared_roles(source, **options)
    assert roles is not None
    named = [*roles.names, options["target"], *options.get("ignored", ())]
    named += [options["groups"]] if "groups" in options else []
    kind, _, place = named_kind(source).partition(":")
    if kind == "parquet":
        return _cells_of_parquet(place, named), True
    return _cut_lines(source, place, list(dict.fromkeys(named)), options)


def _cells_of_parquet(place: str, named: list[str]) -> pa.Table:
    from pyarrow import parquet

    what = f"Parquet file with the columns {', '.join(named)}"
    with reading(Path(place), what):  # an error of Arrow's may quote what it read
        return parquet.read_table(place, columns=named).select(named)


def _cut_lines(
    source: str, place: str, named: list[str], options: Mapping[str, Any]
) -> tuple[pa.Table, bool]:
    """Cut a text into cells line by line: a quote that stays open ends with its own line.

    A reader of whole files lets an open quote, a stray comma or an odd byte swallow or refuse the
    lines of others. So a line is a record here, and one that cannot be cut is left out.
    """
    import pyarrow as pa

    text = TextFormat(**{name: options[name] for name in _WRITTEN if name in options})
    rows, whole = [], True
    path = existing_file(place)
    with reading(path, "CSV file"), text_lines(path, text, errors="replace") as lines:
        header = _cells(next(lines, ""), text) or []
        places = [_place(header, name, source) for name in named]
        for line in lines:
            cells = _cells(line, text) if line.strip() else []
            if cells and len(cells) == len(header):
                rows.append([cells[at] for at in places])
            whole &= cells == [] or (cells is not None and len(cells) == len(header))
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in named]
    words = zip(named, columns, strict=True)
    return pa.table({name: pa.array(column, pa.string()) for name, column in words}), whole


def _cells(line: str, text: TextFormat) -> list[str] | None:
    """Return the cells of one line; None if it cannot be cut."""
    how: dict[str, Any] = {"delimiter": text.delimiter, "skipinitialspace": True, "strict": True}
    try:
        rows = list(csv.reader([line], **how))
    except csv.Error:
        return None
    return [cell.strip() for cell in rows[0]] if len(rows) == 1 else None


def _place(header: list[str], name: str, source: str) -> int:
    if header.count(str(name)) != 1:
        raise InvalidArgument(f"Expected one column {name!r} in {source!r}.")
    return header.index(str(name))


def _parts(table: pa.Table, options: Mapping[str, Any]) -> list[Dataset]:
    """Cut a table until each piece can be read; a record that cannot is left out."""
    try:
        return [load_table(table, **options)]
    except InvalidArgument:
        if len(table) <= 1:
            return []
    half = len(table) // 2
    return _parts(table.slice(0, half), options) + _parts(table.slice(half), options)
