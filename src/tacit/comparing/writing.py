"""The files of a comparison: results.csv, results.json, comparison.md and two figures."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._files import write_atomically
from tacit.comparing.summary import (
    NOT_PRIVATE,
    RULES,
    Comparison,
    Row,
    advice,
    recommended,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    *("method", "epsilon", "delta", "runs", "asked", "accuracy", "spread", "least", "most"),
    *("error", "cpu", "wall", "memory", "spent", "reasons"),
)


def write_all(result: Comparison, folder: Path) -> list[Path]:
    """Write every file in one step each; return their paths."""
    from tacit.report import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.csv": to_csv(result),
        "results.json": json.dumps(as_plain(result), indent=2, allow_nan=False) + "\n",
        "comparison.md": to_markdown(result),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode("utf-8"))
    paths = [folder / name for name in texts]
    if any(row.accuracy is not None and row.epsilon is not None for row in result.rows()):
        figure = accuracy_figure(result)
        paths += [save_figure(figure, folder / f"comparison.{kind}") for kind in ("png", "svg")]
    return paths


def accuracy_figure(result: Comparison) -> Figure:
    """Draw accuracy against epsilon, a line for each method, with the range of its repetitions."""
    from tacit.report import Points, comparison_figure

    curves = {}
    for name in result.methods:
        if rows := [row for row in result.of(name) if row.accuracy is not None]:
            parts = ("epsilon", "accuracy", "least", "most")
            lists = ([getattr(row, part) for row in rows] for part in parts)
            curves[result.about.title(name)] = Points(*lists)
    lines = {result.about.title(name): reference(result, name) for name in result.about.references}
    known = {name: value for name, value in lines.items() if value is not None}
    title = f"{result.about.data}: held-out accuracy at worst-case epsilon"
    return comparison_figure(curves, title=title, delta=result.about.delta, references=known)


def as_plain(result: Comparison) -> dict[str, Any]:
    """Return the whole comparison as plain data."""
    choices = {f"{level:g}": recommended(result, level) for level in result.epsilons}
    return {
        "format": "tacit-comparison-results/1",
        "private": False,
        "note": NOT_PRIVATE,
        "about": asdict(result.about),
        "rows": [asdict(row) for row in result.rows()],
        "recommended": {key: row.method if row else None for key, row in choices.items()},
        "advice": advice(result),
        "cells": [
            {"cell": asdict(cell), "outcome": asdict(outcome)} for cell, outcome in result.results
        ],
    }


def to_csv(result: Comparison) -> str:
    """Return one line for each method and epsilon."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in result.rows():
        plain = asdict(row) | {"delta": result.about.delta, "reasons": " | ".join(row.reasons)}
        writer.writerow({key: "" if plain[key] is None else plain[key] for key in COLUMNS})
    return buffer.getvalue()


def to_markdown(result: Comparison) -> str:
    """Return the page that says what to use when, and on what grounds."""
    about, seconds = result.about, sum(outcome.cpu or 0.0 for _, outcome in result.results)
    parts = [
        f"# Methods compared on {about.data}",
        f"**{NOT_PRIVATE}**",
        f"{about.split}. Every method gets the same rows and the same budget: worst-case epsilon "
        f"for adding or removing one record, at delta {about.delta:g}, with fresh secure noise.",
        "## Which to use",
        "\n".join(f"- {sentence}" for sentence in advice(result)),
        RULES,
        "![Accuracy against epsilon](comparison.png)",
        "## Accuracy",
        "Mean over the repetitions, then the smallest; in bold the best and all within one "
        "standard error of it.",
        accuracy_table(result),
        "## Time and memory",
        "CPU-seconds of fit and predict in a fresh process with one thread (what a method imports "
        "and its features included, loading the data not), mean at the smallest and the largest "
        "epsilon; memory is the process's highest peak, interpreter and data included.",
        cost_table(result),
        f"All {len(result.results)} cells took {seconds:,.0f} CPU-seconds.",
        "## Settings",
        "Chosen by these rules from public facts and the budget; in brackets the data on which "
        "the rule was found.",
        rules_table(result),
        *_troubles(result),
    ]
    return "\n\n".join(parts) + "\n"


def accuracy_table(result: Comparison) -> str:
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


def cost_table(result: Comparison) -> str:
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


def rules_table(result: Comparison) -> str:
    """Return the rule of each method that was run."""
    shown = [*result.methods, *result.about.references]
    lines = [[result.about.title(name), result.about.rules.get(name, "")] for name in shown]
    return _table(["method", "rule"], lines)


def _troubles(result: Comparison) -> list[str]:
    """List every refusal and failure: none is left out."""
    lines = [
        f"- {result.about.title(row.method)}"
        + ("" if row.epsilon is None else f" at epsilon {row.epsilon:g}")
        + f": {'; '.join(row.reasons)}"
        for row in result.rows()
        if row.reasons
    ]
    claimed = [r for r in result.rows() if r.epsilon is not None and r.accuracy is not None]
    unstated = sorted({result.about.title(row.method) for row in claimed if not row.stated})
    lines += [f"- {name} makes no statement: its epsilon is its own claim." for name in unstated]
    return ["## Refused, failed or unproved", "\n".join(lines)] if lines else []


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])
