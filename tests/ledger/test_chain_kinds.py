"""Kinds of entries: what each must say, what costs nothing, and what only a newer tacit knows."""

from __future__ import annotations

import itertools

import pytest
from ledger_shared import BUDGET, forge, spend

from tacit import __version__
from tacit.errors import LedgerDamaged, LedgerError
from tacit.ledger import Ledger
from tacit.ledger.chain import Totals
from tacit.ledger.store import Store
from tacit.ledger.terms import GaussianAccountant
from tacit.mechanisms import Plan
from tacit.report import render_report

HASH = "ab" * 32
FREE = {
    "kind": "publication",
    "purpose": "the student",
    "plan": {},
    "cost": 0.0,
    "confidence_delta": 0.0,
    "noise": "",
    "faults": [],
    "priced_by": {},
    "library": __version__,
    "about": {"sha256": HASH},
}


def charge(plan, **changes):
    paid = {"plan": plan.as_dict(), "cost": 0.125, "noise": ""}
    about = {"study": HASH, "entrusted": ["the aggregator"]}
    priced = {"accountant": "gaussian", "tacit": __version__}
    return {**FREE, "kind": "charge", **paid, "about": about, "priced_by": priced, **changes}


def append(path, line):
    return Store(path).append(lambda chain: line)


def test_what_costs_nothing_moves_no_total_and_no_place_in_a_list(path, plan, votes):
    book = Ledger(path, budget=BUDGET, plans=[plan, plan])
    append(path, FREE)
    assert (book.spent(), len(book)) == (0.0, 1)
    spend(book, plan, votes)
    spent = book.spent()
    released = book.entries()[-1]
    about = {"entry": released.hash, "steps": 4}
    append(path, {**FREE, "kind": "began", "about": about})
    append(path, FREE)
    assert book.spent() == spent
    spend(book, plan, votes)
    assert [entry.is_paid for entry in book.entries()] == [False, True, False, False, True]
    assert book.statement().entries == len(book) == 5
    assert book.statement().head == book.head
    assert book.would_exceed(plan)
    totals = {entry.totals["cost"] for entry in book.entries()[1:]}
    assert len(totals) == 1


@pytest.mark.parametrize("accountant", ["gaussian", "rdp"])
def test_a_ledger_of_notes_alone_has_spent_nothing(path, accountant, plan):
    book = Ledger(path, budget=BUDGET, accountant=accountant)
    append(path, FREE)
    assert book.spent() == book.statement().epsilon == 0.0
    assert not book.would_exceed(plan)
    page = render_report(book)
    assert "State after 0 releases" in page
    assert "publication" in page


def test_a_seal_lists_files_only_where_the_ledger_has_not_gone_on(ledger, plan, votes):
    files = {"student.tacit": HASH}
    before = ledger.head
    spend(ledger, plan, votes)
    assert ledger.seal(files, run="", after=before) is None
    seal = ledger.seal(files, run="", after=ledger.head, faults=["x was read"])
    assert (seal.kind, seal.cost, seal.about) == ("seal", 0.0, {"run": "", "files": files})
    assert ledger.head == seal.hash
    assert "x was read" in ledger.statement(head=seal.hash).warnings


def test_a_charge_counts_and_presumes_that_others_drew_the_noise(path, ledger, plan, votes):
    append(path, charge(plan))
    spend(ledger, plan, votes, times=2)
    assert ledger.would_exceed(plan)
    statement = ledger.statement()
    assert any("the aggregator drew the noise of entry 1" in said for said in statement.assumes)
    assert statement.noise == "csprng"


@pytest.mark.parametrize(
    "change",
    [
        {"cost": 0.125},
        {"confidence_delta": 1e-9},
        {"noise": "csprng"},
        {"plan": {"mechanism": "gnmax"}},
        {"about": {}},
        {"about": {"sha256": "short"}},
        {"about": {"sha256": HASH, "more": 1}},
        {"faults": "words"},
        {"faults": [3]},
        {"priced_by": []},
        {"kind": "began", "about": {"entry": HASH, "steps": 0}},
        {"kind": "began", "about": {"entry": HASH, "steps": True}},
        {"kind": "value", "about": {"entry": HASH, "values": [1.0]}},
        {"kind": "seal", "about": {"run": "", "files": {}}},
        {"kind": "seal", "about": {"run": "", "files": {"student.tacit": "short"}}},
        {"kind": "charge"},
        {"kind": "release"},
        {"kind": "release", "noise": "csprng", "about": {}},
    ],
    ids=str,
)
def test_a_line_that_says_what_its_kind_cannot_is_never_written(path, ledger, change):
    with pytest.raises(LedgerDamaged, match="has no valid"):
        append(path, {**FREE, **change})
    assert len(ledger) == 0


@pytest.mark.parametrize("change", [{"entrusted": []}, {"entrusted": [1]}, {"study": 3}])
def test_a_charge_names_its_study_and_who_draws(path, ledger, plan, change):
    line = charge(plan)
    with pytest.raises(LedgerDamaged, match="subject"):
        append(path, {**line, "about": {**line["about"], **change}})


def test_steps_belong_to_an_earlier_release(path, ledger, plan, votes):
    spend(ledger, plan, votes)
    began = {**FREE, "kind": "began", "about": {"entry": HASH, "steps": 1}}
    value = {**FREE, "kind": "value", "about": {"entry": HASH, "values": [0.5, 1.0]}}
    for note in (began, value):
        with pytest.raises(LedgerError, match="Nothing was written"):
            append(path, note)
    assert len(ledger) == 1
    forge(path, **began)
    with pytest.raises(LedgerDamaged, match="Entry 2"):
        Ledger(path)


@pytest.mark.parametrize("change", [{"kind": "gift"}, {"more": 1}, {"kind": None}], ids=str)
def test_what_is_not_known_is_refused_and_never_ignored(path, ledger, change):
    with pytest.raises(LedgerError, match="upgrade tacit") as refusal:
        append(path, {**FREE, **change})
    assert not isinstance(refusal.value, LedgerDamaged)


def test_a_later_schema_of_lines_is_refused(path, ledger, plan, votes):
    spend(ledger, plan, votes)
    forge(path, **{**FREE, "schema": 4})
    with pytest.raises(LedgerError, match="schema 4") as refusal:
        Ledger(path)
    assert not isinstance(refusal.value, LedgerDamaged)


@pytest.mark.parametrize("total", ["0x1p-2", "0x1p-3", "0x2p-3", "0x0p+0", 0.25, None])
def test_totals_that_are_not_the_sum_are_damage(path, ledger, plan, votes, total):
    """A reader of the last line alone would believe them; and there is one text for each sum."""
    spend(ledger, plan, votes)
    forge(path, totals={"cost": total, "confidence_delta": "0x0p+0"})
    if total == "0x1p-2":
        assert len(Ledger(path)) == 2
        return
    with pytest.raises(LedgerDamaged, match="Entry 2"):
        Ledger(path)


def test_a_ledger_never_writes_what_it_could_not_read(path, ledger, plan, votes, monkeypatch):
    monkeypatch.setattr(Totals, "as_dict", lambda totals: {"cost": str(next(count))})
    count = itertools.count()
    with pytest.raises(LedgerError, match="Nothing was written"):
        spend(ledger, plan, votes)
    monkeypatch.undo()
    assert len(Ledger(path)) == 0


def test_a_total_is_never_below_the_sum_by_rounding(path, fakes, votes):
    """Three times 0.1 is more than 0.3 in floats, and 0.3 of mu^2 is not enough for it."""
    plan = Plan(fakes.Base(0.1), 1)
    book = Ledger(path, budget=BUDGET)
    book._accountant = GaussianAccountant(BUDGET.delta, 0.3)
    spend(book, plan, [[1]], times=2)
    assert book.would_exceed(plan)
