"""Draw the floors of the house: the layers that import-linter enforces and who really uses whom.

    python -m tools.floors          # writes docs/images/floors.svg

The floors are read from pyproject.toml, the imports from the source, the words in a box from its
package's docstring. A test compares the committed picture with what this would draw.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tacit"
PICTURE = ROOT / "docs" / "images" / "floors.svg"

WIDTH, MARGIN = 1080, 12
TOP, ROW, LINE = 104, 38, 14
WORDS, MATRIX, COLUMN = 165, 500, 27
TINTS = ("#e0f2f1", "#f4faf9")
DARK, LIGHT = "#004d40", "#26a69a"

Floors = list[list[str]]
Uses = dict[str, set[str]]


def floors() -> Floors:
    """Return the packages of each floor, the highest first, as import-linter reads them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def number_of(package: str) -> int:
    """Return a package's floor: 0 is the lowest."""
    levels = floors()
    return next(len(levels) - 1 - at for at, level in enumerate(levels) if package in level)


def uses(packages: set[str]) -> Uses:
    """Return which packages each package imports, wherever in its code it does so."""
    found: Uses = {package: set() for package in packages}
    for package in packages:
        for file in sorted((PACKAGE / package).rglob("*.py")):
            found[package] |= _imported(file) & packages - {package}
    return found


def _imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in _running(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("tacit.")}


def _running(node: ast.AST) -> list[ast.AST]:
    """Return the nodes that run: what only a type checker reads is left out, as the linter does."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return []
    inner = [part for child in ast.iter_child_nodes(node) for part in _running(child)]
    return [node, *inner]


def job(package: str) -> str:
    """Return the first sentence of a package's docstring."""
    source = (PACKAGE / package / "__init__.py").read_text(encoding="utf-8")
    words = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split()
    return " ".join(words).replace("`", "").rstrip(".")


def draw() -> str:
    """Return the picture as SVG: a row and a column for each package, a dot where it is used."""
    levels = floors()
    packages = [package for level in levels for package in level]
    used = uses(set(packages))
    height = TOP + len(packages) * ROW + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif">',
        "<title>The floors of tacit: each package, its job, and the packages it uses</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *_bands(levels),
        *(_heading(column, package) for column, package in enumerate(packages)),
    ]
    for row, package in enumerate(packages):
        parts += _words(row, package)
        parts += _uses_of(row, [name in used[package] for name in packages])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bands(levels: Floors) -> list[str]:
    """Tint the floors in turn, so that the packages of one floor are seen to stand on it."""
    bands: list[str] = []
    top = TOP
    for number, level in enumerate(levels):
        height = len(level) * ROW
        bands.append(
            f'<rect x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height}" '
            f'fill="{TINTS[number % 2]}"/>'
        )
        top += height
    return bands


def _heading(column: int, package: str) -> str:
    x, y = _middle(column), TOP - 8
    return (
        f'<text x="{x}" y="{y}" transform="rotate(-48 {x} {y})" font-size="12" '
        f'font-family="ui-monospace, monospace" fill="{DARK}">{package}</text>'
    )


def _words(row: int, package: str) -> list[str]:
    """Write a package's name and, in one or two lines, its job."""
    top = TOP + row * ROW
    name = f"{number_of(package)} {package}"
    lines = textwrap.wrap(job(package), 58)
    shown = lines if len(lines) <= 2 else [lines[0], lines[1].rstrip(",;:") + " …"]
    first = top + ROW / 2 + 4 - (len(shown) - 1) * LINE / 2
    return [
        f'<text x="{MARGIN + 10}" y="{top + ROW / 2 + 4:g}" font-size="13" font-weight="600" '
        f'font-family="ui-monospace, monospace" fill="{DARK}">{name}</text>',
        *(
            f'<text x="{WORDS}" y="{first + number * LINE:g}" font-size="11" '
            f'fill="#37474f">{escape(line)}</text>'
            for number, line in enumerate(shown)
        ),
    ]


def _uses_of(row: int, dots: list[bool]) -> list[str]:
    """Draw the package itself as a square, and a dot for each package that it uses."""
    y = TOP + row * ROW + ROW / 2
    marks = [
        f'<rect x="{_middle(row) - 8}" y="{y - 8:g}" width="16" height="16" rx="3" fill="{DARK}"/>'
    ]
    for column, dot in enumerate(dots):
        if dot:
            marks.append(f'<circle cx="{_middle(column)}" cy="{y:g}" r="5" fill="{LIGHT}"/>')
        elif column > row:
            marks.append(f'<circle cx="{_middle(column)}" cy="{y:g}" r="1.5" fill="#b0bec5"/>')
    return marks


def _middle(column: int) -> int:
    return MATRIX + column * COLUMN + COLUMN // 2


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"Wrote {PICTURE.relative_to(ROOT)}.")
