"""Figures for everybody: budget spent over releases, and the trade-off before a run.

They show worst-case numbers, which are public. Figures of votes and of data-dependent costs are in
`secret_figures`. Here are also the ways out: a file, or an SVG element for a page.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import positive, refuse
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument
from tacit.ledger.statement import _rounded_up as rounded_up
from tacit.report.drawing import (
    BLUE,
    budget_line,
    curve,
    is_secret,
    label,
    legend,
    line,
    mark_secret,
    new_figure,
    same_length,
    whole_numbers,
)
from tacit.report.svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
_NO_DATES: Mapping[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What matplotlib would write about when and with what: the same figure is the same file."""


def budget_figure(spent: ArrayLike, budget: float, *, delta: float | None = None) -> Figure:
    """Draw epsilon spent after each release as steps, against the budget.

    `spent` is cumulative: its last number is what the ledger has spent. Unit: the ledger's.

    >>> budget_figure([0.9, 1.43], budget=2, delta=1e-5).axes[0].get_title(loc="left")
    'Spent: epsilon 1.43 of 2 in 2 releases'
    """
    steps, limit = curve(spent=spent), positive(budget=budget)
    if steps[0] < 0 or (np.diff(steps) < 0).any():
        raise InvalidArgument("Expected spent to be cumulative: what was spent never goes down.")
    count = f"{steps.size} release{'' if steps.size == 1 else 's'}"
    figure = new_figure(f"Spent: epsilon {rounded_up(float(steps[-1]))} of {limit:g} in {count}")
    axes = figure.axes[0]
    end = steps.size + max(0.5, 0.03 * steps.size)
    places = np.append(np.arange(steps.size + 1.0), end)
    heights = np.concatenate([[0.0], steps, steps[-1:]])
    axes.step(places, heights, where="post", color=BLUE, linewidth=1.8)
    axes.fill_between(places, heights, step="post", color=BLUE, alpha=0.12, linewidth=0)
    axes.plot(places[1:-1], steps, "o", color=BLUE, markersize=4)
    budget_line(axes, limit)
    axes.set_xlim(0, end)
    axes.set_ylim(0, 1.12 * max(limit, float(steps[-1])))
    whole_numbers(axes.xaxis)
    label(axes, x="releases", y="epsilon spent" + _at(delta))
    return figure


def trade_off_figure(
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    *,
    x_label: str = "queries",
    budget: float | None = None,
    delta: float | None = None,
) -> Figure:
    """Draw worst-case epsilon against queries (or noise) for several mechanisms: no data needed.

    `curves` maps a name ("sigma 40") to one epsilon for every value of `x`.

    >>> import numpy as np
    >>> from tacit import GNMax, Plan
    >>> queries = np.array([10, 100, 1000])
    >>> epsilons = [Plan(GNMax(sigma=40), queries=int(q)).epsilon(1e-5) for q in queries]
    >>> figure = trade_off_figure(queries, {"sigma 40": epsilons}, budget=2, delta=1e-5)
    >>> figure.axes[0].get_title(loc="left")
    'Worst-case epsilon against queries'
    """
    places = curve(x=x)
    if not curves:
        raise InvalidArgument("Expected curves to hold at least one name and its epsilons.")
    drawn = {name: curve(curves=values) for name, values in curves.items()}
    same_length("x and curves", [places, *drawn.values()])
    figure = new_figure(f"Worst-case epsilon against {x_label}")
    axes = figure.axes[0]
    for place, (name, values) in enumerate(drawn.items()):
        line(axes, place, places, values, name=name)
    if budget is not None:
        budget_line(axes, positive(budget=budget))
    axes.set_ylim(bottom=0)
    axes.margins(x=0.02)
    label(axes, x=x_label, y="epsilon" + _at(delta))
    legend(axes, loc="best")
    return figure


def _at(delta: float | None) -> str:
    return "" if delta is None else f" (delta = {delta:g})"


def figure_svg(figure: Figure) -> str:
    """Return a figure as an `<svg>` element for a page: no prolog, as wide as its place.

    The same figure gives the same text. A secret figure stays marked, and no report takes it.

    >>> figure_svg(budget_figure([1.0], budget=2))[:4]
    '<svg'
    """
    return inline_svg(_drawn(figure, "svg").decode("utf-8"), public=False)


def save_figure(figure: Figure, path: PathLike, *, secret: bool = False) -> Path:
    """Write a figure as PNG, SVG or PDF, by the suffix of `path`, in one step.

    A secret figure (one of `secret_figures`, or any with secret=True, which then gets the mark) is
    readable by its owner only: mode 0600.
    """
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise refuse("path", target.name, "a file name that ends in .png, .svg or .pdf")
    if secret:
        mark_secret(figure)
    write_atomically(target, _drawn(figure, kind), mode=0o600 if is_secret(figure) else 0o644)
    return target


def _drawn(figure: Figure, kind: str) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    settings: dict[Any, Any] = {"svg.hashsalt": "tacit", "svg.fonttype": "none", "pdf.fonttype": 42}
    with matplotlib.rc_context(settings):
        figure.savefig(
            buffer,
            format=kind,
            dpi=160,
            metadata=_NO_DATES[kind],
            edgecolor=figure.get_edgecolor(),
        )
    return buffer.getvalue()
