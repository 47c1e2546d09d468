"""Tables of every kind as names of columns and batches of cells.

Batches come one after the other, so that a table need not fit into memory. Each part is read in its
own types, and text as text: no type is inferred from cells, and none is converted to another part's
(`tacit._cells` reads the values). No message quotes a cell.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import importlib
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._cells import frame_columns
from tacit._checks import refuse
from tacit.datasets._reading import existing_file, other_encoding, read_file, read_parts
from tacit.errors import InvalidArgument, RecordsUnread

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = ";\t|,"  # what often stands between cells
_BLOCK = 1 << 23
_ROWS = 1 << 14  # at a time
_BUFFER = 1 << 18  # bytes of each column that are read ahead
_PIECE = 1 << 20  # rows of a piece that one task reads
_PARQUET = (".parquet", ".pq")
_LONGEST = 2**31 - 1  # characters of one cell of a text file
_LINES_ALONE = '\n,"0'
"""What must be bytes of ASCII, so that an odd byte in one line leaves the others as they are."""


@dataclass(frozen=True, slots=True, repr=False)
class Cells:
    """Some rows of a table: a column of cells by each name. Secret."""

    columns: dict[str, Any]
    count: int

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Format of a text file.

    `header` names the columns where the file does not; lines that begin with `comment` are skipped.
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    header: Sequence[str] | None = None
    comment: str | None = None

    def __post_init__(self) -> None:
        one_sign = isinstance(self.delimiter, str) and len(self.delimiter) == 1
        if not one_sign or self.delimiter in '"\r\n':
            raise refuse("delimiter", self.delimiter, "one character between cells")
        if self.decimal not in (".", ","):
            raise refuse("decimal", self.decimal, '"." or ","')
        if self.decimal == self.delimiter:
            raise refuse("decimal", self.decimal, "another character than the delimiter")
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError):
            raise refuse("encoding", self.encoding, 'an encoding, such as "latin-1"') from None


Opened = Callable[[list[str]], Iterator[Cells]]
"""Opens a table, or a piece of one, for some of its columns."""


@dataclass(frozen=True, slots=True)
class Batches:
    """A table to iterate over: column names, and a function that yields batches of some columns.

    `name` is for messages, `row` locates its n-th record. `cut` opens it in pieces, also from other
    processes; `again` is whether it can be read more than once; `state` gives its files' status.
    """

    name: str
    names: list[str]
    open: Opened = field(repr=False)
    row: Callable[[int], str] = field(repr=False)
    hint: str | None = None
    cut: Callable[[], list[Opened]] | None = field(default=None, repr=False)
    again: bool = True
    state: Callable[[], tuple[Any, ...]] = field(default=tuple, repr=False)

    def of(self, wanted: list[str]) -> Iterator[Cells]:
        """Yield batches of these columns; errors quote nothing."""
        known = self.state()
        yield from some_batches(self.name, self.open, wanted)
        self.refuse_other(known)  # rows may have been read twice, or not at all

    def refuse_other(self, known: tuple[Any, ...]) -> None:
        """Refuse files that have changed since `known`."""
        if self.state() != known:
            raise RecordsUnread(
                f"Expected {self.name!r} to stay as it is while it is read; it has changed, or is "
                "another file on this machine (a copy needs the same time). Nothing was released "
                "from what it holds now."
            )


def files_of(opened: Opened) -> tuple[str, ...]:
    """Return the paths of a piece's files."""
    return getattr(opened, "files", ())


def state_of(opened: Opened) -> tuple[Any, ...]:
    """Return path, size and time of those files, as this process finds them now."""
    state: Callable[[], tuple[Any, ...]] = getattr(opened, "state", tuple)
    return state()


def opens_anywhere(opened: Opened) -> bool:
    """Whether another process can open it: not what is in this one's memory alone."""
    if isinstance(opened, _RowGroups):
        return all(getattr(fragment, "path", None) for fragment in opened.fragments)
    return not isfunction(opened) and not isinstance(opened, partial)


def some_batches(name: str, opened: Opened, wanted: list[str]) -> Iterator[Cells]:
    """Yield batches of these columns; errors quote nothing."""

    def opening() -> Iterator[Cells]:
        yield from opened(wanted)  # within reach of whoever leaves out what an error says

    return (batch for batch in read_parts(name, "table", opening()) if batch.count)


def batches_of(source: Any, text: TextFormat, *, by_line: bool = False) -> Batches:
    """Open a table: a path to CSV (also compressed) or Parquet, a folder of Parquet, or in memory.

    With `by_line` each line of a text file is a record, and lines that cannot be parsed are left
    out: no cell goes over two lines, and an open quote ends with its own line.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if any(each.suffix.lower() in _PARQUET for each in (path, *path.rglob("*"))):
            return _parquet(path)
        return _csv(existing_file(path), text, by_line)
    frame = frame_columns(source)
    if frame is not None:
        return _in_memory(type(source).__name__, *frame)
    if hasattr(source, "__arrow_c_stream__"):
        return _reader(source)
    if hasattr(source, "get_fragments") and hasattr(source, "schema"):
        return _dataset(source, type(source).__name__)
    if hasattr(source, "to_delayed") and hasattr(source, "columns"):
        return _partitions(source)
    raise InvalidArgument(
        f"Expected a table: a file, a frame of pandas, Polars or Dask, a table of pyarrow or a "
        f"relation of DuckDB; got {type(source).__name__}."
    )


def _record(number: int) -> str:
    return f"record {number + 1:,}"


def _parquet(path: Path) -> Batches:
    import pyarrow.dataset

    if not path.exists():
        existing_file(path)  # says that there is none
    _refuse_other_files(path)
    table = read_file(
        path,
        "Parquet file or folder of them",
        lambda: pyarrow.dataset.dataset(path, format="parquet", partitioning=_folders(path)),
    )
    return _dataset(table, path.name)


def _refuse_other_files(folder: Path) -> None:
    """Refuse a folder with files other than Parquet's; Arrow skips hidden ones (`.`, `_`)."""
    for file in sorted(folder.rglob("*")):
        skipped = any(name.startswith((".", "_")) for name in file.relative_to(folder).parts)
        if skipped or file.suffix.lower() in _PARQUET or not file.is_file():
            continue
        with file.open("rb") as opened:
            if opened.read(3) != b"PAR":
                raise InvalidArgument(
                    f"Expected nothing but Parquet files in {folder.name!r}, got {file.name!r}, "
                    "too; move it elsewhere."
                )


@dataclass(frozen=True, slots=True)
class _RowGroups:
    """Row groups of Parquet files: a piece that any process with these files can open."""

    fragments: tuple[Any, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._places())

    def state(self) -> tuple[Any, ...]:
        places = self._places().items()
        return tuple(one for path, system in places for one in _state_of_files(system, [path]))

    def _places(self) -> dict[str, Any]:
        held = (each for each in self.fragments if getattr(each, "path", None))
        return {fragment.path: fragment.filesystem for fragment in held}

    def __call__(self, wanted: list[str]) -> Iterator[Cells]:
        for fragment in self.fragments:
            yield from _fragment_cells(fragment, wanted)


def _fragment_cells(fragment: Any, wanted: list[str]) -> Iterator[Cells]:
    """Read a fragment in the types of its own file; another file decides nothing about it.

    A column that the file lacks is missing in its records; a partition (`site=02`) is in each.
    """
    import pyarrow.dataset

    folder = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    own = fragment.physical_schema.names
    held = [name for name in wanted if name in own and name not in folder]
    scan = _parquet_batches if _is_open_parquet(fragment) else _scanned
    for batch in scan(fragment, held):
        count = batch.num_rows
        cells = dict(zip(held, batch.select(held).columns, strict=True))
        yield Cells({name: cells.get(name, [folder.get(name)] * count) for name in wanted}, count)


def _is_open_parquet(fragment: Any) -> bool:
    """Whether it is of an unencrypted Parquet file."""
    import pyarrow.dataset

    if not isinstance(fragment, pyarrow.dataset.ParquetFileFragment):
        return False
    how = fragment.format.default_fragment_scan_options
    return how.decryption_properties is None and how.parquet_decryption_config is None


def _parquet_batches(fragment: Any, held: list[str]) -> Iterator[pa.RecordBatch]:
    """Read row groups page by page; Arrow's scan would hold each group as a whole."""
    import pyarrow.parquet

    groups = [group.id for group in fragment.row_groups]
    pages = {"pre_buffer": False, "buffer_size": _BUFFER}
    with fragment.open() as file:
        opened = pyarrow.parquet.ParquetFile(file, metadata=fragment.metadata, **pages)
        yield from opened.iter_batches(_ROWS, groups, held, use_threads=False)


def _scanned(fragment: Any, held: list[str]) -> Iterator[pa.RecordBatch]:
    yield from fragment.to_batches(
        schema=fragment.physical_schema,
        columns=held,
        batch_size=_ROWS,
        batch_readahead=1,  # memory is that of a batch, not of all that could be read
        fragment_readahead=1,
        use_threads=False,
    )


def _dataset(table: Any, name: str) -> Batches:
    """Read a dataset of pyarrow, by row groups where its files have them."""
    if getattr(table, "_scan_options", None):  # its pieces would be those of all rows
        raise InvalidArgument(
            f"Expected a dataset without a filter, got a filtered {name}: write its rows to a file "
            "of their own, or give its to_table() or scanner().to_reader()."
        )
    format_name = getattr(getattr(table, "format", None), "default_extname", "")
    if format_name in ("csv", "json"):  # Arrow would infer types from the first rows
        raise InvalidArgument(
            f"Expected a dataset of files that say their own types, such as Parquet; got "
            f"{format_name}. Give the path of a CSV file instead."
        )

    def opened(wanted: list[str]) -> Iterator[Cells]:
        return _RowGroups(tuple(table.get_fragments()))(wanted)

    def cut() -> list[Opened]:
        return [_RowGroups(tuple(some)) for some in _row_groups(table)]

    state = partial(_files_of, table)
    # Of all files: which one comes first decides nothing.
    fragments = (each.physical_schema for each in table.get_fragments())
    schemas = read_file(name, "table", lambda: [table.schema, *fragments])
    names = list(dict.fromkeys(itertools.chain.from_iterable(each.names for each in schemas)))
    return Batches(name, names, opened, _record, cut=cut, state=state)


def _files_of(table: Any) -> tuple[Any, ...]:
    """Return name, size and time of each file of a dataset, on any file system."""
    children = getattr(table, "children", ())
    if not getattr(table, "files", ()):
        return tuple(itertools.chain.from_iterable(map(_files_of, children)))
    return _state_of_files(table.filesystem, list(table.files))


def _state_of_files(filesystem: Any, paths: list[str]) -> tuple[Any, ...]:
    found = filesystem.get_file_info(paths)
    return tuple((one.path, one.size, one.mtime_ns) for one in found)


def _row_groups(table: Any) -> Iterator[list[Any]]:
    """Yield fragments of about `_PIECE` rows each, of whole row groups; larger ones alone."""
    some, rows = [], 0
    for fragment in table.get_fragments():
        for group in getattr(fragment, "row_groups", None) or [None]:
            part = fragment if group is None else fragment.subset(row_group_ids=[group.id])
            some.append(part)
            rows += _PIECE if group is None else group.num_rows
            if rows >= _PIECE:
                yield some
                some, rows = [], 0
    if some:
        yield some


def _folders(path: Path) -> Any:
    """Return the partition keys (`site=02`) as text: no folder decides how another is read."""
    import pyarrow as pa
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive").get_fragments()
    told = [pyarrow.dataset.get_partition_keys(one.partition_expression) for one in found]
    words = pa.schema([(name, pa.string()) for name in dict.fromkeys(itertools.chain(*told))])
    return pyarrow.dataset.partitioning(words, flavor="hive")


def _in_memory(name: str, names: list[Any], columns: list[Any]) -> Batches:
    """Read a frame or table in memory, each column in its own type."""
    count = len(columns[0]) if columns else 0
    held = [str(each) for each in names]
    by_name = dict(zip(held, columns, strict=True))

    def part(start: int, end: int, wanted: list[str]) -> Iterator[Cells]:
        for at in range(start, min(end, count), _ROWS):
            stop = min(at + _ROWS, end, count)
            yield Cells({each: _sliced(by_name[each], at, stop) for each in wanted}, stop - at)

    def cut() -> list[Opened]:
        return [partial(part, at, at + _PIECE) for at in range(0, max(1, count), _PIECE)]

    return Batches(name, held, partial(part, 0, count), _record, cut=cut)


def _sliced(column: Any, start: int, end: int) -> Any:
    """Return some cells of a column of pandas, Polars or Arrow."""
    if hasattr(column, "iloc"):
        return column.iloc[start:end]
    return column.slice(start, end - start)


def _reader(source: Any) -> Batches:
    """Read an Arrow source that can be read only once: a query may change its answer."""
    import pyarrow as pa

    kind = type(source).__name__
    reader = read_file(
        kind, "table that Arrow can read", lambda: pa.RecordBatchReader.from_stream(source)
    )
    names = list(reader.schema.names)

    def opened(wanted: list[str]) -> Iterator[Cells]:
        for batch in reader:
            for at in range(0, batch.num_rows, _ROWS):
                some = batch.slice(at, _ROWS)
                yield Cells({name: some.column(name) for name in wanted}, some.num_rows)

    return Batches(kind, names, opened, _record, again=False)


def _partitions(frame: Any) -> Batches:
    def cut() -> list[Opened]:
        return [_Partition(part) for part in frame.to_delayed()]

    def opened(wanted: list[str]) -> Iterator[Cells]:
        for part in frame[wanted].to_delayed():
            yield from _Partition(part)(wanted)

    names, called = [str(name) for name in frame.columns], type(frame).__name__
    if _is_held_elsewhere(frame):
        raise InvalidArgument(
            f"Expected a {called} that says how its rows are made, got one whose rows a cluster "
            "holds: give the frame as it was before persist()."
        )
    return Batches(called, names, opened, _record, cut=cut)


def _is_held_elsewhere(frame: Any) -> bool:
    """Whether a Dask frame holds results on a cluster, which its client alone can get."""
    distributed = sys.modules.get("distributed")  # nobody has results who has not imported it
    return distributed is not None and bool(distributed.futures_of(frame))


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition of a Dask frame with the graph that makes it: any process can open it."""

    part: Any

    def __call__(self, wanted: list[str]) -> Iterator[Cells]:
        # Here, whatever executor runs this: a partition is one task.
        frame = frame_columns(self.part.compute(scheduler="synchronous")[wanted])
        assert frame is not None  # a partition is a frame of pandas
        return _in_memory("partition", *frame).open(wanted)


def _csv(path: Path, text: TextFormat, by_line: bool) -> Batches:
    if by_line:
        _refuse_wide(text.encoding)
    first = _first_line(path, text)
    hint = _separator_hint(first, text.delimiter)
    given = text.header is not None
    names = list(text.header) if text.header is not None else _header(path, text, first, hint)
    skipped = 0 if given else 1
    file = _TextFile(path, text, tuple(name.strip() for name in names), skipped, by_line)
    return Batches(
        path.name,
        list(file.names),
        file,
        file.row,
        hint,
        state=file.state,
    )


def _refuse_wide(encoding: str) -> None:
    """Refuse an encoding in which an odd byte of one line changes how later lines are read."""
    name = codecs.lookup(encoding).name
    table = hasattr(
        importlib.import_module(f"encodings.{name.replace('-', '_')}"), "decoding_table"
    )
    alone = table or name in ("utf-8", "ascii", "iso8859-1")  # others may shift for whole lines
    if not alone or _LINES_ALONE.encode(encoding) != _LINES_ALONE.encode("ascii"):
        raise refuse("encoding", encoding, "UTF-8, or one with a byte for each character")


@dataclass(frozen=True, slots=True)
class _TextFile:
    """A text file: a piece that any process with this file can open."""

    path: Path
    text: TextFormat
    names: tuple[str, ...]
    skipped: int
    by_line: bool

    @property
    def files(self) -> tuple[str, ...]:
        return (str(self.path),)

    def state(self) -> tuple[Any, ...]:
        return (_file_of(self.path),)

    def row(self, number: int) -> str:
        """Name the line of a record."""
        return _line(self.path, self.text, lambda at, _: at == number + self.skipped)

    def __call__(self, wanted: list[str]) -> Iterator[Cells]:
        places = {name: self.names.index(name) for name in wanted}
        with self._lines() as lines:
            records = itertools.islice(self._records(lines), self.skipped, None)
            while some := list(itertools.islice(records, _ROWS)):
                columns = list(zip(*some, strict=True))
                yield Cells({name: list(columns[at]) for name, at in places.items()}, len(some))

    def _lines(self) -> io.TextIOWrapper:
        return text_lines(self.path, self.text, "replace" if self.by_line else "strict")

    def _records(self, lines: io.TextIOWrapper) -> Iterator[list[str]]:
        """Yield the cells of each record: line by line, or as quotes delimit it."""
        if self.by_line:
            rows = (_cut_line(line, self.text) for line in lines)
            first = itertools.islice(rows, self.skipped)
            yield from (row for row in first if row is not None)
            yield from (row for row in rows if row is not None and len(row) == len(self.names))
            return
        csv.field_size_limit(_LONGEST)
        how: dict[str, Any] = {"delimiter": self.text.delimiter, "skipinitialspace": True}
        for row in filter(None, csv.reader(lines, strict=True, **how)):
            if len(row) != len(self.names):
                raise _odd_line(self.path, self.text, self.names)
            yield row


def _cut_line(line: str, text: TextFormat) -> list[str] | None:
    """Return the cells of one line; None if it is blank or cannot be parsed."""
    csv.field_size_limit(_LONGEST)
    how: dict[str, Any] = {"delimiter": text.delimiter, "skipinitialspace": True, "strict": True}
    try:
        rows = list(csv.reader([line], **how))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 and rows[0] else None


def _file_of(path: Path) -> tuple[Any, ...]:
    try:
        known = path.stat()
    except OSError:
        return (str(path), None, None)
    return (str(path), known.st_size, known.st_mtime_ns)


def _line(path: Path, text: TextFormat, sought: Callable[[int, list[str]], bool]) -> str:
    """Name the line of the first record that `sought` accepts, in another pass over the file."""
    with contextlib.suppress(Exception), text_lines(path, text) as lines:
        rows = csv.reader(lines, delimiter=text.delimiter, skipinitialspace=True)
        for place, row in enumerate(filter(None, rows)):
            if sought(place, row):
                return f"line {rows.line_num}"
    return "one of its lines"


def text_lines(path: Path, text: TextFormat, errors: str = "strict") -> io.TextIOWrapper:
    """Open a text file, decompressed and decoded; `errors` is for invalid bytes."""
    raw = io.BufferedReader(_Utf8(path, text, errors))
    return io.TextIOWrapper(raw, encoding="utf-8", newline="")


def _odd_line(path: Path, text: TextFormat, names: Sequence[str]) -> InvalidArgument:
    line = _line(path, text, lambda _, row: len(row) != len(names))
    return InvalidArgument(
        f"Expected {len(names)} cells in each line of {path.name!r}; {line} has another number."
    )


class _Utf8(io.RawIOBase):
    """A text file as a stream of UTF-8 bytes, decompressed and decoded block by block."""

    def __init__(self, path: Path, text: TextFormat, errors: str = "strict") -> None:
        import pyarrow as pa

        self._file = pa.input_stream(path, compression="detect")
        encoding = "utf-8-sig" if codecs.lookup(text.encoding).name == "utf-8" else text.encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._comment = text.comment

        self._waiting = b""

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            block = self._file.read(_BLOCK)
            self._waiting = self._kept(self._decoder.decode(block, final=not block)).encode()
            if not block:
                break
        size = min(len(buffer), len(self._waiting))
        buffer[:size], self._waiting = self._waiting[:size], self._waiting[size:]
        return size

    def _kept(self, text: str) -> str:
        """Blank the comments; their lines still count."""
        if self._comment is None:
            return text
        lines = text.splitlines(keepends=True)
        return "".join("\n" if line.startswith(self._comment) else line for line in lines)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()


def _first_line(path: Path, text: TextFormat) -> str:
    def begin() -> str:
        with contextlib.closing(_Utf8(path, text, "replace")) as file:
            return io.BufferedReader(file).read(1 << 16).decode("utf-8", "ignore")

    found = read_file(path, "CSV file", begin)
    if "\N{REPLACEMENT CHARACTER}" in found.partition("\n")[0]:
        raise other_encoding(path)
    return found.splitlines(keepends=True)[0] if found else ""


def _separator_hint(line: str, delimiter: str) -> str | None:
    """Name another separator that a header without the delimiter has, or None."""
    other = next((each for each in _SEPARATORS if each in line), None)
    if other is None or delimiter in line:
        return None
    said = json.dumps(other)  # as TOML and Python both write it, a tab included
    return f"it has one column and contains {said}; if that separates cells, set delimiter={said}"


def _header(path: Path, text: TextFormat, first: str, hint: str | None) -> list[str]:
    """Read the names of the columns from the first line."""
    if not first:
        raise InvalidArgument(f"Expected a header in {path.name!r}; the file is empty.")
    line = io.StringIO(first, newline="")
    rows = csv.reader(line, delimiter=text.delimiter, skipinitialspace=True, strict=True)
    names = _names_in(rows)
    if names is None:  # names in quotes, and between them what is no delimiter
        why = hint or "it is no line of cells (a name in quotes may not go over two lines)"
        raise InvalidArgument(f"Expected columns in the header of {path.name!r}; {why}.")
    if not names:
        raise InvalidArgument(f"Expected a header in {path.name!r}; its first line is blank.")
    return names


def _names_in(rows: Iterator[list[str]]) -> list[str] | None:
    try:
        return next(rows, [])
    except csv.Error:
        return None
