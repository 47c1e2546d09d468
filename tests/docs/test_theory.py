"""Every Python example of the theory pages runs and prints what the page says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("theory/*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`((?:federation/)?tests/[\w/]+\.py)?(?:::)?(test_\w+)?`")


def examples(page: Path) -> str:
    return "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


def test_there_are_pages_with_examples() -> None:
    assert sum(">>>" in examples(page) for page in PAGES) >= 6


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_print_what_the_page_says(page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(examples(page), {}, page.name, str(page), 0)
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)


def test_every_test_that_the_theory_names_exists() -> None:
    root = DOCS.parent
    sources = [*root.glob("tests/**/*.py"), *root.glob("federation/tests/**/*.py")]
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    defined = set(re.findall(r"def (test_\w+)\(", text))
    for page in PAGES:
        named = TEST.findall(page.read_text(encoding="utf-8"))
        assert named or page.stem in {"calibration", "tables"}, page.stem
        for file, function in named:
            assert not file or (root / file).exists(), f"{page.stem}: {file}"
            assert not function or function in defined, f"{page.stem}: {function}"
