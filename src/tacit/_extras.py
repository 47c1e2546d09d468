"""Optional packages, imported where they are used; an error names the extra to install."""

from __future__ import annotations

import importlib
from typing import Any

from tacit.errors import MissingExtra


def need(package: str, purpose: str, *, extra: str) -> Any:
    """Return a package, or raise with the extra that brings it.

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


class Late:
    """A package that is imported on first use.

    >>> Late("json", "to read JSON", extra="none").loads("[1]")
    [1]
    """

    def __init__(self, package: str, purpose: str, *, extra: str) -> None:
        self._asked = (package, purpose, extra)

    def need(self) -> Any:
        """Return the package; raise early if it is missing."""
        package, purpose, extra = self._asked
        return need(package, purpose, extra=extra)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks at all names of a module loads nothing
            raise AttributeError(name)
        return getattr(self.need(), name)


torch: Any = Late("torch", "for networks", extra="torch")
