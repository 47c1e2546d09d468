"""The figures of the 2018 paper, for the data owner's eyes only.

Votes, and costs that depend on them, are secret (docs/sharp-edges.md#data-dependent-epsilon-raw):
every figure here carries a red SECRET mark, is saved with mode 0600, and is refused by the report.
No message quotes a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least
from tacit.errors import InvalidArgument
from tacit.report.drawing import (
    BLUE,
    GREY,
    INK,
    VERMILION,
    curve,
    label,
    legend,
    line,
    mark_secret,
    new_figure,
    same_length,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def votes_cost_figure(
    top_votes: ArrayLike,
    costs: ArrayLike,
    *,
    n_teachers: int,
    bins: int = 25,
    threshold: float | None = None,
    cost_name: str = "cost",
) -> Figure:
    """Draw how many queries have how many votes for the winner, and what each bin costs. Secret.

    `top_votes` and `costs` (RDP at one order, say) are given per query; costs add within a bin.
    Source: PATE 2018, figure 3 and appendix: agreement is cheap, disagreement is not.
    """
    top, each = curve(top_votes=top_votes), curve(costs=costs)
    same_length("top_votes and costs", [top, each])
    teachers, bins = at_least(1, n_teachers=n_teachers), at_least(1, bins=bins)
    if (top < 0).any() or (top > teachers).any() or (each < 0).any():
        raise InvalidArgument("Expected top_votes from 0 to n_teachers, and costs >= 0.")
    edges = np.linspace(0, teachers, bins + 1)
    figure = new_figure(_share_title(each), rows=2, size=(6.2, 5.0))
    panels = ((None, "queries", BLUE), (each, cost_name, VERMILION))
    for axes, (weights, name, colour) in zip(figure.axes, panels, strict=True):
        heights, _ = np.histogram(top, bins=edges, weights=weights)
        axes.bar(edges[:-1], heights, np.diff(edges) * 0.92, align="edge", color=colour)
        label(axes, y=name)
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=1.2, linestyle=(0, (2, 2)))
    if threshold is not None:
        _name_threshold(figure, threshold)
    figure.axes[1].set_xlim(0, teachers)
    label(figure.axes[1], x=f"votes for the winner (of {teachers} teachers)", y=f"{cost_name}, sum")
    return mark_secret(figure)


def _name_threshold(figure: Figure, threshold: float) -> None:
    figure.axes[0].annotate(
        f"threshold {threshold:g}",
        (threshold, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9,
        color=INK,
    )


def _share_title(costs: Floats) -> str:
    """Say how much of the cost the most expensive tenth of the queries carries."""
    tenth = max(1, round(costs.size / 10))
    total = costs.sum()
    share = np.sort(costs)[-tenth:].sum() / total if total > 0 else 0.0
    return f"The dearest {tenth} of {costs.size} queries carry {share:.0%} of the cost"


def cumulative_cost_figure(
    curves: Mapping[str, ArrayLike], *, quantity: str = "epsilon", budget: float | None = None
) -> Figure:
    """Draw the running cost over queries by several bounds. Secret.

    `curves` maps a name ("tight", "theorem6", "worst case") to the cost after each query.
    """
    if not curves:
        raise InvalidArgument("Expected curves to hold at least one name and its costs.")
    drawn = {name: curve(curves=values) for name, values in curves.items()}
    same_length("curves", list(drawn.values()))
    queries = np.arange(1, next(iter(drawn.values())).size + 1, dtype=np.float64)
    figure = new_figure(f"Running {quantity} over {queries.size} queries")
    axes = figure.axes[0]
    for place, (name, values) in enumerate(drawn.items()):
        line(axes, place, queries, values, name=f"{name}: {values[-1]:.3g}")
    if budget is not None:
        axes.axhline(budget, color=INK, linewidth=1.2, linestyle=(0, (2, 2)), label="budget")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    label(axes, x="queries", y=quantity)
    legend(axes, loc="upper left")
    return mark_secret(figure)


def sigma_cost_figure(
    sigmas: ArrayLike,
    data_dependent: ArrayLike,
    worst_case: ArrayLike,
    *,
    delta: float | None = None,
    chosen: float | None = None,
) -> Figure:
    """Draw epsilon against the noise sigma, for this data and in the worst case. Secret.

    Choosing sigma by this figure spends privacy that nobody counts
    (docs/sharp-edges.md#tuning-on-private-votes).
    """
    x, own, worst = (
        curve(sigmas=sigmas),
        curve(data_dependent=data_dependent),
        curve(worst_case=worst_case),
    )
    same_length("sigmas, data_dependent and worst_case", [x, own, worst])
    figure = new_figure("Epsilon against noise: these votes, and the worst case")
    axes = figure.axes[0]
    line(axes, 0, x, own, name="for these votes (secret)", marker="o", markersize=3.5)
    line(axes, 1, x, worst, name="worst case over all votes", marker="s", markersize=3.5)
    if chosen is not None:
        axes.axvline(chosen, color=GREY, linewidth=1.0, linestyle=(0, (2, 2)), label="this run")
    axes.set_ylim(bottom=0)
    at = "" if delta is None else f" (delta = {delta:g})"
    label(axes, x="sigma", y=f"epsilon{at}")
    legend(axes, loc="upper right")
    return mark_secret(figure)
