"""What the segmentation benchmarks share: a type, and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from rich.table import Table

Array = NDArray[Any]


def shown(title: str, rows: list[dict[str, Any]], text: Callable[[str, Any], str]) -> Table:
    """Return a table of rows with the same names; `text` writes a value under its name."""
    result = Table(title=title)
    for name in rows[0]:
        result.add_column(name, justify="right")
    for row in rows:
        result.add_row(*(text(name, value) for name, value in row.items()))
    return result
