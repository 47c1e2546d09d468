"""Names of mechanisms, methods, students, teachers and data sets, from entry points.

A name is what ledgers, run.toml and the command line use. Nothing is imported until it is used. A
name is never given to anything else: old ledgers and configurations hold it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from tacit.errors import InvalidArgument


class Registry(Mapping[str, str]):
    """Names of one kind, in alphabetical order, with "module:name" of each.

    `kind` selects the group "tacit.KIND" of entry points.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @cached_property
    def _places(self) -> dict[str, str]:
        places: dict[str, str] = {}
        for entry in entry_points(group=f"tacit.{self.kind}"):
            # Fail closed: a ledger that names it would be priced by whoever came first.
            if places.setdefault(entry.name, entry.value) != entry.value:
                raise InvalidArgument(
                    f"Expected one package that brings {entry.name!r} among {self.kind}, got "
                    f"{places[entry.name]} and {entry.value}: remove one of them."
                )
        return dict(sorted(places.items()))

    def read_again(self) -> None:
        """Read the installed entry points again."""
        self.__dict__.pop("_places", None)

    def __getitem__(self, name: str) -> str:
        return self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


MECHANISMS = Registry("mechanisms")
METHODS = Registry("methods")
"""Methods by the name that run.toml and the command line say."""
STUDENTS = Registry("students")
"""Students of classes, by the word for `student` in run.toml; `for_data` makes them."""
TEACHERS = Registry("teachers")
"""Families of teachers, by the word for `teacher` in run.toml; `for_data` makes them."""
DATASETS = Registry("datasets")
"""Loaders by the word before the colon; one that can do without a path stands for a whole set."""


def method_of(name: str) -> Any:
    """Return a method (`tacit.methods.method.Method`); `KeyError` for an unknown name."""
    return found(METHODS[name])


def mechanism_class(name: str) -> Any:
    """Return the class of a mechanism; `KeyError` for an unknown name.

    >>> mechanism_class("gnmax")(sigma=40)
    GNMax(sigma=40.0, votes_per_unit=1)
    """
    return found(MECHANISMS[name])


def found(place: str) -> Any:
    """Import "module:name".

    >>> found(METHODS["knn"]).name
    'knn'
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
