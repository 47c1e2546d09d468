"""How processor time and memory grow with the number of rows, beside what a machine cannot beat.

`python -m benchmarks.growth --rows 1e4 1e5 1e6` writes a Parquet file of so many rows of 16 numbers
for each, fits each method that streams on it in a process of its own, and prints CPU-seconds, peak
memory and exponent (the slope of log time between two sizes), beside one bare reading of its bytes,
one bare pass over its batches and one bare matrix product of the same shape. `--workers 2 --memory
1GiB` does it on a local Dask cluster, of which one worker is killed on the way, and compares the
releases with those of one process where the file is small enough. Files lie under --folder and are
removed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 16
GROUP = 2**17
METHODS = ("prototype", "moments", "ridge", "knn", "pate", "gd", "dpsgd")
"""Those that go through a table; the last two hold it whole, and take as many steps as n mu bears.
"""


def write(path: Path, rows: int) -> None:
    """Write rows of which a label can be learned, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, rows, GROUP):
        draw = np.random.default_rng(start)
        X = draw.normal(size=(min(GROUP, rows - start), COLUMNS))
        columns = {f"x{place}": X[:, place] for place in range(COLUMNS)}
        table = pa.table({**columns, "label": (X[:, 0] + X[:, 1] > 0).astype(np.int8)})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def public() -> np.ndarray:
    return np.random.default_rng(2**40).normal(size=(1000, COLUMNS))


def model(name: str, rows: int = 10**6) -> Any:
    from tacit import (
        DescentClassifier,
        DPSGDClassifier,
        InsecureNoise,
        MomentClassifier,
        PATEClassifier,
        PrivateKNNClassifier,
        PrototypeClassifier,
        ResidualRidgeClassifier,
    )

    shared: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-11,
        "classes": [0, 1],
        "noise": InsecureNoise(0),
        "random_state": 0,
    }
    if name == "prototype":
        return PrototypeClassifier(n_prototypes=100, **shared)
    if name == "knn":
        return PrivateKNNClassifier(k=200, queries=100, **shared)
    if name == "pate":
        return PATEClassifier(n_teachers=100, queries=100, **shared)
    if name == "moments":
        return MomentClassifier(**shared)
    if name in ("gd", "dpsgd"):
        own: dict[str, Any] = {"hidden": ()} if name == "dpsgd" else {}
        kind: Any = DPSGDClassifier if name == "dpsgd" else DescentClassifier
        return kind(n_records=rows, **own, **shared)
    return ResidualRidgeClassifier(n_landmarks=100, **shared)


def released(fitted: Any) -> list[np.ndarray]:
    releases = [fitted.table_] if hasattr(fitted, "table_") else fitted.releases_
    return [np.asarray(release.values) for release in releases]


def bare_bytes(path: Path, _: int) -> None:
    """Read the file and do nothing with it: what disk and memory take."""
    with path.open("rb", buffering=0) as file:
        while file.read(2**20):
            pass


def bare_pass(path: Path, _: int) -> None:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(2**14, use_threads=False):
        np.column_stack([column.to_numpy() for column in batch.columns]).sum()


def bare_product(rows: int) -> None:
    """Multiply as many rows with 16 x 16 numbers, as the least that a moment could do."""
    block = np.random.default_rng(0).normal(size=(2**14, COLUMNS))
    for _ in range(max(1, rows // len(block))):
        block.T @ block


def measured(work: Any) -> dict[str, float]:
    """Run work in a process of its own; return CPU-seconds and the peak of memory, in MiB."""
    receive, send = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_alone, args=(work, send))
    process.start()
    send.close()
    found: dict[str, float] = receive.recv()
    process.join()
    return found


def _alone(work: tuple[Any, ...], send: Any) -> None:
    kind, *rest = work
    if kind in METHODS:  # imports, and whatever is done once, are not growth
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing is learned of these
            model(kind).fit(public()[:400], np.arange(400) % 2, X_public=public()[400:])
    else:
        import pyarrow.parquet  # noqa: F401
    before, began = time.process_time(), time.perf_counter()
    if kind == "bytes":
        bare_bytes(*rest)
    elif kind == "pass":
        bare_pass(*rest)
    elif kind == "product":
        bare_product(*rest)
    else:
        model(kind, rest[1]).fit(str(rest[0]), "label", X_public=public())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    send.send(
        {
            "cpu": time.process_time() - before,
            "wall": time.perf_counter() - began,
            "peak": peak,
        }
    )


def slope(size: float, cpu: float, larger: float, more: float) -> float:
    """Return the exponent between two sizes and what they took."""
    return math.log(max(more, 1e-3) / max(cpu, 1e-3)) / math.log(larger / size)


def growth(sizes: list[int], methods: list[str], folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for rows in sizes:
        path = folder / "rows.parquet"
        write(path, rows)
        for name in ("bytes", "pass", "product", *methods):
            work = (name, rows) if name == "product" else (name, path, rows)
            told = measured(work)
            earlier = [one for one in found if one["what"] == name]
            exponent = math.nan
            if earlier:
                exponent = slope(earlier[-1]["rows"], earlier[-1]["cpu"], rows, told["cpu"])
            line = {"what": name, "rows": rows, **told, "exponent": exponent}
            found.append(line)
            print(
                f"{name:10} {rows:>12,} rows  {told['cpu']:9.2f} CPU-s  {told['peak']:7.0f} MiB  "
                f"{1e6 * told['cpu'] / rows:7.2f} us a row  exponent {exponent:.2f}",
                flush=True,
            )
        path.unlink()
    return found


def on_a_cluster(rows: int, name: str, workers: int, memory: str, folder: Path) -> dict[str, Any]:
    """Fit on Dask workers with a limit of memory each, and kill one of them on the way."""
    import dask
    from distributed import Client, LocalCluster

    from tacit.datasets import open_table

    path = folder / "rows.parquet"
    write(path, rows)
    dask.config.set({"distributed.worker.memory.terminate": 0.95})
    how: dict[str, Any] = {"dashboard_address": None, "memory_limit": memory}
    peaks: dict[str, float] = {}
    killed: list[str] = []
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, **how) as cluster,
        Client(cluster) as client,
    ):
        stop = threading.Event()
        watching = threading.Thread(target=_watch, args=(client, peaks, killed, stop))
        watching.start()
        began, before = time.perf_counter(), time.process_time()
        rows_there = open_table(str(path), target="label", classes=[0, 1], executor=client)
        fitted = model(name).fit(rows_there, X_public=public())
        took, own = time.perf_counter() - began, time.process_time() - before
        stop.set()
        watching.join()
    told = {"what": name, "rows": rows, "wall": took, "own_cpu": own, "workers": workers}
    told |= {"peak_of_a_worker": max(peaks.values(), default=math.nan), "killed": len(killed)}
    told["own_peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    if rows <= 10**6:
        alone = model(name).fit(str(path), "label", X_public=public())
        pairs = zip(released(fitted), released(alone), strict=True)
        told["same_bits"] = all((one == other).all() for one, other in pairs)
    path.unlink()
    return told


def _watch(client: Any, peaks: dict[str, float], killed: list[str], stop: threading.Event) -> None:
    """Note how much memory workers hold, twice a second; kill the first of them once."""
    while not stop.wait(0.5):
        for address, about in client.scheduler_info(n_workers=-1)["workers"].items():
            size = about.get("metrics", {}).get("memory", 0) / 2**20
            peaks[address] = max(peaks.get(address, 0.0), size)
        busy = [] if killed else [one for one, tasks in client.processing().items() if tasks]
        if busy:
            os.kill(_pid(client, busy[0]), 9)
            killed.append(busy[0])


def _pid(client: Any, address: str) -> int:
    return int(client.run(os.getpid, workers=[address])[address])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=[1e4, 1e5, 1e6])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--workers", type=int, default=0, help="Dask workers; 0: one process")
    parser.add_argument("--memory", default="1GiB", help="limit of each worker")
    parser.add_argument("--folder", default=None, help="where files are written for a while")
    parser.add_argument("--json", default=None, help="also write what was measured there")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tacit-growth-", dir=told.folder))
    sizes = [int(rows) for rows in told.rows]
    try:
        if told.workers:
            found = [
                on_a_cluster(rows, name, told.workers, told.memory, folder)
                for rows in sizes
                for name in told.methods
            ]
            for line in found:
                print(json.dumps(line))
        else:
            found = growth(sizes, told.methods, folder)
    finally:
        shutil.rmtree(folder)
    if told.json:
        Path(told.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.exit(main())
