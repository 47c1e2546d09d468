"""How the command shows things: consoles, JSON for machines, numbers for people."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from tacit._progress import moved

if TYPE_CHECKING:
    from tacit.ledger import Ledger, Statement

WIDE = 100
"""Columns from which a table also shows what is needed less often."""


def screen() -> Console:
    """Return the console for results."""
    moved()
    return Console()


def errors() -> Console:
    """Return the console for errors."""
    moved()
    return Console(stderr=True)


def hear(name: str) -> None:
    """Let people read what a service reports, with the time, on the console for errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def print_json(result: dict[str, Any]) -> None:
    """Print one JSON object, nothing else, for machines."""
    moved()
    print(json.dumps(result, indent=2, allow_nan=False, default=str))


@dataclass(frozen=True, slots=True)
class Result:
    """What a command did: data for machines; for people a sentence, or what prints more.

    Data that take long are made when they are asked for. `ending` is raised when it was printed,
    where the exit code is to say more.
    """

    plain: dict[str, Any] | Callable[[], dict[str, Any]]
    shown: str | Callable[[], None]
    ending: Exception | None = None

    def print(self, *, as_json: bool) -> None:
        """Print it, for machines or for people."""
        if as_json:
            print_json(self.plain if isinstance(self.plain, dict) else self.plain())
        elif isinstance(self.shown, str):
            screen().print(self.shown)
        else:
            self.shown()
        if self.ending is not None:
            raise self.ending


def csv_text(rows: Iterable[Iterable[Any]]) -> bytes:
    """Return lines of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    folded: bool = False,
    style: str = "none",
) -> None:
    """Print a table: words on the left, numbers after them; `folded` words take more lines."""
    shown = Table(title=title, title_justify="left", header_style="bold", style=style)
    for place, column in enumerate(columns):
        shown.add_column(
            column,
            justify="right" if place else "left",
            no_wrap=bool(place) == folded,
            overflow="fold" if folded else "ellipsis",
        )
    for row in rows:
        shown.add_row(*row)
    screen().print(shown)


def print_head(head: str | None) -> None:
    """Print a run's head, and what it is for."""
    screen().print(f"The run's head is {head}", soft_wrap=True, highlight=False)
    screen().print("Keep it where nobody who may write to the ledger can reach it.")


def print_advisory(text: str) -> None:
    """Print what an older ledger's reader must know, if there is anything."""
    if text:
        screen().print(f"[bold yellow]Advisory[/]: {escape(text)}", soft_wrap=True, highlight=False)


def print_statement(ledger: Ledger, statement: Statement) -> None:
    """Print how much of the budget is spent, as a bar, and the paragraph to sign, in a box."""
    spent, budget = ledger.spent(), ledger.budget
    row = Table.grid(padding=(0, 1))
    row.add_row(
        "Budget",
        ProgressBar(total=budget.epsilon, completed=min(spent, budget.epsilon), width=24),
        f"epsilon {spent:.4g} of {budget.epsilon:g} spent at delta {budget.delta:g}",
    )
    title = "Sanitised statement" if statement.kind == "sanitised" else "Statement"
    screen().print(row, Panel(escape(str(statement)), title=title))
