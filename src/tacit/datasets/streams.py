"""Tables of private records that are read batch by batch, and never held in memory.

Declarations and cells are those of `load_table`, but rows are read again for each sum. A file must
not change meanwhile: every reader of a piece compares its status, before and after.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._checks import Floats, column_names
from tacit.datasets._reading import read_file
from tacit.datasets.batches import (
    Batches,
    Opened,
    TextFormat,
    batches_of,
    files_of,
    opens_anywhere,
    some_batches,
    state_of,
)
from tacit.datasets.dataset import Dataset, Label, declared_classes
from tacit.datasets.named import call_loader, named_kind
from tacit.datasets.table import (
    Roles,
    check_names,
    column_name,
    declared_range,
    read_batch,
    read_table,
    roles_of,
    target_of,
)
from tacit.errors import InvalidArgument
from tacit.features import Column, Numeric

if TYPE_CHECKING:
    from tacit.records import Piece, RecordArrays, Target


@dataclass(frozen=True, slots=True, repr=False)
class TablePiece:
    """A part of a table, which any process that can open it reads alike."""

    name: str
    opened: Opened
    roles: Roles
    text: TextFormat
    target: Target
    drop: bool
    state: tuple[Any, ...] = ()

    def read(self) -> Iterator[RecordArrays]:
        """Yield its records, a batch at a time; its files must be unchanged. Secret."""
        from tacit.records import NoTargets, RecordArrays  # scikit-learn, not for loaders alone
        from tacit.teachers import unit_names

        state = partial(state_of, self.opened)
        row = getattr(self.opened, "row", _somewhere)
        table = Batches(self.name, [], self.opened, row, state=state)
        table.refuse_other(self.state)
        target = None if isinstance(self.target, NoTargets) else self.target
        before = 0
        for batch in some_batches(self.name, self.opened, list(self.roles.names)):
            how: dict[str, Any] = {"table": table, "drop": self.drop, "before": before}
            before += batch.count
            block = read_batch(batch, self.roles, self.text, target, **how)
            people = None if block.ids is None else unit_names(block.ids)
            if len(block.X):
                yield RecordArrays(block.X, block.targets, people)
        table.refuse_other(self.state)

    def portable(self) -> Piece:
        """Return itself, where another process can open the same table; otherwise its records."""
        from tacit.records import ArrayPiece

        return self if opens_anywhere(self.opened) else ArrayPiece(tuple(self.read()))


def _somewhere(number: int) -> str:
    return "one of its records"


@dataclass(frozen=True, slots=True)
class TableInputs:
    """How the inputs of a table are read: public roles of columns, and format of text."""

    roles: Roles
    text: TextFormat

    @property
    def column_names(self) -> list[str]:
        """The columns, in their order."""
        return [column.name for column in self.roles.columns]

    @property
    def are_numbers(self) -> bool:
        """Whether all cells are stored as numbers: no categories, no dates."""
        return not self.roles.dates and all(isinstance(c, Numeric) for c in self.roles.columns)

    def check(self, others: TableInputs) -> None:
        """Refuse inputs of the same names that are declared otherwise."""
        pairs = zip(self.roles.columns, others.roles.columns, strict=True)
        for own, other in pairs:
            if self.roles.reading(own) != others.roles.reading(other):
                raise InvalidArgument(
                    f"Expected column {own.name!r} to be declared as at the fit: numeric or "
                    "categorical, with the same categories in their order, the same day in dates, "
                    "and the same missing and other."
                )

    def opened(self, source: Any) -> TableStream:
        """Open a table with columns of these names as a stream without target and groups."""
        table = batches_of(source, self.text)
        check_names(table, self.roles)
        return TableStream(table, self.roles, self.text, state=table.state())

    def read(self, source: Any) -> Floats:
        """Read public inputs (rows, features) from a table; other columns are ignored."""
        return read_table(source, self.roles, self.text, None).X


@dataclass(frozen=True, slots=True, repr=False)
class TableStream:
    """A table whose private records a fit reads in passes; `open_table` makes it.

    Parameters
    ----------
    table : Batches
    roles : Roles, of the columns
    text : TextFormat, format of a text file
    classes : tuple of str or int, the declared labels; empty for numeric targets
    target_range : tuple of float, optional, the declared bounds of numeric targets
    state : tuple, size and time of each file when it was opened
    executor : str or client, where its parts are added up
    """

    table: Batches
    roles: Roles
    text: TextFormat
    classes: tuple[Label, ...] = ()
    target_range: tuple[float, float] | None = None
    state: tuple[Any, ...] = field(default=())
    executor: Any = "serial"

    def __repr__(self) -> str:
        return f"TableStream(name={self.table.name!r}, features={len(self.roles.columns)})"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The declared columns, in the order of the inputs."""
        return self.roles.columns

    @property
    def column_names(self) -> list[str]:
        """Their names."""
        return self.inputs.column_names

    @property
    def inputs(self) -> TableInputs:
        """How the inputs are read; public."""
        return TableInputs(self.roles.of_inputs(), self.text)

    @property
    def again(self) -> bool:
        """Whether it can be read more than once."""
        return self.table.again

    def pieces(self, target: Target | None = None, drop: bool = False) -> list[Piece]:
        """Return its parts, each of which can be read by itself.

        Parameters
        ----------
        target : Target, optional, how the target column is read; by default as declared
        drop : bool, leave out records that cannot be read, instead of refusing them

        Returns
        -------
        list of TablePiece, whose records are secret
        """
        self.table.refuse_other(self.state)
        parts = [self.table.open]
        if self.table.cut is not None:
            parts = read_file(self.table.name, "table", self.table.cut)
        known = {one[0]: one for one in self.state}
        rest = (self.roles, self.text, target or self._target(), drop or self.roles.drop)
        return [
            TablePiece(self.table.name, part, *rest, tuple(map(known.get, files_of(part))))
            for part in parts
        ]

    def _target(self) -> Target:
        from tacit.records import NoTargets

        if not self.classes and self.target_range is None:
            return NoTargets()
        return target_of(self.classes, self.target_range, self.text.decimal)

    def inputs_only(self, drop: bool = False) -> Iterator[Floats]:
        """Yield inputs, a batch at a time, without labels and groups.

        Parameters
        ----------
        drop : bool, leave out records that cannot be read, instead of refusing them

        Yields
        ------
        array of float64 of shape (some rows, features), secret where the rows are
        """
        from tacit.records import NoTargets

        stream = replace(self, roles=self.roles.of_inputs())
        for piece in stream.pieces(NoTargets(), drop):
            for records in piece.read():
                yield records.rows

    def described(self) -> Dataset:
        """Return the declared metadata, without any record.

        Returns
        -------
        Dataset, without rows, public
        """
        kind = np.float64 if self.target_range is not None else np.int64
        return Dataset(
            np.empty((0, len(self.columns))),
            np.empty(0, dtype=kind),
            self.classes,
            self.table.name.partition(".")[0],
            columns=self.columns,
            target_range=self.target_range,
        )

    def load(self, target: Target | None = None, drop: bool = False) -> RecordArrays:
        """Read all of it into memory, for methods that need every record at once.

        Parameters
        ----------
        target : Target, optional, how the target column is read; by default as declared
        drop : bool, leave out records that cannot be read, instead of refusing them

        Returns
        -------
        RecordArrays, secret
        """
        from tacit.records import RecordArrays

        parts = [some for piece in self.pieces(target, drop) for some in piece.read()]
        if not parts and drop:  # presence may be one record's doing
            none = np.zeros(0, dtype="S32") if self.roles.groups is not None else None
            return RecordArrays(np.empty((0, len(self.columns))), np.zeros(0, dtype=np.int64), none)
        if not parts:
            raise InvalidArgument(f"Expected at least one record in {self.table.name!r}.")
        rows, targets, people = zip(*parts, strict=True)
        whole = None if people[0] is None else np.concatenate(people)
        return RecordArrays(np.concatenate(rows), np.concatenate(targets), whole)

    def public(self, source: Any) -> Floats:
        """Read public inputs with the same columns; labels and groups are not needed.

        Parameters
        ----------
        source : path, table or array, which is returned as it is

        Returns
        -------
        array of shape (rows, features), public
        """
        return self.inputs.read(source) if is_table(source) else np.asarray(source)


def check_columns(X: Any, declared: TableInputs | None, names: Iterable[str] | None) -> None:
    """Refuse inputs whose columns do not match those of the model's table or frame.

    An array has no names to compare. Names are not quoted: in a file without a header they are
    cells.
    """
    known = names if declared is None else declared.column_names
    found = column_names(X)
    if known is None or found is None:
        return
    if not all(isinstance(name, str) for name in found) or found != list(known):
        raise InvalidArgument(
            f"Expected the columns of the fit, in their order: {', '.join(known)}."
        )
    if declared is not None and isinstance(X, TableStream):
        declared.check(X.inputs)


def is_table(source: Any) -> bool:
    """Whether `open_table` can open it."""
    if isinstance(source, str | os.PathLike):
        return True
    kinds = ("__arrow_c_stream__", "get_fragments", "to_delayed")
    return any(hasattr(source, kind) for kind in kinds)


def streamed_file(specification: str, executor: Any = "serial", **options: Any) -> Any:
    """Open a run's file as a stream, if it is a table; None if it is to be loaded.

    Its size decides nothing: one more record would then change how the others are read.
    """
    kind, _, place = named_kind(specification).partition(":")
    if kind not in ("csv", "parquet") or not place:
        return None
    known = {key: value for key, value in options.items() if key != "name"}
    return call_loader(open_table, kind, (place,), known, executor=executor)


def open_table(
    source: Any,
    *,
    target: str | None,
    classes: Any = (),
    target_range: Iterable[float] | None = None,
    numeric: Any = None,
    categorical: Any = None,
    groups: str | None = None,
    ignored: Any = (),
    missing: Any = None,
    other: bool = True,
    dates: Any = None,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    unreadable: str = "refuse",
    executor: Any = "serial",
) -> TableStream:
    """Open a table of private records that may be larger than memory, for `fit`.

    Parameters
    ----------
    source : path or table
        As for `load_table`; a reader or a relation of DuckDB is read once, into unnamed files that
        end with this process.
    target : str or None, the column of labels or numbers; None where there is none
    classes : iterable of str or int, all the labels there are
    target_range : pair of float, optional, (low, high) instead of `classes`, for numeric targets
    numeric, categorical : mapping or iterable, optional
        As for `load_table`. Where neither is given, every column but the target and the groups is a
        number, in the order of the table.
    groups : str, optional
        The column of the records' people. A person's rows may be anywhere in the table.
    ignored, missing, other, dates, delimiter, decimal, encoding, unreadable : optional
        As for `load_table`.
    executor : str or dask client
        Where private records are added up: "serial" (here), "local" (processes of this machine), a
        Dask client or a scheduler's address, with equal results. In run.toml: `executor`, at the
        top.

    Returns
    -------
    TableStream, give it to `fit` in place of X, without y and groups

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"age": [40.0, 17.0], "rich": ["no", "yes"]})
    >>> open_table(rows, target="rich", classes=["no", "yes"])
    TableStream(name='Table', features=1)
    """
    text = TextFormat(delimiter, decimal, encoding)
    if target is not None:
        column_name(target=target)
    if groups is not None:
        column_name(groups=groups)
    _check_executor(executor)
    table = batches_of(source, text, by_line=unreadable == "drop")
    if numeric is None and categorical is None:
        if unreadable == "drop":  # one record's file could bring a column, and all others lack it
            raise InvalidArgument(
                'Expected numeric= or categorical= to declare the columns with unreadable="drop".'
            )
        unused = {target, groups, *ignored}
        numeric = [name for name in table.names if name not in unused]
    roles = roles_of(
        target, () if numeric is None else numeric, categorical, groups, ignored, missing, other,
        dates, unreadable,
    )  # fmt: skip
    bounds = None if target_range is None else declared_range(target_range, classes)
    labels = declared_classes(classes) if target is not None and bounds is None else ()
    check_names(table, roles)
    return TableStream(table, roles, text, labels, bounds, table.state(), executor)


def _check_executor(executor: Any) -> None:
    """Refuse an unknown one; "serial" needs no import of the teachers' package."""
    if not isinstance(executor, str) or executor != "serial":
        from tacit.teachers import choose_executor

        choose_executor(executor)
