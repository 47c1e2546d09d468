"""What a mechanism is, and what it releases.

A mechanism is frozen data that knows its own cost, so accounting cannot drift from the noise: both
read the same dataclass. To carry answers across the line it needs the noise of an open grant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._registry import MECHANISMS, mechanism_class
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.mechanisms.auditing import Suspicion
    from tacit.mechanisms.votes import VoteReading
    from tacit.noise import Noise
    from tacit.privacy import RdpCurve

BLOCK = 1 << 18
"""Votes noised at a time: the temporaries stay in the processor's cache."""

NO_ANSWER = -1
"""The label of a query that was not answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """What became public: labels (-1: no answer) or values, by which mechanism, under which entry.

    `entry` is the hash of the ledger entry that paid for it, None where no ledger was used
    (possible with `InsecureNoise` only; `secure` is then False).
    """

    mechanism: Mechanism
    labels: NDArray[np.int64] | None = None
    values: NDArray[np.float64] | None = None
    entry: str | None = None
    secure: bool = True

    def __post_init__(self) -> None:
        if (self.labels is None) == (self.values is None):
            raise InvalidArgument("Expected exactly one of labels and values in a Release.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        released = self.labels if self.labels is not None else self.values
        array = np.asarray(released, dtype=dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        return len(np.asarray(self))


class Mechanism(ABC):
    """How secret answers become a public release: everything about it stands with its dataclass.

    `name` is what the ledger and the command line call it; `noise_level` is "csprng" for an index
    or a bit, "exact" for numbers on a public grid; `assumes` is what must hold outside tacit's
    sight for the price to be right. One line of `tacit._registry` makes it known by its name.
    """

    __slots__ = ()
    name: ClassVar[str]
    noise_level: ClassVar[str]
    assumes: ClassVar[str]

    def __init_subclass__(cls) -> None:
        # Now, not when a statement is to be made: then the budget is spent.
        if hasattr(cls, "name") and not hasattr(cls, "assumes"):
            raise TypeError(f"Expected {cls.__name__} to say what its price presumes: assumes.")

    @abstractmethod
    def release(self, answers: Any, noise: Noise) -> Release:
        """Draw noise once and return what may be published."""

    @abstractmethod
    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case over all data, for one query."""

    @abstractmethod
    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Cost of each query for this very data: a secret, never to be published as it is."""

    def gaussian_cost(self) -> float | None:
        """mu^2 of one answered query if this is Gaussian noise, None if it is something else."""
        return None

    def confidence_delta(self) -> float:
        """Probability, spent from the budget's delta, with which the claimed cost may fail."""
        return 0.0

    @abstractmethod
    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise `InvalidArgument` unless the answers are what the plan priced."""

    def reading(self) -> VoteReading:
        """Return how a student reads a release; raise unless it tells classes or their votes."""
        raise InvalidArgument(
            f"Expected a release of class labels or noisy votes, got one of {self.name!r}."
        )

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the neighbouring inputs on which it loses most, for `tacit audit`."""
        return iter(())

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Return what describes one in words, each with its default, or `dataclasses.MISSING`."""
        made: Any = cls  # a dataclass by contract
        return {each.name: each.default for each in fields(made)}

    @classmethod
    def from_parameters(cls, **given: Any) -> Self:
        """Make one of what `parameters` names."""
        return cls(**given)


@runtime_checkable
class SelectiveMechanism(Protocol):
    """A mechanism that checks every query and answers only those that pass."""

    @property
    def check(self) -> Mechanism:
        """What every query pays."""

    @property
    def answer(self) -> Mechanism:
        """What a query that passes pays on top."""


@runtime_checkable
class SampledGaussian(Protocol):
    """A mechanism whose every query is one Gaussian release of sensitivity 1 on a Poisson sample.

    The add/remove neighbours are dominated by N(0, s^2) and (1-q) N(0, s^2) + q N(1, s^2), which is
    what a privacy loss distribution composes.
    """

    def sampled_gaussian(self) -> tuple[float, float]:
        """Return noise multiplier s and sampling rate q."""


@runtime_checkable
class ClassMechanism(Protocol):
    """A mechanism whose answers do not tell how many classes there are: the plan must.

    Its `release` takes `n_classes`, which a grant passes on from the plan.
    """

    counts_classes: ClassVar[bool]


CHOICES = (
    "method and hyper-parameters (numbers of teachers and of queries included) were chosen without "
    "the private records, or from earlier releases alone, and that inputs called public hold no "
    "private record"
)
"""What every mechanism presumes."""


def assumptions(names: Iterable[str]) -> tuple[str, ...]:
    """Return what the named mechanisms presume, each once.

    A ledger may name one that this version does not know: that is said, never left out.

    >>> for each in assumptions(["gnmax", "lnmax", "gnmax", "gnmax-2"]):
    ...     print(each.split(", and that ")[0])
    each unit's records reached one teacher only, whoever else is in the data
    whatever mechanism 'gnmax-2' presumes holds, which this version of tacit does not know
    """
    return tuple(dict.fromkeys(f"{_presumed(name)}, and that {CHOICES}" for name in names))


def _presumed(name: str) -> str:
    if name in MECHANISMS:
        return str(mechanism_class(name).assumes)
    return f"whatever mechanism {name!r} presumes holds, which this version of tacit does not know"
