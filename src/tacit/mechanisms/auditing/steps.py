"""Where training in noisy steps loses most: a unit that pulls in one direction whenever sampled.

Many runs go side by side in one release: in each of them, one unit adds 1 to a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit.mechanisms.auditing.cases import AUDIT_ORDERS, Look, Shift, Suspicion
from tacit.mechanisms.noisy_steps import NoisySteps
from tacit.mechanisms.plan import Plan
from tacit.privacy.auditing import Event

STEPS = 2
_LIMITS = (0.0, 0.25, 0.5, 1.0, 2.0)


@dataclass
class Counting:
    """A run that learns nothing and remembers what it was told: unit n adds 1 to number n.

    Units beyond the dimension begin again at the first number. The result lists, number by
    number, what each step said.
    """

    n_units: int
    steps: int = STEPS
    dimension: int = 1
    told: list[Floats] = field(default_factory=list)
    forgotten: bool = False

    def sums(self, sample: Integers) -> Floats:
        """Return how many of the sample add to each number."""
        return np.bincount(sample % self.dimension, minlength=self.dimension).astype(np.float64)

    def learn(self, noisy_sums: Floats) -> None:
        """Remember the noisy sums."""
        self.told.append(noisy_sums)

    def result(self) -> Floats:
        """Return everything, `(numbers, steps)` as one row."""
        return np.stack(self.told, axis=1).ravel()

    def forget(self) -> None:
        """Note that the run is over."""
        self.forgotten = True


def of_noisy_steps(mechanism: NoisySteps) -> Iterator[Suspicion]:
    """Yield two steps with a unit and without it, in as many runs side by side as there are trials.

    Each run is a number of one release, and its unit touches no other, so the runs are independent
    and each has the neighbours that the price is for.
    """
    one = Plan(mechanism, STEPS)

    def runs(units: int, trials: int) -> Counting:
        return Counting(units * trials, dimension=trials)

    yield Suspicion("two steps", 1, 0, one, _looks(one, mechanism), runs, _one_release, STEPS)


def _one_release(one: Plan, trials: int) -> Plan:
    return one


def _looks(one: Plan, mechanism: NoisySteps) -> tuple[Look, ...]:
    if mechanism.sampling_rate == 1:
        together = (STEPS**-0.5,) * STEPS
        return Shift(together, 0.0, STEPS**0.5, mechanism.deviation).looks(one)
    events = tuple(likely(mechanism, limit) for limit in _LIMITS)
    return tuple(Look(events, order=order) for order in AUDIT_ORDERS)


def likely(mechanism: NoisySteps, limit: float) -> Event:
    """Return the event that the log-likelihood ratio of some steps is at least so much."""
    rate, variance = mechanism.sampling_rate, mechanism.noise_multiplier**2

    def event(steps: Floats) -> NDArray[np.bool_]:
        with np.errstate(over="ignore"):  # infinitely likely
            ratios = 1 + rate * np.expm1((steps - 0.5) / variance)
        return np.asarray(np.log(ratios).sum(axis=1) >= limit)

    return event
