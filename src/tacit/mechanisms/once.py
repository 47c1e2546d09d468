"""What mechanisms share that release one thing, once: a matrix, a table, a cost.

A ledger writes to disk before each release, which takes too long to be done a hundred thousand
times. So an audit of such a mechanism asks for many copies of a release of made-up answers under
one entry, priced as that many releases. Each is drawn as a single one is, by the same method.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from tacit._checks import Floats, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import MOST, Look, Shift, Suspicion
from tacit.mechanisms.base import Mechanism, Release
from tacit.mechanisms.plan import Plan
from tacit.noise import admit
from tacit.privacy import RdpCurve, gaussian_rdp

if TYPE_CHECKING:
    from tacit.noise import Noise

_SLOW = 2
"""An exact draw takes about as long as two other numbers."""


class ReleasedOnce(Mechanism):
    """One Gaussian release whose noise is `sigma` sensitivities: mu = 1/sigma."""

    __slots__ = ()
    sigma: float

    @abstractmethod
    def _checked(self, answers: Any) -> Any:
        """Return the answers as this mechanism reads them, or raise without quoting them."""

    @abstractmethod
    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        """Return noisy values `(copies, ...)`: one copy for a release, many for an audit."""

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return what `_draws` makes, once."""
        entry = admit(noise)
        values = self._draws(answers, noise, 1)[0]
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case: order / (2 sigma^2), whatever the records say."""
        return RdpCurve(orders, gaussian_rdp(self.sigma, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case: the cost does not depend on the data."""
        return self.cost(orders)

    def gaussian_cost(self) -> float | None:
        """mu^2 = 1/sigma^2."""
        return 1 / self.sigma**2

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the answers are usable, for the one release of the plan."""
        if queries != 1:
            raise refuse("queries", queries, "1: one matrix, or one cost, is released, once")
        self._checked(answers)


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Answers that are nobody's, and how many copies of their release are wanted."""

    answers: Any
    copies: int


class Repeated(ReleasedOnce):
    """A mechanism whose `queries` are copies of one release of answers that are `MadeUp`.

    The confidence delta is left out: nobody reads a bound from a copy, and no budget could pay for
    so many. That is why it takes nothing but made-up answers.
    """

    __slots__ = ()

    def release(self, answers: MadeUp, noise: Noise) -> Release:
        """Return the copies, `(copies, ...)`."""
        entry = admit(noise)
        values = self._draws(answers.answers, noise, answers.copies)
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def confidence_delta(self) -> float:
        """0: see above."""
        return 0.0

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the answers are made up and as many copies are wanted as were priced."""
        if not isinstance(answers, MadeUp) or answers.copies != queries:
            raise InvalidArgument(f"Expected made-up answers in the {queries} copies of the plan.")


def repeated(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism that releases many copies of what this one releases once.

    >>> from tacit import InsecureNoise
    >>> from tacit.mechanisms import NoisySecondMoment
    >>> many = repeated(NoisySecondMoment(sigma=1.0, dimension=2))
    >>> many.release(MadeUp([[1.0, 0.0]], 5), InsecureNoise(0)).values.shape
    (5, 2, 2)
    """
    kind: Any = type(mechanism)
    if not issubclass(kind, ReleasedOnce):
        raise InvalidArgument(f"Expected a mechanism that releases once, got {mechanism.name}.")
    many: Any = type(kind.__name__, (Repeated, kind), {"__slots__": ()})
    parameters = {field.name: getattr(mechanism, field.name) for field in fields(kind)}
    made: Mechanism = many(**parameters)
    return made


def everywhere(
    what: str, mechanism: ReleasedOnce, pair: tuple[Any, Any], by: float, shape: tuple[int, int]
) -> Suspicion:
    """Return an audit of two inputs of which the first moves all numbers of a matrix alike."""
    size = shape[0] * shape[1]
    if size > MOST:
        raise refuse("rows x columns", size, f"at most {MOST} for an audit")
    shift = Shift((size**-0.5,) * size, 0.0, by, by * mechanism.sigma)
    looks = shift.looks(Plan(mechanism, 1))
    return copied(what, mechanism, pair, looks, _SLOW * size)


def copied(
    what: str, mechanism: Mechanism, pair: tuple[Any, Any], looks: tuple[Look, ...], numbers: int
) -> Suspicion:
    """Return an audit of two inputs, each of which is released in many copies under one entry."""
    return Suspicion(what, *pair, Plan(mechanism, 1), looks, MadeUp, _copies, numbers)


def _copies(one: Plan, trials: int) -> Plan:
    return Plan(repeated(one.mechanism), trials)
