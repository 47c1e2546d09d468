"""One real run: real teachers, private masks, a student, on the hippocampus; and what else is had.

260 volumes of the Medical Segmentation Decathlon: 130 private, 40 public masks for the codec, 50
public scans asked, 40 held out; unit: one volume. Teachers: atlases of one patient each, U-Nets on
shards of about five patients, and eight hospitals. References: a student on the codec's 40 volumes
with their own masks (had their scans been public), on all private masks (not private), and a U-Net
trained by DP-SGD at the same epsilon.

    python -m benchmarks.segment_hippocampus --data DIR [--epsilon 8 --only atlas,references]

No choice has seen the 40 held-out volumes. Registration numbers were chosen on pairs of this data
set by an earlier study; the codec's copies and the cut at the public volume on 80 private volumes
as teachers of 30 others. Epsilon does not cover either.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.segment_picture import draw_case
from benchmarks.segment_teaching import Overheard, score
from benchmarks.segmentation_data import Array, shown
from tacit import NewLedger, Queries
from tacit.masks import (
    AtlasTeacher,
    PATESegmenter,
    PCACodec,
    UNetRecipe,
    UNetStudent,
    UNetTeacher,
    level_of_volume,
    load_volumes,
    organ_dice,
)

SHAPE, DELTA = (20, 28, 20), 1e-5
COPIES = 10
SHARDS, HOSPITALS = 26, 8
PARTS = ("atlas", "shards", "hospitals", "dpsgd", "references")


@dataclass(frozen=True)
class Case:
    """Scans and masks of a part of the data."""

    images: Array
    masks: Array


@dataclass(frozen=True)
class Split:
    """Who is who; the scans of `known` are used for a reference only."""

    private: Case
    known: Case
    asked: Case
    held_out: Case

    @property
    def volume(self) -> float:
        """The mean size of public masks, in voxels."""
        return float(self.known.masks.sum() / len(self.known.masks))


def split(folder: Path, seed: int) -> Split:
    path = folder / "hippocampus_msd" / "hippocampus_48x64x48.npz"
    volumes = load_volumes(f"npz:{path}", n_classes=3).normalised().resampled(SHAPE)
    images, labels = volumes.arrays()
    assert labels is not None
    masks = (labels > 0).astype(np.uint8)  # the organ as a whole
    order = np.random.default_rng(seed).permutation(len(images))
    return Split(*(Case(images[rows], masks[rows]) for rows in np.split(order, [130, 170, 220])))


def teachers_of(name: str) -> dict[str, Any]:
    if name == "atlas":
        return {"teacher": AtlasTeacher(), "n_teachers": 130, "each_alone": True}
    if name == "shards":
        return {"teacher": UNetTeacher(UNetRecipe(steps=60, batch_size=2)), "n_teachers": SHARDS}
    return {"teacher": UNetTeacher(UNetRecipe(steps=150, batch_size=2)), "n_teachers": HOSPITALS}


def taught(name: str, data: Split, options: argparse.Namespace) -> tuple[dict[str, Any], Any, Any]:
    """Run one kind of teachers end to end: a row of the table, the model, what teachers said."""
    settings = teachers_of(name)
    heard = Overheard(settings.pop("teacher"), options.keep)
    codec = PCACodec.fit(data.known.masks.astype(float), copies=COPIES)
    start = time.process_time()
    model = PATESegmenter(
        heard,
        codec,
        UNetStudent(random_state=0),
        epsilon=options.epsilon,
        delta=DELTA,
        queries=Queries(rounds=options.rounds),
        ledger=NewLedger(dataset="MSD hippocampus"),
        random_state=0,
        **settings,
    )
    model.fit(data.private.images, data.private.masks, data.asked.images)
    truth = data.asked.masks[model.queries_]
    dices = organ_dice(model.predict(data.held_out.images), data.held_out.masks)
    row = {
        "teachers": f"{name} (K = {model.n_teachers})",
        "epsilon": model.ledger_.spent(),
        "teachers' mean": cut_score(heard.mean, truth, data.volume),
        "released": score(model.released_, truth),
        "student": float(dices.mean()),
        "error": float(dices.std(ddof=1) / np.sqrt(len(dices))),
        "CPU (s)": time.process_time() - start,
    }
    return row, model, heard


def cut_score(soft: Array, truth: Array, volume: float) -> float:
    return score(soft > level_of_volume(soft, volume), truth)


def references(data: Split) -> Iterator[tuple[str, float]]:
    """Students of true masks, and the public mean mask."""
    mean = data.known.masks.mean(axis=0)
    mask = mean > level_of_volume(mean[None], data.volume)
    held_out = data.held_out
    everywhere = np.broadcast_to(mask, held_out.masks.shape)
    yield "public mean mask", score(everywhere, held_out.masks)
    same = np.broadcast_to(mask, data.asked.masks.shape).astype(np.uint8)
    for name, part in (
        ("student of the public mean mask on the 50 asked scans", Case(data.asked.images, same)),
        ("student of the codec's 40 volumes, had their scans been public", data.known),
        ("student of the 130 private volumes, not private", data.private),
        ("student of the 50 asked scans, had their masks been public", data.asked),
    ):
        student = UNetStudent(random_state=0).fit(part.images, part.masks)
        yield name, score(student.predict(held_out.images), held_out.masks)


def direct(data: Split, epsilon: float) -> dict[str, Any]:
    """Train a U-Net on the private volumes by DP-SGD."""
    from benchmarks.segment_dpsgd import dp_unet

    start = time.process_time()
    private, held_out = data.private, data.held_out
    predict, spent = dp_unet(private.images, private.masks, epsilon=epsilon, delta=DELTA)
    return {
        "teachers": "none: DP-SGD",
        "epsilon": spent,
        "student": score(predict(held_out.images), held_out.masks),
        "CPU (s)": time.process_time() - start,
    }


def main() -> None:
    options = parse()
    data, console = split(options.data, options.seed), Console(width=120)
    title = f"unit: one volume, delta {DELTA:g}, {options.rounds} rounds"
    for name in options.only.split(","):
        if name == "references":
            for reference, dice in references(data):
                console.print(f"{reference}: Dice {dice:.3f}")
        elif name == "dpsgd":
            console.print(shown("unit: one volume", [direct(data, options.epsilon)], as_text))
        else:
            made = [taught(name, data, options) for _ in range(options.runs)]
            console.print(shown(title, [row for row, _, _ in made], as_text))
            _, model, heard = made[0]
            if name == "atlas" and options.images is not None:
                draw_case(data, model, heard.mean, options.images / "segmentation-case.png")


def as_text(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if "(s)" in name else f"{value:.3f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--only", default=",".join(PARTS), help="some of " + ",".join(PARTS))
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1, help="of each kind, with other noise")
    parser.add_argument("--keep", type=Path, default=None, help="for answers, secret: to go on")
    parser.add_argument("--images", type=Path, default=None, help="where to draw one case")
    return parser.parse_args()


if __name__ == "__main__":
    main()
