"""One consistent view of a ledger: what the report shows, read and verified before it is shown.

Everything comes from one chain of entries, so a release that another process makes meanwhile is
either wholly in the report or not at all.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tacit._checks import refuse
from tacit.errors import InvalidArgument, LedgerDamaged, SecretDisclosure
from tacit.ledger import Entry, Ledger, Statement
from tacit.ledger.budget import Accountant, GaussianAccountant, total_of
from tacit.ledger.store import Store
from tacit.ledger.sums import at_least, exceeds, steps_of
from tacit.ledger.terms import Terms
from tacit.privacy import gaussian_epsilon

_SAME = ("delta", "unit", "dataset", "adjacency", "entries", "head", "budget", "noise")
_TOLERANCE = 1e-9
"""Two versions of a numerical library may differ in the last digits of epsilon."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ledger at one moment, with the statement about it and the worst case behind that."""

    statement: Statement
    worst: Statement
    terms: Terms
    header: Mapping[str, Any]
    entries: tuple[Entry, ...]
    head: str
    genesis: str
    spent: tuple[float, ...]
    """Worst-case epsilon after each entry."""

    @property
    def total(self) -> float:
        """Return what all entries cost, in the currency of the ledger's accountant."""
        return total_of([entry.cost for entry in self.entries])

    @property
    def insecure(self) -> tuple[int, ...]:
        """Return the numbers of the entries whose noise was seeded, and so is no protection."""
        return tuple(e.sequence for e in self.entries if e.noise == "insecure-seeded")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the statements warn of, each once, and whether sanitising was worth it."""
        said = [*self.worst.warnings, *self.statement.warnings]
        if self.statement.kind == "sanitised" and self.statement.epsilon >= self.worst.epsilon:
            said.append("the sanitised epsilon is no smaller than the worst case, which holds too")
        return tuple(dict.fromkeys(said))


def take_snapshot(ledger: Ledger, statement: Statement | None = None) -> Snapshot:
    """Verify a ledger and read it once; refuse a statement that is secret or not about it."""
    if not isinstance(ledger, Ledger):
        raise refuse("ledger", ledger, "a tacit.Ledger")
    if statement is not None:
        _refuse_secret(statement)
    worst = ledger.statement()
    ledger.verify(head=worst.head)
    chain = Store(ledger.path).read()
    entries = chain.entries[: worst.entries]
    head = entries[-1].hash if entries else chain.genesis
    if head != worst.head:
        raise LedgerDamaged("The ledger was replaced while it was read; do not trust its total.")
    if statement is not None:
        _check_agrees(statement, worst)
    terms = Terms.from_header(chain.header)
    return Snapshot(
        statement=statement or worst,
        worst=worst,
        terms=terms,
        header=chain.header,
        entries=entries,
        head=head,
        genesis=chain.genesis,
        spent=_spent_after_each(terms, entries),
    )


def _refuse_secret(statement: Statement) -> None:
    if not isinstance(statement, Statement):
        raise refuse("statement", statement, "a tacit.Statement, or omitted")
    if statement.kind not in ("worst-case", "sanitised"):
        raise SecretDisclosure(
            "A secret statement depends on the data and is not written to a report; use the "
            "worst-case or the sanitised one."
        )


def _check_agrees(statement: Statement, worst: Statement) -> None:
    """Refuse a statement that says less than the ledger, or something of another moment."""
    other = [name for name in _SAME if getattr(statement, name) != getattr(worst, name)]
    if other:
        raise InvalidArgument(
            f"Expected statement to be about this ledger as it is now; it differs in "
            f"{', '.join(other)}. Make a new one."
        )
    sanitised = statement.kind == "sanitised"
    claimed = statement.worst_case_epsilon if sanitised else statement.epsilon
    if claimed is None or claimed < worst.epsilon * (1 - _TOLERANCE):
        raise InvalidArgument(
            "Expected statement to claim at least the worst-case epsilon that the ledger proves."
        )


def _spent_after_each(terms: Terms, entries: tuple[Entry, ...]) -> tuple[float, ...]:
    """Convert running totals as the ledger does: within its capacity the budget itself holds."""
    accountant, most = terms.make_accountant(), terms.budget.epsilon
    totals = list(accumulate(steps_of(entry.cost) for entry in entries))
    paid = accumulate((entry.is_paid for entry in entries), operator.or_)
    epsilons = _converted(accountant, [at_least(total) for total in totals])
    within = (not exceeds(total, accountant.capacity) for total in totals)
    bounded = (min(e, most) if fits else e for e, fits in zip(epsilons, within, strict=True))
    return tuple(e if any_paid else 0.0 for e, any_paid in zip(bounded, paid, strict=True))


def _converted(accountant: Accountant, totals: list[float]) -> list[float]:
    if isinstance(accountant, GaussianAccountant) and totals:
        # All at once: one by one, a ledger of a thousand entries would take seconds.
        return list(map(float, gaussian_epsilon(accountant.delta, np.sqrt(totals))))
    return [accountant.epsilon(total).epsilon for total in totals]
