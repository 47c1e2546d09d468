"""Sums over a ledger's entries for a statement, one entry at a time, so in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tacit._registry import MECHANISMS, mechanism_class
from tacit.ledger.chain import NOISE_LEVELS, Entry, Totals, entrusted
from tacit.mechanisms import assumptions


@dataclass(slots=True)
class Tally:
    """Sums over a chain's first entries; `weakest` indexes NOISE_LEVELS, sentences are keys."""

    length: int = 0
    head: str | None = None
    n_paid: int = 0
    totals: Totals = field(default_factory=Totals)
    weakest: int = 0
    noisy: int = 0
    seeded: int = 0
    presumed: dict[str, None] = field(default_factory=dict)
    entrusted: dict[str, None] = field(default_factory=dict)
    faults: dict[str, None] = field(default_factory=dict)

    def over(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Add entries as they are iterated."""
        for entry in entries:
            self.add(entry)
            yield entry

    def add(self, entry: Entry) -> None:
        """Add one entry."""
        self.length, self.head = entry.sequence, entry.hash
        self.totals = self.totals.plus(entry.cost, entry.confidence_delta)
        self.noisy += bool(entry.noise)
        self.seeded += entry.noise == NOISE_LEVELS[2]
        self.faults.update(dict.fromkeys(entry.faults))
        if not entry.is_paid:
            return
        self.n_paid += 1
        self.weakest = max(self.weakest, NOISE_LEVELS.index(_level(entry)))
        self.presumed.update(dict.fromkeys(assumptions([entry.plan])))
        if entry.kind == "charge":
            self.entrusted[entrusted(entry)] = None


def _level(entry: Entry) -> str:
    """Return the noise of a paid entry; of a charge, what its mechanism draws elsewhere."""
    name = entry.plan["mechanism"]
    if entry.kind != "charge":
        return entry.noise
    return str(mechanism_class(name).noise_level) if name in MECHANISMS else NOISE_LEVELS[1]
