"""A statement sums up one entry at a time, and says what all of them together say."""

from __future__ import annotations

import gc
import math
import shutil
from pathlib import Path

import pytest
from ledger_shared import edit, forge, spend

from tacit.errors import LedgerDamaged
from tacit.ledger import Budget, Entry, Ledger, NotedSteps
from tacit.ledger.chain import NOISE_LEVELS, entrusted, steps_of
from tacit.ledger.chain import at_least as ceiling
from tacit.ledger.statement import Statement
from tacit.ledger.tally import Tally
from tacit.ledger.warnings import LARGE_DELTA, ONE_RUN
from tacit.mechanisms import GNMax, LNMax, NoisySteps, Plan, assumptions
from tacit.noise import InsecureNoise

SECOND = Path(__file__).with_name("schema-2.sqlite")
SECOND_FIXED = Path(__file__).with_name("schema-2-fixed.sqlite")
STUDY = {"purpose": "a study", "entrusted": ["the university", "the registry"]}


def mixed(path, plan, votes):
    """Releases of two kinds with faults and seeded noise, charges, publications, begun steps."""
    ledger = Ledger(path, budget=Budget(30, 1e-5), unit="person", dataset="scans")
    training = Plan(NoisySteps(noise_multiplier=4.0), 6)
    with ledger.release(training, purpose="train", noted=NotedSteps(1, lambda _: None)) as grant:
        steps = iter(grant._Grant__steps["steps"])
        for number in range(5):
            next(steps)
            spend(ledger, plan, votes, faults=[f"fault {number % 2}", ONE_RUN])
            ledger.publish("ab" * 32, purpose="publish", faults=["an early copy"])
            ledger.charge(plan, study=f"{number}{'c' * 63}", **STUDY)
    spend(ledger, plan, votes, noise=InsecureNoise(0))
    return ledger


def renyi(path, plan, votes):
    ledger = Ledger(
        path, budget=Budget(5, 0.2), accountant="rdp", n_units=10, allow_large_delta=True
    )
    spend(ledger, Plan(LNMax(gamma=0.01), 100), votes, times=2)
    return ledger


def listed(path, plan, votes):
    plans = [plan, Plan(GNMax(sigma=50.0), queries=100)]
    ledger = Ledger(path, budget=Budget(5, 1e-5), plans=plans)
    spend(ledger, plans[0], votes)
    return ledger


def empty(path, plan, votes):
    return Ledger(path, budget=Budget(5, 1e-5), allow_large_delta=True)


def second(path, plan, votes):
    shutil.copy(SECOND, path)
    ledger = Ledger(path)
    spend(ledger, Plan(GNMax(sigma=400.0), queries=100), votes)
    return ledger


def second_fixed(path, plan, votes):
    shutil.copy(SECOND_FIXED, path)
    return Ledger(path)


@pytest.fixture(params=[mixed, renyi, listed, empty, second, second_fixed])
def book(request, path, plan, votes):
    return request.param(path, plan, votes)


def said_of_all(ledger, entries, head):
    """Build the statement from a list of entries: each part by itself, from all of them."""
    paid = [entry for entry in entries if entry.is_paid]
    noise = ["exact"] + [entry.noise or "csprng" for entry in paid]
    total = sum(steps_of(entry.cost) for entry in entries)
    accountant = ledger._terms.make_accountant()
    epsilon = min(float(accountant.epsilon(ceiling(total))), ledger.budget.epsilon) if paid else 0.0
    levels = [entry.noise for entry in entries if entry.noise]
    faults = [fault for entry in entries for fault in entry.faults]
    seeded = levels.count("insecure-seeded")
    warnings = [ONE_RUN] if ONE_RUN in faults else []
    if seeded:
        warnings.append(f"{seeded} of {len(levels)} entries used seeded noise and are not private")
    if ledger._terms.large_delta:
        warnings.append(
            "delta is at least 1/10, one over the number of units; this was allowed on purpose, "
            "and permits one unit to be published in full"
        )
    elif ledger.allow_large_delta:
        warnings.append(LARGE_DELTA)
    return Statement(
        kind="worst-case",
        epsilon=epsilon,
        delta=ledger.budget.delta,
        unit=ledger.unit,
        accountant=accountant.bound,
        noise=max(noise, key=NOISE_LEVELS.index),
        dataset=ledger.dataset,
        budget=ledger.budget,
        entries=len(entries),
        head=head,
        assumes=(
            *assumptions(entry.plan for entry in paid),
            *(entrusted(entry) for entry in paid if entry.kind == "charge"),
        ),
        warnings=tuple(dict.fromkeys([*warnings, *faults])),
    )


def test_a_statement_says_what_all_entries_together_say(book):
    entries = book.entries()
    assert book.statement() == said_of_all(book, entries, book.head)
    assert str(book.statement()) == str(said_of_all(book, entries, book.head))
    assert book.snapshot().statement == book.statement()


def test_so_does_the_statement_of_every_earlier_head(book):
    entries = book.entries()
    heads = [book.origin, *(entry.hash for entry in entries)]
    for length, head in enumerate(heads):
        assert book.statement(head) == said_of_all(book, entries[:length], head)


def test_statement_and_entries_of_a_survey_come_from_one_read(book):
    statement, entries = book.survey(tuple)
    assert (statement, entries) == (book.statement(), book.entries())


def test_a_survey_that_looks_at_nothing_is_about_all(book):
    assert book.survey(lambda _: None)[0] == book.statement()


def test_a_total_is_summed_without_rounding(ledger, path, plan, votes):
    spend(ledger, plan, votes, times=3)
    whole = math.fsum(entry.cost for entry in ledger.entries())
    assert ledger.statement().epsilon == ledger._accountant.epsilon(whole)


def alive():
    return sum(type(each) is Entry for each in gc.get_objects())


def test_one_entry_is_held_at_a_time(path, plan, votes, monkeypatch):
    book = mixed(path, plan, votes)
    head = book.entries()[-3].hash
    held, add = [], Tally.add
    before = alive()

    def watched(tally, entry):
        add(tally, entry)
        held.append(alive() - before)

    monkeypatch.setattr(Tally, "add", watched)
    book.statement()
    book.statement(head)
    book.survey(lambda _: None)
    assert len(held) > 40
    assert max(held) <= 2


@pytest.mark.parametrize("ask", [Ledger.statement, lambda book: book.survey(next)])
def test_nothing_of_the_chain_is_left_unread(path, plan, votes, ask):
    book = mixed(path, plan, votes)
    edit(path, "UPDATE entries SET purpose = 'other' WHERE sequence = 5")
    with pytest.raises(LedgerDamaged, match="Entry 5 "):
        ask(book)


def test_what_stands_behind_an_earlier_head_is_verified_as_well(path, plan, votes):
    book = mixed(path, plan, votes)
    head = book.entries()[2].hash
    edit(path, "UPDATE entries SET purpose = 'other' WHERE sequence = 5")
    with pytest.raises(LedgerDamaged, match="Entry 5 "):
        book.statement(head)


def test_a_head_that_is_not_in_it_has_no_statement(ledger, plan, votes):
    spend(ledger, plan, votes)
    with pytest.raises(LedgerDamaged, match="Expected the ledger to hold head="):
        ledger.statement("0" * 64)


def test_what_was_forged_onto_the_end_has_no_statement(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    forge(path, cost=1.0)  # its totals do not say so
    with pytest.raises(LedgerDamaged):
        ledger.statement()
