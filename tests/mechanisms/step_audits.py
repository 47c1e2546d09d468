"""Runs with one unit and without it, for the audits of `NoisySteps`.

Many runs go side by side: in each of them one unit adds 1 to a number of its own in every step
that samples it. The audits look at two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from audits import proved, secure_noise

from tacit.mechanisms import NoisySteps, Plan

RUNS = 400_000
DELTA = 0.05


@dataclass
class Counting:
    """A run that learns nothing and remembers what it was told: unit n adds 1 to number n."""

    n_units: int
    steps: int = 2
    dimension: int = RUNS
    told: list[Any] = field(default_factory=list)
    forgotten: bool = False

    def sums(self, sample: Any) -> Any:
        return np.bincount(sample % self.dimension, minlength=self.dimension).astype(float)

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
            np.asarray(subject.release(Counting(units), source)).reshape(2, RUNS).T
            for units, source in zip((RUNS, 0), draws, strict=True)
        ]
        return proved(*outputs, events or (self.likely,), DELTA)

    def likely(self, pairs: Any) -> Any:
        """The pairs whose likelihood ratio exceeds e^claim."""
        rate, variance = self.mechanism.sampling_rate, self.mechanism.noise_multiplier**2
        ratios = 1 + rate * np.expm1((pairs - 0.5) / variance)
        return np.log(ratios).sum(axis=1) >= self.claim()


STEP_AUDITS = {
    "every second unit": StepAudit(NoisySteps(1.0, 0.5)),
    "everyone": StepAudit(NoisySteps(1.5, 1.0)),
}
