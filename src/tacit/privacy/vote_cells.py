"""The worst vote of a noisy check among very many, bounded by cells of neighbouring votes.

Only cells that may hold the worst vote are cut further: the result is never below the maximum over
all t in lowest..highest, and at most 1/1000 above it.
Proof: docs/theory/private-knn.md#very-many-neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from tacit._checks import Floats, Integers
from tacit.privacy.mixtures import log_excess, log_expm1, log_mixed_ratio

_WITHIN = 1e-3
_NEXT_TO_NOTHING = 2.0**-100  # what is added where the maximum is less than that
_ROUNDING = 1 + 1e-9
_CELLS, _PIECES, _LOOKS = 32, 8, 3
_FEW_VOTES = 1_000


class Check(NamedTuple):
    """A noisy check: of t in lowest..highest, which a unit moves by `reach`, if it is sampled."""

    threshold: float
    sigma: float
    lowest: int
    highest: int
    rate: float = 1.0
    reach: int = 1

    @property
    def has_many_votes(self) -> bool:
        """Whether cells are quicker than enumerating each t."""
        return self.highest - self.lowest >= max(_FEW_VOTES, 8 * self.reach)


class _Cells(NamedTuple):
    """Cells of neighbouring t, each at one order: order index, first and last t, and move."""

    place: Integers
    first: Integers
    last: Integers
    move: Integers

    def where(self, mask: Floats) -> _Cells:
        return _Cells(*(column[mask] for column in self))


def largest_check_rdp(check: Check, orders: Floats, answer_rdp: Floats) -> Floats:
    """Bound D_a between a check's bit and its mixture over every t; a pass adds `answer_rdp`."""
    best, certain = np.zeros(orders.size), np.zeros(orders.size)
    cells, looks = _first_cells(check, orders.size), _LOOKS
    while cells.place.size:
        if looks > 0:  # later ones would find hardly more
            middle = (cells.first + cells.last) // 2
            found = _bound(check, cells._replace(first=middle, last=middle), orders, answer_rdp)
            np.maximum.at(best, cells.place, found)
            looks -= 1
        single = cells.first == cells.last
        bound = _bound(check, cells, orders, answer_rdp) * np.where(single, 1.0, _ROUNDING)
        np.maximum.at(best, cells.place[single], bound[single])
        # What is no number is closed as well: it stays in the result, and nobody takes that.
        closed = single | ~(bound > best[cells.place] * (1 + _WITHIN) + _NEXT_TO_NOTHING)
        np.maximum.at(certain, cells.place[closed], bound[closed])
        cells = _cut(cells.where(~closed))
    return np.maximum(best, certain)


def _first_cells(check: Check, orders: int) -> _Cells:
    """Cells of every t that moves by the whole reach: moves stopped at an end cost no more."""
    low, high = check.lowest + check.reach, check.highest - check.reach
    parts = []
    for move, start, end in (
        (check.reach, check.lowest, high + 1),
        (-check.reach, low, check.highest + 1),
    )[: 1 if check.rate == 1 else 2]:
        edges = np.unique(np.linspace(start, end, _CELLS + 1).astype(np.int64))
        parts.append((edges[:-1], edges[1:] - 1, np.full(edges.size - 1, move)))
    first, last, moves = (np.concatenate(column) for column in zip(*parts, strict=True))
    place = np.repeat(np.arange(orders), first.size)
    return _Cells(place, *(np.tile(column, orders) for column in (first, last, moves)))


def _cut(cells: _Cells) -> _Cells:
    """Cut each cell into pieces, none of them empty."""
    width = cells.last - cells.first + 1
    edges = cells.first[:, None] + width[:, None] * np.arange(_PIECES + 1) // _PIECES
    first, last = edges[:, :-1], edges[:, 1:] - 1
    some = first <= last
    place, move = (
        np.broadcast_to(column[:, None], some.shape)[some] for column in (cells.place, cells.move)
    )
    return _Cells(place, first[some], last[some], move)


def _bound(check: Check, cells: _Cells, orders: Floats, answer_rdp: Floats) -> Floats:
    """Bound D_a over each cell by the chances and ratios of both outcomes where each is largest."""
    a, extra = orders[cells.place], answer_rdp[cells.place]
    yes_first, no_first, shifts_first = _outcomes(check, cells.first, cells.move)
    r_first = [log_mixed_ratio(check.rate, shift) for shift in shifts_first]
    yes_last, shifts_last, r_last = yes_first, shifts_first, r_first
    if cells.last is not cells.first:
        yes_last, _, shifts_last = _outcomes(check, cells.last, cells.move)
        r_last = [log_mixed_ratio(check.rate, shift) for shift in shifts_last]
    with np.errstate(over="ignore"):
        ahead = [check.rate * np.expm1(shift) for shift in (shifts_first[0], shifts_last[1])]
        back = [np.expm1(-ratio) for ratio in (r_first[0], r_last[1])]
    growth = log_expm1((a - 1) * extra)
    result = np.zeros(a.size)
    for sign, t, (pass_chance, fail_chance) in (
        (1, ahead, (yes_last, no_first)),
        (-1, back, (yes_last + r_last[0], no_first + r_first[1])),
    ):
        passes = pass_chance + log_excess(a, sign * r_first[0], t[0])
        fails = fail_chance + log_excess(a, sign * r_last[1], t[1])
        most = np.maximum(sign * r_first[0], sign * r_last[0])
        logs = np.logaddexp(np.logaddexp(passes, fails), pass_chance + a * most + growth)
        result = np.maximum(result, np.logaddexp(0.0, logs) / (a - 1))
    return result


def _outcomes(check: Check, t: Integers, move: Integers) -> tuple[Floats, Floats, list[Floats]]:
    """Return the logs of the chances of both outcomes, and by how much the move changes them."""
    score, other = ((each - check.threshold) / check.sigma for each in (t, t + move))
    yes, no = log_ndtr(score), log_ndtr(-score)
    return yes, no, [log_ndtr(other) - yes, log_ndtr(-other) - no]
