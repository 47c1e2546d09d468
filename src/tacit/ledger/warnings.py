"""Every warning that a statement, a report or a command derives from a ledger.

Seeded noise, a delta that is too large or was not compared, faults of entries, a large epsilon,
and a clock that went back. All follow from public terms and entries.
"""

from __future__ import annotations

from tacit.ledger.chain import Entry
from tacit.ledger.plain_words import epsilon_text, odds_text
from tacit.ledger.tally import Tally
from tacit.ledger.terms import Terms

LARGE_DELTA = (
    "delta was not compared with the number of units (allow_large_delta=True): if it is one over "
    "that number or more, it allows one unit to be published in full"
)
ONE_RUN = (
    "this covers one run or fit alone: every other one on the same data adds to it, as those of a "
    "grid search do, unless they share one ledger (ledger=, or ledger in [privacy])"
)
"""Said first, of a ledger that a run or a fit made for itself."""
PROTECTS_LITTLE = 10.0
"""From this epsilon on every statement says what it allows. A convention: no number is safe below.

At 10, what somebody believes of one person may become 22,027 times as likely, in odds.
"""


def warnings_of(terms: Terms, tally: Tally) -> tuple[str, ...]:
    """Return the permanent warnings of a ledger's statements, each sentence once."""
    warnings = []
    if tally.seeded:
        warnings.append(
            f"{tally.seeded} of {tally.noisy} entries used seeded noise and are not private"
        )
    if terms.large_delta:
        warnings.append(
            f"delta is at least 1/{terms.n_units}, one over the number of units; this was allowed "
            "on purpose, and permits one unit to be published in full"
        )
    elif terms.allow_large_delta and terms.n_units is None:
        warnings.append(LARGE_DELTA)
    first = [ONE_RUN] if ONE_RUN in tally.faults else []
    return tuple(dict.fromkeys([*first, *warnings, *tally.faults]))


def clock_went_back(entry: Entry) -> str:
    """Say that an entry was written when the clock named an earlier time than before."""
    return (
        f"when entry {entry.sequence} was written the clock said {entry.time}, and an earlier line "
        f"of the ledger says {entry.behind}: the order of entries holds, their times may not"
    )


def protects_little(epsilon: float, unit: str) -> str:
    """Say in plain words what a large epsilon allows.

    >>> protects_little(10.0, "person")
    'epsilon = 10 protects little: it allows the odds of any guess about one person to become \
22,027 times as high, or as low (e^epsilon)'
    """
    return (
        f"epsilon = {epsilon_text(epsilon)} protects little: it allows the odds of any guess about "
        f"one {unit} to become {odds_text(epsilon)} times as high, or as low (e^epsilon)"
    )
