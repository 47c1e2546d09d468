"""What mechanisms on vote histograms share: answers, how a student reads a release, audit cases.

Votes are an integer array `(queries, classes)`, how many teachers chose each class. Neighbours of a
histogram differ in one teacher's vote: one count is one less, another one more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from tacit._checks import Floats, Integers, at_least, vote_matrix
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Look, Suspicion, cut, labelled
from tacit.mechanisms.base import BLOCK, Mechanism
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.soft_votes import hard_or_soft
from tacit.privacy import RdpCurve
from tacit.privacy.auditing import Event

ONE_TEACHER = "each unit's records reached one teacher only, whoever else is in the data"
_MOST_VOTES = 1 << 24
_LEVELS = 1 << 14

Row = tuple[int, int]


@dataclass(frozen=True, slots=True)
class VoteReading:
    """How a student reads a release of classes or of their votes. All of it is public.

    quantile, below: inverse and distribution function of the noise on one count.
    sigma: the deviation of that noise if it is Gaussian, which decoding a histogram needs.
    check: threshold and deviation of a noisy check that every answered query has passed.
    at_most: a label is right with no more than this probability, whatever the noise.

    >>> VoteReading.gaussian(2.0).below(np.array([0.0])).tolist()
    [0.5]
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
        """Return the reading of Gaussian noise."""
        return cls(
            lambda levels: np.asarray(sigma * ndtri(levels)),
            lambda x: np.asarray(ndtr(x / sigma)),
            sigma,
            check,
            at_most,
        )

    @classmethod
    def laplace(cls, scale: float) -> VoteReading:
        """Return the reading of Laplace noise."""

        def quantile(levels: Floats) -> Floats:
            side = np.minimum(levels, 1 - levels)
            return np.asarray(scale * np.sign(0.5 - levels) * np.log(2 * side))

        def below(x: Floats) -> Floats:
            tail = 0.5 * np.exp(-np.abs(x) / scale)
            return np.where(x < 0, tail, 1 - tail)

        return cls(quantile, below)

    def ahead(self, gap: float) -> float:
        """P(a count that is `gap` votes ahead of another is still ahead with noise on both)."""
        if self.sigma is not None:
            return float(ndtr(gap / (math.sqrt(2) * self.sigma)))
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        return float(self.below(gap + self.quantile(levels)).mean())

    def passing(self, n_teachers: int, agreements: Floats) -> Floats:
        """P(the right count + the noise of the check >= threshold) for each agreement."""
        threshold, sigma = self.check or (-math.inf, 1.0)
        variance = n_teachers * agreements * (1 - agreements) + sigma**2
        return np.asarray(ndtr((n_teachers * agreements - threshold) / np.sqrt(variance)))


class VoteMechanism(Mechanism):
    """What mechanisms on vote histograms share: rows, classes and teachers must match the plan."""

    __slots__ = ()
    assumes: ClassVar[str] = ONE_TEACHER

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each query, unless a mechanism knows how votes lower it."""
        one = self.cost(orders)
        return RdpCurve(one.orders, np.tile(one.values, (self.votes(answers).shape[0], 1)))

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
        """Return the answers as votes: integers, or `SoftVotes` where the mechanism allows them."""
        return vote_matrix(answers)


class SoftVoteMechanism(VoteMechanism):
    """One whose price holds for `SoftVotes` as well: no vote moves a count by more than 1."""

    __slots__ = ()

    def votes(self, answers: Any) -> NDArray[Any]:
        """Return hard or soft votes."""
        return hard_or_soft(answers)


def count_votes(predictions: ArrayLike, n_classes: int) -> Integers:
    """Count predictions `(teachers, queries)` into votes `(queries, classes)`.

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
    # As many queries at a time as keep indices and counts in the processor's cache.
    step = max(1, min(array.shape[1], BLOCK // (4 * n_classes)))
    bins = np.empty(max(step, BLOCK), dtype=np.intp)
    for start in range(0, array.shape[1], step):
        rows = slice(start, start + step)
        votes[rows] = _count_block(array[:, rows], n_classes, bins)
    return votes


def _count_block(predictions: NDArray[Any], n_classes: int, bins: NDArray[np.intp]) -> Integers:
    """Count a few queries, as many teachers at a time as `bins` holds: one bin a (query, class)."""
    n_teachers, n_queries = predictions.shape
    first_bin = np.arange(n_queries) * n_classes
    counts = np.zeros(n_queries * n_classes, dtype=np.int64)
    step = bins.size // n_queries
    for start in range(0, n_teachers, step):
        part = predictions[start : start + step]
        taken = bins[: part.size].reshape(part.shape)
        # Every prediction is known to be a class, so that the cast is safe, even from uint64.
        np.add(part, first_bin, out=taken, dtype=np.intp, casting="unsafe")
        counts += np.bincount(taken.reshape(-1), minlength=counts.size)
    return counts.reshape(n_queries, n_classes)


def first_behind(
    what: str, mechanism: Mechanism, gap: int, delta: float, *, least: int = 1, **student: Any
) -> Iterator[Suspicion]:
    """Yield rows of votes in which class 0 is `gap` votes behind, and two votes less.

    And those where one vote decides: with far too little noise, nothing happens anywhere else.
    """
    for behind in sorted({gap, 1}, reverse=True):
        second, first = (least, least + behind), (least + 1, least + behind - 1)
        yield one_event(what, mechanism, (first, second), labelled(0), delta, **student)


def one_event(
    what: str,
    mechanism: Mechanism,
    rows: tuple[Row, Row],
    event: Event,
    delta: float,
    **student: Any,
) -> Suspicion:
    """Return one event at one delta; the student, if there is one, says the same of every row."""
    return Suspicion(
        what,
        *rows,
        plan_of_row(mechanism, rows[0]),
        (Look((event,), delta=delta),),
        tiled,
        public=lambda trials: {name: tiled(row, trials) for name, row in student.items()},
    )


def gap_for(sigma: float, epsilon: float) -> int:
    """How far behind a class is whose win, with noise sigma, is the test for epsilon."""
    spread = math.sqrt(2) * sigma
    return max(1, round(cut(2 / spread, epsilon) * spread))


def plan_of_row(mechanism: Mechanism, row: Row) -> Plan:
    """Return the plan of one release of these votes."""
    if sum(row) > _MOST_VOTES:
        raise InvalidArgument(
            f"Expected {mechanism} to need fewer than {_MOST_VOTES} votes for an audit; with so "
            "much noise there is nothing to see."
        )
    return Plan(mechanism, 1, n_teachers=sum(row), n_classes=2)


def tiled(row: Row, trials: int) -> Integers:
    """Return the same row of votes, or of a student, for every query."""
    return np.tile(np.array(row), (trials, 1))
