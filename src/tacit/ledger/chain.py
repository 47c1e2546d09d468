"""The ledger's chain: the content of entries, and the hashes that make a change or a gap visible.

Every entry is a line of canonical JSON with the hash of the line before it; the first names the
hash of the header. A line is verified as it was written: an entry's meaning never changes. The
chain shows an alteration; one that was cut short or rolled back shows only beside a head stored
elsewhere. From schema 3 on, a line also has the totals of all lines up to it, and its kind:

release      noise was granted for a plan, and paid for; about may have {"attempt": random digits
             by which a run finds its own entry again}
charge       data entered a protocol in which others draw the noise, and were paid for;
             about {"study": its hash, "entrusted": [who draws]}
publication  a file was published, at no cost; about {"sha256": its hash}
began        steps of a release up to this one were begun, at no cost;
             about {"entry": the hash of its entry, "steps": their number}
value        what a `Sanitise` released, which its own entry paid for;
             about {"entry": the hash of that entry, "values": the two numbers}
seal         every file that a run publishes, at no cost; about {"run": its id on this ledger,
             "files": SHA-256 by name}. The hash of this line is the run's head; a file that shows
             the head is hashed with its digits as zeros.

Schemas 1 and 2 have releases only. A line with anything else is a newer tacit's, and is refused.

**Faults follow from arguments alone, never from a private row**: sentences about what no cost
covers ("the set of class labels was read from the private data"), hashed with the public entry.

**Sums are exact.** A float64 is a whole number of steps of 2^-1074, so sums are whole numbers,
in any order. As text: "0x…p-57", a hexadecimal whole number times a power of two.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tacit._checks import refuse
from tacit.errors import InvalidArgument, LedgerDamaged, LedgerError


def canonical(value: Any) -> str:
    """Return the canonical JSON text of plain data: sorted keys, no white space, no NaN.

    >>> canonical({"sigma": np.float64(40), "classes": (1, 2)})
    '{"classes":[1,2],"sigma":40.0}'
    """
    return _JSON.encode(value if _is_plain(value) else _plain(value))


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_ATOMS = frozenset({str, int, bool, type(None)})


def _is_plain(value: Any) -> bool:
    """Whether `_plain` would change nothing, as for most lines."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return all(type(key) is str for key in value) and all(map(_is_plain, value.values()))
    return kind in _ATOMS or (kind in (list, tuple) and all(map(_is_plain, value)))


def _plain(value: Any) -> Any:
    """Turn NumPy numbers, arrays, tuples and nested mechanisms into JSON types."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, dict | Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        name = getattr(value, "name", type(value).__name__)
        return {"mechanism": _plain(name), "parameters": _plain(fields)}
    raise InvalidArgument(
        f"Expected every parameter of a plan to be plain data that a ledger can record (finite "
        f"numbers, text, lists), got {type(value).__name__}."
    )


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_json(text: object) -> dict[str, Any]:
    """Read one JSON object of the chain."""
    try:
        line = json.loads(text)  # type: ignore[arg-type]  # anything may stand in a damaged file
    except (TypeError, ValueError):
        line = None
    if not isinstance(text, str) or not isinstance(line, dict):
        raise LedgerDamaged("A line of the ledger is not readable; restore it from a copy.")
    return line


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
    """Return steps as the shortest text of this form, exactly.

    >>> as_text(3 * steps_of(0.25)), float.fromhex("0x3p-2")
    ('0x3p-2', 0.75)
    """
    zeros = (steps & -steps).bit_length() - 1 if steps else _PLACES
    return f"0x{steps >> zeros:x}p{zeros - _PLACES:+d}"


_AMOUNT = re.compile(r"0x([0-9a-f]+)p([+-][0-9]{1,4})")


def steps_in(text: Any) -> int:
    """Return the steps that `as_text` wrote; refuse any other spelling.

    >>> steps_in("0x3p-2") == 3 * steps_of(0.25)
    True
    """
    match = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    zeros = _PLACES + int(match[2]) if match else -1
    steps = int(match[1], 16) << zeros if match and zeros >= 0 else -1
    if steps < 0 or as_text(steps) != text:
        raise LedgerDamaged("A line of the ledger has no valid totals; restore it from a copy.")
    return steps


@dataclass(frozen=True, slots=True)
class Totals:
    """Cost of all lines of a ledger together, in steps of 2^-1074."""

    cost: int = 0
    confidence_delta: int = 0

    def plus(self, cost: float, confidence_delta: float) -> Totals:
        """Return the totals with one line more."""
        return Totals(
            self.cost + steps_of(cost), self.confidence_delta + steps_of(confidence_delta)
        )

    @classmethod
    def read(cls, told: Mapping[str, str]) -> Totals:
        """Read the totals of a line."""
        return cls(steps_in(told["cost"]), steps_in(told["confidence_delta"]))

    def as_dict(self) -> dict[str, str]:
        """Return the totals as a line has them."""
        return {"cost": as_text(self.cost), "confidence_delta": as_text(self.confidence_delta)}


NOISE_LEVELS = ("exact", "csprng", "insecure-seeded")
"""From the strongest to the weakest."""
LINE_SCHEMA = 3
PAID, FREE = ("release", "charge"), ("publication", "began", "value", "seal")
ABOUT_AN_ENTRY = ("began", "value")
"""Notes about a release that stands before them."""

_FIRST = {"sequence", "time", "purpose", "plan", "cost", "noise", "library", "previous"}
_THIRD = {
    *_FIRST,
    *("schema", "kind", "confidence_delta", "faults", "priced_by", "totals", "behind", "about"),
}
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: all of it public.

    Parameters
    ----------
    sequence : int, its number: 1, 2, 3, ...
    time : str
        The computer's clock, unverified, in ISO format with its zone. Notes of begun steps repeat
        the time of the line before: how long the steps took would tell of samples.
    purpose : str, the caller's description, in one line
    plan : mapping, `Plan.as_dict()`; empty where nothing was planned
    cost : float
        In the currency of the ledger's accountant: mu^2, RDP at its order, or epsilon of a list.
    confidence_delta : float, taken from the reserved delta
    noise : str, "exact", "csprng", "insecure-seeded", or "" where the ledger granted none
    library : str, the version of tacit that wrote the entry
    previous : str, hash of the line before; of the header for the first
    hash : str, SHA-256 of this line as it was written
    kind : str, "release" or "charge", which are paid for, or one of `FREE`
    faults : tuple of str
        Caveats that no cost covers. They follow from arguments, never from private rows.
    priced_by : mapping, the accountant, tacit's version and those of the libraries that priced
    totals : mapping, optional
        Exact cost of all lines up to this one; None in lines of schemas 1 and 2.
    behind : str, optional, the latest time of the lines before, where the clock went back
    about : mapping
        Subject of entries other than releases: the hash of a study, file or entry.
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
        """Read one line of the chain and check its values, but not how it continues the chain.

        Parameters
        ----------
        line : mapping
            The line's JSON; one with keys unknown to this version is refused.
        text_hash : str, SHA-256 of its text

        Returns
        -------
        Entry
        """
        third = "schema" in line
        _check_names(line, third)
        told = {name: line[name] for name in (_THIRD if third else _FIRST)}
        told.pop("schema", None)
        told.setdefault("confidence_delta", line.get("confidence_delta", 0.0))
        if third and not _are_words(line["faults"]):
            raise LedgerDamaged(f"Entry {line['sequence']} of the ledger has no valid faults.")
        told["faults"] = tuple(told.get("faults", ()))
        entry = cls(**told, hash=text_hash)
        _check(entry, third)
        return entry


def _check_names(line: Mapping[str, Any], third: bool) -> None:
    """Refuse a line that lacks a key, or has one that this version cannot read."""
    if third and line["schema"] != LINE_SCHEMA:
        raise _newer(f"a line of schema {line['schema']!r}")
    if lacking := (_THIRD if third else _FIRST) - line.keys():
        raise LedgerDamaged(f"An entry of the ledger lacks {min(lacking)!r}; restore it.")
    if third and (more := line.keys() - _THIRD):
        raise _newer(f"a line that says {min(more)!r}")
    if third and line["kind"] not in (*PAID, *FREE):
        raise _newer(f"an entry of kind {line['kind']!r}")


def _newer(what: str) -> LedgerError:
    return LedgerError(
        f"Expected a ledger that this version can read, got {what}; upgrade tacit. What it means "
        "for the total is not known here."
    )


def _check(entry: Entry, third: bool) -> None:
    costs = entry.cost or entry.confidence_delta or entry.plan or entry.priced_by
    levels = NOISE_LEVELS if entry.kind == "release" else ("",)
    for what, holds in (
        ("cost", _is_amount(entry.cost) and _is_amount(entry.confidence_delta)),
        ("noise level", entry.noise in levels),
        ("price of a kind that costs nothing", entry.is_paid or not costs),
        ("time", not third or moment(entry.time) is not None),
        ("words", not third or _has_words(entry)),
        ("subject", not third or _is_about(entry)),
    ):
        if not holds:
            raise LedgerDamaged(f"Entry {entry.sequence} of the ledger has no valid {what}.")


def _is_amount(number: Any) -> bool:
    """Whether it may be a cost: a negative one would be a refund, and there is none."""
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    return plain and bool(0 <= number <= sys.float_info.max)


def _has_words(entry: Entry) -> bool:
    priced = entry.priced_by
    named = {"accountant", "tacit"} if entry.is_paid else set()
    return (
        isinstance(entry.purpose, str)
        and isinstance(entry.plan, dict)
        and isinstance(priced, dict)
        and _are_words(list(priced.values()))
        and named <= set(priced)
        and (entry.behind is None or moment(entry.behind) is not None)
    )


def _is_about(entry: Entry) -> bool:
    about, checks = entry.about, _ABOUT[entry.kind]
    if not isinstance(about, dict) or set(about) not in (set(checks), set(checks) - {"attempt"}):
        return False
    return all(checks[name](told) for name, told in about.items())


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _is_hash(text: Any) -> bool:
    return isinstance(text, str) and _HASH.fullmatch(text) is not None


def _is_pair(values: Any) -> bool:
    return isinstance(values, list) and [type(each) for each in values] == [float, float]


def _are_files(files: Any) -> bool:
    return isinstance(files, dict) and files != {} and all(map(_is_hash, files.values()))


_ABOUT: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "release": {"attempt": _is_hash},
    "charge": {"study": _is_hash, "entrusted": lambda names: _are_words(names) and names != []},
    "publication": {"sha256": _is_hash},
    "began": {"entry": _is_hash, "steps": lambda steps: type(steps) is int and steps > 0},
    "value": {"entry": _is_hash, "values": _is_pair},
    "seal": {"run": lambda run: isinstance(run, str), "files": _are_files},
}


def moment(text: Any) -> datetime | None:
    """Return the time in a text, with its zone; None if there is none."""
    return _moment(text) if isinstance(text, str) else None


@functools.lru_cache(maxsize=8)  # of the last lines, which are compared again and again
def _moment(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def entrusted(entry: Entry) -> str:
    """Describe the assumption of a charge: the ledger saw no noise, others promised to draw it."""
    names = ", ".join(entry.about["entrusted"])
    return f"{names} drew the noise of entry {entry.sequence} as planned, and kept it"


def one_line(name: str, text: Any, *, may_be_empty: bool = False) -> str:
    """Return the argument, which must be one line of printable text: it is quoted in statements."""
    if not isinstance(text, str) or not text.isprintable() or not (text.strip() or may_be_empty):
        raise refuse(name, text, "one line of text" if may_be_empty else "a non-empty line of text")
    return text


def checked_faults(faults: Any) -> tuple[str, ...]:
    """Return the faults of an entry, each once; the module docstring limits what they may hold."""
    if isinstance(faults, str) or not isinstance(faults, list | tuple):
        raise refuse("faults", faults, "a list of sentences")
    return tuple(dict.fromkeys(one_line("faults", fault) for fault in faults))


def checked_hash(**given: Any) -> str:
    """Return the one argument, which must be a SHA-256 in hexadecimal."""
    ((name, text),) = given.items()
    if not _is_hash(text):
        raise refuse(name, text, "a SHA-256: 64 hexadecimal digits")
    return str(text)


def clock() -> datetime:
    """Return the computer's clock, which is unverified."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Chain:
    """A verified ledger: header, its hash, the entries in order, and their totals.

    `latest` is the latest time of any line; `kinds` the kind of each entry by its hash. A chain
    read from its end begins with an entry verified before; `skipped` lines stand before it and are
    in the totals. `n_paid` counts paid entries, None where that is unknown.
    """

    header: Mapping[str, Any]
    genesis: str
    latest: str | None
    entries: list[Entry] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    skipped: int = 0
    n_paid: int | None = 0

    @property
    def length(self) -> int:
        """Number of lines behind the header."""
        return self.skipped + len(self.entries)

    @property
    def head(self) -> str:
        """Hash of the last entry, or of the header if there is none."""
        return self.entries[-1].hash if self.entries else self.genesis

    def holds(self, head: str) -> bool:
        """Whether this hash is the header's or an entry's: the chain once ended there."""
        return head == self.genesis or head in self.kinds

    def behind(self, head: str) -> list[Entry]:
        """Return the entries that follow the one of this hash; all if it is not among them."""
        follow = itertools.takewhile(lambda entry: entry.hash != head, reversed(self.entries))
        return list(follow)[::-1]

    def following(self, line: Mapping[str, Any]) -> str:
        """Return the text of the next entry: numbered, linked to the head, added up, timed."""
        totals = self.totals.plus(line["cost"], line["confidence_delta"])
        now = clock().isoformat(timespec="microseconds")
        if line.get("kind") == "began" and self.latest is not None:
            now = self.latest  # how long steps took depends on who was sampled
        linked = {
            "schema": LINE_SCHEMA,
            "sequence": self.length + 1,
            "previous": self.head,
            "totals": totals.as_dict(),
            "time": now,
            "behind": _behind(now, self.latest),
        }
        return canonical({**line, **linked})

    @classmethod
    def verified(cls, header: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> Chain:
        """Link rows of the store into a chain; raise `LedgerDamaged` where one does not fit.

        The totals come from the hashed text; the columns beside it are for people and must agree.
        """
        terms, genesis = _hashed(header)
        if header["hash"] != genesis or not _columns_agree(header, terms):
            raise LedgerDamaged("The header of the ledger was altered; restore it from a copy.")
        chain = cls(terms, genesis, latest=_later(terms.get("created"), None))
        for row in entries:
            chain.append(row)
        return chain

    def append(self, row: Mapping[str, Any]) -> None:
        """Link one row more, or raise `LedgerDamaged`."""
        place = self.length + 1
        entry = _read_row(row)
        if entry is None or entry.sequence != place or not self.takes(entry):
            raise _broken(place)

    def forget(self, keep: Iterable[str]) -> None:
        """Drop all entries but the last, and all kinds but its own, its subject's and these."""
        last = self.entries[-1]
        self.skipped, self.entries = self.length - 1, [last]
        known = (last.hash, last.about.get("entry"), *keep)
        self.kinds = {each: self.kinds[each] for each in known if each in self.kinds}

    def know(self, row: Mapping[str, Any]) -> None:
        """Take note of an entry that stands before those that were read here."""
        entry = _read_row(row)
        if entry is None:
            raise LedgerDamaged("An entry of the ledger was altered; restore it from a copy.")
        self.kinds[entry.hash] = entry.kind

    def beginning_at(
        self, row: Mapping[str, Any], sequence: int, text_hash: str, paid: int | None = None
    ) -> Chain | None:
        """Return the chain that ends with this row, whose hash was remembered elsewhere.

        Its totals are those of the line, hashed and verified when it was written; None if it has
        none (schemas 1 and 2). `paid` is the remembered number of paid entries.
        """
        entry = _read_row(row)
        if entry is None or (entry.sequence, entry.hash) != (sequence, text_hash):
            raise _broken(sequence)
        if entry.totals is None:
            return None
        return Chain(
            self.header,
            self.genesis,
            latest=entry.behind or entry.time,
            entries=[entry],
            kinds={entry.hash: entry.kind},
            totals=Totals.read(entry.totals),
            skipped=sequence - 1,
            n_paid=paid,
        )

    def takes(self, entry: Entry) -> bool:
        """Add one entry, and return whether it continues the chain."""
        linked = (entry.previous, entry.sequence) == (self.head, self.length + 1)
        self.totals = self.totals.plus(entry.cost, entry.confidence_delta)
        right = linked and self._says_what_is_so(entry)
        self.entries.append(entry)
        self.n_paid = None if self.n_paid is None else self.n_paid + entry.is_paid
        self.kinds[entry.hash] = entry.kind
        self.latest = _later(entry.time, self.latest)
        return right

    def _says_what_is_so(self, entry: Entry) -> bool:
        """Compare with the lines before; older schemas say less, and never after a newer one."""
        if entry.totals is None:
            return not self.entries or self.entries[-1].totals is None
        return (
            entry.totals == self.totals.as_dict()
            and entry.behind == _behind(entry.time, self.latest)
            and (
                entry.kind not in ABOUT_AN_ENTRY
                or self.kinds.get(entry.about["entry"]) == "release"
            )
        )


def _read_row(row: Mapping[str, Any]) -> Entry | None:
    """Read a row of the store; None if its columns contradict its text."""
    line, text_hash = _hashed(row)
    entry = Entry.read(line, text_hash)
    return entry if row["hash"] == text_hash and _columns_agree(row, line) else None


def _broken(place: int) -> LedgerDamaged:
    return LedgerDamaged(
        f"Entry {place} of the ledger does not continue the chain: it was altered, or an entry "
        "before it is missing; restore the ledger from a copy."
    )


def _later(text: Any, latest: str | None) -> str | None:
    """Return the later of two times; a text of an older schema may have none."""
    return latest if moment(text) is None or _behind(text, latest) else text


def _behind(text: str, latest: str | None) -> str | None:
    """Return the latest time before, if this one is earlier: the clock went back."""
    now, then = moment(text), moment(latest)
    return latest if now is not None and then is not None and now < then else None


_UNHASHED = ("payload", "hash", "one")
_UNWRITTEN = {"kind": "release"}


def _hashed(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return read_json(row["payload"]), digest(row["payload"])


def _columns_agree(row: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    """Whether columns agree with the text; absent keys of older schemas have their old meaning."""
    columns = (name for name in row if name not in _UNHASHED)
    return all(row[name] == line.get(name, _UNWRITTEN.get(name, 0.0)) for name in columns)
