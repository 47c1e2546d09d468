"""Audits of mechanisms through the one door: many releases of synthetic votes, and what they prove.

The votes are made up, so nothing private is at stake; each experiment has a ledger of its own,
which is thrown away, and the noise is that of its grants: what is audited is what users get.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit._checks import Floats, at_least, probability
from tacit.ledger.budget import Budget
from tacit.ledger.ledger import Ledger
from tacit.mechanisms import Mechanism, Plan
from tacit.mechanisms.auditing import Suspicion, suspicions
from tacit.privacy import events_lower_bound

_DELTA = 1e-5
_ROOM = 1.001


@dataclass(frozen=True, slots=True)
class Finding:
    """What one experiment proved, next to what the mechanism claims at the same delta."""

    what: str
    delta: float
    claim: float
    proved: float

    @property
    def contradicts(self) -> bool:
        """Whether the claim is refuted. If not, that proves nothing."""
        return self.proved > self.claim


def audit_mechanism(
    mechanism: Mechanism, *, trials: int = 200_000, confidence_delta: float = 1e-6
) -> list[Finding]:
    """Release made-up votes `trials` times on each of two neighbouring rows, and compare.

    One experiment for each of `tacit.mechanisms.auditing.suspicions`. An honest mechanism is
    contradicted by any of them with probability at most `confidence_delta`.

    >>> from tacit import GNMax
    >>> findings = audit_mechanism(GNMax(sigma=40), trials=20_000)
    >>> any(finding.contradicts for finding in findings)
    False
    """
    at_least(100, trials=trials)
    experiments = suspicions(mechanism)
    share = probability(confidence_delta=confidence_delta) / len(experiments)
    findings = []
    for each in experiments:
        first, second = _outputs(mechanism, each, trials)
        proved = events_lower_bound(first, second, [each.event], each.delta, share)
        findings.append(Finding(each.what, each.delta, each.claim(mechanism), proved))
    return findings


def _outputs(mechanism: Mechanism, each: Suspicion, trials: int) -> tuple[Floats, Floats]:
    """Release both rows, many times over, through a ledger that is opened for just that."""
    plan = each.plan(mechanism, trials)
    whole = Plan(mechanism, 2 * trials, n_teachers=plan.n_teachers, n_classes=2)
    budget = Budget(whole.epsilon(_DELTA) * _ROOM, _DELTA)
    with tempfile.TemporaryDirectory(prefix="tacit-audit-") as folder:
        ledger = Ledger(Path(folder) / "audit.ledger", budget=budget, plans=(plan, plan))
        return _released(ledger, plan, each.first, each), _released(ledger, plan, each.second, each)


def _released(ledger: Ledger, plan: Plan, row: tuple[int, int], each: Suspicion) -> Floats:
    votes = np.tile(np.array(row), (plan.queries, 1))
    public: dict[str, Any] = {
        name: np.tile(np.asarray(value), (plan.queries, 1)) for name, value in each.public.items()
    }
    with ledger.release(plan, purpose="audit of made-up votes") as grant:
        return np.asarray(grant.release(votes, **public), dtype=np.float64)
