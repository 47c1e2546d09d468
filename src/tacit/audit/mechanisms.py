"""Audits of mechanisms through the ledger: many releases of made-up answers, and what they prove.

Nothing private is at stake; each experiment has a temporary ledger of its own, and the noise is
that of its grants: what is audited is what users get.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit._checks import Floats, at_least, probability, refuse
from tacit.errors import InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import Mechanism, Suspicion, suspicions
from tacit.privacy import RdpCurve

TRIALS = 200_000
_FEWEST, _QUICK, _MOST = 100, 1 << 24, 1 << 27
"""Trials that tell anything; numbers that are drawn in a second or two; numbers that fit."""
_DELTA, _ORDER, _ROOM = 1e-5, 2.0, 1.001


@dataclass(frozen=True, slots=True)
class Finding:
    """What one event proved, next to the mechanism's claim.

    The quantity is epsilon where `delta` is given, and the Renyi divergence of an `order` else.

    Parameters
    ----------
    what : str, which two made-up inputs were compared
    claim : float, upper bound by the mechanism
    proved : float, lower bound by the trials
    trials : int, releases of each of the two inputs
    delta : float, optional, of the epsilons
    order : float, optional, of the Renyi divergences
    """

    what: str
    claim: float
    proved: float
    trials: int
    delta: float | None = None
    order: float | None = None

    @property
    def contradicts(self) -> bool:
        """Whether the claim is refuted. If not, that proves nothing."""
        return self.proved > self.claim


def audit_mechanism(
    mechanism: Mechanism, *, trials: int | None = None, confidence_delta: float = 1e-6
) -> list[Finding]:
    """Release made-up answers `trials` times on each of two neighbouring inputs, and compare.

    The answers are made up and the ledger is temporary: nothing private is read or spent.

    Parameters
    ----------
    mechanism : Mechanism, with the noise and bounds to be audited
    trials : int, optional
        Releases of each input, 100 at least; by default 200,000, fewer for large releases.
    confidence_delta : float
        An honest mechanism is contradicted by any finding with probability at most this.

    Returns
    -------
    list of Finding, one for each event of each experiment of `tacit.mechanisms.suspicions`

    Examples
    --------
    >>> from tacit import GNMax
    >>> findings = audit_mechanism(GNMax(sigma=40), trials=20_000)
    >>> any(finding.contradicts for finding in findings)
    False
    """
    probability(confidence_delta=confidence_delta)
    if trials is not None:
        at_least(_FEWEST, trials=trials)
    experiments = suspicions(mechanism)
    share = confidence_delta / sum(len(each.looks) for each in experiments)
    often = _trials(sum(each.numbers for each in experiments), trials)
    findings = []
    for each in experiments:
        first, second = _outputs(each, often)
        for look in each.looks:
            claim, proved = look.claim(each.one), look.proved(first, second, share)
            findings.append(Finding(each.what, claim, proved, often, look.delta, look.order))
    return findings


def _trials(numbers: int, asked: int | None) -> int:
    """Return the number of releases; refuse what takes too long, or proves too little."""
    if asked is not None:
        if asked * numbers > _MOST:
            raise refuse("trials", asked, f"at most {_MOST // numbers} for this mechanism")
        return asked
    trials = min(TRIALS, _QUICK // numbers)
    if trials < 10 * _FEWEST:
        raise InvalidArgument(
            f"Expected fewer numbers in a release to audit: with {numbers} of them there is time "
            "for too few trials; noise and price do not depend on the size, so audit a small one."
        )
    return trials


def _outputs(each: Suspicion, trials: int) -> tuple[Floats, Floats]:
    """Release both inputs many times through a temporary ledger."""
    plan = each.many(each.one, trials)
    cost = 2 * float(plan.cost([_ORDER]).total().values[0])
    enough = RdpCurve([_ORDER], [cost]).epsilon(_DELTA) * _ROOM
    with tempfile.TemporaryDirectory(prefix="tacit-audit-") as folder:
        budget, path = Budget(enough, _DELTA), Path(folder) / "audit.ledger"
        ledger = Ledger(path, budget=budget, accountant="rdp", order=_ORDER)
        outputs = []
        for made_up in (each.first, each.second):
            with ledger.release(plan, purpose="audit of made-up answers") as grant:
                release = grant.release(each.answers(made_up, trials), **each.public(trials))
            outputs.append(np.asarray(release, dtype=np.float64).reshape(trials, -1))
    return outputs[0], outputs[1]
