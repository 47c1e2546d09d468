"""`tacit compare`: table, files, one-line mistakes, and a comparison that survives `kill -9`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUICK = ("--data", "digits", "--methods", "prototype", "--epsilon", "8", "--seeds", "1")


def test_a_comparison_prints_and_writes(tacit):
    outcome = tacit("compare", *QUICK, "--out", "compared")
    assert outcome.code == 0, outcome.err
    assert "not private" in outcome.err
    assert "prototypes" in outcome.out
    assert "At epsilon 8" in outcome.out
    names = {"results.csv", "results.json", "comparison.md", "comparison.png", "comparison.svg"}
    assert names <= {path.name for path in Path("compared").iterdir()}
    again = tacit("compare", *QUICK, "--out", "compared", "--json")
    result = json.loads(again.out)
    assert result["private"] is False
    assert result["recommended"] == {"8": "prototype"}
    assert {row["method"] for row in result["rows"]} == {"prototype", "non-private", "majority"}


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (("--methods", "magic"), "magic"),
        (("--methods", "momentz", "--data", "csv:absent.csv"), "methods='momentz' to be one of"),
        (("--epsilon", "1;2"), "commas"),
        (("--epsilon", "-1"), "epsilon"),
        (("--data", "nothing"), "nothing"),
        (("--public", "1"), "public"),
        (("--loader", "absent.toml"), "absent.toml"),
    ],
)
def test_mistakes_are_one_line(tacit, bad, complaint):
    outcome = tacit("compare", *QUICK, "--out", "compared", *bad)
    assert outcome.code == 2
    assert complaint in outcome.err.splitlines()[-1]
    assert not list(Path("compared").glob("cells/*.json"))


def test_help_has_an_example(tacit):
    outcome = tacit("compare", "--help")
    assert "Example: tacit compare" in outcome.out


@pytest.mark.long
def test_a_killed_comparison_goes_on_where_it_was(tacit, tmp_path):
    """Killed after the first cell; what was finished keeps its bytes, and no process is left."""
    asked = ["compare", *QUICK, "--seeds", "2", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-c", "from tacit.cli import main; main()", *asked]
    cells = tmp_path / "out" / "cells"
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 6000
    while not list(cells.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = {path.name: path.read_bytes() for path in cells.glob("*.json")}
    assert kept
    assert len(kept) < 6, "it was over before it could be killed"
    half = cells / "majority--none--1.json"
    if half.name not in kept:
        half.write_text('{"format": "tacit-comp')
    assert tacit(*asked).code == 0
    done = {path.name: path.read_bytes() for path in cells.glob("*.json")}
    names = ("prototype--8", "non-private--none", "majority--none")
    assert set(done) == {f"{name}--{seed}.json" for name in names for seed in range(2)}
    assert all(done[name] == content for name, content in kept.items())
    assert all(json.loads(content)["outcome"]["status"] == "ok" for content in done.values())


def test_a_worker_leaves_when_nobody_waits_for_it(tmp_path):
    """Its parent is killed while it sleeps: it must not go on for hours."""
    script = f"""
import os, subprocess, sys, time
from tacit.comparing.processes import Job, Starter
class Sleeper:
    def fit(self, X, y):
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        time.sleep(3600)
Starter().run(Job(Sleeper(), None, 1e-5, None, None, None, None, None))
"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    note, deadline = tmp_path / "pid", time.monotonic() + 600
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    worker = int(note.read_text())
    parent.kill()
    parent.wait()
    while _alive(worker) and time.monotonic() < deadline + 300:
        time.sleep(0.1)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
