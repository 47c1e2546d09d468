"""`tacit ledger` and `tacit report` on a ledger whose entries have something to say."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tacit import Budget, GNMax, Ledger, Plan
from tacit.ledger import chain

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
