"""The HTML report: one self-contained file for the person who signs, and for those who check.

Inline SVG and CSS, no script, nothing loaded; the same ledger gives the same report, byte by byte.
Here are the numbers and the refusals; the words are in templates/report.html, which escapes
whatever it is given.
"""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit._checks import refuse
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument, SecretDisclosure
from tacit.ledger import (
    Entry,
    Ledger,
    Snapshot,
    Statement,
    clock_went_back,
    epsilon_text,
    meaning,
    one_in,
)
from tacit.report.content import Learned, Section
from tacit.report.figures import figure_svg
from tacit.report.svg import inline_svg

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

CURRENCY = {"gaussian": "mu²", "rdp": "RDP", "fixed": "epsilon"}
"""In what each accountant counts."""
_SAME = ("delta", "unit", "dataset", "adjacency", "entries", "head", "budget", "noise")
NO_HEAD = "0" * 64
"""Stands for a run's head until its seal, which lists the hash of the page, is written."""
_TOLERANCE = 1e-9
"""Two versions of a numerical library may differ in the last digits of epsilon."""
_ONE_MORE = re.compile(r", (?:and )?that ")
"""Where a sentence of a statement begins to presume something else."""
_MOST_TICKS, _MOST_NAMED, _MOST_ADDED = 60, 20, 6
_HASH = re.compile(r"[0-9a-f]{64}")
_SHORT = 12


def render_report(
    ledger: Ledger,
    *,
    statement: Statement | None = None,
    title: str | None = None,
    learned: Learned | None = None,
    sections: Sequence[Section] = (),
    figures: Sequence[tuple[str, Figure | str]] = (),
    notes: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> str:
    """Return the report on a ledger as one HTML page.

    Parameters
    ----------
    ledger : Ledger
        Verified first: a damaged one raises `LedgerDamaged`.
    statement : Statement, optional
        The statement to sign; by default `ledger.statement()`, the worst case. A sanitised one is
        shown with the worst case beside it; a secret one raises `SecretDisclosure`, and one that is
        not about the ledger as it is now raises `InvalidArgument`.
    title : str, optional, "Privacy report" by default
    learned : Learned, optional
        The model and its measures, for the top of the page, which says so if it is missing.
    sections : sequence of Section
        The caller's own, such as a paid evaluation, after the statement.
    figures : sequence of pairs
        A caption, and a matplotlib Figure or an SVG text; secret ones are refused.
    notes : sequence of str, public paragraphs of plain text
    files : mapping of str to str, optional
        Of a run that is about to be sealed: the SHA-256 of its other files. The statement is then
        the one of the seal to come, with `NO_HEAD` for its head.

    Returns
    -------
    str, a page without scripts, which loads nothing

    Examples
    --------
    >>> import tempfile
    >>> from tacit import Budget, Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = render_report(Ledger(f"{folder}/run.ledger", budget=Budget(2, 1e-5)))
    >>> page[:15], "<script" in page
    ('<!DOCTYPE html>', False)
    """
    return _template().render(
        **shown(ledger, statement, sealed=files is not None),
        files=files or {},
        title="Privacy report" if title is None else _text("title", title),
        learned=_of_kind(Learned, learned=learned),
        sections=_parts(sections),
        figures=_drawn(figures),
        notes=[_text("notes", note) for note in notes],
    )


def write_report(
    path: PathLike,
    ledger: Ledger,
    *,
    statement: Statement | None = None,
    title: str | None = None,
    learned: Learned | None = None,
    sections: Sequence[Section] = (),
    figures: Sequence[tuple[str, Figure | str]] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write `render_report(…)` to a file, atomically; return its path.

    Parameters
    ----------
    path : path, replaced if it exists
    ledger, statement, title, learned, sections, figures, notes
        As in `render_report`.

    Returns
    -------
    Path
    """
    page = render_report(
        ledger,
        statement=statement,
        title=title,
        learned=learned,
        sections=sections,
        figures=figures,
        notes=notes,
    )
    write_atomically(path, page.encode("utf-8"))
    return Path(path)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refuse(name, value, "text")
    return value


def _of_kind(kind: type[Any], **named: Any) -> Any:
    ((name, value),) = named.items()
    if value is not None and not isinstance(value, kind):
        raise refuse(name, value, f"a tacit.report.{kind.__name__}")
    return value


def _parts(sections: Sequence[Section]) -> list[tuple[Section, list[tuple[str, str]]]]:
    """Return sections, each with its embedded figures."""
    return [
        (_of_kind(Section, sections=part), _drawn(part.figures, prefix=f"section{place}-"))
        for place, part in enumerate(sections, start=1)
    ]


def _drawn(
    figures: Sequence[tuple[str, Figure | str]], *, prefix: str = ""
) -> list[tuple[str, str]]:
    """Return captions and inline SVG; a secret figure raises `SecretDisclosure`."""
    drawn = []
    for place, pair in enumerate(figures, start=1):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgument("Expected figures to be pairs (caption, Figure or SVG text).")
        caption, picture = pair
        text = picture if isinstance(picture, str) else figure_svg(picture)
        drawn.append(
            (_text("caption", caption), inline_svg(text, prefix=f"{prefix}figure{place}-"))
        )
    return drawn


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tacit.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def shown(
    ledger: Ledger, statement: Statement | None = None, *, sealed: bool = False
) -> dict[str, Any]:
    """Verify a ledger, read it once, and return the page's public values.

    Refuses a statement that is secret, or not about this ledger.
    """
    if not isinstance(ledger, Ledger):
        raise refuse("ledger", ledger, "a tacit.Ledger")
    if statement is not None:
        _refuse_secret(statement)
    shot = ledger.snapshot()
    worst, terms = shot.statement, shot.terms
    if statement is not None:
        _check_agrees(statement, shot, sealed=sealed)
    signed = statement or worst
    left = 1 - worst.epsilon / terms.budget.epsilon
    name = shlex.quote(Path(ledger.path).name)
    return {
        "statement": signed,
        "shot": shot,
        "terms": terms,
        "sanitised": signed.kind == "sanitised",
        "epsilon": epsilon_text(signed.epsilon),
        "worst": epsilon_text(worst.epsilon),
        "summary": _summary(shot),
        "left": f"{int(100 * max(0.0, left))}%",
        "ticks": _ticks(shot),
        "rows": [
            release_row(e, s)
            for e, s in zip(shot.entries, shot.spent, strict=True)
            if e.kind != "began"
        ],
        "as_of": time_cell(shot.entries[-1].time) if shot.entries else None,
        "created": time_cell(shot.header["created"]),
        "currency": CURRENCY[terms.accountant],
        "priced_by": _priced_by(shot),
        "computed": _computed(shot),
        "warnings": _warnings(signed, worst),
        "insecure": _insecure(shot),
        "command": f"tacit {'verify RUN' if sealed else f'ledger verify {name}'} "
        f"--head {signed.head}",
        "number": number,
        "meaning": meaning(signed.epsilon, signed.delta, signed.unit),
        "presumes": presumed(signed, shot),
        "one_in": one_in(signed.delta),
    }


def _refuse_secret(statement: Statement) -> None:
    if not isinstance(statement, Statement):
        raise refuse("statement", statement, "a tacit.Statement, or omitted")
    if statement.kind not in ("worst-case", "sanitised"):
        raise SecretDisclosure(
            "A secret statement depends on the data and is not written to a report; use the "
            "worst-case or the sanitised one."
        )


def _check_agrees(statement: Statement, shot: Snapshot, *, sealed: bool) -> None:
    """Refuse a statement that claims more privacy than the ledger, or is of another moment.

    Free notes, such as of a publication, may follow its head; a run's head is the next entry.
    """
    worst = shot.statement
    if sealed:
        worst = dataclasses.replace(worst, head=NO_HEAD, entries=worst.entries + 1)
    other = [name for name in _SAME if getattr(statement, name) != getattr(worst, name)]
    hashes = [entry.hash for entry in shot.entries]
    if statement.head in hashes:
        later = shot.entries[hashes.index(statement.head) + 1 :]
        if statement.entries + len(later) == worst.entries and not any(e.is_paid for e in later):
            other = [name for name in other if name not in ("entries", "head")]
    if other:
        raise InvalidArgument(
            f"Expected statement to be about this ledger as it is now; it differs in "
            f"{', '.join(other)}. Make a new one."
        )
    sanitised = statement.kind == "sanitised"
    claimed = statement.worst_case_epsilon if sanitised else statement.epsilon
    if claimed is None or claimed < worst.epsilon * (1 - _TOLERANCE):
        raise InvalidArgument(
            "Expected statement to claim at least the worst-case epsilon that the ledger proves."
        )


def _summary(shot: Snapshot) -> str:
    """Summarise in a line what was released: how many queries of which mechanism."""
    asked: dict[str, int] = {}
    for entry in shot.entries:
        if entry.is_paid:
            name = str(entry.plan.get("mechanism", entry.kind))
            asked[name] = asked.get(name, 0) + int(entry.plan.get("queries", 1))
    said = (f"{name} ({n:,} quer{'y' if n == 1 else 'ies'})" for name, n in asked.items())
    return ", ".join(said)


def presumed(statement: Statement, shot: Snapshot) -> list[str]:
    """Return each assumption of a statement as a sentence, for boxes to tick.

    Mechanisms join theirs by "and that"; the rest is what no ledger can check itself.
    """
    said = [part for each in statement.assumes for part in _ONE_MORE.split(each)]
    unit = statement.unit
    said += [
        f"one {unit} is whom you mean to protect: nobody is in the data as several of them",
        "nothing else was released from the same data, here or elsewhere, that this ledger does "
        "not hold",
        "the machine, the ledger's file and its keepers were honest while this was computed",
    ]
    if shot.terms.n_units is None:
        said.append("delta is well below one over the number of units, which is not recorded")
    return [f"{each[0].upper()}{each[1:]}." for each in dict.fromkeys(said)]


def _warnings(statement: Statement, worst: Statement) -> tuple[str, ...]:
    """Return the statements' warnings, each once, and whether sanitising was worth it."""
    said = [*worst.warnings, *statement.warnings]
    if statement.kind == "sanitised" and statement.epsilon >= worst.epsilon:
        said.append("the sanitised epsilon is no smaller than the worst case, which holds too")
    return tuple(dict.fromkeys(said))


def _ticks(shot: Snapshot) -> dict[str, Any]:
    """Return the bar in thousandths of its width: the end of each release, and what is spent."""
    scale = max(shot.terms.budget.epsilon, shot.statement.epsilon)
    ends = [round(1000 * epsilon / scale, 2) for epsilon in shot.spent]
    inner = ends[:-1] if len(ends) <= _MOST_TICKS else []
    return {"spent": ends[-1] if ends else 0.0, "inner": inner}


def _insecure(shot: Snapshot) -> str:
    """Name the entries with insecure noise."""
    seeded = [str(e.sequence) for e in shot.entries if e.noise == "insecure-seeded"]
    if not seeded:
        return ""
    more = " and others" if len(seeded) > _MOST_NAMED else ""
    word = "entry" if len(seeded) == 1 else "entries"
    return f"{word} {', '.join(seeded[:_MOST_NAMED])}{more}"


def _computed(shot: Snapshot) -> dict[str, Any]:
    """Return the numbers of the formulas that can be checked by hand."""
    terms, total = shot.terms, shot.total
    costs = [f"{entry.cost:.6g}" for entry in shot.entries]
    if len(costs) > _MOST_ADDED:
        costs = [*costs[:2], "…", costs[-1]]
    price = shot.statement.epsilon if terms.price is None else terms.price.epsilon
    return {
        "sum": " + ".join(costs) + " = " if len(costs) > 1 else "",
        "total": f"{total:.6g}",
        "mu": f"{math.sqrt(total):.6g}",
        "delta": plain_power(f"{terms.delta:.6g}"),
        "price": epsilon_text(price),
        "bound": shot.statement.accountant,
        "sampled": any(
            entry.plan.get("parameters", {}).get("sampling_rate", 1.0) < 1 for entry in shot.entries
        ),
    }


def _priced_by(shot: Snapshot) -> str:
    """Name each accountant and its versions once; older schemas have none."""
    told = {}
    for versions in (dict(entry.priced_by) for entry in shot.entries if entry.priced_by):
        accountant = versions.pop("accountant")
        names = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        told[f"{accountant} ({names})"] = True
    return "; ".join(told) or "not recorded"


class Cell(NamedTuple):
    """A short text, and the whole of it as a tooltip."""

    text: str
    whole: str = ""


def release_row(entry: Entry, spent: float) -> dict[str, Any]:
    """Return the table row of one release."""
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
    """Format the name of a parameter for people.

    >>> _words("n_teachers"), _words("sigma_check")
    ('teachers', 'sigma check')
    """
    return name.removeprefix("n_").replace("_", " ")


def value_cell(value: Any) -> Cell:
    """Format a parameter of a plan: three digits, hashes shorter, mechanisms as name(…)."""
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
    """Format a number as it was given, without a needless ".0" or "e-05"."""
    is_whole = value == int(value) and abs(value) < 1e15
    return plain_power(str(int(value)) if is_whole else repr(value))


def plain_power(text: str) -> str:
    """Format 1e-5 instead of 1e-05."""
    return re.sub(r"e([+-]?)0+(?=\d)", r"e\1", text)


def time_cell(text: str) -> Cell:
    """Format a time in UTC."""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        return Cell(str(text))
    return Cell(moment.strftime("%Y-%m-%d %H:%M:%S UTC"), text)
