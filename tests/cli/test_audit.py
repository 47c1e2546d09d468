"""`tacit audit`: tables, JSON, exit codes, and what is refused before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit import Ledger
from tacit.noise import SecureNoise

CONFIG = """
method = "prototype"

[data]
source = "digits"
private = 1000
public = 300

[privacy]
epsilon = 1.0
delta = 1e-5

[prototype]
votes = 1
"""
CONTRADICTED = 5


@pytest.fixture
def run(tacit):
    Path("run.toml").write_text(CONFIG, encoding="utf-8")
    return tacit


@pytest.fixture
def quiet(monkeypatch):
    """Noise ten times too small, from the very source that releases use."""
    for name in ("gaussian", "rounded_gaussian_steps"):
        honest = getattr(SecureNoise, name)
        monkeypatch.setattr(
            SecureNoise,
            name,
            lambda self, scale, *rest, _honest=honest: _honest(self, scale / 10, *rest),
        )


def test_an_honest_run_is_not_contradicted(run):
    outcome = run("audit", "run.toml", "--out", "audit", "--canaries", 100)
    assert outcome.code == 0, outcome.err
    assert "proves nothing" in outcome.out
    ledger = Ledger("audit/run.ledger")
    assert 0.99 < ledger.spent() <= 1.0  # the audit was a release
    kept = json.loads(Path("audit/audit.json").read_text())
    assert kept["canaries"] == 100
    assert {path.name for path in Path("audit").iterdir()} == {
        "audit.json", "audit.toml", "run.ledger",
    }  # fmt: skip


def test_a_broken_run_is_contradicted(run, quiet):
    outcome = run("audit", "run.toml", "--out", "audit", "--seed", 1, "--json")
    assert outcome.code == CONTRADICTED
    result = json.loads(outcome.out)
    assert result["contradicts"]
    assert result["provable"] >= result["proved"] > result["claim"]
    assert "CONTRADICTS" in result["verdict"]


def test_an_honest_mechanism_is_not_contradicted(tacit):
    outcome = tacit("audit", "--mechanism", "gnmax:sigma=40", "--trials", 20_000)
    assert outcome.code == 0, outcome.err
    assert "proves nothing" in outcome.out


def test_a_broken_mechanism_is_contradicted(tacit, quiet):
    outcome = tacit("audit", "--mechanism", "gnmax:sigma=40", "--trials", 20_000)
    assert outcome.code == CONTRADICTED
    assert "CONTRADICTS" in outcome.out
    outcome = tacit("audit", "--mechanism", "noisy-votes:sigma=40", "--trials", 20_000, "--json")
    assert outcome.code == CONTRADICTED
    assert any(finding["contradicts"] for finding in json.loads(outcome.out)["findings"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "one of the two"),
        (("run.toml", "--mechanism", "gnmax:sigma=4"), "one of the two"),
        (("run.toml",), "--out"),
        (("absent.toml", "--out", "audit"), "absent.toml"),
        (("run.toml", "--out", "audit", "--trials", 5), "--trials"),
        (("run.toml", "--out", "audit", "--canaries", 5), "canaries=5"),
        (("run.toml", "--out", "audit", "--canaries", 60_000), "canaries=60000"),
        (("run.toml", "--out", "audit", "--kind", "yellow"), "kind='yellow'"),
        (("run.toml", "--out", "audit", "--error", 2), "confidence_delta=2"),
        (("run.toml", "--out", "."), "new"),
        (("--mechanism", "gnmax:sigma=4", "--canaries", 50), "--canaries"),
        (("--mechanism", "gnmax"), "--sigma"),
        (("--mechanism", "gnmax:sigma=x"), "'sigma=x'"),
        (("--mechanism", "gnmax:sigma=-1"), "sigma=-1"),
        (("--mechanism", "gnmax:gamma=1,sigma=1"), "--gamma"),
        (("--mechanism", "sanitise:sigma=1"), "sanitise"),
        (("--mechanism", "gnmax:sigma=4", "--trials", 5), "trials=5"),
    ],
)
def test_mistakes_are_one_line_and_cost_nothing(run, arguments, complaint):
    outcome = run("audit", *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""
    assert not Path("audit").exists()
