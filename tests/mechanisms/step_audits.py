"""Runs with one unit and without it, for the audits of `NoisySteps`.

One run of many steps is many independent releases of one step: pairs of consecutive steps are
runs of two. The unit adds 1 in every step that samples it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from audits import proved, secure_noise

from tacit.mechanisms import NoisySteps, Plan

RUNS = 60_000
DELTA = 0.05


@dataclass
class Counting:
    """A run that learns nothing and remembers what it was told: `loud` units add 1 each."""

    n_units: int
    steps: int = 2 * RUNS
    dimension: int = 1
    told: list[Any] = field(default_factory=list)
    forgotten: bool = False

    def sums(self, sample: Any) -> Any:
        return np.full(self.dimension, sample.size / math.sqrt(self.dimension))

    def learn(self, noisy_sums: Any) -> None:
        self.told.append(noisy_sums)

    def result(self) -> Any:
        return np.concatenate(self.told)

    def forget(self) -> None:
        self.forgotten = True


@dataclass(frozen=True)
class StepAudit:
    """Two steps with a unit and without; the event is the likelihood-ratio test for the claim."""

    mechanism: NoisySteps

    def claim(self) -> float:
        """What the library says about a run of two steps."""
        return Plan(self.mechanism, 2).epsilon(DELTA)

    def finds(self, mechanism: Any = None, noise: Any = None, events: Any = None) -> float:
        """Lower bound on epsilon."""
        subject = mechanism or self.mechanism
        draws = noise or (secure_noise(), secure_noise())
        outputs = [
            np.asarray(subject.release(Counting(units), source)).reshape(RUNS, 2)
            for units, source in zip((1, 0), draws, strict=True)
        ]
        return proved(*outputs, events or (self.likely,), DELTA)

    def likely(self, pairs: Any) -> Any:
        """The pairs whose likelihood ratio exceeds e^claim."""
        rate, variance = self.mechanism.sampling_rate, self.mechanism.noise_multiplier**2
        ratios = 1 + rate * np.expm1((pairs - 0.5) / variance)
        return np.log(ratios).sum(axis=1) >= 0.75 * self.claim()


STEP_AUDITS = {
    "every second unit": StepAudit(NoisySteps(0.7, 0.5)),
    "everyone": StepAudit(NoisySteps(1.0, 1.0)),
}
