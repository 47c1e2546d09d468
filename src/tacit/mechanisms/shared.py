"""Totals that two aggregators add without either of them seeing an answer.

Each holds one additive share mod 2^64 of every site's answers (`tacit.noise.split`), adds them up
and adds noise of the *full* deviation: priced is the total plus one noise, what the other one sees
with any sites on its side. Half the variance at each would break it. The opened total has both
noises: sqrt(2) times the deviation (docs/theory/federation.md#two-aggregators).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, count, noise_scale, refuse, set_checked
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import Shift, Suspicion, small
from tacit.mechanisms.base import ONE_TEACHER, Mechanism, Plan, Release, blocks, later_field
from tacit.mechanisms.codes import PUBLIC_FRAME, WILD, BoundedCodes, Public, public_frame
from tacit.mechanisms.votes import GaussianVotes, VoteReading
from tacit.noise import Noise, Shares, admit, check_ratio
from tacit.privacy import RdpCurve

KEPT_APART = (
    "one of the two aggregators drew its noise as planned, opened one sum, and kept its shares and "
    "its noise to itself"
)
FEWEST_STEPS = 4.0
"""Deviation in steps from which the sum of two rounded Gaussians is as good as one."""
_FAR = 2**46  # a known share in audits: sums of it and the noise are then whole numbers above 0
_MOST_NUMBERS = 2**28


class SharedTotal(Mechanism):
    """Base of mechanisms on shares: full noise on whole steps, mod 2^64."""

    __slots__ = ()
    noise_level: ClassVar[str] = "exact"

    @abstractmethod
    def noise_in_steps(self) -> float:
        """Return the deviation of one aggregator's noise in steps of the total.

        Returns
        -------
        float
            At least 4; public.
        """

    @abstractmethod
    def opened(
        self, total: Integers, *, teachers: int = 0, centres: Public = None, weights: Public = None
    ) -> Floats:
        """Return the released values of an opened total; public.

        Parameters
        ----------
        total : array of int64
            Both noises in it; public.
        teachers : int, optional
            How many teachers the sites in the sum have; public.
        centres, weights : arrays, optional
            Those by which sites clipped, if they did; public.

        Returns
        -------
        array of floats
        """

    def opened_cost(self) -> float:
        """mu^2 of one query for those who see the opened total only, if both drew their noise.

        Returns
        -------
        float
            Half of `gaussian_cost`, which statements claim and which presumes one aggregator.
        """
        return (self.gaussian_cost() or math.inf) / 2

    def _noisy(self, shares: Shares, noise: Noise) -> Shares:
        noisy = shares.copy()
        for rows in blocks(*shares.shape):
            drawn = noise.rounded_gaussian_steps(self.noise_in_steps(), 1.0, noisy[rows].shape)
            noisy[rows] += drawn.view(np.uint64)  # mod 2^64: wraps, whatever the sign
        return noisy

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return the sum of shares plus this aggregator's noise, mod 2^64."""
        entry = admit(noise)
        noisy = self._noisy(summed_shares(answers), noise)
        return Release(self, shares=noisy, entry=entry, secure=noise.secure)

    def _accept(self, answers: Any, queries: int, joint: int = 1) -> Shares:
        shares = summed_shares(answers)
        if len(shares) != queries * joint:
            raise InvalidArgument(
                f"Expected shares for the {queries * joint} queries of the plan, got {len(shares)}."
            )
        return shares


def summed_shares(answers: Any) -> Shares:
    """Return a sum of shares: uint64 (queries, numbers). No message quotes them."""
    proper = isinstance(answers, np.ndarray) and answers.dtype == np.uint64 and answers.ndim == 2
    if not proper or not 0 < answers.size <= _MOST_NUMBERS:
        raise InvalidArgument("Expected a sum of shares: uint64 of shape (queries, numbers).")
    return np.asarray(answers)


@dataclass(frozen=True, slots=True)
class SharedVotes(SharedTotal, GaussianVotes):
    """Release one aggregator's share of the votes plus its noise, a Gaussian rounded to integers.

    Parameters
    ----------
    sigma : float
        Deviation of *each* aggregator's noise on a count, in votes, before rounding; at least 4.
    votes_per_unit : int, optional
        Most teachers that the records of one unit may reach; priced squared, as in `GNMax`.

    Notes
    -----
    mu^2 = 2 votes_per_unit^2/sigma^2 a query against whoever knows everything but this
    aggregator's noise: the price of `NoisyVotes(sigma)`. The opened total has deviation sqrt(2)
    sigma. Unit: whatever a teacher's shard holds the records of.
    Proof: docs/theory/federation.md#two-aggregators.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> from tacit.noise import expand, split
    >>> seed, share = split([[0, 9000], [8000, 1000]])
    >>> mechanism = SharedVotes(sigma=4)
    >>> first = mechanism.release(expand(seed, (2, 2)), InsecureNoise(0))
    >>> second = mechanism.release(share, InsecureNoise(1))
    >>> open_shares(first, second).values.argmax(axis=1).tolist()
    [1, 0]
    """

    name: ClassVar[str] = "shared-votes"
    assumes: ClassVar[str] = f"{ONE_TEACHER}, and that {KEPT_APART}"
    sigma: float
    votes_per_unit: int = later_field(1)

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, votes_per_unit=count)
        check_ratio(self.sigma, 1.0)
        if self.sigma < FEWEST_STEPS:
            raise refuse("sigma", self.sigma, "at least 4 votes")

    def noise_in_steps(self) -> float:
        """Return sigma: a step is one vote; public."""
        return self.sigma

    def opened(
        self, total: Integers, *, teachers: int = 0, centres: Public = None, weights: Public = None
    ) -> Floats:
        """Return noisy counts, whole numbers; some are negative; public."""
        if centres is not None or weights is not None:
            raise InvalidArgument("Expected neither centres nor weights: votes have none.")
        return total.astype(np.float64)

    def votes(self, answers: Any) -> Shares:
        """Return the answers, which are a sum of shares."""
        return summed_shares(answers)

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the shares have as many rows and classes as the plan priced."""
        if n_teachers is not None:
            raise refuse("n_teachers", n_teachers, "omitted: a share does not show it")
        shares = self._accept(answers, queries)
        if n_classes not in (None, shares.shape[1]):
            raise InvalidArgument(f"Expected shares for the {n_classes} classes of the plan.")

    def reading(self) -> VoteReading:
        """Gaussian noise of sqrt(2) sigma on each count: that of both aggregators; public."""
        return VoteReading.gaussian(math.sqrt(2) * self.sigma)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield what one aggregator sees of the other's sum: the counts plus one noise."""
        votes = self.votes_per_unit
        small(votes_per_unit=votes)
        first, second = (votes + 1, 1), (1, votes + 1)
        one, spread = Plan(self, 1, n_classes=2), math.sqrt(2) * self.sigma
        shift = Shift((1.0, -1.0), start=-float(votes), by=2.0 * votes, spread=spread)
        yield Suspicion("the counts", first, second, one, shift.looks(one), _known_shares)


def _known_shares(row: Any, trials: int) -> Shares:
    """Return rows of whole numbers plus a share that the other side knows."""
    steps = np.atleast_2d(np.asarray(row, dtype=np.int64)).view(np.uint64) + np.uint64(_FAR)
    return np.tile(steps, (trials, 1))


@dataclass(frozen=True, slots=True)
class SharedCodes(SharedTotal, BoundedCodes):
    """Release one aggregator's share of summed codes plus its noise, in whole steps of the grid.

    Parameters
    ----------
    sigma : float
        Deviation of *each* aggregator's noise on the mean of all n_teachers, per coordinate (in
        units of 1/weight).
    radius : float
        Every site clips its teachers' codes to this distance from a public centre
        (`summed_steps`).
    n_teachers : int
        Of all sites of the study, public and fixed; noise is n_teachers sigma whoever is absent.
    joint : int, optional
        So many consecutive queries share one radius; `Plan.queries` then counts groups.
    votes_per_unit : int, optional
        Most teachers that the records of one unit may reach.

    Notes
    -----
    mu^2 = (2 radius votes_per_unit / (n_teachers sigma))^2 for each bound, against whoever knows
    everything but this aggregator's noise: the price of `GaussianMean`. A site that does not clip
    adds a number chosen without knowing others', which moves the total and no divergence. Unit:
    whatever a teacher's shard holds the records of. Proof: docs/theory/federation.md#codes.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> from tacit.noise import expand, split
    >>> mechanism = SharedCodes(sigma=0.01, radius=5.0, n_teachers=2)
    >>> seed, share = split(mechanism.summed_steps([[[3.0, 4.0]], [[1e300, 0.0]]]))
    >>> first = mechanism.release(expand(seed, (1, 2)), InsecureNoise(0))
    >>> second = mechanism.release(share, InsecureNoise(1))
    >>> open_shares(first, second, teachers=2).values.round(1).tolist()
    [[4.0, 2.0]]
    """

    name: ClassVar[str] = "shared-codes"
    assumes: ClassVar[str] = f"{ONE_TEACHER}, that {PUBLIC_FRAME}, and that {KEPT_APART}"
    sigma: float
    radius: float
    n_teachers: int
    joint: int = 1
    votes_per_unit: int = later_field(1)

    def __post_init__(self) -> None:
        self._validate_reach()
        if self.noise_in_steps() < FEWEST_STEPS:
            raise refuse("sigma", self.sigma, "large enough that the noise is at least 4 steps")

    @property
    def diameter(self) -> float:
        """How far one unit can move the sum over one bound, with all teachers that it reaches."""
        return self.votes_per_unit * self.RADII * self.radius

    def noise_in_steps(self) -> float:
        """Return n_teachers sigma in steps of the grid, a power of two: the quotient is exact."""
        return self.deviation / self.grid

    def opened(
        self, total: Integers, *, teachers: int = 0, centres: Public = None, weights: Public = None
    ) -> Floats:
        """Return noisy mean codes of an opened total; public."""
        if not 0 < count(teachers=teachers) <= self.n_teachers:
            raise refuse("teachers", teachers, f"at most {self.n_teachers}")
        frame = public_frame(centres, weights, (total.shape[0], total.shape[1]))
        return frame.back(np.asarray(total * (self.grid / teachers)))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each bound: shares show nothing that would lower it."""
        return self.cost(orders).batch(len(summed_shares(answers)) // self.joint)

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the shares have as many bounds as the plan priced."""
        self._agree(n_teachers)
        if n_classes is not None:
            raise refuse("n_classes", n_classes, f"omitted: codes for {self.name} have no classes")
        self._accept(answers, queries, self.joint)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield teachers far on one side and far on the other, as the other aggregator sees it."""
        small(n_teachers=self.n_teachers, joint=self.joint)
        one, joint, moved = Plan(self, 1), self.joint, self.votes_per_unit
        first, second = (
            self.summed_steps(np.full((moved, joint, 1), way)) for way in (WILD, -WILD)
        )
        reach = moved * self.radius / self.grid
        known = math.sqrt(joint) * _FAR
        shift = Shift((joint**-0.5,) * joint, known - reach, 2 * reach, self.noise_in_steps())
        looks = shift.looks(one)
        yield Suspicion("the mean", first, second, one, looks, _known_shares, numbers=joint)


def open_shares(first: Release, second: Release, **public: Any) -> Release:
    """Add the noisy shares of two aggregators: the total with both noises.

    Parameters
    ----------
    first, second : Release
        Each with `shares`, of the same mechanism, over the same sites.
    **public : object
        What the mechanism needs to open a total: for codes teachers, centres and weights.

    Returns
    -------
    Release
        `values`; public. Its entry is that of the first aggregator's ledger.

    Notes
    -----
    Two sums over different sites, or opened twice, would show a difference with little noise:
    aggregators agree on who is in the sum before either opens its own
    (docs/theory/federation.md#two-aggregators).
    """
    mechanism = first.mechanism
    if not isinstance(mechanism, SharedTotal) or mechanism != second.mechanism:
        raise InvalidArgument("Expected two releases of one mechanism on shares.")
    if first.shares is None or second.shares is None or first.shares.shape != second.shares.shape:
        raise InvalidArgument("Expected two noisy shares of one shape.")
    total = np.add(first.shares, second.shares).view(np.int64)
    values = mechanism.opened(total, **public)
    return Release(mechanism, values=values, entry=first.entry, secure=first.secure & second.secure)
