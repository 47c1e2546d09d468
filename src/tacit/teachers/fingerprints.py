"""What a teacher's answers follow from, in one hash: a changed input is never taken for the old.

Config, shard, seed and queries are written canonically, so that the same run in another process
has the same hash. Functions and classes are known by name and source; code that they call is not.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit import __version__

if TYPE_CHECKING:
    from tacit.teachers.tasks import Shard

Pieces = Iterator[bytes | memoryview]

_PERSON = b"tacit teacher"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "monai")
"""Another release of them may round differently."""


def fingerprint(*parts: Any) -> bytes:
    """Hash configs and arrays, and the libraries that compute with them.

    >>> fingerprint({"a": 1}, 2) == fingerprint({"a": 1}, 3)
    False
    """
    hashed = hashlib.blake2b(person=_PERSON)
    for part in (__version__, _versions(), *parts):
        for piece in canonical(part):
            hashed.update(piece)
    return hashed.digest()


def shard_fingerprint(job_hash: bytes, shard: Shard) -> str:
    """Hash all that one teacher's answers follow from, in hexadecimal.

    >>> from tacit.teachers import Shard
    >>> one = Shard(np.zeros((2, 1)), np.array([0, 1]), seed=5)
    >>> shard_fingerprint(b"", one) == shard_fingerprint(b"", dataclasses.replace(one, seed=6))
    False
    """
    hashed = hashlib.blake2b(job_hash, digest_size=16, person=_PERSON)
    for part in (shard.seed, shard.X, shard.y):
        for piece in canonical(part):
            hashed.update(piece)
    return hashed.hexdigest()


def canonical(value: Any) -> Pieces:
    """Write a config as bytes that are equal for equal configs, in any process.

    >>> b"".join(canonical({"b": 1, "a": [True, None]})) == b"".join(
    ...     canonical({"a": [True, None], "b": 1}))
    True
    """
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
    """Write a function or a class: its name, source, defaults and what it closes over."""
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


def _versions() -> list[str]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(name)
    return found
