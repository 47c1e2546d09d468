"""Audits of the mechanisms on neighbours: many releases with and without one nearest record.

Sampled mechanisms are priced by Renyi divergences alone, so the audit refutes those: an event that
happens with probability at least p on one input and at most q < p on the other proves that
D_a >= D_a(Ber(p) || Ber(q)), for post-processing loses divergence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from audits import CONFIDENCE_DELTA, label, secure_noise
from knn_reference import Reference

from tacit.mechanisms import (
    NoisyScreening,
    Plan,
    SampledLabels,
    SampledMax,
    SampledMean,
    SampledMedian,
    SampledVotes,
    ScreeningCheck,
)
from tacit.privacy import rdp_lower_bound

Outputs = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NeighbourAudit:
    """Records, nearest first, without and with the first unit; an event; a claim at one order."""

    mechanism: Any
    targets: Any
    event: Callable[[Outputs], Outputs]
    order: float
    n_classes: int | None = None
    trials: int = 10**6
    first_unit: int = 1
    world: dict[str, Any] = field(default_factory=dict)

    def claim(self) -> float:
        """What the library says about one query at the audit's order."""
        plan = Plan(self.mechanism, 1, n_classes=self.n_classes)
        return float(plan.cost([self.order]).values[0])

    def finds(self, mechanism: Any = None, noise: Any = None, kind: type = Reference) -> float:
        """Lower bound on the divergence; honest with secure noise unless changed."""
        subject = self.mechanism if mechanism is None else mechanism
        sources = noise or (secure_noise(), secure_noise())
        public = Plan(subject, 1, n_classes=self.n_classes).release_arguments()
        hits = []
        for start, source in zip((0, self.first_unit), sources, strict=True):
            world = {
                name: value[start:] if name == "owners" else value
                for name, value in self.world.items()
            }
            answers = kind(np.asarray(self.targets)[start:], self.trials, **world)
            outputs = np.asarray(subject.release(answers, source, **public))
            hits.append(int(self.event(outputs).sum()))
        return rdp_lower_bound((hits[0], hits[1]), self.trials, self.order, CONFIDENCE_DELTA)


def ahead(margin: float) -> Callable[[Outputs], Outputs]:
    """The event that the first half of the columns leads the second by so much."""

    def event(values: Outputs) -> Outputs:
        half = values.shape[1] // 2
        return values[:, :half].sum(axis=1) - values[:, half:].sum(axis=1) >= margin

    return event


def above(limit: float) -> Callable[[Outputs], Outputs]:
    return lambda values: values >= limit


KNN_AUDITS: dict[str, NeighbourAudit] = {
    # The first record says 0, the five behind it say 1: one of them is nearly always displaced.
    "sampled-max": NeighbourAudit(
        SampledMax(3.0, k=1, sampling_rate=0.5), [0, 1, 1, 1, 1, 1], label(0), 1.5, n_classes=2
    ),
    "sampled-max, everybody": NeighbourAudit(
        SampledMax(3.0, k=1), [0, 1], label(0), 1.5, n_classes=2
    ),
    "sampled-votes": NeighbourAudit(
        SampledVotes(3.0, k=1, sampling_rate=0.5),
        [0, 1, 1, 1, 1, 1],
        ahead(2.0),
        2.0,
        n_classes=2,
    ),
    # With k = 1 the statistic is 0 or 1, whoever else is there.
    "screening-check": NeighbourAudit(
        ScreeningCheck(1.5, 0.7, k=1, sampling_rate=0.3), [0], label(1), 3.0, n_classes=2
    ),
    "noisy-screening": NeighbourAudit(
        NoisyScreening(1.5, 0.7, 3.0, k=1, sampling_rate=0.3), [0], label(0, 1), 3.0, n_classes=2
    ),
    # Two records of one person, with one coin: they count twice.
    "sampled-max, two votes": NeighbourAudit(
        SampledMax(6.0, k=2, sampling_rate=0.8, votes_per_unit=2),
        [0, 0, 1, 1, 1, 1, 1, 1],
        label(0),
        1.5,
        n_classes=2,
        first_unit=2,
        world={"owners": [0, 0, 1, 1, 2, 2, 3, 3], "votes_per_unit": 2},
    ),
    "sampled-labels": NeighbourAudit(
        SampledLabels(2.0, k=1, sampling_rate=0.5, tau=1.0),
        [[1] * 4 + [0] * 4] + [[0] * 4 + [1] * 4] * 5,
        ahead(2.0),
        2.0,
        n_classes=8,
        trials=4 * 10**5,
    ),
    "sampled-mean": NeighbourAudit(
        SampledMean(3.0, k=1, sampling_rate=0.5, low=-1.0, high=1.0),
        [1.0, -1.0, -1.0, -1.0, -1.0, -1.0],
        above(1.0),
        1.5,
    ),
    # From {1/2, 5} to {-5, 1/2}: the balance goes from (-2, 0) to (0, 2) at the two points.
    "sampled-median": NeighbourAudit(
        SampledMedian(2.0, k=2, grid=(0.0, 1.0, 2)),
        [-5.0, 0.5, 5.0],
        above(0.5),
        1.5,
        trials=2 * 10**5,
    ),
}
