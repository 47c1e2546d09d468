"""What an audit needs to know: neighbouring inputs, events that tell them apart, claims to refute.

Each mechanism says where it loses most (`audit_cases`), in these terms; `tacit.audit`
carries the experiments out. A `Suspicion` is two neighbouring inputs and how to release each of
them many times over; a `Look` is what is counted in the outputs, and the claim that the counts may
refute, either epsilon at some delta or the Renyi divergence of some order. Events are chosen before
anything is drawn, near the likelihood-ratio test that is optimal for the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from tacit._checks import Floats, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.plan import Plan
from tacit.privacy import events_lower_bound, rdp_lower_bound
from tacit.privacy.auditing import Event

AUDIT_DELTAS = (0.1, 0.03, 0.01, 0.003)
"""Where a claimed curve is tried: a few hundred thousand releases see no smaller probability."""
AUDIT_ORDERS = (1.5, 2.0, 4.0, 8.0)
"""Where a mechanism is tried that is priced by Renyi divergences alone."""
MOST = 1 << 20
"""Made-up answers are no larger than that: teachers, neighbours, numbers of a matrix."""
FURTHEST = 5.0
"""Events further than so many deviations happen to nobody."""
_EXPECTED_TRIALS, _EXPECTED_ERROR = 200_000, 1e-7
"""For the choice of events only: what an audit will do, roughly."""


@dataclass(frozen=True, slots=True)
class Look:
    """Events to count, and the claim that they may refute: at a delta, or at a Renyi order."""

    events: tuple[Event, ...]
    delta: float | None = None
    order: float | None = None

    def claim(self, one: Plan) -> float:
        """Return what the plan of one release says: epsilon at delta, or RDP at the order."""
        if self.delta is not None:
            return one.epsilon(self.delta - one.confidence_delta())
        return float(one.cost([self.order or math.inf]).values[0])

    def proved(self, first: Floats, second: Floats, confidence_delta: float) -> float:
        """Return the same quantity as the outputs prove it, at the least."""
        if self.delta is not None:
            return events_lower_bound(first, second, self.events, self.delta, confidence_delta)
        share = confidence_delta / len(self.events)
        return max(
            rdp_lower_bound(
                (int(event(first).sum()), int(event(second).sum())),
                len(first),
                self.order or math.inf,
                share,
            )
            for event in self.events
        )


def more_queries(one: Plan, trials: int) -> Plan:
    """Return the plan of many releases: so many queries, each with noise of its own."""
    sizes = {"n_teachers": one.n_teachers, "n_classes": one.n_classes}
    return Plan(one.mechanism, trials * one.queries, **sizes)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Two neighbouring inputs, how to release them many times over, and where to look.

    first, second: the inputs, as `answers` takes them.
    one: the plan of a single release, whose price is the claim.
    answers: answers(input, trials) is what a mechanism is given to release the input so often.
    many: many(one, trials) is the plan that pays for it.
    numbers: about how many numbers one release takes: what a trial costs in time.
    public: public(trials) is what the mechanism is told besides.
    """

    what: str
    first: Any
    second: Any
    one: Plan
    looks: tuple[Look, ...]
    answers: Callable[[Any, int], Any]
    many: Callable[[Plan, int], Plan] = more_queries
    numbers: int = 1
    public: Callable[[int], dict[str, Any]] = lambda trials: {}


def labelled(*wanted: int) -> Event:
    """Return the event that one of these labels comes out.

    >>> labelled(0, 2)(np.array([0.0, 1.0, 2.0])).tolist()
    [True, False, True]
    """
    return lambda outputs: np.isin(outputs, wanted)


def beyond(direction: ArrayLike, limit: float) -> Event:
    """Return the event that outputs lie at least so far in a direction.

    >>> beyond([1.0, -1.0], 0.5)(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [True, False]
    """
    towards = np.asarray(direction, dtype=np.float64).ravel()

    def event(outputs: Floats) -> NDArray[np.bool_]:
        return np.asarray(outputs.reshape(len(outputs), -1) @ towards >= limit)

    return event


def cut(mu: float, epsilon: float) -> float:
    """Where N(mu, 1) is e^epsilon times as likely as N(0, 1), in deviations from the latter."""
    return min(mu / 2 + epsilon / mu, FURTHEST)


def guess(mechanism: Mechanism, delta: float, **sizes: int) -> float:
    """Return about what the claim will be: it decides where to look, not what is compared."""
    return Plan(mechanism, 1, **sizes).epsilon(delta)


@dataclass(frozen=True, slots=True)
class Shift:
    """A released number of deviation `spread` that one unit moves from `start` by `by`.

    `direction` makes that number of an output; the unit takes part with probability `rate`.
    """

    direction: tuple[float, ...]
    start: float
    by: float
    spread: float
    rate: float = 1.0

    def looks(self, one: Plan) -> tuple[Look, ...]:
        """Return where to look: at deltas where everybody takes part, else at Renyi orders."""
        if self.rate == 1:
            return tuple(Look(self._events([self._at(one, d)]), delta=d) for d in AUDIT_DELTAS)
        return tuple(Look(self._events(self._best(o)), order=o) for o in AUDIT_ORDERS)

    def _at(self, one: Plan, delta: float) -> float:
        return cut(self.by / self.spread, one.epsilon(delta))

    def _events(self, deviations: Iterable[float]) -> tuple[Event, ...]:
        """Return these cuts and the middle: with far too little noise, nothing is far out."""
        limits = {self.start + self.spread * each for each in deviations}
        limits.add(self.start + self.by / 2)
        return tuple(beyond(self.direction, limit) for limit in sorted(limits))

    def _best(self, order: float) -> Iterator[float]:
        """Yield the cut at which an honest release is expected to prove most."""
        cuts = np.linspace(-1.0, FURTHEST, 61)
        absent = ndtr(-cuts)
        present = (1 - self.rate) * absent + self.rate * ndtr(self.by / self.spread - cuts)
        expected = [
            rdp_lower_bound(
                (round(_EXPECTED_TRIALS * float(p)), round(_EXPECTED_TRIALS * float(q))),
                _EXPECTED_TRIALS,
                order,
                _EXPECTED_ERROR,
            )
            for p, q in zip(present, absent, strict=True)
        ]
        if max(expected) > 0:
            yield float(cuts[int(np.argmax(expected))])


def at_deltas(*events: Event) -> tuple[Look, ...]:
    """Look at these events for the claims of epsilon."""
    return tuple(Look(events, delta=delta) for delta in AUDIT_DELTAS)


def at_orders(*events: Event) -> tuple[Look, ...]:
    """Look at these events for the claims of Renyi divergences."""
    return tuple(Look(events, order=order) for order in AUDIT_ORDERS)


def small(**sizes: float) -> None:
    """Refuse parameters that would make the made-up answers too large."""
    for name, value in sizes.items():
        if value > MOST:
            raise refuse(name, value, f"at most {MOST} for an audit")


def suspicions(mechanism: Mechanism) -> list[Suspicion]:
    """Return the experiments that could refute a mechanism's price of one release.

    Neighbours differ in one unit: a teacher's vote or codes, a record and what it displaces.

    >>> from tacit import GNMax
    >>> [(each.first, each.second) for each in suspicions(GNMax(1.0))][:2]
    [((2, 3), (1, 4)), ((2, 1), (1, 2))]
    """
    found = list(mechanism.audit_cases()) if isinstance(mechanism, Mechanism) else []
    if not found:
        raise InvalidArgument(
            f"Expected a mechanism of tacit to audit, got {mechanism.name}: no inputs are known on "
            "which it would lose most."
        )
    return found
