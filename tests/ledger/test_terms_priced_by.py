"""Every entry records which accountant priced it, in which version."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from ledger_shared import BUDGET, spend, sql

from tacit import __version__
from tacit.ledger import Budget, Ledger, ledger, terms
from tacit.mechanisms import NoisySteps, Plan
from tacit.report import render_report

RUN = Plan(NoisySteps(4.0, 0.1), 10)


@pytest.mark.parametrize("accountant", ["gaussian", "rdp"])
def test_our_own_accountants_are_named_with_our_version(path, plan, votes, accountant):
    book = Ledger(path, budget=BUDGET, accountant=accountant)
    spend(book, plan, votes)
    assert book.entries()[0].priced_by == {"accountant": accountant, "tacit": __version__}
    assert json.loads(sql(path, "SELECT payload FROM header")[0][0][0])["priced_by"] is None


def test_a_list_names_the_library_that_priced_it(path):
    book = Ledger(path, budget=Budget(3.0, 1e-5), plans=[RUN])
    with book.release(RUN, purpose="train"):
        pass
    priced = {"accountant": "pld", "tacit": __version__}
    assert book.entries()[0].priced_by == {**priced, "dp-accounting": version("dp-accounting")}
    page = render_report(book)
    assert f"pld (dp-accounting {version('dp-accounting')}, tacit {__version__})" in page


def test_a_list_keeps_the_versions_that_priced_it(path, monkeypatch):
    """It was priced when its ledger was created, not when its plans are released."""
    first = Ledger(path, budget=Budget(3.0, 1e-5), plans=[RUN, RUN])
    monkeypatch.setattr(ledger, "__version__", "9.9")
    monkeypatch.setattr(terms, "__version__", "9.9")
    monkeypatch.setattr(terms, "priced_with", lambda accountant: {"dp-accounting": "9.9"})
    book = Ledger(path)
    with book.release(RUN, purpose="train"):
        pass
    (entry,) = first.entries()
    assert entry.library == "9.9"
    assert entry.priced_by["tacit"] == __version__
    assert entry.priced_by["dp-accounting"] == version("dp-accounting")


def test_a_list_of_schema_2_names_what_is_known_of_its_price(path, plan):
    shutil.copy(Path(__file__).with_name("schema-2-fixed.sqlite"), path)
    book = Ledger(path)
    with book.release(plan, purpose="second"):
        pass
    assert book.entries()[1].priced_by == {"accountant": "gaussian", "tacit": "0.1.0"}
