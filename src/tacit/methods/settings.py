"""What a configuration may set of an estimator, read off the constructor itself.

An estimator's fields are its table in run.toml: same names, same defaults, and the types say what
is accepted. A type with a check in it (`Count`, `Positive`) refuses what the check refuses; a field
that holds an object is annotated with the `Words` by which a file names one. A field without either
(`module: Any`) is for Python alone.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from tacit._checks import at_least, finite, flag, one_of, positive, refuse, sampling_rate, word
from tacit.datasets import Dataset
from tacit.errors import InvalidArgument

Made = Callable[[Dataset, Mapping[str, Any]], Any]
"""From the private rows' public kind and the other settings to what a word stands for."""

RENAMED = {
    "teachers": "n_teachers",
    "prototypes": "n_prototypes",
    "landmarks": "n_landmarks",
    "records": "n_records",
}
"""Keys of 0.1, and what they are called since they are the constructor's own names."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words for an argument, and what each stands for; None where it stands for itself."""

    known: Mapping[str, Made | None]

    def __call__(self, **named: Any) -> str:
        """Return the argument, which must be one of the words."""
        return one_of(*self.known, **named)

    def make(self, word: str, data: Dataset, settings: Mapping[str, Any]) -> Any:
        """Return what the word stands for."""
        made = self.known[word]
        return word if made is None else made(data, settings)


def choices(*known: str) -> Words:
    """Return words that stand for themselves."""
    return Words(dict.fromkeys(known))


def _widths(**named: Any) -> tuple[int, ...]:
    ((name, value),) = named.items()
    if not isinstance(value, list | tuple):
        raise refuse(name, value, "a list of whole numbers")
    return tuple(at_least(1, **{name: width}) for width in value)


def _one_or_two(**named: Any) -> int:
    ((name, value),) = named.items()
    if at_least(1, **named) > 2:
        raise refuse(name, value, "1 or 2")
    return int(value)


def _size(**named: Any) -> Any:
    ((_, value),) = named.items()
    return value if value == "from_data" and isinstance(value, str) else at_least(1, **named)


Count = Annotated[int, partial(at_least, 1)]
CountOrZero = Annotated[int, partial(at_least, 0)]
OneOrTwo = Annotated[int, _one_or_two]
Positive = Annotated[float, positive]
Rate = Annotated[float, sampling_rate]
Widths = Annotated[tuple[int, ...], _widths]
PublicSize = Annotated[Any, _size]
"""A public number of records, or "from_data"."""


def table_of(kind: type[Any]) -> dict[str, Any]:
    """Return which fields of a dataclass a configuration may set, and their types."""
    hints = typing.get_type_hints(kind, include_extras=True)
    own = [item.name for item in dataclasses.fields(kind) if item.init]
    return {name: hints[name] for name in own if hints[name] is not Any}


def defaults_of(kind: type[Any], without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the defaults of what a configuration may set."""
    defaults = {item.name: item.default for item in dataclasses.fields(kind)}
    return {name: defaults[name] for name in table_of(kind) if name not in without}


def read_settings(
    kind: type[Any], table: Any, name: str, *, without: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return all settings of a method, defaults included; whatever is wrong in a table is named."""
    if not isinstance(table, dict):
        raise InvalidArgument(f"Expected a table [{name}] in the configuration.")
    found = defaults_of(kind, without)
    for key in table:
        if key not in found and RENAMED.get(key) in found:
            raise InvalidArgument(
                f"Expected {RENAMED[key]} in [{name}]: {key} was its name before 0.2."
            )
    if unknown := sorted(map(str, set(table) - set(found))):
        raise InvalidArgument(
            f"Expected no {', '.join(unknown)} in {name}; known are {', '.join(found)}."
        )
    types_ = table_of(kind)
    found.update({key: _read(types_[key], key, value) for key, value in table.items()})
    return found


def arguments_of(kind: type[Any], settings: Mapping[str, Any], data: Dataset) -> dict[str, Any]:
    """Return the constructor's arguments: settings, with objects in place of their words."""
    types_ = table_of(kind)
    return {key: _made(types_[key], value, data, settings) for key, value in settings.items()}


def _made(kind: Any, value: Any, data: Dataset, settings: Mapping[str, Any]) -> Any:
    note = _note(_without_none(kind)[0])
    return note.make(value, data, settings) if isinstance(note, Words) and value else value


def _without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it allowed None."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind, False
    (kept,) = [each for each in typing.get_args(kind) if each is not type(None)]
    return kept, True


def _note(kind: Any) -> Any:
    return typing.get_args(kind)[1] if typing.get_origin(kind) is Annotated else None


def _read(kind: Any, name: str, value: Any) -> Any:
    """Check a value of a file against a field's type."""
    kind, _ = _without_none(kind)
    check = _note(kind) or _PLAIN[kind]
    return check(**{name: value})


_PLAIN: dict[Any, Callable[..., Any]] = {bool: flag, float: finite, str: word}
"""Checks of types that carry none; another type is a mistake of the estimator's, not the user's."""
