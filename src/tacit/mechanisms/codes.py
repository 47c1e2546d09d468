"""The mean of teachers' codes plus Gaussian noise: high-dimensional PATE.

Each teacher's codes are clipped here to a ball, so a neighbour moves the sum by at most its
diameter, whatever teacher and codec do; the bound is certified in integers, on a public grid.
Sum and noise are counted in whole steps of the grid: no low bits leak
(docs/theory/high-dimensional.md#the-bound, #the-clip-in-a-computer).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import (
    Floats,
    Integers,
    at_least,
    count,
    finite_array,
    number_array,
    positive,
    refuse,
    set_checked,
)
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import Shift, Suspicion, small
from tacit.mechanisms.base import ONE_TEACHER, Mechanism, Plan, Release, blocks, later_field
from tacit.noise import Noise, admit, check_ratio
from tacit.privacy import RdpCurve, gaussian_rdp

SAFETY = 1 + 1e-9  # a clipped code is this much shorter than allowed: far above float64's rounding
RADIUS_BITS = 30  # a radius is at most 2^30 steps, so that int64 holds sums of squared steps
_SIGMA_BITS = 38  # noise is at most 2^38 steps: the exact sampler certifies up to 2^40
# A radius of fewer steps would be mostly truncation; only absurd noise asks for that.
_FEWEST_STEPS = 2**10
_MOST_TEACHERS = 2**24
_SIZES = (1e-100, 1e100)
WILD = 1e300  # what a unit says in an audit: far too long, so that the bound itself is audited
PUBLIC_FRAME = (
    "the codec, the radius, the weights and the centres of codes were fixed without the private "
    "records, or from earlier releases alone"
)
_FEWEST_STEPS_PER_SHARE = 2.0**6
_Case = tuple[float, int]  # what the first teacher says in an audit, and how many there are
Public = ArrayLike | None  # what is known of codes: centres, weights


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TeacherCodes:
    """Codes `(teachers, queries, length)` that are made when they are summed. Secret.

    Parameters
    ----------
    shape : tuple of int
        (teachers, queries, length).
    part : function
        part(teacher, rows) returns the codes of one teacher for a slice of the queries.

    Notes
    -----
    Only one teacher's codes are in memory at a time. An array of that shape serves as well.

    Examples
    --------
    >>> volumes = [np.full((2, 3), 0.5), np.ones((2, 3))]
    >>> TeacherCodes((2, 2, 3), lambda teacher, rows: volumes[teacher][rows])
    TeacherCodes(shape=(2, 2, 3))
    """

    shape: tuple[int, int, int]
    part: Callable[[int, slice], ArrayLike]

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1 or not callable(self.part):
            raise InvalidArgument(
                "Expected a shape (teachers, queries, length) and a function part(teacher, rows)."
            )

    def __repr__(self) -> str:
        return f"TeacherCodes(shape={tuple(self.shape)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SummedSteps(Secret):
    """The sum, in whole steps, over sites that clipped their own teachers' codes. Secret.

    Parameters
    ----------
    steps : array of int64 of shape (queries, length)
        Sum of `summed_steps` over sites; secret.
    teachers : int
        How many teachers those sites have; public.

    Examples
    --------
    >>> SummedSteps(np.zeros((2, 3), dtype=np.int64), 4)
    SummedSteps(secret)
    """

    steps: Integers
    teachers: int

    def __post_init__(self) -> None:
        set_checked(self, teachers=count)
        steps = self.steps
        proper = isinstance(steps, np.ndarray) and steps.dtype == np.int64 and steps.ndim == 2
        if not proper or 0 in steps.shape:
            raise InvalidArgument("Expected sums of steps: int64 of shape (queries, length).")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(teachers, queries, length); public."""
        return self.teachers, self.steps.shape[0], self.steps.shape[1]


def teacher_codes(answers: Any) -> TeacherCodes:
    """Return answers as `TeacherCodes`; the messages never quote them: they are secret."""
    if isinstance(answers, TeacherCodes):
        return answers
    try:
        array = np.asarray(answers)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.ndim != 3 or 0 in array.shape or array.dtype.kind not in "iufO":
        raise InvalidArgument(
            f"Expected codes to be numbers (teachers, queries, length), got shape {array.shape} "
            f"and dtype {array.dtype}; encode answers with a codec."
        )
    teachers, queries, length = array.shape
    return TeacherCodes((teachers, queries, length), lambda teacher, rows: array[teacher, rows])


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Public coordinates of a release: codes are measured as (code - centre) * weight.

    A weight of 0 leaves a coordinate out: its release is the centre.
    """

    centres: Floats
    weights: Floats

    def rows(self, rows: slice) -> Frame:
        """Return the frame of some of the queries."""
        return Frame(self.centres[rows], self.weights[rows])

    def back(self, offsets: Floats) -> Floats:
        """Return codes from weighted offsets."""
        inverse = np.zeros(self.weights.shape)
        np.divide(1.0, self.weights, out=inverse, where=self.weights > 0)
        return np.asarray(self.centres + offsets * inverse)


def public_frame(
    centres: ArrayLike | None, weights: ArrayLike | None, shape: tuple[int, int]
) -> Frame:
    """Validate public centres and weights: numbers that fit (queries, length)."""
    places = finite_array(centres=0.0 if centres is None else centres)
    scales = finite_array(weights=1.0 if weights is None else weights)
    # A weight must be invertible: 1/weight is finite.
    if (scales < 0).any() or ((scales > 0) & (scales < 1e-300)).any() or not scales.any():
        raise InvalidArgument("Expected weights to be 0 or at least 1e-300, and not all of them 0.")
    try:
        return Frame(np.broadcast_to(places, shape), np.broadcast_to(scales, shape))
    except ValueError:
        raise InvalidArgument(
            f"Expected centres and weights that fit (queries, length)={shape}, got shapes "
            f"{places.shape} and {scales.shape}."
        ) from None


def clip_rows(vectors: Floats, radius: float) -> Floats:
    """Return each row shortened to the radius; a row with a non-finite entry becomes 0.

    min(1, radius / (norm (1 + 1e-9))) v, in float64, for any finite v; no square overflows. A
    row's bits do not depend on the other rows.

    >>> clip_rows(np.array([[3.0, 4.0], [1e300, 0.0], [np.nan, 1.0]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [1.0, 0.0], [0.0, 0.0]]
    """
    with np.errstate(all="ignore"):  # an overflowing length is infinite, which is the right answer
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        usable = np.isfinite(largest) & (largest > 0)
        unit = np.where(usable, vectors / largest, 0.0)
        norm = np.sqrt(_row_sums(np.square(unit))) * SAFETY
        unit *= radius / np.maximum(norm, 1.0)
        return np.where(usable & (largest * norm <= radius), vectors, unit)


def _row_sums(rows: Floats) -> Floats:
    """Return the sum of each row, a column, by adding halves: a row's bits are its own.

    A library's sum may take another order for two rows than for one, and round differently.

    >>> _row_sums(np.array([[1.0, 2.0, 4.0], [8.0, 0.0, 1.0]])).tolist()
    [[7.0], [9.0]]
    """
    while (width := rows.shape[1]) > 1:
        half = (width + 1) // 2
        sums = rows[:, :half].copy()
        sums[:, : width - half] += rows[:, half:]
        rows = sums
    return rows


def bounded_steps(
    codes: ArrayLike, frame: Frame, radius: float, grid: float, joint: int
) -> Integers:
    """Return one teacher's codes in whole steps of the grid, each bound's norm within the radius.

    `joint` consecutive queries share one bound. Exactly, in integers: sum of steps^2 over a bound
    <= (radius / grid)^2. Truncation goes towards the centre, so it never lengthens a code.
    """
    array = number_array(codes=codes)
    if array.shape != frame.centres.shape:
        raise InvalidArgument(
            f"Expected every teacher's codes to have shape {frame.centres.shape}, as declared, "
            f"got {array.shape}."
        )
    with np.errstate(all="ignore"):
        offsets = (array - frame.centres) * frame.weights
    bounds = offsets.reshape(array.shape[0] // joint, -1)
    # The grid is a power of two: the quotient is exact.
    steps = np.trunc(clip_rows(bounds, radius) / grid).astype(np.int64)
    certify(steps, radius, grid)
    return steps.reshape(array.shape)


def certify(steps: Integers, radius: float, grid: float) -> None:
    """Shorten rows, in place, until the sum of squares is at most (radius/grid)^2, exactly.

    Clipping leaves a margin of 1e-9, more than float64's error, so no row should ever be touched;
    the bound holds in any case.
    """
    limit = math.floor((Fraction(radius) / Fraction(grid)) ** 2)  # of these very float64 values
    while (long := np.square(steps).sum(axis=1) > limit).any():
        steps[long] -= np.sign(steps[long])


def power_of_two_above(value: float) -> float:
    """Return the least power of two >= value.

    >>> power_of_two_above(5.0), power_of_two_above(4.0)
    (8.0, 4.0)
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


class BoundedCodes(Mechanism):
    """Base of mechanisms on teachers' codes: the bound, the grid, the price.

    `joint` consecutive queries share one bound; such a group is one query of a `Plan`.
    """

    __slots__ = ()
    noise_level: ClassVar[str] = "exact"
    RADII: ClassVar[int] = 2
    """How many radii one unit can move the sum over one bound: across the ball."""
    sigma: float
    radius: float
    n_teachers: int
    joint: int

    def _validate_reach(self) -> None:
        """Check all numbers of a mechanism with `votes_per_unit`."""
        self._validate()
        votes = count(votes_per_unit=getattr(self, "votes_per_unit", 1))
        if votes > self.n_teachers:
            raise refuse("votes_per_unit", votes, f"at most {self.n_teachers}")

    def _validate(self) -> None:
        set_checked(self, sigma=positive, radius=positive, n_teachers=count, joint=count)
        if not _SIZES[0] <= self.radius <= _SIZES[1]:
            raise refuse("radius", self.radius, "between 1e-100 and 1e100; rescale the codes")
        if self.n_teachers > _MOST_TEACHERS:
            raise refuse("n_teachers", self.n_teachers, f"at most {_MOST_TEACHERS}")
        if self.radius / self.grid < _FEWEST_STEPS:
            raise refuse("sigma", self.sigma, "less than 2^27 radii: beyond, there is no grid")
        check_ratio(self.deviation, self.grid)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the sum of codes: n_teachers sigma."""
        return self.n_teachers * self.sigma

    @property
    def diameter(self) -> float:
        """How far one unit can move the sum over one bound."""
        return self.RADII * self.radius

    @property
    def grid(self) -> float:
        """The public grid of the sum, a power of two: below 2^-29 radii or 2^-37 deviations."""
        by_radius = power_of_two_above(self.radius) * 2.0**-RADIUS_BITS
        return max(by_radius, power_of_two_above(self.deviation) * 2.0**-_SIGMA_BITS)

    @classmethod
    def with_noise(
        cls,
        noise: float,
        *,
        queries: int,
        radius: float,
        n_teachers: int,
        joint: bool = False,
        **margins: int,
    ) -> Plan:
        """Return the plan of `queries` queries with mu^2 = 1/noise^2 in all.

        Parameters
        ----------
        noise : float
            1/mu of the whole plan; `tacit.calibrate` finds it for a budget.
        queries : int
            How many queries there are.
        radius : float
            To which each query's code is clipped, or all of a teacher's codes together.
        n_teachers : int
            Public and fixed.
        joint : bool, optional
            Whether the radius bounds all queries together.
        **margins : int
            Further fields of the mechanism: votes_per_unit, dropouts, colluders.

        Returns
        -------
        Plan
            With the mechanism that it prices. sigma = noise 2 radius sqrt(bounds)/n_teachers,
            where bounds is `queries`, or 1 with `joint=True`; `UnitMean` needs half of it.

        Examples
        --------
        >>> plan = GaussianMean.with_noise(0.5, queries=80, radius=1.0, n_teachers=8)
        >>> round(plan.mechanism.sigma, 4), round(plan.mu_squared(), 6)
        (1.118, 4.0)
        """
        bounds = 1 if joint else count(queries=queries)
        reach = cls.RADII * positive(radius=radius) * math.sqrt(bounds)
        reach *= margins.get("votes_per_unit", 1)
        sigma = noise * (reach / count(n_teachers=n_teachers))
        make: Any = cls  # a dataclass of these fields
        together = count(queries=queries) // bounds
        mechanism = make(sigma, radius, n_teachers, joint=together, **margins)
        return Plan(mechanism, bounds, n_teachers=n_teachers)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one bound: order mu^2 / 2, whatever the codes; public."""
        self._agree(sizes.get("n_teachers"))
        return RdpCurve(orders, gaussian_rdp(self.deviation / self.diameter, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each bound: no data-dependent price holds for means."""
        return self.cost(orders).batch(self._bounds(self._read(answers)))

    def gaussian_cost(self) -> float | None:
        """mu^2 = (diameter / (n_teachers sigma))^2 of one bound."""
        return (self.diameter / self.deviation) ** 2

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the codes have as many bounds and teachers as the plan priced."""
        self._agree(n_teachers)
        if n_classes is not None:
            raise refuse("n_classes", n_classes, f"omitted: codes for {self.name} have no classes")
        if (bounds := self._bounds(self._read(answers))) != queries:
            raise InvalidArgument(
                f"Expected codes for the {queries} x {self.joint} queries of the plan, got "
                f"{bounds} x {self.joint}."
            )

    def _steps(self, codes: ArrayLike, frame: Frame) -> Integers:
        return bounded_steps(codes, frame, self.radius, self.grid, self.joint)

    def summed_steps(
        self, answers: Any, *, centres: Public = None, weights: Public = None
    ) -> Integers:
        """Return the sum of some teachers' codes, each clipped, in whole steps of the grid. Secret.

        Public centres (0 by default) and weights (1) fit (queries, length); no more than
        `n_teachers`.
        """
        codes = teacher_codes(answers)
        if codes.shape[0] > self.n_teachers:
            raise InvalidArgument(f"Expected the codes of at most {self.n_teachers} teachers.")
        self._bounds(codes)
        teachers, n_queries, length = codes.shape
        frame = public_frame(centres, weights, (n_queries, length))
        total = np.zeros((n_queries, length), dtype=np.int64)
        for rows in blocks(n_queries, length, self.joint):
            for teacher in range(teachers):
                total[rows] += self._steps(codes.part(teacher, rows), frame.rows(rows))
        return total

    def _agree(self, n_teachers: int | None) -> None:
        if n_teachers not in (None, self.n_teachers):
            raise refuse("n_teachers", n_teachers, f"the mechanism's {self.n_teachers}, or omitted")

    def _read(self, answers: Any) -> TeacherCodes:
        codes = teacher_codes(answers)
        if codes.shape[0] != self.n_teachers:
            raise InvalidArgument(
                f"Expected the codes of n_teachers={self.n_teachers} teachers, got "
                f"{codes.shape[0]}; a teacher that cannot answer still counts, as the centre."
            )
        return codes

    def _bounds(self, codes: TeacherCodes | SummedSteps) -> int:
        if codes.shape[1] % self.joint:
            raise InvalidArgument(
                f"Expected a multiple of joint={self.joint} queries, got {codes.shape[1]}."
            )
        return codes.shape[1] // self.joint


class MeanOfCodes(BoundedCodes):
    """A mechanism that reads the codes themselves and releases their noisy mean."""

    __slots__ = ()

    @abstractmethod
    def _noisy_total(self, parts: Iterable[ArrayLike], frame: Frame, noise: Noise) -> Integers:
        """Add teachers' bounded steps for some of the queries, and the noise: no longer secret."""

    def _release(
        self, answers: Any, noise: Noise, public: tuple[Any, Any], present: list[int] | None = None
    ) -> Release:
        """Return mean codes of all or the present teachers; `public` is centres, weights."""
        entry = admit(noise)
        codes = self._read(answers)
        self._bounds(codes)
        everyone, n_queries, length = codes.shape
        frame = public_frame(*public, (n_queries, length))
        teachers = range(everyone) if present is None else present
        step = self.grid / (self.n_teachers if present is None else len(present))
        values = np.empty((n_queries, length))
        for rows in blocks(n_queries, length, self.joint):
            parts = (codes.part(teacher, rows) for teacher in teachers)
            total = self._noisy_total(parts, frame.rows(rows), noise)
            values[rows] = frame.rows(rows).back(np.asarray(total * step))
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def _audit_case(
        self,
        first: _Case,
        second: _Case,
        shift: tuple[float, float, float],
        moved: int = 1,
        **public: Any,
    ) -> Suspicion:
        """Return an audit of (code of the first `moved` teachers, number of teachers).

        The other teachers' codes are 0. `shift`: from where, by how much, with which deviation all
        queries of a bound move together.
        """
        small(n_teachers=self.n_teachers, joint=self.joint)
        one, joint = Plan(self, 1), self.joint

        def answers(case: _Case, trials: int) -> TeacherCodes:
            said, teachers = case

            def part(teacher: int, rows: slice) -> Any:
                return np.full((rows.stop - rows.start, 1), said if teacher < moved else 0.0)

            return TeacherCodes((teachers, trials * joint, 1), part)

        looks = Shift((joint**-0.5,) * joint, *shift).looks(one)
        numbers = joint * max(first[1], second[1])
        known: dict[str, Any] = {"numbers": numbers, "public": lambda _: public}
        return Suspicion("the mean", first, second, one, looks, answers, **known)


@dataclass(frozen=True, slots=True)
class GaussianMean(MeanOfCodes):
    """Release mean_k clip(code_k) + N(0, sigma^2), for each query.

    Parameters
    ----------
    sigma : float
        Deviation of the noise on the mean, per coordinate (in units of 1/weight).
    radius : float
        Every teacher's code is clipped to this distance from a public centre; a code with a
        non-finite entry becomes the centre.
    n_teachers : int
        Public and fixed.
    joint : int, optional
        So many consecutive queries share one radius: |(code_1, ..., code_joint)| <= radius.
        `Plan.queries` then counts groups: all N queries under one bound are `joint=N`,
        `queries=1`.
    votes_per_unit : int, optional
        Most teachers that the records of one unit may reach.

    Notes
    -----
    mu^2 = (2 radius votes_per_unit / (n_teachers sigma))^2 for each bound. Unit: whatever a
    teacher's shard holds the records of. PCA-PATE 2020 and Generalized PATE 2022, corrected
    (docs/theory/high-dimensional.md#the-bound).

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> mechanism = GaussianMean(sigma=0.01, radius=5.0, n_teachers=2)
    >>> codes = [[[3.0, 4.0]], [[1e300, 0.0]]]
    >>> mechanism.release(codes, InsecureNoise(0)).values.round(1).tolist()
    [[4.0, 2.0]]
    """

    name: ClassVar[str] = "gaussian-mean"
    assumes: ClassVar[str] = f"{ONE_TEACHER}, and that {PUBLIC_FRAME}"
    sigma: float
    radius: float
    n_teachers: int
    joint: int = 1
    votes_per_unit: int = later_field(1)

    def __post_init__(self) -> None:
        set_checked(self, votes_per_unit=count)
        self._validate_reach()

    @property
    def diameter(self) -> float:
        """How far one unit can move the sum over one bound, with all teachers that it reaches."""
        return self.votes_per_unit * self.RADII * self.radius

    def release(
        self, answers: Any, noise: Noise, *, centres: Public = None, weights: Public = None
    ) -> Release:
        """Return noisy mean codes (queries, length).

        Parameters
        ----------
        answers : array of shape (teachers, queries, length), or TeacherCodes
            Codes; secret.
        noise : Noise
            That of an open grant, or `InsecureNoise`.
        centres : array, optional
            Public, fits (queries, length), 0 by default; may depend on earlier releases, never on
            the codes.
        weights : array, optional
            Public as well, 1 by default; a coordinate of weight 0 is left out.

        Returns
        -------
        Release
            `values` of shape (queries, length); public.

        Notes
        -----
        The norm is |(code - centre) * weight|, an ellipsoid, and the noise has deviation
        sigma/weight. The price depends on neither.
        """
        if isinstance(answers, SummedSteps):
            return self._release_summed(answers, noise, (centres, weights))
        return self._release(answers, noise, (centres, weights))

    def _release_summed(
        self, answers: SummedSteps, noise: Noise, public: tuple[Any, Any]
    ) -> Release:
        """Return the mean over the teachers of the sites in a sum, with all teachers' noise."""
        entry = admit(noise)
        said = self._read(answers)
        frame = public_frame(*public, said.shape[1:])
        total = answers.steps.copy()
        for rows in blocks(*total.shape):
            total[rows] += noise.rounded_gaussian_steps(
                self.deviation, self.grid, total[rows].shape
            )
        values = frame.back(np.asarray(total * (self.grid / answers.teachers)))
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def _read(self, answers: Any) -> Any:
        if not isinstance(answers, SummedSteps):
            return MeanOfCodes._read(self, answers)
        if answers.teachers > self.n_teachers:
            raise refuse("teachers", answers.teachers, f"at most {self.n_teachers}")
        return answers

    def _noisy_total(self, parts: Iterable[ArrayLike], frame: Frame, noise: Noise) -> Integers:
        # Each teacher is bounded before the sum: a clip of the sum would bound nobody's part in it.
        steps = np.asarray(sum(self._steps(part, frame) for part in parts))
        # Noise on whole steps, before any division: float64 would leave low bits of the codes.
        return steps + noise.rounded_gaussian_steps(self.deviation, self.grid, steps.shape)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a teacher far on one side, and far on the other."""
        teachers, moved = self.n_teachers, self.votes_per_unit
        reach = moved * self.radius / teachers
        shift = -reach, 2 * reach, self.sigma
        yield self._audit_case((WILD, teachers), (-WILD, teachers), shift, moved)


@dataclass(frozen=True, slots=True)
class UnitMean(GaussianMean):
    """Release what `GaussianMean` does where each teacher is one unit: half the sensitivity.

    Parameters
    ----------
    sigma, radius
        As in `GaussianMean`.
    n_teachers : int
        Public divisor; how many codes there are is secret, and need not be that number.
    joint : int, optional
        As in `GaussianMean`.
    votes_per_unit : int, optional
        1: a unit is one teacher here.

    Notes
    -----
    A teacher that knows one unit only, an atlas of one patient, is added or removed with its unit,
    which moves the sum by at most the radius: mu^2 = (radius / (n_teachers sigma))^2 for each
    bound. A missing code counts as the centre. Unit: one teacher.

    Examples
    --------
    >>> plan = UnitMean.with_noise(0.5, queries=80, radius=1.0, n_teachers=8)
    >>> round(plan.mechanism.sigma, 4)
    0.559
    """

    name: ClassVar[str] = "unit-mean"
    assumes: ClassVar[str] = (
        "each teacher knew one unit only, and each unit reached one teacher only, and that "
        f"{PUBLIC_FRAME}"
    )
    RADII: ClassVar[int] = 1

    def __post_init__(self) -> None:
        GaussianMean.__post_init__(self)
        if self.votes_per_unit != 1:
            raise refuse("votes_per_unit", self.votes_per_unit, "1: here a unit is one teacher")

    def release(
        self, answers: Any, noise: Noise, *, centres: Public = None, weights: Public = None
    ) -> Release:
        """Return noisy mean codes (queries, length), as `GaussianMean.release` does."""
        return self._release(answers, noise, (centres, weights))

    def _read(self, answers: Any) -> TeacherCodes:
        return teacher_codes(answers)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit that is there, and one that is not, beside one that always is."""
        shift = 0.0, self.radius / self.n_teachers, self.sigma
        yield self._audit_case((WILD, 2), (0.0, 1), shift)


@dataclass(frozen=True, slots=True)
class DistributedGaussianMean(MeanOfCodes):
    """Release the mean of clipped codes, to each of which its teacher added a share of the noise.

    Parameters
    ----------
    sigma, radius, n_teachers
        As in `GaussianMean`.
    dropouts : int
        Most teachers that may fail to deliver.
    colluders : int
        Most teachers that may reveal their noise to the adversary.
    joint : int, optional
        As in `GaussianMean`.

    Notes
    -----
    A share has variance (n_teachers sigma)^2 / (n_teachers - dropouts - colluders), so the shares
    that are delivered and unknown add up to N(0, (n_teachers sigma)^2) or more: mu^2 is that of
    `GaussianMean`. Who drops out must not depend on private data. Without secure aggregation,
    which shows nothing but the total, one message alone costs `exposed_cost()`. Shares are rounded
    one by one; of 64 steps or more that changes no probability by a factor beyond 1 +- 10^-17000
    per addition (docs/theory/high-dimensional.md#distributed-noise). Unit: whatever a teacher's
    shard holds the records of.

    Use it with a secure-aggregation service of your own and known bounds on dropouts and
    colluders. Without one use `SharedCodes`: two aggregators that do not collude, any number of
    colluding sites, sqrt(2) sigma. With one party trusted by all, use `GaussianMean`.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> mechanism = DistributedGaussianMean(0.01, 5.0, 4, dropouts=1, colluders=1)
    >>> codes = [[[3.0, 4.0]], [[1e300, 0.0]], [[4.0, 2.0]], [[0.0, 0.0]]]
    >>> mechanism.release(codes, InsecureNoise(0), survivors=[0, 1, 2]).values.round(1).tolist()
    [[4.0, 2.0]]
    """

    name: ClassVar[str] = "distributed-gaussian-mean"
    assumes: ClassVar[str] = (
        f"{ONE_TEACHER}, that {PUBLIC_FRAME}, and that teachers that did not deliver were missing "
        "for reasons that have nothing to do with private data, no more of them colluded than the "
        "plan allows, and only the total of their messages was seen"
    )
    sigma: float
    radius: float
    n_teachers: int
    dropouts: int
    colluders: int
    joint: int = 1

    def __post_init__(self) -> None:
        set_checked(self, dropouts=partial(at_least, 0), colluders=partial(at_least, 0))
        if self.dropouts + self.colluders >= count(n_teachers=self.n_teachers):
            raise InvalidArgument(
                f"Expected dropouts={self.dropouts} and colluders={self.colluders} to leave at "
                f"least one of n_teachers={self.n_teachers}."
            )
        self._validate()
        if self.share < _FEWEST_STEPS_PER_SHARE * self.grid:
            raise refuse("sigma", self.sigma, "large enough that a share is at least 64 steps")

    @property
    def honest(self) -> int:
        """Fewest shares that the adversary does not know."""
        return self.n_teachers - self.dropouts - self.colluders

    @property
    def share(self) -> float:
        """Standard deviation of one teacher's noise."""
        return self.deviation / math.sqrt(self.honest)

    def exposed_cost(self) -> float:
        """mu^2 of one bound if a single message is seen: (2 radius / share)^2, `honest` times.

        Returns
        -------
        float
            Public.
        """
        return (self.diameter / self.share) ** 2

    def message(self, codes: ArrayLike, noise: Noise, frame: Frame) -> Integers:
        """Return what one teacher gives to secure aggregation: bounded codes plus its share.

        Parameters
        ----------
        codes : array of shape (queries, length)
            Those of one teacher; secret.
        noise : Noise
            That of an open grant, or `InsecureNoise`.
        frame : Frame
            Centres and weights of these queries; public.

        Returns
        -------
        array of int of shape (queries, length)
            In whole steps of the grid; for secure aggregation only.
        """
        admit(noise)
        steps = self._steps(codes, frame)
        # A share deviates by share >= deviation/sqrt(honest): rounding never makes it smaller.
        deviation = math.nextafter(self.share, math.inf)
        steps += noise.rounded_gaussian_steps(deviation, self.grid, steps.shape)
        return steps

    def release(
        self,
        answers: Any,
        noise: Noise,
        *,
        centres: Public = None,
        weights: Public = None,
        survivors: Iterable[int] | None = None,
    ) -> Release:
        """Return noisy mean codes (queries, length), every teacher's message simulated in turn.

        Parameters
        ----------
        answers, noise, centres, weights
            As in `GaussianMean.release`.
        survivors : iterable of int, optional
            Teachers who delivered, public; all of them by default.

        Returns
        -------
        Release
            `values` of shape (queries, length); public.
        """
        # Who is missing is judged before any share is drawn: too few would add too little noise.
        return self._release(answers, noise, (centres, weights), self._present(survivors))

    def _noisy_total(self, parts: Iterable[ArrayLike], frame: Frame, noise: Noise) -> Integers:
        return np.asarray(sum(self.message(part, noise, frame) for part in parts))

    def _present(self, survivors: Iterable[int] | None) -> list[int]:
        """Return who delivered; refuse too few: the noise would be too small."""
        everyone = range(self.n_teachers)
        named = everyone if survivors is None else survivors
        present = [at_least(0, survivor=one) for one in named]
        if len(set(present)) != len(present) or not set(present) <= set(everyone):
            raise InvalidArgument(
                f"Expected survivors to be different teachers of 0 .. {self.n_teachers - 1}."
            )
        if len(present) < self.n_teachers - self.dropouts:
            raise InvalidArgument(
                f"Expected at most dropouts={self.dropouts} of {self.n_teachers} teachers to be "
                f"missing, got {self.n_teachers - len(present)}: the noise would be too small."
            )
        return present

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield `GaussianMean`'s cases in the total, with as many teachers missing as may be."""
        present = self.n_teachers - self.dropouts
        spread = self.deviation * math.sqrt(present / self.honest) / present
        shift = -self.radius / present, 2 * self.radius / present, spread
        sides = (WILD, self.n_teachers), (-WILD, self.n_teachers)
        yield self._audit_case(*sides, shift, survivors=tuple(range(present)))
