"""Sections, figures and notes of a report, read back from its page for the one that replaces it.

When a finished run is evaluated its report is written anew. What drew the figures is gone by then;
the drawings themselves are in the page.
"""

from __future__ import annotations

import html
import re
from typing import Any

from tacit.report.content import Section

_SECTION = r"<section>\s*<h2>{}</h2>(.*?)</section>"
_FIGURE = re.compile(
    r'<figure>.*?aria-label="Figure">(<svg.*?</svg>)</div>\s*'
    r"<figcaption>(.*?)</figcaption>\s*</figure>",
    re.DOTALL,
)
_NOTE = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_PREFIX = re.compile(r'((?:id="|href="#|url\(#))(?:section\d+-)?figure\d+-')
_OWN = re.compile(r'<section class="statement">.*?</section>(.*)<section>\s*<h2>Budget<', re.DOTALL)
_ANY = re.compile(_SECTION.format("(.*?)"), re.DOTALL)
_ROW, _HEAD = re.compile(r"<tr>(<td.*?)</tr>", re.DOTALL), re.compile(r"<th\b[^>]*>(.*?)</th>")
_CELL = re.compile(r"<td\b[^>]*>(.*?)</td>", re.DOTALL)


def carried_over(page: str) -> dict[str, Any]:
    """Return `sections`, `figures` and `notes` for `write_report`, as a page of it holds them.

    Parameters
    ----------
    page : str
        Written by `write_report`. Figures are checked again when they are embedded.

    Returns
    -------
    dict
        `sections`; `figures`, pairs of a caption and an SVG text; and `notes`, plain texts.

    Examples
    --------
    >>> carried_over("<section><h2>Notes</h2><p>1 &lt; 2</p></section>")
    {'sections': [], 'figures': [], 'notes': ['1 < 2']}
    """
    own = _OWN.search(page)
    return {
        "sections": [] if own is None else [_section(*each) for each in _ANY.findall(own[1])],
        "figures": _figures(_part(page, "Figures")),
        "notes": _texts(_NOTE, _part(page, "Notes")),
    }


def _section(title: str, text: str) -> Section:
    return Section(
        title=html.unescape(title),
        paragraphs=_texts(_NOTE, text),
        columns=_texts(_HEAD, text),
        rows=[_texts(_CELL, row) for row in _ROW.findall(text)],
        figures=_figures(text),
    )


def _figures(text: str) -> list[tuple[str, str]]:
    found = _FIGURE.findall(text)
    return [(html.unescape(caption), _PREFIX.sub(r"\1", svg)) for svg, caption in found]


def _texts(what: re.Pattern[str], text: str) -> list[str]:
    return [html.unescape(each) for each in what.findall(text)]


def _part(page: str, heading: str) -> str:
    found = re.search(_SECTION.format(heading), page, re.DOTALL)
    return "" if found is None else found[1]
