"""Teachers that failed or warned: numbers and types, never a text, which may quote records."""

from __future__ import annotations

import warnings
from collections import Counter

from tacit.errors import TeacherFailed
from tacit.teachers.tasks import Answer

_NAMED = 20  # failed teachers that a message lists by number


class TeacherWarning(UserWarning):
    """Training warned; only the kind is told, for the text may quote records."""


class Trouble:
    """Collects what went wrong in a run; `report` raises or warns once, at the end."""

    def __init__(self) -> None:
        self._failed: dict[int, str] = {}
        self._warned: Counter[str] = Counter()

    def note(self, number: int, one: Answer) -> None:
        """Take down one teacher's failure and warnings."""
        self._warned.update(one.warned)
        if one.failure is not None:
            self._failed[number] = one.failure

    def report(self, n_teachers: int | None, *, kept: bool, look: str) -> None:
        """Raise `TeacherFailed` if any failed; otherwise warn once for each kind of warning.

        `n_teachers` None: how many there are is private, so that neither it nor a number is told.
        `look` says where to find the cause, {} standing for the first one's number.
        """
        if self._failed:
            raise TeacherFailed(self._message(n_teachers, kept, look))
        for kind, count in sorted(self._warned.items()):
            where = "some" if n_teachers is None else f"{count} of {n_teachers}"
            warnings.warn(
                f"{kind} in the training of {where} teachers.", TeacherWarning, stacklevel=3
            )

    def _message(self, n_teachers: int | None, kept: bool, look: str) -> str:
        numbers = sorted(self._failed)
        kinds = ", ".join(sorted(set(self._failed.values())))
        others = "the others are kept in the checkpoint" if kept else "no checkpoint was kept"
        if n_teachers is None:
            who = f"Some teachers failed ({kinds})"
        else:
            named = ", ".join(map(str, numbers[:_NAMED]))
            named += ", ..." if len(numbers) > _NAMED else ""
            who = f"{len(numbers)} of {n_teachers} teachers failed ({kinds}): numbers {named}"
        cause = look.format(numbers[0])
        return f"{who}; {others}. Nothing was released. To see the cause, {cause}."
