"""One look for every figure, and the mark on those that only the data owner may see.

Figures are made with matplotlib's object interface (no pyplot, no global state). Colours are those
of Okabe and Ito, distinguishable by the colour-blind; lines differ by dash as well, for print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from tacit._checks import Floats, finite_array
from tacit.errors import InvalidArgument
from tacit.report.svg import SECRET_ID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#AA4499",
    "#E69F00",
    "#56B4E9",
)
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
INK, GREY, PALE = "#222222", "#666666", "#dddddd"
ALARM = "#b00020"
SECRET_MARK = "SECRET - owner's eyes only"
SIZE = (6.2, 3.7)


def new_figure(title: str, *, rows: int = 1, size: tuple[float, float] = SIZE) -> Figure:
    """Return a figure of `rows` axes above each other that share x; the title says what is seen."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    room = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=size, layout=room, facecolor="white")
    for axes in figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]:
        _plain(axes)
    figure.axes[0].set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", pad=10)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=GREY, labelcolor=INK, labelsize=9)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def label(axes: Axes, *, x: str = "", y: str = "") -> None:
    """Name the axes."""
    axes.set_xlabel(x, color=INK, fontsize=10)
    axes.set_ylabel(y, color=INK, fontsize=10)


def line(axes: Axes, place: int, x: Floats, y: Floats, *, name: str, **style: Any) -> None:
    """Draw the curve number `place` in a colour and dash of its own."""
    look = {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.8,
    }
    axes.plot(x, y, label=name, **(look | style))


def budget_line(axes: Axes, epsilon: float) -> None:
    """Draw the budget as a line with its name on it."""
    axes.axhline(epsilon, color=INK, linewidth=1.2, linestyle=(0, (2, 2)))
    axes.annotate(
        f"budget {epsilon:g}",
        (1.0, epsilon),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        color=INK,
    )


def whole_numbers(axis: Axis) -> None:
    """Put ticks at integers only: there is no half a release."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def legend(axes: Axes, **place: Any) -> None:
    """Name the curves."""
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, **place)


def mark_secret(figure: Figure) -> Figure:
    """Write SECRET over a figure, in red, and mark it so that no report takes it; return it."""
    if not is_secret(figure):
        figure.set_gid(SECRET_ID)
        figure.suptitle(SECRET_MARK, color=ALARM, fontsize=12, fontweight="bold")
        figure.set_edgecolor(ALARM)
        figure.set_linewidth(4)
    return figure


def is_secret(figure: Figure) -> bool:
    """Tell whether a figure shows secret quantities."""
    return figure.get_gid() == SECRET_ID


def curve(**named: ArrayLike) -> Floats:
    """Return an argument as a non-empty list of finite numbers; messages never quote it."""
    array = finite_array(**named)
    if array.ndim != 1 or array.size == 0:
        (name,) = named
        raise InvalidArgument(
            f"Expected {name} to be a non-empty list of numbers, got shape {array.shape}."
        )
    return array


def same_length(names: str, arrays: Sequence[Floats]) -> None:
    """Raise unless all arrays are equally long."""
    sizes = [array.size for array in arrays]
    if len(set(sizes)) > 1:
        raise InvalidArgument(f"Expected {names} to be equally long, got lengths {sizes}.")
