"""Run the `tacit` command in this process, with its exit code and what it printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tacit.cli import main
from tacit.datasets import demo_votes


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def tacit(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Outcome]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Outcome(code, out, err)

    return run


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    path = tmp_path / "votes.npz"
    np.savez(path, votes=demo_votes())
    return path
