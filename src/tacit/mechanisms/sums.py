"""One-shot sums: each record adds one bounded matrix; the sum plus Gaussian noise is released.

Everything is counted in whole steps of a public grid, so sums are exact in any order and no low
bits leak. `NoisySum`: docs/theory/speak-once.md. `NoisySecondMoment`, which a private PCA needs:
docs/theory/high-dimensional.md#private-components.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from tacit.mechanisms.audit_cases import Suspicion, small
from tacit.mechanisms.base import blocks
from tacit.mechanisms.codes import Frame, bounded_steps, certify, clip_rows
from tacit.mechanisms.released_once import (
    STEP,
    ExactlySummed,
    ReleasedOnce,
    check_records,
    everywhere,
)
from tacit.noise import Noise, check_ratio

_LONGEST = 2**18  # numbers in a vector: squares of 2^17 steps then add up to less than 2^53
_FAR = 8.0  # a vector with a larger number is shortened before its squares are added
_SHORTER = 1.0 - 2.0**-40
_ROWS = 4096
_JOINT = 2**19  # numbers that units say together before each is bounded
_SQRT_HALF = math.sqrt(0.5) * (1 + 1e-12)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions(Secret):
    """What private records contribute, once: record n adds the matrix left_n right_n^T. Secret.

    Parameters
    ----------
    n_records : int
        How many records there are, at most 2^34; secret.
    left, right : functions
        left(rows) and right(rows) return the vectors of some records, one a row.
    units : array of shape (n_records,), optional
        Whose each record is: integers, strings or bytes. By default each record is a unit.
    mean : bool
        Whether a unit adds the mean of its records' matrices instead of their sum, shortened to
        norm 1.

    Notes
    -----
    Each vector must depend on its own record and on public data only, bit for bit, whatever else
    is in `rows`. A vector longer than 1 is shortened; one that is not finite counts as 0. Only a
    block of records is in memory at a time.
    """

    n_records: int
    left: Callable[[Integers], ArrayLike]
    right: Callable[[Integers], ArrayLike]
    units: NDArray[Any] | None = None
    mean: bool = False

    def __post_init__(self) -> None:
        count = self.n_records
        check_records(count)
        if not callable(self.left) or not callable(self.right):
            raise InvalidArgument("Expected left and right to be functions of row numbers.")
        if self.units is not None and np.shape(self.units) != (count,):
            raise InvalidArgument("Expected units to have one entry for each record.")
        # Objects may differ from themselves, as NaN does: each record would be a unit of its own.
        if count and self.units is not None and np.asarray(self.units).dtype.kind not in "iuSU":
            raise InvalidArgument("Expected units to be integers, strings or bytes.")

    def __len__(self) -> int:
        return self.n_records


@dataclass(frozen=True, slots=True)
class NoisySum(ExactlySummed):
    """Release sum_n left_n right_n^T + N(0, sigma^2), a matrix (rows, columns).

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each number; one unit moves the matrix by at most 1.
    rows, columns : int
        Shape of the matrix: lengths of the left and of the right vectors.

    Notes
    -----
    mu^2 = 1/sigma^2 (Frobenius norm) for a unit added or removed. Answers: `Contributions`. Unit:
    one record; one person where the contributions name units, whose sum is then shortened to norm
    1. One use releases one matrix: `Plan(mechanism, 1)`. Proof: docs/theory/speak-once.md.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> records = Contributions(2, lambda rows: np.eye(2)[rows], lambda rows: np.eye(2)[rows])
    >>> release = NoisySum(sigma=0.01, rows=2, columns=2).release(records, InsecureNoise(0))
    >>> release.values.round(1).astype(int).tolist()
    [[1, 0], [0, 1]]
    """

    name: ClassVar[str] = "noisy-sum"
    assumes: ClassVar[str] = (
        "what each record said was computed from that record alone, and that features, prototypes, "
        "bins and centres were fixed without the private records, or from earlier releases alone"
    )
    said: ClassVar[type] = Contributions
    sigma: float
    rows: int
    columns: int

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, rows=count, columns=count)
        for name in ("rows", "columns"):
            if getattr(self, name) > _LONGEST:
                raise refuse(name, getattr(self, name), f"at most {_LONGEST}")
        check_ratio(self.sigma, STEP**2)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.rows, self.columns

    def _added(self, said: Contributions) -> Integers:
        if said.units is None:
            return self._sum(said, np.arange(said.n_records))
        total = np.zeros(self.rows * self.columns, dtype=np.int64)
        for records, starts in _whole_units(np.asarray(said.units), total.size):
            # Bounded after a person's records are added: bounded one by one they would add up.
            own = self._sums(said, records, starts)
            bounded = np.trunc(clip_rows(own * STEP**2, 1.0) / STEP**2).astype(np.int64)
            certify(bounded, 1.0, STEP**2)
            total += bounded.sum(axis=0)
        return total.reshape(self.shape)

    def _sums(self, said: Contributions, records: Integers, starts: Integers) -> Floats:
        """Return the sum or mean of each unit's records, which begin at `starts`, a row each."""
        # Whole steps are added up before they are divided: a record's part of a mean of thousands
        # may be less than a step.
        sizes = np.diff(starts, append=len(records))[:, None] if said.mean else 1
        if starts.size == 1:
            # Of 2^25 records and more float64 may round: what counts is the bound, certified.
            return np.asarray(self._sum(said, records).reshape(1, -1) / sizes, dtype=np.float64)
        left = unit_steps(said.left(records), (len(records), self.rows))
        right = unit_steps(said.right(records), (len(records), self.columns))
        products = (left[:, :, None] * right[:, None, :]).reshape(len(records), -1)
        return np.asarray(np.add.reduceat(products, starts) / sizes)  # sums below 2^53: exact

    def _sum(self, said: Contributions, records: Integers) -> Integers:
        """Add some records' matrices, each of norm at most 1."""
        total = np.zeros((self.rows, self.columns), dtype=np.int64)
        for some in blocks(len(records), max(self.rows, self.columns)):
            block = records[some]
            left = unit_steps(said.left(block), (len(block), self.rows))
            right = unit_steps(said.right(block), (len(block), self.columns))
            # Exact: integers of which any partial sum of a block is below 2^53.
            total += (left.T @ right).astype(np.int64)
        return total

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a table to which one record, far too long, adds as much everywhere; and none."""
        shape = self.shape
        small(rows=self.rows, columns=self.columns)
        left, right = (lambda rows, size=size: np.full((len(rows), size), 1e300) for size in shape)
        pair = Contributions(1, left, right), Contributions(0, left, right)
        yield everywhere("the table", self, pair, 1.0, shape)


def unit_steps(vectors: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Return each row in whole steps of 2^-14, as float64, of length at most 1 exactly.

    Parameters
    ----------
    vectors : array of shape (records, numbers)
        Of records; secret. A row with a number that is not finite becomes 0.
    shape : tuple of int
        That of the plan.

    Returns
    -------
    array of shape (records, numbers)
        Whole steps; no row depends on the others, in any bit. Secret.

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


def _whole_units(units: NDArray[Any], width: int) -> Iterator[tuple[Integers, Integers]]:
    """Yield records of whole units, at most `_JOINT` numbers, and where each unit begins."""
    _, owners = np.unique(units, return_inverse=True)
    order = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    ends = np.append(starts[1:], order.size)
    first = 0
    while first < starts.size:
        most = starts[first] + _JOINT // width
        last = max(first + 1, int(np.searchsorted(ends, most, "right")))
        yield order[starts[first] : ends[last - 1]], starts[first:last] - starts[first]
        first = last


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
    it: isotropic noise on (diagonal, sqrt2 upper triangle), an isometry of the Frobenius norm.
    mu^2 = 1/sigma^2. Not centred with a private mean (sensitivity 4 instead of 1), nor divided by
    the number of records, which is private. Unit: one record; a unit with several must bring one
    row. Proof: docs/theory/high-dimensional.md#private-components.

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

    def _total(self, vectors: Floats) -> Integers:
        """Return the exact sum of outer products, in squared steps. Secret."""
        total = np.zeros((self.dimension, self.dimension), dtype=np.int64)
        weights = np.full(vectors.shape[1] * self.dimension, 1 / self.radius)
        for start in range(0, len(vectors), _ROWS):
            part = vectors[start : start + _ROWS].reshape(-1, weights.size)
            frame = Frame(np.zeros(part.shape), np.broadcast_to(weights, part.shape))
            # One bound for all parts of a record: with more of them it moves the sum no farther.
            steps = bounded_steps(part, frame, 1.0, STEP, 1).astype(np.float64)
            steps = steps.reshape(-1, self.dimension)
            total += (steps.T @ steps).astype(np.int64)  # of a block: below 2^53
        return total

    def _draw(self, total: Integers, noise: Noise, copies: int) -> Floats:
        """Return noisy symmetric matrices; they may have negative roots."""
        rows, columns = np.triu_indices(self.dimension)
        deviations = np.where(rows == columns, self.sigma, self.sigma * _SQRT_HALF)
        noisy = noise.rounded_gaussian_steps(deviations, STEP**2, (copies, rows.size))
        noisy += total[rows, columns]
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
        check_records(len(vectors))
        return vectors

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield one record that is far too long, alike in every coordinate, and none."""
        small(dimension=self.dimension)
        wild = np.full((1, self.dimension), 1e300)
        shape = self.dimension, self.dimension
        yield everywhere("the moment", self, (wild, wild[:0]), self.radius**2, shape)
