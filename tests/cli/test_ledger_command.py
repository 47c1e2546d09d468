"""`tacit ledger` and `tacit report` on a ledger whose entries have something to say."""

from __future__ import annotations

import json

import pytest

from tacit import Budget, GNMax, Ledger, Plan

READ = "the labels were read"


def words(printed: str) -> str:
    """Return what was printed without frames and line breaks."""
    return " ".join(printed.replace("│", " ").split())


@pytest.fixture
def book(tmp_path):
    """A ledger of one release, with a fault."""
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(2.6, 1e-5))
    plan = Plan(GNMax(sigma=40.0), queries=100)
    with ledger.release(plan, purpose="label the scans", faults=[READ]) as grant:
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
