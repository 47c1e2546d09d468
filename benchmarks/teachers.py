"""What teachers cost: counting votes at scale, curves, executors, and convolutional teachers.

Run `python -m benchmarks.teachers` (or with `--json`, `--only scale,curves,executors,cluster,cnn`).
Every measurement runs in a process of its own, with its peak memory. Convolutional teachers are few
here and scaled to 250; their accuracy needs `--data DIR` (or TACIT_DATA), a directory that holds
`mnist/`. Wall times are those of this machine as it was: the load is printed beside them. Goals:
5,000 x 25,000 x 150 votes counted, priced and released in under 4 s and 1 GiB; a killed Dask worker
changes no bit.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measured import in_a_process

RUNS = "benchmarks.teacher_runs"
SCALE = {"teachers": 5_000, "queries": 25_000, "classes": 150}
BASE = {"teachers": 1_000, "records": 60_000, "queries": 1_000}
GRID = {
    "teachers": (250, 4_000),
    "records": (15_000, 30_000),
    "queries": (100, 9_000),
}
CNN_TEACHERS, CNN_SCALED_TO = 8, 250
FAR = {"teachers": 5_000, "records": 65_000_000, "queries": 25_000}
"""PATE 2018's Glyph setting: 65 million records, 13,000 a teacher."""


def scale() -> dict[str, Any]:
    found = in_a_process(RUNS, "count_price_release", **SCALE)
    seconds = sum(found["wall"].values())
    return {
        **found,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(sum(found["cpu"].values()), 3),
        "met": seconds < 4 and found["peak_mib"] < 1024,
    }


def curves() -> list[dict[str, Any]]:
    points = [("", dict(BASE))]
    points += [(name, {**BASE, name: value}) for name in GRID for value in GRID[name]]
    return [
        {"varied": name, **point, **in_a_process(RUNS, "kernel_ridge", **point)}
        for name, point in points
    ]


def executors() -> dict[str, Any]:
    case = {**BASE, "queries": 9_000}
    return {**case, **in_a_process(RUNS, "executors", **case, workers=processors())}


def cluster() -> dict[str, Any]:
    case = {"teachers": 400, "records": 24_000, "queries": 9_000}
    return {**case, **in_a_process(RUNS, "dask_with_a_kill", **case)}


def cnn(data: str | None) -> dict[str, Any]:
    found = in_a_process(
        "benchmarks.cnn_teachers",
        "compare",
        teachers=CNN_TEACHERS,
        workers=processors(),
        data=data,
        rounds=2,
    )
    plain, ours = found["ways"]["plain loop"], found["ways"]["tacit, local"]
    alone = found["ways"]["plain loop, one thread"]
    return {
        **found,
        "wall_ratio": round(plain["seconds"] / ours["seconds"], 2),
        "idle_ratio": round(processors() * alone["cpu"] / ours["cpu"], 2),
        "speed_for_5x": round(5 * found["gflop"] / alone["cpu"] / processors(), 1),
        "plain_250": round(CNN_SCALED_TO * plain["seconds"], 1),
        "tacit_250": round(CNN_SCALED_TO * ours["seconds"] + found["start_up"], 1),
        "data": "MNIST" if data else "noise",
    }


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def show_scale(found: dict[str, Any]) -> Table:
    size = " x ".join(f"{SCALE[name]:,}" for name in ("teachers", "queries", "classes"))
    result = _table(f"Votes of {size} (uint8, Theorem 6)", "step", "wall s", "CPU-s")
    for name, seconds in found["wall"].items():
        result.add_row(name, f"{seconds:.2f}", f"{found['cpu'][name]:.2f}")
    result.add_row("all (goal: < 4 s)", f"{found['seconds']:.2f}", f"{found['cpu_seconds']:.2f}")
    result.add_row("peak MiB (goal: < 1,024)", f"{found['peak_mib']:.0f}", "")
    result.add_row("of which before counting", f"{found['predictions_mib']:.0f}", "")
    result.add_row("met", "yes" if found["met"] else "no", "")
    return result


def show_curves(points: list[dict[str, Any]]) -> Table:
    names = ("varied", "teachers", "records", "queries", "wall s", "CPU-s", "ms a teacher", "MiB")
    result = _table(
        "Kernel ridge teachers, 768 features, one thread; MiB beyond the inputs", *names
    )
    for point in points:
        working = point["peak_mib"] - point["inputs_mib"]
        counts = [f"{point[name]:,}" for name in ("teachers", "records", "queries")]
        each = 1e3 * point["cpu"] / point["teachers"]
        times = [f"{point['wall']:.2f}", f"{point['cpu']:.2f}", f"{each:.2f}", f"{working:.0f}"]
        result.add_row(point["varied"] or "-", *counts, *times)
    return result


def show_executors(found: dict[str, Any]) -> Table:
    counts = ", ".join(f"{found[name]:,} {name}" for name in ("teachers", "records", "queries"))
    result = _table(f"{counts}: wall seconds", "executor", "s")
    for name, seconds in found["wall"].items():
        result.add_row(name, f"{seconds:.2f}")
    result.add_row("same bits", "yes" if found["equal"] else "NO")
    return result


def show_cluster(found: dict[str, Any]) -> Table:
    result = _table("Two Dask workers, one killed with SIGKILL while training", "", "")
    result.add_row("wall s", f"{found['wall']:.2f}")
    for name in ("killed_while_training", "equal"):
        result.add_row(name.replace("_", " "), "yes" if found[name] else "NO")
    return result


def show_cnn(found: dict[str, Any]) -> Table:
    title = f"Convolutional teachers of 240 images, 80 steps ({found['data']}), for each teacher"
    result = _table(title, "way", "wall s", "CPU-s", "times faster, wall", "accuracy %")
    plain = found["ways"]["plain loop"]["seconds"]
    for name, way in found["ways"].items():
        ratio, accuracy = plain / way["seconds"], f"{way['accuracy']:.1f}"
        result.add_row(name, f"{way['seconds']:.3f}", f"{way['cpu']:.3f}", f"{ratio:.2f}", accuracy)
    least = found["floor"]
    result.add_row("floor: products alone", f"{least:.3f}", "", f"{plain / least:.2f}", "")
    result.caption = (
        f"By CPU-seconds, tacit on {processors()} idle processors is {found['idle_ratio']} times "
        f"as fast as the loop on one thread. Five times would need {found['speed_for_5x']} GFLOP/s "
        f"a core from start to end ({found['gflop']} GFLOP a teacher); this machine's best matrix "
        f"product reaches {found['gflop_per_second']}. Scaled to {CNN_SCALED_TO} teachers, wall: "
        f"plain {found['plain_250']} s, tacit {found['tacit_250']} s with the workers' start."
    )
    return result


def extrapolated(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Cost of 65 million records from the measured arithmetic a second, with one thread a worker.

    Kernel ridge with n records a teacher, d features, q queries: n^2 d and q n d for the kernels
    and n^3/3 for the system, each times 2. The largest measured point gives the speed.
    """
    largest = max(points, key=lambda point: point["cpu"])
    speed = _work(largest) / largest["cpu"]
    each = _work(FAR) / FAR["teachers"] / speed
    n = FAR["records"] // FAR["teachers"]
    return {
        "gflop_per_second": round(speed / 1e9, 1),
        "cpu_seconds_a_teacher": round(each, 1),
        "cpu_hours": round(each * FAR["teachers"] / 3600, 1),
        "hours_on_64_workers": round(each * FAR["teachers"] / 3600 / 64, 2),
        "gib_a_worker": round((2 * n * n * 8 + FAR["queries"] * 768 * 4 + n * 768 * 12) / 2**30, 1),
    }


def _work(case: dict[str, Any], features: int = 768) -> float:
    n = case["records"] / case["teachers"]
    return case["teachers"] * 2 * (n * n * features + case["queries"] * n * features + n**3 / 3)


def show_extrapolated(found: dict[str, Any]) -> Table:
    title = "65 million records, 5,000 teachers of 13,000, 25,000 queries (extrapolated)"
    result = _table(title, "quantity", "value")
    for name, value in found.items():
        result.add_row(name.replace("_", " "), f"{value:,}")
    return result


def _table(title: str, *headings: str) -> Table:
    result = Table(title=title)
    for place, heading in enumerate(headings):
        result.add_column(heading, justify="right" if place else "left")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument("--only", default="scale,curves,executors,cluster,cnn")
    parser.add_argument("--data", default=os.environ.get("TACIT_DATA"))
    options = parser.parse_args()
    parts: dict[str, tuple[Callable[[], Any], Callable[[Any], Table]]] = {
        "scale": (scale, show_scale),
        "curves": (curves, show_curves),
        "executors": (executors, show_executors),
        "cluster": (cluster, show_cluster),
        "cnn": (lambda: cnn(options.data), show_cnn),
    }
    console, found = Console(), {}
    for name in options.only.split(","):
        measure, show = parts[name]
        found[name] = measure()
        if not options.json:
            console.print(show(found[name]))
    if "curves" in found:
        found["extrapolated"] = extrapolated(found["curves"])
        if not options.json:
            console.print(show_extrapolated(found["extrapolated"]))
    found["load"] = [round(load, 2) for load in os.getloadavg()]
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        console.print(f"{processors()} processors, load {found['load']}")


if __name__ == "__main__":
    main()
