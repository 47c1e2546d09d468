"""Records around a query whose k nearest can be written down: what audits of neighbours use.

The records of one unit come first, if it is there; some others may follow, each with a coin of its
own, and then a crowd without end that says the same, of which k are sampled whatever the rate, so
that no coins are needed. A crowd without end is the limit of large data sets, for all of which a
price must hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers
from tacit.mechanisms.auditing import Look, Shift, Suspicion
from tacit.mechanisms.plan import Plan

if TYPE_CHECKING:
    from tacit.noise import Noise

UNIT, NOBODY = 0, -1
"""Where the targets of the unit stand; the position of a neighbour that was not found."""
SAME, OTHER = 1, 2
VOTES = np.array([0, 0, 1])
"""The unit says class 0, and so do some others; the rest say class 1."""
FINE = 0.01
"""Where everybody takes part, one lead is chosen for the claim at this delta."""


@dataclass(frozen=True, slots=True)
class World:
    """What every query is surrounded by: targets, and which of them stand where.

    targets: what kinds of record say; the first kind is the unit's.
    votes_per_unit: how many records the unit has.
    others: kinds of the records behind the unit, nearest first, each of a unit of its own.
    crowd: the kind of all records behind those, or nobody.
    unit: whether the unit is there at all.
    """

    targets: NDArray[Any]
    votes_per_unit: int
    others: tuple[int, ...] = ()
    crowd: int = NOBODY
    unit: bool = True

    def work(self, k: int) -> int:
        """Return about how many numbers one query takes, in terms of neighbours that are found."""
        front = self.votes_per_unit + len(self.others)
        return front + (k if self.crowd != NOBODY else 1 + k // 8)

    def around(self, n_queries: int) -> Neighbours:
        """Return so many queries, each in the middle of this world."""
        return Neighbours(self, n_queries)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The answers of a `World` to some queries, as mechanisms on neighbours ask for them.

    >>> from tacit import InsecureNoise
    >>> world = World(np.array([0, 1]), votes_per_unit=1, crowd=1)
    >>> Neighbours(world, 2).draw(3, 1.0, InsecureNoise(0)).tolist()
    [[0, 1, 1], [0, 1, 1]]
    """

    world: World
    n_queries: int

    @property
    def votes_per_unit(self) -> int:
        """How many records of one unit can be among the neighbours of a query."""
        return self.world.votes_per_unit

    @property
    def targets(self) -> NDArray[Any]:
        """What the kinds of record say."""
        return self.world.targets

    def draw(self, k: int, rate: float, noise: Noise, rows: Integers | None = None) -> Integers:
        """Return the kinds `(rows, k)` of the k nearest in a fresh Poisson sample of the units."""
        count = self.n_queries if rows is None else len(rows)
        owners = self._owners()
        coins = noise.poisson_mask(rate, (count, owners.size))
        front = np.repeat(np.arange(owners.size), np.where(owners == UNIT, self.votes_per_unit, 1))
        sampled = coins[:, front]
        place = np.cumsum(sampled, axis=1) - 1
        query, record = np.nonzero(sampled & (place < k))
        kinds = np.full((count, k), self.world.crowd, dtype=np.int64)
        kinds[query, place[query, record]] = owners[front[record]]
        return kinds

    def _owners(self) -> Integers:
        """Return the kind of each one in front of the crowd, nearest first."""
        unit = (UNIT,) if self.world.unit else ()
        return np.array(unit + self.world.others, dtype=np.int64)


def crowd(targets: ArrayLike, votes_per_unit: int) -> World:
    """Return a world in which everybody else says the opposite of the unit."""
    return World(np.asarray(targets), votes_per_unit, crowd=OTHER)


def split(mechanism: Any, behind: int) -> World:
    """Return a world of everyone in which class 0 is about so many votes behind."""
    votes, k = mechanism.votes_per_unit, mechanism.k
    same = min(max(0, (k - behind) // 2), k - votes)
    return World(VOTES, votes, (SAME,) * same, OTHER)


def with_and_without(
    what: str, one: Plan, world: World, looks: tuple[Look, ...], width: int = 1
) -> Suspicion:
    """Return that world with its unit and without."""
    mechanism: Any = one.mechanism
    alone = replace(world, unit=False)
    return Suspicion(
        what, world, alone, one, looks, World.around, numbers=world.work(mechanism.k) * width
    )


def shifted(what: str, one: Plan, world: World, shift: Shift, width: int = 1) -> Suspicion:
    """Return that world with its unit and without, which moves a released number."""
    return with_and_without(what, one, world, shift.looks(one), width)
