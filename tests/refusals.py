"""What the loaders' tests share: a read that succeeds or is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tacit.errors import TacitError

T = TypeVar("T")


def read_or_refuse(read: Callable[[], T]) -> T | None:
    """What was read, or None after a refusal in one line; any other exception passes through."""
    refusal = None
    try:
        return read()
    except TacitError as error:
        refusal = error
    assert "\n" not in str(refusal)
    return None


def everything_said(error: BaseException) -> str:
    """All that a log would show of an error and of what led to it."""
    said = []
    seen: BaseException | None = error
    while seen is not None:
        said.append(f"{seen!r} {seen}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n".join(said)
