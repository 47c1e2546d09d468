"""The sanitised statement: an ex-post epsilon, published through the ledger (SPEC 4.7, 4.8).

For every pair of neighbours D, D' and every event S of the published transcript y,

    Pr[M(D) in S] <= integral over S of e^(eps_hat(y)) dM(D')(y) + delta,
    eps_hat = upper bound of the sanitised cost + worst-case RDP of every other entry
              + log1p(-1/a) - (log(delta - reserved) + log a)/(a - 1),

at one order a fixed without the data; the confidence deltas are part of the reserved delta. It is
not a fixed worst case, which therefore stands beside it at the same delta.
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
from tacit.mechanisms import ConfidentGNMax, GNMax, Plan, Release, Sanitise
from tacit.privacy import conversion_term

SANITISABLE = (GNMax.name, ConfidentGNMax.name)
"""Mechanisms whose data-dependent cost has a smooth sensitivity."""


def sanitised_statement(ledger: Ledger, releases: Sequence[Release]) -> Statement:
    """Return the statement that sanitised costs support for everything in the ledger.

    `releases` are those of `Sanitise`, made through this ledger, at one order, each covering
    another entry. Entries that none of them covers count with their worst case.
    """
    entries = {entry.hash: entry for entry in ledger.entries()}
    order = _common_order(releases, entries)
    covered: dict[str, float] = {}
    for release in releases:
        mechanism, paid = _sanitise(release), entries[str(release.entry)]
        price = entries.get(mechanism.covers)
        if price is None or price.hash in covered or not _can_cover(price, paid):
            raise InvalidArgument(
                f"Expected covers={mechanism.covers!r} to be one earlier entry of the ledger, of "
                f"{' or '.join(SANITISABLE)}, once."
            )
        covered[price.hash] = mechanism.read(np.asarray(release)).upper_bound
    others = [_rdp(entry, ledger, order) for key, entry in entries.items() if key not in covered]
    rdp = math.fsum([*covered.values(), *others])
    delta = ledger.budget.delta - ledger.reserved_delta
    conversion = float(conversion_term(np.array([order]), delta)[0])
    worst = ledger.statement()
    return replace(
        worst,
        kind="sanitised",
        epsilon=max(0.0, rdp + conversion),
        worst_case_epsilon=worst.epsilon,
        accountant=f"sanitised data-dependent Renyi cost at order {order:g}, with the improved "
        f"conversion; with probability at most {ledger.reserved_delta:g}, which is part of delta, "
        "its confidence bounds may fail",
    )


def _sanitise(release: Release) -> Sanitise:
    if not isinstance(release.mechanism, Sanitise):
        raise InvalidArgument("Expected releases of Sanitise; others publish no cost.")
    return release.mechanism


def _common_order(releases: Sequence[Release], entries: dict[str, Entry]) -> float:
    if not releases:
        raise InvalidArgument("Expected at least one release of Sanitise.")
    if any(release.entry not in entries for release in releases):
        raise InvalidArgument("Expected releases that this ledger paid for.")
    for release in releases:
        # A parameter that differs from what was paid for would bound something else.
        recorded = canonical(entries[str(release.entry)].plan)
        if canonical(Plan(_sanitise(release), 1).as_dict()) != recorded:
            raise InvalidArgument("Expected releases of Sanitise as their entries record it.")
    orders = {_sanitise(release).order for release in releases}
    if len(orders) != 1:
        raise InvalidArgument(f"Expected all releases at one order, got {sorted(orders)}.")
    return orders.pop()


def _can_cover(price: Entry, paid: Entry) -> bool:
    return price.plan["mechanism"] in SANITISABLE and price.sequence < paid.sequence


def _rdp(entry: Entry, ledger: Ledger, order: float) -> float:
    """Worst-case RDP of an entry at the order of the statement."""
    if ledger.accountant == "gaussian":
        return order * entry.cost / 2
    if ledger.accountant == "rdp" and ledger.order == order:
        return entry.cost
    raise InvalidArgument(
        f"Expected order={order:g} to be the ledger's own order {ledger.order}: "
        "sanitise at that order, which was fixed when the ledger was created."
    )
