"""Answers of finished teachers, stored on disk atomically, to resume a run.

The answers are SECRET: files have mode 0600, the directory 0700. Each is stored with the hash of
all that determines it; after a change of config, records, seed or queries it is not used. Functions
and classes are hashed by name and source; code that they call is not.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import io
import os
import stat
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit import __version__
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument

_SECONDS = 1.0  # work that a crash of the whole run may lose; a file a teacher would cost more


class Checkpoints:
    """A directory of finished teachers' answers; `found` are those with the given hashes.

    Without a directory nothing is stored: a run that is stopped begins anew.
    """

    def __init__(self, directory: PathLike | None, fingerprints: Mapping[int, str]) -> None:
        self._directory = None if directory is None else _private_directory(Path(directory))
        self._fingerprints = dict(fingerprints)
        self._waiting: dict[int, NDArray[Any]] = {}
        self._written_at = time.monotonic()
        self.found: dict[int, NDArray[Any]] = {}
        for path in sorted(self._directory.glob("teachers-*.npz")) if self._directory else ():
            for number, fingerprint, row in zip(*_read(path), strict=False):
                if self._fingerprints.get(int(number)) == str(fingerprint):
                    self.found[int(number)] = row

    def add(self, number: int, predictions: NDArray[Any]) -> None:
        """Store one teacher's answers; they are on disk within a second or at the end."""
        if self._directory is None:
            return
        self._waiting[number] = predictions
        if time.monotonic() - self._written_at >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write waiting answers to a new file, atomically."""
        if self._waiting and self._directory is not None:
            numbers = sorted(self._waiting)
            hashes = [self._fingerprints[number] for number in numbers]
            rows = [self._waiting[number] for number in numbers]
            buffer = io.BytesIO()
            np.savez(buffer, teachers=numbers, fingerprints=hashes, predictions=rows)
            name = f"teachers-{numbers[0]:06d}-{hashes[0][:16]}.npz"
            write_atomically(self._directory / name, buffer.getvalue(), mode=0o600)
            self._waiting.clear()
        self._written_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def _read(path: Path) -> tuple[Any, Any, Any]:
    """Return a file's answers; one that cannot be read has none, and its teachers train again."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            return archive["teachers"], archive["fingerprints"], archive["predictions"]
    except Exception:  # whatever a damaged archive makes of itself
        return (), (), ()


def _private_directory(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(directory.stat().st_mode)
    except OSError as error:
        raise InvalidArgument(
            f"Expected checkpoint={str(directory)!r} to be a directory that can be written "
            f"({type(error).__name__})."
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise InvalidArgument(
            f"Expected checkpoint={str(directory)!r} to be readable by you alone (mode 0700, not "
            f"{mode:04o}): it holds the teachers' secret answers; chmod it, or name a new one."
        )
    return directory


Pieces = Iterator[bytes | memoryview]

_PERSON = b"tacit teacher"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "monai")
"""Another release of them may round differently."""


def fingerprint(*parts: Any) -> bytes:
    """Hash configs and arrays, and the versions of the libraries that compute with them."""
    hashed = hashlib.blake2b(person=_PERSON)
    for part in (__version__, _versions(), *parts):
        for piece in canonical(part):
            hashed.update(piece)
    return hashed.digest()


def canonical(value: Any) -> Pieces:
    """Write a config as bytes that are equal for equal configs, in any process."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield _framed(f"{type(value).__name__} {value!r}".encode())
    elif isinstance(value, np.ndarray | np.generic):
        yield from _array(np.asarray(value))
    elif isinstance(value, list | tuple):
        yield from _all("sequence", value)
    elif isinstance(value, dict | set | frozenset):
        entries = value.items() if isinstance(value, dict) else value
        yield from _sorted("mapping", entries)
    elif isinstance(value, functools.partial) or hasattr(value, "__qualname__"):
        yield from _code(value)
    else:
        yield from _object(value)


def _object(value: Any) -> Pieces:
    """Write an object by its type and parameters; as a last resort by its pickle."""
    import cloudpickle

    params = _params(value)
    yield from _code(type(value))
    if params is not None:
        yield from canonical(params)
    else:
        yield _framed(cloudpickle.dumps(value, protocol=5))


def _params(value: Any) -> dict[str, Any] | None:
    if hasattr(value, "fingerprint_parts"):  # of what pickles with an address in it, as networks do
        return dict(value.fingerprint_parts())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "get_params"):
        return dict(value.get_params(deep=False))
    return None


def _code(value: Any) -> Pieces:
    """Write a function or a class: its name, source, defaults and closure."""
    if isinstance(value, functools.partial):
        yield from _all("partial", [value.func, value.args, value.keywords])
        return
    kind = type(value).__qualname__
    yield _framed(f"{kind} {getattr(value, '__module__', '')}.{value.__qualname__}".encode())
    try:
        yield _framed(inspect.getsource(value).encode())
    except (OSError, TypeError):  # made by a shell or written in C
        yield _framed(getattr(getattr(value, "__code__", None), "co_code", b""))
    cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    for held in (getattr(value, "__defaults__", None), cells, getattr(value, "__self__", None)):
        if held and not inspect.ismodule(held):
            yield from canonical(held)


def _array(array: NDArray[Any]) -> Pieces:
    yield _framed(f"array {array.dtype.str} {array.shape}".encode())
    if array.dtype.kind == "O":
        yield from _all("objects", array.reshape(-1).tolist())
    else:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _all(kind: str, values: Any) -> Pieces:
    yield _framed(f"{kind} {len(values)}".encode())
    for one in values:
        yield from canonical(one)


def _sorted(kind: str, values: Any) -> Pieces:
    written = sorted(b"".join(canonical(one)) for one in values)
    yield _framed(f"{kind} {len(written)}".encode())
    yield from written


def _framed(piece: bytes) -> bytes:
    return len(piece).to_bytes(8, "little") + piece


@functools.cache
def _versions() -> list[str]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(name)
    return found
