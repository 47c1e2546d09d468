"""A mechanism in one word: "gnmax:sigma=40", NAME:KEY=VALUE,... with its class's parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.mechanisms import Mechanism

NAMES = (
    *("gnmax", "lnmax", "noisy-votes", "threshold-check", "confident-gnmax", "interactive-gnmax"),
    *("sanitise", "sampled-max", "sampled-votes", "screening-check", "noisy-screening"),
    *("sampled-labels", "sampled-mean", "sampled-median", "unit-mean", "gaussian-mean"),
    *("distributed-gaussian-mean", "noisy-sum", "noisy-second-moment", "noisy-steps"),
)
"""Mechanisms that can be described; written out, so that `--help` need not import them."""
_WORDS = {"true": True, "false": False}
_GRID = {"low": 0.0, "high": 1.0, "points": 101}
"""What stands for the grid of a median, which is three numbers."""


def parse_mechanism(text: str) -> Mechanism:
    """Make the mechanism that "name:key=value,..." describes.

    >>> parse_mechanism("gnmax:sigma=40")
    GNMax(sigma=40.0)
    >>> parse_mechanism("sampled-labels:sigma=20,k=300,clip=l1").clip
    'l1'
    """
    from tacit.mechanisms.auditing import AUDITED

    name, _, rest = text.partition(":")
    if name not in NAMES:
        raise InvalidArgument(
            f"Expected --mechanism={name!r} to be one of {', '.join(NAMES)}, with its parameters."
        )
    kind: Any = AUDITED[name]
    given = _given(rest)
    if name == "sampled-median":
        given["grid"] = tuple(given.pop(key, usual) for key, usual in _GRID.items())
    if name == "sanitise":
        given.setdefault("covers", "an audit")
    _check_names(name, given, fields(kind))
    made: Mechanism = kind(**given)
    return made


def parameters_of(name: str) -> list[str]:
    """Return the parameters of a mechanism; those that may be left out with what they are then.

    >>> parameters_of("sampled-mean")
    ['sigma', 'k', 'sampling_rate=1.0', 'low=0.0', 'high=1.0', 'votes_per_unit=1']
    """
    from tacit.mechanisms.auditing import AUDITED

    kind: Any = AUDITED[name]
    shown = []
    for each in fields(kind):
        if each.name == "grid":
            shown += [f"{key}={usual}" for key, usual in _GRID.items()]
        elif each.name != "covers":
            shown.append(each.name if each.default is MISSING else f"{each.name}={each.default}")
    return shown


def _given(rest: str) -> dict[str, Any]:
    """Read KEY=VALUE,...; a value is a whole number, a number, or the word that a key takes."""
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = (each.strip() for each in part.partition("="))
        name = key.replace("-", "_")
        if name in given:
            raise InvalidArgument(f"Expected {key} once in --mechanism, got it twice.")
        given[name] = _value(name, value, part)
    return given


def _value(name: str, value: str, part: str) -> Any:
    if name == "clip":
        return value
    if name == "from_zero" and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    readers: tuple[Callable[[str], Any], ...] = (int, float)
    for read in readers:
        try:
            return read(value)
        except ValueError:
            continue
    raise InvalidArgument(f"Expected KEY=NUMBER in --mechanism, got {part!r}.")


def _check_names(name: str, given: dict[str, Any], known: tuple[Field[Any], ...]) -> None:
    """Refuse a parameter that is missing, and one that the mechanism does not have."""
    takes = f"{name} takes {', '.join(parameters_of(name))}"
    for each in known:
        if each.name not in given and each.default is MISSING:
            raise InvalidArgument(f"Expected {each.name} in --mechanism={name}:...; {takes}.")
    for key in given:
        if key not in {each.name for each in known}:
            raise InvalidArgument(f"Expected no {key} in --mechanism={name}:...; {takes}.")
