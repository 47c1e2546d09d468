"""The head outside the database: it may lag or be lost, never lead to a smaller total."""

from __future__ import annotations

import fcntl
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_shared import edit, spend, sql

from tacit.errors import LedgerDamaged
from tacit.ledger import Budget, Ledger, connections, reading, store
from tacit.ledger.begun_steps import NotedSteps
from tacit.ledger.chain import digest
from tacit.ledger.head_file import HeadFile, Remembered
from tacit.mechanisms import NoisySteps, Plan
from tacit.mechanisms.noisy_steps import Counting

HASHES = st.text("0123456789abcdef", min_size=64, max_size=64)
ENDS = st.builds(Remembered, HASHES, st.integers(0, 10**12), HASHES)


def head_of(path):
    return path.with_name(f"{path.name}-head")


@given(ENDS, st.data())
def test_a_line_that_is_not_whole_is_not_read(end, data):
    line = end.as_line()
    assert Remembered.read(line) == end
    place = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda sign: sign != line[place]))
    assert Remembered.read(line[:place] + other + line[place + 1 :]) is None
    assert Remembered.read(line[:place]) is None


def test_what_is_remembered_is_the_last_entry(ledger, path, plan, votes):
    spend(ledger, plan, votes, times=2)
    assert HeadFile(path).read() == Remembered(ledger.origin, 2, ledger.head)
    assert head_of(path).stat().st_mode & 0o777 <= path.stat().st_mode & 0o777


def test_a_head_that_lags_is_caught_up_with(ledger, path, fakes):
    """Killed between the commit and the head: the lines behind it are verified and counted."""
    plan = Plan(fakes.Base(0.01), queries=1)
    spend(ledger, plan, [0])
    old = head_of(path).read_bytes()
    spend(ledger, plan, [0], times=2)
    spent = ledger.spent()
    head_of(path).write_bytes(old)
    assert Ledger(path).spent() == spent
    spend(Ledger(path), plan, [0])
    assert HeadFile(path).read().sequence == 4
    assert Ledger(path).verify() == ledger.head


def test_a_head_that_lags_behind_notes_of_begun_steps_is_no_damage(path, votes):
    """The release that a note is about stands before the entry that is remembered."""
    ledger = Ledger(path, budget=Budget(30, 1e-5), accountant="rdp")
    training = Plan(NoisySteps(noise_multiplier=4.0), 6)
    heads = []

    def stored(_):
        heads.append(head_of(path).read_bytes())

    with ledger.release(training, purpose="train", noted=NotedSteps(2, stored)) as grant:
        grant.release(Counting(1, steps=6))
    spent, head = ledger.spent(), ledger.head
    for old in heads:
        head_of(path).write_bytes(old)
        assert (Ledger(path).spent(), ledger.spent()) == (spent, spent)
    assert ledger.publish("ab" * 32, purpose="publish").previous == head


def test_a_writer_that_comes_while_the_size_is_compared_is_no_damage(
    ledger, path, plan, votes, monkeypatch
):
    spend(ledger, plan, votes)
    monkeypatch.setattr(connections, "BURST", 1)
    monkeypatch.setattr(connections, "MOMENT", 60.0)
    other, ask, came = Ledger(path), store.pragma, []

    def asked_late(database, name):
        if name == "page_count" and len(came) < 2:
            monkeypatch.setattr(store, "pragma", ask)
            came.append(other.publish("ab" * 32, purpose="more pages " * 1000))
            if len(came) == 1:  # merged: the reader comes again, with locks
                other._store._connections.close_kept()
            monkeypatch.setattr(store, "pragma", asked_late)
        return ask(database, name)

    monkeypatch.setattr(store, "pragma", asked_late)
    assert ledger.spent() > 0
    assert len(came) == 2


def test_a_turn_ends_also_where_a_child_was_forked_in_it(ledger, path, plan, votes):
    """A copy of the descriptor stands for the child's, which holds the same lock."""
    with HeadFile(path).turn(0o600) as turn:
        of_the_child = os.dup(turn._descriptor)
    mine = os.open(head_of(path), os.O_RDWR)
    try:
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(mine)
        os.close(of_the_child)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda place: os.symlink("else", place)])
def test_what_is_no_file_is_no_head(ledger, path, plan, votes, make):
    make(head_of(path))
    spend(ledger, plan, votes, times=2)
    assert HeadFile(path).read() is None
    assert len(Ledger(path)) == 2


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"tacit-head/2 a 1 b c\n"])
def test_a_head_that_cannot_be_read_is_made_anew(ledger, path, plan, votes, content):
    spend(ledger, plan, votes, times=2)
    spent = ledger.spent()
    head_of(path).write_bytes(content)
    assert Ledger(path).spent() == spent
    spend(ledger, plan, votes)
    assert HeadFile(path).read() == Remembered(ledger.origin, 3, ledger.head)


def test_a_head_that_may_not_be_written_only_lags(ledger, path, plan, votes, monkeypatch):
    spend(ledger, plan, votes)
    monkeypatch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError("full")))
    spend(ledger, plan, votes, times=2)
    assert HeadFile(path).read().sequence == 1
    assert len(Ledger(path)) == 3


def test_the_head_of_another_ledger_is_an_exchange(ledger, path, plan, votes):
    other = path.with_name("other.ledger")
    foreign = Ledger(other, budget=Budget(2.0, 1e-5))
    spend(foreign, plan, votes)
    spend(ledger, plan, votes)
    head_of(path).write_bytes(head_of(other).read_bytes())
    with pytest.raises(LedgerDamaged, match="exchanged"):
        ledger.spent()
    with pytest.raises(LedgerDamaged), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")


def test_who_opened_before_others_spent_finds_a_roll_back(ledger, path, plan, votes):
    """All that it saw is still there: only the remembered head tells."""
    spend(ledger, plan, votes)
    origin, old = ledger.origin, path.read_bytes()
    spend(Ledger(path), plan, votes)
    path.write_bytes(old)
    for read in (
        ledger.statement,
        ledger.verify,
        ledger.snapshot,
        ledger.extract,
        ledger.entries,
        ledger.spent,
        lambda: ledger.entries(origin),
        lambda: ledger.collect(list),
        lambda: ledger.charge(plan, study="ab" * 32, purpose="answer", entrusted=["somebody"]),
    ):
        with pytest.raises(LedgerDamaged, match="rolled back"):
            read()


def test_a_charge_that_may_have_been_made_is_looked_for_in_no_rolled_back_ledger(
    ledger, path, plan
):
    told = {"plan": plan, "purpose": "answer", "entrusted": ["somebody"]}
    ledger.charge(study="ab" * 32, **told)
    old = path.read_bytes()
    Ledger(path).charge(study="cd" * 32, **told)
    path.write_bytes(old)
    with pytest.raises(LedgerDamaged, match="rolled back"):
        ledger.charge(study="ab" * 32, **told)


def test_a_release_reads_the_last_line_alone(ledger, path, plan, votes, monkeypatch):
    spend(ledger, plan, votes)
    monkeypatch.setattr(reading, "load", lambda *_: pytest.fail("read everything"))
    spend(ledger, plan, votes, times=2)
    assert Ledger(path).spent() == ledger.spent() > 0
    assert len(ledger) == 3
    assert not ledger.would_exceed()


def test_an_entry_before_the_last_is_known_by_its_hash(ledger, path, plan, votes):
    """Somebody who saw an old head goes on with a chain that holds it."""
    spend(ledger, plan, votes)
    spend(Ledger(path), plan, votes, times=2)
    assert len(ledger) == 3


def test_totals_are_those_of_all_lines(path, fakes):
    """The end alone and the whole chain say the same, whatever the costs."""
    ledger = Ledger(path, budget=Budget(8.0, 1e-5))
    for square in (0.1, 1e-17, 0.25, 3e-9):
        spend(ledger, Plan(fakes.Base(square), queries=1), [0])
        whole, end = ledger._store.read(), ledger._store.read_end()
        assert (end.totals, end.head, end.length) == (whole.totals, whole.head, whole.length)
        assert end.latest == whole.latest


@pytest.mark.parametrize("accountant", ["rdp", "fixed"])
def test_notes_of_begun_steps_read_what_is_new_alone(path, monkeypatch, accountant):
    training = Plan(NoisySteps(noise_multiplier=4.0), 6)
    terms = {"plans": [training]} if accountant == "fixed" else {"accountant": accountant}
    ledger = Ledger(path, budget=Budget(30, 1e-5), **terms)
    noted = NotedSteps(2, lambda _: monkeypatch.setattr(reading, "load", everything))
    with ledger.release(training, purpose="train", noted=noted) as grant:
        grant.release(Counting(1, steps=6))
        ledger.spent()
    monkeypatch.undo()
    assert [entry.kind for entry in ledger.entries()] == ["release", "began", "began", "began"]


def everything(*_):
    pytest.fail("read everything")


def test_a_charge_reads_everything_only_where_one_may_have_been_made(
    ledger, path, plan, monkeypatch
):
    told = {"purpose": "answer", "entrusted": ["somebody"]}
    first = ledger.charge(plan, study="ab" * 32, **told)
    monkeypatch.setattr(reading, "load", everything)
    second = ledger.charge(plan, study="cd" * 32, **told)
    assert (second.sequence, second.previous) == (2, first.hash)
    with pytest.raises(pytest.fail.Exception, match="everything"):
        ledger.charge(plan, study="ab" * 32, **told)
    assert len(ledger) == 2


def test_a_forged_line_does_not_make_a_study_look_paid_for(ledger, path, plan, votes):
    """Its text, columns and hash agree: only the chain tells, and it is asked."""
    told = {"purpose": "answer", "entrusted": ["somebody"]}
    ledger.charge(plan, study="ab" * 32, **told)
    spend(ledger, plan, votes)
    ((text,),) = sql(path, "SELECT payload FROM entries WHERE sequence = 1")[0]
    forged = text.replace("ab" * 32, "cd" * 32)
    columns = f"payload = '{forged}', hash = '{digest(forged)}'"
    edit(path, f"UPDATE entries SET {columns} WHERE sequence = 1")
    with pytest.raises(LedgerDamaged):
        ledger.charge(plan, study="cd" * 32, **told)


def test_a_charge_that_somebody_hid_is_paid_for_again(ledger, path, plan, votes):
    told = {"purpose": "answer", "entrusted": ["somebody"]}
    ledger.charge(plan, study="ab" * 32, **told)
    spend(ledger, plan, votes)
    before = ledger.spent()
    edit(path, "UPDATE entries SET kind = 'release' WHERE sequence = 1")
    ledger.charge(plan, study="ab" * 32, **told)
    assert ledger.spent() > before
    with pytest.raises(LedgerDamaged):
        ledger.verify()


def test_what_is_new_behind_a_head_is_all_that_is_returned(ledger, path, plan, votes, monkeypatch):
    spend(ledger, plan, votes)
    since, other = ledger.head, Ledger(path)
    assert ledger.entries(since) == ()
    spend(other, plan, votes)
    other.publish("ab" * 32, purpose="publish")
    with monkeypatch.context() as patched:
        patched.setattr(reading, "load", everything)
        new = ledger.entries(since)
    assert new == ledger.entries()[1:]
    assert ledger.entries(ledger.origin) == ledger.entries()
    with pytest.raises(LedgerDamaged, match="cut short"):
        ledger.entries("ab" * 32)
