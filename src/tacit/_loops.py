"""Loops that numba compiles where it is installed: NumPy's own bits, in one pass through memory.

A chain of NumPy's operations writes an array for each of them; a compiled loop does all of them
number by number. Each loop here has a chain beside it that does the same where numba is missing (or
not worth its start), and a test compares their bits. LLVM neither reorders nor fuses float
operations unless it is asked to, and nobody asks.

A compiled loop looks at no bounds: whoever calls one has compared the shapes of what it is given.
Loops are compiled by `use_loops`, before a run begins: nothing is compiled beside private records,
where an error of the compiler would have to be kept quiet.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

WORTH_IT = 2**27
"""Numbers that a run goes through from which on a second of loading numba is soon won back."""


class Loop:
    """A plain function of arrays and numbers, and what is made of it once loops are wanted."""

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.plain, self.signature = function, signature
        self.compiled: Callable[..., Any] | None = None

    def __bool__(self) -> bool:
        """Tell whether it is compiled."""
        return self.compiled is not None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled loop, or the plain function where there is none."""
        return (self.compiled or self.plain)(*arguments)


_known: list[Loop] = []


def loop(signature: str) -> Callable[[Callable[..., Any]], Loop]:
    """Mark a function as a loop, with numba's words for its arguments.

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
    """Compile every loop that is not yet, if a run goes through so many numbers; tell whether.

    Nothing of what is computed changes by a bit. Machine code is kept beside the source, or in the
    user's cache, so that the next process loads it.
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
    """Compile a loop; where machine code can be kept nowhere, for this process alone."""
    how = {"nogil": True, "error_model": "numpy"}
    made: Callable[..., Any]
    try:
        made = njit(each.signature, cache=True, **how)(each.plain)
    except (RuntimeError, OSError):
        made = njit(each.signature, **how)(each.plain)
    return made
