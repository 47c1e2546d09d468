"""Where mechanisms on teachers' votes lose most: two rows of votes that differ in one teacher's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tacit._checks import Integers
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing.cases import (
    AUDIT_DELTAS,
    Look,
    Shift,
    Suspicion,
    cut,
    guess,
    labelled,
)
from tacit.mechanisms.base import NO_ANSWER, Mechanism
from tacit.mechanisms.noisy_max import GNMax, LNMax, NoisyVotes
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.selective import ConfidentGNMax, InteractiveGNMax, ThresholdCheck
from tacit.privacy.auditing import Event

_SURELY = 8.0
"""A check that is so many deviations away passes."""

_MOST_VOTES = 1 << 24

Row = tuple[int, int]


def of_gnmax(mechanism: GNMax) -> Iterator[Suspicion]:
    """Yield a first class that is a little behind: that it wins is a test of the difference."""
    for delta in AUDIT_DELTAS:
        gap = _gap(mechanism.sigma, guess(mechanism, delta))
        yield from _behind("the label", mechanism, gap, 1, delta)


def of_lnmax(mechanism: LNMax) -> Iterator[Suspicion]:
    """Yield a first class some scales behind, where the ratio of Laplace tails is all there is."""
    for delta in AUDIT_DELTAS:
        yield from _behind("the label", mechanism, max(1, round(3 / mechanism.gamma)), 1, delta)


def of_noisy_votes(mechanism: NoisyVotes) -> Iterator[Suspicion]:
    """Yield the difference of two released counts."""
    one = _plan(mechanism, (2, 1))
    shift = Shift((1.0, -1.0), start=-1.0, by=2.0, spread=math.sqrt(2) * mechanism.sigma)
    yield Suspicion("the counts", (2, 1), (1, 2), one, shift.looks(one), _tiled)


def of_threshold_check(mechanism: ThresholdCheck) -> Iterator[Suspicion]:
    """Yield a check that almost always passes, and one that a single vote decides."""
    size = max(2, round(mechanism.threshold))
    for delta in AUDIT_DELTAS:
        away = cut(1 / mechanism.sigma, guess(mechanism, delta, n_teachers=size, n_classes=2))
        for votes in {size, max(2, round(mechanism.threshold + away * mechanism.sigma))}:
            yield _seen("the check", mechanism, (votes - 1, 1), (votes, 0), labelled(0), delta)


def of_selective(mechanism: ConfidentGNMax | InteractiveGNMax) -> Iterator[Suspicion]:
    """Yield the check alone, check and answer in one event, and the answer alone.

    A student that is sure of class 1 disagrees with as many teachers as vote for class 0, and its
    own label says that the check failed.
    """
    interactive = isinstance(mechanism, InteractiveGNMax)
    student: dict[str, Any] = {"student": (0.0, 1.0)} if interactive else {}
    size = max(2, round(mechanism.threshold))
    enough = max(1, math.ceil(mechanism.threshold + _SURELY * mechanism.sigma_check))
    for delta in AUDIT_DELTAS:
        epsilon = guess(mechanism, delta, n_teachers=size, n_classes=2)
        away = cut(1 / mechanism.sigma_check, epsilon)
        votes = max(2, round(mechanism.threshold + away * mechanism.sigma_check))
        rows = (votes - 1, 1), (votes, 0)
        failed = labelled(NO_ANSWER, 1)
        yield _seen("the check", mechanism, *rows, failed, delta, **student)
        rows = (size, 0), (size - 1, 1)
        yield _seen("both", mechanism, *rows, labelled(0), delta, **student)
        epsilon = guess(mechanism, delta, n_teachers=2 * enough, n_classes=2)
        gap = _gap(mechanism.sigma_answer, epsilon)
        yield from _behind("the answer", mechanism, gap, enough, delta, **student)


def _gap(sigma: float, epsilon: float) -> int:
    """How far behind a class is whose win, with noise sigma, is the test for epsilon."""
    spread = math.sqrt(2) * sigma
    return max(1, round(cut(2 / spread, epsilon) * spread))


def _behind(
    what: str, mechanism: Mechanism, gap: int, least: int, delta: float, **student: Any
) -> Iterator[Suspicion]:
    """Yield rows in which class 0 is `gap` votes behind, and two votes less.

    And those where one vote decides: with far too little noise, nothing happens anywhere else.
    """
    for behind in sorted({gap, 1}, reverse=True):
        second, first = (least, least + behind), (least + 1, least + behind - 1)
        yield _seen(what, mechanism, first, second, labelled(0), delta, **student)


def _seen(
    what: str,
    mechanism: Mechanism,
    first: Row,
    second: Row,
    event: Event,
    delta: float,
    **student: Any,
) -> Suspicion:
    """Return one event at one delta; the student, if there is one, says the same of every row."""
    return Suspicion(
        what,
        first,
        second,
        _plan(mechanism, first),
        (Look((event,), delta=delta),),
        _tiled,
        public=lambda trials: {name: _tiled(row, trials) for name, row in student.items()},
    )


def _plan(mechanism: Mechanism, row: Row) -> Plan:
    if sum(row) > _MOST_VOTES:
        raise InvalidArgument(
            f"Expected {mechanism} to need fewer than {_MOST_VOTES} votes for an audit; with so "
            "much noise there is nothing to see."
        )
    return Plan(mechanism, 1, n_teachers=sum(row), n_classes=2)


def _tiled(row: Row, trials: int) -> Integers:
    return np.tile(np.array(row), (trials, 1))
