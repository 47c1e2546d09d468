"""Declarations of a table's columns: what is publicly known about each before any row is read.

Bins and categories read off private rows would leak (a category of one person, an edge at the
largest income), so they are declared, and rows are only looked up in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tacit._checks import finite, refuse
from tacit.errors import InvalidArgument

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Numeric:
    """A column of numbers and the public edges that cut its range into bins.

    Bin 0 is below the first edge, bin k is edges[k-1] <= value < edges[k], the last is from the
    last edge on, and one more, `other`, takes what is not a number.

    Parameters
    ----------
    name : str
    edges : iterable of float
        Finite, strictly increasing, and public: never read off private rows. None at all makes one
        bin, `any`.

    Examples
    --------
    >>> Numeric("age", [18, 65]).labels
    ('<18', '18..65', '>=65', 'other')
    """

    name: str
    edges: tuple[float, ...]

    def __init__(self, name: str, edges: Iterable[float] = ()) -> None:
        values = _declared(name, "edges", edges, f"a finite number in column {name!r}")
        if any(low >= high for low, high in pairwise(values)):
            raise refuse("edges", values, f"strictly increasing in column {name!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "edges", values)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each bin, in order; the last is `other`."""
        if not self.edges:
            return ("any", OTHER)
        inner = [f"{low:g}..{high:g}" for low, high in pairwise(self.edges)]
        return (f"<{self.edges[0]:g}", *inner, f">={self.edges[-1]:g}", OTHER)


@dataclass(frozen=True, slots=True)
class Categorical:
    """A column of categories and the public list of them; what is not listed is `other`.

    Parameters
    ----------
    name : str
    categories : iterable of str or float
        At least one, all different, and public: never read off private rows.
    """

    name: str
    categories: tuple[str | float, ...]

    def __init__(self, name: str, categories: Iterable[str | float]) -> None:
        expected = (
            f"a word or a finite number in column {name!r} (true and false as the words that stand "
            'there, such as "true")'
        )
        values = _declared(name, "categories", categories, expected, words=True)
        if not values or len(set(values)) < len(values):
            problem = f"at least one, and all different in column {name!r}"
            raise refuse("categories", values, problem)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "categories", values)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each category, in order; the last is `other`."""
        words = (c if isinstance(c, str) else f"{c:g}" for c in self.categories)
        return (*words, OTHER)


Column = Numeric | Categorical


def _declared(
    name: Any, role: str, values: Any, expected: str, *, words: bool = False
) -> tuple[Any, ...]:
    """Check name and public values; a bare string is refused."""
    if not isinstance(name, str) or not name:
        raise refuse("name", name, "the name of a column")
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise refuse(role, values, f"a list of public values of column {name!r}")
    found = []
    for value in values:
        try:
            found.append(value if words and isinstance(value, str) else finite(**{role: value}))
        except InvalidArgument:
            raise refuse(role, value, expected) from None
    return tuple(found)
