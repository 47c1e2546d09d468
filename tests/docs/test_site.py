"""The site's menu, its files and its links agree, without mkdocs: `make docs` builds the rest."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import floors, reference
from tools.plain_text import as_markdown

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
FENCE = re.compile(r"^ *(`{3,}).*?^ *\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
PACKAGES = {path.name for path in (ROOT / "src" / "tacit").iterdir() if path.is_dir()}


def entries(menu: Any) -> Iterator[str]:
    """Every file that the menu names, however deep."""
    if isinstance(menu, str):
        yield menu
    elif isinstance(menu, dict):
        for inner in menu.values():
            yield from entries(inner)
    else:
        for inner in menu:
            yield from entries(inner)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchor_of(heading: str) -> str:
    """The anchor that Python-Markdown makes of a heading, before it numbers repetitions."""
    linked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
    plain = unicodedata.normalize("NFKD", linked).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(page: Path) -> set[str]:
    return {anchor_of(heading) for heading in HEADING.findall(prose(page))}


def test_every_page_is_in_the_menu_once_and_every_entry_exists() -> None:
    named = list(entries(SETTINGS["nav"]))
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert SETTINGS["theme"]["font"] is False
    assert not any(str(place).startswith("http") for place in SETTINGS.get("extra_javascript", []))


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(prose(page)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        aim = (page.parent / target).resolve() if target else page
        assert aim.is_file(), target
        assert not anchor or anchor in anchors(aim), f"{target}#{anchor}"


def test_a_page_links_only_to_what_the_site_holds() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target, _ in LINK.findall(prose(page))
        if target and not target.startswith("http")
    ]
    assert len(links) > 100
    for page, target in links:
        assert (page.parent / target).resolve().is_relative_to(DOCS), f"{page}: {target}"


def test_every_public_package_has_a_reference() -> None:
    private = {"cli", "__pycache__"}
    described = {page.stem for page in (DOCS / "api").glob("*.md")}
    assert {*PACKAGES, "federation"} - private <= described


def test_the_picture_of_the_floors_is_of_this_house() -> None:
    drawn = floors.PICTURE.read_text(encoding="utf-8")
    assert drawn == floors.draw(), "draw it again: python -m tools.floors"


def test_the_picture_shows_every_package_and_its_imports() -> None:
    levels = floors.floors()
    assert {package for level in levels for package in level} == PACKAGES - {"__pycache__"}
    used = floors.uses({package for level in levels for package in level})
    assert used["mechanisms"] == {"noise", "privacy"}
    assert not used["privacy"]


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("Return a * b * c.", r"Return a \* b \* c."),
        ("Needs `a*b` and x_1.", r"Needs `a*b` and x\_1."),
        ("Where p < q.", "Where p &lt; q."),
        (
            "Text.\n\nParameters\n----------\nn_all : int\n    a * b.",
            "Text.\n\nParameters\n----------\nn_all : int\n    a \\* b.",
        ),
        ("Text.\n\nNotes\n-----\na * b.", "Text.\n\nNotes\n-----\na \\* b."),
        ("Text.\n\nExamples\n--------\n>>> 1", "Text.\n\nExamples\n--------\n>>> 1"),
        ("Text.\n\n>>> 1 + 1\n2", "Text.\n\n```pycon\n>>> 1 + 1\n2\n```"),
        ("Text.\n\n    x = y * z", "Text.\n\n```text\nx = y * z\n```"),
    ],
)
def test_docstrings_are_shown_as_they_are_written(plain: str, shown: str) -> None:
    assert as_markdown(plain) == shown


NAMED_TEST = re.compile(r"`((?:federation/)?tests/[\w/]+\.py)(?:::(\w+))?`")
EDGES = (DOCS / "sharp-edges.md").read_text(encoding="utf-8")


def test_every_sharp_edge_says_how_bad_it_is_and_why() -> None:
    edges = re.split(r"^### ", EDGES, flags=re.MULTILINE)[1:]
    assert len(edges) >= 38
    for edge in edges:
        assert re.search(r"\]\(theory(/[\w-]+)?\.md", edge), f"which theory? {edge[:60]}"
        assert re.search(r"^\*\*(Critical|High|Medium|Low)\. ", edge, re.MULTILINE), edge[:60]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_tests_that_a_page_names_exist(page: Path) -> None:
    for file, function in NAMED_TEST.findall(page.read_text(encoding="utf-8")):
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in source, f"{file}::{function}"


def test_the_site_is_built_strictly() -> None:
    (command,) = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert "--strict" in command
    assert "-q" not in command, "mkdocs counts no warnings when it is quiet: --strict is then void"


def test_every_docstring_can_be_shown() -> None:
    """What `as_markdown` cannot read stops the site from being built."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for module in [*(ROOT / "src").rglob("*.py"), *(ROOT / "federation" / "src").rglob("*.py")]:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, described) else None
            assert text is None or as_markdown(text), module


@pytest.mark.parametrize("page", reference.WRITTEN)
def test_the_reference_is_of_this_code(page: str) -> None:
    written = (reference.PAGES / page).read_text(encoding="utf-8")
    assert written == reference.WRITTEN[page](), "write it again: python -m tools.reference"


def test_the_reference_explains_every_key() -> None:
    rows = [line.split(" | ") for line in reference.run_toml().splitlines() if line[:3] == "| `"]
    assert len(rows) > 60
    assert [row[0] for row in rows if len(row[-1].strip(" |")) < 8] == []
