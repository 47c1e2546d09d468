"""Full disks and read-only directories: nothing is released, nothing is spent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap

import pytest

from tacit.errors import (
    LedgerUnavailable,
)
from tacit.ledger import Budget, Ledger, store
from tacit.mechanisms import GNMax, Plan

BUDGET = Budget(2.0, 1e-5)


# Full disks and read-only directories

SCRIPT = """
import os, resource, signal, sys
from pathlib import Path
from tacit.errors import LedgerUnavailable
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, Plan

path = Path(sys.argv[1])
plan = Plan(GNMax(40.0), queries=1)
def attempt(purpose):
    try:
        with ledger.release(plan, purpose=purpose) as grant:
            print("RELEASED", grant.release([[9, 1]]).labels)
    except LedgerUnavailable as error:
        print("REFUSED", error)
"""


def run(body: str, folder: str) -> str:
    command = [sys.executable, "-c", SCRIPT + textwrap.dedent(body), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_read_only_directory_is_read_and_not_released_from():
    """As root permissions mean nothing, so the script becomes nobody first."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/run.ledger", budget=BUDGET)
        with ledger.release(Plan(GNMax(40.0), queries=1), purpose="before") as grant:
            grant.release([[9, 1]])
        os.chmod(folder, 0o555)
        os.chmod(f"{folder}/run.ledger", 0o444)
        output = run(
            """
            import tacit.noise, tacit.privacy, scipy.special
            from mpmath import libmp
            if os.geteuid() == 0:
                os.setgid(65534), os.setuid(65534)
            ledger = Ledger(path / "run.ledger")
            print("READ", len(ledger), ledger.verify() == ledger.head, ledger.spent() > 0)
            attempt("test")
            try:
                Ledger(path / "new.ledger", budget=Budget(1.0, 1e-5))
            except LedgerUnavailable:
                print("NOT CREATED")
            print("AFTER", len(ledger), sorted(os.listdir(path)))
            """,
            folder,
        )
        os.chmod(folder, 0o755)
    lines = output.splitlines()
    assert lines[0] == "READ 1 True True"
    assert lines[1].startswith("REFUSED Cannot write to the ledger")
    assert lines[2:] == ["NOT CREATED", "AFTER 1 ['run.ledger', 'run.ledger-head']"]


def test_a_log_that_a_read_only_place_cannot_merge_is_not_ignored():
    """A killed writer left its entry in the log: a reader must count it or say that it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        Ledger(f"{folder}/run.ledger", budget=BUDGET)
        run(
            """
            import sqlite3
            ledger = Ledger(path / "run.ledger")
            holder = sqlite3.connect(path / "run.ledger")
            holder.execute("SELECT * FROM entries").fetchall()
            attempt("in the log")
            os._exit(0)
            """,
            folder,
        )
        os.unlink(f"{folder}/run.ledger-shm")
        os.chmod(folder, 0o555)
        for name in os.listdir(folder):
            os.chmod(f"{folder}/{name}", 0o444)
        output = run(
            """
            import tacit.noise, tacit.privacy, scipy.special
            from tacit.ledger.store import Store
            if os.geteuid() == 0:
                os.setgid(65534), os.setuid(65534)
            try:
                print(len(Ledger(path / "run.ledger")))
            except LedgerUnavailable:
                print("UNAVAILABLE")
            """,
            folder,
        )
        os.chmod(folder, 0o755)
        assert output.split() in (["1"], ["UNAVAILABLE"])
        assert len(Ledger(f"{folder}/run.ledger")) == 1


def test_a_full_disk_releases_nothing_and_spends_nothing(tmp_path):
    Ledger(tmp_path / "run.ledger", budget=BUDGET)
    output = run(
        """
        ledger = Ledger(path / "run.ledger")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = (path / "run.ledger").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        attempt("x" * 100_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        print("SPENT", len(ledger), ledger.spent())
        attempt("there is space again")
        print("SPENT", len(ledger))
        """,
        str(tmp_path),
    )
    lines = output.splitlines()
    assert lines[0].startswith("REFUSED Cannot write to the ledger")
    assert lines[1] == "SPENT 0 0.0"
    assert lines[2].startswith("RELEASED")
    assert lines[3] == "SPENT 1"


def test_a_full_database_releases_nothing_and_spends_nothing(ledger, plan, monkeypatch):
    honest = store._migrate

    def filled(database):
        honest(database)
        pages = database.execute("PRAGMA page_count").fetchone()["page_count"]
        database.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(store, "_migrate", filled)
    with (
        pytest.raises(LedgerUnavailable, match="full"),
        ledger.release(plan, purpose="x" * 100_000),
    ):
        pytest.fail("a grant was given")
    assert (len(ledger), ledger.spent()) == (0, 0.0)


def test_a_failing_commit_releases_nothing_and_spends_nothing(ledger, plan, monkeypatch):
    class Failing(sqlite3.Connection):
        def execute(self, statement, *parameters):
            if statement in ("COMMIT", "ROLLBACK"):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(statement, *parameters)

    honest = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: honest(*a, **k, factory=Failing))
        with (
            pytest.raises(LedgerUnavailable, match="disk is full"),
            ledger.release(plan, purpose="test"),
        ):
            pytest.fail("a grant was given")
    assert (len(ledger), ledger.spent()) == (0, 0.0)
