"""How processor time and memory grow with teachers, public inputs and classes.

`python -m benchmarks.growth_axes --axis teachers --sizes 10 100 1000` fits in a process of its own
for each size, on rows in memory, and prints CPU-seconds, peak memory and exponent (the slope of log
time between two sizes). `--seconds` is how long one of them may take; what takes longer is said.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.growth import COLUMNS, slope
from benchmarks.measured import peak_mib

ROWS = 10**5


def settings(axis: str, size: int) -> dict[str, int]:
    """Return how many rows, teachers, public inputs and classes there are."""
    return {"rows": ROWS, "teachers": 100, "public": 1000, "classes": 2} | {axis: size}


def fit(axis: str, size: int, method: str) -> None:
    import tacit
    from tacit.methods import Checks

    about = settings(axis, size)
    draw = np.random.default_rng(0)
    X, public = (draw.normal(size=(about[name], COLUMNS)) for name in ("rows", "public"))
    # Equal bands of the first number: every class is there, however many there are.
    y = np.argsort(np.argsort(X[:, 0])) * about["classes"] // about["rows"]
    shared: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-11,
        "classes": range(about["classes"]),
        "noise": tacit.InsecureNoise(0),
        "random_state": 0,
        "checks": Checks(allow_hopeless=True),  # of a thousand classes little is learned
    }
    kinds: dict[str, Any] = {
        "pate": lambda: tacit.PATEClassifier(n_teachers=about["teachers"], queries=100, **shared),
        "knn": lambda: tacit.PrivateKNNClassifier(k=200, queries=100, **shared),
        "prototype": lambda: tacit.PrototypeClassifier(n_prototypes=100, **shared),
        "moments": lambda: tacit.MomentClassifier(**shared),
        "ridge": lambda: tacit.ResidualRidgeClassifier(n_landmarks=100, **shared),
        "gd": lambda: tacit.DescentClassifier(n_records=about["rows"], **shared),
        "dpsgd": lambda: tacit.DPSGDClassifier(n_records=about["rows"], hidden=(), **shared),
    }
    kinds[method]().fit(X, y, X_public=public)


def _alone(axis: str, size: int, method: str, seconds: int, send: Any) -> None:
    import tacit.methods  # noqa: F401 - what is imported once is no growth

    warnings.simplefilter("ignore")  # that so few teachers tell little
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    before = time.process_time()
    fit(axis, size, method)
    send.send((time.process_time() - before, peak_mib()))


def measured(axis: str, size: int, method: str, seconds: int) -> tuple[float, float] | None:
    """Return CPU-seconds and the peak of memory in MiB; None of what takes longer than it may."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_alone, args=(axis, size, method, seconds, send))
    process.start()
    send.close()
    try:
        found: tuple[float, float] = receive.recv()
    except EOFError:
        return None
    finally:
        process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axis", choices=("teachers", "public", "classes"), required=True)
    parser.add_argument("--sizes", nargs="+", type=float, required=True)
    parser.add_argument("--methods", nargs="+", default=["pate"])
    parser.add_argument("--seconds", type=int, default=300, help="of processor time, for each")
    told = parser.parse_args()
    for method in told.methods:
        before: tuple[int, float] | None = None
        for size in map(int, told.sizes):
            found = measured(told.axis, size, method, told.seconds)
            line = f"{method:10} {size:>10,} {told.axis}"
            if found is None:
                print(f"{line}  more than {told.seconds} CPU-s", flush=True)
                break
            cpu, peak = found
            exponent = math.nan if before is None else slope(*before, size, cpu)
            before = (size, cpu)
            print(f"{line}  {cpu:8.2f} CPU-s  {peak:6.0f} MiB  exponent {exponent:.2f}", flush=True)


if __name__ == "__main__":
    main()
