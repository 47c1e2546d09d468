"""What a release costs in a ledger of many entries, next to a bare durable append.

    python -m benchmarks.ledger_scale [--entries 10,1000,10000] [--writers 8] [--each 200] [--json]

CPU-seconds of one process for releases and reads; wall time for writers that wait for each other.
The bare append inserts a row of the same length into a table with the same index, in SQLite's
write-ahead log with full synchronisation, on a connection that stays open.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, Plan

PLAN = Plan(GNMax(sigma=1e5), queries=1)
BUDGET = Budget(epsilon=50.0, delta=1e-6)
LINE = "x" * 1_100
REPEATS = 200


@dataclass(frozen=True, slots=True)
class AtLength:
    """CPU-milliseconds in a ledger of so many entries."""

    entries: int
    release: float
    spent: float
    bare: float

    @property
    def over_bare(self) -> float:
        """How many times a bare append."""
        return self.release / self.bare


@dataclass(frozen=True, slots=True)
class Together:
    """Several processes, each with so many releases: how many a second, and the longest wait."""

    rate: float
    worst_wait: float
    bare_rate: float


def _release(ledger: Ledger) -> None:
    with ledger.release(PLAN, purpose="benchmark") as grant:
        grant.release([[3, 2, 1]])


def _bare(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, timeout=60)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS entries (sequence INTEGER PRIMARY KEY, payload, hash UNIQUE)"
    )
    return database


def _append(database: sqlite3.Connection) -> None:
    database.execute("BEGIN IMMEDIATE")
    row = (LINE, secrets.token_hex(32))
    database.execute("INSERT INTO entries (payload, hash) VALUES (?, ?)", row)
    database.execute("COMMIT")


def _cpu_ms(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least mean of three: what else ran on the machine only adds."""
    means = []
    for _ in range(3):
        begin = time.process_time()
        for _ in range(repeats):
            work()
        means.append((time.process_time() - begin) / repeats)
    return 1e3 * min(means)


def at_lengths(folder: Path, lengths: list[int]) -> list[AtLength]:
    ledger = Ledger(folder / "long.ledger", budget=BUDGET)
    found = []
    with contextlib.closing(_bare(folder / "bare.db")) as database:
        for length in lengths:
            while len(ledger) < length:
                for _ in range(min(1_000, length - len(ledger))):
                    _release(ledger)
            release = _cpu_ms(lambda: _release(ledger))
            spent = _cpu_ms(ledger.spent)
            found.append(AtLength(length, release, spent, _cpu_ms(lambda: _append(database))))
    return found


def _writer(kind: str, path: Path, each: int, ready: object, waits: object) -> None:
    worst = 0.0
    work: Callable[[], None]
    if kind == "bare":
        database = _bare(path)
        work = lambda: _append(database)  # noqa: E731
    else:
        ledger = Ledger(path)
        work = lambda: _release(ledger)  # noqa: E731
    ready.wait()  # type: ignore[attr-defined]
    for _ in range(each):
        begin = time.monotonic()
        work()
        worst = max(worst, time.monotonic() - begin)
    waits.put(worst)  # type: ignore[attr-defined]


def _race(kind: str, path: Path, writers: int, each: int) -> tuple[float, float]:
    context = multiprocessing.get_context("fork")
    ready, waits = context.Barrier(writers + 1), context.SimpleQueue()
    processes = [
        context.Process(target=_writer, args=(kind, path, each, ready, waits))
        for _ in range(writers)
    ]
    for process in processes:
        process.start()
    ready.wait()
    begin = time.monotonic()
    for process in processes:
        process.join()
    seconds = time.monotonic() - begin
    if any(process.exitcode for process in processes):
        raise SystemExit("a writer failed")
    return writers * each / seconds, max(waits.get() for _ in processes)


def together(folder: Path, writers: int, each: int) -> Together:
    path = folder / "shared.ledger"
    Ledger(path, budget=BUDGET)
    rate, worst = _race("ledger", path, writers, each)
    if len(Ledger(path).entries()) != writers * each:  # all of them, verified
        raise SystemExit("entries are missing")
    bare_rate, _ = _race("bare", folder / "shared.db", writers, each)
    return Together(rate, worst, bare_rate)


def show(rows: list[AtLength], race: Together, console: Console) -> None:
    table = Table(title="CPU-milliseconds, one process")
    for heading in ("entries", "a release", "spent()", "bare append", "release / bare"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row.entries:,}",
            f"{row.release:.2f}",
            f"{row.spent:.2f}",
            f"{row.bare:.2f}",
            f"{row.over_bare:.1f}",
        )
    console.print(table)
    console.print(
        f"writers together: {race.rate:.0f} releases a second, worst wait "
        f"{race.worst_wait:.2f} s; bare appends {race.bare_rate:.0f} a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", default="10,1000,10000")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = at_lengths(Path(folder), [int(word) for word in given.entries.split(",")])
        race = together(Path(folder), given.writers, given.each)
    if given.json:
        print(json.dumps({"lengths": [asdict(row) for row in rows], "together": asdict(race)}))
    else:
        show(rows, race, Console())


if __name__ == "__main__":
    main()
