"""What the tests of ledgers share: a way to spend, raw SQL, and two formulas written out again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import mpmath

from tacit.ledger import Budget, Ledger
from tacit.mechanisms import Plan, Release

BUDGET = Budget(2.6, 1e-5)
APPLICATION_ID = 0x74616369


def spend(ledger: Ledger, plan: Plan, votes: Any, *, times: int = 1, **options: Any) -> Release:
    """Pay for the plan so many times; return what was released last."""
    for _ in range(times):
        with ledger.release(plan, purpose="test", **options) as grant:
            released = grant.release(votes)
    return released


def gaussian_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """delta(epsilon) of a Gaussian, with 50 digits."""
    with mpmath.workdps(50):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def conversion(order: float, delta: float) -> float:
    """What RDP of this order adds to be an epsilon: Canonne, Kamath and Steinke 2020, Prop. 12."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def sql(path: Path, *statements: str) -> list[list[tuple[Any, ...]]]:
    """Do what no part of tacit would do."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        return [database.execute(statement).fetchall() for statement in statements]


def edit(path: Path, *statements: str) -> None:
    """Do it behind the guards of an append-only file, which are there again afterwards."""
    guards = sql(path, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")[0]
    drop, make = [f"DROP TRIGGER {name}" for name, _ in guards], [text for _, text in guards]
    sql(path, *drop, *statements, *make)


def forge(path: Path, **changes: Any) -> None:
    """Append the last line once more, changed, with its hash right: as a careful forger would.

    What is changed to `...` is left out.
    """
    last, previous = sql(path, "SELECT payload, hash FROM entries ORDER BY sequence DESC")[0][0]
    line = json.loads(last)
    line = {**line, "sequence": line["sequence"] + 1, "previous": previous, **changes}
    text = json.dumps({name: value for name, value in line.items() if value is not ...})
    columns = ("sequence", "previous", "time", "purpose", "cost", "confidence_delta")
    values = (text, hashlib.sha256(text.encode()).hexdigest(), *(line[name] for name in columns))
    kind = line["kind"] if line["kind"] is not ... else "release"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(
            f"INSERT INTO entries (payload, hash, {', '.join(columns)}, kind) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, kind),
        )
