"""`tacit ledger` and `tacit report` on a ledger whose entries have something to say."""

from __future__ import annotations

import gc
import itertools
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tacit import Budget, GNMax, Ledger, Plan
from tacit.ledger import NotedSteps, chain
from tacit.mechanisms import NoisySteps

READ = "the labels were read"
PLAN = Plan(GNMax(sigma=40.0), queries=100)


def words(printed: str) -> str:
    """Return what was printed without frames and line breaks."""
    return " ".join(printed.replace("│", " ").split())


@pytest.fixture
def book(tmp_path):
    """A ledger of one release, with a fault."""
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(2.6, 1e-5))
    with ledger.release(PLAN, purpose="label the scans", faults=[READ]) as grant:
        grant.release([[200, 40, 10]] * 100)
    return ledger


def test_what_no_cost_covers_is_shown(tacit, book):
    assert f"Warning: {READ}." in words(tacit("ledger", "show", "run.ledger").out)
    shown = json.loads(tacit("ledger", "show", "run.ledger", "--json").out)
    assert shown["warnings"] == shown["entries"][0]["faults"] == [READ]
    assert shown["entries"][0]["kind"] == "release"


def test_what_no_cost_covers_is_in_the_report_of_the_ledger_alone(tacit, book, tmp_path):
    assert tacit("report", "run.ledger", "--out", "page.html").code == 0
    assert READ in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_clock_that_went_back_is_shown_and_refuses_nothing(tacit, book, monkeypatch):
    assert "clock" not in tacit("ledger", "verify", "run.ledger").out
    early = datetime(2001, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(chain, "clock", lambda: early)
    with book.release(PLAN, purpose="at night"):
        pass
    for command in ("show", "verify"):
        outcome = tacit("ledger", command, "run.ledger")
        assert outcome.code == 0
        assert "when entry 2 was written the clock said 2001-01-01" in words(outcome.out)
    assert json.loads(tacit("ledger", "verify", "run.ledger", "--json").out)["clock_behind"] == [2]
    shown = json.loads(tacit("ledger", "show", "run.ledger", "--json").out)["entries"]
    assert [entry["behind"] is not None for entry in shown] == [False, True]


def test_an_epsilon_that_protects_little_is_shown(tacit, tmp_path):
    large = Ledger(tmp_path / "large.ledger", budget=Budget(20, 1e-5))
    with large.release(Plan(GNMax(sigma=2.0), queries=10), purpose="label"):
        pass
    assert "protects little" in words(tacit("ledger", "show", "large.ledger").out)


def test_a_long_ledger_is_shown_page_by_page(tacit, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.cli.ledger.ROWS", 2)
    ledger = Ledger(tmp_path / "long.ledger", budget=Budget(2.0, 1e-5))
    for number in range(5):
        with ledger.release(Plan(GNMax(sigma=400), queries=1), purpose=f"number {number}"):
            pass
    shown = tacit("ledger", "show", "long.ledger").out
    assert [f"number {number}" in shown for number in range(5)] == [False] * 3 + [True] * 2
    assert "Entries 4 to 5 of 5; --page 2" in shown
    oldest = tacit("ledger", "show", "long.ledger", "--page", "3").out
    assert "number 0" in oldest
    assert "Entries 1 to 1 of 5." in oldest
    assert "--page" not in oldest
    refused = tacit("ledger", "show", "long.ledger", "--page", "4")
    assert refused.code == 2
    assert "from 1 to 3" in refused.err
    everything = json.loads(tacit("ledger", "show", "long.ledger", "--json").out)
    assert len(everything["entries"]) == 5


def alive():
    return sum(type(each) is chain.Entry for each in gc.get_objects())


def test_of_a_long_ledger_a_page_is_held(tacit, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.cli.ledger.ROWS", 2)
    ledger = Ledger(tmp_path / "long.ledger", budget=Budget(2.0, 1e-5))
    for _ in range(20):
        ledger.publish("ab" * 32, purpose="publish")
    held, before, forget = [], alive(), chain.Chain.forget

    def watched(self, keep):
        held.append(alive() - before)
        forget(self, keep)

    monkeypatch.setattr(chain.Chain, "forget", watched)
    shown = tacit("ledger", "show", "long.ledger")
    assert "Entries 19 to 20 of 20" in shown.out
    assert len(held) == 20
    assert max(held) <= 2 + 2


@pytest.mark.parametrize("page", [0, -1, 10**30])
def test_a_page_that_there_is_not_is_refused(tacit, book, page):
    refused = tacit("ledger", "show", "run.ledger", f"--page={page}")
    assert refused.code == 2
    assert f"--page={page} to be a page from 1 to 1" in refused.err


def test_notes_of_begun_steps_are_on_no_page(tacit, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.cli.ledger.ROWS", 2)
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(9.0, 1e-5))
    training = Plan(NoisySteps(noise_multiplier=9.0), 5)
    with ledger.release(training, purpose="train", noted=NotedSteps(1, lambda _: None)) as grant:
        list(itertools.islice(grant._Grant__steps["steps"], 5))
    for number in range(2):
        ledger.publish("ab" * 32, purpose=f"copy {number}")
    first = tacit("ledger", "show", "run.ledger").out
    assert "run.ledger: 1 release," in first
    assert "copy 0" in first
    assert f"Entries {len(ledger) - 1} to {len(ledger)} of {len(ledger)}; --page 2 shows" in first
    last = tacit("ledger", "show", "run.ledger", "--page", "2").out
    assert "train" in last
    assert f"Entries 1 to 1 of {len(ledger)}." in last


def test_what_an_older_ledger_must_be_read_with_is_shown(tacit, tmp_path, book):
    assert json.loads(tacit("ledger", "show", "run.ledger", "--json").out)["advisory"] == ""
    assert "Advisory" not in tacit("ledger", "show", "run.ledger").out
    old = Path(__file__).parents[1] / "ledger" / "schema-2.sqlite"
    shutil.copy(old, tmp_path / "old.ledger")
    assert "Advisory: 2 paid entries were made before" in tacit("ledger", "show", "old.ledger").out
    said = json.loads(tacit("ledger", "show", "old.ledger", "--json").out)["advisory"]
    assert "advisory 1 in SECURITY.md" in said
