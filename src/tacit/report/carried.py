"""Figures and notes of a report, read back from its page, for a report that takes its place.

When a finished run is evaluated its report is written anew. What drew the figures is gone by then;
the drawings themselves are in the page.
"""

from __future__ import annotations

import html
import re
from typing import Any

_SECTION = r"<section>\s*<h2>{}</h2>(.*?)</section>"
_FIGURE = re.compile(
    r'<figure>.*?aria-label="Figure">(<svg.*?</svg>)</div>\s*'
    r"<figcaption>(.*?)</figcaption>\s*</figure>",
    re.DOTALL,
)
_NOTE = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_PREFIX = re.compile(r'((?:id="|href="#|url\(#))figure\d+-')


def carried_over(page: str) -> dict[str, Any]:
    """Return `figures` and `notes` for `write_report`, as a page of it holds them.

    Parameters
    ----------
    page : str
        Written by `write_report`. Figures are checked again when they are embedded.

    Returns
    -------
    dict
        `figures`, pairs of a caption and an SVG text, and `notes`, plain texts.

    Examples
    --------
    >>> carried_over("<section><h2>Notes</h2><p>1 &lt; 2</p></section>")
    {'figures': [], 'notes': ['1 < 2']}
    """
    figures = [
        (html.unescape(caption), _PREFIX.sub(r"\1", svg))
        for svg, caption in _FIGURE.findall(_part(page, "Figures"))
    ]
    notes = [html.unescape(text) for text in _NOTE.findall(_part(page, "Notes"))]
    return {"figures": figures, "notes": notes}


def _part(page: str, heading: str) -> str:
    found = re.search(_SECTION.format(heading), page, re.DOTALL)
    return "" if found is None else found[1]
