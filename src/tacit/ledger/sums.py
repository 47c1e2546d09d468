"""Sums of costs without rounding, and the text in which every line of a ledger carries them.

A float64 is a whole number of steps of 2^-1074, so that sums of floats are whole numbers, too: the
same in every order, and nothing that was spent ever vanishes in them. As text such a sum is
"0x…p-57", a hexadecimal whole number times a power of two, which `float.fromhex` rounds to the
nearest float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_PLACES = 1074
_ONE = 1 << _PLACES


def steps_of(number: float) -> int:
    """Return a finite number in steps of 2^-1074: exactly.

    >>> steps_of(0.5) == 2**1073, steps_of(5e-324)
    (True, 1)
    """
    numerator, denominator = float(number).as_integer_ratio()
    return numerator << (_PLACES + 1 - denominator.bit_length())


def nearest(steps: int) -> float:
    """Return the float that is nearest to so many steps; inf if none is.

    >>> nearest(10 * steps_of(0.1)), sum([0.1] * 10)
    (1.0, 0.9999999999999999)
    """
    try:
        return steps / _ONE
    except OverflowError:
        return math.inf


def at_least(steps: int) -> float:
    """Return the least float that is not below so many steps; inf if none is.

    >>> at_least(10 * steps_of(0.1))
    1.0000000000000002
    """
    near = nearest(steps)
    return math.nextafter(near, math.inf) if exceeds(steps, near) else near


def exceeds(steps: int, limit: float) -> bool:
    """Tell whether so many steps are more than a limit, by however little.

    >>> exceeds(10 * steps_of(0.1), 1.0), exceeds(2 * steps_of(0.5), 1.0)
    (True, False)
    """
    if math.isnan(limit):
        return True  # nothing is within a limit that is no number
    return math.isfinite(limit) and steps > steps_of(limit)


def as_text(steps: int) -> str:
    """Return steps as the shortest text of this form; it says neither more nor less.

    >>> as_text(3 * steps_of(0.25)), float.fromhex("0x3p-2")
    ('0x3p-2', 0.75)
    """
    zeros = (steps & -steps).bit_length() - 1 if steps else _PLACES
    return f"0x{steps >> zeros:x}p{zeros - _PLACES:+d}"


@dataclass(frozen=True, slots=True)
class Totals:
    """What the lines of a ledger cost together, in steps of 2^-1074."""

    cost: int = 0
    confidence_delta: int = 0

    def plus(self, cost: float, confidence_delta: float) -> Totals:
        """Return the totals with one line more."""
        return Totals(
            self.cost + steps_of(cost), self.confidence_delta + steps_of(confidence_delta)
        )

    def as_dict(self) -> dict[str, str]:
        """Return what a line says of them."""
        return {"cost": as_text(self.cost), "confidence_delta": as_text(self.confidence_delta)}
