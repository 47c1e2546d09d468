"""Steps of one release that are noted as begun before their noise is drawn.

A training run of many noisy steps is one release, paid for in whole before it starts. To resume it
after a crash, a note ("began", free) is durable before the first of the steps that it counts. A
resumed run draws only steps behind the last note, so that no step is ever drawn twice. Why that
changes no price: docs/theory/ledger.md#steps-that-were-begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit._checks import at_least
from tacit.errors import GrantError, InvalidArgument
from tacit.ledger.chain import Entry, canonical
from tacit.mechanisms import Plan


@dataclass(frozen=True, slots=True)
class NotedSteps:
    """How the steps of a release are noted.

    Parameters
    ----------
    every : int, steps that share a note, public
    store : callable
        Stores the training state durably; called with the number of steps behind it before each
        note but the first, and at the end.
    """

    every: int
    store: Callable[[int], None]

    def __post_init__(self) -> None:
        at_least(1, every=self.every)


class BegunSteps:
    """The steps that a grant may draw: `first` steps are drawn or skipped, out of `steps`.

    Iterating notes and stores them; `note(upto, after)` notes durably that steps were begun.
    """

    def __init__(
        self, first: int, steps: int, noted: NotedSteps, note: Callable[[int, int], None]
    ) -> None:
        self._steps, self._noted, self._note = steps, noted, note
        self._first = self._begun = first
        self._used = False

    def begin(self) -> None:
        """Note the next steps, if there are any: before there is any noise."""
        upto = min(self._begun + self._noted.every, self._steps)
        if upto > self._begun:
            self._note(self._begun, upto)
            self._begun = upto

    def __iter__(self) -> Iterator[int]:
        if self._used:
            raise GrantError("Expected the steps of a grant to be gone through once.")
        self._used = True
        for step in range(self._first, self._steps):
            if step == self._begun:
                # In this order: a checkpoint that lies before the last note but one is an old copy.
                self._noted.store(step)
                self.begin()
            yield step
        self._noted.store(self._steps)


def notes_of(entries: Iterable[Entry], entry: str) -> list[int]:
    """Return the last step that each note of a release counts as begun, in order."""
    notes = (each for each in entries if each.kind == "began" and each.about["entry"] == entry)
    return [int(note.about["steps"]) for note in notes]


def begun_line(behind: Iterable[Entry], entry: str, after: int, upto: int) -> dict[str, Any]:
    """Return a note's content; refuse if entries `behind` those read show that others went on."""
    if notes_of(behind, entry):
        raise GrantError(
            "Expected the steps of this release to be begun by one process: another one goes on "
            "with it. Nothing more was drawn here."
        )
    return {
        "kind": "began",
        "purpose": f"begin steps {after + 1} to {upto}",
        "about": {"entry": entry, "steps": upto},
    }


def entry_to_resume(entries: Sequence[Entry], entry: str, plan: Plan) -> Entry:
    """Return the entry of a release whose steps are noted, and that may go on."""
    found = {each.hash: each for each in entries}.get(entry)
    # Without a note, all of its steps may have been drawn: one comes before the first step.
    if found is None or not _is_for(found, plan) or not notes_of(entries, entry):
        raise InvalidArgument(
            f"Expected entry={entry!r} to be a release of this plan whose steps are noted as they "
            "begin."
        )
    if found.noise == "insecure-seeded":
        raise InvalidArgument(
            "Expected secure noise: a seeded release would draw the same noise again; it cannot go "
            "on."
        )
    return found


def _is_for(entry: Entry, plan: Plan) -> bool:
    planned: Mapping[str, Any] = plan.as_dict()
    return entry.kind == "release" and canonical(entry.plan) == canonical(planned)
