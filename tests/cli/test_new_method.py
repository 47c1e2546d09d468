"""A method is one file and one line of the registry: then everything knows it.

The file is the one that CONTRIBUTING.md shows, taken from there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from foreign import installed

from tacit import Ledger
from tacit._registry import METHODS, method_of
from tacit.errors import InvalidArgument
from tacit.runs.config import RunConfig

NAME = "nearest-mean"
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
CONFIG = f"""
method = "{NAME}"

[data]
source = "digits"
private = 1200
public = 300

[privacy]
epsilon = 4.0
delta = 1e-5

["{NAME}"]
features = "digits"
sharpness = 10
"""


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Add the file and the line; return the estimator's class."""
    page = PAGE.read_text("utf-8")
    _, source, *_ = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (path,) = re.findall(rf'^{NAME} = "(\S+)"$', page, re.MULTILINE)
    module = path.rpartition(".")[2].partition(":")[0]
    entries = {"methods": {NAME: f"{module}:METHOD"}}
    with installed(tmp_path, monkeypatch, {module: source}, entries):
        yield method_of(NAME).estimator


def test_nobody_knows_it_before(tacit):
    assert NAME not in METHODS
    Path("run.toml").write_text(CONFIG)
    assert tacit("train", "run.toml", "--out", "run").code == 2
    plan = ("plan", "method", NAME, "--queries", 10, "--epsilon", 1, "--delta", 1e-5)
    assert tacit(*plan).code == 2
    asked = ("--data", "digits", "--epsilon", "4", "--seeds", 1, "--out", "compared")
    assert tacit("compare", "--methods", NAME, *asked).code == 2


def test_its_table_is_its_signature(added):
    raw = {
        "method": NAME,
        "data": {"source": "digits", "private": 1200, "public": 300},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
    }
    written = RunConfig.parse(raw)
    assert written.settings["sharpness"] == added().sharpness
    with pytest.raises(InvalidArgument, match="sharpness=-1"):
        RunConfig.parse(raw | {NAME: {"sharpness": -1}})
    with pytest.raises(InvalidArgument, match="no sharpnes in"):
        RunConfig.parse(raw | {NAME: {"sharpnes": 1}})


def test_a_run_trains_it(added, tacit):
    Path("run.toml").write_text(CONFIG)
    outcome = tacit("train", "run.toml", "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["accuracy"] > 0.7  # chance is a tenth
    assert 3.9 < Ledger("run/run.ledger").statement().epsilon <= 4.0
    assert RunConfig.read("run/config.toml") == RunConfig.read("run.toml")


def test_a_comparison_runs_it(added, tacit):
    asked = ("--data", "digits", "--epsilon", "4", "--seeds", 1, "--out", "compared")
    outcome = tacit("compare", "--methods", NAME, *asked, "--json")
    assert outcome.code == 0, outcome.err
    (row,) = (row for row in json.loads(outcome.out)["rows"] if row["method"] == NAME)
    assert row["accuracy"] > 0.7
    assert "nearest mean" in Path("compared/comparison.md").read_text()


def test_it_is_planned(added, tacit):
    plan = ("plan", "method", NAME, "--queries", 10, "--epsilon", 1, "--delta", 1e-5)
    (proposal,) = json.loads(tacit(*plan, "--json").out)["proposals"]
    assert proposal["mechanism"] == "noisy-sum"
    assert 0.99 < proposal["epsilon"] <= 1
    assert "noisy-sum" in tacit(*plan).out
    assert tacit(*plan, "--teachers", 3).code == 2
