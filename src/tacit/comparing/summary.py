"""Summary of a comparison's cells: means, spread, standard errors, and recommendations.

The standard error of a mean is the larger of that of the repetitions (standard deviation over the
root of their number) and that of scoring on so many different held-out rows, sqrt(p (1 - p) /
rows). Rules: at each epsilon every method within one standard error of the best mean counts as
equal; the best mean is recommended, and one that takes less than half its time is named, too; a
method that is not more than one standard error above the most frequent label learned nothing;
nothing is said about data, epsilons or settings that were not run.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._files import write_atomically
from tacit.comparing.cells import OK, Cell, Outcome, Result
from tacit.comparing.scores import sampling_error
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_PRIVATE = (
    "This comparison is not private: it reads the labels of all rows. It is for public benchmark "
    "data, or rows declared public; no figure in it may be published about private data."
)

RULES = (
    "At each epsilon, methods within one standard error of the best mean count as equal; the best "
    "mean is recommended, and an equal that takes less than half its CPU-seconds is named as "
    "quicker. The standard error is the larger of that of the repetitions and that of scoring on "
    "so many held-out rows (all methods are scored on the same rows, so this is cautious). A "
    "method that is not more than one standard error above the most frequent label is said to "
    "learn nothing."
)


@dataclass(frozen=True, slots=True)
class Description:
    """The data and methods of a comparison, in words."""

    data: str
    split: str
    delta: float
    kind: str
    held_out_rows: int
    rules: dict[str, str]
    titles: dict[str, str]
    references: tuple[str, ...] = ()
    score: str = "held-out accuracy"
    by: str = "accuracy"
    notes: tuple[str, ...] = ()

    @property
    def nothing(self) -> str:
        """The reference of a model that learned nothing."""
        return self.titles.get("majority", "most frequent label")

    def title(self, method: str) -> str:
        """Return a method's name for people."""
        return self.titles.get(method, method)


@dataclass(frozen=True, slots=True)
class Row:
    """A method at one epsilon over all seeds; without accuracy where no cell succeeded.

    Parameters
    ----------
    method : str
    epsilon : float or None, None for a non-private reference
    runs, asked : int, how many cells succeeded, of how many
    accuracy, spread, least, most : float, optional, mean, standard deviation and extremes
    error : float, optional, one standard error of the mean
    cpu, wall : float, optional, mean seconds of fit and predict
    memory : float, optional, the highest peak, in MiB
    spent : float, optional, the largest epsilon that a run stated
    reasons : tuple of str, why cells were refused or failed
    stated : bool, whether every run's own statement kept to the budget
    """

    method: str
    epsilon: float | None
    runs: int
    asked: int
    accuracy: float | None = None
    spread: float | None = None
    least: float | None = None
    most: float | None = None
    error: float | None = None
    cpu: float | None = None
    wall: float | None = None
    memory: float | None = None
    spent: float | None = None
    reasons: tuple[str, ...] = ()
    stated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """All finished cells of a task; `write(folder)` makes tables, page and figures of them.

    Parameters
    ----------
    about : Description
    results : tuple, each finished cell with its outcome
    """

    about: Description
    results: tuple[Result, ...]

    def rows(self) -> list[Row]:
        """Return a row for each method and epsilon, over all seeds: references last.

        Returns
        -------
        list of Row
        """
        groups: dict[tuple[str, float | None], list[Outcome]] = {}
        for cell, outcome in sorted(self.results, key=lambda item: self._order(item[0])):
            groups.setdefault((cell.method, cell.epsilon), []).append(outcome)
        return [self._row(*key, outcomes) for key, outcomes in groups.items()]

    def row(self, method: str, epsilon: float | None = None) -> Row:
        """Return one row; refuse what was not run.

        Parameters
        ----------
        method : str, a method or a reference
        epsilon : float, optional, None for a non-private reference

        Returns
        -------
        Row
        """
        for row in self.of(method):
            if row.epsilon == epsilon:
                return row
        raise InvalidArgument(f"Expected {method!r} at epsilon={epsilon!r} to have been run.")

    def of(self, method: str) -> list[Row]:
        """Return the rows of one method, the smallest epsilon first.

        Parameters
        ----------
        method : str

        Returns
        -------
        list of Row, empty where it was not run
        """
        return [row for row in self.rows() if row.method == method]

    @property
    def methods(self) -> list[str]:
        """The private methods that were run."""
        return list(dict.fromkeys(r.method for r in self.rows() if r.epsilon is not None))

    @property
    def epsilons(self) -> list[float]:
        """The budgets at which anything was run."""
        return sorted({r.epsilon for r in self.rows() if r.epsilon is not None})

    def at(self, epsilon: float) -> list[Row]:
        """Return the methods that succeeded at an epsilon, by mean accuracy, the best first.

        Parameters
        ----------
        epsilon : float

        Returns
        -------
        list of Row
        """
        rows = [r for r in self.rows() if r.epsilon == epsilon and r.accuracy is not None]
        return sorted(rows, key=lambda row: -(row.accuracy or 0.0))

    def tied(self, epsilon: float) -> list[Row]:
        """Return the best at an epsilon and those within one standard error of it.

        The error is the larger of the two: a method whose mean is uncertain may be as good.

        Parameters
        ----------
        epsilon : float

        Returns
        -------
        list of Row, the best first; empty where nothing succeeded
        """
        rows = self.at(epsilon)
        return [row for row in rows if not _behind(row, rows[0])]

    def _order(self, cell: Cell) -> tuple[bool, int, str, float, int]:
        listed = list(self.about.titles)
        place = listed.index(cell.method) if cell.method in listed else len(listed)
        return cell.epsilon is None, place, cell.method, cell.epsilon or 0.0, cell.seed

    def _row(self, method: str, epsilon: float | None, outcomes: list[Outcome]) -> Row:
        good = [outcome for outcome in outcomes if outcome.status == OK]
        reasons = tuple(dict.fromkeys(f"{o.status}: {o.reason}" for o in outcomes if o.reason))
        if not good:
            return Row(method, epsilon, 0, len(outcomes), reasons=reasons)
        scores = np.array([outcome.accuracy for outcome in good], dtype=np.float64)
        spent, cpu, wall = (_known(good, name) for name in ("spent", "cpu", "wall"))
        return Row(
            method,
            epsilon,
            len(good),
            len(outcomes),
            accuracy=float(scores.mean()),
            spread=float(scores.std(ddof=1)) if scores.size > 1 else None,
            least=float(scores.min()),
            most=float(scores.max()),
            error=standard_error(scores, self.about.held_out_rows, self.about.by),
            cpu=float(np.mean(cpu)) if cpu else None,
            wall=float(np.mean(wall)) if wall else None,
            memory=max(_known(good, "peak_mib"), default=None),
            spent=max(spent, default=None),
            reasons=reasons,
            stated=len(spent) == len(good),
        )

    def write(self, folder: str | Path) -> list[Path]:
        """Write results.csv, results.json, comparison.md, comparison.png and comparison.svg.

        Parameters
        ----------
        folder : path

        Returns
        -------
        list of path, without pictures where no private method succeeded
        """
        from tacit.report import save_figure

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "results.csv": _to_csv(self),
            "results.json": json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n",
            "comparison.md": _to_markdown(self),
        }
        for name, text in texts.items():
            write_atomically(folder / name, text.encode("utf-8"))
        paths = [folder / name for name in texts]
        if any(row.accuracy is not None and row.epsilon is not None for row in self.rows()):
            figure = _accuracy_figure(self)
            paths += [save_figure(figure, folder / f"comparison.{kind}") for kind in ("png", "svg")]
        return paths

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, as in results.json.

        Returns
        -------
        dict
        """
        choices = {f"{level:g}": recommended(self, level) for level in self.epsilons}
        return {
            "format": "tacit-comparison-results/1",
            "private": False,
            "note": NOT_PRIVATE,
            "about": asdict(self.about),
            "rows": [asdict(row) for row in self.rows()],
            "recommended": {key: row.method if row else None for key, row in choices.items()},
            "advice": advice(self),
            "cells": [
                {"cell": asdict(cell), "outcome": asdict(outcome)} for cell, outcome in self.results
            ],
        }


def standard_error(scores: np.ndarray[Any, Any], held_out_rows: int, by: str = "accuracy") -> float:
    """Return the larger of the repetitions' and the held-out rows' standard error of a mean.

    >>> round(standard_error(np.array([0.9, 0.9, 0.9]), 900), 6)
    0.01
    """
    of_rows = sampling_error(by, float(scores.mean()), held_out_rows)
    of_runs = float(scores.std(ddof=1)) / math.sqrt(scores.size) if scores.size > 1 else 0.0
    return max(of_rows, of_runs)


def _behind(row: Row, best: Row) -> bool:
    gap = (best.accuracy or 0.0) - (row.accuracy or 0.0)
    return gap > max(best.error or 0.0, row.error or 0.0)


def _known(outcomes: list[Outcome], name: str) -> list[float]:
    values = [getattr(outcome, name) for outcome in outcomes]
    return [value for value in values if value is not None]


def recommended(result: Comparison, epsilon: float) -> Row | None:
    """Return the best mean at an epsilon; None where nothing beat the most frequent label."""
    tied = (row for row in result.tied(epsilon) if not learned_nothing(result, row))
    return next(tied, None)


def quicker(result: Comparison, epsilon: float) -> Row | None:
    """Return the fastest method tied with the best, if it takes less than half its time."""
    best = recommended(result, epsilon)
    if best is None or best.cpu is None:
        return None
    quick = min(result.tied(epsilon), key=lambda row: math.inf if row.cpu is None else row.cpu)
    return quick if quick.cpu is not None and quick.cpu < best.cpu / 2 else None


def learned_nothing(result: Comparison, row: Row) -> bool:
    """Whether a method is no better than the most frequent label."""
    floor = reference(result, "majority")
    if floor is None or row.accuracy is None:
        return False
    return row.accuracy - floor <= (row.error or 0.0)


def reference(result: Comparison, name: str) -> float | None:
    """Return a reference's accuracy, if it was run."""
    return next((row.accuracy for row in result.of(name) if row.epsilon is None), None)


def advice(result: Comparison) -> list[str]:
    """Recommend methods by fixed rules.

    Parameters
    ----------
    result : Comparison

    Returns
    -------
    list of str, one sentence for each epsilon, then what holds over all of them, then the limits
    """
    over_all = (_wins, _gap, _useless, _troubled, _limits)
    sentences = [_at(result, epsilon) for epsilon in result.epsilons]
    sentences += [say(result) for say in over_all]
    return [sentence for sentence in sentences if sentence]


def _at(result: Comparison, epsilon: float) -> str:
    best = recommended(result, epsilon)
    if best is None:
        return f"At epsilon {epsilon:g} no method was better than the {result.about.nothing}."
    name = result.about.title

    def shown(row: Row) -> str:
        return f"{name(row.method)} {_percent(row.accuracy)}"

    others = [row for row in result.tied(epsilon) if row.method != best.method]
    text = f"At epsilon {epsilon:g}: {name(best.method)}, {_percent(best.accuracy)}"
    if others:
        text += f" (not told apart from it: {', '.join(map(shown, others))})"
    if (quick := quicker(result, epsilon)) is not None:
        text += f"; {name(quick.method)} takes {quick.cpu:.1f} CPU-s instead of {best.cpu:.1f}"
    for row in [row for row in result.at(epsilon) if row not in (best, *others)][:1]:
        text += f"; next is {name(row.method)}, {_percent(row.accuracy)}"
    return text + "."


def _wins(result: Comparison) -> str:
    """Describe how often each method was best or tied with the best."""
    counts = dict.fromkeys(result.methods, 0)
    for epsilon in result.epsilons:
        for row in result.tied(epsilon):
            counts[row.method] += not learned_nothing(result, row)
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    parts = [
        f"{result.about.title(name)} at {won} of {len(result.of(name))}"
        for name, won in ordered
        if won
    ]
    return f"Best, or not told apart from the best: {', '.join(parts)} epsilons." if parts else ""


def _gap(result: Comparison) -> str:
    ceiling = reference(result, "non-private")
    if ceiling is None:
        return ""
    best = [row for epsilon in result.epsilons for row in result.at(epsilon)[:1]]
    reached = [r.epsilon or 0.0 for r in best if ceiling - (r.accuracy or 0.0) <= (r.error or 0.0)]
    text = f"Without privacy the reference reaches {_percent(ceiling)}"
    if not reached:
        return f"{text}; no method came within one standard error of it."
    return f"{text}; the best method is within one standard error of it from {min(reached):g} on."


def _useless(result: Comparison) -> str:
    """Name, for each method, the epsilons at which it learned nothing."""
    found = []
    for name in result.methods:
        levels = [f"{row.epsilon:g}" for row in result.of(name) if learned_nothing(result, row)]
        if levels:
            found.append(f"{result.about.title(name)} (epsilon {', '.join(levels)})")
    return f"No better than the {result.about.nothing}: {'; '.join(found)}." if found else ""


def _troubled(result: Comparison) -> str:
    names = sorted({result.about.title(row.method) for row in result.rows() if row.reasons})
    if not names:
        return ""
    return f"Refused or failed at some epsilon, with the reason below: {', '.join(names)}."


def _limits(result: Comparison) -> str:
    runs = sorted({row.asked for row in result.rows() if row.epsilon is not None})
    times = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}" if runs else "no"
    once = "; one run alone does not show how much the noise moves it" if 1 in runs else ""
    return (
        f"This holds for {result.about.data}, these public inputs and these settings, measured "
        f"with {times} repetition{'' if runs == [1] else 's'} and {result.about.held_out_rows:,} "
        f"different held-out rows{once}; it says nothing about other data."
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


COLUMNS = (
    *("method", "epsilon", "delta", "runs", "asked", "accuracy", "spread", "least", "most"),
    *("error", "cpu", "wall", "memory", "spent", "reasons"),
)


def _accuracy_figure(result: Comparison) -> Figure:
    """Draw accuracy against epsilon, a line for each method, with the range of its repetitions."""
    from tacit.report import Points, comparison_figure

    curves = {}
    for name in result.methods:
        if rows := [row for row in result.of(name) if row.accuracy is not None]:
            parts = ("epsilon", "accuracy", "least", "most")
            lists = ([max(0.0, getattr(row, part)) for row in rows] for part in parts)
            curves[result.about.title(name)] = Points(*lists)
    lines = {result.about.title(name): reference(result, name) for name in result.about.references}
    # R^2 may be below 0, which is drawn as 0: how much worse than the mean helps nobody.
    known = {name: max(0.0, value) for name, value in lines.items() if value is not None}
    about = result.about
    title = f"{about.data}: {about.score} at worst-case epsilon"
    how: dict[str, Any] = {"delta": about.delta, "references": known, "score": about.score}
    return comparison_figure(curves, title=title, **how)


def _to_csv(result: Comparison) -> str:
    """Return one line for each method and epsilon."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in result.rows():
        plain = asdict(row) | {"delta": result.about.delta, "reasons": " | ".join(row.reasons)}
        writer.writerow({key: "" if plain[key] is None else plain[key] for key in COLUMNS})
    return buffer.getvalue()


def _to_markdown(result: Comparison) -> str:
    """Return the page of recommendations and their grounds."""
    about, seconds = result.about, sum(outcome.cpu or 0.0 for _, outcome in result.results)
    parts = [
        f"# Methods compared on {about.data}",
        f"**{NOT_PRIVATE}**",
        f"{about.split}. Every method gets the same rows and the same budget: worst-case epsilon "
        f"for adding or removing one record, at delta {about.delta:g}, with fresh secure noise.",
        "## Which to use",
        "\n".join(f"- {sentence}" for sentence in advice(result)),
        RULES,
        f"![{_heading(about)} against epsilon](comparison.png)",
        f"## {_heading(about)}",
        "Mean over the repetitions, then the smallest; in bold the best and all within one "
        "standard error of it.",
        _accuracy_table(result),
        "## Time and memory",
        "CPU-seconds of fit and predict in a fresh process with one thread (what a method imports "
        "and its features included, loading the data not), mean at the smallest and the largest "
        "epsilon; memory is the process's highest peak, interpreter and data included.",
        _cost_table(result),
        f"All {len(result.results)} cells took {seconds:,.0f} CPU-seconds.",
        "## Settings",
        "Chosen by these rules from public facts and the budget; in brackets the data on which "
        "the rule was found.",
        _rules_table(result),
        *_troubles(result),
    ]
    return "\n\n".join(parts) + "\n"


def _heading(about: Description) -> str:
    return "Accuracy" if about.by == "accuracy" else f"{about.score[0].upper()}{about.score[1:]}"


def _accuracy_table(result: Comparison) -> str:
    """Return methods by epsilons."""
    head = ["method", *(f"{level:g}" for level in result.epsilons)]
    tied = {(r.method, level) for level in result.epsilons for r in result.tied(level)}
    rows = {(row.method, row.epsilon): row for row in result.rows()}
    lines = [
        [
            result.about.title(name),
            *(_cell(rows.get((name, level)), (name, level) in tied) for level in result.epsilons),
        ]
        for name in result.methods
    ]
    for name in result.about.references:
        if (name, None) in rows:
            shown = _cell(rows[name, None], False)
            lines.append([f"*{result.about.title(name)}*", *[shown] * len(result.epsilons)])
    return _table(head, lines)


def _cell(row: Row | None, best: bool) -> str:
    """Show a mean and the smallest, or that the method did not run."""
    if row is None:
        return "not run"
    if row.accuracy is None or row.least is None:
        return row.reasons[0].partition(":")[0] if row.reasons else "failed"
    mean, bold = f"{100 * row.accuracy:.1f}", "**" if best else ""
    least = f" ({100 * row.least:.1f})" if row.asked > 1 else ""
    text = f"{bold}{mean}{bold}{least}"
    return text if row.runs == row.asked else f"{text}, {row.runs} of {row.asked} runs"


def _cost_table(result: Comparison) -> str:
    """Return seconds and memory of each method."""
    lines = []
    for name in [*result.methods, *result.about.references]:
        rows = [r for r in result.rows() if r.method == name and r.cpu is not None]
        if rows:
            cpu = [f"{row.cpu:.1f}" for row in (rows[0], rows[-1])]
            wall = max(row.wall or 0.0 for row in rows)
            memory = max(row.memory or 0.0 for row in rows)
            lines.append([result.about.title(name), *cpu, f"{wall:.1f}", f"{memory:,.0f}"])
    head = ["method", "CPU-s, smallest epsilon", "largest", "wall s, at most", "peak MiB"]
    return _table(head, lines)


def _rules_table(result: Comparison) -> str:
    """Return the rule of each method that was run."""
    shown = [*result.methods, *result.about.references]
    lines = [[result.about.title(name), result.about.rules.get(name, "")] for name in shown]
    return _table(["method", "rule"], lines)


def _troubles(result: Comparison) -> list[str]:
    """List every refusal and failure."""
    lines = [
        f"- {result.about.title(row.method)}"
        + ("" if row.epsilon is None else f" at epsilon {row.epsilon:g}")
        + f": {'; '.join(row.reasons)}"
        for row in result.rows()
        if row.reasons
    ]
    lines += [f"- {text}" for text in warnings_of(result)]
    claimed = [r for r in result.rows() if r.epsilon is not None and r.accuracy is not None]
    unstated = sorted({result.about.title(row.method) for row in claimed if not row.stated})
    lines += [f"- {name} makes no statement: its epsilon is its own claim." for name in unstated]
    return ["## Refused, failed, unproved or warned of", "\n".join(lines)] if lines else []


def warnings_of(result: Comparison) -> list[str]:
    """Return the warnings of the split and the cells, each once, with its source."""
    said: dict[str, dict[str, None]] = {}
    for cell, outcome in result.results:
        for text in outcome.warnings:
            said.setdefault(text, {})[result.about.title(cell.method)] = None
    return [*result.about.notes, *(f"{', '.join(who)}: {text}" for text, who in said.items())]


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])
