"""Every command and every Python block of the documentation runs as written, page by page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from forking import Forking

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXIT_CODE = re.compile(r"#\s*exit code (\d)")
HEAVY = ("monai", "nibabel", "torch", "torch._dynamo")
"""What the page of masks needs in nearly every block; importing it takes five seconds."""
PAGES = [
    str(page.relative_to(DOCS))
    for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")])
    if BLOCK.search(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    process = Forking()
    yield process
    process.close()


def test_the_newcomers_pages_have_something_to_run() -> None:
    assert len(PAGES) >= 10
    assert sum(page.startswith("tutorials") for page in PAGES) == 3


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_written(page: str, tmp_path: Path, forking: Forking) -> None:
    if page == "segmentation.md":
        forking.load(*HEAVY)
    for kind, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind == "python":
            outcome = forking.run(tmp_path, python=text)
            assert outcome.code == 0, outcome.err
            continue
        for line in text.splitlines():
            assert line.startswith("$ tacit "), "a console block shows commands of tacit only"
            expected = EXIT_CODE.search(line)
            outcome = forking.run(tmp_path, command=shlex.split(line[2:], comments=True))
            code = int(expected[1]) if expected else 0
            assert outcome.code == code, f"{line}\n{outcome.out}\n{outcome.err}"
            assert "Traceback" not in outcome.err
