"""Charges: a study whose noise others draw is paid for once, however often somebody asks."""

from __future__ import annotations

import multiprocessing

import pytest
from ledger_shared import spend

from tacit.errors import BudgetExceeded, InvalidArgument, LedgerDamaged, LedgerError
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, NoisyVotes, Plan

STUDY, OTHER = "ab" * 32, "cd" * 32
TOLD = {"purpose": "label scans", "entrusted": ["the coordinator"]}


def test_a_study_is_charged_once(ledger, plan):
    first = ledger.charge(plan, study=STUDY, **TOLD)
    spent = ledger.spent()
    assert ledger.charge(plan, study=STUDY, **TOLD) == first
    assert (first.kind, first.noise, first.about["study"]) == ("charge", "", STUDY)
    assert ledger.spent() == spent == pytest.approx(plan.epsilon(1e-5))
    assert len(ledger) == 1
    assert ledger.charge(plan, study=OTHER, **TOLD).sequence == 2
    assert ledger.spent() > spent


def test_charges_and_releases_share_one_budget(ledger, plan, votes):
    ledger.charge(plan, study=STUDY, **TOLD)
    spend(ledger, plan, votes, times=2)
    head = ledger.head
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        ledger.charge(plan, study=OTHER, **TOLD)
    assert ledger.head == head
    assert ledger.charge(plan, study=STUDY, **TOLD).sequence == 1


@pytest.mark.parametrize(
    "change", [{"plan": Plan(GNMax(41), 5)}, {"entrusted": ["somebody else"]}], ids=str
)
def test_one_study_has_one_plan_and_one_receiver(ledger, plan, change):
    ledger.charge(plan, study=STUDY, **TOLD)
    with pytest.raises(LedgerError, match="another plan is another study"):
        ledger.charge(**{"plan": plan, "study": STUDY, **TOLD, **change})
    assert len(ledger) == 1


@pytest.mark.parametrize(
    "change",
    [{"study": "short"}, {"entrusted": []}, {"entrusted": "x"}, {"entrusted": [""]}, {"plan": 3}],
    ids=str,
)
def test_what_cannot_be_charged_is_refused(ledger, plan, change):
    with pytest.raises(InvalidArgument):
        ledger.charge(**{"plan": plan, "study": STUDY, **TOLD, **change})
    assert len(ledger) == 0


def test_a_ledger_that_was_put_back_charges_nothing(ledger, path, plan, tmp_path):
    ledger.charge(plan, study=STUDY, **TOLD)
    path.unlink()
    path.with_name(f"{path.name}-head").unlink()
    again = Ledger(path, budget=ledger.budget, dataset="scans", unit="person")
    again.charge(plan, study=STUDY, **TOLD)
    with pytest.raises(LedgerDamaged, match="replaced"):
        ledger.charge(plan, study=STUDY, **TOLD)


@pytest.mark.parametrize(("mechanism", "level"), [(GNMax(40), "csprng"), (NoisyVotes(40), "exact")])
def test_a_statement_says_which_noise_the_others_draw(path, mechanism, level):
    book = Ledger(path, budget=Budget(3, 1e-5))
    book.charge(Plan(mechanism, 5), study=STUDY, **TOLD)
    assert book.statement().noise == level
    assert "the coordinator drew the noise of entry 1" in str(book.statement())


def test_a_statement_says_how_many_teachers_a_unit_may_reach(path):
    book = Ledger(path, budget=Budget(9, 1e-5))
    book.charge(Plan(NoisyVotes(40, votes_per_unit=3), 5), study=STUDY, **TOLD)
    assert "records reached at most 3 teachers" in str(book.statement())
    assert book.entries()[0].plan["parameters"] == {"sigma": 40.0, "votes_per_unit": 3}


def _charge(path, plan, start, told):
    start.wait()
    try:
        told.put(Ledger(path).charge(plan, study=STUDY, **TOLD).hash)
    except Exception as error:  # the parent says what it was
        told.put(repr(error))


def test_of_racing_charges_one_is_written(ledger, path, plan):
    """Both processes go to the write lock at once; the second one finds what the first wrote."""
    context = multiprocessing.get_context("fork")
    start, told = context.Barrier(4), context.Queue()
    racers = [context.Process(target=_charge, args=(path, plan, start, told)) for _ in range(4)]
    for racer in racers:
        racer.start()
    hashes = {told.get(timeout=60) for _ in racers}
    for racer in racers:
        racer.join()
    assert hashes == {ledger.head}
    assert len(ledger) == 1
