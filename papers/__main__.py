"""`python -m papers`: what a paper says, and what came of it here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from papers.items import (
    PAPERS,
    Item,
    Workplace,
    data_folder,
    find_item,
    items_of,
    missing,
    replicate,
)
from tacit.cli import add_commands, errors, main, print_table, screen
from tacit.errors import InvalidArgument


def papers(
    paper: str = "", item: str = "", *, out: Path = Path("replicated"), longest: float = 1.0
) -> None:
    """Run a paper's figures, tables and remarks again, or list what there is.

    Data is looked for in the folder that the variable TACIT_DATA names; what is missing is said.
    Without PAPER: what each paper holds, what came of it, how long it takes.
    Example: python -m papers pate figure-4

    paper: pate, knn, masks or mac.
    item: One figure, table or remark; all if absent.
    out: The folder for tables and pictures.
    longest: Without ITEM: leave out what takes more minutes.
    """
    place = Workplace(data_folder(), out, _show, _say)
    if not paper:
        for name in PAPERS:
            _list(name)
    elif item:
        _run(find_item(paper, item), place)
    else:
        _run_all(paper, longest, place)


def _list(paper: str) -> None:
    rows = [
        [
            each.name,
            each.title,
            each.verdict,
            "-" if each.run is None else f"{each.minutes:g}",
            ", ".join(missing(each, data_folder())) or "-",
        ]
        for each in items_of(paper)
    ]
    columns = ["item", "what", "verdict", "minutes", "missing data"]
    print_table(f"{paper}: {PAPERS[paper]}", columns, rows)


def _run_all(paper: str, longest: float, place: Workplace) -> None:
    """Run a paper's items; where data is missing, say so and go on."""
    for item in items_of(paper):
        if item.run is None:
            screen().print(f"{item.title}: {item.verdict}. {item.says}", soft_wrap=True)
        elif item.minutes > longest:
            screen().print(f"{item.title}: takes {item.minutes:g} minutes; name it to run it.")
        else:
            try:
                _run(item, place)
            except InvalidArgument as error:
                _say(f"{item.title}: {error}")


def _run(item: Item, place: Workplace) -> None:
    seconds = replicate(item, place)
    screen().print(f"{item.title}: {item.verdict}. {item.says} ({seconds:.1f} s)", soft_wrap=True)
    for path in place.written:
        screen().print(f"wrote {path}", highlight=False)
    place.written.clear()


def _show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, or line by line what would be cut off: no figure is lost on a small screen."""
    words = [[columns[0]], *(heading.split() for heading in columns[1:])]  # the first is not broken
    needed = [
        max(map(len, [*heading, *cells])) for heading, *cells in zip(words, *rows, strict=True)
    ]
    if sum(needed) + 3 * len(needed) + 1 <= screen().width:
        print_table(title, columns, rows)
        return
    screen().print(title, style="bold")
    for row in rows:
        named = (f"{name}: {cell}" for name, cell in zip(columns, row, strict=True))
        screen().print("; ".join(named), soft_wrap=True, highlight=False)


def _say(line: str) -> None:
    errors().print(line, soft_wrap=True, highlight=False)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
add_commands(app, papers)

if __name__ == "__main__":
    main(app)
