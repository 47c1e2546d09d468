"""Epsilon and delta in words and numbers for people; nothing is rounded to less."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

_MOST_WRITTEN = 25.0
_WHOLE = 100.0
_SMALL, _TINY = 0.1, 1e-15
_CERTAIN = 9.3  # from here on less than 1 in 10,000 is left
_ROOM = 1 + 1e-12
"""What rounding may take from an exponential or a product."""


def epsilon_text(epsilon: float | None) -> str:
    """Format epsilon with four digits, rounded up: never more privacy than was proved.

    Parameters
    ----------
    epsilon : float, optional, at least 0; None counts as 0

    Returns
    -------
    str

    Examples
    --------
    >>> epsilon_text(1.43111), epsilon_text(2.6), epsilon_text(0.0)
    ('1.432', '2.6', '0')
    """
    rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(epsilon or 0.0))
    return f"{float(rounded):.4g}"


def odds_text(epsilon: float) -> str:
    """Format e^epsilon, rounded up to three digits or the whole number, without overflow.

    Parameters
    ----------
    epsilon : float >= 0

    Returns
    -------
    str

    Examples
    --------
    >>> odds_text(0.0), odds_text(1.0), odds_text(2.0), odds_text(10.0)
    ('1', '2.72', '7.39', '22,027')
    >>> odds_text(1e6), odds_text(1e300)
    ('10^434,295', '10^4.343e+299')
    """
    if epsilon < _MOST_WRITTEN:
        odds = math.exp(epsilon) * (_ROOM if epsilon else 1.0)
        if odds < _WHOLE:
            rounded = Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(odds))
            return f"{float(rounded):g}"
        return f"{math.ceil(odds):,}"
    exponent = epsilon * math.log10(math.e) * _ROOM
    return f"10^{math.ceil(exponent):,}" if exponent < 1e15 else f"10^{epsilon_text(exponent)}"


def one_in(delta: float) -> str:
    """Format a small probability as "1 in ...", rounded up; a large one as a number.

    >>> one_in(1e-05), one_in(3e-6), one_in(0.5)
    ('1 in 100,000', '1 in 333,333', '0.5')
    """
    if delta > _SMALL or delta < _TINY:
        return repr(delta)
    return f"1 in {math.floor(_ROOM / delta):,}"


def meaning(epsilon: float, delta: float, unit: str) -> str:
    """Say what (epsilon, delta) allows whoever sees all that was released, in three sentences.

    Exactly the definition, P(S) <= e^epsilon P'(S) + delta for every outcome S. That the first
    bound fails only with probability delta would be more than it says.

    Parameters
    ----------
    epsilon, delta : float
    unit : str, whose privacy: "record", "person"

    Returns
    -------
    str

    Examples
    --------
    >>> print(meaning(1.0, 1e-5, "person"))
    Whoever sees everything that was released, and knows every other person, can raise or lower \
the odds of any guess about one person at most 2.72 times (e^epsilon). A guess that was as likely \
as not, 50 %, becomes at most 73.2 % likely, at least 26.8 %. What goes beyond that adds at most \
delta, 1 in 100,000, to the probability of any outcome.
    """
    return (
        f"Whoever sees everything that was released, and knows every other {unit}, can raise or "
        f"lower the odds of any guess about one {unit} at most {odds_text(epsilon)} times "
        f"(e^epsilon). A guess that was as likely as not, 50 %, becomes {_at_most(epsilon)}. What "
        f"goes beyond that adds at most delta, {one_in(delta)}, to the probability of any outcome."
    )


def _at_most(epsilon: float) -> str:
    """Describe how far a 50 % prior can move."""
    if epsilon > _CERTAIN:
        return "certain, or impossible, but for less than 1 in 10,000"
    left = 100 / (1 + math.exp(epsilon) * (_ROOM if epsilon else 1.0))
    least = Context(prec=3, rounding=ROUND_FLOOR).create_decimal(repr(left)).normalize()
    return f"at most {100 - least:f} % likely, at least {least:f} %"
