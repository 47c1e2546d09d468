"""One thread inside a task: sums then have one order, and a teacher the same bits everywhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

_ALONE = threading.RLock()  # the limits belong to the whole process
_seen: tuple[int, Any] | None = None


def on_one_thread(work: Callable[[], _T]) -> _T:
    """Do the work with every BLAS and OpenMP library at one thread, one such work at a time.

    A library that is loaded by the work itself comes with all its threads: the work is then done
    again, with the library limited. Hence work must be a pure function.

    >>> on_one_thread(lambda: 6 * 7)
    42
    """
    with _ALONE:
        while True:
            pools = _pools()
            with pools.limit(limits=1):
                result = work()
            if _libraries(_pools()) == _libraries(pools):
                return result


def _pools() -> Any:
    """Find the loaded libraries; looking takes milliseconds, so only after new imports."""
    global _seen  # noqa: PLW0603 - a process has one set of libraries
    from threadpoolctl import ThreadpoolController

    if _seen is None or _seen[0] != len(sys.modules):
        found = ThreadpoolController()
        _seen = (len(sys.modules), found)
    return _seen[1]


def _libraries(pools: Any) -> set[str]:
    return {library.filepath for library in pools.lib_controllers}
