"""The sanitised statement: an ex-post epsilon, published through the ledger.

For every pair of neighbours D, D' and every event S of the published transcript y,

    Pr[M(D) in S] <= integral over S of e^(eps_hat(y)) dM(D')(y) + delta,
    eps_hat = upper bound of the sanitised cost + worst-case RDP of every other entry
              + log1p(-1/a) - (log(delta - reserved) + log a)/(a - 1),

at one order a fixed without the data; confidence deltas are part of the reserved delta. It is no
worst case, which stands beside it. Proof: docs/theory/smooth-sensitivity.md#the-ex-post-statement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import InvalidArgument
from tacit.ledger.chain import Entry, canonical
from tacit.ledger.ledger import Ledger
from tacit.ledger.statement import Statement
from tacit.ledger.terms import conversion
from tacit.mechanisms import ConfidentGNMax, GNMax, Plan, Release, Sanitise

SANITISABLE: dict[str, type[GNMax] | type[ConfidentGNMax]] = {
    kind.name: kind for kind in (GNMax, ConfidentGNMax)
}
"""Mechanisms whose data-dependent cost has a smooth sensitivity."""


def sanitised_statement(ledger: Ledger, releases: Sequence[Release]) -> Statement:
    """Note sanitised costs in the ledger, and return the statement that all of them support.

    A covered entry counts with at most its cost if every query is checked and as many as possible
    are answered; the others with their worst case. Unit: the ledger's. Formula and proof:
    docs/theory/smooth-sensitivity.md#the-ex-post-statement.

    Parameters
    ----------
    ledger : Ledger
        With accountant "gaussian" or "rdp": a fixed list is priced as a whole.
    releases : sequence of Release
        Those of `Sanitise`, made through this ledger at `ledger.sanitise_order`, each covering
        another earlier entry of `SANITISABLE` mechanisms.

    Returns
    -------
    Statement
        Of kind "sanitised", at the budget's delta, with the worst case beside it; `sanitised_at`
        derives it again from the ledger alone.
    """
    all_entries = ledger.entries()
    entries = {entry.hash: entry for entry in all_entries}
    noted = {each.about["entry"]: each.about["values"] for each in all_entries if _is_value(each)}
    if not releases:
        raise InvalidArgument("Expected at least one release of Sanitise.")
    named = [str(release.entry) for release in releases]
    covered = [_covered(entries, key, ledger.sanitise_order) for key in noted if key not in named]
    values = [_paid_for(release, entries, ledger.sanitise_order, covered) for release in releases]
    _refuse_list(ledger)
    for entry, pair in zip(named, values, strict=True):
        if noted.get(entry, pair) != pair:
            raise InvalidArgument(f"Expected the values of entry {entry[:12]} that were noted.")
        if entry not in noted:
            ledger.note_values(entry, pair)
    return sanitised_at(ledger)


def sanitised_at(ledger: Ledger, head: str | None = None) -> Statement:
    """Return the statement of the sanitised costs that a ledger has noted, up to `head`."""
    _refuse_list(ledger)
    worst = ledger.statement() if head is None else ledger.statement(head=head)
    # Another process may append meanwhile: count the entries that the statement names, no others.
    entries = {entry.hash: entry for entry in ledger.entries()[: worst.entries]}
    order = ledger.sanitise_order
    covered: dict[str, float] = {}
    for note in filter(_is_value, entries.values()):
        mechanism, price = _covered(entries, note.about["entry"], order)
        if price.hash in covered:
            raise _not_covered(mechanism)
        released = mechanism.read(np.asarray(note.about["values"])).upper_bound
        covered[price.hash] = min(released, _most(price, order))
    if not covered:
        raise InvalidArgument("Expected a ledger that has noted a sanitised cost; there is none.")
    others = [_rdp(entry, ledger, order) for key, entry in entries.items() if key not in covered]
    rdp = math.fsum([*covered.values(), *others])
    return replace(
        worst,
        kind="sanitised",
        epsilon=max(0.0, rdp + conversion(order, ledger.usable_delta)),
        worst_case_epsilon=worst.epsilon,
        accountant=f"sanitised data-dependent Renyi cost at order {order:g}, with the improved "
        f"conversion; with probability at most {ledger.reserved_delta:g}, which is part of delta, "
        "its confidence bounds may fail",
    )


def _is_value(entry: Entry) -> bool:
    return entry.kind == "value"


def _refuse_list(ledger: Ledger) -> None:
    if ledger.accountant == "fixed":
        raise InvalidArgument(
            "Expected a ledger with accountant 'gaussian' or 'rdp': a fixed list is priced as a "
            "whole."
        )


def _covered(entries: Mapping[str, Entry], paid: str, order: float) -> tuple[Sanitise, Entry]:
    """Return the mechanism that an entry paid for, and the entry whose cost it published."""
    entry = entries.get(paid)
    if entry is None:
        raise InvalidArgument("Expected releases that this ledger paid for.")
    plan = entry.plan
    if plan.get("mechanism") != Sanitise.name or plan.get("queries") != 1:
        raise InvalidArgument("Expected releases of Sanitise as their entries record it.")
    mechanism = Sanitise(**plan["parameters"])
    if entry.confidence_delta < mechanism.confidence_delta():
        raise InvalidArgument("Expected releases whose confidence delta the ledger reserved.")
    if mechanism.order != order:
        raise InvalidArgument(
            f"Expected order={mechanism.order:g} to be {order:g}, the order of sanitised "
            "statements that was fixed when the ledger was created."
        )
    price = entries.get(mechanism.covers)
    if price is None or not _can_cover(price, entry):
        raise _not_covered(mechanism)
    return mechanism, price


def _not_covered(mechanism: Sanitise) -> InvalidArgument:
    return InvalidArgument(
        f"Expected covers={mechanism.covers!r} to be one earlier entry of the ledger, of "
        f"{' or '.join(SANITISABLE)}, once."
    )


def _paid_for(
    release: Release,
    entries: Mapping[str, Entry],
    order: float,
    covered: list[tuple[Sanitise, Entry]],
) -> list[float]:
    """Return the values of a release that this ledger paid for; note in `covered` what it covers.

    A parameter that differs from what was paid for would bound something else.
    """
    paid, mechanism = entries.get(str(release.entry)), release.mechanism
    if paid is None:
        raise InvalidArgument("Expected releases that this ledger paid for.")
    if not isinstance(mechanism, Sanitise):
        raise InvalidArgument("Expected releases of Sanitise; others publish no cost.")
    if canonical(Plan(mechanism, 1).as_dict()) != canonical(paid.plan):
        raise InvalidArgument("Expected releases of Sanitise as their entries record it.")
    found = _covered(entries, paid.hash, order)
    if found[1].hash in [price.hash for _, price in covered]:
        raise _not_covered(mechanism)
    covered.append(found)
    return [float(each) for each in np.asarray(release)]


def _can_cover(price: Entry, paid: Entry) -> bool:
    return price.plan.get("mechanism") in SANITISABLE and price.sequence < paid.sequence


def _most(price: Entry, order: float) -> float:
    """Return order mu^2/2, which the realised cost never exceeds, whichever queries were answered.

    Not the entry's own cost, which may be the per-query composite, an average over outcomes.
    """
    plan = price.plan
    mechanism = SANITISABLE[plan["mechanism"]](**plan["parameters"])
    mu_squared = Plan(mechanism, plan["queries"], max_answers=plan["max_answers"]).mu_squared()
    return math.inf if mu_squared is None else order * mu_squared / 2


def _rdp(entry: Entry, ledger: Ledger, order: float) -> float:
    """Worst-case RDP of an entry at the order of the statement."""
    return order * entry.cost / 2 if ledger.accountant == "gaussian" else entry.cost
