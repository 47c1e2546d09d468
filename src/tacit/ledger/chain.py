"""The ledger's chain: what an entry says, and the hashes that make a change or a gap visible.

Every entry is a line of canonical JSON that names the hash of the line before it; the first names
the hash of the header. A line is kept and verified as it was written, whatever later versions
write ("an entry's meaning never changes"). The chain shows an alteration; a chain that was cut
short or rolled back is still a chain, and only a head remembered elsewhere shows that. From schema
3 on, a line also carries the totals of all lines up to it, so that it can be read by itself.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tacit.errors import InvalidArgument, LedgerDamaged
from tacit.ledger.entry import LINE_SCHEMA, Entry, moment
from tacit.ledger.sums import Totals


def canonical(value: Any) -> str:
    """Return the one JSON text of plain data: sorted keys, no white space, no NaN.

    >>> canonical({"sigma": np.float64(40), "classes": (1, 2)})
    '{"classes":[1,2],"sigma":40.0}'
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """Turn NumPy numbers, arrays, tuples and nested mechanisms into what JSON knows."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_dataclass(value)
    raise InvalidArgument(
        f"Expected every parameter of a plan to be plain data that a ledger can record (finite "
        f"numbers, text, lists), got {type(value).__name__}."
    )


def _plain_dataclass(value: Any) -> dict[str, Any]:
    parameters = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    name = getattr(value, "name", type(value).__name__)
    return {"mechanism": _plain(name), "parameters": _plain(parameters)}


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


def clock() -> datetime:
    """Return what the computer's clock says: nobody vouches for it."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Chain:
    """A verified ledger: header, its hash, the entries in order, and what they add up to.

    `latest` is the latest time that a line names: a clock that goes back does not move it.
    """

    header: Mapping[str, Any]
    genesis: str
    entries: tuple[Entry, ...] = ()
    totals: Totals = field(default_factory=Totals)
    latest: str | None = None

    @property
    def head(self) -> str:
        """Hash of the last entry, or of the header if there is none."""
        return self.entries[-1].hash if self.entries else self.genesis

    @property
    def paid(self) -> tuple[Entry, ...]:
        """The entries that were paid for."""
        return tuple(entry for entry in self.entries if entry.is_paid)

    def holds(self, head: str) -> bool:
        """Tell whether this hash is the header's or an entry's: the chain once ended there."""
        return head == self.genesis or any(entry.hash == head for entry in self.entries)

    def following(self, line: Mapping[str, Any]) -> str:
        """Return the text of the next entry: numbered, linked to the head, added up, timed."""
        totals = self.totals.plus(line["cost"], line["confidence_delta"])
        now = clock().isoformat(timespec="microseconds")
        linked = {
            "schema": LINE_SCHEMA,
            "sequence": len(self.entries) + 1,
            "previous": self.head,
            "totals": totals.as_dict(),
            "time": now,
            "behind": _behind(now, self.latest),
        }
        return canonical({**line, **linked})

    @classmethod
    def verified(cls, header: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> Chain:
        """Link rows of the store into a chain; raise `LedgerDamaged` where one does not fit.

        The totals come from the hashed text; the columns beside it are for people with a database
        browser, and must not say anything else.
        """
        terms, genesis = _hashed(header)
        if header["hash"] != genesis or not _columns_agree(header, terms):
            raise LedgerDamaged("The header of the ledger was altered; restore it from a copy.")
        linked: list[Entry] = []
        tail = _Tail(genesis, latest=_later(terms.get("created"), None))
        for place, row in enumerate(entries, start=1):
            line, text_hash = _hashed(row)
            entry = Entry.read(line, text_hash)
            stated = (row["hash"], row["sequence"])
            if (
                stated != (text_hash, place)
                or not _columns_agree(row, line)
                or not tail.takes(entry)
            ):
                raise LedgerDamaged(
                    f"Entry {place} of the ledger does not continue the chain: it was altered, or "
                    "an entry before it is missing; restore the ledger from a copy."
                )
            linked.append(entry)
        return cls(terms, genesis, tuple(linked), tail.totals, tail.latest)

    def admits(self, entry: Entry) -> bool:
        """Tell whether an entry continues this chain: asked before it is written."""
        kinds = {each.hash: each.kind for each in self.entries}
        add_up = bool(self.entries) and self.entries[-1].totals is not None
        count = len(self.entries)
        return _Tail(self.head, count, self.totals, self.latest, add_up, kinds).takes(entry)


@dataclass(slots=True)
class _Tail:
    """The end of a chain that is being read: what the next line must say of the lines before."""

    head: str
    count: int = 0
    totals: Totals = field(default_factory=Totals)
    latest: str | None = None
    add_up: bool = False
    kinds: dict[str, str] = field(default_factory=dict)

    def takes(self, entry: Entry) -> bool:
        """Take one entry more, and tell whether it continues the chain."""
        linked = (entry.previous, entry.sequence) == (self.head, self.count + 1)
        self.totals = self.totals.plus(entry.cost, entry.confidence_delta)
        right = linked and self._says_what_is_so(entry)
        self.head, self.count = entry.hash, self.count + 1
        self.latest = _later(entry.time, self.latest)
        self.add_up = entry.totals is not None
        self.kinds[entry.hash] = entry.kind
        return right

    def _says_what_is_so(self, entry: Entry) -> bool:
        """Compare with the lines before; older schemas say less, and never after a newer one."""
        if entry.totals is None:
            return not self.add_up
        return (
            entry.totals == self.totals.as_dict()
            and entry.behind == _behind(entry.time, self.latest)
            and (entry.kind != "began" or self.kinds.get(entry.about["entry"]) == "release")
        )


def _later(text: Any, latest: str | None) -> str | None:
    """Return the later of two times; a text of an older schema may name none."""
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
    """Compare columns with the text; what older schemas did not write is what it was."""
    columns = (name for name in row if name not in _UNHASHED)
    return all(row[name] == line.get(name, _UNWRITTEN.get(name, 0.0)) for name in columns)
