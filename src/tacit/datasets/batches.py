"""Tables of every kind as one thing: names of columns, and record batches of Arrow.

A CSV file (plain or compressed), a Parquet file or folder, and whatever speaks Arrow: a table,
reader or dataset of pyarrow, a frame of pandas or Polars, a relation of DuckDB, a Dask frame by its
partitions. Batches come one after the other, so that a table need not fit into memory; text arrives
as text, each cell as it is written: no type is guessed from other rows. No message quotes a cell.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._checks import refuse
from tacit.datasets._reading import existing_file, reading, utf8_text
from tacit.errors import InvalidArgument, RecordsUnread

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = ";\t|,"  # what often stands between cells
_BLOCK = 1 << 23
_ROWS = 1 << 14  # at a time
_BUFFER = 1 << 18  # bytes of each column that are read ahead
_PIECE = 1 << 20  # rows of a piece that one task reads
_PARQUET = (".parquet", ".pq")
_KEPT = ("DataFrame", "Table", "RecordBatch", "ChunkedArray", "StructArray")
_KEEPERS = ("pandas", "polars", "pyarrow")
"""Kinds that hold what they say, and say it again, and whose they are: others may have these names
and ask a database each time."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How a text file is written.

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


@dataclass(frozen=True, slots=True)
class Batches:
    """A table that can be gone through: its columns' names, and how to get batches of some of them.

    `name` is how messages call it, `place` says where its n-th record stands. `cut`, where there is
    one, opens it in pieces, which other processes can open, too; `again` says whether it can be
    gone through more than once, and `state` tells sizes and times of its files, as they are now.
    `kinds` are those of columns (`kind_of`), where each part has types of its own.
    """

    name: str
    names: list[str]
    open: Callable[[list[str]], Iterator[pa.RecordBatch]] = field(repr=False)
    place: Callable[[int], str] = field(repr=False)
    hint: str | None = None
    cut: Callable[[], list[Opened]] | None = field(default=None, repr=False)
    again: bool = True
    state: Callable[[], tuple[Any, ...]] = field(default=tuple, repr=False)
    kinds: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        """Go through batches of these columns, in this order; nothing that fails is quoted."""
        known = self.state()
        yield from some_batches(self.name, self.open, wanted)
        self.refuse_other(known)  # rows may have been read twice, or not at all

    def refuse_other(self, known: tuple[Any, ...]) -> None:
        """Refuse files that are no longer as they were known."""
        if self.state() != known:
            raise RecordsUnread(
                f"Expected {self.name!r} to stay as it is while it is read; it has changed, or is "
                "another file on this machine (a copy needs the same time). Nothing was released "
                "from what it holds now."
            )


Opened = Callable[[list[str]], Iterator["pa.RecordBatch"]]
"""Opens a table, or a piece of one, for some of its columns."""


def files_of(opened: Opened) -> tuple[str, ...]:
    """Return the paths of the files that a piece is of."""
    return getattr(opened, "files", ())


def state_of(opened: Opened) -> tuple[Any, ...]:
    """Return path, size and time of those files, as this process finds them now."""
    state: Callable[[], tuple[Any, ...]] = getattr(opened, "state", tuple)
    return state()


def opens_anywhere(opened: Opened) -> bool:
    """Tell whether another process can open the same: not what is in this one's memory alone."""
    if isinstance(opened, _RowGroups):
        return all(getattr(fragment, "path", None) for fragment in opened.fragments)
    return not isfunction(opened)


def some_batches(name: str, opened: Opened, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """Go through batches of these columns, in this order; nothing that fails is quoted."""
    with contextlib.ExitStack() as guards:
        guards.enter_context(reading(Path(name), "table"))
        guards.enter_context(utf8_text(Path(name)))
        for batch in opened(wanted):
            if batch.num_rows:
                yield batch.select(wanted)


def batches_of(source: Any, text: TextFormat) -> Batches:
    """Open a table: a path, or anything that speaks Arrow.

    Parameters
    ----------
    source : path or table
        A `.csv` (`.gz`, `.bz2`, `.xz`, `.zst`) or `.parquet` file, a folder of Parquet files, or a
        table in memory.
    text : TextFormat
        How a text file is written.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if any(each.suffix.lower() in _PARQUET for each in (path, *path.rglob("*"))):
            return _parquet(path)
        return _csv(existing_file(path), text)
    if hasattr(source, "__arrow_c_stream__"):
        return _arrow(source)
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
    with reading(path, "Parquet file or folder of them"):
        table = pyarrow.dataset.dataset(path, format="parquet", partitioning=_folders(path))
    return _dataset(table, path.name)


def _refuse_other_files(folder: Path) -> None:
    """Refuse a folder with other files than Parquet's, by its first bytes where no ending tells.

    Arrow skips those that begin with a point or a line.
    """
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
    """Some row groups of Parquet files: a piece that any process with these files can open."""

    fragments: tuple[Any, ...]
    schema: Any

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._places())

    def state(self) -> tuple[Any, ...]:
        places = self._places().items()
        return tuple(one for path, system in places for one in _state_of_files(system, [path]))

    def _places(self) -> dict[str, Any]:
        held = (each for each in self.fragments if getattr(each, "path", None))
        return {fragment.path: fragment.filesystem for fragment in held}

    def __call__(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        for fragment in self.fragments:
            read = _parquet_batches if _is_open_parquet(fragment) else _scanned
            yield from read(fragment, self.schema, wanted)


def _is_open_parquet(fragment: Any) -> bool:
    """Tell whether it is of a Parquet file that nothing has to decrypt."""
    import pyarrow.dataset

    if not isinstance(fragment, pyarrow.dataset.ParquetFileFragment):
        return False
    how = fragment.format.default_fragment_scan_options
    return how.decryption_properties is None and how.parquet_decryption_config is None


def _parquet_batches(fragment: Any, schema: pa.Schema, wanted: list[str]) -> Iterator[Any]:
    """Read some row groups page by page; a scan of Arrow's would hold each group as a whole.

    In the types of the file itself: which file comes first decides nothing about another.
    """
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    told = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    inside = [name for name in wanted if name in fragment.physical_schema.names]
    held = [name for name in inside if name not in told]
    groups = [group.id for group in fragment.row_groups]
    pages = {"pre_buffer": False, "buffer_size": _BUFFER}
    with fragment.open() as file:
        opened = pyarrow.parquet.ParquetFile(file, metadata=fragment.metadata, **pages)
        for batch in opened.iter_batches(_ROWS, groups, held, use_threads=False):
            cells = [
                batch[name]
                if name in held
                else _repeated(told.get(name), schema.field(name), batch)
                for name in wanted
            ]
            yield pa.record_batch(cells, names=wanted)


def _repeated(value: Any, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
    """Return what a folder's name says, or nothing, for each row."""
    import pyarrow as pa

    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.repeat(pa.scalar(value, kind), batch.num_rows)


def _scanned(fragment: Any, schema: pa.Schema, wanted: list[str]) -> Iterator[Any]:
    _refuse_other_types(fragment.physical_schema, schema, wanted)
    yield from fragment.to_batches(
        schema=schema,
        columns=wanted,
        batch_size=_ROWS,
        batch_readahead=1,  # memory is that of a batch, not of all that could be read
        fragment_readahead=1,
        use_threads=False,
    )


def _refuse_other_types(own: pa.Schema, common: pa.Schema, wanted: list[str]) -> None:
    """Refuse a file whose cells Arrow would change without a word, to have one type in all.

    As text it writes numbers in a way of its own, 1e+10 for 10000000000, and as shorter floats it
    rounds them: one person would be two, or two one. Whole numbers it keeps, or says that it fails.
    """
    for name in wanted:
        if name not in own.names:
            continue
        kind, other = own.field(name).type, common.field(name).type
        as_text = _is_text(other) and kind_of(kind) == WORDS
        whole = kind_of(kind) == WORDS and not _is_text(kind)
        if kind != other and not as_text and not (whole and _is_number(other)):
            raise other_types(name)


def other_types(name: str) -> InvalidArgument:
    """Return what is said of a column that has several types."""
    return InvalidArgument(
        f"Expected column {name!r} to have one type in all parts of the table; it has several. "
        "Write it as text, or as whole numbers, everywhere."
    )


WORDS = "text or whole numbers"


def kind_of(kind: pa.DataType) -> str:
    """Return a name of a column's type, the same for types whose cells become the same words."""
    import pyarrow.types as kinds

    held = kind.value_type if kinds.is_dictionary(kind) else kind
    alike = _is_text(held) or kinds.is_integer(held) or kinds.is_null(held)
    return WORDS if alike else str(held)


def _kinds(schema: pa.Schema) -> dict[str, str]:
    return {field.name: kind_of(field.type) for field in schema}


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_floating(kind) or kinds.is_integer(kind))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    held = kind.value_type if kinds.is_dictionary(kind) else kind
    return bool(kinds.is_string(held) or kinds.is_large_string(held) or kinds.is_string_view(held))


def _dataset(table: Any, name: str) -> Batches:
    """Go through a dataset of pyarrow, by row groups where its files have them."""
    if getattr(table, "_scan_options", None):  # its pieces would be those of all rows
        raise InvalidArgument(
            f"Expected a dataset without a filter, got a filtered {name}: write its rows to a file "
            "of their own, or give its to_table() or scanner().to_reader()."
        )

    def opened(wanted: list[str]) -> Iterator[pa.RecordBatch]:
        return _RowGroups(tuple(table.get_fragments()), table.schema)(wanted)

    def cut() -> list[Opened]:
        return [_RowGroups(tuple(some), table.schema) for some in _row_groups(table)]

    how: dict[str, Any] = {"state": partial(_files_of, table), "kinds": _kinds(table.schema)}
    return Batches(name, list(table.schema.names), opened, _record, cut=cut, **how)


def _files_of(table: Any) -> tuple[Any, ...]:
    """Return name, size and time of each file of a dataset, wherever its files are."""
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
    """Return what folders named `site=02` say, as words: no folder decides how another is read."""
    import pyarrow as pa
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive").get_fragments()
    told = [pyarrow.dataset.get_partition_keys(one.partition_expression) for one in found]
    words = pa.schema([(name, pa.string()) for name in dict.fromkeys(itertools.chain(*told))])
    return pyarrow.dataset.partitioning(words, flavor="hive")


def _arrow(source: Any) -> Batches:
    import pyarrow as pa

    kind = type(source).__name__
    with reading(Path(kind), "table that Arrow can read"):
        reader = pa.RecordBatchReader.from_stream(source)
    names = list(reader.schema.names)
    keeper = type(source).__module__.partition(".")[0]
    if (
        kind not in _KEPT or keeper not in _KEEPERS
    ):  # a reader, or a query that may say something else the next time
        return Batches(kind, names, lambda _: _small(reader), _record, again=False)
    reader.close()

    def opened(wanted: list[str]) -> Iterator[pa.RecordBatch]:
        return _small(pa.RecordBatchReader.from_stream(source))

    def cut() -> list[Opened]:
        rows = pa.RecordBatchReader.from_stream(source).read_all()  # no copy of what Arrow holds
        return [_slice(rows, start) for start in range(0, max(1, rows.num_rows), _PIECE)]

    return Batches(kind, names, opened, _record, cut=cut)


def _slice(rows: pa.Table, start: int) -> Opened:
    """Open some rows of a table in memory, which other processes are sent."""
    return lambda _: _small(rows.slice(start, _PIECE).to_batches())


def _small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut large batches: a frame may be one."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


def _partitions(frame: Any) -> Batches:
    def cut() -> list[Opened]:
        return [_Partition(part) for part in frame.to_delayed()]

    def opened(wanted: list[str]) -> Iterator[pa.RecordBatch]:
        for part in frame[wanted].to_delayed():
            yield from _Partition(part)(wanted)

    import pyarrow as pa

    names, called = [str(name) for name in frame.columns], type(frame).__name__
    if _is_held_elsewhere(frame):
        raise InvalidArgument(
            f"Expected a {called} that says how its rows are made, got one whose rows a cluster "
            "holds: give the frame as it was before persist()."
        )
    with reading(Path(called), "table that Arrow can read"):
        kinds = _kinds(pa.Schema.from_pandas(frame._meta, preserve_index=False))
    return Batches(called, names, opened, _record, cut=cut, kinds=kinds)


def _is_held_elsewhere(frame: Any) -> bool:
    """Tell whether a Dask frame is of results on a cluster, which its client alone can get."""
    distributed = sys.modules.get("distributed")  # nobody has results who has not imported it
    return distributed is not None and bool(distributed.futures_of(frame))


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition of a Dask frame with the graph that makes it: any process can open it."""

    part: Any

    def __call__(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        # Here, whatever executor runs this: a partition is one task.
        frame = self.part.compute(scheduler="synchronous")[wanted]
        yield from pa.Table.from_pandas(frame, preserve_index=False).to_batches(_ROWS)


def _csv(path: Path, text: TextFormat) -> Batches:
    first = _first_line(path, text)
    hint = _separator_hint(first, text.delimiter)
    given = text.header is not None
    names = list(text.header) if text.header is not None else _header(path, text, first, hint)
    skipped = 0 if given else 1
    file = _TextFile(path, text, tuple(names), skipped)
    return Batches(
        path.name,
        [name.strip() for name in names],
        file,
        lambda number: _line(path, text, lambda place, _: place == number + skipped),
        hint,
        state=file.state,
    )


@dataclass(frozen=True, slots=True)
class _TextFile:
    """A text file: a piece that any process with this file can open."""

    path: Path
    text: TextFormat
    names: tuple[str, ...]
    skipped: int

    @property
    def files(self) -> tuple[str, ...]:
        return (str(self.path),)

    def state(self) -> tuple[Any, ...]:
        return (_file_of(self.path),)

    def __call__(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        read = _csv_batches if _is_plainly_quoted(self.path, self.text) else _strict_batches
        return read(self.path, self.text, list(self.names), self.skipped, wanted)


def _file_of(path: Path) -> tuple[Any, ...]:
    try:
        known = path.stat()
    except OSError:
        return (str(path), None, None)
    return (str(path), known.st_size, known.st_mtime_ns)


def _line(path: Path, text: TextFormat, sought: Callable[[int, list[str]], bool]) -> str:
    """Say on which line the record stands that is sought; the file is gone through once more."""
    with contextlib.suppress(Exception), text_lines(path, text) as lines:
        rows = csv.reader(lines, delimiter=text.delimiter, skipinitialspace=True)
        for place, row in enumerate(filter(None, rows)):
            if sought(place, row):
                return f"line {rows.line_num}"
    return "one of its lines"


def text_lines(path: Path, text: TextFormat, errors: str = "strict") -> io.TextIOWrapper:
    """Open a text file, whatever it is packed and encoded in; `errors` is of bytes that are odd."""
    raw = io.BufferedReader(_Utf8(path, text, errors))
    return io.TextIOWrapper(raw, encoding="utf-8", newline="")


def _is_plainly_quoted(path: Path, text: TextFormat) -> bool:
    """Tell whether each quote begins or ends a cell, or is one of two within it.

    Where one does not, Arrow goes on to the next quote, and a row swallows those behind it.
    """
    around = np.frombuffer(b'"\r\n' + text.delimiter.encode(), dtype=np.uint8)
    tail, quotes = b"\n", 0
    with io.BufferedReader(_Utf8(path, text), _BLOCK) as file:
        while True:
            block = file.read(_BLOCK)
            seen = np.frombuffer(tail + (block or b"\n\n"), dtype=np.uint8)
            # The last byte waits for the one behind it.
            at = np.flatnonzero(seen[1:-1] == ord('"')) + 1
            first = (np.arange(at.size) + quotes) % 2 == 0
            if not np.isin(np.where(first, seen[at - 1], seen[at + 1]), around).all():
                return False
            quotes += at.size
            tail = seen[-2:].tobytes()
            if not block:
                return quotes % 2 == 0


def _strict_batches(
    path: Path, text: TextFormat, names: list[str], skipped: int, wanted: list[str]
) -> Iterator[pa.RecordBatch]:
    """Go through a file with quotes in odd places as Python reads it, which refuses open ones."""
    import pyarrow as pa

    places = [[name.strip() for name in names].index(name) for name in wanted]
    with text_lines(path, text) as lines:
        rows = csv.reader(lines, delimiter=text.delimiter, skipinitialspace=True, strict=True)
        records = itertools.islice(filter(None, rows), skipped, None)
        while some := list(itertools.islice(records, _ROWS)):
            if any(len(row) != len(names) for row in some):
                raise _odd_line(path, text, names)
            cells = [pa.array([row[place] for row in some], pa.string()) for place in places]
            yield pa.record_batch(cells, names=wanted)


def _csv_batches(
    path: Path, text: TextFormat, names: list[str], skipped: int, wanted: list[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv

    stripped = [name.strip() for name in names]
    # Columns without a role may have any name, also one twice: they are told apart by their places.
    unique = [
        name if name in wanted and stripped.index(name) == k else f"{k}\0"
        for k, name in enumerate(stripped)
    ]
    odd: list[Any] = []

    def skip(row: Any) -> str:
        odd.append(row)
        return "skip"

    # Buffered: Arrow takes a short read for a whole block.
    with io.BufferedReader(_Utf8(path, text), _BLOCK) as binary:
        batches = pyarrow.csv.open_csv(
            pa.PythonFile(binary, mode="r"),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK, column_names=unique, skip_rows=skipped
            ),
            pyarrow.csv.ParseOptions(
                delimiter=text.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string())
            ),
        )
        for batch in batches:
            if not odd:
                yield batch
    if odd:
        raise _odd_line(path, text, names)


def _odd_line(path: Path, text: TextFormat, names: list[str]) -> InvalidArgument:
    line = _line(path, text, lambda _, row: len(row) != len(names))
    return InvalidArgument(
        f"Expected {len(names)} cells in each line of {path.name!r}; {line} has another number."
    )


class _Utf8(io.RawIOBase):
    """A text file as bytes in UTF-8, whatever it is packed and encoded in, block by block."""

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
    with reading(path, "CSV file"), utf8_text(path), contextlib.closing(_Utf8(path, text)) as file:
        found = io.BufferedReader(file).read(1 << 16).decode("utf-8", "ignore")
    return found.splitlines(keepends=True)[0] if found else ""


def _separator_hint(line: str, delimiter: str) -> str | None:
    """Say which other separator a header without the delimiter has; None where there is none."""
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
    try:
        names: list[str] = next(rows, [])
    except csv.Error:  # names in quotes, and between them what is no delimiter
        why = hint or "it is no line of cells (a name in quotes may not go over two lines)"
        raise InvalidArgument(f"Expected columns in the header of {path.name!r}; {why}.") from None
    if not names:
        raise InvalidArgument(f"Expected a header in {path.name!r}; its first line is blank.")
    return names
