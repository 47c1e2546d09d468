"""The ledger's chain: what an entry says, and the hashes that make a change or a gap visible.

Every entry is a line of canonical JSON that names the hash of the line before it; the first names
the hash of the header. A line is kept and verified as it was written, whatever later versions
write ("an entry's meaning never changes"). The chain shows an alteration; a chain that was cut
short or rolled back is still a chain, and only a head remembered elsewhere shows that.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidArgument, LedgerDamaged

NOISE_LEVELS = ("exact", "csprng", "insecure-seeded")
"""From the strongest to the weakest."""


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


@dataclass(frozen=True, slots=True)
class Entry:
    """One release that was paid for: all of it public.

    `cost` is in the currency of the ledger's accountant, `plan` is `Plan.as_dict()`, `noise` is
    "exact", "csprng" or "insecure-seeded", `library` the version of tacit that wrote the entry.
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

    @classmethod
    def read(cls, line: Mapping[str, Any], text_hash: str) -> Entry:
        """Read one line of the chain; a line of schema 1 has no confidence delta, so it is 0."""
        try:
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
            )
        except KeyError as missing:
            raise LedgerDamaged(f"An entry of the ledger lacks {missing}; restore it.") from None
        for number in (entry.cost, entry.confidence_delta):
            # A negative cost would be a refund, and nothing is ever refunded.
            if not isinstance(number, int | float) or not 0 <= number < math.inf:
                raise LedgerDamaged(f"Entry {entry.sequence} of the ledger has no valid cost.")
        if entry.noise not in NOISE_LEVELS:
            raise LedgerDamaged(f"Entry {entry.sequence} of the ledger has no valid noise level.")
        return entry


def read_json(text: object) -> dict[str, Any]:
    """Read one JSON object of the chain."""
    try:
        line = json.loads(text)  # type: ignore[arg-type]  # anything may stand in a damaged file
    except (TypeError, ValueError):
        line = None
    if not isinstance(text, str) or not isinstance(line, dict):
        raise LedgerDamaged("A line of the ledger is not readable; restore it from a copy.")
    return line


@dataclass(frozen=True, slots=True)
class Chain:
    """A verified ledger: its header, the hash of the header, and the entries in order."""

    header: Mapping[str, Any]
    genesis: str
    entries: tuple[Entry, ...] = ()

    @property
    def head(self) -> str:
        """Hash of the last entry, or of the header if there is none."""
        return self.entries[-1].hash if self.entries else self.genesis

    def holds(self, head: str) -> bool:
        """Tell whether this hash is the header's or an entry's: the chain once ended there."""
        return head == self.genesis or any(entry.hash == head for entry in self.entries)

    def following(self, line: Mapping[str, Any]) -> str:
        """Return the text of the next entry, linked to the head."""
        return canonical({**line, "previous": self.head, "sequence": len(self.entries) + 1})

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
        previous = genesis
        for place, row in enumerate(entries, start=1):
            line, text_hash = _hashed(row)
            entry = Entry.read(line, text_hash)
            stated = (row["hash"], entry.previous, entry.sequence, row["sequence"])
            if stated != (text_hash, previous, place, place) or not _columns_agree(row, line):
                raise LedgerDamaged(
                    f"Entry {place} of the ledger does not continue the chain: it was altered, or "
                    "an entry before it is missing; restore the ledger from a copy."
                )
            linked.append(entry)
            previous = text_hash
        return cls(terms, genesis, tuple(linked))


_UNHASHED = ("payload", "hash", "one")


def _hashed(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return read_json(row["payload"]), digest(row["payload"])


def _columns_agree(row: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    """Compare columns with the text; what schema 1 did not write is 0."""
    columns = (name for name in row if name not in _UNHASHED)
    return all(row[name] == line.get(name, 0.0) for name in columns)
