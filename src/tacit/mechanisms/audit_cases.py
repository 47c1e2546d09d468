"""What an audit needs: neighbouring inputs, events that distinguish them, claims to refute.

Each mechanism states where it loses most (`audit_cases`); `tacit.audit` runs the experiments.
Events are chosen before anything is drawn, near the likelihood-ratio test optimal for the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from tacit._checks import Floats, Integers, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.base import Mechanism, Plan
from tacit.noise import Noise
from tacit.privacy import Event, events_lower_bound, rdp_lower_bound

# Where a claimed curve is tried: a few hundred thousand releases see no smaller probability.
AUDIT_DELTAS = (0.1, 0.03, 0.01, 0.003)
# Where a mechanism is tried that is priced by Renyi divergences alone.
AUDIT_ORDERS = (1.5, 2.0, 4.0, 8.0)
MOST = 1 << 20  # made-up answers are no larger than that: teachers, neighbours, numbers of a matrix
FURTHEST = 5.0  # events further than so many deviations happen to nobody
# For the choice of events only: what an audit will do, roughly.
_EXPECTED_TRIALS, _EXPECTED_ERROR = 200_000, 1e-7

# Where the targets of the unit stand; the position of a neighbour that was not found.
UNIT, NOBODY = 0, -1
SAME, OTHER = 1, 2
VOTES = np.array([0, 0, 1])  # the unit says class 0, and so do some others; the rest say class 1
FINE = 0.01  # where everybody takes part, one lead is chosen for the claim at this delta


@dataclass(frozen=True, slots=True)
class Look:
    """Events to count, and the claim that they may refute: at a delta, or at a Renyi order.

    Parameters
    ----------
    events : tuple of functions
        Each returns which outputs count; chosen before anything is drawn.
    delta : float, optional
        Where epsilon is claimed.
    order : float, optional
        Where the Renyi divergence is claimed; given instead of delta.
    """

    events: tuple[Event, ...]
    delta: float | None = None
    order: float | None = None

    def claim(self, one: Plan) -> float:
        """Return what the plan of one release claims: epsilon at delta, or RDP at the order.

        Parameters
        ----------
        one : Plan
            That of a single release.

        Returns
        -------
        float
            Epsilon or RDP; public.
        """
        if self.delta is not None:
            return one.epsilon(self.delta - one.confidence_delta())
        return float(one.cost([self.order or math.inf]).values[0])

    def proved(self, first: Floats, second: Floats, confidence_delta: float) -> float:
        """Return a lower bound on the same quantity, from outputs.

        Parameters
        ----------
        first, second : arrays
            Independent outputs, one a row, on two neighbouring inputs.
        confidence_delta : float
            Greatest chance that the result exceeds the truth.

        Returns
        -------
        float
            0 if nothing is proved.
        """
        if self.delta is not None:
            return events_lower_bound(first, second, self.events, self.delta, confidence_delta)
        share, order = confidence_delta / len(self.events), self.order or math.inf
        hits = ((int(event(first).sum()), int(event(second).sum())) for event in self.events)
        return max(rdp_lower_bound(pair, len(first), order, share) for pair in hits)


def _more_queries(one: Plan, trials: int) -> Plan:
    """Return the plan of `trials` releases as queries, each with noise of its own."""
    return replace(one, queries=trials * one.queries)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Two neighbouring inputs, how to release each of them many times, and what to count.

    Parameters
    ----------
    what : str
        What is tested, in words.
    first, second : object
        The inputs, as `answers` takes them.
    one : Plan
        That of a single release, whose price is the claim.
    looks : tuple of Look
        Events to count in the outputs, with the claims that they may refute.
    answers : function
        answers(input, trials) is what the mechanism reads to release the input that often.
    many : function, optional
        many(one, trials) is the plan that pays for it; by default so many times the queries.
    numbers : int, optional
        About how many numbers one release takes: the time of a trial.
    public : function, optional
        public(trials) is further arguments of the release; none by default.
    """

    what: str
    first: Any
    second: Any
    one: Plan
    looks: tuple[Look, ...]
    answers: Callable[[Any, int], Any]
    many: Callable[[Plan, int], Plan] = _more_queries
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
    """Return about what the claim will be: it chooses the events, not what is compared."""
    return Plan(mechanism, 1, **sizes).epsilon(delta)


@dataclass(frozen=True, slots=True)
class Shift:
    """A released number of deviation `spread` that one unit moves from `start` by `by`.

    `direction` projects an output onto it; the unit takes part with probability `rate`.
    """

    direction: tuple[float, ...]
    start: float
    by: float
    spread: float
    rate: float = 1.0

    def looks(self, one: Plan) -> tuple[Look, ...]:
        """Return events at deltas where every unit takes part, else at Renyi orders."""
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
        hits = np.rint(_EXPECTED_TRIALS * np.stack([present, absent])).astype(np.int64)
        expected = [
            rdp_lower_bound((int(p), int(q)), _EXPECTED_TRIALS, order, _EXPECTED_ERROR)
            for p, q in hits.T
        ]
        if max(expected) > 0:
            yield float(cuts[int(np.argmax(expected))])


def at_deltas(*events: Event) -> tuple[Look, ...]:
    """Count these events for the claims of epsilon."""
    return tuple(Look(events, delta=delta) for delta in AUDIT_DELTAS)


def at_orders(*events: Event) -> tuple[Look, ...]:
    """Count these events for the claims of Renyi divergences."""
    return tuple(Look(events, order=order) for order in AUDIT_ORDERS)


def small(**sizes: float) -> None:
    """Refuse parameters that would make the made-up answers too large."""
    for name, value in sizes.items():
        if value > MOST:
            raise refuse(name, value, f"at most {MOST} for an audit")


@dataclass(frozen=True, slots=True)
class World:
    """Made-up neighbours, the same for every query.

    `targets` by kind of record, the first the unit's; `others` are the kinds of the records behind
    the unit's, nearest first, each of a unit of its own; `crowd` is the kind of all records behind
    those, endless (the limit of large data sets, so k are sampled at any rate), or none; `unit` is
    whether the unit is there.

    >>> from tacit import InsecureNoise
    >>> world = World(np.array([0, 1]), votes_per_unit=1, crowd=1)
    >>> world.around(2).draw(3, 1.0, InsecureNoise(0)).tolist()
    [[0, 1, 1], [0, 1, 1]]
    """

    targets: NDArray[Any]
    votes_per_unit: int
    others: tuple[int, ...] = ()
    crowd: int = NOBODY
    unit: bool = True
    n_queries: int = 1

    def work(self, k: int) -> int:
        """Return about how many numbers one query takes, in neighbours found."""
        front = self.votes_per_unit + len(self.others)
        return front + (k if self.crowd != NOBODY else 1 + k // 8)

    def around(self, n_queries: int) -> World:
        """Return a copy with so many queries."""
        return replace(self, n_queries=n_queries)

    def draw(self, k: int, rate: float, noise: Noise, rows: Integers | None = None) -> Integers:
        """Return the kinds `(rows, k)` of the k nearest in a fresh Poisson sample of the units."""
        count = self.n_queries if rows is None else len(rows)
        unit = (UNIT,) if self.unit else ()
        owners = np.array(unit + self.others, dtype=np.int64)  # in front of the crowd
        coins = noise.poisson_mask(rate, (count, owners.size))
        front = np.repeat(np.arange(owners.size), np.where(owners == UNIT, self.votes_per_unit, 1))
        sampled = coins[:, front]
        place = np.cumsum(sampled, axis=1) - 1
        query, record = np.nonzero(sampled & (place < k))
        kinds = np.full((count, k), self.crowd, dtype=np.int64)
        kinds[query, place[query, record]] = owners[front[record]]
        return kinds


def crowd(votes_per_unit: int, targets: ArrayLike = VOTES) -> World:
    """Return a world in which all other records have the other class."""
    return World(np.asarray(targets), votes_per_unit, crowd=OTHER)


def split(mechanism: Any, behind: int) -> World:
    """Return a world, without sampling, in which class 0 is about `behind` votes behind."""
    votes, k = mechanism.votes_per_unit, mechanism.k
    same = min(max(0, (k - behind) // 2), k - votes)
    return World(VOTES, votes, (SAME,) * same, OTHER)


def with_and_without(
    what: str, one: Plan, world: World, looks: tuple[Look, ...], width: int = 1
) -> Suspicion:
    """Return the audit of a world with its unit and without."""
    mechanism: Any = one.mechanism
    alone, numbers = replace(world, unit=False), world.work(mechanism.k) * width
    return Suspicion(what, world, alone, one, looks, World.around, numbers=numbers)


def suspicions(mechanism: Mechanism) -> list[Suspicion]:
    """Return the experiments that could refute a mechanism's price of one release.

    Parameters
    ----------
    mechanism : Mechanism
        One whose `audit_cases` yields something.

    Returns
    -------
    list of Suspicion
        Neighbours differ in one unit: a teacher's vote or codes, a record and what it displaces.

    Examples
    --------
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
