"""High-dimensional PATE on masks: the papers' figures, the improvements, and a large volume.

Run `python -m benchmarks.segmentation --data DIR` (or TACIT_DATA), where DIR holds
`hippocampus_msd/hippocampus_48x64x48.npz`; `--only students,table` (of curves, table, students,
classes, generated, large, pictures) for parts, `--json` for all digits, `--images DIR` for
pictures. Teachers are perfect (the true mask of the query). Goals at delta 1e-5: Dice .87 for
(50 teachers, 50 queries, epsilon 8), .90 for (100, 50, 8), .88 for (250, 20, 1); 8,928,000 voxels
under 4 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.measured import in_a_process
from benchmarks.segmentation_curves import components, reconstruction
from benchmarks.segmentation_data import Task, generated, hippocampus, shown
from benchmarks.segmentation_figures import (
    draw_components,
    draw_dice,
    draw_releases,
    draw_students,
)
from benchmarks.segmentation_schemes import Bench, Cell, measured
from benchmarks.segmentation_students import students

TEACHERS, EPSILONS = (8, 20, 50, 100, 250), (1.0, 8.0)
DRAWS = {10: 10, 20: 5, 50: 4, 100: 3}
"""Queries of a release, and how many releases; all 100 queries are asked equally often."""
FEWER_DRAWS = {10: 10, 20: 5, 50: 2, 100: 2}
GOALS = {(50, 50, 8.0): 0.87, (100, 50, 8.0): 0.90, (250, 20, 1.0): 0.88}
PARTS = ("curves", "table", "students", "classes", "generated", "large", "pictures")
LARGE = {"teachers": 50, "public": 8, "n_components": 32}


def table(bench: Bench, draws: dict[int, int]) -> list[dict[str, Any]]:
    rows = []
    for count, epsilon, teachers in product(draws, EPSILONS, TEACHERS):
        found = measured(bench, Cell(teachers, count, epsilon), draws[count])
        error = max(one[1] for one in found.values())
        dices = {name: value for name, (value, _) in found.items()}
        rows.append({"epsilon": epsilon, "N": count, "K": teachers, **dices, "error": error})
    return rows


def large() -> list[dict[str, Any]]:
    rows = []
    for kind in ("naive", "block"):
        found = in_a_process("benchmarks.segmentation_large", "volume", kind=kind, **LARGE)
        seconds = {f"{name} (s)": value for name, value in found.pop("wall").items()}
        cpu = sum(found.pop("cpu").values())
        rows.append({"codec": kind, **found, **seconds, "CPU (s)": cpu})
    return rows


def curves(tasks: list[Task]) -> dict[str, Any]:
    return {
        "components": {task.name: components(task) for task in tasks},
        "reconstruction": {task.name: reconstruction(task) for task in tasks},
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    parts, found = options.only.split(","), {}
    task = hippocampus(options.data)
    images = options.images
    if "curves" in parts:
        found["curves"] = curves([task, generated()])
        draw_components(found["curves"]["components"], images / "segmentation-components.png")
    if {"table", "students", "pictures"} & set(parts):
        bench = Bench(task)
    if "table" in parts:
        found["table"] = table(bench, DRAWS)
        draw_dice(found["table"], images / "segmentation-dice.png")
    if "students" in parts:
        found["students"] = students(bench)
        draw_students(found["students"], images / "segmentation-students.png")
    if "pictures" in parts:
        draw_releases(task, bench, images / "segmentation-releases.png")
    if "classes" in parts:
        found["classes"] = table(Bench(hippocampus(options.data, n_classes=3)), FEWER_DRAWS)
    if "generated" in parts:
        found["generated"] = table(Bench(generated()), {50: 2})
    if "large" in parts:
        found["large"] = large()
    return found


def as_text(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if name in ("epsilon", "sigma", "training noise"):
        return f"{value:.3g}"
    if "error," in name or "(s)" in name or "mib" in name or name.startswith("noise"):
        return f"{value:,.1f}"
    return f"{value:.3f}"


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = {(row["K"], row["N"], row["epsilon"]): row for row in rows}
    return [
        {
            "K, N, epsilon": f"{k}, {n}, {e:g}",
            "goal": goal,
            "two rounds": found[k, n, e]["two rounds"],
            "four rounds": found[k, n, e]["four rounds"],
        }
        for (k, n, e), goal in GOALS.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument("--only", default=",".join(PARTS), help="some of " + ",".join(PARTS))
    place = os.environ.get("TACIT_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(place), help="holds hippocampus_msd/")
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="for pictures")
    options = parser.parse_args()
    with threadpool_limits(1):
        found = run(options)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    console = Console(width=150)
    for name, by_task in found.get("curves", {}).items():
        for task, rows in by_task.items():
            console.print(shown(f"{name}, {task}", rows, as_text))
    titles = {"table": "hippocampus", "classes": "hippocampus, 3 classes", "generated": "generated"}
    for part, title in titles.items():
        if part in found:
            console.print(shown(f"Dice of released masks: {title}", found[part], as_text))
    if "table" in found:
        console.print(shown("goals", goals(found["table"]), as_text))
    if "students" in found:
        console.print(shown("students, epsilon 8, 100 teachers", found["students"], as_text))
    if "large" in found:
        console.print(shown("240 x 240 x 155 voxels, one query", found["large"], as_text))


if __name__ == "__main__":
    main()
