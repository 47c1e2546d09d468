"""Contributions with one unit and without it, for the audits of `NoisySum`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from audits import TRIALS, proved, secure_noise
from summary_cases import STEPS, spoken

from tacit.mechanisms import NoisySum, Plan
from tacit.methods.summary import level_of
from tacit.records import PrivateRecords
from tacit.summaries import prototype_votes

DELTA = 0.1
VOTES = 3
THREE = NoisySum(1.0, VOTES, 1)


@dataclass(frozen=True)
class SumAudit:
    """Contributions with one unit and without it, and the difference that it makes."""

    with_unit: Any
    without: Any
    direction: Any
    mechanism: NoisySum = THREE

    def claim(self) -> float:
        """What the library says about one table."""
        return Plan(self.mechanism, 1).epsilon(DELTA)

    def finds(self, mechanism: Any = None, noise: Any = None) -> float:
        """Lower bound on epsilon."""
        subject = mechanism or self.mechanism
        draws = noise or (secure_noise(), secure_noise())
        outputs = [
            subject._draws(said, source, TRIALS).reshape(TRIALS, -1)
            for said, source in zip((self.with_unit, self.without), draws, strict=True)
        ]
        direction = np.asarray(self.direction, dtype=float).ravel()
        rest = subject._total(self.without).ravel() / STEPS**2 @ direction
        limit = rest + 0.5 + self.claim()  # sigma 1 and a direction of length 1
        return proved(*outputs, (lambda values: values @ direction >= limit,), DELTA)


def _votes(labels: list[int], units: Any = None) -> Any:
    near = np.tile(np.arange(VOTES), (len(labels), 1))
    owners = None if units is None else np.array(units)
    return prototype_votes(near, np.array(labels), n_prototypes=VOTES, n_classes=1, units=owners)


def _numbers(numbers: list[float]) -> Any:
    return level_of(PrivateRecords(np.empty((len(numbers), 0)), np.array(numbers), None))


EVERYWHERE = np.full(VOTES, VOTES**-0.5)
SUM_AUDITS = {
    "a vote at three prototypes": SumAudit(_votes([0, 0]), _votes([0]), EVERYWHERE),
    "wild vectors": SumAudit(
        spoken([[1e300, 0, 0], [0, 0.5, 0]], [[7.0], [1.0]]),
        spoken([[0, 0.5, 0]], [[1.0]]),
        [1.0, 0.0, 0.0],
    ),
    "a number, its square and its count": SumAudit(
        _numbers([0.5, 1.0]), _numbers([0.5]), EVERYWHERE, NoisySum(1.0, 1, 3)
    ),
    "a person of four records": SumAudit(
        _votes([0] * 5, ["p", "p", "p", "p", "q"]), _votes([0], ["q"]), EVERYWHERE
    ),
}
