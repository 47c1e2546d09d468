"""All of a ledger is verified with one entry in memory at a time."""

from __future__ import annotations

import gc

import pytest
from ledger_shared import edit, forge, spend

from tacit.errors import LedgerDamaged
from tacit.ledger import Budget, Entry, Ledger, NotedSteps
from tacit.mechanisms import NoisySteps, Plan


@pytest.fixture
def mixed(path, plan, votes):
    """A release whose steps are noted, with others in between."""
    ledger = Ledger(path, budget=Budget(30, 1e-5))
    training = Plan(NoisySteps(noise_multiplier=4.0), 6)
    with ledger.release(training, purpose="train", noted=NotedSteps(1, lambda _: None)) as grant:
        steps = iter(grant._Grant__steps["steps"])
        for _ in range(5):
            next(steps)
            spend(ledger, plan, votes)
            ledger.publish("ab" * 32, purpose="publish")
    return ledger


def test_one_by_one_finds_what_is_found_in_all(mixed):
    whole = mixed._store.read()
    wanted = whole.entries[3].hash
    chain, entries = mixed._store.walk((wanted, "0" * 64), list)
    assert entries == whole.entries
    assert (chain.totals, chain.head, chain.length) == (whole.totals, whole.head, whole.length)
    assert (chain.latest, chain.n_paid) == (whole.latest, whole.n_paid)
    assert chain.holds(wanted)
    assert not chain.holds("0" * 64)
    assert len(chain.entries) == 1
    assert len(chain.kinds) <= 3


def alive():
    return sum(type(each) is Entry for each in gc.get_objects())


def test_one_entry_is_held_at_a_time(mixed):
    before = alive()

    def most(entries):
        return max(alive() - before for _ in entries)

    assert mixed.collect(most) <= 2


def test_what_nobody_looks_at_is_verified_as_well(mixed, path):
    assert mixed.collect(next).sequence == 1
    edit(path, "UPDATE entries SET purpose = 'other' WHERE sequence = 5")
    with pytest.raises(LedgerDamaged, match="Entry 5 "):
        mixed.collect(next)


def test_a_note_about_what_is_no_release_is_damage(mixed, path):
    """Its subject stands far before: it is looked up, and must be a release."""
    entries = mixed.entries()
    note = next(entry for entry in reversed(entries) if entry.kind == "began")
    told = {
        "kind": "began",
        "cost": 0.0,
        "plan": {},
        "priced_by": {},
        "noise": "",
        "time": entries[-1].time,
        "totals": dict(entries[-1].totals),
    }
    forge(path, **told, about=dict(note.about))
    assert Ledger(path).verify() != entries[-1].hash
    publication = next(entry for entry in entries if entry.kind == "publication")
    forge(path, **told, about={**note.about, "entry": publication.hash})
    with pytest.raises(LedgerDamaged, match="does not continue"):
        Ledger(path).verify()


def test_a_head_from_elsewhere_must_be_there(mixed):
    heads = [entry.hash for entry in mixed.entries()]
    assert mixed.verify(heads[2]) == heads[-1]
    assert mixed.collect(lambda entries: len(list(entries)), head=heads[2]) == len(heads)
    for ask in (mixed.verify, lambda head: mixed.collect(list, head)):
        with pytest.raises(LedgerDamaged, match="cut short"):
            ask("0" * 64)
