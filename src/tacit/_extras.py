"""Packages that an extra brings: loaded where they are used, named where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from tacit.errors import MissingExtra


def need(package: str, purpose: str, *, extra: str) -> Any:
    """Return a package, or say which extra brings it.

    >>> need("json", "to read JSON", extra="none").loads("[1]")
    [1]
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise MissingExtra(
            f"Expected the package {name} {purpose}; install tacit[{extra}]."
        ) from None
