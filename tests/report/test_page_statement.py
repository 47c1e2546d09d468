"""One consistent view: verified, never of another moment, never less than the ledger proves."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.errors import InvalidArgument, LedgerDamaged, SecretDisclosure
from tacit.ledger import Budget, Ledger
from tacit.ledger import terms as accountants
from tacit.ledger.store import Store
from tacit.mechanisms import GNMax, Plan
from tacit.report.page import shown


@pytest.mark.parametrize("kind", ["ledger", "rdp_ledger", "fixed_ledger"])
def test_the_last_running_epsilon_is_what_the_ledger_has_spent(request, kind):
    book = request.getfixturevalue(kind)
    shot = book.snapshot()
    assert shot.entries == book.entries()
    assert shot.spent[-1] == book.spent() == shot.statement.epsilon
    assert list(shot.spent) == sorted(shot.spent)
    assert shot.statement == shown(book)["statement"] == book.statement()
    assert shown(book)["statement"].head == book.head


def test_running_epsilons_are_what_the_ledger_said_at_the_time(empty_ledger, released):
    said = []
    for _ in range(4):
        released(empty_ledger, Plan(GNMax(sigma=40), queries=10))
        said.append(empty_ledger.spent())
    assert list(empty_ledger.snapshot().spent) == said


def test_no_rounding_says_more_than_the_budget(ledger, monkeypatch):
    slightly_over = ledger.budget.epsilon * (1 + 1e-15)
    monkeypatch.setattr(accountants, "gaussian_epsilon", lambda delta, mu: mu * 0 + slightly_over)
    assert {*ledger.snapshot().spent, ledger.spent()} == {ledger.budget.epsilon}


def test_an_empty_ledger_has_a_snapshot(empty_ledger):
    shot = empty_ledger.snapshot()
    assert shot.entries == shot.spent == ()
    assert shown(empty_ledger)["statement"].head == shot.genesis == empty_ledger.head


def test_a_release_made_meanwhile_is_not_half_in_it(ledger, released, monkeypatch):
    before, read = ledger.statement(), Store.read

    def release_next(self):
        chain = read(self)
        monkeypatch.setattr(Store, "read", read)
        released(Ledger(ledger.path), Plan(GNMax(sigma=400), queries=1))
        return chain

    monkeypatch.setattr(Store, "read", release_next)
    page = shown(ledger)
    assert len(ledger) == before.entries + 1
    assert page["statement"] == before
    assert len(page["rows"]) == before.entries
    assert page["statement"].head == before.head


def test_a_secret_statement_is_refused_before_the_ledger_is_read(ledger, monkeypatch):
    secret = replace(ledger.statement(), kind="secret")
    monkeypatch.setattr(Store, "read", lambda self: pytest.fail("read"))
    with pytest.raises(SecretDisclosure):
        shown(ledger, secret)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.5},
        {"delta": 1e-9},
        {"unit": "person"},
        {"dataset": "other"},
        {"noise": "exact"},
        {"entries": 1},
        {"head": "0" * 64},
        {"head": None},
        {"budget": Budget(1, 1e-5)},
        {"adjacency": "replace one patient"},
    ],
)
def test_a_statement_that_says_something_else_is_refused(ledger, changes):
    with pytest.raises(InvalidArgument, match="statement"):
        shown(ledger, replace(ledger.statement(), **changes))


def test_a_statement_of_an_earlier_moment_is_refused(ledger, released):
    earlier = ledger.statement()
    assert shown(ledger, earlier)["statement"] == earlier
    released(ledger, Plan(GNMax(sigma=400), queries=1))
    with pytest.raises(InvalidArgument, match="as it is now"):
        shown(ledger, earlier)


def test_a_sanitised_statement_must_have_the_true_worst_case_beside_it(ledger, sanitised):
    assert shown(ledger, sanitised)["statement"] == sanitised
    with pytest.raises(InvalidArgument, match="worst-case"):
        shown(ledger, replace(sanitised, worst_case_epsilon=0.1))


def test_sanitising_that_gained_nothing_is_said(ledger, sanitised):
    worse = replace(sanitised, epsilon=ledger.spent() + 1)
    better = replace(sanitised, epsilon=ledger.spent() / 2)
    assert any("no smaller" in warning for warning in shown(ledger, worse)["warnings"])
    assert not shown(ledger, better)["warnings"]


def test_a_damaged_ledger_has_no_snapshot(ledger):
    database = sqlite3.connect(ledger.path)
    triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in triggers:
        database.execute(f'DROP TRIGGER "{name}"')
    database.execute("UPDATE entries SET cost = 0 WHERE sequence = 1")
    database.commit()
    database.close()
    with pytest.raises(LedgerDamaged):
        shown(ledger)


def test_a_ledger_that_was_replaced_meanwhile_has_no_snapshot(ledger, tmp_path):
    other = Ledger(tmp_path / "other.ledger", budget=Budget(2, 1e-5))
    Path(other.path).replace(ledger.path)
    with pytest.raises(LedgerDamaged, match="exchanged"):
        shown(ledger)


@pytest.mark.parametrize("thing", [None, "run.ledger", 3])
def test_only_a_ledger_is_a_ledger(thing):
    with pytest.raises(InvalidArgument, match="Ledger"):
        shown(thing)


def test_only_a_statement_is_a_statement(ledger):
    with pytest.raises(InvalidArgument, match="Statement"):
        shown(ledger, {"epsilon": 0})
