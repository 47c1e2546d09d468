"""What a ledger of many entries costs, next to a bare durable append in the same run.

    python -m benchmarks.ledger_scale [--entries 10,1000,100000] [--whole 100000]
        [--writers 8] [--each 200] [--json]

Lengths are made of tacit's own lines in one transaction. Then releases, charges, notes of begun
steps, `spent()` and bare appends take turns, so that all meet the same load; told are medians of
wall time, with what was used of the processor. Reading everything (`verify`, `statement()`,
`tacit ledger show`) is measured up to --whole entries, each in a process of its own, with its peak
memory.

A bare append inserts a row of the same length into a table with the same index, in SQLite's
write-ahead log with full synchronisation, on a connection that stays open. The exit code is 1 if a
goal is missed: at the greatest length within 3 times of the least and within 5 times of a bare
append (wall time), writers within 5 s of wait and at a third of the bare rate.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tacit.ledger import Budget, Ledger
from tacit.ledger.begun_steps import NotedSteps
from tacit.ledger.head_file import HeadFile, Remembered
from tacit.ledger.store import Store, _insert
from tacit.mechanisms import GNMax, NoisySteps, Plan

PLAN = Plan(GNMax(sigma=1e5), queries=1)
STEPS = 1_000
TRAINING = Plan(NoisySteps(noise_multiplier=1e3), STEPS)
BUDGET = Budget(epsilon=50.0, delta=1e-6)
LINE = "x" * 1_100
REPEATS = 150
ROUNDS = 5
BARE = "bare append"


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of one thing at one length: the median of wall time, the mean of CPU time.

    The peak of memory, in MB, where it was measured.
    """

    what: str
    entries: int
    wall: float
    cpu: float
    peak: float | None = None

    def __str__(self) -> str:
        memory = "" if self.peak is None else f", {self.peak:.0f} MB"
        return f"{self.wall:.2f} ({self.cpu:.2f}){memory}"


@dataclass(frozen=True, slots=True)
class Together:
    """Several processes, each with so many releases: how many a second, and the longest wait."""

    rate: float
    worst_wait: float
    bare_rate: float


def _release(ledger: Ledger) -> None:
    with ledger.release(PLAN, purpose="benchmark") as grant:
        grant.release([[3, 2, 1]])


def _charge(ledger: Ledger) -> None:
    study = secrets.token_hex(32)
    ledger.charge(PLAN, purpose="benchmark", study=study, entrusted=["somebody"])


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


@contextlib.contextmanager
def _noting(ledger: Ledger) -> Iterator[Callable[[], object]]:
    """Lend what notes one more step of a training as begun: all but the noise and the step."""
    noted = NotedSteps(1, lambda _: None)
    with ledger.release(TRAINING, purpose="train", noted=noted) as grant:
        steps = iter(grant._Grant__steps["steps"])  # type: ignore[attr-defined]
        yield lambda: next(steps)


def fill(path: Path, length: int) -> None:
    """Lengthen a ledger by tacit's own lines, copies of its last release but for what links."""
    store, ledger = Store(path), Ledger(path)
    chain = store.read_end()
    if chain.length >= length:
        return
    last = next(entry for entry in reversed(ledger.entries()) if entry.kind == "release")
    names = ("kind", "purpose", "noise", "faults", "about", "plan", "cost", "confidence_delta")
    line = {name: getattr(last, name) for name in (*names, "priced_by", "library")}
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = -500000")  # kB: the index of hashes, of a million
        database.execute("BEGIN IMMEDIATE")
        while chain.length < length:
            _insert(database, chain, chain.following(line))
            chain.forget(())
        database.execute("COMMIT")
    with HeadFile(path).turn(path.stat().st_mode) as turn:
        turn.remember(Remembered(chain.genesis, chain.length, chain.head))


def _in_turns(works: dict[str, Callable[[], object]], entries: int) -> list[Took]:
    """Do each once in every round; the order of a round changes nothing that one of them meets."""
    wall: dict[str, list[float]] = {name: [] for name in works}
    cpu = dict.fromkeys(works, 0.0)
    for work in works.values():
        work()
    for _ in range(REPEATS):
        for name, work in works.items():
            before, begun = time.process_time(), time.perf_counter()
            work()
            wall[name].append(time.perf_counter() - begun)
            cpu[name] += time.process_time() - before
    each = 1e3 / REPEATS
    return [
        Took(name, entries, 1e3 * statistics.median(wall[name]), each * cpu[name]) for name in works
    ]


def at_length(folder: Path, entries: int, database: sqlite3.Connection) -> list[Took]:
    ledger = Ledger(folder / "long.ledger")
    fill(folder / "long.ledger", entries)
    with _noting(ledger) as note:
        works = {
            "release": lambda: _release(ledger),
            "charge": lambda: _charge(ledger),
            "note of a begun step": note,
            "spent()": ledger.spent,
            BARE: lambda: _append(database),
        }
        return _in_turns(works, entries)


def reading_all(path: Path, entries: int) -> list[Took]:
    from tacit.cli.ledger import show as show_command

    def shown() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            show_command(path).print(as_json=False)

    found = []
    ledger = Ledger(path)
    works = {"verify": ledger.verify, "statement()": ledger.statement, "tacit ledger show": shown}
    for name, work in works.items():
        begun = time.perf_counter()
        if (process := os.fork()) == 0:
            work()
            os._exit(0)
        _, status, used = os.wait4(process, 0)
        if status:
            raise SystemExit(f"{name} failed")
        wall, cpu = time.perf_counter() - begun, used.ru_utime + used.ru_stime
        found.append(Took(name, entries, 1e3 * wall, 1e3 * cpu, used.ru_maxrss / 1024))
    return found


def at_lengths(folder: Path, lengths: list[int], whole: int) -> list[Took]:
    path = folder / "long.ledger"
    _release(Ledger(path, budget=BUDGET))
    found: list[Took] = []
    with contextlib.closing(_bare(folder / "bare.db")) as database:
        for entries in lengths:
            found += at_length(folder, entries, database)
            if entries <= whole:
                found += reading_all(path, entries)
    return found


def _writer(kind: str, path: Path, each: int, ready: Any, waits: Any) -> None:
    worst = 0.0
    work: Callable[[], None]
    if kind == "bare":
        database = _bare(path)
        work = lambda: _append(database)  # noqa: E731
    else:
        ledger = Ledger(path)
        work = lambda: _release(ledger)  # noqa: E731
    ready.wait()
    for _ in range(each):
        begin = time.monotonic()
        work()
        worst = max(worst, time.monotonic() - begin)
    waits.put(worst)


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
    """Race in rounds, in turn with bare appends: what else runs here slows down both."""
    path = folder / "shared.ledger"
    Ledger(path, budget=BUDGET)
    rates, waits, bare_rates = [], [], []
    for _ in range(ROUNDS):
        rate, worst = _race("ledger", path, writers, each // ROUNDS)
        rates.append(rate)
        waits.append(worst)
        bare_rates.append(_race("bare", folder / "shared.db", writers, each // ROUNDS)[0])
    if len(Ledger(path).entries()) != writers * (each // ROUNDS) * ROUNDS:  # all of them, verified
        raise SystemExit("entries are missing")
    # Of equally long rounds, the rate of all together is the harmonic mean.
    rate, bare = statistics.harmonic_mean(rates), statistics.harmonic_mean(bare_rates)
    return Together(rate, max(waits), bare)


def ratios(found: list[Took]) -> dict[str, tuple[float, float]]:
    """For each thing: wall time at the greatest length over the least's, and over a bare append."""
    least, most = min(took.entries for took in found), max(took.entries for took in found)
    wall = {(took.what, took.entries): took.wall for took in found}
    things = {took.what for took in found if (took.what, most) in wall} - {BARE}
    short = {what for what in things if what not in ("verify", "statement()", "tacit ledger show")}
    return {
        what: (wall[what, most] / wall[what, least], wall[what, most] / wall[BARE, most])
        for what in sorted(short)
    }


def met(found: list[Took], race: Together) -> bool:
    within = all(longer <= 3 and over <= 5 for longer, over in ratios(found).values())
    return within and race.worst_wait < 5 and race.rate >= race.bare_rate / 3


def show(found: list[Took], race: Together, console: Console) -> None:
    table = Table(title=f"Milliseconds: median wall time of {REPEATS} (CPU)")
    lengths = sorted({took.entries for took in found})
    table.add_column("entries")
    for length in lengths:
        table.add_column(f"{length:,}", justify="right")
    told = {(took.what, took.entries): took for took in found}
    for what in dict.fromkeys(took.what for took in found):
        cells = [told.get((what, length)) for length in lengths]
        table.add_row(what, *("" if cell is None else str(cell) for cell in cells))
    console.print(table)
    for what, (longer, over) in ratios(found).items():
        console.print(
            f"{what}: {longer:.2f} times of {lengths[0]:,} entries (goal 3), "
            f"{over:.2f} times of a bare append (goal 5)"
        )
    console.print(
        f"writers together: {race.rate:.0f} releases a second, worst wait {race.worst_wait:.2f} s "
        f"(goal 5); bare appends {race.bare_rate:.0f} a second, "
        f"{race.rate / race.bare_rate:.2f} of them (goal .33)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--entries", default="10,1000,100000")
    parser.add_argument("--whole", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    lengths = sorted(int(word) for word in given.entries.split(","))
    with tempfile.TemporaryDirectory() as folder:
        found = at_lengths(Path(folder), lengths, given.whole)
        race = together(Path(folder), given.writers, given.each)
    if given.json:
        print(json.dumps({"lengths": [asdict(took) for took in found], "together": asdict(race)}))
    else:
        show(found, race, Console())
    return 0 if met(found, race) else 1


if __name__ == "__main__":
    sys.exit(main())
