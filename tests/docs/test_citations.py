"""What the code and the pages cite is in this repository: each page and each anchor exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "federation", "papers", "tests", "benchmarks", "tools", "docs")
KINDS = {".py", ".md", ".toml", ".html", ".svg", ".cff", ".yml", ".yaml", ".css", ".txt"}
HERE = Path(__file__).resolve()
FILES = sorted(
    path
    for start in (*(ROOT / folder for folder in FOLDERS), ROOT)
    for path in (start.glob("*") if start == ROOT else start.rglob("*"))
    if path.is_file() and path.suffix in KINDS and path.resolve() != HERE
)
CITATION = re.compile(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?(?: and #([\w-]+))?")
FENCE = re.compile(r"^ *(`{3,}).*?^ *\1$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
ELSEWHERE = re.compile(
    r"SPEC-|FEASIBILITY|\bRECIPES\b|\(PATE \d{1,2}\b|\(C \d"
    r"|\b[Ss](?:pec|PEC)(?:'s)? \(?(?:\d|[ABC]\b)|\b(?:of|in|by|the) (?:the )?spec\b"
    r"|\b(?:of|in) the specification|\bproject's (?:own )?specification"
    r"|_spec_\d|the_spec(?:ification)?_|\b[Ii]ssues? #?\d"
    r"|\b[AB]\.\d+[):]"
)
"""Documents, lists and numbered sections that a reader of this repository does not have."""


def anchors(page: Path) -> set[str]:
    """The anchors of a page that are the same on the site and on GitHub."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    plain = (re.sub(r"[^\w -]", "", heading).strip().lower() for heading in headings)
    # The site joins repeated hyphens and drops accents; GitHub does neither.
    both = (heading.replace(" ", "-") for heading in plain if heading.isascii())
    return {anchor for anchor in both if "--" not in anchor}


def citations(text: str) -> list[tuple[str, str]]:
    """Each (page, anchor) that a text cites; "" stands for the whole page."""
    found = CITATION.findall(text)
    return [
        (page, anchor)
        for page, first, second in found
        for anchor in ((first, second) if second else (first,))
    ]


def test_what_counts_as_a_citation() -> None:
    text = "Proofs: docs/theory/a-b.md#c-d and #e. See docs/f.md, and docs/theory/g.md."
    assert citations(text) == [
        ("docs/theory/a-b.md", "c-d"),
        ("docs/theory/a-b.md", "e"),
        ("docs/f.md", ""),
        ("docs/theory/g.md", ""),
    ]


@pytest.mark.parametrize(
    "dead",
    [
        "(SPEC-pate-knn 2.4)",
        "(spec 2.4)",
        "Spec B.1: so",
        "SPEC 5.7, 5.8",
        "the spec's 3.2",
        "in the spec (5.1)",
        "numbers of the specification",
        "FEASIBILITY's recipe",
        "issue 5",
        "*(PATE 4)*",
        "*(C 7)*",
        "water-filling (A.5)",
        "B.8: PCA",
    ],
)
def test_what_leads_nowhere(dead: str) -> None:
    assert ELSEWHERE.search(dead)


def test_every_citation_leads_somewhere() -> None:
    broken, followed = [], 0
    for file in FILES:
        for page, anchor in citations(file.read_text(encoding="utf-8")):
            followed += 1
            aim = ROOT / page
            if not aim.is_file() or (anchor and anchor not in anchors(aim)):
                broken.append(f"{file.relative_to(ROOT)}: {page}#{anchor}")
    assert not broken, "\n".join(broken)
    assert followed > 100


def test_nothing_cites_what_is_not_here() -> None:
    assert len(FILES) > 500
    dead = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert not dead, "\n".join(dead)


def test_every_page_of_the_theory_is_cited_by_the_code() -> None:
    cited = {
        page
        for file in FILES
        if any(file.is_relative_to(ROOT / part) for part in ("src", "federation/src"))
        for page, _ in citations(file.read_text(encoding="utf-8"))
    }
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "theory").glob("*.md")}
    assert pages - cited <= {"docs/theory/tables.md"}
