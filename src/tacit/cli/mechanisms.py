"""Mechanisms on the command line: NAME:KEY=VALUE,... with the parameters that a class names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

from tacit._registry import MECHANISMS, mechanism_class
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.mechanisms import Mechanism

_WORDS = {"true": True, "false": False}


def parse_mechanism(text: str) -> Mechanism:
    """Make the mechanism that "name:key=value,..." describes.

    >>> parse_mechanism("gnmax:sigma=40")
    GNMax(sigma=40.0)
    >>> parse_mechanism("sampled-labels:sigma=20,k=300,clip=l1").clip
    'l1'
    """
    name, _, rest = text.partition(":")
    if name not in MECHANISMS:
        raise InvalidArgument(
            f"Expected --mechanism={name!r} to be one of {', '.join(MECHANISMS)}, with its "
            "parameters."
        )
    given = _given(rest, mechanism_class(name).parameters())
    takes = f"; {name} takes {', '.join(parameters_of(name))}"
    return _made(name, given, lambda key: f"{key} in --mechanism={name}:...{takes}")


def vote_mechanism(text: str, **options: float | None) -> Mechanism:
    """Make a mechanism that turns votes into classes, of a name with options, or of a description.

    >>> vote_mechanism("gnmax", sigma=40, gamma=None)
    GNMax(sigma=40.0)
    >>> vote_mechanism("lnmax:gamma=0.05", sigma=None)
    LNMax(gamma=0.05)
    """
    from tacit.mechanisms import VoteMechanism

    given = {key: value for key, value in options.items() if value is not None}
    if ":" in text or text not in MECHANISMS:
        made = parse_mechanism(text)
        if given:
            raise InvalidArgument(f"Expected no --{_dashed(next(iter(given)))} with {text}.")
    else:
        made = _made(text, given, lambda key: f"--{_dashed(key)} for {text}")
    if not isinstance(made, VoteMechanism):
        raise InvalidArgument(f"Expected a mechanism on teachers' votes, got {made.name}.")
    made.reading()  # refuses one whose releases are no classes
    return made


def parameters_of(name: str) -> list[str]:
    """Return the parameters of a mechanism; those that may be left out with what they are then.

    >>> parameters_of("sampled-mean")
    ['sigma', 'k', 'sampling_rate=1.0', 'low=0.0', 'high=1.0', 'votes_per_unit=1']
    """
    known = mechanism_class(name).parameters().items()
    return [key if default is MISSING else f"{key}={default}" for key, default in known]


def _made(name: str, given: dict[str, Any], where: Callable[[str], str]) -> Mechanism:
    """Refuse a parameter that is missing, and one that the mechanism does not have; make it."""
    kind = mechanism_class(name)
    known: dict[str, Any] = kind.parameters()
    needed: Iterable[str] = (key for key, default in known.items() if default is MISSING)
    for key in needed:
        if key not in given:
            raise InvalidArgument(f"Expected {where(key)}.")
    for key in given:
        if key not in known:
            raise InvalidArgument(f"Expected no {where(key)}.")
    made: Mechanism = kind.from_parameters(**given)
    return made


def _given(rest: str, known: dict[str, Any]) -> dict[str, Any]:
    """Read KEY=VALUE,...; a value is a whole number, a number, or the word that a key takes."""
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = (each.strip() for each in part.partition("="))
        name = key.replace("-", "_")
        if name in given:
            raise InvalidArgument(f"Expected {key} once in --mechanism, got it twice.")
        given[name] = _value(value, known.get(name), part)
    return given


def _value(value: str, default: Any, part: str) -> Any:
    """Read a value as its default is written: a word, true or false, or a number."""
    if isinstance(default, str):
        return value
    if isinstance(default, bool) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    readers: tuple[Callable[[str], Any], ...] = (int, float)
    for read in readers:
        try:
            return read(value)
        except ValueError:
            continue
    raise InvalidArgument(f"Expected KEY=NUMBER in --mechanism, got {part!r}.")


def _dashed(key: str) -> str:
    return key.replace("_", "-")
