"""What tells one codec from another: a kept release is decoded by the codec that coded it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DIGITS = 6
"""Of an array's largest number: codecs fitted under other threads differ in the sixteenth digit of
float64, other codecs in the first ones."""


def codec_identity(codec: Any) -> NDArray[np.uint8]:
    """Return a hash of all that a codec is made of, to six digits of each array.

    >>> from tacit.masks.codecs import IdentityCodec
    >>> one, other, same = (codec_identity(IdentityCodec((n, 2))) for n in (2, 3, 2))
    >>> bool((one == same).all()), bool((one == other).all())
    (True, False)
    """
    found = hashlib.sha256(type(codec).__name__.encode())
    for part in _parts(_fields(codec)):
        found.update(part)
    return np.frombuffer(found.digest(), dtype=np.uint8)


def _fields(codec: Any) -> dict[str, Any]:
    """Return its attributes, and two made-up codes decoded: it may hold what nobody can read."""
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
