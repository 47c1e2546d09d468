"""Whether a record is private and public at once: then nothing is spent, and nothing is told of it.

A student may hold public inputs as they are, and a score on held-out rows is theirs: no price
covers a record that is also one of them. Rows are compared as numbers (float64, one zero), however
they are stored, and a row in single or half precision is the row that it was rounded from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument
from tacit.teachers import record_ids

ALLOWED_OVERLAP = (
    "equal rows were allowed, not looked for: a private row may also be a public or a held-out "
    "one, which no cost covers"
)


def refuse_overlap(X: NDArray[Any], others: NDArray[Any], kind: str = "public") -> None:
    """Refuse private rows, or scans, of which one is also among the others; which is secret.

    That a run is refused depends on private rows, but nothing was spent, and only the owner sees
    it: a by-product, listed with why in docs/sharp-edges.md.
    """
    private, public = _ids(X), _ids(others)
    halves: list[np.dtype[Any]] = [np.dtype(np.float16)] * (
        _may_be_halves(X) or _may_be_halves(others)
    )
    equal = not private.isdisjoint(public)
    for narrow in (np.dtype(np.float32), *halves):
        equal |= not private.isdisjoint(_rounded(others, narrow))
        equal |= not public.isdisjoint(_rounded(X, narrow))
    if equal:
        raise InvalidArgument(
            f"Expected no private row that equals a {kind} one; take it out of one side. If equal "
            "rows are other people, say allow_overlap=True (in a configuration: "
            "allow_overlap = true in [data])."
        )


def _ids(rows: NDArray[Any]) -> set[bytes]:
    return set(record_ids(rows).tolist())


def _may_be_halves(rows: NDArray[Any]) -> bool:
    """Tell whether all of them are half precision, and not just small whole numbers.

    Rows are float64 where they come in, so that their type does not tell.
    """
    with np.errstate(all="ignore"):
        return bool((rows.astype(np.float16) == rows).all() and (rows != np.floor(rows)).any())


def _rounded(rows: NDArray[Any], narrow: np.dtype[Any]) -> set[bytes]:
    """Return ids of the rows that change when they are stored in a narrower type, so stored."""
    with np.errstate(all="ignore"):
        stored = rows.astype(narrow)
        axes = tuple(range(1, rows.ndim))
        return _ids(stored[(stored != rows).any(axis=axes)])
