"""Who has spent what: budget, durable append-only record, refusal before release, statements."""

from tacit.ledger.budget import Budget
from tacit.ledger.entry import Entry
from tacit.ledger.grant import Grant
from tacit.ledger.ledger import Ledger
from tacit.ledger.sanitised import sanitised_statement
from tacit.ledger.statement import STATEMENT_SCHEMA, Statement

__all__ = [
    "STATEMENT_SCHEMA",
    "Budget",
    "Entry",
    "Grant",
    "Ledger",
    "Statement",
    "sanitised_statement",
]
