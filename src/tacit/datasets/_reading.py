"""Files that may be missing, cut short, damaged or something else: one line reports it.

A reader's error is translated here: the message names the file and what was expected of it, never
its content, which may be private records.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit._files import PathLike
from tacit.errors import InvalidArgument, TacitError

Found = TypeVar("Found")


def read_file(path: PathLike, kind: str, work: Callable[[], Found]) -> Found:
    """Return what `work` reads; any error of a reader becomes one line about the file.

    It is raised outside of any handler: a context would hold the reader's text about a cell.
    """
    try:
        return work()
    except TacitError:
        raise
    except UnicodeDecodeError:
        refusal = other_encoding(path)
    except Exception:
        refusal = _unreadable(path, kind)
    raise refusal


def read_parts(path: PathLike, kind: str, parts: Iterator[Found]) -> Iterator[Found]:
    """Iterate over what a reader yields; any error becomes one line about the file."""
    end = object()
    while (part := read_file(path, kind, lambda: next(parts, end))) is not end:
        yield part  # type: ignore[misc]  # all but the end are parts


def _unreadable(path: PathLike, kind: str) -> InvalidArgument:
    return InvalidArgument(
        f"Expected {Path(path).name!r} to be a whole, readable {kind}; it is truncated, damaged or "
        "holds something else."
    )


def other_encoding(path: PathLike) -> InvalidArgument:
    """Return the error for a text in another encoding."""
    return InvalidArgument(
        f"Expected {Path(path).name!r} to be text in UTF-8; it is in another encoding (save it as "
        "UTF-8, or for Latin-1: iconv -f LATIN1 -t UTF-8 OLD > NEW) or no text at all."
    )


def existing_file(path: PathLike) -> Path:
    """Return the path of an existing file, or refuse."""
    if not os.path.isfile(path):  # nor is one whose name is too long, or has a zero byte
        instead = ": that is a directory" if os.path.isdir(path) else ""
        raise InvalidArgument(f"Expected a file at {str(path)!r}; there is none{instead}.")
    return Path(path)


def file_in(folder: PathLike, *names: str) -> Path:
    """Return the first of the named files in a folder, plain or with `.gz` at the end."""
    for name in names:
        for suffix in ("", ".gz"):
            with contextlib.suppress(InvalidArgument):
                return existing_file(Path(folder) / (name + suffix))
    raise InvalidArgument(
        f"Expected a file {names[0]!r} in {str(folder)!r}, plain or with .gz; there is none."
    )


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading, unpacking it if its name ends in `.gz`."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def read_npy(path: Path) -> NDArray[Any]:
    """Read the one array of an `.npy` file; a pickle in it is refused and never loaded."""
    with path.open("rb") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """Open an archive of arrays; pickles in it are refused and never loaded.

    The file is opened here, because NumPy leaves it open when it is not an archive.
    """
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError
        with archive:
            yield archive
