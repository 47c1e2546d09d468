"""The door: what is refused, what is charged, and what the ledger says about itself."""

from __future__ import annotations

import copy
import math
import pickle
import shutil
import threading

import numpy as np
import pytest
from ledger_shared import BUDGET, gaussian_delta, spend

from tacit.errors import BudgetExceeded, InvalidArgument, LedgerDamaged, LedgerUnavailable
from tacit.ledger import LARGE_DELTA, Budget, Ledger, store
from tacit.ledger import ledger as ledger_module
from tacit.mechanisms import GNMax, Plan
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise


def test_an_empty_ledger_has_spent_nothing(ledger):
    assert ledger.spent() == 0.0
    assert ledger.remaining() == 2.6
    assert ledger.entries() == ()
    assert len(ledger) == 0
    assert ledger  # an empty ledger is still a ledger


def test_releases_are_charged_until_the_budget_is_reached(ledger, plan, votes):
    for count in (1, 2, 3):
        assert not ledger.would_exceed(plan)
        labels = spend(ledger, plan, votes)
        assert len(labels) == 100
        spent = ledger.spent()
        assert gaussian_delta(spent, math.sqrt(count * 0.125)) == pytest.approx(1e-5, rel=1e-6)
        assert ledger.remaining() == 2.6 - spent
        assert ledger.statement().epsilon == spent
    assert ledger.would_exceed(plan)
    with pytest.raises(BudgetExceeded, match=r"of 2\.6 at delta=1e-05") as refusal:
        spend(ledger, plan, votes)
    assert "2.50" in str(refusal.value)  # what is spent
    assert "2.94" in str(refusal.value)  # what it would become
    assert len(ledger) == 3
    assert not ledger.would_exceed(Plan(GNMax(40.0), queries=1))


def test_the_entry_says_what_was_paid_for(ledger, plan, votes):
    genesis = ledger.head
    release = spend(ledger, plan, votes)
    (entry,) = ledger.entries()
    assert release.entry == entry.hash == ledger.head
    assert (entry.sequence, entry.previous, entry.purpose) == (1, genesis, "test")
    assert entry.plan == plan.as_dict()
    assert (entry.cost, entry.confidence_delta, entry.noise) == (0.125, 0.0, "csprng")
    assert entry.time.endswith("+00:00")


def test_the_entry_is_on_disk_before_any_noise_exists(ledger, path, plan, votes, monkeypatch):
    seen = []

    class Watched:
        def __init__(self):
            seen.append(len(Ledger(path)))
            raise RuntimeError("no entropy")

    monkeypatch.setattr(ledger_module, "SecureNoise", Watched)
    with pytest.raises(RuntimeError, match="no entropy"), ledger.release(plan, purpose="test"):
        pytest.fail("a grant was given")
    assert seen == [1]
    assert ledger.spent() > 0


def test_nothing_is_charged_before_the_block_is_entered(ledger, plan):
    ledger.release(plan, purpose="test")
    assert len(ledger) == 0


def test_no_entry_no_label(ledger, plan, votes, monkeypatch):
    def refuse(*_, **__):
        raise LedgerUnavailable("the disk is on fire")

    monkeypatch.setattr(store.Store, "append", refuse)
    released = []
    with pytest.raises(LedgerUnavailable), ledger.release(plan, purpose="test") as grant:
        released.append(grant.release(votes))
    assert released == []


def test_an_error_in_the_block_stays_charged(ledger, plan):
    with pytest.raises(ZeroDivisionError), ledger.release(plan, purpose="test"):
        raise ZeroDivisionError
    assert len(ledger) == 1
    assert ledger.spent() > 0


@pytest.mark.parametrize("purpose", ["", "  ", None, 7, "two\nlines"])
def test_a_release_needs_a_purpose(ledger, plan, purpose):
    with pytest.raises(InvalidArgument, match="purpose="):
        ledger.release(plan, purpose=purpose)


@pytest.mark.parametrize("plan", [None, GNMax(40.0), "plan", {"queries": 1}])
def test_only_a_plan_is_priced(ledger, plan):
    for use in (lambda: ledger.release(plan, purpose="test"), lambda: ledger.would_exceed(plan)):
        with pytest.raises(InvalidArgument, match="plan="):
            use()


def test_noise_of_unknown_origin_is_refused_before_charging(ledger, plan):
    others = [np.random.default_rng(0), 7, GrantedNoise(SecureNoise(), "0"), SecureNoise]
    for noise in others:
        with pytest.raises(InvalidArgument, match="noise="):
            ledger.release(plan, purpose="test", noise=noise)
    assert len(ledger) == 0


def test_a_mechanism_of_unknown_noise_is_refused_before_charging(ledger, fakes):
    with pytest.raises(InvalidArgument, match="'perfect'"):
        ledger.release(Plan(fakes.Loud(), queries=1), purpose="test")


def test_parameters_that_cannot_be_recorded_are_refused_before_charging(ledger, fakes):
    mechanism = fakes.Telltale(where=object())
    with (
        pytest.raises(InvalidArgument, match="plain data"),
        ledger.release(Plan(mechanism, queries=1), purpose="test"),
    ):
        pytest.fail("a grant was given")
    assert len(ledger) == 0


def test_secure_noise_may_be_brought_along(ledger, plan, votes):
    assert spend(ledger, plan, votes, noise=SecureNoise()).secure
    assert ledger.statement().noise == "csprng"


def test_insecure_noise_is_recorded_forever(ledger, plan, votes):
    first = spend(ledger, plan, votes, noise=InsecureNoise(3))
    assert not first.secure
    assert ledger.entries()[0].noise == "insecure-seeded"
    spend(ledger, plan, votes)
    statement = ledger.statement()
    assert statement.noise == "insecure-seeded"
    assert "1 of 2 entries" in statement.warnings[0]
    assert "NOT private: seeded noise" in str(statement)


def test_the_weakest_noise_is_stated(path, fakes):
    ledger = Ledger(path, budget=BUDGET, accountant="rdp")
    assert ledger.statement().noise == "exact"
    spend(ledger, Plan(fakes.Laplace(0.001), queries=1), [0])
    assert ledger.statement().noise == "exact"
    spend(ledger, Plan(fakes.Base(0.001), queries=1), [0])
    assert ledger.statement().noise == "csprng"


# Verification


def test_the_origin_stays_and_is_nobody_elses(ledger, plan, votes, tmp_path):
    before = ledger.origin
    assert before == ledger.head
    spend(ledger, plan, votes, times=2)
    assert ledger.origin == before != ledger.head
    assert Ledger(tmp_path / "other.ledger", budget=BUDGET).origin != before


def test_verify_returns_the_head_and_knows_every_earlier_one(ledger, plan, votes):
    heads = [ledger.verify()]
    for _ in range(2):
        spend(ledger, plan, votes)
        heads.append(ledger.verify())
    assert len(set(heads)) == 3
    for head in heads:
        assert ledger.verify(head=head) == heads[-1]
    with pytest.raises(LedgerDamaged, match="rolled back"):
        ledger.verify(head="0" * 64)


def test_a_roll_back_is_found_by_the_head_and_by_whoever_was_there(ledger, path, plan, votes):
    spend(ledger, plan, votes)
    old = path.with_name("old")
    shutil.copy(path, old)
    spend(ledger, plan, votes)
    statement = ledger.statement()
    shutil.copy(old, path)
    with pytest.raises(LedgerDamaged, match="rolled back"):
        Ledger(path)  # the head beside it remembers the second entry
    path.with_name("run.ledger-head").unlink()
    fresh = Ledger(path)
    fresh.verify()  # the chain alone cannot tell
    with pytest.raises(LedgerDamaged, match="rolled back"):
        fresh.verify(head=statement.head)
    for use in (ledger.spent, ledger.verify, lambda: spend(ledger, plan, votes)):
        with pytest.raises(LedgerDamaged, match="rolled back"):
            use()


def test_another_ledger_under_the_same_name_is_noticed(ledger, path, plan, votes):
    path.unlink()
    Ledger(path, budget=BUDGET, dataset="scans", unit="person")
    with pytest.raises(LedgerDamaged, match="replaced"):
        spend(ledger, plan, votes)


# Copies


def test_copies_and_clones_are_the_ledger_itself(ledger):
    from sklearn.base import clone

    assert copy.copy(ledger) is ledger
    assert copy.deepcopy({"ledger": ledger})["ledger"] is ledger
    assert clone(ledger) is ledger


def test_a_pickle_is_the_path_and_opens_the_same_file(ledger, path, plan, votes):
    twin = pickle.loads(pickle.dumps(ledger))
    spend(twin, plan, votes)
    assert ledger.head == twin.head
    path.unlink()
    with pytest.raises(InvalidArgument, match="budget"):
        pickle.loads(pickle.dumps(ledger))


def test_the_repr_names_path_budget_and_unit(ledger, path):
    assert repr(ledger) == (
        f"Ledger({str(path)!r}, budget=Budget(epsilon=2.6, delta=1e-05), unit='person')"
    )
    assert (ledger.path, ledger.reserved_delta, ledger.dataset) == (str(path), 0.0, "scans")


def test_threads_share_one_ledger(path, fakes):
    ledger = Ledger(path, budget=BUDGET)
    plan = Plan(fakes.Base(0.01), queries=1)
    limit = math.floor(ledger._accountant.capacity / 0.01)
    failures, releases = [], []

    def work():
        while True:
            try:
                releases.append(spend(ledger, plan, [0]).entry)
                ledger.spent()
            except BudgetExceeded:
                return
            except Exception as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(releases) == len(set(releases)) == len(ledger) == limit


def test_a_delta_that_nobody_compared_is_told_by_the_ledger_itself(tmp_path):
    """Whoever reads the file alone, a privacy officer, must see it, too."""
    allowed = Ledger(tmp_path / "allowed", budget=BUDGET, allow_large_delta=True)
    assert allowed.statement().warnings == (LARGE_DELTA,)
    assert Ledger(tmp_path / "usual", budget=BUDGET).statement().warnings == ()


def test_the_statement_repeats_the_terms(path, plan, votes):
    ledger = Ledger(
        path,
        budget=BUDGET,
        unit="patient, at most 40 records",
        dataset="scans",
        n_units=10**6,
        allow_large_delta=True,
    )
    spend(ledger, plan, votes)
    statement = ledger.statement()
    assert statement.kind == "worst-case"
    assert (statement.epsilon, statement.delta) == (ledger.spent(), 1e-5)
    assert (statement.unit, statement.dataset) == ("patient, at most 40 records", "scans")
    assert statement.adjacency == "add or remove one patient, at most 40 records"
    assert (statement.entries, statement.head) == (1, ledger.head)
    assert (statement.budget, statement.accountant) == (BUDGET, "gaussian")
    assert any("1/1000000" in warning for warning in statement.warnings)


def test_the_price_of_a_fixed_list_is_counted_once(path, fakes):
    first, second = (Plan(fakes.Base(square), queries=1) for square in (0.01, 0.02))
    ledger = Ledger(path, budget=Budget(2.0, 1e-5), plans=[first, second])
    assert 0 < ledger.price(first) == ledger.price(first, second) <= 2.0
    spend(ledger, first, [0])
    assert ledger.spent() == ledger.price(first, second)
