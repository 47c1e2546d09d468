"""The noisy plurality of the teachers' votes: GNMax, LNMax, and the whole noisy histogram.

docs/theory/data-dependent.md. One teacher's vote moves a histogram by L2 = sqrt(2), L1 = 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, noise_scale, vote_matrix
from tacit.mechanisms.auditing import AUDIT_DELTAS, Shift, Suspicion, guess
from tacit.mechanisms.base import BLOCK, Release
from tacit.mechanisms.votes import (
    SoftVoteMechanism,
    VoteMechanism,
    VoteReading,
    first_behind,
    gap_for,
    plan_of_row,
    tiled,
)
from tacit.noise import admit
from tacit.noise.exact import check_ratio
from tacit.privacy import RdpCurve, gaussian_rdp, gnmax_rdp, lnmax_rdp, lnmax_rdp_worst

if TYPE_CHECKING:
    from tacit.noise import Noise


class _GaussianVotes(VoteMechanism):
    """Gaussian noise on every count of a histogram."""

    __slots__ = ()
    sigma: float

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case for one query: order/sigma^2, whatever the votes."""
        return RdpCurve(orders, gaussian_rdp(self.sigma / math.sqrt(2), orders))

    def gaussian_cost(self) -> float | None:
        """mu^2 = 2/sigma^2."""
        return 2 / self.sigma**2

    def reading(self) -> VoteReading:
        """Gaussian noise on each count."""
        return VoteReading.gaussian(self.sigma)


@dataclass(frozen=True, slots=True)
class GNMax(SoftVoteMechanism, _GaussianVotes):
    """Release argmax_j (votes_j + N(0, sigma^2)).

    One query costs order/sigma^2, or mu^2 = 2/sigma^2. Unit: whatever a teacher's shard holds the
    records of. Hard votes or `SoftVotes`.

    >>> from tacit import InsecureNoise
    >>> GNMax(sigma=1).release([[0, 50, 0], [49, 0, 1]], InsecureNoise(0)).labels.tolist()
    [1, 0]
    """

    name: ClassVar[str] = "gnmax"
    noise_level: ClassVar[str] = "csprng"
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one label per row of votes."""
        entry = admit(noise)
        labels = noisy_argmax(self.votes(answers), lambda shape: noise.gaussian(self.sigma, shape))
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query, `bound="tight"`. Secret."""
        return RdpCurve(orders, gnmax_rdp(self.votes(answers), self.sigma, orders))

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a first class that is a little behind: that it wins is a test of the difference."""
        for delta in AUDIT_DELTAS:
            gap = gap_for(self.sigma, guess(self, delta))
            yield from first_behind("the label", self, gap, delta)


@dataclass(frozen=True, slots=True)
class LNMax(SoftVoteMechanism):
    """Release argmax_j (votes_j + Laplace(1/gamma)), as in PATE 2017.

    One query is 2 gamma-DP; its RDP is twice that of one Laplace coordinate
    (docs/theory/data-dependent.md#lnmax).

    >>> from tacit import InsecureNoise
    >>> LNMax(gamma=0.5).release([[0, 50, 0], [49, 0, 1]], InsecureNoise(0)).labels.tolist()
    [1, 0]
    """

    name: ClassVar[str] = "lnmax"
    noise_level: ClassVar[str] = "csprng"
    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", noise_scale(gamma=self.gamma))

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one label per row of votes."""
        entry = admit(noise)
        labels = noisy_argmax(
            self.votes(answers), lambda shape: noise.laplace(1 / self.gamma, shape)
        )
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case for one query, whatever the votes."""
        return RdpCurve(orders, lnmax_rdp_worst(self.gamma, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query. Secret."""
        return RdpCurve(orders, lnmax_rdp(self.votes(answers), self.gamma, orders))

    def reading(self) -> VoteReading:
        """Laplace noise on each count."""
        return VoteReading.laplace(1 / self.gamma)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a first class some scales behind, where the ratio of tails is all there is."""
        for delta in AUDIT_DELTAS:
            yield from first_behind("the label", self, max(1, round(3 / self.gamma)), delta)


@dataclass(frozen=True, slots=True)
class NoisyVotes(_GaussianVotes):
    """Release the whole histogram plus a Gaussian rounded to the integers, exactly sampled.

    It costs what `GNMax(sigma)` costs in the worst case, whose label is only a post-processing of
    it; a student that knows the noise can decode more. There is no cheaper data-dependent price.

    >>> from tacit import InsecureNoise
    >>> NoisyVotes(sigma=2).release([[0, 50], [49, 1]], InsecureNoise(0)).values.shape
    (2, 2)
    """

    name: ClassVar[str] = "noisy-votes"
    noise_level: ClassVar[str] = "exact"
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        check_ratio(np.array([self.sigma]), 1.0)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return noisy counts (queries, classes); some are negative."""
        entry = admit(noise)
        votes = vote_matrix(answers)
        values = np.empty(votes.shape)
        step = max(1, BLOCK // votes.shape[1])
        for start in range(0, votes.shape[0], step):
            block = votes[start : start + step]
            values[start : start + step] = noise.rounded_gaussian_steps(
                self.sigma, 1.0, block.shape
            )
            values[start : start + step] += block
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the difference of two released counts."""
        one = plan_of_row(self, (2, 1))
        shift = Shift((1.0, -1.0), start=-1.0, by=2.0, spread=math.sqrt(2) * self.sigma)
        yield Suspicion("the counts", (2, 1), (1, 2), one, shift.looks(one), tiled)


def noisy_argmax(
    votes: NDArray[Any], draw: Callable[[tuple[int, ...]], NDArray[np.float64]]
) -> Integers:
    """Return argmax_j (votes_j + noise_j) for each row, in blocks; the first wins an exact tie."""
    labels = np.empty(votes.shape[0], dtype=np.int64)
    step = max(1, BLOCK // votes.shape[1])
    for start in range(0, votes.shape[0], step):
        block = votes[start : start + step]
        noisy = draw(block.shape)
        noisy += block
        labels[start : start + step] = noisy.argmax(axis=1)
    return labels
