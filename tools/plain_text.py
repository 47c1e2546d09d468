"""Plain-text docstrings to Markdown, for the API pages.

Docstrings are in NumPy's style and written to be read in a terminal: formulas as text, examples as
doctests. Markdown would read the signs of a formula as emphasis and `>>>` as quotations, so this
turns formulas and examples into code blocks and escapes the rest; headings, names and types stay.
"""

from __future__ import annotations

import re

HEADING = re.compile(r"^(\w[\w ]*)\n(-{3,})\n", re.MULTILINE)
NAMING = ("Parameters", "Returns", "Yields", "Attributes", "Raises")
CODE = re.compile(r"(`+)(.+?)\1")
SIGNS = re.compile(r"([*_\[\]#\\])")
LIST = re.compile(r"^(\s*)([-*]|\d+\.) (.*)$")


def as_markdown(text: str) -> str:
    r"""Return Markdown that shows what a terminal shows, under the same headings.

    >>> print(as_markdown("Return a * b.\n\nReturns\n-------\nn_all : int\n    a * b."))
    Return a \* b.
    <BLANKLINE>

    Returns
    -------
    n_all : int
        a \* b.
    """
    before, *sections = HEADING.split(text.strip("\n"))
    parts = [_prose(before)]
    for name, rule, body in zip(sections[::3], sections[1::3], sections[2::3], strict=True):
        shown = body.strip("\n")
        if name in NAMING:
            shown = "\n".join(_escaped(x) if x.startswith(" ") else x for x in shown.splitlines())
        elif name != "Examples":  # whose doctests the reader of sections knows
            shown = _prose(shown)
        parts.append(f"{name}\n{rule}\n{shown}")
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    return "\n\n".join(_block(block) for block in re.split(r"\n\s*\n", text.strip("\n")))


def _block(block: str) -> str:
    lines = block.splitlines()
    if lines and lines[0].lstrip().startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if lines and all(line.startswith("    ") for line in lines):
        return "\n".join(["```text", *(line[4:] for line in lines), "```"])
    return "\n".join(_line(line) for line in lines)


def _line(line: str) -> str:
    if found := LIST.match(line):
        return f"{found[1]}{found[2]} {_escaped(found[3])}"
    return _escaped(line)


def _escaped(line: str) -> str:
    """Escape what Markdown would interpret, outside of code."""
    parts: list[str] = []
    start = 0
    for code in CODE.finditer(line):
        parts += [_plain(line[start : code.start()]), code[0]]
        start = code.end()
    return "".join([*parts, _plain(line[start:])])


def _plain(text: str) -> str:
    return SIGNS.sub(r"\\\1", text).replace("<", "&lt;").replace(">", "&gt;")
