"""What the tests of ledgers share: a way to spend, raw SQL, and two formulas written out again."""

from __future__ import annotations

import contextlib
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
