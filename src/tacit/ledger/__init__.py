"""Budget, durable append-only record, refusal before release, and privacy statements.

Names that are not in `__all__` are for the packages above.
"""

from tacit.ledger.advisories import advisory as advisory
from tacit.ledger.begun_steps import NotedSteps
from tacit.ledger.chain import Entry
from tacit.ledger.chain import canonical as canonical
from tacit.ledger.chain import digest as digest
from tacit.ledger.grant import Grant
from tacit.ledger.kept_releases import KeptReleases
from tacit.ledger.ledger import Ledger, Snapshot
from tacit.ledger.plain_words import epsilon_text, meaning, odds_text
from tacit.ledger.plain_words import one_in as one_in
from tacit.ledger.sanitised import SANITISABLE, sanitised_statement
from tacit.ledger.sanitised import sanitised_at as sanitised_at
from tacit.ledger.statement import SCHEMA_FILE as SCHEMA_FILE
from tacit.ledger.statement import STATEMENT_SCHEMA, Statement
from tacit.ledger.terms import Budget, GaussianAccountant, RdpAccountant, best_order
from tacit.ledger.warnings import LARGE_DELTA, ONE_RUN
from tacit.ledger.warnings import clock_went_back as clock_went_back

__all__ = [
    "LARGE_DELTA",
    "ONE_RUN",
    "SANITISABLE",
    "STATEMENT_SCHEMA",
    "Budget",
    "Entry",
    "GaussianAccountant",
    "Grant",
    "KeptReleases",
    "Ledger",
    "NotedSteps",
    "RdpAccountant",
    "Snapshot",
    "Statement",
    "best_order",
    "epsilon_text",
    "meaning",
    "odds_text",
    "sanitised_statement",
]
