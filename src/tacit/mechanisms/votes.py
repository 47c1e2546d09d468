"""Mechanisms on the votes of teachers: GNMax, LNMax, the noisy histogram.

Votes are an integer array `(queries, classes)`. Neighbours differ in one teacher's vote: L2 =
sqrt(2), L1 = 2. Soft votes move by no more if every teacher's answer lies in the simplex, which is
enforced where they are summed, in exact shares of 2^-32 (docs/theory/gaussian.md#sensitivities and
docs/theory/data-dependent.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from tacit._checks import (
    Floats,
    Integers,
    at_least,
    count,
    noise_scale,
    number_array,
    set_checked,
    vote_matrix,
)
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import AUDIT_DELTAS, Look, Shift, Suspicion, cut, guess, labelled
from tacit.mechanisms.base import ONE_TEACHER, Mechanism, Plan, Release, blocks, later_field
from tacit.noise import Noise, admit, check_ratio
from tacit.privacy import Event, RdpCurve, gaussian_rdp, gnmax_rdp, lnmax_rdp, lnmax_rdp_worst

_MOST_VOTES = 1 << 24
_LEVELS = 1 << 14
_SHARES = 2.0**32  # a vote is divided into so many shares
_MOST_TEACHERS = 2**20  # up to here float64 holds every sum of shares exactly

Row = tuple[int, int]
Rows = tuple[Row, Row]


@dataclass(frozen=True, slots=True)
class VoteReading:
    """How a student reads a release of classes or of their votes. All of it is public.

    Parameters
    ----------
    quantile, below : functions
        Inverse and distribution function of the noise on one count.
    sigma : float, optional
        Deviation of that noise if it is Gaussian, which decoding a histogram needs.
    check : pair of float, optional
        Threshold and deviation of a noisy check that every answered query has passed.
    at_most : float, optional
        A label is right with no more than this probability, whatever the noise.
    """

    quantile: Callable[[Floats], Floats]
    below: Callable[[Floats], Floats]
    sigma: float | None = None
    check: tuple[float, float] | None = None
    at_most: float = 1.0

    @classmethod
    def gaussian(
        cls, sigma: float, *, check: tuple[float, float] | None = None, at_most: float = 1.0
    ) -> VoteReading:
        """Return the reading of Gaussian noise.

        Parameters
        ----------
        sigma : float
            Deviation of the noise on one count.
        check : pair of float, optional
            Threshold and deviation of the check that answered queries passed.
        at_most : float, optional
            Greatest probability that a label is right.

        Returns
        -------
        VoteReading
            With sigma.
        """

        def quantile(levels: Floats) -> Floats:
            return np.asarray(sigma * ndtri(levels))

        def below(x: Floats) -> Floats:
            return np.asarray(ndtr(x / sigma))

        return cls(quantile, below, sigma, check, at_most)

    @classmethod
    def laplace(cls, scale: float) -> VoteReading:
        """Return the reading of Laplace noise.

        Parameters
        ----------
        scale : float
            Of the noise on one count.

        Returns
        -------
        VoteReading
            Without sigma.
        """

        def quantile(levels: Floats) -> Floats:
            side = np.minimum(levels, 1 - levels)
            return np.asarray(scale * np.sign(0.5 - levels) * np.log(2 * side))

        def below(x: Floats) -> Floats:
            tail = 0.5 * np.exp(-np.abs(x) / scale)
            return np.where(x < 0, tail, 1 - tail)

        return cls(quantile, below)

    def ahead(self, gap: float) -> float:
        """P(a count that is `gap` votes ahead of another is still ahead with noise on both).

        Parameters
        ----------
        gap : float
            Votes between the two counts.

        Returns
        -------
        float
            By quadrature unless the noise is Gaussian.
        """
        if self.sigma is not None:
            return float(ndtr(gap / (math.sqrt(2) * self.sigma)))
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        return float(self.below(gap + self.quantile(levels)).mean())

    def passing(self, n_teachers: int, agreements: Floats) -> Floats:
        """P(the right count + the noise of the check >= threshold) for each agreement.

        Parameters
        ----------
        n_teachers : int
            How many teachers vote.
        agreements : array of floats
            Shares of the teachers that are right, each in [0, 1].

        Returns
        -------
        array of floats
            Of the shape of agreements; 1 without a check.
        """
        threshold, sigma = self.check or (-math.inf, 1.0)
        variance = n_teachers * agreements * (1 - agreements) + sigma**2
        return np.asarray(ndtr((n_teachers * agreements - threshold) / np.sqrt(variance)))


class VoteMechanism(Mechanism):
    """Base of mechanisms on vote histograms: rows, classes and teachers must match the plan."""

    __slots__ = ()
    assumes: ClassVar[str] = ONE_TEACHER

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each query, unless overridden by a data-dependent price."""
        return self.cost(orders).batch(len(self.votes(answers)))

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless votes have as many rows, classes and teachers as the plan priced."""
        votes = self.votes(answers)
        if votes.shape[0] != queries:
            raise InvalidArgument(
                f"Expected votes for the {queries} queries of the plan, got {votes.shape[0]} rows."
            )
        if n_classes is not None and votes.shape[1] != n_classes:
            raise InvalidArgument(
                f"Expected votes for the {n_classes} classes of the plan, got {votes.shape[1]}."
            )
        if n_teachers is not None and not np.allclose(votes.sum(axis=1), n_teachers, rtol=1e-9):
            raise InvalidArgument(f"Expected every row of votes to sum to n_teachers={n_teachers}.")

    def votes(self, answers: Any) -> NDArray[Any]:
        """Return the answers as votes: integers, or `SoftVotes` where the mechanism allows them.

        Parameters
        ----------
        answers : array of shape (queries, classes)
            Secret.

        Returns
        -------
        array of shape (queries, classes)
            Secret.
        """
        return vote_matrix(answers)


class SoftVoteMechanism(VoteMechanism):
    """One whose price holds for `SoftVotes` as well: no vote moves a count by more than 1."""

    __slots__ = ()

    def votes(self, answers: Any) -> NDArray[Any]:
        """Return hard or soft votes."""
        return answers.totals if isinstance(answers, SoftVotes) else vote_matrix(answers)


def count_votes(predictions: ArrayLike, n_classes: int) -> Integers:
    """Count predictions `(teachers, queries)` into votes `(queries, classes)`.

    Parameters
    ----------
    predictions : array of shape (teachers, queries)
        Class indices; secret.
    n_classes : int
        How many classes there are, at least 2.

    Returns
    -------
    array of shape (queries, classes)
        How many teachers chose each class; secret.

    Examples
    --------
    >>> count_votes([[0, 1], [0, 2], [1, 2]], n_classes=3).tolist()
    [[2, 1, 0], [0, 1, 2]]
    """
    n_classes = at_least(2, n_classes=n_classes)
    array = np.asarray(predictions)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidArgument(
            f"Expected predictions of shape (teachers, queries), got shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"Expected predictions to be integer class indices, got dtype {array.dtype}; "
            "encode labels as 0 .. n_classes - 1."
        )
    if array.min() < 0 or array.max() >= n_classes:
        raise InvalidArgument(
            f"Expected predictions to lie in 0 .. {n_classes - 1} (n_classes={n_classes})."
        )
    votes = np.empty((array.shape[1], n_classes), dtype=np.int64)
    for rows in blocks(array.shape[1], 4 * n_classes):
        votes[rows] = _count_block(array[:, rows], n_classes)
    return votes


def _count_block(predictions: NDArray[Any], n_classes: int) -> Integers:
    """Count a few queries, some teachers at a time: one bin a (query, class)."""
    n_teachers, n_queries = predictions.shape
    first_bin = np.arange(n_queries) * n_classes
    counts = np.zeros(n_queries * n_classes, dtype=np.int64)
    parts = blocks(n_teachers, n_queries)
    bins = np.empty((parts[0].stop, n_queries), dtype=np.intp)  # made once: pages are slow to get
    for some in parts:
        taken = bins[: some.stop - some.start]
        # Every prediction is known to be a class, so that the cast is safe, even from uint64.
        np.add(predictions[some], first_bin, out=taken, dtype=np.intp, casting="unsafe")
        counts += np.bincount(taken.reshape(-1), minlength=counts.size)
    return counts.reshape(n_queries, n_classes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SoftVotes:
    """Summed probability vectors `(queries, classes)` of `n_teachers` teachers. Secret.

    Parameters
    ----------
    totals : array of shape (queries, classes)
        Sums in whole shares of 2^-32; each row adds up to n_teachers exactly.
    n_teachers : int
        How many teachers there are; public.

    Notes
    -----
    Made by `sum_soft_votes`, which is what bounds one teacher's influence.
    """

    totals: NDArray[np.float64]
    n_teachers: int

    def __post_init__(self) -> None:
        totals = number_array(totals=self.totals).copy()
        shares = totals * _SHARES
        proper = totals.ndim == 2 and np.isfinite(totals).all() and (totals >= 0).all()
        whole = proper and bool((shares == np.floor(shares)).all())
        if not whole or (totals.sum(axis=1) != few_enough(self.n_teachers)).any():
            raise InvalidArgument(
                "Expected totals (queries, classes) in whole shares of 2**-32 whose rows sum to "
                "n_teachers exactly; make them with sum_soft_votes(probabilities)."
            )
        totals.setflags(write=False)
        object.__setattr__(self, "totals", totals)

    def __repr__(self) -> str:
        return f"SoftVotes(queries={self.totals.shape[0]}, classes={self.totals.shape[1]})"


def sum_soft_votes(probabilities: ArrayLike) -> SoftVotes:
    """Sum `(teachers, queries, classes)` scores after bringing each into the simplex; secret.

    Parameters
    ----------
    probabilities : array of shape (teachers, queries, classes)
        Scores, of any size; secret.

    Returns
    -------
    SoftVotes

    Notes
    -----
    Non-finite and negative scores become 0, and each row is divided by its sum; a row without any
    positive score votes for the first class: no teacher weighs more than one vote. Shares are
    rounded down to multiples of 2^-32, the rest goes to the teacher's first choice: sums are
    exact.

    Examples
    --------
    >>> sum_soft_votes([[[0.5, 0.5]], [[3.0, 1.0]], [[float("nan"), 7.0]]]).totals.tolist()
    [[1.25, 1.75]]
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    if scores.ndim != 3 or 0 in scores.shape or scores.shape[2] < 2:
        raise InvalidArgument(
            f"Expected probabilities of shape (teachers, queries, classes), got {scores.shape}."
        )
    few_enough(scores.shape[0])
    totals = np.zeros(scores.shape[1:])
    for teacher in scores:
        # Each in the simplex before it is added: a sum that is scaled bounds nobody's part in it.
        usable = np.where(np.isfinite(teacher) & (teacher > 0), teacher, 0.0)
        usable /= np.maximum(usable.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        usable[usable.sum(axis=1) == 0, 0] = 1.0
        totals += _whole_shares(usable / usable.sum(axis=1, keepdims=True))
    return SoftVotes(totals, scores.shape[0])


def _whole_shares(simplex: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round each row down to whole shares and give the rest to its largest class: sums are 1."""
    shares = np.floor(simplex * _SHARES)
    shares[np.arange(len(shares)), shares.argmax(axis=1)] += _SHARES - shares.sum(axis=1)
    return shares / _SHARES


def whole_shares_of(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round public numbers of votes to whole shares: differences to votes are then exact."""
    return np.asarray(np.round(expected * _SHARES) / _SHARES)


def few_enough(n_teachers: int) -> int:
    """Return the number of teachers if sums of their shares are exact."""
    if n_teachers > _MOST_TEACHERS:
        raise InvalidArgument(f"Expected at most {_MOST_TEACHERS} teachers, got {n_teachers}.")
    return n_teachers


def rounded_half_up(values: NDArray[Any]) -> NDArray[np.int64]:
    """floor(x + 0.5): |x - y| <= 1 stays <= 1, unlike half-to-even."""
    return np.floor(values + 0.5).astype(np.int64)


class GaussianVotes(VoteMechanism):
    """Gaussian noise on every count of a histogram."""

    __slots__ = ()
    sigma: float
    votes_per_unit: int

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one query: order (votes_per_unit/sigma)^2, whatever the votes; public."""
        reach = math.sqrt(2) * self.votes_per_unit
        return RdpCurve(orders, gaussian_rdp(self.sigma / reach, orders))

    def gaussian_cost(self) -> float | None:
        """mu^2 = 2 votes_per_unit^2/sigma^2."""
        return 2 * self.votes_per_unit**2 / self.sigma**2

    def reading(self) -> VoteReading:
        """Gaussian noise on each count."""
        return VoteReading.gaussian(self.sigma)


@dataclass(frozen=True, slots=True)
class GNMax(SoftVoteMechanism, GaussianVotes):
    """Release argmax_j (votes_j + N(0, sigma^2)).

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each count, in votes.
    votes_per_unit : int, optional
        Most teachers that the records of one unit may reach: a patient who is at two hospitals, a
        whole hospital with three teachers.

    Notes
    -----
    One query costs order/sigma^2, or mu^2 = 2/sigma^2; m votes a unit cost m^2 times as much.
    Unit: whatever a teacher's shard holds the records of. Hard votes or `SoftVotes`.
    Proof: docs/theory/gaussian.md#sensitivities.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> GNMax(sigma=1).release([[0, 50, 0], [49, 0, 1]], InsecureNoise(0)).labels.tolist()
    [1, 0]
    """

    name: ClassVar[str] = "gnmax"
    noise_level: ClassVar[str] = "csprng"
    sigma: float
    votes_per_unit: int = later_field(1)

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, votes_per_unit=count)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one label per row of votes."""
        entry = admit(noise)
        labels = self.labels(self.votes(answers), noise)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def labels(self, votes: NDArray[Any], noise: Noise) -> Integers:
        """Draw noise for each row; return the noisy pluralities; public.

        Parameters
        ----------
        votes, noise
            As in `release`, which alone checks that the noise was paid for.

        Returns
        -------
        array of shape (queries,)
        """
        return noisy_argmax(votes, lambda shape: noise.gaussian(self.sigma, shape))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query, `bound="tight"`, for one vote a unit. Secret."""
        if self.votes_per_unit != 1:  # that bound knows neighbours of one vote only
            return self.cost(orders).batch(len(self.votes(answers)))
        return RdpCurve(orders, gnmax_rdp(self.votes(answers), self.sigma, orders))

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a first class a little behind: whether it wins tests the difference."""
        for delta in AUDIT_DELTAS:
            votes = self.votes_per_unit
            gap = gap_for(self.sigma, guess(self, delta), moved=votes)
            yield from first_behind("the label", self, gap, delta, moved=votes)


@dataclass(frozen=True, slots=True)
class LNMax(SoftVoteMechanism):
    """Release argmax_j (votes_j + Laplace(1/gamma)), as in PATE 2017.

    Parameters
    ----------
    gamma : float
        Inverse scale of the Laplace noise on each count.

    Notes
    -----
    One query is 2 gamma-DP; its RDP is twice that of one Laplace coordinate. Unit: whatever a
    teacher's shard holds the records of. Hard votes or `SoftVotes`.
    Proof: docs/theory/data-dependent.md#lnmax.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> LNMax(gamma=0.5).release([[0, 50, 0], [49, 0, 1]], InsecureNoise(0)).labels.tolist()
    [1, 0]
    """

    name: ClassVar[str] = "lnmax"
    noise_parameter: ClassVar[str] = "gamma"
    noise_level: ClassVar[str] = "csprng"
    gamma: float

    def __post_init__(self) -> None:
        set_checked(self, gamma=noise_scale)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return one label per row of votes."""
        entry = admit(noise)
        votes, scale = self.votes(answers), 1 / self.gamma
        labels = noisy_argmax(votes, lambda shape: noise.laplace(scale, shape))
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one query, whatever the votes; public."""
        return RdpCurve(orders, lnmax_rdp_worst(self.gamma, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query. Secret."""
        return RdpCurve(orders, lnmax_rdp(self.votes(answers), self.gamma, orders))

    def reading(self) -> VoteReading:
        """Laplace noise on each count; public."""
        return VoteReading.laplace(1 / self.gamma)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield cases where only the tail ratio distinguishes neighbours."""
        for delta in AUDIT_DELTAS:
            yield from first_behind("the label", self, max(1, round(3 / self.gamma)), delta)


@dataclass(frozen=True, slots=True)
class NoisyVotes(GaussianVotes):
    """Release the whole histogram plus a Gaussian rounded to the integers, exactly sampled.

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each count, in votes, before it is rounded.
    votes_per_unit : int, optional
        Most teachers that the records of one unit may reach; priced squared, as in `GNMax`.

    Notes
    -----
    Its worst case is that of `GNMax(sigma)`, whose label is only a post-processing of it; there is
    no cheaper data-dependent price. Whole votes only. Unit: whatever a teacher's shard holds the
    records of.
    """

    name: ClassVar[str] = "noisy-votes"
    noise_level: ClassVar[str] = "exact"
    sigma: float
    votes_per_unit: int = later_field(1)

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale, votes_per_unit=count)
        check_ratio(self.sigma, 1.0)

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return noisy counts (queries, classes); some are negative."""
        entry = admit(noise)
        votes = vote_matrix(answers)
        values = votes.astype(np.float64)
        for rows in blocks(*votes.shape):
            values[rows] += noise.rounded_gaussian_steps(self.sigma, 1.0, values[rows].shape)
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the difference of two released counts."""
        votes = self.votes_per_unit
        first, second = (votes + 1, 1), (1, votes + 1)
        one, spread = _plan_of_row(self, first), math.sqrt(2) * self.sigma
        shift = Shift((1.0, -1.0), start=-float(votes), by=2.0 * votes, spread=spread)
        yield Suspicion("the counts", first, second, one, shift.looks(one), _tiled)


def noisy_argmax(
    votes: NDArray[Any], draw: Callable[[tuple[int, ...]], NDArray[np.float64]]
) -> Integers:
    """Return argmax_j (votes_j + noise_j) for each row, in blocks; the first wins an exact tie."""
    labels = np.empty(votes.shape[0], dtype=np.int64)
    for rows in blocks(*votes.shape):
        noisy = draw(votes[rows].shape)
        noisy += votes[rows]
        labels[rows] = noisy.argmax(axis=1)
    return labels


def first_behind(
    what: str,
    mechanism: Mechanism,
    gap: int,
    delta: float,
    *,
    least: int = 1,
    moved: int = 1,
    **student: Any,
) -> Iterator[Suspicion]:
    """Yield rows of votes with class 0 `gap` votes behind, and with `moved` votes moved to it.

    And those where one vote decides: with far too little noise, nothing happens elsewhere.
    """
    for behind in sorted({max(gap, moved), moved}, reverse=True):
        second, first = (least, least + behind), (least + moved, least + behind - moved)
        yield one_event(what, mechanism, (first, second), labelled(0), delta, **student)


def one_event(
    what: str, mechanism: Mechanism, rows: Rows, event: Event, delta: float, **student: Any
) -> Suspicion:
    """Return one event at one delta; a student, if any, gives the same for every row."""
    one, looks = _plan_of_row(mechanism, rows[0]), (Look((event,), delta=delta),)

    def public(trials: int) -> dict[str, Any]:
        return {name: _tiled(row, trials) for name, row in student.items()}

    return Suspicion(what, *rows, one, looks, _tiled, public=public)


def gap_for(sigma: float, epsilon: float, *, moved: int = 1) -> int:
    """How far behind a class is whose win, with noise sigma, is the test for epsilon."""
    spread = math.sqrt(2) * sigma
    return max(1, round(cut(2 * moved / spread, epsilon) * spread))


def _plan_of_row(mechanism: Mechanism, row: Row) -> Plan:
    """Return the plan of one release of these votes."""
    if sum(row) > _MOST_VOTES:
        raise InvalidArgument(
            f"Expected {mechanism} to need fewer than {_MOST_VOTES} votes for an audit; with so "
            "much noise there is nothing to see."
        )
    return Plan(mechanism, 1, n_teachers=sum(row), n_classes=2)


def _tiled(row: Row, trials: int) -> Integers:
    """Return the same row, of votes or of a student, for every query."""
    return np.tile(np.array(row), (trials, 1))
