"""300 rounds of processes that race for one ledger while they are killed at random moments."""

from __future__ import annotations

import json
import math
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from ledger_shared import gaussian_delta

ROUNDS = 300
SIGKILLED = -9
COST = 2 / 20.0**2  # of one query, mu^2
EPSILON, DELTA = 0.8, 1e-5


def raced(folder: Path) -> list[dict]:
    """In a process of its own with one thread, so that forking is safe and cheap."""
    seed = secrets.randbits(32)
    command = [
        sys.executable,
        str(Path(__file__).with_name("racing.py")),
        str(folder),
        str(ROUNDS),
        str(seed),
    ]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
        env={**os.environ, **single},
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    print(f"seed {seed}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def most_entries() -> int:
    """How many entries the budget holds, from the exact Gaussian curve."""
    count = 1
    while gaussian_delta(EPSILON, math.sqrt((count + 1) * COST)) <= DELTA:
        count += 1
    return count


def the_file_opens_every_time(rounds):
    assert len(rounds) == ROUNDS
    assert all(one["head"] == one["entries"][-1] for one in rounds if one["entries"])


def no_worker_fails_by_anything_but_the_budget_or_the_kill(rounds):
    assert [error for one in rounds for error in one["errors"]] == []
    assert {code for one in rounds for code in one["exits"]} <= {0, SIGKILLED}


def no_entry_is_beyond_the_budget(rounds, most):
    for one in rounds:
        assert len(one["entries"]) <= most
        assert one["costs"] == [pytest.approx(COST)] * len(one["entries"])
        assert one["spent"] <= EPSILON


def workers_that_live_reach_the_budget_exactly(rounds, most):
    unharmed = [one for one in rounds if set(one["exits"]) == {0}]
    assert len(unharmed) >= ROUNDS // 20
    for one in unharmed:
        assert len(one["entries"]) == most
        assert len(one["releases"]) == len(one["entries"])


def there_is_no_released_label_without_its_own_entry(rounds):
    for one in rounds:
        paid = [release["entry"] for release in one["releases"]]
        assert len(set(paid)) == len(paid)
        assert set(paid) <= set(one["entries"])


def the_kills_came_at_interesting_moments(rounds, most):
    """The race proves little if everybody was killed too early or too late."""
    killed = [one for one in rounds if SIGKILLED in one["exits"]]
    half_way = [one for one in killed if 0 < len(one["entries"]) < most]
    charged_only = [one for one in killed if len(one["releases"]) < len(one["entries"])]
    assert len(half_way) > 20
    assert len(charged_only) > 5
    assert len(killed) > ROUNDS // 4


def test_the_budget_is_never_exceeded(tmp_path):
    """One test: the race takes as long as all others of ledgers, and is run once."""
    rounds, most = raced(tmp_path), most_entries()
    the_file_opens_every_time(rounds)
    no_worker_fails_by_anything_but_the_budget_or_the_kill(rounds)
    no_entry_is_beyond_the_budget(rounds, most)
    workers_that_live_reach_the_budget_exactly(rounds, most)
    there_is_no_released_label_without_its_own_entry(rounds)
    the_kills_came_at_interesting_moments(rounds, most)
