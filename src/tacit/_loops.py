"""Loops that numba compiles where it is installed, with the same bits as NumPy.

Each loop has a chain of NumPy operations beside it; a test compares their bits (LLVM neither
reorders nor fuses float operations by default). A compiled loop checks no bounds: callers compare
shapes. `use_loops` compiles before a run begins, never beside private records.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

WORTH_IT = 2**27
"""Numbers that a run goes through from which on a second of loading numba is soon won back."""


class Loop:
    """A plain function of arrays and numbers, and its compiled form."""

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.plain, self.signature = function, signature
        self.compiled: Callable[..., Any] | None = None

    def __bool__(self) -> bool:
        """Whether it is compiled."""
        return self.compiled is not None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled loop, or the plain function."""
        return (self.compiled or self.plain)(*arguments)


_known: list[Loop] = []


def loop(signature: str) -> Callable[[Callable[..., Any]], Loop]:
    """Mark a function as a loop, with numba's signature.

    >>> @loop("void(float64[::1])")
    ... def double(values):
    ...     for place in range(values.size):
    ...         values[place] *= 2.0
    >>> _known.pop() is double
    True
    """

    def marked(function: Callable[..., Any]) -> Loop:
        _known.append(Loop(function, signature))
        return _known[-1]

    return marked


def use_loops(numbers: float) -> bool:
    """Compile all loops if a run has so many numbers; return whether they are compiled.

    Results do not change by a bit. Machine code is cached beside the source, or in the user's
    cache.
    """
    if numbers < WORTH_IT:
        return False
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder in which nothing can be kept
        for each in _known:
            each.compiled = each.compiled or _compiled(each, numba.njit)
    return True


def _compiled(each: Loop, njit: Any) -> Callable[..., Any]:
    """Compile a loop, without a cache where none can be written."""
    how = {"nogil": True, "error_model": "numpy"}
    made: Callable[..., Any]
    try:
        made = njit(each.signature, cache=True, **how)(each.plain)
    except (RuntimeError, OSError):
        made = njit(each.signature, **how)(each.plain)
    return made
