"""One cell of a comparison: a method at one epsilon with one seed, and the file of its result.

A finished cell is one JSON file, written atomically. A file that cannot be read as a cell, or that
belongs to other settings, counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tacit._files import write_atomically

FORMAT = "tacit-comparison-cell/1"
OK, REFUSED, FAILED = "ok", "refused", "failed"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Cell:
    """One method, epsilon and seed; `epsilon` is None for a non-private reference."""

    method: str
    epsilon: float | None
    delta: float
    seed: int
    task: str
    settings: str

    @property
    def file_name(self) -> str:
        """The name of the file that holds the result."""
        level = "none" if self.epsilon is None else f"{self.epsilon:g}"
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", self.method)
        return f"{safe}--{level}--{self.seed}.json"

    @property
    def label(self) -> str:
        """A name for people."""
        level = "" if self.epsilon is None else f" at epsilon {self.epsilon:g}"
        return f"{self.method}{level}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a cell: accuracy where it is "ok", else a reason; time and memory.

    `spent` is the epsilon of the estimator's own statement, if any. `cpu` and `wall` are seconds of
    fit and predict; `peak_mib` is the process's highest resident memory, `baseline_mib` before fit.
    """

    status: str
    reason: str = ""
    accuracy: float | None = None
    spent: float | None = None
    noise: str = ""
    cpu: float | None = None
    wall: float | None = None
    peak_mib: float | None = None
    baseline_mib: float | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Self:
        """Return what `asdict` made plain."""
        return cls(**(raw | {"warnings": tuple(raw["warnings"])}))


Result = tuple[Cell, Outcome]


def settings_of(estimator: Any) -> str:
    """Return a hash of an estimator's parameters, defaults included: others make another cell."""
    from sklearn import config_context

    with config_context(print_changed_only=False):
        try:
            text = estimator.__repr__(N_CHAR_MAX=10**7)
        except TypeError:
            text = repr(estimator)
        # What an estimator puts in place of None is no part of its own text.
        text += repr([estimator._settings(name) for name in getattr(estimator, "_own", ())])
    return hashlib.sha256(_ADDRESS.sub("", text).encode("utf-8")).hexdigest()[:16]


def write_cell(folder: Path, cell: Cell, outcome: Outcome) -> None:
    """Write a finished cell atomically."""
    content = {"format": FORMAT, "cell": asdict(cell), "outcome": asdict(outcome)}
    text = json.dumps(content, indent=2, allow_nan=False)
    write_atomically(folder / cell.file_name, text.encode("utf-8"))


def read_cell(path: Path) -> Result | None:
    """Return a finished cell, or None where there is none or the file is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        outcome, cell = Outcome.read(content["outcome"]), Cell(**content["cell"])
        known = content["format"] == FORMAT and cell.file_name == path.name
    except (OSError, UnicodeError, ValueError, KeyError, TypeError):
        return None
    complete = outcome.status in (REFUSED, FAILED) or (
        outcome.status == OK and isinstance(outcome.accuracy, float)
    )
    return (cell, outcome) if known and complete else None


def finished(folder: Path, cell: Cell) -> Outcome | None:
    """Return the outcome of this very cell, if a whole file holds it."""
    found = read_cell(folder / cell.file_name)
    return found[1] if found is not None and found[0] == cell else None


def cells_of(folder: Path, task: str) -> list[Result]:
    """Return every finished cell of a task in a folder."""
    found = [read_cell(path) for path in sorted(folder.glob("*.json"))]
    return [item for item in found if item is not None and item[0].task == task]
