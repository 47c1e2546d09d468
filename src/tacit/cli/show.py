"""How the command shows things: consoles, JSON for machines, numbers for people."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tacit.ledger import Ledger, Statement

WIDE = 100
"""Columns from which a table also shows what is needed less often."""


def screen() -> Console:
    """Return the console for results."""
    from rich.console import Console

    return Console()


def errors() -> Console:
    """Return the console for errors."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show that something takes its time, on standard error, also while private work is silent."""
    from rich.console import Console

    from tacit._quiet import terminal

    with terminal() as stream, Console(file=stream).status(text):
        yield


def print_json(result: dict[str, Any]) -> None:
    """Print one JSON object, nothing else, for machines."""
    print(json.dumps(result, indent=2, allow_nan=False, default=str))


def csv_text(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """Return the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode("utf-8")


def table(title: str, *columns: str) -> Table:
    """Return a table whose columns after the first are numbers."""
    from rich.table import Table

    result = Table(title=title, title_justify="left", header_style="bold")
    for place, column in enumerate(columns):
        result.add_column(column, justify="left" if place == 0 else "right", no_wrap=place == 0)
    return result


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, filled."""
    shown = table(title, *columns)
    for row in rows:
        shown.add_row(*row)
    screen().print(shown)


def print_statement(statement: Statement) -> None:
    """Print the paragraph to sign, in a box; a secret one in red."""
    from rich.markup import escape
    from rich.panel import Panel

    title = "Sanitised statement" if statement.kind == "sanitised" else "Statement"
    style = "bold red" if statement.kind == "secret" else "none"
    screen().print(Panel(escape(str(statement)), title=title, border_style=style, style=style))


def print_budget(ledger: Ledger) -> None:
    """Print how much of the budget is spent, as a bar."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    spent, whole = ledger.spent(), ledger.budget.epsilon
    row = Table.grid(padding=(0, 1))
    row.add_row(
        "Budget",
        ProgressBar(total=whole, completed=min(spent, whole), width=24),
        f"epsilon {spent:.4g} of {whole:g} spent at delta {ledger.budget.delta:g}",
    )
    screen().print(row)
