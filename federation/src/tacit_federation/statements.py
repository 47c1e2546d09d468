"""Assumptions and warnings of sites' and servers' statements, beyond those of their ledgers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tacit.ledger import Statement

ANSWERS_STAY = (
    "at each site, each teacher answered from its own shard, public data and its own coins alone, "
    "and a site took part, or not, for reasons that have nothing to do with its records"
)
SHOWN_TO_NOBODY = "the coordinator showed the answers of sites to nobody, and deleted them"
SHARES_STAY = (
    "this aggregator's shares and its noise were seen by nobody else, and that it opened one sum a "
    "study; what the other aggregator, the coordinator or any site did does not matter"
)
TAKES_PART = (
    "here, each teacher answered from its own shard, public data and its own coins alone, and this "
    "site took part, or not, for reasons that have nothing to do with its records"
)
WITHDRAWN = (
    "a site withdrew from a study that it had approved, or asked to: why is not known here, and if "
    "it depends on records, the guarantee does not hold"
)


def notes_of(statement: Statement) -> list[str]:
    """Return a statement's assumptions and warnings, for a report."""
    presumed = [f"It presumes that {each}." for each in statement.assumes]
    return presumed + [f"Warning: {each}." for each in statement.warnings]


def with_presumptions(
    statement: Statement, *presumed: str, warnings: Sequence[str] = ()
) -> Statement:
    """Return a statement with further assumptions, if it covers anything."""
    if not statement.entries:
        return statement
    return dataclasses.replace(
        statement,
        assumes=(*statement.assumes, *presumed),
        warnings=tuple(dict.fromkeys([*statement.warnings, *warnings])),
    )
