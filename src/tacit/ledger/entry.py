"""One line of a ledger's chain: what each kind says, and how a line that says less is refused.

release      noise was granted for a plan, and paid for
charge       data went into a protocol in which others draw the noise, and were paid for;
             about {"study": its hash, "entrusted": [who draws]}
publication  a file was published, which costs nothing; about {"sha256": its hash}
began        steps of a release up to this one were begun, which costs nothing;
             about {"entry": the hash of its entry, "steps": their number}

Lines of schema 1 and 2 are releases that say less; they stay as they were written. A line that says
anything that is not listed here was written by a newer tacit, and is refused: what it means for
the total is not known.

**Faults are what was asked for, never what was found.** They are sentences about what no cost
covers ("the set of class labels was read from the private data"), written and hashed with the
entry, because a ledger is public: a fault may follow from arguments alone, and never from a
private row.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tacit._checks import refuse
from tacit.errors import LedgerDamaged, LedgerError

NOISE_LEVELS = ("exact", "csprng", "insecure-seeded")
"""From the strongest to the weakest."""
LINE_SCHEMA = 3
PAID, FREE = ("release", "charge"), ("publication", "began")

_FIRST = {"sequence", "time", "purpose", "plan", "cost", "noise", "library", "previous"}
_THIRD = {"schema", "kind", "confidence_delta", "faults", "priced_by", "totals", "behind", "about"}
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: all of it public.

    `cost` is in the currency of the ledger's accountant, `plan` is `Plan.as_dict()` (empty where
    nothing was planned), `noise` is "exact", "csprng", "insecure-seeded", or "" where the ledger
    granted none, `library` the version of tacit that wrote the entry. `faults` are what no cost
    covers. `priced_by` names the accountant, tacit's version and those of the libraries that
    priced. `behind` is the latest time of the lines before, where the clock said less than that.
    """

    sequence: int
    time: str
    purpose: str
    plan: Mapping[str, Any]
    cost: float
    confidence_delta: float
    noise: str
    library: str
    previous: str
    hash: str
    kind: str = "release"
    faults: tuple[str, ...] = ()
    priced_by: Mapping[str, str] = field(default_factory=dict)
    totals: Mapping[str, str] | None = None
    behind: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_paid(self) -> bool:
        """Whether it is a release or a charge, and not a note that costs nothing."""
        return self.kind in PAID

    @classmethod
    def read(cls, line: Mapping[str, Any], text_hash: str) -> Entry:
        """Read one line of the chain; a line of schema 1 has no confidence delta, so it is 0."""
        third = "schema" in line
        _check_names(line, third)
        entry = cls(
            sequence=line["sequence"],
            time=line["time"],
            purpose=line["purpose"],
            plan=line["plan"],
            cost=line["cost"],
            confidence_delta=line.get("confidence_delta", 0.0),
            noise=line["noise"],
            library=line["library"],
            previous=line["previous"],
            hash=text_hash,
            **({name: line[name] for name in _THIRD if name not in _READ_ABOVE} if third else {}),
        )
        if third:
            object.__setattr__(entry, "faults", _lines(entry.faults, entry.sequence))
        _check(entry, third)
        return entry


_READ_ABOVE = ("schema", "confidence_delta")


def _check_names(line: Mapping[str, Any], third: bool) -> None:
    """Refuse a line that lacks something, and one that says more than this version can read."""
    if third and line["schema"] != LINE_SCHEMA:
        raise _newer(f"a line of schema {line['schema']!r}")
    for name in sorted(_FIRST | _THIRD if third else _FIRST):
        if name not in line:
            raise LedgerDamaged(f"An entry of the ledger lacks {name!r}; restore it.")
    if third and (more := sorted(set(line) - _FIRST - _THIRD)):
        raise _newer(f"a line that says {more[0]!r}")
    if third and line["kind"] not in (*PAID, *FREE):
        raise _newer(f"an entry of kind {line['kind']!r}")


def _newer(what: str) -> LedgerError:
    return LedgerError(
        f"Expected a ledger that this version can read, got {what}; upgrade tacit. What it means "
        "for the total is not known here."
    )


def _lines(faults: Any, sequence: int) -> tuple[str, ...]:
    if not isinstance(faults, list) or not all(isinstance(fault, str) for fault in faults):
        raise LedgerDamaged(f"Entry {sequence} of the ledger has no valid faults.")
    return tuple(faults)


def _check(entry: Entry, third: bool) -> None:
    for what, holds in (
        ("cost", _is_amount(entry.cost) and _is_amount(entry.confidence_delta)),
        ("noise level", _has_noise(entry)),
        ("price of a kind that costs nothing", entry.is_paid or not _costs(entry)),
        ("time", not third or moment(entry.time) is not None),
        ("words", not third or _has_words(entry)),
        ("subject", not third or _is_about(entry)),
    ):
        if not holds:
            raise LedgerDamaged(f"Entry {entry.sequence} of the ledger has no valid {what}.")


def _is_amount(number: Any) -> bool:
    """Tell whether it may be a cost: a negative one would be a refund, which there is never."""
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    return plain and bool(0 <= number <= sys.float_info.max)


def _costs(entry: Entry) -> bool:
    return bool(entry.cost or entry.confidence_delta or entry.plan or entry.priced_by)


def _has_noise(entry: Entry) -> bool:
    if entry.kind == "release":
        return entry.noise in NOISE_LEVELS
    return entry.noise == ""


def _has_words(entry: Entry) -> bool:
    priced = entry.priced_by
    named = {"accountant", "tacit"} if entry.is_paid else set()
    return (
        isinstance(entry.purpose, str)
        and isinstance(entry.plan, dict)
        and isinstance(priced, dict)
        and all(isinstance(word, str) for word in priced.values())
        and named <= set(priced)
        and (entry.behind is None or moment(entry.behind) is not None)
    )


def _is_about(entry: Entry) -> bool:
    about = entry.about
    if not isinstance(about, dict) or set(about) != _ABOUT[entry.kind]:
        return False
    if entry.kind == "charge":
        names = about["entrusted"]
        words = isinstance(names, list) and all(isinstance(name, str) for name in names)
        return words and bool(names) and _is_hash(about["study"])
    if entry.kind == "publication":
        return _is_hash(about["sha256"])
    if entry.kind == "began":
        return _is_hash(about["entry"]) and type(about["steps"]) is int and about["steps"] > 0
    return True


_ABOUT: Mapping[str, set[str]] = {
    "release": set(),
    "charge": {"study", "entrusted"},
    "publication": {"sha256"},
    "began": {"entry", "steps"},
}


def _is_hash(text: Any) -> bool:
    return isinstance(text, str) and _HASH.fullmatch(text) is not None


def moment(text: Any) -> datetime | None:
    """Return the time that a text names, with its zone; None if it names none."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo is not None else None


def clock_went_back(entry: Entry) -> str:
    """Say that an entry was written when the clock named an earlier time than before."""
    return (
        f"when entry {entry.sequence} was written the clock said {entry.time}, and an earlier line "
        f"of the ledger says {entry.behind}: the order of entries holds, their times may not"
    )


def entrusted(entry: Entry) -> str:
    """Say what a charge presumes: the ledger saw no noise, and somebody promised to draw it."""
    names = ", ".join(entry.about["entrusted"])
    return f"{names} drew the noise of entry {entry.sequence} as planned, and kept it"


def one_line(name: str, text: Any, *, may_be_empty: bool = False) -> str:
    """Return the argument, which must be one line of printable text: it is quoted in statements."""
    if not isinstance(text, str) or not text.isprintable() or not (text.strip() or may_be_empty):
        raise refuse(name, text, "one line of text" if may_be_empty else "a non-empty line of text")
    return text


def checked_faults(faults: Any) -> tuple[str, ...]:
    """Return sentences for an entry, each once; the rule of this module says which may be there."""
    if isinstance(faults, str) or not isinstance(faults, list | tuple):
        raise refuse("faults", faults, "a list of sentences")
    return tuple(dict.fromkeys(one_line("faults", fault) for fault in faults))
