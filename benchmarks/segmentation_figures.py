"""Pictures for docs/results/segmentation.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.segmentation_data import Task, decided
from benchmarks.segmentation_schemes import DELTA, FOUR, Bench, Cell, Draw, answers_in_rounds
from tacit.masks import wiener_weights

INK = ("#1b6ca8", "#c0392b", "#2e8b57", "#777777")


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_components(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    plt = _pyplot()
    figure, axes = plt.subplots(2, len(found), figsize=(9.5, 6.2), sharex=True, squeeze=False)
    rules = ("L* (paper)", "L* (held out)", "best L")
    for column, (name, rows) in enumerate(found.items()):
        sigma = [row["sigma"] for row in rows]
        top, bottom = axes[:, column]
        for ink, rule, style in zip(INK, rules, ("--", "-", ":"), strict=False):
            top.plot(sigma, [row[f"error, {rule}"] for row in rows], style, color=ink, label=rule)
            bottom.plot(sigma, [row[rule] for row in rows], style, color=ink, marker="o", ms=3)
        top.plot(sigma, [row["error, Wiener"] for row in rows], color=INK[3], label="Wiener")
        top.set_title(f"{name}: squared error per volume", fontsize=10)
        bottom.set_title("components kept", fontsize=10)
        bottom.set_xlabel("noise on each coordinate (voxels)")
        top.set_xscale("log")
        bottom.set_ylim(bottom=-2)
    axes[0, 0].legend(frameon=False, fontsize=9)
    _save(figure, path)


def draw_dice(rows: list[dict[str, Any]], path: Path) -> None:
    """Dice against the number of teachers, at 50 queries."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    lines = {
        "paper": INK[3],
        "centred": "#b8860b",
        "ellipsoid": INK[0],
        "two rounds": INK[2],
        "four rounds": INK[1],
    }
    for axis, epsilon in zip(axes, (1.0, 8.0), strict=True):
        cells = [row for row in rows if row["N"] == 50 and row["epsilon"] == epsilon]
        teachers = [row["K"] for row in cells]
        for name, ink in lines.items():
            axis.plot(
                teachers, [row[name] for row in cells], color=ink, marker="o", ms=3, label=name
            )
        axis.set_xscale("log")
        axis.set_xticks(teachers, [str(one) for one in teachers])
        axis.minorticks_off()
        axis.set_title(f"50 queries, epsilon {epsilon:g}, delta {DELTA:g}", fontsize=10)
        axis.set_xlabel("teachers")
    axes[0].set_ylabel("Dice of released masks")
    axes[1].legend(frameon=False, fontsize=9)
    _save(figure, path)


def draw_students(rows: list[dict[str, Any]], path: Path) -> None:
    """Dice of releases (dashed) and of the students they teach, against the number of queries."""
    figure, axis = _pyplot().subplots(figsize=(8, 4))
    asked = [row["N"] for row in rows]
    inks = {"true masks": INK[3], "four rounds": INK[1], "paper": INK[0]}
    for name, ink in inks.items():
        taught = [row[f"{name}: student"] for row in rows]
        axis.plot(asked, taught, color=ink, marker="o", ms=4, label=f"{name}: student")
        if name != "true masks":
            said = [row[f"{name}: released"] for row in rows]
            axis.plot(asked, said, "--", color=ink, marker="o", ms=3, label=f"{name}: released")
    axis.set_xscale("log")
    axis.set_xticks(asked, [str(one) for one in asked])
    axis.minorticks_off()
    axis.set_xlabel("queries at one epsilon")
    axis.set_ylabel("Dice")
    axis.set_title(f"100 perfect teachers, epsilon 8, delta {DELTA:g}", fontsize=10)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def draw_releases(task: Task, bench: Bench, path: Path, queries: int = 4) -> None:
    """Slices of the first queries at (50, 50, 8): scan, truth, mean mask, ellipsoid, rounds."""
    plt = _pyplot()
    draw = Draw(bench, Cell(50, 50, 8.0), seed=0)
    codec = bench.better.ellipsoid(draw.noise_level)
    codes, deviations = draw.joint(codec)
    plain = codec.decode(codes * wiener_weights(codec.spectrum, deviations))
    threshold = bench.public_threshold(codec, deviations)
    final, last = answers_in_rounds(draw, FOUR)
    mean = np.broadcast_to(bench.plain.mean, plain.shape)
    columns = {
        "true mask": draw.masks,
        "paper = mean mask": decided(mean, bench.mean_threshold, task.n_classes),
        "ellipsoid, one round": decided(plain, threshold, task.n_classes),
        "four rounds": decided(final, last, task.n_classes),
    }
    scans = task.asked_scans[draw.chosen]
    figure, axes = plt.subplots(queries, 1 + len(columns), figsize=(9.5, 1.75 * queries))
    for row in range(queries):
        middle = scans.shape[3] // 2 - 1
        shown = {"cmap": "gray", "origin": "lower", "aspect": "auto"}
        axes[row, 0].imshow(scans[row, :, :, middle], **shown)
        for axis, (name, masks) in zip(axes[row, 1:], columns.items(), strict=True):
            axis.imshow(scans[row, :, :, middle], **shown)
            axis.contour(masks[row, :, :, middle], levels=[0.5], colors=INK[1], linewidths=1.2)
            if not row:
                axis.set_title(name, fontsize=9)
    axes[0, 0].set_title("public scan", fontsize=9)
    for axis in axes.ravel():
        axis.set_axis_off()
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
