"""`tacit replicate`: what a paper says, and what came of it here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.show import errors, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.replication import Item, Workplace


def replicate(
    paper: str = "", item: str = "", *, out: Path = Path("replicated"), longest: float = 1.0
) -> None:
    """Run a paper's figures, tables and remarks again, or list what there is.

    Data is looked for in the folder that the variable TACIT_DATA names; what is missing is said.
    Without PAPER: what each paper holds, what came of it, how long it takes.
    Example: tacit replicate pate figure-4

    paper: pate, knn, masks or mac.
    item: One figure, table or remark; all if absent.
    out: The folder for tables and pictures.
    longest: Without ITEM: leave out what takes more minutes.
    """
    from tacit.replication import PAPERS, Workplace, data_folder, find_item, items_of

    if not paper:
        for name in PAPERS:
            _list(name)
        return
    place = Workplace(data_folder(), out, _show, _say)
    if item:
        _run(find_item(paper, item), place)
        return
    for each in items_of(paper):
        if each.run is None:
            screen().print(f"{each.title}: {each.verdict}. {each.says}", soft_wrap=True)
        elif each.minutes > longest:
            screen().print(f"{each.title}: takes {each.minutes:g} minutes; name it to run it.")
        else:
            _run(each, place, stop=False)


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


def _list(paper: str) -> None:
    from tacit.replication import PAPERS, data_folder, items_of, missing

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


def _run(item: Item, place: Workplace, *, stop: bool = True) -> None:
    """Run one item; where several are asked for, say what is missing and go on."""
    from tacit.replication import replicate as run

    try:
        seconds = run(item, place)
    except InvalidArgument as error:
        if stop:
            raise
        errors().print(f"{item.title}: {error}", soft_wrap=True, highlight=False)
        return
    screen().print(f"{item.title}: {item.verdict}. {item.says} ({seconds:.1f} s)", soft_wrap=True)
    for path in place.written:
        screen().print(f"wrote {path}", highlight=False)
    place.written.clear()
