"""Rows that are private and public at once, refused before anything is spent.

A student may contain public inputs, and a score on held-out rows is theirs: no price covers a
record that is also one of them. Rows are compared as numbers (float64, one zero), however they are
stored, and a row in single precision equals the row that it was rounded from.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import blocks
from tacit.errors import InvalidArgument
from tacit.teachers import record_ids

_LOW = np.uint64(32)
_CACHED = 2**15  # numbers that are mixed at a time
_LOOKED = 2**19  # numbers that are compared at a time

ALLOWED_OVERLAP = (
    "equal rows were allowed, not looked for: a private row may also be a public or a held-out "
    "one, which no cost covers"
)


class Overlap:
    """Search, part by part, for private rows or scans among others; the result is secret.

    A refusal depends on private rows, but nothing was spent, and only the owner sees it
    (docs/sharp-edges.md).
    """

    def __init__(self, others: NDArray[Any], kind: str = "public") -> None:
        self._kind, self._others = kind, _Known(others)
        self._single = _Known(_rounded(others, "float32"))
        self._half = _Known(_rounded(others, "float16"))
        self._narrow = ("float32", "float16") if _halves(others).all() else ("float32",)
        self._found = False

    def look(self, rows: NDArray[Any]) -> None:
        """Compare some of the private rows, each by itself."""
        self._found |= self._others.has(rows) or self._single.has(rows)
        self._found |= any(self._others.has(_rounded(rows, narrow)) for narrow in self._narrow)
        self._found |= self._half.has(rows[_halves(rows)])

    @property
    def found(self) -> bool:
        """Whether one of the rows was among the others. Secret."""
        return self._found

    def join(self, found: bool) -> None:
        """Merge the result of another process for other rows and the same public ones."""
        self._found |= found

    def refuse(self) -> None:
        """Refuse all rows, if one of them is among the others."""
        if self._found:
            raise InvalidArgument(
                f"Expected no private row that equals a {self._kind} one; take it out of one side. "
                "If equal rows are other people, say allow_overlap=True (in a configuration: "
                "allow_overlap = true in [data])."
            )


def refuse_overlap(X: NDArray[Any], others: NDArray[Any], kind: str = "public") -> None:
    """Refuse private rows, or scans, of which one is also among the others (`Overlap`)."""
    overlap = Overlap(others, kind)
    for some in blocks(len(X), _LOOKED // max(1, math.prod(X.shape[1:]))):
        overlap.look(X[some])  # some at a time: it makes copies
    overlap.refuse()


class _Known:
    """Rows that others are looked up among: by a quick hash of their bits, then by their ids."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._ids = set(record_ids(rows).tolist())
        self._mixed = np.unique(_mixed(rows))

    def has(self, rows: NDArray[Any]) -> bool:
        """Whether one of some rows is among them."""
        if not self._mixed.size or not len(rows):
            return False
        mixed = _mixed(rows)
        place = np.searchsorted(self._mixed, mixed).clip(max=self._mixed.size - 1)
        alike = rows[self._mixed[place] == mixed]
        return len(alike) > 0 and not self._ids.isdisjoint(record_ids(alike).tolist())


def _mixed(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each row, equal for rows with equal ids, rarely for others."""
    width = int(np.prod(rows.shape[1:]))
    odd = np.random.default_rng(0).integers(2**63, size=width, dtype=np.uint64) * 2 + 1
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for some in blocks(len(rows), _CACHED // max(width, 1)):
        with np.errstate(all="ignore"):
            flat = np.array(rows[some], dtype=np.float64).reshape(-1, width)
        flat[np.isnan(flat)] = np.nan  # one for all, as in ids
        flat += 0.0  # and no negative zero
        bits = flat.view(np.uint64)
        np.einsum("ij,j->i", bits ^ (bits >> _LOW), odd, out=mixed[some])
    return mixed


def _halves(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are in half precision, and not just small whole numbers."""
    axes = tuple(range(1, rows.ndim))
    with np.errstate(all="ignore"):
        short = (rows.astype(np.float16) == rows).all(axis=axes)
        return np.asarray(short & (rows != np.floor(rows)).any(axis=axes))


def _rounded(rows: NDArray[Any], narrow: str) -> NDArray[Any]:
    """Return the rows that change when stored in a narrower type, in that type."""
    with np.errstate(all="ignore"):
        stored = rows.astype(narrow)
        axes = tuple(range(1, rows.ndim))
        return np.asarray(stored[(stored != rows).any(axis=axes)], dtype=np.float64)
