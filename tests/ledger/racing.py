"""Processes that race for one ledger and are killed: run as a script by test_race.py.

For every round a new ledger, several forked workers that create or open it and release from it
until it refuses, and SIGKILL for all of them after a random while. A worker writes each released
label, with the hash of its entry, to its own file after the release. What was found after each
round goes to standard output as JSON; the judgement is the test's.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from tacit.errors import BudgetExceeded
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, Plan

BUDGET = Budget(epsilon=0.8, delta=1e-5)
PLAN = Plan(GNMax(sigma=20.0), queries=1)
WORKERS = 3
BUDGET_REACHED, BROKEN = 0, 70


def work(ledger_path: Path, own: Path) -> int:
    """Release until refused; every label is noted, with its entry, once it is out."""
    notes = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger = Ledger(ledger_path, budget=BUDGET)
    while True:
        try:
            with ledger.release(PLAN, purpose=f"worker {own.name}") as grant:
                release = grant.release([[90, 5, 5]])
        except BudgetExceeded:
            return BUDGET_REACHED
        line = json.dumps({"entry": release.entry, "label": release.labels.tolist()})
        os.write(notes, (line + "\n").encode())


def start(ledger_path: Path, own: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os._exit(work(ledger_path, own))
    except BaseException as error:
        own.with_suffix(".error").write_text(f"{type(error).__name__}: {error}")
        os._exit(BROKEN)


def round_of(folder: Path, life: float) -> dict:
    """Let one round live for a while, or to its end if `life` is infinite; report what is left."""
    folder.mkdir()
    ledger_path = folder / "run.ledger"
    notes = [folder / f"{worker}.notes" for worker in range(WORKERS)]
    begin = time.monotonic()
    children = [start(ledger_path, own) for own in notes]
    if life != float("inf"):
        time.sleep(life)
        for child in children:
            os.kill(child, signal.SIGKILL)
    exits = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    lived = time.monotonic() - begin
    ledger = Ledger(ledger_path, budget=BUDGET)
    entries = ledger.entries()
    return {
        "lived": lived,
        "exits": exits,
        "errors": [file.read_text() for file in folder.glob("*.error")],
        "releases": [json.loads(line) for own in notes for line in complete_lines(own)],
        "head": ledger.verify(),
        "entries": [entry.hash for entry in entries],
        "costs": [entry.cost for entry in entries],
        "spent": ledger.spent(),
    }


def complete_lines(own: Path) -> list[str]:
    return own.read_text().splitlines() if own.exists() else []


def main(folder: Path, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    gc.freeze()  # a collection in a child would copy all pages of its parent
    long_life = 0.0
    for number in range(rounds):
        unharmed = number % 20 == 0
        life = float("inf") if unharmed else dice.uniform(0, long_life)
        found = round_of(folder / str(number), life)
        print(json.dumps(found))
        if unharmed:  # how long it takes on this machine, as busy as it is just now; the
            long_life = found["lived"] * 0.6  # rest is mostly waiting to be refused


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
