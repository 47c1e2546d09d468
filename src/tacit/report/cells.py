"""How plans, times and numbers are printed: short for people, whole for those who point at them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tacit.ledger import Entry, clock_went_back, epsilon_text

_HASH = re.compile(r"[0-9a-f]{64}")
_SHORT = 12


class Cell(NamedTuple):
    """A short text, and the whole of it for those who point at it."""

    text: str
    whole: str = ""


def release_row(entry: Entry, spent: float) -> dict[str, Any]:
    """Return one release, as the table shows it."""
    plan = entry.plan
    return {
        "number": entry.sequence,
        "time": time_cell(entry.time),
        "late": clock_went_back(entry) if entry.behind else "",
        "purpose": str(entry.purpose),
        "mechanism": str(plan.get("mechanism", entry.kind)),
        "parameters": _parameters(entry),
        "queries": value_cell(plan.get("queries", "")).text,
        "cap": plan.get("max_answers"),
        "cost": Cell(f"{entry.cost:.4g}", repr(entry.cost)),
        "spent": Cell(epsilon_text(spent), repr(spent)),
        "noise": entry.noise,
        "hash": Cell(entry.hash[:_SHORT], entry.hash),
    }


def _parameters(entry: Entry) -> list[tuple[str, Cell]]:
    plan, public = entry.plan, ("n_teachers", "n_classes")
    given = {**plan.get("parameters", {}), **{name: plan.get(name) for name in public}}
    if entry.confidence_delta:
        given["confidence_delta"] = entry.confidence_delta
    told = (pair for pair in given.items() if pair[0] not in public or pair[1] is not None)
    return [(_words(name), value_cell(value)) for name, value in told]


def _words(name: str) -> str:
    """Print the name of a parameter for people.

    >>> _words("n_teachers"), _words("sigma_check")
    ('teachers', 'sigma check')
    """
    return name.removeprefix("n_").replace("_", " ")


def value_cell(value: Any) -> Cell:
    """Print a parameter of a plan: three digits, hashes shorter, mechanisms as name(…)."""
    if isinstance(value, float):
        is_whole = value == int(value)
        return Cell(number(value) if is_whole else plain_power(f"{value:.3g}"), repr(value))
    if isinstance(value, str) and _HASH.fullmatch(value):
        return Cell(value[:_SHORT], value)
    if isinstance(value, Mapping) and "mechanism" in value:
        return Cell(f"{value['mechanism']}({value_cell(value.get('parameters', {})).text})")
    if isinstance(value, Mapping):
        return Cell(", ".join(f"{name} = {value_cell(item).text}" for name, item in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Cell(", ".join(value_cell(item).text for item in value))
    return Cell(str(value))


def number(value: float) -> str:
    """Print a number as it was given, without a needless ".0" or "e-05"."""
    is_whole = value == int(value) and abs(value) < 1e15
    return plain_power(str(int(value)) if is_whole else repr(value))


def plain_power(text: str) -> str:
    """Print 1e-5 instead of 1e-05."""
    return re.sub(r"e([+-]?)0+(?=\d)", r"e\1", text)


def time_cell(text: str) -> Cell:
    """Print a time in UTC."""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        return Cell(str(text))
    return Cell(moment.strftime("%Y-%m-%d %H:%M:%S UTC"), text)
