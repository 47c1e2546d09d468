"""Records that speak once: each adds one bounded matrix, the sum plus Gaussian noise is released.

`NoisySum`: a record's contribution is the product left right^T of two vectors of norm at most 1,
computed from that record and public data alone: a vote of a class at some prototypes, features
times a residual. Adding or removing a record moves the sum by at most 1 in the Frobenius norm,
whatever its size. A person's contributions are added up first and the sum is shortened to norm 1.
Everything is counted in whole steps of a public grid, so that sums are exact in any order and no
low bits leak (docs/theory/speak-once.md).

`NoisySecondMoment` is what a private PCA is made of
(docs/theory/high-dimensional.md#private-components): each record adds y y^T for a vector y of norm
at most the radius, so adding or removing one moves the sum by at most radius^2. It is not centred
with a private mean (the sensitivity would be 4, not 1) and not divided by the number of records
(which would be private).

A ledger writes to disk before each release, which takes too long to be done a hundred thousand
times. So an audit of a mechanism that is `ReleasedOnce` asks for many copies of a release of
made-up answers under one entry, priced as that many releases. Each is drawn as a single one is, by
the same method.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import (
    Floats,
    Integers,
    count,
    noise_scale,
    number_array,
    positive,
    refuse,
    set_checked,
)
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import Look, Shift, Suspicion, small
from tacit.mechanisms.base import Mechanism, Plan, Release, blocks
from tacit.mechanisms.codes import Frame, bounded_steps, certify, clip_rows
from tacit.noise import Noise, admit, check_ratio
from tacit.privacy import RdpCurve, gaussian_rdp

STEP = 2.0**-14
"""Grid of a vector of norm 1; products lie on the grid 2^-28."""
MOST_RECORDS = 2**24  # 2^28 steps each: float64 adds integers below 2^53 exactly, in any order
_LONGEST = 2**18  # numbers in a vector: squares of 2^17 steps then add up to less than 2^53
_FAR = 8.0  # a vector with a larger number is shortened before its squares are added
_SHORTER = 1.0 - 2.0**-40
_ROWS = 4096
_SQRT_HALF = math.sqrt(0.5) * (1 + 1e-12)
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
        """Return what noise is added to, of answers that were checked. Secret."""
        return checked

    @abstractmethod
    def _draw(self, total: Any, noise: Noise, copies: int) -> Floats:
        """Return noisy values `(copies, ...)`: one copy for a release, many for an audit."""

    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        return self._draw(self._total(self._checked(answers)), noise, copies)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Draw noise once and return the noisy values.

        Parameters
        ----------
        answers : Contributions, array or SecretCost
            What the mechanism reads; secret.
        noise : Noise
            That of an open grant, or `InsecureNoise`; each number is drawn once.

        Returns
        -------
        Release
            `values`; public.
        """
        entry = admit(noise)
        values = self._draws(answers, noise, 1)[0]
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case: order / (2 sigma^2), whatever the records say.

        Parameters
        ----------
        orders : array of floats
            Renyi orders, each above 1.
        **sizes : int or None
            `n_teachers` and `n_classes` of the plan; the price depends on neither.

        Returns
        -------
        RdpCurve
            Of the one release; public.
        """
        return RdpCurve(orders, gaussian_rdp(self.sigma, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case: the cost does not depend on the data.

        Parameters
        ----------
        answers : Contributions, array or SecretCost
            What the mechanism reads; secret.
        orders : array of floats
            Renyi orders, each above 1.

        Returns
        -------
        RdpCurve
            That of `cost`.
        """
        return self.cost(orders)

    def gaussian_cost(self) -> float | None:
        """mu^2 = 1/sigma^2.

        Returns
        -------
        float
            Public.
        """
        return 1 / self.sigma**2

    def accept(self, answers: Any, *, queries: int, **sizes: int | None) -> None:
        """Raise unless the answers are usable, for the one release of the plan.

        Parameters
        ----------
        answers : Contributions, array or SecretCost
            What the mechanism reads; secret.
        queries : int
            It must be 1.
        **sizes : int or None
            Not used.
        """
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

    def accept(self, answers: Any, *, queries: int, **sizes: int | None) -> None:
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
    small(**{"rows x columns": size})
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions(Secret):
    """What private records say, once: record n adds the matrix left_n right_n^T. Secret.

    Parameters
    ----------
    n_records : int
        How many records there are, at most 2^24; secret.
    left, right : functions
        left(rows) and right(rows) return the vectors of some records, one a row.
    units : array of shape (n_records,), optional
        Whose each record is, where one person may have several: integers, strings or bytes. By
        default each record is a unit.

    Notes
    -----
    Only a block of records is held at a time. Each vector must depend on its own record and on
    public data only, bit for bit, whatever else is in `rows`. A vector that is longer than 1 is
    shortened; one that is not finite counts as 0.

    Examples
    --------
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


@dataclass(frozen=True, slots=True)
class NoisySum(ReleasedOnce):
    """Release sum_n left_n right_n^T + N(0, sigma^2), a matrix (rows, columns).

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each number; one unit moves the matrix by at most 1.
    rows, columns : int
        Shape of the matrix: lengths of the left and of the right vectors.

    Notes
    -----
    mu^2 = 1/sigma^2 for a unit that is added or removed. Answers: `Contributions`. Unit: one
    record; one person where the contributions name units, whose sum is then shortened to norm 1.
    One use releases one matrix: `Plan(mechanism, 1)`.

    References
    ----------
    docs/theory/speak-once.md.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> said = Contributions(2, lambda rows: np.eye(2)[rows], lambda rows: np.eye(2)[rows])
    >>> release = NoisySum(sigma=0.01, rows=2, columns=2).release(said, InsecureNoise(0))
    >>> release.values.round(1).astype(int).tolist()
    [[1, 0], [0, 1]]
    """

    name: ClassVar[str] = "noisy-sum"
    assumes: ClassVar[str] = (
        "what each record said was computed from that record alone, and that features, prototypes, "
        "bins and centres were fixed without the private records, or from earlier releases alone"
    )
    sigma: float
    rows: int
    columns: int

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, rows=count, columns=count)
        for name in ("rows", "columns"):
            if getattr(self, name) > _LONGEST:
                raise refuse(name, getattr(self, name), f"at most {_LONGEST}")
        check_ratio(self.sigma, STEP**2)

    def _draw(self, total: Integers, noise: Noise, copies: int) -> Floats:
        noisy = noise.rounded_gaussian_steps(self.sigma, STEP**2, (copies, *total.shape))
        noisy += total
        return np.asarray(noisy * STEP**2)

    def _total(self, said: Contributions) -> Integers:
        """Return the exact sum over all units, in squared steps. Secret."""
        if said.units is None:
            return self._sum(said, np.arange(said.n_records))
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
        for some in blocks(len(records), max(self.rows, self.columns)):
            block = records[some]
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
        """Yield a table to which one record, far too long, adds as much everywhere; and none.

        Yields
        ------
        Suspicion
            Two neighbouring inputs, and the events that tell them apart.
        """
        shape = self.rows, self.columns
        small(rows=self.rows, columns=self.columns)
        left, right = (lambda rows, size=size: np.full((len(rows), size), 1e300) for size in shape)
        pair = Contributions(1, left, right), Contributions(0, left, right)
        yield everywhere("the table", self, pair, 1.0, shape)


def unit_steps(vectors: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Return each row in whole steps of 2^-14, as float64, of length at most 1 exactly.

    Parameters
    ----------
    vectors : array of shape (records, numbers)
        What records say; secret.
    shape : tuple of int
        What the plan says of it.

    Returns
    -------
    array of shape (records, numbers)
        Whole steps; secret.

    Notes
    -----
    Row by row, in elementwise operations and sums of integers that are exact in any order, so that
    no row's result depends on the others. A row with a number that is not finite becomes 0.

    Examples
    --------
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


@dataclass(frozen=True, slots=True)
class NoisySecondMoment(ReleasedOnce):
    """Release sum_n sum_b y_nb y_nb^T + radius^2 sigma E, E symmetric Gaussian, y_n clipped.

    Parameters
    ----------
    sigma : float
        Deviation of the noise, in units of radius^2.
    dimension : int
        Length of a vector.
    radius : float, optional
        Every record, all its parts together, is clipped to this norm.

    Notes
    -----
    Answers are vectors `(records, dimension)`, or `(records, parts, dimension)` where one record
    has many parts, the blocks of a volume: |(y_n1, ..., y_nB)| <= radius bounds them together, and
    |sum_b y_b y_b^T|_F <= sum_b |y_b|^2 <= radius^2. E has variance 1 on the diagonal and 1/2 off
    it, which is isotropic noise on (diagonal, sqrt2 upper triangle), an isometry of the Frobenius
    norm. mu^2 = 1/sigma^2. Unit: one record; a unit with several must bring one row.

    References
    ----------
    docs/theory/high-dimensional.md#private-components.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> mechanism = NoisySecondMoment(sigma=0.01, dimension=2)
    >>> mechanism.release([[3, 0], [0, 0.5]], InsecureNoise(0)).values.diagonal().round(1)
    array([1. , 0.3])
    """

    name: ClassVar[str] = "noisy-second-moment"
    assumes: ClassVar[str] = (
        "each unit brought one vector, centred and scaled without the private records"
    )
    sigma: float
    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, dimension=count, radius=positive)
        if not 1e-100 <= self.radius <= 1e100:
            raise refuse("radius", self.radius, "between 1e-100 and 1e100; rescale the vectors")
        check_ratio([self.sigma * _SQRT_HALF, self.sigma], STEP**2)

    def _total(self, vectors: Floats) -> Floats:
        """Return the exact sum of outer products, in squared steps. Secret."""
        total = np.zeros((self.dimension, self.dimension))
        weights = np.full(vectors.shape[1] * self.dimension, 1 / self.radius)
        for start in range(0, len(vectors), _ROWS):
            part = vectors[start : start + _ROWS].reshape(-1, weights.size)
            frame = Frame(np.zeros(part.shape), np.broadcast_to(weights, part.shape))
            # One bound for all parts of a record: with more of them it moves the sum no farther.
            steps = bounded_steps(part, frame, 1.0, STEP, 1).astype(np.float64)
            steps = steps.reshape(-1, self.dimension)
            total += steps.T @ steps
        return total

    def _draw(self, total: Floats, noise: Noise, copies: int) -> Floats:
        """Return noisy symmetric matrices; they may have negative roots."""
        rows, columns = np.triu_indices(self.dimension)
        deviations = np.where(rows == columns, self.sigma, self.sigma * _SQRT_HALF)
        noisy = noise.rounded_gaussian_steps(deviations, STEP**2, (copies, rows.size))
        noisy += total[rows, columns].astype(np.int64)
        matrices = np.empty((copies, self.dimension, self.dimension))
        matrices[:, rows, columns] = noisy * (STEP * self.radius) ** 2
        matrices[:, columns, rows] = matrices[:, rows, columns]
        return matrices

    def _checked(self, answers: Any) -> Floats:
        """Return vectors (records, parts, dimension); the messages never quote them."""
        vectors = number_array(vectors=answers)
        if vectors.ndim == 2:
            vectors = vectors[:, None, :]
        if vectors.ndim != 3 or vectors.shape[1] < 1 or vectors.shape[2] != self.dimension:
            raise InvalidArgument(
                f"Expected vectors (records, [parts,] dimension={self.dimension})."
            )
        if len(vectors) > MOST_RECORDS:
            raise InvalidArgument(f"Expected at most {MOST_RECORDS} records.")
        return vectors

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield one record that is far too long, alike in every coordinate, and none.

        Yields
        ------
        Suspicion
            Two neighbouring inputs, and the events that tell them apart.
        """
        small(dimension=self.dimension)
        wild = np.full((1, self.dimension), 1e300)
        shape = self.dimension, self.dimension
        yield everywhere("the moment", self, (wild, wild[:0]), self.radius**2, shape)
