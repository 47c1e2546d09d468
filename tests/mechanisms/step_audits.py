"""Runs with one unit and without it, for the audits of `NoisySteps`.

Many runs go side by side, as in `tacit audit`: in each of them one unit adds 1 to a number of its
own in every step that samples it. The audits look at two steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from audits import proved, secure_noise

from tacit.mechanisms import NoisySteps, Plan
from tacit.mechanisms.noisy_steps import Counting, likely

RUNS = 400_000
DELTA = 0.05


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
            np.asarray(subject.release(Counting(units, dimension=RUNS), source)).reshape(RUNS, 2)
            for units, source in zip((RUNS, 0), draws, strict=True)
        ]
        return proved(*outputs, events or (likely(self.mechanism, self.claim()),), DELTA)


STEP_AUDITS = {
    "every second unit": StepAudit(NoisySteps(1.0, 0.5)),
    "everyone": StepAudit(NoisySteps(1.5, 1.0)),
}
