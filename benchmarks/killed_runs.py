"""Kill runs at random moments, start them again, and count what came of it.

Run `python -m benchmarks.killed_runs --methods pate,knn --points 100`. Each run is a process of
`tacit train` on scikit-learn's digits that gets SIGKILL at a uniformly random moment of the time
that an undisturbed run takes; then the same command runs again. What must hold, and is asserted:
a release that was stored is never paid for again, one that was paid for and lost stays spent and is
said (exit code 3), and otherwise the second start ends with a model that `tacit verify` accepts.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tacit.ledger import KeptReleases, Ledger

OWN = {
    "pate": 'n_teachers = 40\nqueries = 10\nteacher = "kernel-ridge"\nfeatures = "digits"',
    "knn": 'k = 40\nqueries = 10\nrounds = 2\nfeatures = "digits"',
    "prototype": 'n_prototypes = 40\nfeatures = "digits"',
    "moments": 'features = "digits"',
    "ridge": 'n_landmarks = 40\nfeatures = "digits"',
    "dpsgd": "hidden = [64]\nepochs = 2\nbatch_size = 250\nn_records = 1000",
    "mac": "hidden = [64]\nepochs = 2\nbatch_size = 250\nn_records = 1000",
}
TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")
OUTCOMES = ("nothing charged", "kept", "partly kept", "lost", "finished")


def configuration(method: str) -> str:
    return (
        f'method = "{method}"\n[data]\nsource = "digits"\nprivate = 1000\npublic = 200\n'
        f"[privacy]\nepsilon = 2.0\ndelta = 1e-5\n[{method}]\n{OWN[method]}\n"
    )


def start(folder: Path) -> subprocess.Popen[bytes]:
    command, quiet = [*TACIT, "train", "run.toml", "--out", "run"], subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet)


def paid(run: Path) -> list[str]:
    ledger = run / "run.ledger"
    entries = Ledger(ledger).entries() if ledger.exists() else ()
    return [entry.hash for entry in entries if entry.is_paid]


def killed_once(folder: Path, after: float, releases: int) -> str:
    """Kill a run, start it again, check what must hold, and say which case it was."""
    run, process = folder / "run", start(folder)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before, kept = paid(run), len(KeptReleases(run / "releases").stored())
    finished = (run / "statement.json").exists()
    code = start(folder).wait()
    now = paid(run)
    assert now[: len(before)] == before, "an entry is gone"
    if finished:
        assert (code, now) == (2, before), "a finished run was begun again"
        return "finished"
    if len(before) > kept:
        assert (code, now) == (3, before), "a lost release was paid for again, or not said"
        return "lost"
    assert code == 0, f"the second start ended with {code}"
    assert len(now) == releases, "something was paid for twice"
    told = subprocess.run(
        [*TACIT, "verify", "run", "--json"], cwd=folder, capture_output=True, check=False
    )
    assert json.loads(told.stdout)["verified"], told.stdout
    if kept == 0:
        return "nothing charged"
    return "kept" if kept == releases else "partly kept"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--methods", default=",".join(OWN))
    parser.add_argument("--points", type=int, default=100)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    table = Table("method", "seconds", "killed", *OUTCOMES, title="Killed at a random moment")
    for method in options.methods.split(","):
        with tempfile.TemporaryDirectory() as place:
            whole = Path(place, "whole")
            whole.mkdir()
            (whole / "run.toml").write_text(configuration(method), encoding="utf-8")
            began = time.perf_counter()
            assert start(whole).wait() == 0
            seconds = time.perf_counter() - began
            counts: collections.Counter[str] = collections.Counter()
            for point in range(options.points):
                folder = Path(place, str(point))
                folder.mkdir()
                (folder / "run.toml").write_text(configuration(method), encoding="utf-8")
                moment = random.uniform(0, seconds)
                counts[killed_once(folder, moment, len(paid(whole / "run")))] += 1
        cells = [str(counts[outcome]) for outcome in OUTCOMES]
        table.add_row(method, f"{seconds:.1f}", str(options.points), *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
