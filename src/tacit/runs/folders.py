"""The directory of a run: new or empty, or this very run's that was stopped; never another's.

And `RunResult`, what a finished run left there.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit._files import name_without_overwriting, temporary_beside, write_atomically
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.ledger import Ledger, Statement


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left behind; no accuracy where no rows were held out.

    `held_out` is None where a file was split: how many rows fall on a side is not told.
    `most_frequent` is what always saying the held-out rows' most frequent label would reach.
    Of masks, `accuracy` is the Dice of all that is not background, and `metrics` has more.
    """

    folder: Path
    statement: Statement
    accuracy: float | None
    held_out: int | None
    ledger: Ledger
    metrics: dict[str, Any] = field(default_factory=dict)
    most_frequent: float | None = None


@contextlib.contextmanager
def releasing(folder: Path, settings: str) -> Iterator[None]:
    """Enter a run's directory to release; nothing secret is there afterwards, or nothing at all.

    What finished teachers said stays only where the run was stopped and can still go on.
    """
    enter(folder, settings)
    try:
        yield
    except InvalidArgument:
        leave(folder)
        raise
    except BudgetExceeded:
        forget_teachers(folder)  # an earlier start released, and was stopped before it finished
        raise
    forget_teachers(folder)


def enter(folder: Path, settings: str) -> None:
    """Make the run's directory, or enter it: an empty one, or the same run's that was stopped."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InvalidArgument(
            f"Expected {str(folder)!r} to be a directory for the run; there is a file of that name."
        ) from None
    if not (_claimed(folder, settings) or _stopped(folder, settings)):
        raise InvalidArgument(
            f"Expected {str(folder)!r} to be new or empty, or this very run, stopped before it "
            "finished: a run never overwrites another's ledger."
        )


def _claimed(folder: Path, settings: str) -> bool:
    """Put the settings into an empty directory; of two runs at the same time, one succeeds."""
    if any(folder.iterdir()):
        return False
    target = folder / "config.toml"
    with temporary_beside(target) as temporary:
        write_atomically(temporary, settings.encode("utf-8"))
        return name_without_overwriting(temporary, target)


def _stopped(folder: Path, settings: str) -> bool:
    """Tell whether the same run was stopped here before it finished."""
    known = folder / "config.toml"
    if not known.is_file() or (folder / "statement.json").exists():
        return False
    return known.read_text(encoding="utf-8") == settings


def forget_teachers(folder: Path) -> None:
    """Remove what finished teachers said: it is secret, and of no use once it was released."""
    shutil.rmtree(folder / "teachers", ignore_errors=True)
    if (folder / "teachers").exists():
        raise InvalidArgument(
            f"Expected {str(folder / 'teachers')!r} to be removable: it holds secret answers. "
            "Remove it before anything in the directory is published."
        )


def leave(folder: Path) -> None:
    """Free the directory of a run that was refused before it had a ledger: nothing was spent."""
    if not (folder / "run.ledger").exists():
        with contextlib.suppress(OSError):
            (folder / "config.toml").unlink()
            folder.rmdir()
