"""A run of `method = "segmentation"`: folders of scans in, a directory to publish out.

config.toml     the resolved configuration
run.ledger      what was spent
statement.json  what may be said
student.tacit   the model to publish; `tacit segment` applies it
released/       the released masks of the public scans, on their own grids
metrics.json    Dice and surface distances on scans declared public, if there are any
report.html     for the person who signs, with pictures of public scans
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tacit._files import write_atomically
from tacit.masks.atlas import AtlasTeacher
from tacit.masks.gallery import MOST_SCANS, mask_figure
from tacit.masks.metrics import mask_metrics
from tacit.masks.rounds import one_hot_masks
from tacit.masks.scans import ScanOptions, Scans, load_scans
from tacit.masks.segmenter import PATESegmenter, SimulatedSegmenter, one_two_or_four
from tacit.masks.student import UNetStudent
from tacit.masks.teachers import UNetTeacher
from tacit.masks.unet import UNetRecipe
from tacit.masks.volumes import Volumes, save_masks
from tacit.methods import Count, Method, Strategy, Widths, choices
from tacit.records import refuse_overlap
from tacit.report import write_report
from tacit.runs import RunConfig, RunResult, releasing

Masks = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class SegmentationTable:
    """Teachers of whole masks, queries and student; [data.options] says what the scans are.

    Names and defaults of `PATESegmenter`, whose teacher and student are U-Nets or atlases that are
    described here, too.

    each_alone: every patient (or scan) is a teacher of its own, and `n_teachers` the public number
        by which sums are divided. queries: all public scans are asked where it is left out.
    channels, teacher_steps, student_steps, patch: of the U-Nets; a patch where volumes are large.
    simulation: the private scans are declared public, as in a benchmark: the report may then show
        the teachers' mean before noise, and the statement says that it does.
    executor: not of this table: the run's own key.
    """

    teacher: Annotated[str, choices("atlas", "unet")] = "atlas"
    n_teachers: Count = PATESegmenter.n_teachers
    each_alone: bool = PATESegmenter.each_alone
    queries: Count | None = PATESegmenter.queries
    strategy: Strategy = PATESegmenter.strategy
    rounds: Annotated[int, one_two_or_four] = PATESegmenter.rounds
    channels: Widths = (8, 16, 32)
    teacher_steps: Count = 300
    student_steps: Count = 300
    patch: Widths | None = None
    simulation: bool = False
    executor: Any = "serial"


def run_masks(config: RunConfig, folder: Path) -> RunResult:
    """Carry out a run; one that was stopped goes on from the teachers that had answered."""
    scans = load_scans(config.data, ScanOptions.of(config.data))
    model = make_segmenter(config, scans, folder)
    inside, truth = scans.on_grid(scans.private).arrays()
    outside = scans.on_grid(scans.public).arrays()[0]
    if scans.held_out is not None and not config.data.allow_overlap:
        refuse_overlap(inside, scans.on_grid(scans.held_out).arrays()[0], "held-out")
    known = {"public_masks": scans.codec_masks, "groups": scans.patients}
    with releasing(folder, config.to_toml()):
        model.fit(inside, np.asarray(truth), outside, **known)
    model.statement_.write(folder / "statement.json")
    model.save(folder / "student.tacit", classes=scans.options.classes)
    asked = scans.public.take(model.queries_)
    released = asked.restored(one_hot_masks(model.released_, model.n_classes))
    save_masks(_place(folder, config.data.public_source), released, asked)
    return _measured(model, scans, released, folder)


def make_segmenter(config: RunConfig, scans: Scans, folder: Path) -> PATESegmenter:
    """Return the unfitted estimator that the configuration describes."""
    section = SegmentationTable(**config.settings)
    patch = section.patch
    count = len(scans.options.classes)
    recipe = UNetRecipe(channels=section.channels, steps=section.teacher_steps, patch=patch)
    kind = SimulatedSegmenter if section.simulation else PATESegmenter
    return kind(
        UNetTeacher(recipe) if section.teacher == "unet" else AtlasTeacher(),
        student=UNetStudent(
            count,
            channels=section.channels,
            steps=section.student_steps,
            patch=patch,
            random_state=config.seed,
        ),
        n_teachers=section.n_teachers,
        each_alone=section.each_alone,
        n_classes=count,
        epsilon=config.privacy.epsilon,
        delta=config.privacy.delta,
        allow_large_delta=config.privacy.allow_large_delta,
        allow_overlap=config.data.allow_overlap,
        queries=section.queries,
        strategy=section.strategy,
        rounds=section.rounds,
        executor=config.executor,
        checkpoint=folder / "teachers",
        ledger=folder / "run.ledger",
        dataset=config.data.name or config.data.source,
        random_state=config.seed,
    )


def _place(folder: Path, source: str) -> Path:
    """Masks of an archive go into an archive, those of a folder into a folder."""
    return folder / ("released.npz" if source.startswith("npz:") else "released")


def _measured(model: PATESegmenter, scans: Scans, released: Masks, folder: Path) -> RunResult:
    """Write the metrics and the report."""
    names, asked = scans.options.classes, scans.public.take(model.queries_)
    metrics: dict[str, Any] = {"held_out": None, "released": None}
    notes, figures = [], [_asked_figure(model, scans, asked, released)]
    if asked.masks is not None:
        metrics["released"] = mask_metrics(released, asked, names)
        notes.append(_note("Released masks", metrics["released"], "public scans that were asked"))
    if scans.held_out is not None:
        said = scans.held_out.restored(
            model.predict_proba(scans.on_grid(scans.held_out).arrays()[0])
        )
        metrics["held_out"] = mask_metrics(said, scans.held_out, names)
        notes.append(_note("Student", metrics["held_out"], "held-out scans, declared public"))
        figures.append(_held_out_figure(scans.held_out, said, names))
    write_atomically(folder / "metrics.json", json.dumps(metrics, indent=2).encode("utf-8"))
    statement = model.statement_
    write_report(
        folder / "report.html", model.ledger_, statement=statement, notes=notes, figures=figures
    )
    held_out = metrics["held_out"]
    dice, count = (None, 0) if held_out is None else (held_out["dice"], held_out["scans"])
    return RunResult(folder, statement, dice, count, model.ledger_, metrics)


def _note(who: str, metrics: dict[str, Any], where: str) -> str:
    each = ", ".join(
        f"{name} {one['dice']:.3f}" + _distance(one["surface_distance_mm"])
        for name, one in metrics["classes"].items()
    )
    return f"{who}: Dice {metrics['dice']:.3f} ({each}) on {metrics['scans']} {where}."


def _distance(millimetres: float | None) -> str:
    return "" if millimetres is None else f", surfaces {millimetres:.2f} mm apart"


def _asked_figure(
    model: PATESegmenter, scans: Scans, asked: Volumes, released: Masks
) -> tuple[str, Any]:
    """Show some public scans that were asked; truth and teachers' mean only where declared."""
    shown = asked.take(slice(0, MOST_SCANS))
    columns: dict[str, Any] = {}
    if isinstance(model, SimulatedSegmenter):
        mean = one_hot_masks(model.teachers_mean_[:MOST_SCANS], model.n_classes)
        columns["teachers' mean, no noise"] = shown.restored(mean)
    columns["released"] = released[:MOST_SCANS]
    columns["student"] = shown.restored(model.predict_proba(scans.on_grid(shown).arrays()[0]))
    if shown.masks is not None:
        columns["truth, declared public"] = shown.masks
    caption = "Public scans that were asked: what was released of each, and what the student says."
    names = scans.options.classes
    return caption, mask_figure(_pictures(shown), columns, names=names)


def _held_out_figure(held_out: Volumes, said: Masks, names: tuple[str, ...]) -> tuple[str, Any]:
    shown = held_out.take(slice(0, MOST_SCANS))
    columns = {"student": said[:MOST_SCANS], "truth, declared public": shown.masks or ()}
    caption = "Held-out scans, declared public with their masks."
    return caption, mask_figure(_pictures(shown), columns, names=names)


def _pictures(volumes: Volumes) -> list[NDArray[Any]]:
    """Return scans to draw: the first channel of each."""
    channels = (x.ndim > volumes.dimensions for x in volumes.images)
    return [x[0] if many else x for x, many in zip(volumes.images, channels, strict=True)]


METHOD = Method(name="segmentation", estimator=SegmentationTable, run=run_masks)
