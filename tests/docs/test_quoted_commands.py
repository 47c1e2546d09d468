"""Every command of a benchmark that a page quotes is one that its script still takes."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"python -m (benchmarks[\w.]*)((?: [^`\n]*)?)(?=`|\n|$)")


class Taken(Exception):
    """The words of a command were understood."""


def quoted_commands() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8")) for page in pages]
    found = {match.groups() for text in texts for match in QUOTED.finditer(text)}
    return sorted((module, words.split("#")[0].strip()) for module, words in found)


@pytest.mark.parametrize("module", sorted({module for module, _ in quoted_commands()}))
def test_a_quoted_script_is_there(module):
    assert find_spec(module)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize(
    ("module", "words"),
    [each for each in quoted_commands() if each[1].startswith("--") and "METHOD" not in each[1]],
)
def test_a_quoted_command_is_taken(module, words, monkeypatch):
    whole = argparse.ArgumentParser.parse_args

    def parsed(self, *args, **kwargs):
        whole(self, *args, **kwargs)
        raise Taken

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    monkeypatch.setattr(sys, "argv", [module, *shlex.split(words)])
    with pytest.raises(Taken):
        runpy.run_module(module, run_name="__main__")


def test_commands_are_found():
    assert len(quoted_commands()) >= 40
