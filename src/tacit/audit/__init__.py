"""Attempts to refute a claim, in one room: of a mechanism, and of a whole run.

A mechanism says with its dataclass where it loses most (`audit_cases`); `mechanisms` releases
there many times. `models` plants canaries in a training run and guesses who was planted.
`handed_over` looks at a finished model with rows whose membership is known. What
counts prove is in `tacit.privacy` (`epsilon_lower_bound`, `one_run_epsilon`).
"""

from tacit.audit.handed_over import Examination, examine_model, examine_run
from tacit.audit.mechanisms import Finding, audit_mechanism
from tacit.audit.models import AuditResult, audit_estimator, audit_run, make_canaries

__all__ = [
    "AuditResult",
    "Examination",
    "Finding",
    "audit_estimator",
    "audit_mechanism",
    "audit_run",
    "examine_model",
    "examine_run",
    "make_canaries",
]
