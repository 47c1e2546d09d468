"""The sanitised statement: an ex-post epsilon, published through the ledger.

For every pair of neighbours D, D' and every event S of the published transcript y,

    Pr[M(D) in S] <= integral over S of e^(eps_hat(y)) dM(D')(y) + delta,
    eps_hat = upper bound of the sanitised cost + worst-case RDP of every other entry
              + log1p(-1/a) - (log(delta - reserved) + log a)/(a - 1),

at one order a fixed without the data; the confidence deltas are part of the reserved delta. It is
not a fixed worst case, which therefore stands beside it at the same delta.
Proof: docs/theory/smooth-sensitivity.md#the-ex-post-statement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """Return the statement that sanitised costs support for everything in the ledger.

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
        Of kind "sanitised", at the budget's delta, with the worst case beside it.

    Notes
    -----
    For every pair of neighbours D, D' and every event S of the published transcript y,

        Pr[M(D) in S] <= integral over S of e^(eps_hat(y)) dM(D')(y) + delta.

    A covered entry counts with at most what it costs if every query is checked and as many as
    possible are answered. The others count with their worst case. Unit: the ledger's.

    References
    ----------
    `docs/theory/smooth-sensitivity.md#the-ex-post-statement`
    """
    worst = ledger.statement()
    # Another process may append meanwhile: count the entries that the statement names, no others.
    entries = {entry.hash: entry for entry in ledger.entries()[: worst.entries]}
    order = ledger.sanitise_order
    if not releases:
        raise InvalidArgument("Expected at least one release of Sanitise.")
    covered: dict[str, float] = {}
    for release in releases:
        mechanism, paid = _paid_for(release, entries, order)
        price = entries.get(mechanism.covers)
        if price is None or price.hash in covered or not _can_cover(price, paid):
            raise InvalidArgument(
                f"Expected covers={mechanism.covers!r} to be one earlier entry of the ledger, of "
                f"{' or '.join(SANITISABLE)}, once."
            )
        released = mechanism.read(np.asarray(release)).upper_bound
        covered[price.hash] = min(released, _most(price, order))
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


def _paid_for(release: Release, entries: dict[str, Entry], order: float) -> tuple[Sanitise, Entry]:
    """Return the mechanism of a release, and the entry that paid for exactly that."""
    paid = entries.get(str(release.entry))
    if paid is None:
        raise InvalidArgument("Expected releases that this ledger paid for.")
    mechanism = release.mechanism
    if not isinstance(mechanism, Sanitise):
        raise InvalidArgument("Expected releases of Sanitise; others publish no cost.")
    # A parameter that differs from what was paid for would bound something else.
    if canonical(Plan(mechanism, 1).as_dict()) != canonical(paid.plan):
        raise InvalidArgument("Expected releases of Sanitise as their entries record it.")
    if paid.confidence_delta < mechanism.confidence_delta():
        raise InvalidArgument("Expected releases whose confidence delta the ledger reserved.")
    if mechanism.order != order:
        raise InvalidArgument(
            f"Expected order={mechanism.order:g} to be {order:g}, the order of sanitised "
            "statements that was fixed when the ledger was created."
        )
    return mechanism, paid


def _can_cover(price: Entry, paid: Entry) -> bool:
    return price.plan.get("mechanism") in SANITISABLE and price.sequence < paid.sequence


def _most(price: Entry, order: float) -> float:
    """Return order mu^2/2, which the realised cost never exceeds, whichever queries were answered.

    Not the entry's own cost: that may be the per-query composite, an average over
    outcomes. The realised cost where it is less and the composite elsewhere is no valid cost.
    """
    plan = price.plan
    mechanism = SANITISABLE[plan["mechanism"]](**plan["parameters"])
    mu_squared = Plan(mechanism, plan["queries"], max_answers=plan["max_answers"]).mu_squared()
    return math.inf if mu_squared is None else order * mu_squared / 2


def _rdp(entry: Entry, ledger: Ledger, order: float) -> float:
    """Worst-case RDP of an entry at the order of the statement."""
    if ledger.accountant == "gaussian":
        return order * entry.cost / 2
    if ledger.accountant == "rdp":
        return entry.cost
    raise InvalidArgument(
        "Expected a ledger with accountant 'gaussian' or 'rdp': a fixed list is priced as a whole."
    )
