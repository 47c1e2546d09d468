"""Where mechanisms on neighbours lose most: the nearest unit is there, or it is not.

The unit displaces others who say the opposite. Sampled mechanisms are priced by Renyi divergences
alone, so that those are what is looked at; where everybody takes part, epsilon is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.mechanisms.auditing.cases import (
    AUDIT_DELTAS,
    AUDIT_ORDERS,
    Look,
    Shift,
    Suspicion,
    beyond,
    cut,
    labelled,
)
from tacit.mechanisms.auditing.crowds import World
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.sampled_median import SampledMedian
from tacit.mechanisms.sampled_sums import SampledLabels, SampledMean
from tacit.mechanisms.sampled_votes import SampledMax, SampledVotes
from tacit.mechanisms.screening import NoisyScreening, ScreeningCheck
from tacit.privacy.auditing import Event

_MINE, _SAME, _OTHER = 0, 1, 2
_VOTES = np.array([0, 0, 1])
"""The unit says class 0, and so do some others; the rest say class 1."""
_FINE = 0.01
"""Where everybody takes part, one lead is chosen for the claim at this delta."""
_NEAR = 4.0
"""A lead of more deviations than that is never made up."""
_COMPANY = 64
"""With more others than that, their coins hide what the unit does."""
_SHALLOW = 16.0
"""Log-weights of the median deeper than that are cut off, and tell nothing."""


def of_sampled_max(mechanism: SampledMax) -> Iterator[Suspicion]:
    """Yield a unit that is alone, or that displaces a vote for the class which is ahead."""
    one, votes = _plan(mechanism), mechanism.votes_per_unit
    spread = math.sqrt(2) * mechanism.sigma
    if mechanism.sampling_rate < 1:
        yield _pair("the label, alone", one, World(_VOTES, votes), _at_orders(labelled(0)))
        if mechanism.k <= _NEAR * spread:
            world = World(_VOTES, votes, crowd=_OTHER)
            yield _pair("the label, in a crowd", one, world, _at_orders(labelled(0)))
        return
    gap = cut(2 * votes / spread, one.epsilon(_FINE)) * spread
    for behind in sorted({votes, round(gap)}):
        yield _pair("the label", one, _split(mechanism, behind), _at_deltas(labelled(0)))


def of_sampled_votes(mechanism: SampledVotes) -> Iterator[Suspicion]:
    """Yield the difference of two counts, of which everyone else has filled the second."""
    votes, spread = mechanism.votes_per_unit, math.sqrt(2) * mechanism.sigma
    shift = Shift((1.0, -1.0), -mechanism.k, 2 * votes, spread, mechanism.sampling_rate)
    yield _shifted("the counts", _plan(mechanism), _crowd([0, 0, 1], votes), shift)


def of_sampled_labels(mechanism: SampledLabels) -> Iterator[Suspicion]:
    """Yield a unit that bears half of the labels, among others who bear the other half."""
    half = max(1, math.floor(mechanism.tau) if mechanism.clip == "l1" else math.ceil(mechanism.tau))
    each = mechanism.tau / half
    each = min(1.0, each if mechanism.clip == "l1" else math.sqrt(each))
    mine, other = [1] * half + [0] * half, [0] * half + [1] * half
    world = _crowd([mine, mine, other], mechanism.votes_per_unit)
    shift = Shift(
        (1.0,) * half + (-1.0,) * half,
        start=-mechanism.k * half * each,
        by=2 * half * each * mechanism.votes_per_unit,
        spread=math.sqrt(2 * half) * mechanism.sigma,
        rate=mechanism.sampling_rate,
    )
    yield _shifted("the counts", Plan(mechanism, 1), world, shift, width=2 * half)


def of_sampled_mean(mechanism: SampledMean) -> Iterator[Suspicion]:
    """Yield a unit at one end of the range, among others at the other."""
    low, high, votes = mechanism.low, mechanism.high, mechanism.votes_per_unit
    by = votes * (high - low) / mechanism.k
    shift = Shift((1.0,), low, by, mechanism.sigma, mechanism.sampling_rate)
    yield _shifted("the mean", Plan(mechanism, 1), _crowd([high, high, low], votes), shift)


def of_sampled_median(mechanism: SampledMedian) -> Iterator[Suspicion]:
    """Yield a unit below all points, which moves the balance at the lowest of them.

    Where everybody takes part: from (-2c, 0) at the lower and the upper points to (0, 2c). On a
    sample, from (-k, k) to (-k + 2c, k), while a table of weights reaches that far; else the unit
    is alone, at the lowest point.
    """
    points, votes, k = mechanism.points, mechanism.votes_per_unit, mechanism.k
    lowest = max(1, points.size // 16)
    between = (points[lowest - 1] + points[lowest]) / 2
    above, below = points[-1] + 1, points[0] - 1
    if mechanism.sampling_rate == 1:
        others = (_SAME,) * max(0, k - k // 2 - votes) + (3,) * min(votes, k)
        world = World(np.array([below, below, above, between]), votes, others, _OTHER)
    elif mechanism.epsilon_per_query * k / (4 * votes) < _SHALLOW:
        world = World(np.array([below, below, between]), votes, crowd=_OTHER)
    else:
        lowest, world = 1, World(np.array([points[0]]), votes)
    middle = (points[lowest - 1] + points[lowest]) / 2
    looks, width = _at_orders(beyond((-1.0,), -middle)), math.ceil((points.size + 62) / k)
    yield _pair("the point", Plan(mechanism, 1), world, looks, width)


def of_screening_check(mechanism: ScreeningCheck) -> Iterator[Suspicion]:
    """Yield a check that the unit's votes, or those that it displaces, decide."""
    yield from _checks("the check", mechanism, mechanism.sigma, (labelled(1),))


def of_noisy_screening(mechanism: NoisyScreening) -> Iterator[Suspicion]:
    """Yield what decides the check, and where everybody takes part also what decides the answer."""
    events = labelled(0, 1), labelled(0)
    yield from _checks("check and answer", mechanism, mechanism.sigma_screen, events)
    if mechanism.sampling_rate == 1:
        world, looks = _split(mechanism, mechanism.votes_per_unit), _at_deltas(*events)
        yield _pair("the answer", _plan(mechanism), world, looks)


def _checks(
    what: str, mechanism: ScreeningCheck | NoisyScreening, sigma: float, events: tuple[Event, ...]
) -> Iterator[Suspicion]:
    one, votes = _plan(mechanism), mechanism.votes_per_unit
    if mechanism.sampling_rate < 1:
        yield _pair(f"{what}, alone", one, World(_VOTES, votes), _at_orders(*events))
        yield _pair(f"{what}, in a crowd", one, _crowd(_VOTES, votes), _at_orders(*events))
        company = round((mechanism.threshold - votes / 2) / mechanism.sampling_rate)
        if 0 < company <= _COMPANY:
            world = World(_VOTES, votes, (_SAME,) * company)
            yield _pair(f"{what}, in company", one, world, _at_orders(*events))
        return
    away = cut(votes / sigma, one.epsilon(_FINE)) * sigma
    tops = {round(mechanism.threshold - each) for each in (votes, away)}
    for top in sorted({min(max(0, top), mechanism.k - votes) for top in tops}):
        yield _pair(what, one, World(_VOTES, votes, (_SAME,) * top), _at_deltas(*events))


def _split(mechanism: SampledMax | NoisyScreening, behind: int) -> World:
    """Return a world of everyone in which class 0 is about so many votes behind."""
    votes, k = mechanism.votes_per_unit, mechanism.k
    same = min(max(0, (k - behind) // 2), k - votes)
    return World(_VOTES, votes, (_SAME,) * same, _OTHER)


def _crowd(targets: ArrayLike, votes: int) -> World:
    """Return a world in which everybody else says the opposite of the unit."""
    return World(np.asarray(targets), votes, crowd=_OTHER)


def _pair(what: str, one: Plan, world: World, looks: tuple[Look, ...], width: int = 1) -> Suspicion:
    """Return that world with its unit and without."""
    mechanism: Any = one.mechanism
    alone = replace(world, unit=False)
    return Suspicion(
        what, world, alone, one, looks, World.around, numbers=world.work(mechanism.k) * width
    )


def _shifted(what: str, one: Plan, world: World, shift: Shift, width: int = 1) -> Suspicion:
    return _pair(what, one, world, shift.looks(one), width)


def _plan(mechanism: Mechanism) -> Plan:
    return Plan(mechanism, 1, n_classes=2)


def _at_deltas(*events: Event) -> tuple[Look, ...]:
    return tuple(Look(events, delta=delta) for delta in AUDIT_DELTAS)


def _at_orders(*events: Event) -> tuple[Look, ...]:
    return tuple(Look(events, order=order) for order in AUDIT_ORDERS)
