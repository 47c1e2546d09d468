"""Contributions with one unit and without it, for the audits of `NoisySum`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from audits import TRIALS, proved, secure_noise
from summary_cases import STEPS, spoken

from tacit.mechanisms import NoisySum, Plan
from tacit.methods.residual_rounds import compared_by, level_of, second_moment_of
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


def _compared(gains: list[list[float]]) -> Any:
    """Records on which three solutions do so well: solution j scores j."""
    said = np.array(gains)
    private = PrivateRecords(np.full((len(said), 1), STEPS), np.zeros(len(said)), None)
    solutions = [np.array([[float(number)]]) for number in range(said.shape[1])]
    return compared_by(private, solutions, lambda rows, score: said[rows, int(score[0, 0])])


def _squared(steps: list[list[float]], people: list[int]) -> Any:
    owners = np.array(people)
    return second_moment_of(PrivateRecords(np.array(steps), np.zeros(len(steps)), owners))


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
    "which of four solutions does best": SumAudit(
        _compared([[1.0, 1.0, 0.0, 0.0], [0.5, 1.0, 0.0, 0.0]]),
        _compared([[0.5, 1.0, 0.0, 0.0]]),
        [0.5, 0.5, -0.5, -0.5],
        NoisySum(1.0, 1, 4),
    ),
    "the second moment of a person of two records": SumAudit(
        _squared([[STEPS, 0.0], [STEPS, 0.0], [0.0, STEPS]], [1, 1, 2]),
        _squared([[0.0, STEPS]], [2]),
        [1.0, 0.0, 0.0, 0.0],
        NoisySum(1.0, 2, 2),
    ),
    "a person of four records": SumAudit(
        _votes([0] * 5, ["p", "p", "p", "p", "q"]), _votes([0], ["q"]), EVERYWHERE
    ),
}
