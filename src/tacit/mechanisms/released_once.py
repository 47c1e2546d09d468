"""Mechanisms that release once: a matrix or a number, with Gaussian noise of known deviation.

Sums over records (`ExactlySummed`) count whole steps of a public grid in int64, so partial sums of
any parts, in any order, add up to the same bits. Each of at most 2^34 records moves a number by at
most 2^28 steps, and noise exceeds 2^46 steps with probability 2^-2900, so int64 never wraps.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, refuse
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import Look, Shift, Suspicion, small
from tacit.mechanisms.base import Mechanism, Plan, Release
from tacit.noise import Noise, admit
from tacit.privacy import RdpCurve, gaussian_rdp

STEP = 2.0**-14
"""Grid of a vector of norm 1; products lie on the grid 2^-28."""
A_RECORD = round(STEP**-2)
"""Steps by which a record moves a number at the most."""
MOST_RECORDS = 2**34
"""Records of one sum: 2^28 steps each, and the noise, stay below 2^63."""
AT_ONCE = 2**24
"""Records whose steps are added in float64, exactly, before they go to int64."""
_SLOW = 2  # an exact draw takes about as long as two other numbers


class ReleasedOnce(Mechanism):
    """One Gaussian release whose noise is `sigma` sensitivities: mu = 1/sigma."""

    __slots__ = ()
    noise_level: ClassVar[str] = "exact"
    sigma: float

    @abstractmethod
    def _checked(self, answers: Any) -> Any:
        """Return the answers as this mechanism reads them, or raise without quoting them."""

    def _total(self, checked: Any) -> Any:
        """Return what noise is added to, of checked answers. Secret."""
        return checked

    @abstractmethod
    def _draw(self, total: Any, noise: Noise, copies: int) -> Floats:
        """Return noisy values `(copies, ...)`: one copy for a release, many for an audit."""

    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        return self._draw(self._total(self._checked(answers)), noise, copies)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Draw noise once and return the noisy values."""
        entry = admit(noise)
        values = self._draws(answers, noise, 1)[0]
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case: order / (2 sigma^2), whatever the data."""
        return RdpCurve(orders, gaussian_rdp(self.sigma, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case: the cost does not depend on the data."""
        return self.cost(orders)

    def gaussian_cost(self) -> float | None:
        """mu^2 = 1/sigma^2."""
        return 1 / self.sigma**2

    def accept(self, answers: Any, *, queries: int, **sizes: int | None) -> None:
        """Raise unless the answers are usable, for the one release of the plan."""
        if queries != 1:
            raise refuse("queries", queries, "1: one matrix, or one cost, is released, once")
        self._checked(answers)


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Synthetic answers, and how many copies of their release an audit wants."""

    answers: Any
    copies: int


class Repeated(ReleasedOnce):
    """A mechanism whose `queries` are copies of one release of `MadeUp` answers, under one entry.

    For audits: a ledger entry for each of many releases would take too long. It has no confidence
    delta, since no bound is read from a copy, and so takes nothing but made-up answers.
    """

    __slots__ = ()

    def release(self, answers: MadeUp, noise: Noise) -> Release:
        """Return the copies, `(copies, ...)`."""
        entry = admit(noise)
        values = self._draws(answers.answers, noise, answers.copies)
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def confidence_delta(self) -> float:
        """0: no bound is read from a copy."""
        return 0.0

    def accept(self, answers: Any, *, queries: int, **sizes: int | None) -> None:
        """Raise unless the answers are made up, in as many copies as were priced."""
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
    small(**{"rows x columns": size})
    shift = Shift((size**-0.5,) * size, 0.0, by, by * mechanism.sigma)
    looks = shift.looks(Plan(mechanism, 1))
    return copied(what, mechanism, pair, looks, _SLOW * size)


def copied(
    what: str, mechanism: Mechanism, pair: tuple[Any, Any], looks: tuple[Look, ...], numbers: int
) -> Suspicion:
    """Return an audit of two inputs, each released in many copies under one entry."""
    return Suspicion(what, *pair, Plan(mechanism, 1), looks, MadeUp, _copies, numbers)


def _copies(one: Plan, trials: int) -> Plan:
    return Plan(repeated(one.mechanism), trials)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactSum(Secret):
    """The sum over records in whole steps of 2^-28, before any noise. Secret.

    Parameters
    ----------
    steps : array of int64
        Of the shape that a mechanism releases.
    records : int
        How many records were added, at most 2^34. Secret.

    Notes
    -----
    Made by `ExactlySummed.added`. Sums of parts are added with +, in any order, to the bits of one
    sum over all records. Parts must not share a unit.

    Examples
    --------
    >>> one = ExactSum(np.array([[3]]), 1)
    >>> (one + one).steps.tolist(), one
    ([[6]], ExactSum(secret))
    """

    steps: Integers
    records: int

    def __post_init__(self) -> None:
        check_records(self.records)
        steps = self.steps
        if not isinstance(steps, np.ndarray) or steps.dtype != np.int64:
            raise InvalidArgument("Expected a sum to be an array of int64.")
        # Not abs: that of the least int64 is negative.
        most = self.records * A_RECORD
        if steps.size and not (-most <= int(steps.min()) and int(steps.max()) <= most):
            raise InvalidArgument("Expected a sum of so many records to be within their bound.")

    def __add__(self, other: ExactSum) -> ExactSum:
        if self.steps.shape != other.steps.shape:
            raise InvalidArgument("Expected sums of one shape.")
        # Checked before they are added: nothing wraps below the limit.
        check_records(self.records + other.records)
        return ExactSum(self.steps + other.steps, self.records + other.records)


def check_records(count: Any) -> None:
    """Refuse more records than a sum holds; the message does not contain the count."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_RECORDS:
        raise InvalidArgument("Expected a number of records from 0 to 2**34.")


class ExactlySummed(ReleasedOnce):
    """A noisy sum over records in whole steps: of answers, or of sums of parts of them."""

    __slots__ = ()
    said: ClassVar[type]
    """What records say, as this mechanism adds it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Shape of the released matrix."""

    @abstractmethod
    def _added(self, said: Any) -> Integers:
        """Return the exact sum over all units, in steps. Secret."""

    def added(self, answers: Any) -> ExactSum:
        """Return the sum over some of the records, to be joined with others' sums by +.

        Parameters
        ----------
        answers : Contributions or ScoredRecords
            Of some records, with all records of each unit among them; secret.

        Returns
        -------
        ExactSum
            Secret: it has no noise.
        """
        checked = self._checked(answers)
        if isinstance(checked, ExactSum):
            return checked
        return ExactSum(self._added(checked), len(checked))

    def _total(self, checked: Any) -> Integers:
        """Return the exact sum, of answers or of parts added up before. Secret."""
        return checked.steps if isinstance(checked, ExactSum) else self._added(checked)

    def _checked(self, answers: Any) -> Any:
        if isinstance(answers, ExactSum) and answers.steps.shape == self.shape:
            return answers
        if not isinstance(answers, self.said):
            raise InvalidArgument(
                f"Expected {self.said.__name__} for {self.name}, got {type(answers).__name__}."
            )
        return answers

    def _draw(self, total: Integers, noise: Noise, copies: int) -> Floats:
        noisy = noise.rounded_gaussian_steps(self.sigma, STEP**2, (copies, *total.shape))
        noisy += total
        # Beyond 2^53 steps a float64 rounds what noise was added to: post-processing.
        return np.asarray(noisy * STEP**2)
