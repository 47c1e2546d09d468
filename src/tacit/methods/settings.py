"""What a configuration may set of an estimator, read off the constructor itself.

An estimator's fields are its table in run.toml: same names, same defaults, checked by their types
(`Count`, `Positive`); a field that holds an object is annotated with the `Words` that name one; of
`Parameters` each part is a key. A field without any of these is for Python alone.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

from sklearn.base import BaseEstimator

from tacit._checks import at_least, finite, flag, one_of, positive, refuse, sampling_rate, word
from tacit._registry import STUDENTS, TEACHERS, found
from tacit.datasets import Dataset
from tacit.errors import InvalidArgument

Made = Callable[[Dataset, Mapping[str, Any]], Any]
"""From the private rows' public kind and the other settings to what a word stands for."""

_MOST_CHECKED = 0.5
RENAMED = {
    "teachers": "n_teachers",
    "prototypes": "n_prototypes",
    "landmarks": "n_landmarks",
    "records": "n_records",
}
"""Keys of 0.1, and what they are called since they are the constructor's own names."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words for an argument, and what each stands for; None where it stands for itself.

    A path of a registry stands for what `for_data` makes there.
    """

    known: Mapping[str, Made | str | None]

    def __call__(self, **named: Any) -> str:
        """Return the argument, which must be one of the words; `kind:FILE` may name a file."""
        ((_, value),) = named.items()
        kind, colon, file = str(value).partition(":")
        if colon and file and f"{kind}:FILE" in self.known:
            return str(value)
        return one_of(*self.known, **named)

    def make(self, word: str, data: Dataset, settings: Mapping[str, Any]) -> Any:
        """Return what the word stands for."""
        kind, _, file = word.partition(":")
        if file:
            made_of: Any = self.known[f"{kind}:FILE"]
            return made_of(data, {**settings, "file": file})
        made = self.known[word]
        if isinstance(made, str):
            return found(made).for_data(data, settings)
        return word if made is None else made(data, settings)


def choices(*known: str) -> Words:
    """Return words that stand for themselves.

    Parameters
    ----------
    *known : str
        The words that an argument, and its key in run.toml, may be.

    Returns
    -------
    Words
        Annotates the field of an estimator: `mode: Annotated[str, choices("a", "b")]`. Every other
        word is refused by name.
    """
    return Words(dict.fromkeys(known))


def _widths(**named: Any) -> tuple[int, ...]:
    ((name, value),) = named.items()
    if not isinstance(value, list | tuple):
        raise refuse(name, value, "a list of whole numbers")
    return tuple(at_least(1, **{name: width}) for width in value)


def one_or_two(**named: Any) -> int:
    """Return the argument, 1 or 2."""
    ((name, value),) = named.items()
    if at_least(1, **named) > 2:
        raise refuse(name, value, "1 or 2")
    return int(value)


def share_of_check(**named: Any) -> float:
    """Return the argument, a share of mu^2 from 0 to a half."""
    ((name, value),) = named.items()
    share = finite(**named)
    if not 0 <= share <= _MOST_CHECKED:
        raise refuse(name, value, f"a share of mu^2 from 0 (off) to {_MOST_CHECKED:g}")
    return share


def _size(**named: Any) -> Any:
    ((_, value),) = named.items()
    return value if value == "from_data" and isinstance(value, str) else at_least(1, **named)


Count = Annotated[int, partial(at_least, 1)]
CountOrZero = Annotated[int, partial(at_least, 0)]
OneOrTwo = Annotated[int, one_or_two]
Positive = Annotated[float, positive]
Rate = Annotated[float, sampling_rate]
Widths = Annotated[tuple[int, ...], _widths]
Calibration = Annotated[float, share_of_check]
PublicSize = Annotated[Any, _size]
"""A public number of records, or "from_data"."""


def digits_view(shape: tuple[int, int] | None) -> Any:
    """Return HOG of deskewed images."""
    from tacit.features import digit_features

    if shape is None:
        raise InvalidArgument("Expected images for features = 'digits'; use features = 'none'.")
    return digit_features(shape)


def images_view(shape: tuple[int, int] | None) -> Any:
    """Return gradients at several scales, with what public images show of them."""
    from tacit.features import image_features

    if shape is None:
        raise InvalidArgument("Expected images for features = 'images'; use features = 'none'.")
    return image_features(shape)


def whitened_view() -> Any:
    """Return public whitening of standardised columns, such as the outputs of a network."""
    from tacit.features import PublicWhitening

    return PublicWhitening(standardise=True)


def encoder_view(file: str) -> Any:
    """Return the outputs of an ONNX file for each row alone, whitened by public rows."""
    from pathlib import Path

    from sklearn.pipeline import make_pipeline

    from tacit.features import FrozenEncoder

    return make_pipeline(FrozenEncoder(file, name=Path(file).name), whitened_view())


def embeddings_view(described_by: str | None) -> Any:
    """Return rows that are embeddings already, whitened by public rows; tacit described texts."""
    from sklearn.pipeline import make_pipeline

    from tacit.features import PrecomputedEmbeddings

    if described_by is None:
        return make_pipeline(PrecomputedEmbeddings(), whitened_view())
    return make_pipeline(PrecomputedEmbeddings(described_by, alone=True), whitened_view())


def bins_view(columns: Sequence[Any] | None) -> Any:
    """Return public bins of declared columns."""
    from tacit.features import PublicBins

    if columns is None:
        raise InvalidArgument("Expected a table with declared columns for features = 'bins'.")
    return PublicBins(columns, unit_norm=True)


_VIEWS: dict[str, Made | None] = {
    "none": lambda *_: None,
    "digits": lambda data, _: digits_view(data.image_shape),
    "images": lambda data, _: images_view(data.image_shape),
    "whitened": lambda *_: whitened_view(),
    "embeddings": lambda data, _: embeddings_view(data.described_by),
    "onnx:FILE": lambda _, settings: encoder_view(settings["file"]),
    "bins": lambda data, _: bins_view(data.columns),
}
Features = Annotated[Any, Words(_VIEWS)]
Teacher = Annotated[Any, Words(TEACHERS)]
Student = Annotated[Any, Words(STUDENTS)]
Strategy = Annotated[Any, choices("medoids", "random")]


class Parameters(BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Settings that belong together: one argument in Python, keys of their own in run.toml.

    A part that is None is the estimator's default; `set_params(training__epochs=5)` sets one.
    """

    @classmethod
    def of(cls, **named: Any) -> Self:
        """Return the argument, which must be such settings, or None for the defaults."""
        ((name, value),) = named.items()
        if value is not None and not isinstance(value, cls):
            raise refuse(name, value, f"{cls.__name__}(...), or None")
        return cls() if value is None else value

    def or_else(self, own: Self) -> Self:
        """Return these settings, with an estimator's own in place of None."""
        given = self.get_params(deep=False)
        known = {name: value for name, value in given.items() if value is not None}
        return type(self)(**{**own.get_params(deep=False), **known})


@dataclass(eq=False, repr=False)
class Queries(Parameters):
    """Which public inputs are queried: `queries=100`, or `queries=Queries(100, rounds=2)`.

    Parameters
    ----------
    number : int, optional
        How many, in each round; by default as many as `strategy` names, or the estimator's
        default. In run.toml: `queries`.
    strategy : str or array, optional
        "medoids" (default): those nearest to the centres of as many clusters; "random"; or, in
        Python, row numbers. Public inputs alone decide.
    rounds : int, optional
        2 or more query again, with the releases so far; the budget is shared.

    Notes
    -----
    One argument in Python, three keys in run.toml.
    """

    number: Count | None = field(default=None, metadata={"key": "queries"})
    strategy: Strategy | None = None
    rounds: Count | None = None

    @classmethod
    def of(cls, **named: Any) -> Self:
        """Return the argument: such settings, or a number of queries."""
        ((_, value),) = named.items()
        if value is None or isinstance(value, cls):
            return super().of(**named)
        return cls(at_least(1, **named))

    def or_else(self, own: Self) -> Self:
        """Return these settings with an estimator's own in place of None, checked.

        Parameters
        ----------
        own : Queries
            The estimator's defaults.

        Returns
        -------
        Queries
            `number` stays None where `strategy` names rows.
        """
        filled = super().or_else(own)
        if self.number is None and not isinstance(filled.strategy, str):
            filled.number = None
        elif filled.number is not None:
            at_least(1, queries=filled.number)
        at_least(1, rounds=filled.rounds)
        return filled


@dataclass(eq=False, repr=False, kw_only=True)
class Checks(Parameters):
    """What is checked of a run: before it, whether it can learn; after it, the student's scores.

    Parameters
    ----------
    calibration : float, optional
        Share of mu^2, 0.05 say, spent once on calibrating the student's probabilities. 0
        (default): they are not checked.
    allow_hopeless : bool, optional
        True: go on although public numbers say that nothing can be learned. False (default): `fit`
        refuses such a run before anything is spent.

    Notes
    -----
    One argument in Python, `checks=Checks(calibration=0.05)`; in run.toml each part is a key.
    Regressors have no `calibration`. `docs/theory/calibration.md`, `docs/choose-a-method.md`.
    """

    calibration: Calibration | None = None
    allow_hopeless: bool | None = None


CHECKS = Checks(calibration=0.0, allow_hopeless=False)


_PLAIN: dict[Any, Callable[..., Any]] = {bool: flag, float: finite, str: word}
"""Checks of types that carry none; another type is a mistake of the estimator's, not the user's."""


class Key(NamedTuple):
    """What a key of a table sets: an argument, or a part of one; which values; its default."""

    argument: str
    part: str | None
    kind: Any
    default: Any

    @property
    def check(self) -> Callable[..., Any]:
        """What checks a value of a file: the note of the type, None left aside."""
        kind = self.kind
        if typing.get_origin(kind) in (types.UnionType, typing.Union):
            (kind,) = [each for each in typing.get_args(kind) if each is not type(None)]
        noted = typing.get_origin(kind) is Annotated
        return typing.get_args(kind)[1] if noted else _PLAIN[kind]


def table_of(kind: type[Any]) -> dict[str, Key]:
    """Return which keys a configuration may set of a dataclass."""
    found: dict[str, Key] = {}
    for item, hint in _fields(kind):
        if hint is Any or not item.init:
            continue
        own = getattr(kind, "_own", {}).get(item.name)
        if own is None:
            keys = {item.name: Key(item.name, None, hint, item.default)}
        else:
            keys = {
                part.metadata.get("key", part.name): Key(
                    item.name, part.name, each, getattr(own, part.name)
                )
                for part, each in _fields(type(own))
                if part.name not in kind._fixed
            }
        if twice := found.keys() & keys.keys():
            raise TypeError(f"{kind.__name__} has {', '.join(twice)} twice in its table.")
        found |= keys
    return found


def _fields(kind: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [(item, hints[item.name]) for item in dataclasses.fields(kind)]


def only_known(table: Any, known: Iterable[str], name: str) -> None:
    """Refuse what is no table, or has keys that nothing knows."""
    if not isinstance(table, dict):
        raise InvalidArgument(f"Expected a table [{name}] in the configuration.")
    if unknown := sorted(map(str, set(table) - set(known))):
        raise InvalidArgument(
            f"Expected no {', '.join(unknown)} in {name}; known are {', '.join(known)}."
        )


def read_settings(kind: type[Any], table: Any, name: str, without: Iterable[str]) -> dict[str, Any]:
    """Return all settings of a method, defaults included; what is wrong in a table is named."""
    known = {each: key for each, key in table_of(kind).items() if key.argument not in without}
    for each in table if isinstance(table, dict) else ():
        if each not in known and RENAMED.get(each) in known:
            raise InvalidArgument(
                f"Expected {RENAMED[each]} in [{name}]: {each} was its name before 0.2."
            )
    only_known(table, known, name)
    given = {each: known[each].check(**{each: value}) for each, value in table.items()}
    return {each: given.get(each, key.default) for each, key in known.items()}


def arguments_of(kind: type[Any], settings: Mapping[str, Any], data: Dataset) -> dict[str, Any]:
    """Return the constructor's arguments: settings, with objects in place of their words."""
    arguments: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, key in table_of(kind).items():
        if name in settings:
            value, check = settings[name], key.check
            if isinstance(check, Words) and value:
                value = check.make(value, data, settings)
            into = parts.setdefault(key.argument, {}) if key.part else arguments
            into[key.part or key.argument] = value
    return arguments | {each: type(kind._own[each])(**given) for each, given in parts.items()}
