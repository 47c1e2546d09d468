"""Kill runs at random moments, start them again, and count what came of it.

Run `python -m benchmarks.killed_runs --points 100`. Each run is a process with all that
`tacit train` needs in memory already (a fork of this one), which gets SIGKILL at a random moment:
two of three at a uniformly random one of the time that an undisturbed run takes, every third
between the marker of a release and its file. Then the same command runs again. Half of the runs
have a ledger of their own, half share one that has room. What must hold, and is asserted:

- a finished run is not begun again, and no entry is ever gone;
- after a stored release the second start ends with a model that `tacit verify` accepts, and charges
  nothing that was charged before; training in noisy steps goes on without a charge;
- what was charged and lost stays spent, the second start says so (exit code 3) and charges nothing;
  `--again` then charges one new entry and ends with a model where the budget has room for it, and
  charges nothing where it has none.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console
from rich.table import Table

from tacit import Budget
from tacit.ledger import Entry, KeptReleases, Ledger, best_order
from tacit.runs import verify_run

ROWS = (
    'source = "csv:private.csv"\npublic_source = "csv:public.csv"\n[data.options]\ntarget = "y"\n'
    'classes = ["no", "yes"]\n[data.options.numeric]\na = [-1, 0, 1]\nb = [-1, 0, 1]'
)
SCANS = (
    'source = "npz:private.npz"\npublic_source = "npz:public.npz"\n[data.options]\n'
    'classes = ["background", "organ"]\ngrid = [20, 20]\nmasks_source = "npz:codec.npz"'
)
BINS = 'features = "bins"\n'
OWN = {
    "prototype": f"{BINS}n_prototypes = 20",
    "moments": BINS,
    "ridge": f"{BINS}n_landmarks = 20",
    "pate": f'{BINS}n_teachers = 20\nqueries = 6\nteacher = "kernel-ridge"',
    "knn": f"{BINS}k = 20\nqueries = 6\nrounds = 2",
    "dpsgd": f"{BINS}hidden = [32]\nepochs = 8\nbatch_size = 15\nn_records = 150",
    "gd": f"{BINS}epochs = 30\nn_records = 150",
    "mac": f"{BINS}hidden = [64]\nepochs = 4\nbatch_size = 15\nn_records = 150",
    "segmentation": (
        "n_teachers = 12\nqueries = 3\nrounds = 2\nstudent_steps = 4\nchannels = [4, 8]"
    ),
}
OUTCOMES = (
    *("nothing charged", "kept", "partly kept", "goes on in steps"),
    *("lost, paid again", "lost, no room", "finished"),
)
FEW, MANY, DELTA = 8.0, 50.0, 1e-5
REFUSED, SPENT = 2, 3


def write_scans(folder: Path) -> None:
    import numpy as np

    from tacit.masks import generated_volumes

    for name, count, seed in (("private", 24, 0), ("public", 6, 1), ("codec", 8, 2)):
        made = generated_volumes(count, (20, 20), n_classes=2, seed=seed, noise=0.1)
        assert made.masks is not None
        scans, masks = np.stack(made.images), np.stack(made.masks)
        np.savez(folder / f"{name}.npz", image=scans, label=masks)


def write_rows(folder: Path) -> None:
    draw = random.Random(0)
    for name, count, head in (("private", 150, "a,b,y"), ("public", 40, "a,b")):
        lines = [head]
        for _ in range(count):
            a, b = draw.gauss(0, 1), draw.gauss(0, 1)
            label = "yes" if a + b > 0 else "no"
            lines.append(f"{a:.6f},{b:.6f}" + (f",{label}" if name == "private" else ""))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def configuration(method: str, *, shared: bool) -> str:
    data = SCANS if method == "segmentation" else ROWS
    ledger = 'ledger = "patients.ledger"\n' if shared else ""
    return (
        f'method = "{method}"\n[data]\n{data}\n[privacy]\nepsilon = {FEW}\ndelta = 1e-5\n{ledger}'
        f"[{method}]\n{OWN[method]}\n"
    )


def prepared(folder: Path, method: str, *, shared: bool) -> Path:
    folder.mkdir()
    (folder / "run.toml").write_text(configuration(method, shared=shared), encoding="utf-8")
    write_scans(folder) if method == "segmentation" else write_rows(folder)
    if shared:
        order = best_order(Budget(FEW, DELTA), DELTA)
        place, budget = folder / "patients.ledger", Budget(MANY, DELTA)
        unit = "scan" if method == "segmentation" else "record"
        Ledger(place, budget=budget, accountant="rdp", order=order, unit=unit)
    return folder


def started(folder: Path, *more: str) -> int:
    """Fork a process that runs `tacit train` in a folder; return its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.chdir(folder)
        said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        from tacit.cli import main

        sys.argv = ["tacit", "train", "run.toml", "--out", "run", *more]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def ledger_in(folder: Path) -> Ledger | None:
    own = folder / "run" / "run.ledger"
    path = own if own.exists() else folder / "patients.ledger"
    return Ledger(path) if path.exists() else None


def entries(folder: Path) -> tuple[Entry, ...]:
    ledger = ledger_in(folder)
    return () if ledger is None else ledger.entries()


def paid(folder: Path) -> list[str]:
    return [entry.hash for entry in entries(folder) if entry.is_paid]


def kept(folder: Path) -> int:
    return len(KeptReleases(folder / "run" / "releases").stored())


def wait_for(marker: Path, process: int) -> None:
    """Wait until a release is about to be charged, or the process is over."""
    while not marker.exists():
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.0002)


def kill(folder: Path, seconds: float, window: float, number: int, *, aimed: bool) -> None:
    process = started(folder)
    if aimed:
        wait_for(folder / "run" / "releases" / f"{number}.begun", process)
        time.sleep(random.uniform(0, window))
    else:
        time.sleep(random.uniform(0, seconds))
    os.kill(process, signal.SIGKILL)
    ended(process)


def killed_once(folder: Path, releases: int, *, shared: bool) -> str:
    """Start a killed run again, check what must hold, and say which case it was."""
    before, stored = paid(folder), kept(folder)
    begun = {entry.about["entry"] for entry in entries(folder) if entry.kind == "began"}
    finished = (folder / "run" / "statement.json").exists()
    code = ended(started(folder))
    now = paid(folder)
    assert now[: len(before)] == before, "an entry is gone"
    if finished:
        assert (code, now) == (REFUSED, before), "a finished run was begun again"
        return "finished"
    if code == SPENT:
        assert len(before) > stored, "nothing was lost, and it says so"
        assert now == before, "a lost release was paid for again unasked"
        return lost(folder, before, releases - stored, shared=shared)
    assert code == 0, f"the second start ended with {code}: {(folder / 'said.txt').read_text()}"
    in_steps = len(before) > stored
    assert not in_steps or before[-1] in begun, "a lost release was not said"
    assert len(now) == releases, "something was paid for twice, or never"
    check(folder)
    if in_steps:
        return "goes on in steps"
    if stored == 0:
        return "nothing charged"
    return "kept" if stored == releases else "partly kept"


def lost(folder: Path, before: list[str], missing: int, *, shared: bool) -> str:
    """Pay once more, if there is room, and check that nothing else was charged."""
    code = ended(started(folder, "--again"))
    now = paid(folder)
    if shared:
        assert code == 0, f"--again ended with {code}, though the budget has room"
        assert len(now) == len(before) + missing, "--again did not pay for what was missing"
        check(folder)
        return "lost, paid again"
    assert (code, now) == (SPENT, before), "--again went beyond the budget"
    return "lost, no room"


def check(folder: Path) -> None:
    """Ask `tacit verify` of a run that finished; its paths are relative to its folder."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        broken = [each for each in verify_run("run") if not each.holds]
    finally:
        os.chdir(here)
    assert not broken, broken


def measured(folder: Path) -> tuple[float, float, int]:
    """Run undisturbed: how long it takes, how long a release is open, how many there are."""
    began, process = time.perf_counter(), started(folder)
    marker = folder / "run" / "releases" / "1.begun"
    wait_for(marker, process)
    opened = time.perf_counter()
    while marker.exists():
        time.sleep(0.0002)
    closed = time.perf_counter()
    assert ended(process) == 0, "an undisturbed run failed"
    check(folder)
    return time.perf_counter() - began, closed - opened, len(paid(folder))


def warm_up(methods: list[str]) -> None:
    """Run each method once in this process: its forks then have imported everything."""
    import torch

    from tacit.runs import RunConfig, run_config

    torch.set_num_threads(1)
    here = Path.cwd()
    for method in methods:
        with tempfile.TemporaryDirectory() as place:
            os.chdir(prepared(Path(place, "warm"), method, shared=False))
            run_config(RunConfig.read("run.toml"), "run")
            os.chdir(here)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--methods", default=",".join(OWN))
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    methods = options.methods.split(",")
    warm_up(methods)
    table = Table("method", "seconds", "killed", *OUTCOMES, title="Killed at a random moment")
    for method in methods:
        with tempfile.TemporaryDirectory() as place:
            whole = prepared(Path(place, "whole"), method, shared=False)
            seconds, window, releases = measured(whole)
            counts: collections.Counter[str] = collections.Counter()
            for point in range(options.points):
                random.seed(f"{options.seed} {method} {point}")
                shared, aimed = point % 2 == 1, point % 3 == 2
                folder = prepared(Path(place, str(point)), method, shared=shared)
                kill(folder, seconds, window, random.randint(1, releases), aimed=aimed)
                counts[killed_once(folder, releases, shared=shared)] += 1
        cells = [str(counts[outcome]) for outcome in OUTCOMES]
        table.add_row(method, f"{seconds:.1f}", str(options.points), *cells)
        print(method, f"{seconds:.2f} s", dict(counts), file=sys.stderr, flush=True)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
