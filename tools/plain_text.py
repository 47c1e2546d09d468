"""Plain-text docstrings to Markdown, for the API pages.

Docstrings here are written to be read in a terminal: formulas as text, arguments as `name: what it
is` with hanging lines, examples as doctests. Markdown would read the signs of a formula as emphasis
and `>>>` as quotations, so this turns examples into code blocks, arguments into a list, and
escapes the rest.
"""

from __future__ import annotations

import re

ARGUMENT = re.compile(r"^([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*): (.*)$")
CODE = re.compile(r"(`+)(.+?)\1")
SIGNS = re.compile(r"([*_\[\]#\\])")
LIST = re.compile(r"^(\s*)([-*]|\d+\.) (.*)$")


def as_markdown(text: str) -> str:
    r"""Return Markdown that shows what a terminal shows.

    >>> print(as_markdown("Return a * b * c.\n\nsigma: of the noise,\n    always.\n\n>>> 1 + 1\n2"))
    Return a \* b \* c.
    <BLANKLINE>
    - `sigma`: of the noise, always.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    lines = block.splitlines()
    if lines[0].lstrip().startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if all(line.startswith("    ") for line in lines):
        return "\n".join(["```text", *(line[4:] for line in lines), "```"])
    if all(ARGUMENT.match(line) or line.startswith(" ") for line in lines):
        return "\n".join(_arguments(lines))
    return "\n".join(_line(line) for line in lines)


def _arguments(lines: list[str]) -> list[str]:
    """Join hanging lines to their argument: one list item each."""
    items: list[str] = []
    for line in lines:
        if found := ARGUMENT.match(line):
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            items.append(f"- {names}: {_escaped(found[2])}")
        else:
            items[-1] += " " + _escaped(line.strip())
    return items


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
