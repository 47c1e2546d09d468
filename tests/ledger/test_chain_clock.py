"""A clock that goes back: recorded in the line, shown, and no reason to refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_shared import forge, spend, sql

from tacit.errors import LedgerDamaged
from tacit.ledger import Ledger, chain
from tacit.mechanisms import Plan
from tacit.report import render_report

DOUBLE = {"cost": "0x1p-2", "confidence_delta": "0x0p+0"}
"""The totals after two of `plan`."""
NOON = datetime(2999, 5, 4, 12, tzinfo=UTC)


def text(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat(timespec="microseconds")


@pytest.fixture
def clock(monkeypatch):
    """Set the clock to so many minutes after noon of a day that is long to come."""

    def at(minutes: float) -> None:
        monkeypatch.setattr(chain, "clock", lambda: NOON + timedelta(minutes=minutes))

    return at


def test_it_is_recorded_until_the_clock_has_caught_up(path, ledger, fakes, clock):
    plan = Plan(fakes.Base(0.01), 1)
    for minutes in (0, -30, -10, 1):
        clock(minutes)
        spend(ledger, plan, [[1]])
    told = [(entry.time, entry.behind) for entry in ledger.entries()]
    assert told == [(text(0), None), (text(-30), text(0)), (text(-10), text(0)), (text(1), None)]
    assert Ledger(path).verify() == ledger.head


def test_a_clock_before_the_ledger_was_made_is_recorded(path, ledger, plan, votes, clock):
    clock(-60 * 24 * 365 * 990)
    spend(ledger, plan, votes)
    (entry,) = ledger.entries()
    header = json.loads(sql(path, "SELECT payload FROM header")[0][0][0])
    assert entry.behind == header["created"]


def test_it_is_in_the_report(ledger, plan, votes, clock):
    clock(0)
    spend(ledger, plan, votes)
    assert "clock" not in render_report(ledger)
    clock(-1)
    spend(ledger, plan, votes)
    assert "The clock went back: when entry 2 was written" in render_report(ledger)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_a_line_is_behind_exactly_if_a_line_before_it_is_later(minutes):
    times = [text(each) for each in minutes]
    latest = None
    for place, time in enumerate(times):
        before = max(times[:place], default=None)
        assert chain._behind(time, latest) == (before if before and time < before else None)
        latest = chain._later(time, latest)


@pytest.mark.parametrize("behind", [None, text(-4), text(0)], ids=["silent", "other", "right"])
def test_nobody_hides_it(path, ledger, plan, votes, clock, behind):
    """A line that keeps silent, or names another time, is damage like any other."""
    clock(0)
    spend(ledger, plan, votes)
    forge(path, time=text(-5), behind=behind, totals=DOUBLE)
    if behind == text(0):
        assert len(Ledger(path)) == 2
        return
    with pytest.raises(LedgerDamaged, match="Entry 2"):
        Ledger(path)
