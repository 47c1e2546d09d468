"""The mean of codes when teachers do not trust the aggregator: each adds a share of the noise.

docs/theory/high-dimensional.md#distributed-noise. A teacher clips its own code, adds its share in
whole steps of the grid and sends the sum through secure aggregation, which shows nobody anything
but the total. The price is right if enough shares arrive whose values the adversary does not know.

Shares are rounded one by one, so the total noise is a sum of rounded Gaussians, not a rounded
Gaussian. For shares of at least 2^6 steps the two differ, in every probability, by a factor within
1 +- 10^-17000 per addition (docs/theory/high-dimensional.md), which no price here could show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, at_least, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Suspicion
from tacit.mechanisms.base import Release
from tacit.mechanisms.codes import Frame, bounded_steps, bounds_at_a_time, public_frame
from tacit.mechanisms.gaussian_mean import PUBLIC_FRAME, WILD, MeanOfCodes
from tacit.mechanisms.votes import ONE_TEACHER
from tacit.noise import admit

if TYPE_CHECKING:
    from tacit.noise import Noise

_FEWEST_STEPS_PER_SHARE = 2.0**6


@dataclass(frozen=True, slots=True)
class DistributedGaussianMean(MeanOfCodes):
    """Release the mean of clipped codes, to each of which its teacher added a share of the noise.

    A share has variance (n_teachers sigma)^2 / (n_teachers - dropouts - colluders). If at most
    `dropouts` teachers do not deliver and at most `colluders` tell their noise to the adversary,
    the rest still add up to N(0, (n_teachers sigma)^2) or more, so mu^2 is that of `GaussianMean`
    with the same sigma, radius and joint. Who drops out must not depend on private data. Without
    secure aggregation a message alone costs `exposed_cost()`.

    >>> from tacit import InsecureNoise
    >>> mechanism = DistributedGaussianMean(0.01, 5.0, 4, dropouts=1, colluders=1)
    >>> codes = [[[3.0, 4.0]], [[1e300, 0.0]], [[4.0, 2.0]], [[0.0, 0.0]]]
    >>> mechanism.release(codes, InsecureNoise(0), survivors=[0, 1, 2]).values.round(1).tolist()
    [[4.0, 2.0]]
    """

    name: ClassVar[str] = "distributed-gaussian-mean"
    noise_level: ClassVar[str] = "exact"
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
        object.__setattr__(self, "dropouts", at_least(0, dropouts=self.dropouts))
        object.__setattr__(self, "colluders", at_least(0, colluders=self.colluders))
        if self.dropouts + self.colluders >= at_least(1, n_teachers=self.n_teachers):
            raise InvalidArgument(
                f"Expected dropouts={self.dropouts} and colluders={self.colluders} to leave at "
                f"least one of n_teachers={self.n_teachers}."
            )
        self._validate()
        if self.share < _FEWEST_STEPS_PER_SHARE * self.grid:
            raise refuse("sigma", self.sigma, "large enough that a share is at least 64 steps")

    @property
    def honest(self) -> int:
        """How many unknown shares there are at the least."""
        return self.n_teachers - self.dropouts - self.colluders

    @property
    def share(self) -> float:
        """Standard deviation of one teacher's noise."""
        return self.deviation / math.sqrt(self.honest)

    def exposed_cost(self) -> float:
        """mu^2 of one bound if a single message is seen: (2 radius / share)^2, `honest` times."""
        return (self.diameter / self.share) ** 2

    def message(self, codes: ArrayLike, noise: Noise, frame: Frame) -> Integers:
        """Return what one teacher gives to secure aggregation: bounded codes plus its share."""
        admit(noise)
        steps = bounded_steps(codes, frame, self.radius, self.grid, self.joint)
        # A share deviates by share >= deviation/sqrt(honest): rounding never makes it smaller.
        deviation = math.nextafter(self.share, math.inf)
        steps += noise.rounded_gaussian_steps(deviation, self.grid, steps.shape)
        return steps

    def mean_of(self, total: Integers, survivors: int, frame: Frame) -> Floats:
        """Return mean codes from the total of so many messages: post-processing."""
        return frame.back(np.asarray(total * (self.grid / survivors)))

    def release(
        self,
        answers: Any,
        noise: Noise,
        *,
        centres: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        survivors: Iterable[int] | None = None,
    ) -> Release:
        """Return noisy mean codes (queries, length), every teacher's message simulated in turn.

        `survivors` are the teachers who delivered, public; all of them by default.
        """
        entry = admit(noise)
        codes = self._read(answers)
        self._bounds(codes)
        present = self._present(survivors)
        _, n_queries, length = codes.shape
        frame = public_frame(centres, weights, (n_queries, length))
        values = np.empty((n_queries, length))
        for rows in bounds_at_a_time(n_queries, length, self.joint):
            total = np.zeros((rows.stop - rows.start, length), dtype=np.int64)
            for teacher in present:
                total += self.message(codes.part(teacher, rows), noise, frame.rows(rows))
            values[rows] = self.mean_of(total, len(present), frame.rows(rows))
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def _present(self, survivors: Iterable[int] | None) -> list[int]:
        """Return who delivered; refuse too few, for then the noise would be too small."""
        everyone = range(self.n_teachers)
        present = [
            at_least(0, survivor=one) for one in (everyone if survivors is None else survivors)
        ]
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
        """Yield the same as for `GaussianMean`, with as many teachers missing as may be.

        Only the total is seen: what colluders would tell about their noise is not.
        """
        present = self.n_teachers - self.dropouts
        spread = self.deviation * math.sqrt(present / self.honest) / present
        shift = -self.radius / present, 2 * self.radius / present, spread
        sides = (WILD, self.n_teachers), (-WILD, self.n_teachers)
        yield self._audit_case(*sides, shift, survivors=tuple(range(present)))
