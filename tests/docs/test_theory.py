"""Every Python example of the theory pages runs and prints what the page says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("theory/*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def examples(page: Path) -> str:
    return "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the anchors that mkdocs makes of a page's headings."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings)
    return {"#" + re.sub(r"[\s]+", "-", heading) for heading in plain}


def test_there_are_pages_with_examples() -> None:
    assert sum(">>>" in examples(page) for page in PAGES) >= 6


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_print_what_the_page_says(page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(examples(page), {}, page.name, str(page), 0)
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(DOCS / name for name in ("theory.md", "architecture.md", "results/pate-tables.md"))],
    ids=lambda page: page.stem,
)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        aim = (page.parent / target).resolve() if target else page
        assert aim.exists(), target
        assert not anchor or anchor in anchors(aim), f"{target}{anchor}"


def test_every_test_that_the_errata_name_exists() -> None:
    named = TEST.findall((DOCS / "theory" / "errata.md").read_text(encoding="utf-8"))
    assert len(named) >= 10
    for file, function in named:
        source = (DOCS.parent / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in source, f"{file}::{function}"
