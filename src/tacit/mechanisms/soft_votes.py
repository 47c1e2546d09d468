"""Soft votes: each teacher gives a probability vector instead of one class.

Replacing one point of the simplex by another moves the sum by L1 <= 2, L2 <= sqrt(2) and each
coordinate by <= 1: the constants of hard votes. That holds only if every teacher's answer lies in
the simplex, so it is enforced here, once, where the answers are summed. Shares are multiples of
2^-32, so that sums are exact: a float64 sum that is off by its last bit could move a rounded
statistic by 2.
Proof: docs/theory/gaussian.md#sensitivities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import number_array, vote_matrix
from tacit.errors import InvalidArgument

_SHARES = 2.0**32
"""A vote is divided into so many shares."""
_MOST_TEACHERS = 2**20
"""Up to here float64 holds every sum of shares exactly."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SoftVotes:
    """Summed probability vectors `(queries, classes)` of `n_teachers` teachers. Secret.

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
    """Sum `(teachers, queries, classes)` scores after bringing each into the simplex.

    Non-finite and negative scores become 0, and each row is divided by its sum; a row without any
    positive score votes the first class. So no teacher, however broken, weighs more than one vote.
    Shares are rounded down to multiples of 2^-32; what is left goes to the teacher's first choice.

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


def hard_or_soft(answers: Any) -> NDArray[Any]:
    """Return votes as an array: validated integers, or the totals of `SoftVotes`."""
    return answers.totals if isinstance(answers, SoftVotes) else vote_matrix(answers)


def rounded_half_up(values: NDArray[Any]) -> NDArray[np.int64]:
    """floor(x + 0.5): keeps |x - y| <= 1 at <= 1; half-to-even does not.

    docs/theory/selective.md#the-noisy-check.
    """
    return np.floor(values + 0.5).astype(np.int64)
