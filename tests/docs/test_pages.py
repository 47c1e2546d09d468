"""Every command and every Python block of the documentation runs as written, page by page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXIT_CODE = re.compile(r"#\s*exit code (\d)")
PAGES = [
    str(page.relative_to(DOCS))
    for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")])
    if BLOCK.search(page.read_text(encoding="utf-8"))
]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"]}
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def test_the_newcomers_pages_have_something_to_run() -> None:
    assert len(PAGES) >= 10
    assert sum(page.startswith("tutorials") for page in PAGES) == 3


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_written(page: str, tmp_path: Path) -> None:
    for kind, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind == "python":
            outcome = run([sys.executable, "-c", text], tmp_path)
            assert outcome.returncode == 0, outcome.stderr
            continue
        for line in text.splitlines():
            assert line.startswith("$ "), "a console block shows commands only"
            expected = EXIT_CODE.search(line)
            outcome = run(shlex.split(line[2:], comments=True), tmp_path)
            code = int(expected[1]) if expected else 0
            assert outcome.returncode == code, f"{line}\n{outcome.stdout}\n{outcome.stderr}"
            assert "Traceback" not in outcome.stderr
