"""Teachers that failed or warned: never a text of theirs, which may quote records.

A failure stops the run before anything is released, and the owner is told who failed, and how. A
warning stops nothing and may end in a log beside what is published, so that it says no more than
that there was one: which teachers warned, how many and of what depends on private records.
"""

from __future__ import annotations

import warnings

from tacit.errors import TeacherFailed
from tacit.teachers.tasks import Answer

_NAMED = 20  # failed teachers that a message lists by number
_WARNED = (
    "The training of teachers warned. What, how often and where depends on private records, so no "
    "more is said; fit a teacher on public rows, or on one shard for your own eyes, to see it."
)


class TeacherWarning(UserWarning):
    """Training warned; that is all, for the rest depends on private records.

    That it comes at all is one bit about them: keep a log that holds it to yourself.
    """


class Trouble:
    """Collects what went wrong in a run; `report` raises or warns once, at the end."""

    def __init__(self) -> None:
        self._failed: dict[int, str] = {}
        self._warned = False

    def note(self, number: int, one: Answer) -> None:
        """Take down one teacher's failure and warnings."""
        self._warned |= bool(one.warned)
        if one.failure is not None:
            self._failed[number] = one.failure

    def report(self, n_teachers: int | None, *, kept: bool, look: str) -> None:
        """Raise `TeacherFailed` if any failed; otherwise warn once, in the same words, if any did.

        `n_teachers` None: how many there are is private, so that neither it nor a number is told.
        `look` says where to find the cause, {} standing for the first one's number.
        """
        if self._failed:
            raise TeacherFailed(self._message(n_teachers, kept, look))
        if self._warned:
            warnings.warn(_WARNED, TeacherWarning, stacklevel=3)

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
