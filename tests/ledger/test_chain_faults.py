"""Faults: what no cost covers is written with the entry, and every later statement warns of it."""

from __future__ import annotations

import json

import pytest
from ledger_shared import BUDGET, edit, spend, sql

from tacit.errors import InvalidArgument, LedgerDamaged
from tacit.ledger import LARGE_DELTA, Ledger, Statement

READ = "the labels were read"


def test_they_are_hashed_with_the_entry_and_warned_of_for_ever(path, ledger, plan, votes):
    spend(ledger, plan, votes, faults=[READ, LARGE_DELTA])
    spend(ledger, plan, votes, faults=(LARGE_DELTA, "another"))
    spend(ledger, plan, votes)
    told = [entry.faults for entry in ledger.entries()]
    assert told == [(READ, LARGE_DELTA), (LARGE_DELTA, "another"), ()]
    assert json.loads(sql(path, "SELECT payload FROM entries")[0][0][0])["faults"][0] == READ
    statement = Ledger(path).statement()
    assert statement.warnings == (READ, LARGE_DELTA, "another")
    assert str(statement).count(READ) == 1
    assert Statement.from_json(statement.to_json()).warnings == statement.warnings


def test_nobody_takes_one_away(path, ledger, plan, votes):
    spend(ledger, plan, votes, faults=[READ])
    edit(
        path,
        "UPDATE entries SET payload = replace(payload, '\"the labels were read\"', '')",
    )
    with pytest.raises(LedgerDamaged, match="Entry 1"):
        Ledger(path).statement()


def test_what_the_header_says_is_not_said_twice(tmp_path, plan, votes):
    ledger = Ledger(tmp_path / "large", budget=BUDGET, allow_large_delta=True)
    spend(ledger, plan, votes, faults=[LARGE_DELTA])
    assert ledger.statement().warnings == (LARGE_DELTA,)


def test_each_is_written_once(ledger, plan, votes):
    spend(ledger, plan, votes, faults=[READ, READ])
    assert ledger.entries()[0].faults == (READ,)


@pytest.mark.parametrize("faults", ["a word", [3], ["two\nlines"], [""], None, {READ}, 7])
def test_what_is_no_list_of_sentences_is_refused_and_nothing_is_spent(ledger, plan, faults):
    with pytest.raises(InvalidArgument, match="faults"):
        ledger.release(plan, purpose="x", faults=faults)
    assert len(ledger) == 0


def test_a_list_that_changes_later_changes_nothing(ledger, plan):
    faults = [READ]
    paid = ledger.release(plan, purpose="x", faults=faults)
    faults[:] = ["two\nlines"]
    with paid:
        pass
    assert ledger.entries()[0].faults == (READ,)
