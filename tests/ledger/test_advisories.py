"""Which older ledgers an advisory may concern."""

from __future__ import annotations

import shutil

import pytest
from ledger_shared import spend
from test_store_migration import SECOND, write_schema_1

from tacit.ledger import Budget, Ledger, advisory, ledger, terms

BUDGET = Budget(2.6, 1e-5)


@pytest.fixture
def old(path, monkeypatch):
    """A ledger as 0.2 made it, whose header says nothing of how records are read."""
    monkeypatch.setattr(ledger, "__version__", "0.2.0")
    with monkeypatch.context() as patched:
        header = terms.Terms.as_header
        patched.setattr(
            terms.Terms,
            "as_header",
            lambda self: {k: v for k, v in header(self).items() if k != "record_rules"},
        )
        return Ledger(path, budget=BUDGET)


def test_a_ledger_of_02_says_when_it_may_be_concerned(old, plan, votes):
    assert (old.record_rules, advisory(old)) == (1, "")  # nothing was released
    spend(old, plan, votes)
    said = advisory(old)
    assert said.startswith("1 paid entry was made before tacit 0.3. If records came from a data")
    assert "SECURITY.md" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("source", "concerned"),
    [
        ("npz:scans.npz", True),
        *((each, False) for each in ("csv:a.csv", "parquet:a", "digits", "mnist:data", "scans")),
    ],
)
def test_where_the_source_is_known_it_decides(old, plan, votes, source, concerned):
    spend(old, plan, votes)
    said = advisory(old, source)
    assert bool(said) == concerned
    assert not concerned or f"The records came from {source}: one record" in said


def test_a_charge_of_a_site_may_be_concerned_and_a_note_is_not(old, plan):
    old.publish("ab" * 32, purpose="publish")
    assert not advisory(old)
    old.charge(plan, purpose="answer", study="ab" * 32, entrusted=["somebody"])
    assert "at a site of a study, Parquet" in advisory(old)


@pytest.mark.parametrize("version", ["0.3.0", "0.3.0.dev1", "0.10.2", "1.0"])
def test_entries_of_03_on_an_older_ledger_are_not(old, plan, votes, monkeypatch, version):
    monkeypatch.setattr(ledger, "__version__", version)
    spend(old, plan, votes)
    assert not advisory(old)
    monkeypatch.setattr(ledger, "__version__", "what")
    spend(old, plan, votes)
    assert advisory(old).startswith("1 paid entry")


def test_a_new_ledger_is_not(path, plan, votes):
    new = Ledger(path, budget=BUDGET)
    spend(new, plan, votes)
    assert (new.record_rules, advisory(new)) == (2, "")


def test_ledgers_of_older_schemas_are(path):
    shutil.copy(SECOND, path)
    assert advisory(Ledger(path)).startswith("2 paid entries were")
    path.unlink()
    write_schema_1(path)
    assert advisory(Ledger(path)).startswith("2 paid entries were")
