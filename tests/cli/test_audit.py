"""`tacit audit`: tables, JSON, exit codes, and what is refused before anything is spent."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from quiet_noise import quieten

from tacit import Ledger
from tacit._registry import MECHANISMS, mechanism_class
from tacit.cli.options import parameters_of, parse_mechanism
from tacit.mechanisms import SampledMedian, suspicions

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
    quieten(monkeypatch)


def test_an_honest_run_is_not_contradicted(run):
    outcome = run("audit", "run.toml", "--out", "audit", "--canaries", 100)
    assert outcome.code == 0, outcome.err
    assert "proves nothing" in outcome.out
    ledger = Ledger("audit/run.ledger")
    assert 0.99 < ledger.spent() <= 1.0  # the audit was a release
    kept = json.loads(Path("audit/audit.json").read_text())
    assert kept["canaries"] == 100
    assert {path.name for path in Path("audit").iterdir()} == {
        "audit.json", "audit.toml", "run.ledger", "run.ledger-head",
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


DESCRIBED = {
    "gnmax": "sigma=40",
    "lnmax": "gamma=0.05",
    "noisy-votes": "sigma=40",
    "threshold-check": "threshold=20,sigma=10,from_zero=true",
    "confident-gnmax": "threshold=20,sigma_check=8,sigma_answer=7",
    "interactive-gnmax": "threshold=20,sigma-check=8,sigma-answer=7,confidence=0.9",
    "sanitise": "order=14,beta=0.0143,sigma=6,sigma_log=0.1,delta_value=1e-6,delta_scale=1e-6",
    "sampled-max": "sigma=3,k=1,sampling_rate=0.5",
    "sampled-votes": "sigma=5,k=10,sampling_rate=0.5",
    "screening-check": "threshold=0.5,sigma=1,k=3,sampling_rate=0.5",
    "noisy-screening": "threshold=0.5,sigma_screen=1,sigma=3,k=3,sampling_rate=0.5",
    "sampled-labels": "sigma=2,k=3,sampling_rate=0.5,tau=2,clip=l2",
    "sampled-mean": "sigma=0.1,k=50,sampling_rate=0.5,low=0,high=5",
    "sampled-median": "epsilon_per_query=2,k=2,low=0,high=1,points=2",
    "unit-mean": "sigma=0.5,radius=1,n_teachers=2",
    "gaussian-mean": "sigma=1,radius=2,n_teachers=5",
    "distributed-gaussian-mean": "sigma=1,radius=1,n_teachers=4,dropouts=1,colluders=0",
    "shared-votes": "sigma=40",
    "shared-codes": "sigma=1,radius=2,n_teachers=5",
    "noisy-sum": "sigma=3,rows=2,columns=3",
    "noisy-second-moment": "sigma=3,dimension=2",
    "score-histogram": "sigma=3,classes=2,bins=3",
    "noisy-steps": "noise_multiplier=1.8,sampling_rate=0.1",
}
QUIET = sorted(set(DESCRIBED) - {"sampled-median"})


def test_every_mechanism_has_a_name_and_help_lists_them(tacit):
    assert tuple(MECHANISMS) == tuple(sorted(DESCRIBED))
    shown = " ".join(tacit("audit", "--help").out.replace("\u2502", " ").split())
    assert all(name in shown for name in MECHANISMS)


def test_the_documented_examples_are_all_mechanisms():
    page = Path(__file__).parents[2] / "docs" / "audit.md"
    rows = re.findall(r"^\| `(\S+)` \| (.*?) \| `(\S+)` \|$", page.read_text("utf-8"), re.M)
    assert sorted(name for name, _, _ in rows) == list(MECHANISMS)
    for name, parameters, example in rows:
        assert parse_mechanism(example).name == name
        assert parameters == "the same" or all(
            each.split("=")[0] in parameters for each in parameters_of(name)
        )


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_described_mechanism_is_made_and_audited(name):
    mechanism = parse_mechanism(f"{name}:{DESCRIBED[name]}")
    assert type(mechanism) is mechanism_class(name)
    assert suspicions(mechanism)


@pytest.mark.parametrize("name", QUIET)
def test_every_mechanism_with_too_little_noise_is_contradicted(tacit, quiet, name):
    described = f"{name}:{DESCRIBED[name]}"
    outcome = tacit("audit", "--mechanism", described, "--trials", 20_000, "--json")
    assert outcome.code == CONTRADICTED, outcome.out + outcome.err


def test_a_median_that_listens_too_closely_is_contradicted(tacit, monkeypatch):
    weights = SampledMedian(20.0, k=2, grid=(0, 1, 2)).weights()
    monkeypatch.setattr(SampledMedian, "weights", lambda self: weights)
    described = f"sampled-median:{DESCRIBED['sampled-median']}"
    outcome = tacit("audit", "--mechanism", described, "--trials", 20_000)
    assert outcome.code == CONTRADICTED
    assert "Renyi, order 1.5" in outcome.out


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
        (("--mechanism", "gnmax"), "gnmax takes sigma"),
        (("--mechanism", "gnmax:sigma=x"), "'sigma=x'"),
        (("--mechanism", "gnmax:sigma=-1"), "sigma=-1"),
        (("--mechanism", "gnmax:sigma=1e300"), "sigma=1e+300"),
        (("--mechanism", "gnmax:sigma=4,sigma=5"), "sigma once"),
        (("--mechanism", "gnmax:gamma=1,sigma=1"), "Expected no gamma"),
        (("--mechanism", "private-steps:sigma=1"), "'private-steps' to be one of confident-gnmax"),
        (("--mechanism", "sanitise:sigma=1"), "order in --mechanism=sanitise"),
        (("--mechanism", "sampled-max:sigma=4,k=2.5"), "k=2.5 to be an integer"),
        (("--mechanism", "sampled-labels:sigma=4,k=2,clip=l3"), "clip='l3'"),
        (("--mechanism", "sampled-median:epsilon_per_query=1,k=2,points=1"), "points=1"),
        (("--mechanism", "threshold-check:threshold=2,sigma=1,from_zero=no"), "from_zero=no"),
        (("--mechanism", "noisy-sum:sigma=1,rows=20000,columns=50"), "audit a small one"),
        (("--mechanism", "noisy-sum:sigma=1,rows=20,columns=50", "--trials", 10**7), "trials="),
        (("--mechanism", "gnmax:sigma=4", "--trials", 5), "trials=5"),
    ],
)
def test_mistakes_are_one_line_and_cost_nothing(run, arguments, complaint):
    outcome = run("audit", *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    *announced, error = outcome.err.splitlines()
    assert error.startswith("Error: ")
    assert len(announced) <= 1  # what it would have spent
    assert all("spends" in line for line in announced)
    assert outcome.out == ""
    assert not Path("audit").exists()
