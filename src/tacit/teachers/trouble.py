"""Teachers that failed: never a text of theirs, which may quote records.

A failure stops the run before anything is released, and the owner is told of what types. Which
teachers failed and how many depends on private records, as does every warning, so that none of it
is told.
"""

from __future__ import annotations

from tacit.errors import TeacherFailed
from tacit.teachers.tasks import Answer


class Trouble:
    """Collects what went wrong in a run; `report` raises once, at the end."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()

    def note(self, one: Answer) -> None:
        """Take down one teacher's failure."""
        if one.failure is not None:
            self._kinds.add(one.failure)

    def report(self, *, kept: bool, look: str) -> None:
        """Raise `TeacherFailed` if any failed; `look` says how to find the cause."""
        if not self._kinds:
            return
        others = "the others are kept in the checkpoint" if kept else "no checkpoint was kept"
        raise TeacherFailed(
            f"Some teachers failed ({', '.join(sorted(self._kinds))}); {others}. Nothing was "
            f"released. To see the cause, for your own eyes, {look}."
        )
