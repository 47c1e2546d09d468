"""A codec as a file of numbers: one line of JSON, then the arrays. No code.

The same codec makes the same bytes, so that their hash can be signed and compared.
`codec_identity` hashes any codec, to six digits, for a release that is resumed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument
from tacit.masks.codecs import IdentityCodec
from tacit.masks.pca import BlockPCACodec, PCACodec

_FORMAT = "tacit-codec/1"
_KINDS: dict[str, Any] = {"linear": PCACodec, "blocks": BlockPCACodec, "naive": IdentityCodec}
_MOST_LINE = 1 << 16
_DIGITS = 6
"""Of an array's largest number: codecs fitted under other threads differ in the sixteenth digit of
float64, other codecs in the first ones."""


def codec_bytes(codec: Any) -> bytes:
    """Return a codec as bytes, the same for the same numbers.

    Parameters
    ----------
    codec : PCACodec, BlockPCACodec or IdentityCodec
        Public; an autoencoder's network has no such form.

    Returns
    -------
    bytes, a line of JSON, then every array in float64, little-endian
    """
    kind = next((name for name, made in _KINDS.items() if type(codec) is made), None)
    if kind is None:
        raise InvalidArgument(
            f"Expected a codec that is public numbers alone, like PCACodec; got "
            f"{type(codec).__name__}."
        )
    fields = {each.name: getattr(codec, each.name) for each in dataclasses.fields(codec)}
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    head = {
        "format": _FORMAT,
        "kind": kind,
        "numbers": {name: list(value.shape) for name, value in sorted(arrays.items())},
        "plain": {name: value for name, value in fields.items() if name not in arrays},
    }
    line = json.dumps(head, sort_keys=True, separators=(",", ":"), allow_nan=False)
    parts = [np.ascontiguousarray(arrays[name], dtype="<f8").tobytes() for name in sorted(arrays)]
    return b"".join([line.encode(), b"\n", *parts])


def codec_of_bytes(raw: bytes) -> Any:
    """Return the codec that `codec_bytes` wrote; `InvalidArgument` for anything else.

    Parameters
    ----------
    raw : bytes, numbers; none of them is run as code

    Returns
    -------
    PCACodec, BlockPCACodec or IdentityCodec
    """
    try:
        line, found, rest = raw.partition(b"\n")
        if not found or len(line) > _MOST_LINE:
            raise ValueError
        codec = _made(json.loads(line), rest)
        coded = np.asarray(codec.encode(np.zeros((1, *codec.shape))))
        if coded.shape != (1, codec.length) or codec_bytes(codec) != raw:
            raise ValueError
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise InvalidArgument("Expected a codec's file, as save_codec writes it.") from None
    return codec


def _made(head: Any, rest: bytes) -> Any:
    if head["format"] != _FORMAT:
        raise ValueError
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in head["plain"].items()
    }
    numbers = np.frombuffer(rest, dtype="<f8").astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError
    for name, shape in sorted(head["numbers"].items()):
        size = int(np.prod([int(side) for side in shape], dtype=np.float64))
        fields[name], numbers = numbers[:size].reshape(shape), numbers[size:]
    if numbers.size:
        raise ValueError
    return _KINDS[head["kind"]](**fields)


def save_codec(codec: Any, path: PathLike) -> None:
    """Write a codec to a file.

    Parameters
    ----------
    codec : PCACodec, BlockPCACodec or IdentityCodec, public
    path : path
    """
    write_atomically(path, codec_bytes(codec))


def load_codec(path: PathLike) -> Any:
    """Read what `save_codec` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    PCACodec, BlockPCACodec or IdentityCodec, with the very same numbers
    """
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        raise InvalidArgument(f"Expected {str(path)!r} to be a codec's file.") from None
    return codec_of_bytes(raw)


def codec_identity(codec: Any) -> NDArray[np.uint8]:
    """Return a hash of all that a codec is made of, to six digits of each array."""
    found = hashlib.sha256(type(codec).__name__.encode())
    for part in _parts(_fields(codec)):
        found.update(part)
    return np.frombuffer(found.digest(), dtype=np.uint8)


def _fields(codec: Any) -> dict[str, Any]:
    """Return its attributes, and two made-up codes decoded, for what is not plain numbers."""
    probes = np.random.default_rng(0).normal(size=(2, codec.length))
    if hasattr(codec, "fingerprint_parts"):
        own = codec.fingerprint_parts()
    elif dataclasses.is_dataclass(codec):
        own = {one.name: getattr(codec, one.name) for one in dataclasses.fields(codec)}
    else:
        own = getattr(codec, "__dict__", {})
    return {**own, "decoded probes": codec.decode(probes)}


def _parts(value: Any) -> Iterator[bytes]:
    """Give names, shapes and numbers; what is neither is in the decoded probes alone."""
    if isinstance(value, dict):
        for name, held in sorted(value.items()):
            yield name.encode()
            yield from _parts(held)
    elif isinstance(value, np.ndarray):
        yield str(value.shape).encode()
        yield _rounded(value).tobytes()
    elif isinstance(value, list | tuple):
        for held in value:
            yield from _parts(held)
    elif isinstance(value, str | int | float | None):
        yield repr(value).encode()


def _rounded(array: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers in units of the largest, rounded, after that one itself."""
    numbers = np.asarray(array, dtype=np.float64).ravel()
    largest = float(np.abs(numbers).max(initial=0.0)) or 1.0
    told = float(f"{largest:.{_DIGITS - 1}e}")
    return np.append(np.round(numbers / largest, _DIGITS), told) + 0.0  # -0 is 0
