"""A picture of the real run: scan, teachers' mean, release, student and truth, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.segmentation_data import Array
from tacit.masks import level_of_volume, organ_dice

RED, GREY = "#c0392b", "#777777"
COLUMNS = ("scan", "teachers' mean (secret)", "released", "student", "truth")


def draw_case(data: Any, model: Any, said: Array, path: Path) -> None:
    """Draw the first two scans asked, the first held out, and the held-out one with the worst Dice.

    Rows are chosen by their place, the last by the student's Dice; held-out scans have no teachers.
    """
    held_out, asked = data.held_out, model.queries_[:2]
    predicted = model.predict(held_out.images)
    scores = organ_dice(predicted, held_out.masks)
    own = model.predict(data.asked.images[asked])
    spoken = level_of_volume(said, data.volume)
    rows = [
        (
            "asked",
            data.asked.images[number],
            [said[i] > spoken, model.released_[i], own[i], data.asked.masks[number]],
        )
        for i, number in enumerate(asked)
    ]
    for title, number in (("held out", 0), ("held out, worst", int(scores.argmin()))):
        masks = [None, None, predicted[number], held_out.masks[number]]
        rows.append((title, held_out.images[number], masks))
    _draw(rows, path)


def _draw(rows: list[tuple[str, Array, list[Any]]], path: Path) -> None:
    figure = Figure(figsize=(10, 1.9 * len(rows)))
    axes = figure.subplots(len(rows), len(COLUMNS))
    for line, (title, scan, masks) in zip(axes, rows, strict=True):
        middle = int(masks[-1].sum(axis=(0, 1)).argmax())  # the slice that shows most of the organ
        for axis, mask in zip(line, [0, *masks], strict=True):
            axis.set_xticks([])
            axis.set_yticks([])
            if mask is None:
                axis.text(0.5, 0.5, "not asked", ha="center", va="center", color=GREY)
                axis.set_frame_on(False)
                continue
            axis.imshow(scan[:, :, middle], cmap="gray", origin="lower", aspect="auto")
            if np.ndim(mask):
                axis.contour(mask[:, :, middle], levels=[0.5], colors=RED, linewidths=1.4)
                dice = float(organ_dice(mask[None].astype(np.uint8), masks[-1][None])[0])
                axis.set_xlabel("" if mask is masks[-1] else f"Dice {dice:.2f}", fontsize=8)
        line[0].set_ylabel(title, fontsize=9)
    for axis, name in zip(axes[0], COLUMNS, strict=True):
        axis.set_title(name, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
