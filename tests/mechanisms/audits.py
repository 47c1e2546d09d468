"""The audit that every mechanism undergoes: a million releases on each of two neighbouring inputs.

An event is chosen before the run, near the optimal likelihood-ratio test for the claim, so that
the audit has power: `mutants` holds mistakes that it must find with these same inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyVotes,
    Plan,
    Sanitise,
    SecretCost,
    ThresholdCheck,
)
from tacit.mechanisms.audit_cases import labelled as label
from tacit.noise import GrantedNoise, Noise, SecureNoise
from tacit.privacy import events_lower_bound

TRIALS = 10**6
CONFIDENCE_DELTA = 1e-6
NO_DELTA = 0.0

Outputs = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Audit:
    """Two neighbouring inputs, events that tell them apart, and a claim to refute."""

    mechanism: Any
    first: Any
    second: Any
    events: tuple[Callable[[Outputs], Outputs], ...]
    delta: float
    public: dict[str, Any]
    claim_at: float | None = None

    def claim(self) -> float:
        """What the library says about one release, at the audit's delta."""
        if self.claim_at is not None:
            return self.claim_at
        spare = self.delta - self.mechanism.confidence_delta()
        if isinstance(self.mechanism, Sanitise):
            return Plan(self.mechanism, 1).epsilon(spare)
        n_teachers, n_classes = int(np.sum(self.first)), len(self.first)
        return Plan(self.mechanism, 1, n_teachers=n_teachers, n_classes=n_classes).epsilon(spare)

    def released(self, mechanism: Any, answers: Any, noise: Noise) -> Outputs:
        """A million independent releases of the same answers."""
        if isinstance(mechanism, Sanitise):  # what `release` draws, a million times over
            return mechanism._draws(answers, noise, TRIALS)
        rows = np.tile(np.asarray(answers), (TRIALS, 1))
        public = {
            name: np.tile(np.asarray(value), (TRIALS, 1)) for name, value in self.public.items()
        }
        return np.asarray(mechanism.release(rows, noise, **public))

    def finds(self, mechanism: Any = None, noise: tuple[Noise, Noise] | None = None) -> float:
        """Lower bound on epsilon, for the honest mechanism with secure noise unless changed."""
        subject = self.mechanism if mechanism is None else mechanism
        draws = noise or (secure_noise(), secure_noise())
        first = self.released(subject, self.first, draws[0])
        second = self.released(subject, self.second, draws[1])
        return proved(first, second, self.events, self.delta)


def proved(
    first: Outputs, second: Outputs, events: tuple[Callable[[Outputs], Outputs], ...], delta: float
) -> float:
    """The largest bound over the events, with the confidence of all audits."""
    return events_lower_bound(first, second, events, delta, CONFIDENCE_DELTA)


def secure_noise() -> Noise:
    """The noise of an open grant, as a ledger lends it."""
    return GrantedNoise(SecureNoise(), entry="a" * 64)


def _log_scale_below(limit: float) -> Callable[[Outputs], Outputs]:
    return lambda outputs: outputs[:, 0] <= limit


def _cost_above(limit: float) -> Callable[[Outputs], Outputs]:
    return lambda outputs: outputs[:, 1] >= limit


def _sanitise(**parameters: float) -> Sanitise:
    chosen = {"order": 8.0, "delta_value": 1e-3, "delta_scale": 1e-3, **parameters}
    return Sanitise(covers="c" * 64, **chosen)


def _cost(value: float, smooth: float, mechanism: Sanitise) -> SecretCost:
    return SecretCost(value, smooth, mechanism.order, mechanism.beta)


def _scale_audit() -> Audit:
    """The first stage alone matters: mu = beta/sigma_log = 1, and hardly anything from the cost."""
    mechanism = _sanitise(beta=0.1, sigma_log=0.1, sigma=100.0)
    return Audit(
        mechanism,
        _cost(1.0, 0.05, mechanism),
        _cost(1.0, 0.05 * np.exp(0.1), mechanism),
        (_log_scale_below(np.log(0.05) - 0.05),),
        delta=0.101,
        public={},
    )


def _value_audit() -> Audit:
    """The second stage alone matters: mu = 1/sigma = 1, and the scale is nearly noiseless."""
    mechanism = _sanitise(beta=1e-4, sigma_log=0.01, sigma=1.0)
    return Audit(
        mechanism,
        _cost(1.05, 0.05, mechanism),
        _cost(1.0, 0.05, mechanism),
        (_cost_above(1.05 + 0.05),),
        delta=0.051,
        public={},
    )


def _rough_scale_audit() -> Audit:
    """The released scale is off by a factor of e: only its upper bound may scale the noise."""
    mechanism = _sanitise(beta=1e-3, sigma_log=1.0, sigma=1.0)

    def likely(outputs: Outputs) -> Outputs:
        deviation = 0.05 * np.exp(outputs[:, 0] - np.log(0.05))
        return (outputs[:, 1] - 1.025) * 0.05 / deviation**2 >= 1.5

    return Audit(
        mechanism,
        _cost(1.05, 0.05, mechanism),
        _cost(1.0, 0.05, mechanism),
        (likely,),
        delta=0.051,
        public={},
    )


AUDITS: dict[str, Audit] = {
    # Two classes: the label is a threshold test on the difference, the optimal one at this delta.
    "gnmax": Audit(GNMax(1.0), [2, 3], [1, 4], (label(0),), 0.1, {}),
    # 2 gamma-DP: no delta. Three votes behind is where a million releases prove most.
    "lnmax": Audit(LNMax(1.0), [1, 4], [0, 5], (label(0),), NO_DELTA, {}, claim_at=2.0),
    "noisy-votes": Audit(
        NoisyVotes(1.5),
        [3, 3],
        [2, 4],
        (lambda values: values[:, 0] - values[:, 1] >= 1, lambda values: values[:, 0] >= 5),
        0.1,
        {},
    ),
    "threshold-check": Audit(ThresholdCheck(5.0, 1.0), [4, 1], [3, 2], (label(1),), 0.05, {}),
    "confident-gnmax": Audit(
        ConfidentGNMax(5.0, 1.0, 3.0), [1, 4], [2, 3], (label(1), label(0, 1)), 0.02, {}
    ),
    # The student is undecided, so the statistics are 1.5 and 0.5: 2 and 1 when rounded half up.
    "interactive-gnmax": Audit(
        InteractiveGNMax(3.0, 1.0, 10.0, confidence=0.9),
        [3, 0],
        [2, 1],
        (label(0, 1),),
        0.05,
        {"student": [0.5, 0.5]},
    ),
    "sanitise, scale": _scale_audit(),
    "sanitise, cost": _value_audit(),
    "sanitise, rough scale": _rough_scale_audit(),
}
