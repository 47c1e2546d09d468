"""Audits: attempts to refute the claim of a mechanism, or of a whole run.

`mechanisms` releases many times where a mechanism's `audit_cases` lose most, `models` plants
canaries in a training run, `handed_over` tests a finished model with rows of known membership.
Lower bounds are in `tacit.privacy` (`epsilon_lower_bound`, `one_run_epsilon`).
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
