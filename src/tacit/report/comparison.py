"""The figure of a comparison: accuracy against epsilon, one line for each method, with its range.

Where the best methods are nearly right, the axis is logarithmic in the error, so that 99 % and
99.5 % stand as far apart as 90 % and 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit._checks import Floats
from tacit.errors import InvalidArgument
from tacit.report.drawing import (
    COLOURS,
    DASHES,
    GREY,
    INK,
    curve,
    label,
    new_figure,
    same_length,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = (*COLOURS, INK, "#999933")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h")
NEARLY_RIGHT = 0.95
"""From this accuracy on, the axis is logarithmic in the error."""
_TICKS = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
_CEILING = 0.9995
_NUDGE = 0.012  # of a decade of epsilon, between the bars of neighbouring methods


class Points(NamedTuple):
    """A method's line: epsilons, mean accuracies, and the range of the repetitions."""

    epsilon: Sequence[float]
    mean: Sequence[float]
    least: Sequence[float]
    most: Sequence[float]


def comparison_figure(
    curves: Mapping[str, Points],
    *,
    title: str,
    delta: float | None = None,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """Draw accuracy against epsilon; a bar spans the repetitions from the worst to the best.

    `references` are horizontal lines: what is reached without privacy, or by saying one label.

    >>> points = Points([0.1, 1], [0.9, 0.97], [0.88, 0.96], [0.92, 0.98])
    >>> figure = comparison_figure({"prototypes": points}, title="digits")
    >>> figure.axes[0].get_xscale()
    'log'
    """
    if not curves:
        raise InvalidArgument("Expected curves to hold at least one method and its points.")
    drawn = {name: _checked(points) for name, points in curves.items()}
    lines = dict(references or {})
    figure = new_figure(title, size=(7.4, 4.2))
    axes = figure.axes[0]
    axes.set_xscale("log")
    centre = (len(drawn) - 1) / 2
    for place, (name, arrays) in enumerate(drawn.items()):
        _draw(axes, place, 10 ** (_NUDGE * (place - centre)), name, arrays)
    for name, height in lines.items():
        _reference(axes, name, float(height))
    every = np.concatenate([*(a for arrays in drawn.values() for a in arrays[1:])])
    _scale(axes, np.concatenate([every, list(lines.values())]))
    levels = np.unique(np.concatenate([arrays[0] for arrays in drawn.values()]))
    axes.set_xticks(levels, [f"{level:g}" for level in levels])
    axes.minorticks_off()
    at = "" if delta is None else f" (delta = {delta:g})"
    label(axes, x=f"worst-case epsilon{at}", y="held-out accuracy")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _checked(points: Points) -> tuple[Floats, Floats, Floats, Floats]:
    arrays = (
        curve(epsilon=points.epsilon),
        curve(mean=points.mean),
        curve(least=points.least),
        curve(most=points.most),
    )
    same_length("epsilon, mean, least and most", arrays)
    epsilon, mean, least, most = arrays
    if (epsilon <= 0).any() or (least > mean + 1e-12).any() or (mean > most + 1e-12).any():
        raise InvalidArgument("Expected epsilon > 0 and least <= mean <= most at every point.")
    if (least < 0).any() or (most > 1).any():
        raise InvalidArgument("Expected accuracies from 0 to 1.")
    return arrays


def _draw(
    axes: Axes,
    place: int,
    nudge: float,
    name: str,
    arrays: tuple[Floats, Floats, Floats, Floats],
) -> None:
    epsilon, mean, least, most = arrays
    order = np.argsort(epsilon)
    below, above = np.maximum(mean - least, 0), np.maximum(most - mean, 0)
    axes.errorbar(
        epsilon[order] * nudge,
        mean[order],
        yerr=np.array([below[order], above[order]]),
        label=name,
        color=PALETTE[place % len(PALETTE)],
        linestyle=DASHES[place % len(DASHES)],
        marker=MARKERS[place % len(MARKERS)],
        markersize=5,
        linewidth=1.6,
        elinewidth=1.0,
        capsize=2.5,
    )


def _reference(axes: Axes, name: str, height: float) -> None:
    axes.axhline(height, color=GREY, linewidth=1.0, linestyle=(0, (2, 2)))
    axes.annotate(
        f"{name} {100 * height:.1f} %",
        (0.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        fontsize=8,
        color=GREY,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
        zorder=4,
    )


def _scale(axes: Axes, heights: Floats) -> None:
    from matplotlib.ticker import FuncFormatter

    low, high = float(heights.min()), float(heights.max())
    if high < NEARLY_RIGHT:
        pad = 0.06 * max(high - low, 0.02)
        axes.set_ylim(max(0.0, low - pad), min(1.0, high + pad))
    else:
        axes.set_yscale("function", functions=(_stretched, _back))
        top = min(_CEILING, 1 - 0.6 * (1 - min(high, _CEILING)))
        axes.set_ylim(max(0.0, low - 0.05), top)
        axes.set_yticks([tick for tick in _TICKS if max(0.0, low - 0.05) <= tick <= top])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))


def _stretched(accuracy: Floats) -> Floats:
    return np.asarray(-np.log10(np.maximum(1 - np.asarray(accuracy), 1 - _CEILING)))


def _back(place: Floats) -> Floats:
    return np.asarray(1 - 10.0 ** -np.asarray(place))
