"""Mechanisms on neighbours: a noisy plurality, a noisy histogram, and answers after a screening.

For each query and each step of it the k nearest records of a fresh Poisson sample of the units
vote. A unit has at most c = `votes_per_unit` records among a query's neighbours, so if sampled it
adds at most c votes and displaces at most c: L2 = sqrt(2) c. Proofs: docs/theory/private-knn.md
(#what-one-unit-can-move, #noisy-plurality-and-histogram, #noisy-screening).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import privacy
from tacit._checks import (
    Integers,
    at_least,
    count,
    finite,
    noise_scale,
    refuse,
    sampling_rate,
    set_checked,
)
from tacit.errors import InvalidArgument
from tacit.mechanisms import audit_cases
from tacit.mechanisms.audit_cases import Shift, Suspicion, World, labelled, small, with_and_without
from tacit.mechanisms.base import BLOCK, NO_ANSWER, Mechanism, Plan, Release
from tacit.mechanisms.votes import VoteReading, noisy_argmax
from tacit.noise import Noise, admit, check_rate, check_ratio
from tacit.privacy import Event, RdpCurve

_Read = TypeVar("_Read")
_speakers: set[type] = set()  # kinds that have been seen to be `NeighbourAnswers`
_NEAR = 4.0  # a lead of more deviations than that is never made up for an audit
_COMPANY = 64  # with more others than that, their coins hide from an audit what the unit does


@runtime_checkable
class NeighbourAnswers(Protocol):
    """The secret answers of private records to some queries; `tacit.neighbours` makes them."""

    @property
    def n_queries(self) -> int:
        """How many queries there are."""

    @property
    def votes_per_unit(self) -> int:
        """The most records of one unit that can be among the neighbours of a query."""

    @property
    def targets(self) -> NDArray[Any]:
        """Target of each record `(records, ...)`: a class, 0/1 labels or a number. Secret.

        Where records are read in blocks, a draw that goes far may append some.
        """

    def draw(self, k: int, rate: float, noise: Noise, rows: Integers | None = None) -> Integers:
        """Return positions `(rows, k)` in `targets` of the k nearest in a fresh Poisson sample.

        Parameters
        ----------
        k : int
            How many sampled neighbours are wanted for each query.
        rate : float
            Chance of each unit to be in the sample, in (0, 1]; 1 means the plain k nearest.
        noise : Noise
            That of an open grant, or `InsecureNoise`.
        rows : array of int, optional
            Which queries; all of them by default.

        Returns
        -------
        array of int of shape (rows, k)
            Positions in `targets`, -1 where fewer than k were sampled; secret.

        Notes
        -----
        The order of two records for a query must depend on these two alone. Every call samples
        afresh.
        """


class NeighbourMechanism(Mechanism):
    """Base of mechanisms on neighbours: k, a sampling rate and votes per unit."""

    __slots__ = ()
    assumes: ClassVar[str] = (
        "the features, their scale and the keys that break ties were fixed without the private "
        "records, so that no unit changes the order in which any query meets the others, and that "
        "nobody learns which records were sampled"
    )
    k: int
    sampling_rate: float
    votes_per_unit: int

    def _validate_sample(self) -> None:
        set_checked(self, k=count, sampling_rate=sampling_rate, votes_per_unit=count)
        check_rate(sampling_rate=self.sampling_rate)
        if self.votes_per_unit > self.k:
            raise refuse("votes_per_unit", self.votes_per_unit, f"at most k={self.k}")

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each query.

        Amplification needs a bound that holds for every sample, not for the one that was drawn.
        """
        return self.cost(orders).batch(self._answers(answers).n_queries)

    def accept(self, answers: Any, *, queries: int, n_classes: int | None, **_: Any) -> None:
        """Raise unless these are neighbours of as many queries, with the targets priced."""
        found = self._answers(answers).n_queries
        if found != queries:
            raise InvalidArgument(f"Expected neighbours of {queries} queries, got {found}.")
        self._targets(answers, n_classes)

    def _answers(self, answers: Any) -> NeighbourAnswers:
        if type(answers) not in _speakers:  # to look for each of its parts takes a while
            if not isinstance(answers, NeighbourAnswers):
                raise InvalidArgument(
                    "Expected answers to be the neighbourhoods that a search of tacit.neighbours "
                    f"returns, got {type(answers).__name__}."
                )
            _speakers.add(type(answers))
        if answers.votes_per_unit != self.votes_per_unit:
            raise InvalidArgument(
                f"Expected neighbours with votes_per_unit={self.votes_per_unit}, as priced, got "
                f"{answers.votes_per_unit}."
            )
        found: NeighbourAnswers = answers
        return found

    def _targets(self, answers: Any, n_classes: int | None) -> NDArray[Any]:
        """Return one finite number for each record, or what else a mechanism uses; never quoted."""
        array = np.asarray(self._answers(answers).targets)
        if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise InvalidArgument("Expected targets to be one finite number for each record.")
        return array.astype(np.float64, copy=False)

    def _drawn(
        self,
        answers: Any,
        noise: Noise,
        read: Callable[[], _Read],
        rows: Integers | None = None,
        width: int = 1,
    ) -> Iterator[tuple[slice, Integers, _Read]]:
        """Yield fresh samples of blocks of queries: slice of `rows`, positions, and targets.

        `read` makes what is needed of all targets, again where a draw found more. `width` numbers
        are made of each position, which bounds the size of a block.
        """
        answers = self._answers(answers)
        wanted = np.arange(answers.n_queries) if rows is None else rows
        known, said = len(answers.targets), read()
        step = max(1, 4 * BLOCK // (self.k * width))
        for start in range(0, wanted.size, step):
            part = wanted[start : start + step]
            # Drawn anew by each step of each query: the amplified price holds for fresh coins only.
            drawn = answers.draw(self.k, self.sampling_rate, noise, rows=part)
            positions = np.asarray(drawn, dtype=np.int64)
            if positions.shape != (part.size, self.k):
                raise InvalidArgument(f"Expected k={self.k} positions for each query drawn.")
            if positions.min(initial=-1) < -1 or positions.max(initial=-1) >= len(answers.targets):
                raise InvalidArgument("Expected positions of records, or -1, from each draw.")
            if len(answers.targets) != known:
                known, said = len(answers.targets), read()
            yield slice(start, start + part.size), positions, said


class ClassNeighbours(NeighbourMechanism):
    """Neighbours that vote for a class each; the plan must give the number of classes."""

    __slots__ = ()
    counts_classes: ClassVar[bool] = True

    def _targets(self, answers: Any, n_classes: int | None) -> Integers:
        """Return the records' classes, which must lie in 0 .. n_classes - 1."""
        if n_classes is None:
            raise InvalidArgument("Expected n_classes: neighbours do not tell how many there are.")
        n_classes = at_least(2, n_classes=n_classes)
        array = np.asarray(self._answers(answers).targets)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidArgument("Expected targets to be one integer class for each record.")
        if array.size and (array.min() < 0 or array.max() >= n_classes):
            raise InvalidArgument(f"Expected targets to lie in 0 .. {n_classes - 1}.")
        return array.astype(np.int64, copy=False)


class GaussianNeighbours(NeighbourMechanism):
    """Gaussian noise on a sum over the sampled neighbours."""

    __slots__ = ()

    @property
    @abstractmethod
    def noise_multiplier(self) -> float:
        """Sigma over the L2 sensitivity of the sum to one sampled unit."""

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one query: the Poisson-subsampled Gaussian; public."""
        values = privacy.poisson_gaussian_rdp(self.sampling_rate, self.noise_multiplier, orders)
        return RdpCurve(orders, values)

    def gaussian_cost(self) -> float | None:
        """mu^2 = (sensitivity/sigma)^2 of one query without sampling, else None."""
        return None if self.sampling_rate < 1.0 else self.noise_multiplier**-2


def count_classes(classes: Integers, positions: Integers, n_classes: int) -> Integers:
    """Count the classes of the drawn records: votes `(rows, classes)`; a -1 is no vote."""
    rows, places = np.nonzero(positions >= 0)
    bins = rows * n_classes + classes[positions[rows, places]]
    return np.bincount(bins, minlength=len(positions) * n_classes).reshape(-1, n_classes)


@dataclass(frozen=True, slots=True)
class _Votes(ClassNeighbours, GaussianNeighbours):
    """Votes of the sampled neighbours with Gaussian noise."""

    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        set_checked(self, sigma=noise_scale)
        self._validate_sample()

    @property
    def noise_multiplier(self) -> float:
        """Sigma over sqrt(2) votes_per_unit: so many votes are added, and as many displaced."""
        return self.sigma / (math.sqrt(2) * self.votes_per_unit)

    def reading(self) -> VoteReading:
        """Gaussian noise on each count."""
        return VoteReading.gaussian(self.sigma)


@dataclass(frozen=True, slots=True)
class SampledMax(_Votes):
    """Release argmax_j (votes_j + N(0, sigma^2)) of the k nearest records of a Poisson sample.

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each count, in votes.
    k : int
        How many sampled neighbours vote on a query.
    sampling_rate : float, optional
        Chance of each unit to be in the sample of a query, in (0, 1]; 1 takes all.
    votes_per_unit : int, optional
        Most records of one unit among the neighbours of a query, from 1 to k.

    Notes
    -----
    One query costs the subsampled Gaussian with mu = sqrt(2) votes_per_unit/sigma. A plan needs
    n_classes. Unit: one with at most `votes_per_unit` records among a query's neighbours.
    Proof: docs/theory/private-knn.md#noisy-plurality-and-histogram.

    Examples
    --------
    >>> float(f"{SampledMax(sigma=5, k=30, sampling_rate=0.05).cost([8]).values[0]:.10g}")
    0.0008536918171
    """

    name: ClassVar[str] = "sampled-max"
    noise_level: ClassVar[str] = "csprng"

    def release(self, answers: Any, noise: Noise, *, n_classes: int | None = None) -> Release:
        """Return one label per query.

        Parameters
        ----------
        answers, noise, n_classes
            The neighbours of each query, secret; the noise of an open grant; n_classes is
            required.

        Returns
        -------
        Release
            `labels`, one for each query; public.
        """
        entry = admit(noise)
        labels = self.labels(answers, noise, n_classes)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def labels(
        self, answers: Any, noise: Noise, n_classes: int | None, rows: Integers | None = None
    ) -> Integers:
        """Draw a sample and noise for each of these queries; return the noisy pluralities.

        Parameters
        ----------
        answers, noise, n_classes
            As in `release`, which alone checks that the noise was paid for.
        rows : array of int, optional
            Which queries; all of them by default.

        Returns
        -------
        array of shape (rows,)
            Labels; public.
        """
        read = partial(self._targets, answers, n_classes)
        queries = self._answers(answers).n_queries if rows is None else rows.size
        labels = np.empty(queries, dtype=np.int64)
        for places, positions, classes in self._drawn(answers, noise, read, rows):
            votes = count_classes(classes, positions, int(n_classes or 0))
            labels[places] = noisy_argmax(votes, lambda shape: noise.gaussian(self.sigma, shape))
        return labels

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a unit that is alone, or that displaces a vote for the leading class."""
        small(k=self.k)
        one, votes = Plan(self, 1, n_classes=2), self.votes_per_unit
        spread = math.sqrt(2) * self.sigma
        if self.sampling_rate < 1:
            looks = audit_cases.at_orders(labelled(0))
            yield with_and_without("the label, alone", one, World(audit_cases.VOTES, votes), looks)
            if self.k <= _NEAR * spread:
                world = audit_cases.crowd(votes)
                yield with_and_without("the label, in a crowd", one, world, looks)
            return
        gap = audit_cases.cut(2 * votes / spread, one.epsilon(audit_cases.FINE)) * spread
        for behind in sorted({votes, round(gap)}):
            world = audit_cases.split(self, behind)
            yield with_and_without("the label", one, world, audit_cases.at_deltas(labelled(0)))


@dataclass(frozen=True, slots=True)
class SampledVotes(_Votes):
    """Release the histogram of the k nearest of a Poisson sample plus a rounded Gaussian.

    Parameters
    ----------
    sigma, k, sampling_rate, votes_per_unit
        As in `SampledMax`.

    Notes
    -----
    It costs what `SampledMax` costs, whose label is a post-processing of it; the noise is a
    Gaussian rounded to the integers, exactly sampled. A plan needs n_classes. Unit: one with at
    most `votes_per_unit` records among a query's neighbours.
    Proof: docs/theory/private-knn.md#noisy-plurality-and-histogram.
    """

    name: ClassVar[str] = "sampled-votes"
    noise_level: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        _Votes.__post_init__(self)
        check_ratio(self.sigma, 1.0)

    def release(self, answers: Any, noise: Noise, *, n_classes: int | None = None) -> Release:
        """Return noisy counts (queries, classes); some are negative.

        Parameters
        ----------
        answers, noise, n_classes
            The neighbours of each query, secret; the noise of an open grant; n_classes is
            required.

        Returns
        -------
        Release
            `values` of shape (queries, classes), whole numbers; public.
        """
        entry = admit(noise)
        read, width = partial(self._targets, answers, n_classes), int(n_classes or 0)
        values = np.empty((self._answers(answers).n_queries, width))
        for places, positions, classes in self._drawn(answers, noise, read):
            votes = count_classes(classes, positions, width)
            votes += noise.rounded_gaussian_steps(self.sigma, 1.0, votes.shape)
            values[places] = votes
        return Release(self, values=values, entry=entry, secure=noise.secure)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the difference of two counts, where all others vote for the second."""
        small(k=self.k)
        votes, spread = self.votes_per_unit, math.sqrt(2) * self.sigma
        shift = Shift((1.0, -1.0), -self.k, 2 * votes, spread, self.sampling_rate)
        one = Plan(self, 1, n_classes=2)
        yield with_and_without("the counts", one, audit_cases.crowd(votes), shift.looks(one))


@dataclass(frozen=True, slots=True)
class ScreeningCheck(ClassNeighbours):
    """Release the bit 1[max_j votes_j + N(0, sigma^2) >= threshold] of a Poisson sample.

    Parameters
    ----------
    threshold : float
        What the largest count plus noise must reach, in votes.
    sigma : float
        Deviation of the noise.
    k, sampling_rate, votes_per_unit
        As in `SampledMax`.

    Notes
    -----
    The largest count lies in [0, k], for a sample may be small, and one unit moves it by at most
    `votes_per_unit`: mu^2 = (votes_per_unit/sigma)^2 without sampling. Unit: one with at most
    `votes_per_unit` records among a query's neighbours.
    Proof: docs/theory/private-knn.md#noisy-screening.

    Examples
    --------
    >>> check = ScreeningCheck(threshold=210, sigma=85, k=300, sampling_rate=0.25)
    >>> float(f"{check.cost([8]).values[0]:.10g}")
    2.203150303e-05
    """

    name: ClassVar[str] = "screening-check"
    noise_level: ClassVar[str] = "csprng"
    threshold: float
    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        set_checked(self, threshold=finite, sigma=noise_scale)
        self._validate_sample()

    def passes(self, answers: Any, noise: Noise, n_classes: int | None) -> NDArray[np.bool_]:
        """Draw a sample and noise for each query; return which comparisons hold.

        Parameters
        ----------
        answers, noise, n_classes
            As in `release`, which alone checks that the noise was paid for.

        Returns
        -------
        array of bool of shape (queries,)
            Which queries pass; public.
        """
        read = partial(self._targets, answers, n_classes)
        passed = np.empty(self._answers(answers).n_queries, dtype=np.bool_)
        for places, positions, classes in self._drawn(answers, noise, read):
            top = count_classes(classes, positions, int(n_classes or 0)).max(axis=1)
            noisy = noise.gaussian(self.sigma, top.shape)
            noisy += top
            passed[places] = noisy >= self.threshold
        return passed

    def release(self, answers: Any, noise: Noise, *, n_classes: int | None = None) -> Release:
        """Return 1 for each query that passes, else 0.

        Parameters
        ----------
        answers, noise, n_classes
            The neighbours of each query, secret; the noise of an open grant; n_classes is
            required.

        Returns
        -------
        Release
            `labels`, 0 or 1 for each query; public.
        """
        entry = admit(noise)
        labels = self.passes(answers, noise, n_classes).astype(np.int64)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case over every value of the statistic, exactly amplified; public."""
        check = self.k, self.threshold, self.sigma
        sample = self.sampling_rate, orders, self.votes_per_unit
        return RdpCurve(orders, privacy.sampled_threshold_rdp(*check, *sample))

    def gaussian_cost(self) -> float | None:
        """mu^2 = (votes_per_unit/sigma)^2 without sampling, else None; public."""
        return None if self.sampling_rate < 1.0 else (self.votes_per_unit / self.sigma) ** 2

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a check that the unit's votes, or those that it displaces, decide."""
        return _checks("the check", self, self.sigma, (labelled(1),))


@dataclass(frozen=True, slots=True)
class NoisyScreening(ClassNeighbours):
    """Answer only where a noisy check finds enough neighbours agreeing (Private-kNN, Algorithm 1).

    Parameters
    ----------
    threshold : float
        What the largest count plus noise must reach, in votes.
    sigma_screen : float
        Deviation of the noise of the check, which every query pays.
    sigma : float
        Deviation of the noise on each count of an answer.
    k, sampling_rate, votes_per_unit
        As in `SampledMax`.

    Notes
    -----
    If max_j votes_j + N(0, sigma_screen^2) >= threshold, release argmax_j votes_j + N(0, sigma^2)
    of the votes of *another* Poisson sample, else -1. With one sample for both, as in the paper,
    the pair would show more than the two amplified costs add up to. A plan needs n_classes. Unit:
    one with at most `votes_per_unit` records among a query's neighbours.
    Proof: docs/theory/private-knn.md#noisy-screening.

    Examples
    --------
    >>> from tacit import Plan
    >>> mechanism = NoisyScreening(210, sigma_screen=85, sigma=25, k=300, sampling_rate=0.15)
    >>> round(Plan(mechanism, 1000, max_answers=500, n_classes=10).epsilon(1e-5), 3)
    0.776
    """

    name: ClassVar[str] = "noisy-screening"
    noise_level: ClassVar[str] = "csprng"
    threshold: float
    sigma_screen: float
    sigma: float
    k: int
    sampling_rate: float = 1.0
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        set_checked(self, threshold=finite, sigma_screen=noise_scale, sigma=noise_scale)
        self._validate_sample()

    @property
    def check(self) -> ScreeningCheck:
        """What every query pays."""
        sample = self.k, self.sampling_rate, self.votes_per_unit
        return ScreeningCheck(self.threshold, self.sigma_screen, *sample)

    @property
    def answer(self) -> SampledMax:
        """What a query that passes pays on top."""
        return SampledMax(self.sigma, self.k, self.sampling_rate, self.votes_per_unit)

    def release(
        self,
        answers: Any,
        noise: Noise,
        *,
        n_classes: int | None = None,
        max_answers: int | None = None,
    ) -> Release:
        """Return one label per query, -1 where unanswered; after `max_answers` all are -1.

        Parameters
        ----------
        answers, noise, n_classes
            As in `SampledMax.release`.
        max_answers : int, optional
            Public cap: the first rows that pass are answered, the rest are -1. None is no cap.

        Returns
        -------
        Release
            `labels`; public.
        """
        entry = admit(noise)
        passed = self.check.passes(answers, noise, n_classes)
        cap = passed.size if max_answers is None else at_least(0, max_answers=max_answers)
        # The first that passed: a choice among them by votes would release more than was priced.
        rows = np.nonzero(passed)[0][:cap]
        labels = np.full(passed.size, NO_ANSWER, dtype=np.int64)
        if rows.size:
            # On samples of their own: that a query passed tells who was in the sample of its check.
            labels[rows] = self.answer.labels(answers, noise, n_classes, rows)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one query, screened and possibly answered; public."""
        check, answer = (self.k, self.threshold, self.sigma_screen), self.answer.cost(orders).values
        sample = self.sampling_rate, orders, self.votes_per_unit
        return RdpCurve(orders, privacy.sampled_screening_rdp(*check, answer, *sample))

    def gaussian_cost(self) -> float | None:
        """mu^2 of one query that is checked and answered, without sampling; else None; public."""
        check, answer = self.check.gaussian_cost(), self.answer.gaussian_cost()
        return None if check is None or answer is None else check + answer

    def reading(self) -> VoteReading:
        """Gaussian noise, where a check was passed; public."""
        return VoteReading.gaussian(self.sigma, check=(self.threshold, self.sigma_screen))

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield what decides the check and, without sampling, what decides the answer."""
        events = labelled(0, 1), labelled(0)
        yield from _checks("check and answer", self, self.sigma_screen, events)
        if self.sampling_rate == 1:
            one, world = Plan(self, 1, n_classes=2), audit_cases.split(self, self.votes_per_unit)
            yield with_and_without("the answer", one, world, audit_cases.at_deltas(*events))


def _checks(
    what: str, mechanism: ScreeningCheck | NoisyScreening, sigma: float, events: tuple[Event, ...]
) -> Iterator[Suspicion]:
    small(threshold=mechanism.threshold, k=mechanism.k)
    one, votes = Plan(mechanism, 1, n_classes=2), mechanism.votes_per_unit
    if mechanism.sampling_rate < 1:
        looks = audit_cases.at_orders(*events)
        yield with_and_without(f"{what}, alone", one, World(audit_cases.VOTES, votes), looks)
        yield with_and_without(f"{what}, in a crowd", one, audit_cases.crowd(votes), looks)
        company = round((mechanism.threshold - votes / 2) / mechanism.sampling_rate)
        if 0 < company <= _COMPANY:
            world = World(audit_cases.VOTES, votes, (audit_cases.SAME,) * company)
            yield with_and_without(f"{what}, in company", one, world, looks)
        return
    away = audit_cases.cut(votes / sigma, one.epsilon(audit_cases.FINE)) * sigma
    tops = {round(mechanism.threshold - each) for each in (votes, away)}
    for top in sorted({min(max(0, top), mechanism.k - votes) for top in tops}):
        world = World(audit_cases.VOTES, votes, (audit_cases.SAME,) * top)
        yield with_and_without(what, one, world, audit_cases.at_deltas(*events))
