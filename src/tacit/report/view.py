"""From a snapshot to what the template prints: text, ready to be escaped, and nothing secret."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.ledger import Entry
from tacit.ledger.entry import clock_went_back
from tacit.ledger.statement import _rounded_up as rounded_up
from tacit.report.explain import CURRENCY, explain
from tacit.report.snapshot import Snapshot

_HASH = re.compile(r"[0-9a-f]{64}")
_SHORT = 12
_MOST_TICKS = 60

_ACCOUNTANTS = {
    "gaussian": "gaussian: mu² of Gaussian noise adds exactly",
    "rdp": "rdp: Renyi divergence at one order adds",
    "fixed": "fixed: one list of plans, priced as a whole",
}
_NOISE = {
    "exact": "exact: rounded exactly to a public grid, from a cryptographic generator",
    "csprng": "csprng: double precision, from a cryptographic generator, for indices and bits only",
    "insecure-seeded": "insecure-seeded: not private",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A short text, and the whole of it for those who point at it."""

    text: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One release, as the table shows it."""

    number: int
    time: Cell
    late: str
    purpose: str
    mechanism: str
    parameters: tuple[tuple[str, Cell], ...]
    queries: str
    cost: Cell
    spent: Cell
    noise: str
    insecure: bool
    hash: Cell


def context(shot: Snapshot, path: str, title: str | None) -> dict[str, Any]:
    """Return everything that the template needs, but notes and figures."""
    statement, budget = shot.statement, shot.terms.budget
    return {
        "title": title or "Privacy report",
        "dataset": shot.terms.dataset,
        "statement": statement,
        "paragraph": str(statement),
        "sanitised": statement.kind == "sanitised",
        "epsilon": rounded_up(statement.epsilon),
        "worst": rounded_up(shot.worst.epsilon),
        "delta": _number(statement.delta),
        "unit": shot.terms.unit,
        "budget": _number(budget.epsilon),
        "left": _left(shot),
        "ticks": _ticks(shot),
        "rows": [_row(e, s) for e, s in zip(shot.entries, shot.spent, strict=True)],
        "as_of": _time(shot.entries[-1].time) if shot.entries else None,
        "released": sum(entry.is_paid for entry in shot.entries),
        "currency": CURRENCY[shot.terms.accountant],
        "parameters": _parameters(shot),
        "explanations": explain(shot),
        "warnings": shot.warnings,
        "insecure": _insecure(shot),
        "head": shot.head,
        "command": f"tacit ledger verify {shlex.quote(Path(path).name)} --head {shot.head}",
    }


def _left(shot: Snapshot) -> str:
    """Return the share of epsilon that is not spent, rounded down."""
    share = 1 - shot.worst.epsilon / shot.terms.budget.epsilon
    return f"{int(100 * max(0.0, share))}%"


def _ticks(shot: Snapshot) -> dict[str, Any]:
    """Return the bar in thousandths of its width: the end of each release, and what is spent."""
    scale = max(shot.terms.budget.epsilon, shot.worst.epsilon)
    ends = [round(1000 * epsilon / scale, 2) for epsilon in shot.spent]
    return {
        "spent": ends[-1] if ends else 0.0,
        "inner": ends[:-1] if len(ends) <= _MOST_TICKS else [],
    }


def _insecure(shot: Snapshot) -> str:
    """Name the entries whose noise protects nothing."""
    if not shot.insecure and shot.statement.noise != "insecure-seeded":
        return ""
    numbers = ", ".join(str(number) for number in shot.insecure[:20])
    more = " and others" if len(shot.insecure) > 20 else ""
    word = "entry" if len(shot.insecure) == 1 else "entries"
    return f"{word} {numbers}{more}"


def _row(entry: Entry, spent: float) -> Row:
    plan = entry.plan
    return Row(
        number=entry.sequence,
        time=_time(entry.time),
        late=clock_went_back(entry) if entry.behind else "",
        purpose=str(entry.purpose),
        mechanism=str(plan.get("mechanism", entry.kind)),
        parameters=tuple(_plan_parameters(entry)),
        queries=_queries(plan),
        cost=Cell(f"{entry.cost:.6g}", repr(entry.cost)),
        spent=Cell(rounded_up(spent), repr(spent)),
        noise=entry.noise,
        insecure=entry.noise == "insecure-seeded",
        hash=Cell(entry.hash[:_SHORT], entry.hash),
    )


def _queries(plan: Mapping[str, Any]) -> str:
    if not plan:
        return ""
    asked = _value(plan.get("queries")).text
    cap = plan.get("max_answers")
    return asked if cap is None else f"{asked}, at most {_value(cap).text} answered"


def _plan_parameters(entry: Entry) -> list[tuple[str, Cell]]:
    plan = entry.plan
    shown = [(name, _value(value)) for name, value in plan.get("parameters", {}).items()]
    public = ("n_teachers", "n_classes")
    shown += [(name, _value(plan[name])) for name in public if plan.get(name) is not None]
    if entry.confidence_delta:
        shown.append(("confidence delta", _value(entry.confidence_delta)))
    return [(name.replace("_", " "), cell) for name, cell in shown]


def _value(value: Any) -> Cell:
    """Print a parameter of a plan: numbers short, hashes shorter, mechanisms as name(…)."""
    if isinstance(value, float):
        return Cell(_number(value), repr(value))
    if isinstance(value, str) and _HASH.fullmatch(value):
        return Cell(value[:_SHORT], value)
    if isinstance(value, Mapping) and "mechanism" in value:
        inner = ", ".join(
            f"{name} = {_value(item).text}" for name, item in value.get("parameters", {}).items()
        )
        return Cell(f"{value['mechanism']}({inner})")
    if isinstance(value, Mapping):
        return Cell(", ".join(f"{name} = {_value(item).text}" for name, item in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Cell(", ".join(_value(item).text for item in value))
    return Cell(str(value))


def _number(value: float) -> str:
    """Print a parameter as it was given, without a needless ".0"."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _time(text: str) -> Cell:
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        return Cell(str(text))
    return Cell(moment.strftime("%Y-%m-%d %H:%M:%S UTC"), text)


def _parameters(shot: Snapshot) -> list[tuple[str, Cell]]:
    terms, statement = shot.terms, shot.statement
    used = sum(entry.confidence_delta for entry in shot.entries)
    order = [] if terms.order is None else [("Renyi order", Cell(_number(terms.order)))]
    return [
        ("Data set", Cell(terms.dataset or "not named")),
        ("Privacy unit", Cell(f"one {terms.unit}")),
        ("Neighbouring data sets", Cell(statement.adjacency)),
        ("Number of units", Cell(_units(shot))),
        ("Budget", Cell(f"epsilon {_number(terms.budget.epsilon)}, delta {terms.budget.delta!r}")),
        ("Accountant", Cell(_ACCOUNTANTS[terms.accountant])),
        *order,
        ("Delta for noise", Cell(f"{terms.delta:.6g}", repr(terms.delta))),
        ("Delta reserved", Cell(f"{_number(terms.reserved_delta)}, of which {_number(used)} used")),
        ("Priced by", Cell(_priced_by(shot))),
        ("Noise", Cell(_NOISE[statement.noise])),
        ("Entries", Cell(str(len(shot.entries)))),
        ("Ledger created", _time(shot.header["created"])),
        ("Ledger identifier", Cell(str(shot.header["id"]))),
        ("Hash of its terms", Cell(shot.genesis)),
        ("Library", Cell(f"tacit {statement.library}")),
    ]


def _priced_by(shot: Snapshot) -> str:
    """Name each accountant and its versions once; lines of older schemas do not tell."""
    told = [_with_versions(**entry.priced_by) for entry in shot.entries if entry.priced_by]
    return "; ".join(dict.fromkeys(told)) or "not recorded"


def _with_versions(accountant: str, **versions: str) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f"{accountant} ({libraries})"


def _units(shot: Snapshot) -> str:
    terms = shot.terms
    if terms.n_units is None:
        return "not recorded; check that delta is well below one over it"
    side = "at least" if terms.large_delta else "below"
    return f"{terms.n_units} (delta is {side} one over it)"
