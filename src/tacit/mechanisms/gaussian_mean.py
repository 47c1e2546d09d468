"""The mean of teachers' codes plus Gaussian noise: high-dimensional PATE.

A code is what a codec makes of a long answer, a mask for instance. One teacher's codes lie in a
ball, by clipping here and nowhere else, so a neighbour moves the sum by at most its diameter. The
sum is counted in whole steps of a public grid, and so is the noise: no low bits leak.
Proof: docs/theory/high-dimensional.md#the-bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, positive, probability, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Shift, Suspicion, small
from tacit.mechanisms.base import Mechanism, Release
from tacit.mechanisms.codes import (
    RADIUS_BITS,
    TeacherCodes,
    bounds_at_a_time,
    power_of_two_above,
    public_frame,
    summed_steps,
    teacher_codes,
)
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.votes import ONE_TEACHER
from tacit.noise import admit
from tacit.noise.exact import check_ratio
from tacit.privacy import RdpCurve, calibrate_gaussian, gaussian_rdp

if TYPE_CHECKING:
    from tacit.noise import Noise

_SIGMA_BITS = 38
"""Noise is at most 2^38 steps: the exact sampler certifies up to 2^40."""
_FEWEST_STEPS = 2**10
"""A radius of fewer steps would be mostly truncation; only absurd noise asks for that."""
_MOST_TEACHERS = 2**24
_SIZES = (1e-100, 1e100)
WILD = 1e300
"""What a unit says in an audit: far too long, so that the bound itself is audited."""
PUBLIC_FRAME = (
    "the codec, the radius, the weights and the centres of codes were fixed without the private "
    "records, or from earlier releases alone"
)


class MeanOfCodes(Mechanism):
    """What mechanisms on teachers' codes share: the bound, the grid, the price.

    `joint` consecutive queries share one bound, and to a `Plan` one such group is one query: its
    price is that of the whole group.
    """

    __slots__ = ()
    RADII: ClassVar[int] = 2
    """How many radii one unit can move the sum over one bound: across the ball."""
    sigma: float
    radius: float
    n_teachers: int
    joint: int

    def _validate(self) -> None:
        put = object.__setattr__
        put(self, "sigma", positive(sigma=self.sigma))
        put(self, "radius", positive(radius=self.radius))
        put(self, "n_teachers", at_least(1, n_teachers=self.n_teachers))
        put(self, "joint", at_least(1, joint=self.joint))
        if not _SIZES[0] <= self.radius <= _SIZES[1]:
            raise refuse("radius", self.radius, "between 1e-100 and 1e100; rescale the codes")
        if self.n_teachers > _MOST_TEACHERS:
            raise refuse("n_teachers", self.n_teachers, f"at most {_MOST_TEACHERS}")
        if self.radius / self.grid < _FEWEST_STEPS:
            raise refuse("sigma", self.sigma, "less than 2^27 radii: beyond, there is no grid")
        check_ratio(np.asarray(self.deviation), self.grid)

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
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        *,
        queries: int,
        radius: float,
        n_teachers: int,
        joint: bool = False,
        share: float = 1.0,
        **margins: int,
    ) -> Plan:
        """Return the plan of `queries` queries with the least noise that (epsilon, delta) allows.

        sigma = AnalyticGauss(2 radius sqrt(bounds)/n_teachers, epsilon, delta) / sqrt(share), where
        bounds is `queries`, or 1 with `joint=True`: the radius then bounds all queries together.
        `share` is the part of mu^2 for this plan, for releases in rounds.

        >>> plan = GaussianMean.for_budget(8, 1e-3, queries=80, radius=1.0, n_teachers=8)
        >>> round(plan.mechanism.sigma, 4), round(plan.epsilon(delta=1e-3), 6)
        (1.0733, 8.0)
        """
        queries = at_least(1, queries=queries)
        bounds = 1 if joint else queries
        part = 1.0 if share == 1 else probability(share=share)
        reach = cls.RADII * positive(radius=radius) * math.sqrt(bounds)
        reach /= at_least(1, n_teachers=n_teachers)
        sigma = calibrate_gaussian(reach, epsilon, delta) / math.sqrt(part)
        make: Any = cls  # a dataclass of these fields
        mechanism = make(
            sigma=sigma,
            radius=radius,
            n_teachers=n_teachers,
            joint=queries // bounds,
            **margins,
        )
        return Plan(mechanism, bounds, n_teachers=n_teachers)

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case for one bound: order mu^2 / 2, whatever the codes."""
        self._agree(n_teachers)
        return RdpCurve(orders, gaussian_rdp(self.deviation / self.diameter, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each bound: no data-dependent price holds for means."""
        one = self.cost(orders)
        return RdpCurve(one.orders, np.tile(one.values, (self._bounds(self._read(answers)), 1)))

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

    def _bounds(self, codes: TeacherCodes) -> int:
        if codes.shape[1] % self.joint:
            raise InvalidArgument(
                f"Expected a multiple of joint={self.joint} queries, got {codes.shape[1]}."
            )
        return codes.shape[1] // self.joint

    def _audit_case(
        self,
        first: tuple[float, int],
        second: tuple[float, int],
        shift: tuple[float, float, float],
        **public: Any,
    ) -> Suspicion:
        """Return what the first teacher says, and how many teachers there are; the others say 0.

        All queries of a bound are moved together: from where, by how much, with which deviation.
        """
        small(n_teachers=self.n_teachers, joint=self.joint)
        one, joint = Plan(self, 1), self.joint

        def answers(case: tuple[float, int], trials: int) -> TeacherCodes:
            said, teachers = case

            def part(teacher: int, rows: slice) -> Any:
                return np.full((rows.stop - rows.start, 1), 0.0 if teacher else said)

            return TeacherCodes((teachers, trials * joint, 1), part)

        looks = Shift((joint**-0.5,) * joint, *shift).looks(one)
        numbers = joint * max(first[1], second[1])
        return Suspicion(
            "the mean", first, second, one, looks, answers, numbers=numbers, public=lambda _: public
        )


@dataclass(frozen=True, slots=True)
class GaussianMean(MeanOfCodes):
    """Release mean_k clip(code_k) + N(0, sigma^2), for each query.

    sigma: of the noise on the mean, per coordinate (in units of 1/weight).
    radius: every teacher's code is clipped to this distance from a public centre; a code with a
        non-finite entry becomes the centre.
    n_teachers: public and fixed.
    joint: so many consecutive queries share one radius: |(code_1, ..., code_joint)| <= radius.
        `Plan.queries` then counts groups: all N queries under one bound are `joint=N`, `queries=1`.

    mu^2 = (2 radius / (n_teachers sigma))^2 for each bound. Unit: whatever a teacher's shard holds
    the records of. Source: PCA-PATE 2020 and Generalized PATE 2022, corrected.

    >>> from tacit import InsecureNoise
    >>> mechanism = GaussianMean(sigma=0.01, radius=5.0, n_teachers=2)
    >>> codes = [[[3.0, 4.0]], [[1e300, 0.0]]]
    >>> mechanism.release(codes, InsecureNoise(0)).values.round(1).tolist()
    [[4.0, 2.0]]
    """

    name: ClassVar[str] = "gaussian-mean"
    noise_level: ClassVar[str] = "exact"
    assumes: ClassVar[str] = f"{ONE_TEACHER}, and that {PUBLIC_FRAME}"
    sigma: float
    radius: float
    n_teachers: int
    joint: int = 1

    def __post_init__(self) -> None:
        self._validate()

    def release(
        self,
        answers: Any,
        noise: Noise,
        *,
        centres: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Release:
        """Return noisy mean codes (queries, length).

        `centres` (0 by default) and `weights` (1) are public and fit (queries, length); they may
        depend on earlier releases, never on the codes. The norm is |(code - centre) * weight|, an
        ellipsoid, and the noise has deviation sigma/weight; a coordinate of weight 0 is left out.
        The price depends on neither.
        """
        entry = admit(noise)
        codes = self._read(answers)
        self._bounds(codes)
        _, n_queries, length = codes.shape
        frame = public_frame(centres, weights, (n_queries, length))
        values = np.empty((n_queries, length))
        for rows in bounds_at_a_time(n_queries, length, self.joint):
            total = summed_steps(codes, rows, frame, self.radius, self.grid, self.joint)
            # Noise on whole steps, before any division: float64 would leave low bits of the codes.
            total += noise.rounded_gaussian_steps(self.deviation, self.grid, total.shape)
            values[rows] = frame.rows(rows).back(self._mean(total))
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def _mean(self, steps: Any) -> Floats:
        return np.asarray(steps * (self.grid / self.n_teachers))

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a teacher far on one side, and far on the other."""
        teachers, reach = self.n_teachers, self.radius / self.n_teachers
        shift = -reach, 2 * reach, self.sigma
        yield self._audit_case((WILD, teachers), (-WILD, teachers), shift)


@dataclass(frozen=True, slots=True)
class UnitMean(GaussianMean):
    """Release what `GaussianMean` does where every unit speaks for itself: half the sensitivity.

    A teacher that knows one unit only, an atlas of one patient, is there with its unit and gone
    without it. Its clipped code is then added to the sum or not, which moves it by at most the
    radius instead of the diameter: mu^2 = (radius / (n_teachers sigma))^2 for each bound. The sum
    is divided by `n_teachers`, a public constant; how many codes there are is secret, and need
    not be that number. A missing one counts as the centre. Unit: one teacher.

    >>> plan = UnitMean.for_budget(8, 1e-3, queries=80, radius=1.0, n_teachers=8)
    >>> round(plan.mechanism.sigma, 4)
    0.5367
    """

    name: ClassVar[str] = "unit-mean"
    assumes: ClassVar[str] = (
        "each teacher knew one unit only, and each unit reached one teacher only, and that "
        f"{PUBLIC_FRAME}"
    )
    RADII: ClassVar[int] = 1

    def _read(self, answers: Any) -> TeacherCodes:
        return teacher_codes(answers)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit that is there, and one that is not; another one always is."""
        shift = 0.0, self.radius / self.n_teachers, self.sigma
        yield self._audit_case((WILD, 2), (0.0, 1), shift)
