"""An evaluation as a part of a report: a table of figures with their bands, and the curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluate.bands import Band
from tacit.evaluate.evaluation import NAMES, Evaluation
from tacit.evaluate.numbers import RESIDUAL_BINS
from tacit.report import COLOURS, INK, Measure, Section, label, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (4.6, 4.2)


def evaluation_section(found: Evaluation) -> Section:
    """Return the report's section on an evaluation: figures with 95 % bands, and curves.

    Parameters
    ----------
    found : Evaluation

    Returns
    -------
    Section
    """
    rows = [[name, number(band.value), range_of(band)] for name, band in found.rows()]
    says = [
        f"Records kept apart said this once, through the ledger, for epsilon = {found.epsilon:g} "
        f"at delta = {found.delta:g} by itself. Bands are of 95 % and cover sampling and noise "
        f"together; {found.n_records} records were declared."
    ]
    if missing := found.refused():
        says.append(f"Not told, because so few could not tell it: {', '.join(missing)}.")
    return Section(
        title="How good it is on private records",
        paragraphs=says,
        columns=["figure", "value", "95 % band"],
        rows=rows,
        figures=evaluation_figures(found),
    )


CHANCE = {"area under the ROC curve": 0.5, "balanced accuracy": 0.5, "R^2": 0.0}
"""Chance levels of the main figures."""


def evaluation_measures(found: Evaluation) -> list[Measure]:
    """Return the main figures for the top of a report: area, balanced accuracy or R^2, with bands.

    Parameters
    ----------
    found : Evaluation

    Returns
    -------
    list of Measure
    """
    by_class = {"balanced accuracy": 1 / max(len(found.classes), 2)}
    measures = []
    for name, band in found.rows():
        plain = name.split(" at ")[0]
        if plain in CHANCE and np.isfinite(band.value):
            on = f"private records kept apart, paid for (95 % band {range_of(band)})"
            chance = by_class.get(plain, CHANCE[plain])
            value: Any = {"value": float(band.value), "low": float(band.low)}
            measures.append(Measure(what=name, on=on, chance=chance, percent=False, **value))
    return measures


def number(value: Any) -> str:
    """Format a figure: three digits behind the point, four in all for large numbers."""
    plain = float(value)
    if not np.isfinite(plain):
        return "open"
    return f"{plain:.3f}" if abs(plain) < 100 else f"{plain:.4g}"


def range_of(band: Band) -> str:
    """Format the ends of one number's band: "0.880 to 0.931"."""
    return f"{number(band.low)} to {number(band.high)}"


def evaluation_figures(found: Evaluation) -> list[tuple[str, Figure]]:
    """Return plots of the curves, with captions.

    Parameters
    ----------
    found : Evaluation

    Returns
    -------
    list of (str, Figure), ROC, precision and recall, calibration; for numbers, residuals
    """
    if found.kind == "numbers":
        return [("Residuals, truth minus prediction.", _residuals(found))]
    if found.kind == "masks":
        told = [(name, band) for name, band in found.rows() if name.startswith(NAMES["dice"])]
        text = "Mean Dice with its 95 % band, which holds for every distribution of the scores."
        return [(text, _dice(told))] if told else []
    scores = found.scores()
    drawn = []
    if found.kind == "binary" and scores.told.ranking:
        drawn.append(("ROC curve; crosses are the bands at each threshold.", _roc(found)))
    if found.kind == "binary" and scores.told.average_precision:
        drawn.append(("Precision and recall at each threshold that is told.", _precision(found)))
    if scores.told.groups:
        drawn.append(("Calibration: how often it is so, by what the model says.", _curve(found)))
    return drawn


def _square(title: str, x: str, y: str) -> tuple[Figure, Any]:
    figure = new_figure(title, size=SIZE)
    axes = figure.axes[0]
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    label(axes, x=x, y=y)
    return figure, axes


def _crosses(axes: Any, across: list[Band], up: list[Band]) -> None:
    """Draw points whose bands are shaded boxes, joined by a line."""
    x, y = ([float(band.value) for band in bands] for bands in (across, up))
    for one, other in zip(across, up, strict=True):
        axes.plot([one.low, one.high], [other.value] * 2, color=COLOURS[0], alpha=0.35, lw=2.5)
        axes.plot([one.value] * 2, [other.low, other.high], color=COLOURS[0], alpha=0.35, lw=2.5)
    axes.plot(x, y, color=COLOURS[0], marker="o", markersize=3.5, linewidth=1.4)


def _roc(found: Evaluation) -> Figure:
    auc = found.figures()["auc"]
    title = f"ROC: area {number(auc.value)} ({range_of(auc)})"
    figure, axes = _square(title, "false positive rate", "recall")
    told = found.scores().figures()["thresholds"]
    across = [Band(1 - s.value, 1 - s.high, 1 - s.low) for s in _each(told, "specificity")]
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    _crosses(axes, across, _each(told, "recall"))
    return figure


def _precision(found: Evaluation) -> Figure:
    ap = found.figures()["average_precision"]
    title = f"Average precision {number(ap.value)} ({range_of(ap)})"
    figure, axes = _square(title, "recall", "precision")
    told = [one for one in found.scores().figures()["thresholds"] if "precision" in one]
    axes.axhline(float(found.scores().share().value), color=INK, linewidth=0.8, linestyle=":")
    _crosses(axes, _each(told, "recall"), _each(told, "precision"))
    return figure


def _curve(found: Evaluation) -> Figure:
    is_binary = found.kind == "binary"
    title = "Calibration" if is_binary else "Calibration of the label's probability"
    says = "what the model says" if is_binary else "the label's probability"
    figure, axes = _square(title, says, "how often it is so")
    curve = found.scores().calibration()
    x, bands = [float(score) for score, _ in curve], [band for _, band in curve]
    y = [float(band.value) for band in bands]
    ends = [[float(b.value - b.low) for b in bands], [float(b.high - b.value) for b in bands]]
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    axes.errorbar(x, y, yerr=ends, color=COLOURS[0], marker="o", markersize=4, capsize=2, lw=1.4)
    return figure


def _residuals(found: Evaluation) -> Figure:
    counts: Any = found.figures()["residuals"]
    middles = (np.arange(RESIDUAL_BINS) + 0.5) * (2 / RESIDUAL_BINS) - 1
    scale = found.numbers["scale"][1]
    figure = new_figure("Residuals", size=(6.2, 3.4))
    axes = figure.axes[0]
    axes.bar(middles * scale, counts.value, width=1.8 / RESIDUAL_BINS * scale, color=COLOURS[0])
    half = [counts.value - counts.low, counts.high - counts.value]
    axes.errorbar(middles * scale, counts.value, yerr=half, fmt="none", color=INK, capsize=2)
    label(axes, x="truth minus prediction", y="records, with noise")
    return figure


def _dice(told: list[tuple[str, Band]]) -> Figure:
    figure = new_figure("Dice", size=(6.2, 1.2 + 0.5 * len(told)))
    axes = figure.axes[0]
    for place, (_, band) in enumerate(told):
        axes.plot([band.low, band.high], [place, place], color=COLOURS[0], alpha=0.35, lw=7)
        axes.plot([band.value], [place], color=COLOURS[0], marker="o", markersize=5)
    axes.set_yticks(range(len(told)), [name.partition(" of ")[2] for name, _ in told])
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(len(told) - 0.5, -0.5)
    label(axes, x="mean over scans kept apart")
    return figure


def _each(told: list[dict[str, Band]], name: str) -> list[Band]:
    return [one[name] for one in told]
