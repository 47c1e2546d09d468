"""Where mechanisms that release numbers lose most: what one unit says lies on its bound.

Codes, sums and second moments. What the unit says is far too long, so that the bound itself is
audited: it must have been shortened before it was added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tacit._checks import refuse
from tacit.mechanisms.auditing.cases import MOST, Shift, Suspicion
from tacit.mechanisms.codes import TeacherCodes
from tacit.mechanisms.distributed import DistributedGaussianMean
from tacit.mechanisms.gaussian_mean import GaussianMean, UnitMean
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.repeated import MadeUp, repeated
from tacit.mechanisms.second_moment import NoisySecondMoment
from tacit.mechanisms.summary import Contributions, NoisySum

_WILD = 1e300
_SLOW = 2
"""An exact draw takes about as long as two other numbers."""


def of_gaussian_mean(mechanism: GaussianMean) -> Iterator[Suspicion]:
    """Yield a teacher far on one side, and far on the other."""
    teachers, radius = mechanism.n_teachers, mechanism.radius
    shift = _along(mechanism, -radius / teachers, 2 * radius / teachers, mechanism.sigma)
    yield _codes(mechanism, (_WILD, teachers), (-_WILD, teachers), shift)


def of_unit_mean(mechanism: UnitMean) -> Iterator[Suspicion]:
    """Yield a unit that is there, and one that is not; another one always is."""
    by = mechanism.radius / mechanism.n_teachers
    yield _codes(mechanism, (_WILD, 2), (0.0, 1), _along(mechanism, 0.0, by, mechanism.sigma))


def of_distributed_mean(mechanism: DistributedGaussianMean) -> Iterator[Suspicion]:
    """Yield the same as for `GaussianMean`, with as many teachers missing as may be.

    Only the total is seen: what colluders would tell about their noise is not.
    """
    present = mechanism.n_teachers - mechanism.dropouts
    spread = mechanism.deviation * math.sqrt(present / mechanism.honest) / present
    radius = mechanism.radius
    shift = _along(mechanism, -radius / present, 2 * radius / present, spread)
    sides = (_WILD, mechanism.n_teachers), (-_WILD, mechanism.n_teachers)
    yield _codes(mechanism, *sides, shift, survivors=tuple(range(present)))


def _along(mechanism: Any, start: float, by: float, spread: float) -> Shift:
    """Return a shift of all queries of a bound together."""
    return Shift((mechanism.joint**-0.5,) * mechanism.joint, start, by, spread)


def _codes(
    mechanism: Any, first: tuple[float, int], second: tuple[float, int], shift: Shift, **public: Any
) -> Suspicion:
    """Return what the first teacher says, and how many teachers there are; the others say 0."""
    one, joint = Plan(mechanism, 1), mechanism.joint

    def answers(case: tuple[float, int], trials: int) -> TeacherCodes:
        said, teachers = case

        def part(teacher: int, rows: slice) -> Any:
            return np.full((rows.stop - rows.start, 1), 0.0 if teacher else said)

        return TeacherCodes((teachers, trials * joint, 1), part)

    looks, numbers = shift.looks(one), joint * max(first[1], second[1])
    return Suspicion(
        "the mean", first, second, one, looks, answers, numbers=numbers, public=lambda _: public
    )


def of_noisy_sum(mechanism: NoisySum) -> Iterator[Suspicion]:
    """Yield a table to which one record adds as much everywhere, and an empty one."""
    shape = mechanism.rows, mechanism.columns
    shift = _everywhere(shape, 1.0, mechanism.sigma)
    yield _once("the table", mechanism, _said(1, shape), _said(0, shape), shift)


def _said(n_records: int, shape: tuple[int, int]) -> Contributions:
    def wild(length: int) -> Any:
        return lambda rows: np.full((len(rows), length), _WILD)

    return Contributions(n_records, wild(shape[0]), wild(shape[1]))


def of_noisy_second_moment(mechanism: NoisySecondMoment) -> Iterator[Suspicion]:
    """Yield one record that is as long in every coordinate, and none."""
    size, scale = mechanism.dimension, mechanism.radius**2
    shift = _everywhere((size, size), scale, scale * mechanism.sigma)
    wild = np.full((1, size), _WILD)
    yield _once("the moment", mechanism, wild, wild[:0], shift)


def _everywhere(shape: tuple[int, int], by: float, spread: float) -> Shift:
    """Return a shift of all numbers of a matrix alike, from 0."""
    size = shape[0] * shape[1]
    if size > MOST:
        raise refuse("rows x columns", size, f"at most {MOST} for an audit")
    return Shift((size**-0.5,) * size, 0.0, by, spread)


def _once(what: str, mechanism: Any, first: Any, second: Any, shift: Shift) -> Suspicion:
    one = Plan(mechanism, 1)
    numbers = _SLOW * len(shift.direction)
    return Suspicion(what, first, second, one, shift.looks(one), MadeUp, copies, numbers)


def copies(one: Plan, trials: int) -> Plan:
    """Return the plan of so many copies of what is released once."""
    return Plan(repeated(one.mechanism), trials)
