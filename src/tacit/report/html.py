"""The HTML report: one self-contained file for the person who signs, and for those who check.

Inline SVG and CSS, no script, nothing loaded from anywhere; readable on a phone and in print. It
shows what the ledger and the statement hold, and the notes and figures that the caller adds. The
same ledger gives the same report, byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._checks import refuse
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument
from tacit.ledger import Ledger, Statement
from tacit.report.figures import figure_svg
from tacit.report.snapshot import take_snapshot
from tacit.report.svg import inline_svg
from tacit.report.view import context

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure


def render_report(
    ledger: Ledger,
    *,
    statement: Statement | None = None,
    title: str | None = None,
    figures: Sequence[tuple[str, Figure | str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return the report on a ledger as one HTML page.

    statement: what to sign; by default `ledger.statement()`, the worst case. A sanitised one is
        shown with the worst case beside it; a secret one raises `SecretDisclosure`, and one that
        is not about the ledger as it is now raises `InvalidArgument`.
    figures: pairs of a caption and a matplotlib Figure or an SVG text; secret ones are refused.
    notes: paragraphs of plain text.

    The ledger is verified first: a damaged one raises `LedgerDamaged`. Unit: the ledger's.

    >>> import tempfile
    >>> from tacit import Budget, Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = render_report(Ledger(f"{folder}/run.ledger", budget=Budget(2, 1e-5)))
    >>> page[:15], "<script" in page
    ('<!DOCTYPE html>', False)
    """
    shot = take_snapshot(ledger, statement)
    return _template().render(
        **context(shot, ledger.path, _text("title", title) if title is not None else None),
        figures=_drawn(figures),
        notes=[_text("notes", note) for note in notes],
    )


def write_report(
    path: PathLike,
    ledger: Ledger,
    *,
    statement: Statement | None = None,
    title: str | None = None,
    figures: Sequence[tuple[str, Figure | str]] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write `render_report(…)` to a file, in one step; return its path."""
    page = render_report(ledger, statement=statement, title=title, figures=figures, notes=notes)
    write_atomically(path, page.encode("utf-8"))
    return Path(path)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refuse(name, value, "text")
    return value


def _drawn(figures: Sequence[tuple[str, Figure | str]]) -> list[tuple[str, str]]:
    """Return captions and inline SVG; a secret figure raises `SecretDisclosure`."""
    drawn = []
    for place, pair in enumerate(figures, start=1):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgument("Expected figures to be pairs (caption, Figure or SVG text).")
        caption, picture = pair
        text = picture if isinstance(picture, str) else figure_svg(picture)
        drawn.append((_text("caption", caption), inline_svg(text, prefix=f"figure{place}-")))
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
