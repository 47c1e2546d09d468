"""Pieces of private records for tests of workers: importable there, as a table's pieces are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from teacher_families import die_once

from tacit.mechanisms import Contributions
from tacit.records import PrivateRecords, RecordArrays


@dataclass
class KillingPiece:
    """Rows whose first reader dies half-way, where it has a file to remember that in."""

    X: np.ndarray
    y: np.ndarray
    marker: str | None

    def rows(self) -> Iterator[RecordArrays]:
        for some in np.array_split(np.arange(len(self.y)), 3):
            yield RecordArrays(self.X[some], self.y[some], None)

    def read(self) -> Iterator[RecordArrays]:
        for number, rows in enumerate(self.rows()):
            if number == 1 and self.marker is not None and not Path(self.marker).exists():
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield rows

    def portable(self) -> KillingPiece:
        return self


@dataclass
class DyingPiece:
    """A piece whose first reader in another process dies."""

    piece: Any
    marker: str
    owner: int

    def read(self) -> Iterator[RecordArrays]:
        if os.getpid() != self.owner:
            die_once(self.marker)
        return iter(self.piece.read())

    def portable(self) -> DyingPiece:
        return DyingPiece(self.piece.portable(), self.marker, self.owner)


def as_records(raw: RecordArrays) -> PrivateRecords:
    return PrivateRecords(*raw)


def inputs_by_class(some: PrivateRecords) -> Any:
    basis = np.eye(2)
    return Contributions(
        len(some.targets), lambda rows: some.rows[rows] / 9, lambda rows: basis[some.targets[rows]]
    )
