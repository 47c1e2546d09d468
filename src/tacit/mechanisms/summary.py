"""Records that speak once: each adds one bounded matrix, the sum plus Gaussian noise is released.

A record's contribution is the product left right^T of two vectors of norm at most 1, computed from
that record and public data alone: a vote of a class at some prototypes, features times a residual.
Adding or removing a record moves the sum by at most 1 in the Frobenius norm, whatever its size. A
person's contributions are added up first and the sum is shortened to norm 1. Everything is counted
in whole steps of a public grid, so that sums are exact in any order and no low bits leak
(docs/theory/speak-once.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, noise_scale, number_array, probability, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Suspicion, small
from tacit.mechanisms.base import BLOCK
from tacit.mechanisms.codes import certify, clip_rows
from tacit.mechanisms.once import ReleasedOnce, everywhere
from tacit.mechanisms.plan import Plan
from tacit.noise.exact import check_ratio
from tacit.privacy import calibrate_gaussian

if TYPE_CHECKING:
    from tacit.noise import Noise

STEP = 2.0**-14
"""Grid of a vector of norm 1; products lie on the grid 2^-28."""
MOST_RECORDS = 2**24
"""2^28 steps each: float64 adds integers below 2^53 exactly, in any order."""
_LONGEST = 2**18
"""Numbers in a vector: squares of 2^17 steps then add up to less than 2^53."""
_FAR = 8.0
"""A vector with a larger number is shortened before its squares are added."""
_SHORTER = 1.0 - 2.0**-40


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions:
    """What private records say, once: record n adds the matrix left_n right_n^T. Secret.

    `left(rows)` and `right(rows)` return the vectors of some records, an array
    `(len(rows), numbers)`; only a block of records is held at a time. Each vector must depend on
    its own record and on public data only, bit for bit, whatever else is in `rows`. A vector that
    is longer than 1 is shortened; one that is not finite counts as 0.
    `units` says whose each record is, where one person may have several.

    >>> said = Contributions(2, lambda rows: np.eye(2)[rows], lambda rows: np.eye(3)[rows])
    >>> said
    Contributions(secret)
    """

    n_records: int
    left: Callable[[Integers], ArrayLike]
    right: Callable[[Integers], ArrayLike]
    units: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        count = self.n_records
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_RECORDS:
            raise InvalidArgument("Expected a number of records from 0 to 2**24.")
        if not callable(self.left) or not callable(self.right):
            raise InvalidArgument("Expected left and right to be functions of row numbers.")
        if self.units is not None and np.shape(self.units) != (count,):
            raise InvalidArgument("Expected units to have one entry for each record.")
        # Objects may differ from themselves, as NaN does: each record would be a unit of its own.
        if count and self.units is not None and np.asarray(self.units).dtype.kind not in "iuSU":
            raise InvalidArgument("Expected units to be integers, strings or bytes.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private contributions to stay where they are.")

    def __repr__(self) -> str:
        return "Contributions(secret)"


@dataclass(frozen=True, slots=True)
class NoisySum(ReleasedOnce):
    """Release sum_n left_n right_n^T + N(0, sigma^2), a matrix (rows, columns).

    mu^2 = 1/sigma^2 for a unit that is added or removed. Answers: `Contributions`. Unit: one
    record; one person where the contributions name units, whose sum is then shortened to norm 1.
    One use releases one matrix: `Plan(mechanism, 1)`.

    >>> from tacit import InsecureNoise
    >>> said = Contributions(2, lambda rows: np.eye(2)[rows], lambda rows: np.eye(2)[rows])
    >>> release = NoisySum(sigma=0.01, rows=2, columns=2).release(said, InsecureNoise(0))
    >>> release.values.round(1).astype(int).tolist()
    [[1, 0], [0, 1]]
    """

    name: ClassVar[str] = "noisy-sum"
    noise_level: ClassVar[str] = "exact"
    assumes: ClassVar[str] = (
        "what each record said was computed from that record alone, and that features, prototypes, "
        "bins and centres were fixed without the private records, or from earlier releases alone"
    )
    sigma: float
    rows: int
    columns: int

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "sigma", noise_scale(sigma=self.sigma))
        put(self, "rows", at_least(1, rows=self.rows))
        put(self, "columns", at_least(1, columns=self.columns))
        for name in ("rows", "columns"):
            if getattr(self, name) > _LONGEST:
                raise refuse(name, getattr(self, name), f"at most {_LONGEST}")
        check_ratio(np.asarray(self.sigma), STEP**2)

    @classmethod
    def for_budget(
        cls, epsilon: float, delta: float, *, rows: int, columns: int, share: float = 1.0
    ) -> Plan:
        """Return the plan with the least noise that (epsilon, delta) allows.

        sigma = AnalyticGauss(1, epsilon, delta)/sqrt(share); `share` is the part of mu^2 for this
        release, where there are several.

        >>> plan = NoisySum.for_budget(0.1, 1e-5, rows=300, columns=10)
        >>> round(plan.mechanism.sigma, 2), round(plan.epsilon(delta=1e-5), 6)
        (30.75, 0.1)
        """
        part = 1.0 if share == 1 else probability(share=share)
        sigma = calibrate_gaussian(1.0, epsilon, delta) / math.sqrt(part)
        return Plan(cls(sigma, rows, columns), 1)

    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        """Return noisy sums, one for a release, many for an audit."""
        return self._draw(self._total(self._checked(answers)), noise, copies)

    def _draw(self, total: Integers, noise: Noise, copies: int) -> Floats:
        noisy = noise.rounded_gaussian_steps(self.sigma, STEP**2, (copies, *total.shape))
        noisy += total
        return np.asarray(noisy * STEP**2)

    def _total(self, said: Contributions) -> Integers:
        """Return the exact sum over all units, in squared steps. Secret."""
        if said.units is not None:
            return self._total_of_units(said)
        return self._sum(said, np.arange(said.n_records))

    def _total_of_units(self, said: Contributions) -> Integers:
        total = np.zeros((self.rows, self.columns), dtype=np.int64)
        for records in _records_by_unit(np.asarray(said.units)):
            # Bounded after a person's records are added: bounded one by one they would add up.
            own = self._sum(said, records).reshape(1, -1).astype(np.float64)  # below 2^53: exact
            bounded = np.trunc(clip_rows(own * STEP**2, 1.0) / STEP**2).astype(np.int64)
            certify(bounded, 1.0, STEP**2)
            total += bounded.reshape(total.shape)
        return total

    def _sum(self, said: Contributions, records: Integers) -> Integers:
        """Add what some records say; each one's matrix has norm at most 1."""
        total = np.zeros((self.rows, self.columns), dtype=np.int64)
        at_once = max(1, BLOCK // max(self.rows, self.columns))
        for start in range(0, len(records), at_once):
            block = records[start : start + at_once]
            left = unit_steps(said.left(block), (len(block), self.rows))
            right = unit_steps(said.right(block), (len(block), self.columns))
            # Exact: integers of which any partial sum is below 2^53.
            total += (left.T @ right).astype(np.int64)
        return total

    def _checked(self, answers: Any) -> Contributions:
        if not isinstance(answers, Contributions):
            raise InvalidArgument(
                f"Expected Contributions for {self.name}, got {type(answers).__name__}."
            )
        return answers

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a table to which one record, far too long, adds as much everywhere; and none."""
        shape = self.rows, self.columns
        small(rows=self.rows, columns=self.columns)
        left, right = (lambda rows, size=size: np.full((len(rows), size), 1e300) for size in shape)
        pair = Contributions(1, left, right), Contributions(0, left, right)
        yield everywhere("the table", self, pair, 1.0, shape)


def unit_steps(vectors: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Return each row in whole steps of 2^-14, as float64, of length at most 1 exactly.

    Row by row, in elementwise operations and sums of integers that are exact in any order, so that
    no row's result depends on the others. A row with a number that is not finite becomes 0.

    >>> (unit_steps([[0.5, 0.0], [3e300, 4e300], [np.nan, 1.0]], (3, 2)) * STEP).round(3).tolist()
    [[0.5, 0.0], [0.6, 0.8], [0.0, 0.0]]
    """
    rows = number_array(contributions=vectors)
    if rows.shape != shape:
        raise InvalidArgument(
            f"Expected contributions of shape {shape}, as the plan says, got {rows.shape}."
        )
    with np.errstate(all="ignore"):  # what is not finite is put to 0
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        steps = np.where(np.isfinite(largest), rows, 0.0)
        far = np.isfinite(largest) & (largest > _FAR)
        steps = np.rint(np.where(far, steps / largest * _FAR, steps) / STEP)
    long = _squares(steps) > STEP**-2
    steps[long] *= (_SHORTER / STEP) / np.sqrt(_squares(steps[long]))[:, None]
    np.trunc(steps, out=steps)
    # The margin of 2^-40 is more than float64 can be wrong by: this never happens.
    while (long := _squares(steps) > STEP**-2).any():
        steps[long] -= np.sign(steps[long])
    return steps


def _squares(steps: Floats) -> Floats:
    """Return exact sums of squares: integers below 2^53."""
    return np.asarray(np.einsum("ij,ij->i", steps, steps))


def _records_by_unit(units: NDArray[Any]) -> Iterator[Integers]:
    """Yield the records of each unit."""
    _, owners = np.unique(units, return_inverse=True)
    order = np.argsort(owners, kind="stable")
    ends = np.flatnonzero(np.diff(owners[order], append=-1)) + 1
    return iter(np.split(order, ends[:-1]) if order.size else [])
