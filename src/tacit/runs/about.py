"""A run in words for outsiders: the top of its report, and of its model card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.methods import method_named
from tacit.report import Learned, Measure, listed
from tacit.runs.config import RunConfig

MOST_FREQUENT = "always saying their most frequent label"
PUBLIC_MASKS = "drawing the most frequent class of the public masks at every voxel"


SHOWN = ("balanced accuracy", "ROC AUC", "average precision")
"""Figures that a report shows beside right labels: they see a rare outcome."""


def learned_by(
    config: RunConfig,
    classes: Sequence[Any] | None,
    metrics: dict[str, Any],
    *,
    image_shape: tuple[int, ...] | None = None,
) -> Learned:
    """Describe a run's model, inputs, method and measures, from public values alone."""
    scans = config.method == "segmentation"
    return Learned(
        predicts=_predicts(classes, config.data.options.get("target"), scans=scans),
        inputs=_scans(config) if scans else _rows(config, image_shape),
        method=method_named(config.method).summary,
        measures=_of_masks(metrics) if scans else (*_of_labels(metrics), *_of_numbers(metrics)),
    )


def _predicts(classes: Sequence[Any] | None, target: Any, *, scans: bool) -> str:
    if classes is None and target is not None:
        return f"{target}: a number."
    if classes is None:
        return "What the student's file names."
    if scans:
        return f"A mask for each scan, with {len(classes)} classes: {listed(classes)}."
    what = f"{target}: one" if isinstance(target, str) else "One"
    return f"{what} of {len(classes)} classes: {listed(classes)}."


def _rows(config: RunConfig, image_shape: tuple[int, ...] | None) -> str:
    if image_shape is not None:
        return f"Images of {' x '.join(map(str, image_shape))} pixels."
    options = config.data.options
    columns = [*options.get("numeric", ()), *options.get("categorical", ())]
    if columns:
        return f"Rows of {len(columns)} column{'s'[: len(columns) > 1]}: {listed(columns)}."
    return f"Rows of numbers, as {config.data.title} has them."


def _scans(config: RunConfig) -> str:
    grid = " x ".join(str(side) for side in config.data.options.get("grid", ()))
    return f"Scans, each resampled to {grid} voxels." if grid else "Scans."


def _of_labels(metrics: dict[str, Any]) -> tuple[Measure, ...]:
    if metrics.get("accuracy") is None:
        return ()
    count = metrics.get("held_out")
    rows = "held-out rows" if count is None else f"{count:,} held-out rows"
    on = f"{rows}, declared public"
    right = Measure(
        what="right labels",
        value=metrics["accuracy"],
        on=on,
        chance=metrics.get("most_frequent"),
        by_chance=MOST_FREQUENT,
        low=metrics.get("figures", {}).get("accuracy", {}).get("low"),
    )
    figures = metrics.get("figures", {})
    return (right, *(_measure(name, figures[name], on) for name in SHOWN if name in figures))


def _measure(name: str, figure: dict[str, Any], on: str) -> Measure:
    band = f" (95 % band {figure['low']:.3f} to {figure['high']:.3f})" if "low" in figure else ""
    told: Any = {each: figure.get(each) for each in ("value", "chance", "low")}
    return Measure(what=f"{name}{band}", on=on, percent=False, **told)


def _of_numbers(metrics: dict[str, Any]) -> tuple[Measure, ...]:
    found, count = metrics.get("numbers"), metrics.get("held_out")
    if not found:
        return ()
    rows = "held-out rows" if count is None else f"{count:,} held-out rows"
    return (
        Measure(
            what="R^2, the part of the variance that is explained",
            value=found["r2"],
            on=f"{rows}, declared public",
            chance=0.0,
            by_chance="always saying their mean",
            percent=False,
        ),
    )


def _of_masks(metrics: dict[str, Any]) -> tuple[Measure, ...]:
    found = metrics.get("held_out")
    if not isinstance(found, dict):
        return ()
    return (
        Measure(
            what=f"Dice of {listed(list(found['classes']))} together",
            value=found["dice"],
            on=f"{found['scans']} held-out scan{'' if found['scans'] == 1 else 's'}, declared "
            "public",
            chance=found.get("public_masks_alone"),
            by_chance=PUBLIC_MASKS,
            percent=False,
        ),
    )
