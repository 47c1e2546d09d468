"""Who has spent what: budget, durable append-only record, refusal before release, statements."""

from tacit.ledger.chain import Entry, clock_went_back
from tacit.ledger.kept import KeptReleases
from tacit.ledger.ledger import Grant, Ledger, Snapshot
from tacit.ledger.sanitised import SANITISABLE, sanitised_statement
from tacit.ledger.statement import STATEMENT_SCHEMA, Statement, epsilon_text
from tacit.ledger.terms import LARGE_DELTA, Budget, GaussianAccountant, RdpAccountant, best_order

__all__ = [
    "LARGE_DELTA",
    "SANITISABLE",
    "STATEMENT_SCHEMA",
    "Budget",
    "Entry",
    "GaussianAccountant",
    "Grant",
    "KeptReleases",
    "Ledger",
    "RdpAccountant",
    "Snapshot",
    "Statement",
    "best_order",
    "clock_went_back",
    "epsilon_text",
    "sanitised_statement",
]
