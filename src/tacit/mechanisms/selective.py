"""Mechanisms that check before they answer: Confident- and Interactive-GNMax.

Check and answer draw independent noise. How many queries pass is an output, so a plan is priced
with a public cap or by the per-query composite, never with the realised count.
Proofs: docs/theory/selective.md#the-noisy-check and #check-and-answer-together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import privacy
from tacit._checks import Floats, Integers, at_least, finite, noise_scale, set_checked, simplex_rows
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import AUDIT_DELTAS, Suspicion, cut, guess, labelled, small
from tacit.mechanisms.base import NO_ANSWER, Release
from tacit.mechanisms.votes import (
    GNMax,
    SoftVoteMechanism,
    VoteReading,
    few_enough,
    first_behind,
    gap_for,
    one_event,
    rounded_half_up,
    whole_shares_of,
)
from tacit.noise import Noise, admit
from tacit.privacy import RdpCurve

Student = ArrayLike | None  # its probabilities (queries, classes)
_SURELY = 8.0  # a check that is so many deviations away passes


@dataclass(frozen=True, slots=True)
class ThresholdCheck(SoftVoteMechanism):
    """Release the bit 1[max_j votes_j + N(0, sigma^2) >= threshold].

    Parameters
    ----------
    threshold : float
        What the largest count plus noise must reach, in votes.
    sigma : float
        Deviation of the noise.
    from_zero : bool, optional
        Whether the statistic ranges over [0, n_teachers], as Interactive-GNMax needs; otherwise it
        is at least n_teachers/n_classes.

    Notes
    -----
    mu^2 = 1/sigma^2. Unit: whatever a teacher's shard holds the records of.
    Proof: docs/theory/selective.md#the-noisy-check.
    """

    name: ClassVar[str] = "threshold-check"
    noise_level: ClassVar[str] = "csprng"
    threshold: float
    sigma: float
    from_zero: bool = False

    def __post_init__(self) -> None:
        set_checked(self, threshold=finite, sigma=noise_scale)

    def passes(self, statistic: Integers, noise: Noise) -> NDArray[np.bool_]:
        """Return the noisy comparison for each query.

        Parameters
        ----------
        statistic : array of shape (queries,)
            Whole numbers that one unit moves by at most 1; secret.
        noise : Noise
            As in `release`, which alone checks that it was paid for.

        Returns
        -------
        array of bool of shape (queries,)
            Which queries pass; public.
        """
        noisy = noise.gaussian(self.sigma, statistic.shape)
        noisy += statistic
        return noisy >= self.threshold

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return 1 for each query that passes, else 0."""
        entry = admit(noise)
        top = rounded_half_up(self.votes(answers).max(axis=1))
        labels = self.passes(top, noise).astype(np.int64)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def range(self, n_teachers: int | None = None, n_classes: int | None = None) -> tuple[int, int]:
        """Return the public range of the statistic.

        Parameters
        ----------
        n_teachers, n_classes : int
            Public sizes; n_classes is not needed with `from_zero`.

        Returns
        -------
        tuple of int
            Lowest and highest value.
        """
        if n_teachers is None or (n_classes is None and not self.from_zero):
            raise InvalidArgument(
                "Expected n_teachers and n_classes: the price of a check depends on them; "
                "give both to Plan(...)."
            )
        n_teachers = at_least(1, n_teachers=n_teachers)
        if self.from_zero or n_classes is None:
            return 0, n_teachers
        # The largest of m counts is at least n/m; soft votes are rounded half up.
        return math.floor(n_teachers / at_least(2, n_classes=n_classes) + 0.5), n_teachers

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case over every value of the statistic, exact; public."""
        check = self.threshold, self.sigma, *self.range(**sizes)
        return RdpCurve(orders, privacy.threshold_rdp_worst(*check, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query's bit. Secret."""
        votes = self.votes(answers)
        low, high = self.range(round(float(votes[0].sum())), votes.shape[1])
        top = rounded_half_up(votes.max(axis=1))
        check = top, self.threshold, self.sigma, orders
        return RdpCurve(orders, privacy.threshold_rdp(*check, lowest=low, highest=high))

    def gaussian_cost(self) -> float | None:
        """mu^2 = 1/sigma^2; public."""
        return 1 / self.sigma**2

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield a check that almost always passes, and one that a single vote decides."""
        small(threshold=self.threshold)
        size = max(2, round(self.threshold))
        for delta in AUDIT_DELTAS:
            away = cut(1 / self.sigma, guess(self, delta, n_teachers=size, n_classes=2))
            for votes in {size, max(2, round(self.threshold + away * self.sigma))}:
                rows = (votes - 1, 1), (votes, 0)
                yield one_event("the check", self, rows, labelled(0), delta)


@dataclass(frozen=True, slots=True)
class _Selective(SoftVoteMechanism):
    """Base of Confident- and Interactive-GNMax."""

    noise_level: ClassVar[str] = "csprng"
    from_zero: ClassVar[bool] = False
    """Whether the statistic of the check may be anything from 0 on."""
    threshold: float
    sigma_check: float
    sigma_answer: float

    def __post_init__(self) -> None:
        set_checked(self, threshold=finite, sigma_check=noise_scale, sigma_answer=noise_scale)

    @property
    def check(self) -> ThresholdCheck:
        """What every query pays."""
        return ThresholdCheck(self.threshold, self.sigma_check, self.from_zero)

    @property
    def answer(self) -> GNMax:
        """What a query that passes pays on top."""
        return GNMax(self.sigma_answer)

    def gaussian_cost(self) -> float | None:
        """mu^2 of one query that is checked and answered: 1/sigma_check^2 + 2/sigma_answer^2."""
        return 1 / self.sigma_check**2 + 2 / self.sigma_answer**2

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case for one query, checked and perhaps answered; needs both sizes of the plan."""
        scales = self.threshold, self.sigma_check, self.sigma_answer
        ends = self.check.range(**sizes)
        return RdpCurve(orders, privacy.confident_rdp_worst(*scales, *ends, orders))

    def _secret_cost(self, answers: Any, top: Integers, orders: ArrayLike) -> RdpCurve:
        votes = self.votes(answers)
        low, high = self.check.range(round(float(votes[0].sum())), votes.shape[1])
        answer = self.answer.secret_cost(answers, orders).values
        check = top, self.threshold, self.sigma_check, answer, orders
        return RdpCurve(orders, privacy.confident_rdp(*check, lowest=low, highest=high))

    def _answered(
        self, votes: NDArray[Any], top: Integers, noise: Noise, max_answers: int | None
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """Return labels (-1 where the check failed) and which rows precede the end of the cap."""
        passed = self.check.passes(top, noise)
        cap = passed.size if max_answers is None else max_answers
        before_cap = np.asarray(np.cumsum(passed) - passed < cap)
        rows = np.nonzero(passed & before_cap)[0]
        labels = np.full(passed.size, NO_ANSWER, dtype=np.int64)
        if rows.size:
            # Fresh noise: bit and label of one noise show more than their two prices add up to.
            labels[rows] = self.answer.labels(votes[rows], noise)
        return labels, before_cap

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the check alone, check and answer in one event, and the answer alone."""
        return self._audit_cases({})

    def _audit_cases(self, student: dict[str, Any]) -> Iterator[Suspicion]:
        small(threshold=self.threshold, sigma_check=self.sigma_check)
        size = max(2, round(self.threshold))
        enough = max(1, math.ceil(self.threshold + _SURELY * self.sigma_check))
        for delta in AUDIT_DELTAS:
            epsilon = guess(self, delta, n_teachers=size, n_classes=2)
            away = cut(1 / self.sigma_check, epsilon)
            votes = max(2, round(self.threshold + away * self.sigma_check))
            rows, failed = ((votes - 1, 1), (votes, 0)), labelled(NO_ANSWER, 1)
            yield one_event("the check", self, rows, failed, delta, **student)
            rows = (size, 0), (size - 1, 1)
            yield one_event("both", self, rows, labelled(0), delta, **student)
            epsilon = guess(self, delta, n_teachers=2 * enough, n_classes=2)
            gap = gap_for(self.sigma_answer, epsilon)
            yield from first_behind("the answer", self, gap, delta, least=enough, **student)


@dataclass(frozen=True, slots=True)
class ConfidentGNMax(_Selective):
    """Answer only where a noisy check finds enough teachers agreeing (PATE 2018, Algorithm 1).

    Parameters
    ----------
    threshold : float
        What the largest count plus noise must reach, in votes.
    sigma_check : float
        Deviation of the noise of the check, which every query pays.
    sigma_answer : float
        Deviation of the noise on each count of an answer.

    Notes
    -----
    If max_j votes_j + N(0, sigma_check^2) >= threshold, release argmax_j votes_j + N(0,
    sigma_answer^2), else -1. Hard votes or `SoftVotes` (maximum rounded half up). The price never
    depends on how many were answered. Unit: whatever a teacher's shard holds the records of.
    Proof: docs/theory/selective.md#check-and-answer-together.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> mechanism = ConfidentGNMax(threshold=40, sigma_check=1, sigma_answer=1)
    >>> mechanism.release([[0, 50, 0], [20, 15, 15]], InsecureNoise(0)).labels.tolist()
    [1, -1]
    """

    name: ClassVar[str] = "confident-gnmax"
    noise_parameter: ClassVar[str] = "sigma_answer"

    def release(self, answers: Any, noise: Noise, *, max_answers: int | None = None) -> Release:
        """Return one label per row, -1 where unanswered; after `max_answers` all are -1.

        Parameters
        ----------
        answers, noise
            Votes (queries, classes) or `SoftVotes`, secret; the noise of an open grant.
        max_answers : int, optional
            Public cap: the first rows that pass are answered, the rest are -1. None is no cap.

        Returns
        -------
        Release
            `labels`; public.
        """
        entry = admit(noise)
        votes = self.votes(answers)
        labels, _ = self._answered(votes, rounded_half_up(votes.max(axis=1)), noise, max_answers)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query, check and possible answer. Secret."""
        top = rounded_half_up(self.votes(answers).max(axis=1))
        return self._secret_cost(answers, top, orders)

    def reading(self) -> VoteReading:
        """Gaussian noise, where a check was passed; public."""
        return VoteReading.gaussian(self.sigma_answer, check=(self.threshold, self.sigma_check))


@dataclass(frozen=True, slots=True)
class InteractiveGNMax(_Selective):
    """Answer where the teachers disagree with the student (PATE 2018, Algorithm 2).

    Parameters
    ----------
    threshold : float
        What the disagreement t plus noise must reach, in votes.
    sigma_check : float
        Deviation of the noise of the check, which every query pays.
    sigma_answer : float
        Deviation of the noise on each count of an answer.
    confidence : float
        The student's largest probability, in (0, 1], above which its own label is used.

    Notes
    -----
    t = floor(max_j(votes_j - n_teachers p_j) + 0.5) for the student's probabilities p. If
    t + N(0, sigma_check^2) >= threshold, release the noisy plurality; else the student's own label
    if its largest probability is > confidence; else -1. The student must come from earlier
    releases only. Half-even rounding would double the sensitivity (erratum to the public code).
    Unit: whatever a teacher's shard holds the records of.
    Proof: docs/theory/selective.md#check-and-answer-together.

    Examples
    --------
    >>> from tacit import InsecureNoise
    >>> mechanism = InteractiveGNMax(threshold=30, sigma_check=1, sigma_answer=1, confidence=0.9)
    >>> student = [[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.4, 0.3, 0.3]]
    >>> votes = [[0, 50, 0], [0, 50, 0], [20, 15, 15]]
    >>> mechanism.release(votes, InsecureNoise(0), student=student).labels.tolist()
    [1, 1, -1]
    """

    name: ClassVar[str] = "interactive-gnmax"
    noise_parameter: ClassVar[str] = "sigma_answer"
    from_zero: ClassVar[bool] = True
    confidence: float

    def __post_init__(self) -> None:
        _Selective.__post_init__(self)
        set_checked(self, confidence=finite)
        if not 0 < self.confidence <= 1:
            raise InvalidArgument(f"Expected confidence={self.confidence!r} to be in (0, 1].")

    def release(
        self, answers: Any, noise: Noise, *, student: Student = None, max_answers: int | None = None
    ) -> Release:
        """Return one label per row; rows after `max_answers` teacher answers are -1.

        Parameters
        ----------
        answers, noise
            Votes (queries, classes) or `SoftVotes`, secret; the noise of an open grant.
        student : array of shape (queries, classes)
            The student's probabilities, required; public, from earlier releases only.
        max_answers : int, optional
            Public cap on the teachers' answers; rows after it are -1. None is no cap.

        Returns
        -------
        Release
            `labels`, -1 where unanswered; public.
        """
        entry = admit(noise)
        votes = self.votes(answers)
        probabilities = student_probabilities(student, votes.shape)
        top = disagreement(votes, probabilities)
        labels, before_cap = self._answered(votes, top, noise, max_answers)
        # From here on only the student and released bits are read, and so nothing more is paid.
        sure = probabilities.max(axis=1) > self.confidence
        own = before_cap & (labels == NO_ANSWER) & sure
        labels[own] = probabilities[own].argmax(axis=1)
        return Release(self, labels=labels, entry=entry, secure=noise.secure)

    def secret_cost(self, answers: Any, orders: ArrayLike, *, student: Student = None) -> RdpCurve:
        """Data-dependent cost of each query given the student. Secret.

        Parameters
        ----------
        answers, orders, student
            Votes, secret; Renyi orders above 1; the student's probabilities, required and public.

        Returns
        -------
        RdpCurve
        """
        votes = self.votes(answers)
        top = disagreement(votes, student_probabilities(student, votes.shape))
        return self._secret_cost(answers, top, orders)

    def reading(self) -> VoteReading:
        """Gaussian noise, or the student's own label: a release does not show which; public."""
        return VoteReading.gaussian(self.sigma_answer, at_most=self.confidence)

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield `ConfidentGNMax`'s cases, with a student that is sure of class 1.

        It disagrees with as many teachers as vote for class 0; its own label shows that the check
        failed.
        """
        return self._audit_cases({"student": (0.0, 1.0)})


def disagreement(votes: NDArray[Any], student: Floats) -> Integers:
    """floor(max_j(votes_j - n_teachers p_j) + 0.5), in [0, n_teachers].

    n_teachers p_j, which is public, is rounded to whole shares of a vote: otherwise votes 1 and 2
    against 0.5 + 2^-53 would give 0 and 2, for the second difference is rounded up to 1.5.
    """
    n_teachers = few_enough(round(float(votes[0].sum())))
    differences = votes - whole_shares_of(n_teachers * student)
    return np.clip(rounded_half_up(differences.max(axis=1)), 0, n_teachers)


def student_probabilities(student: Student, shape: tuple[int, ...]) -> Floats:
    """Validate the student's probabilities: public, one row per query, each row in the simplex.

    Parameters
    ----------
    student : array of shape (queries, classes)
        Probabilities, public.
    shape : tuple of int
        That of the votes.

    Returns
    -------
    array of shape (queries, classes)
        The same, each row divided by its sum.
    """
    if student is None:
        raise InvalidArgument("Expected student= the student's probabilities (queries, classes).")
    array = simplex_rows(student=student)
    if array.shape != shape:
        raise InvalidArgument(f"Expected student of shape {shape}, got {array.shape}.")
    return np.asarray(array / array.sum(axis=1, keepdims=True))
