"""Every sentence by which a statement, a report or a command warns of what a ledger holds.

Seeded noise, a delta that is too large or was not compared, the faults that entries confess, an
epsilon that protects little, and a clock that went back. All of it follows from public terms and
entries, so that a ledger says it for ever, whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context

from tacit.ledger.chain import Entry
from tacit.ledger.terms import Terms

LARGE_DELTA = (
    "delta was not compared with the number of units (allow_large_delta=True): if it is one over "
    "that number or more, it allows one unit to be published in full"
)
PROTECTS_LITTLE = 10.0
"""From this epsilon on every statement says what it allows. A convention: no number is safe below.

At 10, what somebody believes of one person may become 22,027 times as likely, in odds.
"""

_MOST_WRITTEN = 25.0
_ROOM = 1 + 1e-12
"""What rounding may take from an exponential or a product."""


def warnings_of(terms: Terms, entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return what every statement of a ledger says for ever, each sentence once."""
    entries = tuple(entries)
    levels = [entry.noise for entry in entries if entry.noise]
    warnings = []
    if insecure := levels.count("insecure-seeded"):
        warnings.append(
            f"{insecure} of {len(levels)} entries used seeded noise and are not private"
        )
    if terms.large_delta:
        warnings.append(
            f"delta is at least 1/{terms.n_units}, one over the number of units; this was allowed "
            "on purpose, and permits one unit to be published in full"
        )
    elif terms.allow_large_delta and terms.n_units is None:
        warnings.append(LARGE_DELTA)
    faults = (fault for entry in entries for fault in entry.faults)
    return tuple(dict.fromkeys([*warnings, *faults]))


def clock_went_back(entry: Entry) -> str:
    """Say that an entry was written when the clock named an earlier time than before."""
    return (
        f"when entry {entry.sequence} was written the clock said {entry.time}, and an earlier line "
        f"of the ledger says {entry.behind}: the order of entries holds, their times may not"
    )


def epsilon_text(epsilon: float | None) -> str:
    """Print four digits, never less than the number itself.

    Parameters
    ----------
    epsilon : float, optional
        At least 0; None counts as 0.

    Returns
    -------
    str
        Rounded up, so that what is printed never claims more privacy than was proved.

    Examples
    --------
    >>> epsilon_text(1.43111), epsilon_text(2.6), epsilon_text(0.0)
    ('1.432', '2.6', '0')
    """
    rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(epsilon or 0.0))
    return f"{float(rounded):.4g}"


def protects_little(epsilon: float, unit: str) -> str:
    """Say in plain words what a large epsilon allows.

    >>> protects_little(10.0, "person")
    'epsilon = 10 protects little: it allows the odds of any guess about one person to become \
22,027 times as high, or as low (e^epsilon)'
    """
    return (
        f"epsilon = {epsilon_text(epsilon)} protects little: it allows the odds of any guess about "
        f"one {unit} to become {_odds(epsilon)} times as high, or as low (e^epsilon)"
    )


def _odds(epsilon: float) -> str:
    """Print e^epsilon, never less than it is, and without ever computing a large one.

    >>> _odds(10.0), _odds(1e6), _odds(1e300)
    ('22,027', '10^434,295', '10^4.343e+299')
    """
    if epsilon < _MOST_WRITTEN:
        return f"{math.ceil(math.exp(epsilon) * _ROOM):,}"
    exponent = epsilon * math.log10(math.e) * _ROOM
    return f"10^{math.ceil(exponent):,}" if exponent < 1e15 else f"10^{epsilon_text(exponent)}"
