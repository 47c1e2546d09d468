"""The sanitised statement: its arithmetic, its refusals, and the ex-post guarantee.

Both: docs/theory/smooth-sensitivity.md#the-ex-post-statement.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from ledger_shared import conversion
from sanitised_shared import BETA, DELTA, ORDER, RESERVED, SIGMA, SIGMA_LOG, sanitiser
from scipy import stats

from tacit.errors import BudgetExceeded, GrantError, InvalidArgument
from tacit.ledger import Budget, Ledger, Statement, sanitised_statement
from tacit.ledger.sanitised import sanitised_at
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    LNMax,
    Plan,
    Release,
    SecretCost,
    secret_cost_of,
)
from tacit.mechanisms.released_once import MadeUp, repeated
from tacit.noise import InsecureNoise

OWN = ORDER / 2 * (BETA**2 / SIGMA_LOG**2 + 1 / SIGMA**2)
HALF = {"delta_value": RESERVED / 4, "delta_scale": RESERVED / 4}
VOTES = np.tile([[990, 5, 5]], (2000, 1))  # clear enough for a sanitised cost to pay
MECHANISM = GNMax(60.0)
ROOM = Budget(20.0, DELTA)


@pytest.fixture
def book(path):
    """A ledger at one order, with a reserve for confidence bounds."""
    return Ledger(
        path,
        budget=ROOM,
        reserved_delta=RESERVED,
        unit="person",
        accountant="rdp",
        order=ORDER,
    )


def labelled(book, mechanism=MECHANISM, votes=VOTES, **options):
    plan = Plan(mechanism, len(votes), n_teachers=int(votes[0].sum()), n_classes=votes.shape[1])
    with book.release(plan, purpose="labels", **options) as grant:
        return grant.release(votes)


def publish(book, sanitise, secret, noise=None):
    with book.release(Plan(sanitise, 1), purpose="cost", noise=noise) as grant:
        return grant.release(secret)


def sanitised(book, labels, noise=None, votes=VOTES, **changed):
    """Sanitise the cost of GNMax labels; return the release and the secret."""
    made = sanitiser(labels.entry, **changed)
    secret = secret_cost_of(labels.mechanism, votes, labels, made.order, made.beta)
    return publish(book, made, secret, noise), secret


def upper_bound(release):
    """By hand: released cost plus quantile, scale and all, but for grids of 2^-20."""
    log_scale, value = np.asarray(release)
    scale = math.exp(log_scale + stats.norm.isf(RESERVED / 2) * SIGMA_LOG)
    return value + stats.norm.isf(RESERVED / 2) * SIGMA * scale


def test_epsilon_is_the_formula(book):
    release, secret = sanitised(book, labelled(book), InsecureNoise(0))
    statement = sanitised_statement(book, [release])
    expected = upper_bound(release) + OWN + conversion(ORDER, DELTA - RESERVED)
    assert statement.epsilon == pytest.approx(expected, rel=1e-5)
    assert statement.epsilon > secret.value + OWN + conversion(ORDER, DELTA - RESERVED)


def test_statement_shows_the_worst_case_at_the_same_delta(book):
    release, _ = sanitised(book, labelled(book))
    statement = sanitised_statement(book, [release])
    worst = book.statement()
    assert (statement.kind, statement.delta) == ("sanitised", DELTA)
    assert statement.worst_case_epsilon == worst.epsilon == book.spent()
    assert statement.epsilon < 0.6 * statement.worst_case_epsilon
    assert (statement.head, statement.entries) == (book.head, 3)  # and the values, noted
    assert sanitised_at(book) == sanitised_at(Ledger(book.path), book.head) == statement
    assert (statement.unit, statement.noise) == ("person", "csprng")
    assert Statement.from_json(statement.to_json()) == statement
    assert "ex post" in str(statement)
    assert f"{RESERVED:g}" in statement.accountant


def test_seeded_noise_marks_the_statement(book):
    release, _ = sanitised(book, labelled(book), InsecureNoise(0))
    statement = sanitised_statement(book, [release])
    assert statement.noise == "insecure-seeded"
    assert statement.warnings


def test_entries_that_are_not_covered_count_with_their_worst_case(book):
    release, _ = sanitised(book, labelled(book), InsecureNoise(0))
    alone = sanitised_statement(book, [release]).epsilon
    labelled(book, GNMax(80.0))
    both = sanitised_statement(book, [release])
    assert both.epsilon - alone == pytest.approx(2000 * ORDER / 80**2)
    assert both.entries == 4


def test_two_covered_entries(book):
    first, second = labelled(book), labelled(book, GNMax(80.0))
    releases = [sanitised(book, labels, **HALF)[0] for labels in (first, second)]
    together = sanitised_statement(book, releases).epsilon
    bounds = [release.mechanism.read(np.asarray(release)).upper_bound for release in releases]
    expected = sum(bounds) + 2 * OWN + conversion(ORDER, DELTA - RESERVED)
    assert together == pytest.approx(expected, rel=1e-9)


def test_confident_gnmax(book):
    labels = labelled(book, ConfidentGNMax(700.0, 300.0, 60.0))
    release, secret = sanitised(book, labels)
    statement = sanitised_statement(book, [release])
    expected = upper_bound(release) + OWN + conversion(ORDER, DELTA - RESERVED)
    assert statement.epsilon == pytest.approx(expected, rel=1e-5)
    assert statement.epsilon < statement.worst_case_epsilon
    assert secret.value > 0


def test_a_covered_entry_counts_with_no_more_than_its_worst_case(book):
    """Close votes and few queries: the upper bound is worse than what any votes would cost."""
    votes = np.array([[510, 490, 0]])
    release, _ = sanitised(book, labelled(book, GNMax(60.0), votes), votes=votes)
    assert upper_bound(release) > ORDER / 60**2
    expected = ORDER / 60**2 + OWN + conversion(ORDER, DELTA - RESERVED)
    assert sanitised_statement(book, [release]).epsilon == pytest.approx(expected)


def test_the_per_query_composite_does_not_cap_a_realised_cost(book):
    """It averages over outcomes; min(realised cost, composite) would be no valid cost.

    With a threshold out of reach few queries pass and the composite is far below "all answered";
    a run in which many passed really costs more.
    """
    mechanism = ConfidentGNMax(1600.0, 300.0, 30.0)
    labels = labelled(book, mechanism)
    composite = book.entries()[0].cost
    everything = 2000 * (ORDER / (2 * 300**2) + ORDER / 30**2)
    assert composite < 0.2 * everything
    dear = SecretCost(0.9 * everything, 1e-3, ORDER, BETA)
    release = publish(book, sanitiser(labels.entry), dear)
    expected = upper_bound(release) + OWN + conversion(ORDER, DELTA - RESERVED)
    assert upper_bound(release) > composite
    assert sanitised_statement(book, [release]).epsilon == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("order", [1.5, 3.0, 8.0])
def test_realised_cost_or_composite_is_no_valid_cost(order):
    """One query, exactly: E exp((a-1)(loss - cost)) <= 1 holds for each of them, not for the min.

    A, B: p^a p'^(1-a) of a failed and a passed check; G: what an answer adds.
    """
    passing, theirs = stats.norm.cdf(0.5), stats.norm.cdf(-0.5)
    failed = (1 - passing) ** order * (1 - theirs) ** (1 - order)
    passed = passing**order * theirs ** (1 - order)
    answer = math.exp((order - 1) * order / 2**2)
    realised = failed / (failed + passed) + passed * answer / ((failed + passed) * answer)
    composite = (failed + passed * answer) / (failed + passed * answer)
    lesser = failed / (failed + passed) + passed * answer / (failed + passed * answer)
    assert realised == pytest.approx(1.0)
    assert composite == pytest.approx(1.0)
    assert lesser > 1.0


def test_a_ledger_of_gaussians(path):
    """Its order follows from its budget; entries that are not covered cost order mu^2/2."""
    book = Ledger(path, budget=ROOM, reserved_delta=RESERVED)
    order = book.sanitise_order
    release, _ = sanitised(book, labelled(book), InsecureNoise(0), order=order)
    labelled(book, GNMax(80.0))
    mu_squared = BETA**2 / SIGMA_LOG**2 + 1 / SIGMA**2 + 2000 * 2 / 80**2
    expected = upper_bound(release) + order / 2 * mu_squared + conversion(order, DELTA - RESERVED)
    assert sanitised_statement(book, [release]).epsilon == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("accountant", ["rdp", "gaussian"])
def test_another_order_than_the_ledgers(path, accountant):
    own = {"order": 7.0} if accountant == "rdp" else {}
    book = Ledger(path, budget=ROOM, reserved_delta=RESERVED, accountant=accountant, **own)
    assert book.sanitise_order != ORDER
    release, _ = sanitised(book, labelled(book))
    with pytest.raises(InvalidArgument, match="fixed when the ledger was created"):
        sanitised_statement(book, [release])


def test_a_ledger_for_a_fixed_list(path, monkeypatch):
    """Its entries are priced as a whole: no single one can be replaced by a sanitised cost.

    Nobody knows an entry's hash when the list is made; who could guess it is refused, too.
    """
    sizes = {"n_teachers": 1000, "n_classes": 3}
    budget = Budget(ROOM.epsilon, DELTA)
    order = Ledger(path.with_name("twin"), budget=budget, reserved_delta=RESERVED).sanitise_order
    made = sanitiser("f" * 64, order=order)
    plans = [Plan(MECHANISM, len(VOTES), **sizes), Plan(made, 1)]
    book = Ledger(path, budget=budget, reserved_delta=RESERVED, plans=plans)
    labelled(book)
    release = publish(book, made, SecretCost(0.5, 0.01, order, BETA))
    with pytest.raises(InvalidArgument, match="earlier entry"):
        sanitised_statement(book, [release])
    labels, cost = book.entries()
    guessed = (dataclasses.replace(labels, hash=made.covers), cost)
    monkeypatch.setattr(Ledger, "entries", lambda _: guessed)
    with pytest.raises(InvalidArgument, match="priced as a whole"):
        sanitised_statement(book, [release])


# Refusals ------------------------------------------------------------------------------------


def test_without_a_reserve_nothing_is_sanitised(path):
    book = Ledger(path, budget=ROOM, accountant="rdp", order=ORDER)
    labels = labelled(book)
    spent = book.spent()
    with pytest.raises(BudgetExceeded, match="reserved_delta"):
        sanitised(book, labels)
    assert (len(book), book.spent()) == (1, spent)


def test_the_reserve_is_used_up(book):
    labels = labelled(book)
    sanitised(book, labels)
    with pytest.raises(BudgetExceeded, match="reserved_delta"):
        sanitised(book, labels)
    assert len(book) == 2


def test_sanitising_is_charged_before_it_runs(book):
    labels = labelled(book)
    release, _ = sanitised(book, labels)
    entry = book.entries()[1]
    assert entry.hash == release.entry
    assert entry.cost == pytest.approx(OWN)
    assert entry.confidence_delta == pytest.approx(RESERVED)


def test_a_secret_of_another_order_is_refused_and_stays_charged(book):
    labels = labelled(book)
    secret = secret_cost_of(MECHANISM, VOTES, labels, 12.0, BETA)
    with pytest.raises(GrantError, match="order"):
        publish(book, sanitiser(labels.entry), secret)
    assert len(book) == 2


def test_without_noted_values_nothing_is_derived(book):
    labels = labelled(book)
    with pytest.raises(InvalidArgument, match="noted a sanitised cost"):
        sanitised_at(book)
    release, _ = sanitised(book, labels)
    before = book.head
    sanitised_statement(book, [release])
    with pytest.raises(InvalidArgument, match="noted a sanitised cost"):
        sanitised_at(book, before)
    other = dataclasses.replace(release, values=np.array([-50.0, 0.0]))
    with pytest.raises(InvalidArgument, match="that were noted"):
        sanitised_statement(book, [other])


def test_no_releases(book):
    with pytest.raises(InvalidArgument, match="at least one"):
        sanitised_statement(book, [])


def test_a_release_of_labels_publishes_no_cost(book):
    with pytest.raises(InvalidArgument, match="Sanitise"):
        sanitised_statement(book, [labelled(book)])


def test_a_release_that_no_ledger_paid_for(book):
    labels = labelled(book)
    secret = secret_cost_of(MECHANISM, VOTES, labels, ORDER, BETA)
    unpaid = sanitiser(labels.entry).release(secret, InsecureNoise(0))
    with pytest.raises(InvalidArgument, match="paid for"):
        sanitised_statement(book, [unpaid])


def test_a_release_of_another_ledger(book, tmp_path):
    other = Ledger(tmp_path / "other", budget=ROOM, reserved_delta=RESERVED)
    foreign, _ = sanitised(other, labelled(other))
    labelled(book)
    with pytest.raises(InvalidArgument, match="paid for"):
        sanitised_statement(book, [foreign])


def test_an_entry_is_covered_once(book):
    labels = labelled(book)
    release, _ = sanitised(book, labels)
    with pytest.raises(InvalidArgument, match="once"):
        sanitised_statement(book, [release, release])


def test_covers_must_be_an_entry(book):
    labelled(book)
    release = publish(book, sanitiser("f" * 64), SecretCost(0.5, 0.01, ORDER, BETA))
    with pytest.raises(InvalidArgument, match="earlier entry"):
        sanitised_statement(book, [release])


def test_sanitise_does_not_cover_itself_or_its_kind(book):
    """A sanitised number has no data-dependent cost that another could replace."""
    first, _ = sanitised(book, labelled(book), **HALF)
    second = publish(book, sanitiser(first.entry, **HALF), SecretCost(0.0, 0.0, ORDER, BETA))
    with pytest.raises(InvalidArgument, match="gnmax or confident-gnmax"):
        sanitised_statement(book, [second])


def test_mechanisms_without_a_smooth_sensitivity_are_not_covered(book):
    labels = labelled(book, LNMax(0.01))
    release = publish(book, sanitiser(labels.entry), SecretCost(0.0, 0.0, ORDER, BETA))
    with pytest.raises(InvalidArgument, match="gnmax or confident-gnmax"):
        sanitised_statement(book, [release])


@pytest.mark.parametrize(
    "forged", [{"sigma": 1e-3}, {"delta_value": 0.4}, {"covers": "f" * 64}, {"order": 9.0}]
)
def test_a_release_with_other_parameters_than_its_entry_is_refused(book, forged):
    """A smaller sigma or quantile would turn the released pair into a smaller upper bound."""
    release, _ = sanitised(book, labelled(book))
    altered = dataclasses.replace(release.mechanism, **forged)
    with pytest.raises(InvalidArgument, match="as their entries record it"):
        sanitised_statement(book, [dataclasses.replace(release, mechanism=altered)])


def test_a_bound_whose_confidence_nobody_reserved_is_refused(path):
    """Copies for an audit reserve no delta; one of them is no statement's bound."""
    ledger = Ledger(path, budget=ROOM, accountant="rdp", order=ORDER)
    labels = labelled(ledger)
    many = repeated(sanitiser(labels.entry))
    secret = secret_cost_of(MECHANISM, VOTES, labels, ORDER, BETA)
    with ledger.release(Plan(many, 1), purpose="copies") as grant:
        copies = grant.release(MadeUp(secret, 1))
    one = Release(sanitiser(labels.entry), values=copies.values[0], entry=copies.entry)
    with pytest.raises(InvalidArgument, match="confidence delta"):
        sanitised_statement(ledger, [one])


def test_a_release_under_the_entry_of_another_is_refused(book):
    labels = labelled(book)
    release, _ = sanitised(book, labels)
    borrowed = Release(release.mechanism, values=np.array([-50.0, 0.0]), entry=labels.entry)
    with pytest.raises(InvalidArgument, match="as their entries record it"):
        sanitised_statement(book, [borrowed])


def test_an_entry_that_comes_meanwhile_is_not_named_without_being_counted(book, monkeypatch):
    release, _ = sanitised(book, labelled(book))
    before = sanitised_statement(book, [release])
    read = Ledger.statement

    def slow(ledger):
        statement = read(ledger)
        labelled(ledger)  # another process, between the two reads
        return statement

    monkeypatch.setattr(Ledger, "statement", slow)
    meanwhile = sanitised_statement(book, [release])
    assert (meanwhile.entries, meanwhile.head) == (before.entries, before.head)
    assert meanwhile.epsilon == before.epsilon
    monkeypatch.undo()
    after = sanitised_statement(book, [release])
    assert after.epsilon > before.epsilon
    assert after.entries == 4
