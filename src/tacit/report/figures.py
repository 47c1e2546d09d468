"""Public figures in one style, and their export to a file or an SVG element.

Figures are made with matplotlib's object interface (no pyplot). Colours are those of Okabe and Ito,
distinguishable by the colour-blind; lines differ by dash as well. A figure for the data owner alone
(`owner_analysis`) is marked here for good.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, finite_array, positive, refuse
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument
from tacit.report.svg import SECRET_ID, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION = "#0072B2", "#D55E00"
INK, GREY, PALE, ALARM = "#222222", "#666666", "#dddddd", "#b00020"
COLOURS = (BLUE, VERMILION, "#009E73", "#AA4499", "#E69F00", "#56B4E9")
PALETTE = (*COLOURS, INK, "#999933")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
DOTTED: Any = (0, (2, 2))
REFERENCES: tuple[Any, ...] = (DOTTED, (0, (5, 2)), (0, (7, 2, 1, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h")
SECRET_MARK = "SECRET - owner's eyes only"
MOST_PICTURES = 40
"""More pictures than this do not help a reader."""
NEARLY_RIGHT = 0.95
"""From this accuracy on, a comparison's axis is logarithmic in the error."""
_TICKS = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
_CEILING = 0.9995
_LEGEND_WIDTH = 24  # characters of a line
_NUDGE = 0.012  # of a decade of epsilon, between the bars of neighbouring methods
_NO_DATES: Mapping[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What matplotlib would write about when and with what: the same figure is the same file."""


def new_figure(title: str, *, rows: int = 1, size: tuple[float, float] = (6.2, 3.7)) -> Figure:
    """Return a titled figure of `rows` axes above each other that share x."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    room = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=size, layout=room, facecolor="white")
    for axes in figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
        axes.tick_params(colors=GREY, labelcolor=INK, labelsize=9)
        axes.grid(axis="y", color=PALE, linewidth=0.6)
        axes.set_axisbelow(True)
    figure.axes[0].set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", pad=10)
    return figure


def label(axes: Axes, *, x: str = "", y: str = "", delta: float | None = None) -> None:
    """Name the axes; y names the delta of its epsilon."""
    axes.set_xlabel(x, color=INK, fontsize=10)
    axes.set_ylabel(y + at_delta(delta), color=INK, fontsize=10)


def at_delta(delta: float | None) -> str:
    """Return the delta of an epsilon, in brackets, if there is one."""
    return "" if delta is None else f" (delta = {delta:g})"


def line(axes: Axes, place: int, x: Floats, y: Floats, *, name: str, **style: Any) -> None:
    """Draw the curve number `place` in a colour and dash of its own."""
    colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
    axes.plot(x, y, label=name, color=colour, linestyle=dash, linewidth=1.8, **style)


def note(axes: Axes, text: str, place: Any, axis: Any, offset: Any, **style: Any) -> None:
    """Annotate a line; `axis` is the coordinate system of `place`."""
    look = {"fontsize": 9, "color": INK, **style}
    axes.annotate(text, place, xycoords=axis, xytext=offset, textcoords="offset points", **look)


def legend(axes: Axes, place: Any) -> None:
    """Draw the legend."""
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc=place)


def mark_secret(figure: Figure) -> Figure:
    """Write SECRET over a figure, in red, and mark it so that no report accepts it; return it."""
    if not is_secret(figure):
        figure.set_gid(SECRET_ID)
        figure.suptitle(SECRET_MARK, color=ALARM, fontsize=12, fontweight="bold")
        figure.set_edgecolor(ALARM)
        figure.set_linewidth(4)
    return figure


def is_secret(figure: Figure) -> bool:
    """Whether a figure shows secret quantities."""
    return figure.get_gid() == SECRET_ID


def curves_of(**named: ArrayLike) -> list[Floats]:
    """Return lists of finite numbers, non-empty and equally long; messages never quote them."""
    arrays = {name: finite_array(**{name: values}) for name, values in named.items()}
    for name, array in arrays.items():
        if array.ndim != 1 or array.size == 0:
            raise InvalidArgument(
                f"Expected {name} to be a non-empty list of numbers, got shape {array.shape}."
            )
    sizes = [array.size for array in arrays.values()]
    if len(set(sizes)) > 1:
        raise InvalidArgument(
            f"Expected {', '.join(arrays)} to be equally long, got lengths {sizes}."
        )
    return list(arrays.values())


def named_curves(curves: Mapping[str, ArrayLike], **x: ArrayLike) -> list[Floats]:
    """Return x, if given, and one or more curves, equally long."""
    if not curves:
        raise InvalidArgument("Expected curves to hold at least one name and its numbers.")
    return curves_of(**x, **{f"curves[{name!r}]": values for name, values in curves.items()})


def trade_off_figure(
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    *,
    budget: float | None = None,
    delta: float | None = None,
) -> Figure:
    """Draw worst-case epsilon against queries for several mechanisms: no data needed.

    Parameters
    ----------
    x : array of shape (n,), numbers of queries
    curves : mapping of str to array, a name ("sigma 40") and one epsilon for every value of `x`
    budget : float, optional, epsilon at which a dotted line is drawn
    delta : float, optional, of all epsilons, for the axis

    Returns
    -------
    Figure, public

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import GNMax, Plan
    >>> queries = np.array([10, 100, 1000])
    >>> epsilons = [Plan(GNMax(sigma=40), queries=int(q)).epsilon(1e-5) for q in queries]
    >>> figure = trade_off_figure(queries, {"sigma 40": epsilons}, budget=2, delta=1e-5)
    >>> figure.axes[0].get_title(loc="left")
    'Worst-case epsilon against queries'
    """
    places, *drawn = named_curves(curves, x=x)
    figure = new_figure("Worst-case epsilon against queries")
    axes = figure.axes[0]
    for place, (name, values) in enumerate(zip(curves, drawn, strict=True)):
        line(axes, place, places, values, name=name)
    if budget is not None:
        limit = positive(budget=budget)
        axes.axhline(limit, color=INK, linewidth=1.2, linestyle=DOTTED)
        text, axis = f"budget {limit:g}", ("axes fraction", "data")
        note(axes, text, (1.0, limit), axis, (-2, 3), ha="right", va="bottom")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.02)
    label(axes, x="queries", y="epsilon", delta=delta)
    legend(axes, "best")
    return figure


def gallery_figure(images: ArrayLike, captions: Sequence[str]) -> Figure:
    """Draw public images in a grid, ten a row, each with its caption; at most 40 are shown.

    Parameters
    ----------
    images : array of shape (n, height, width), public grey values, large ones dark
    captions : sequence of str, one an image, such as its released label

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> figure = gallery_figure(np.zeros((3, 8, 8)), ["0", "1", "2"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0', '1', '2']
    """
    from matplotlib.figure import Figure

    pictures = np.asarray(images, dtype=np.float64)
    if pictures.ndim != 3 or len(pictures) != len(captions) or not len(captions):
        raise InvalidArgument(
            f"Expected images (n, height, width) and as many captions, got {pictures.shape} "
            f"and {len(captions)}."
        )
    shown = min(len(pictures), MOST_PICTURES)
    rows, columns = math.ceil(shown / 10), 10
    figure = Figure(figsize=(0.85 * columns, 1.15 * rows))
    # One plane for all: a plane for each image takes ten times as long to lay out and to draw.
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    height, width = pictures.shape[1:]
    scale = 0.75 / max(height, width)
    for place, caption in enumerate(captions[:shown]):
        middle, foot = 0.85 * (place % columns) + 0.425, 1.15 * (place // columns) + 1.1
        sides = (middle - scale * width / 2, middle + scale * width / 2)
        extent = (*sides, foot, foot - scale * height)
        axes.imshow(pictures[place], cmap="gray_r", interpolation="nearest", extent=extent)
        axes.text(middle, extent[3] - 0.05, caption, fontsize=8, ha="center")
    axes.set(xlim=(0, 0.85 * columns), ylim=(1.15 * rows, 0), aspect="auto")
    return figure


class Points(NamedTuple):
    """A method's curve: epsilons, mean accuracies, and the range of the repetitions.

    Parameters
    ----------
    epsilon : sequence of float, worst-case budgets > 0
    mean : sequence of float, mean accuracies of the repetitions, from 0 to 1
    least, most : sequences of float, accuracies of the worst and the best repetition
    """

    epsilon: Sequence[float]
    mean: Sequence[float]
    least: Sequence[float]
    most: Sequence[float]

    def checked(self) -> list[Floats]:
        """Return the four as arrays of equal length; refuse an invalid range of accuracies.

        Returns
        -------
        list of arrays
        """
        arrays = epsilon, mean, least, most = curves_of(**self._asdict())
        if (epsilon <= 0).any() or (least > mean + 1e-12).any() or (mean > most + 1e-12).any():
            raise InvalidArgument("Expected epsilon > 0 and least <= mean <= most at every point.")
        if (least < 0).any() or (most > 1).any():
            raise InvalidArgument("Expected accuracies from 0 to 1.")
        return arrays


def comparison_figure(
    curves: Mapping[str, Points],
    *,
    title: str,
    delta: float | None = None,
    references: Mapping[str, float] | None = None,
    score: str = "held-out accuracy",
) -> Figure:
    """Draw a score against epsilon; a bar spans the repetitions from the worst to the best.

    Where the best methods are nearly right, the axis is logarithmic in the error: 99 % and 99.5 %
    stand as far apart as 90 % and 95 %.

    Parameters
    ----------
    curves : mapping of str to Points, methods by name, in the order of the legend
    title : str
    delta : float, optional, of all epsilons, for the axis
    references : mapping of str to float, optional
        Horizontal lines, such as accuracy without privacy, or of one constant label.
    score : str, label of the vertical axis, from 0 to 1

    Returns
    -------
    Figure

    Examples
    --------
    >>> points = Points([0.1, 1], [0.9, 0.97], [0.88, 0.96], [0.92, 0.98])
    >>> figure = comparison_figure({"prototypes": points}, title="digits")
    >>> figure.axes[0].get_xscale()
    'log'
    """
    if not curves:
        raise InvalidArgument("Expected curves to hold at least one method and its points.")
    drawn = {name: points.checked() for name, points in curves.items()}
    figure = new_figure(title, size=(7.4, 4.2))
    axes = figure.axes[0]
    axes.set_xscale("log")
    centre = (len(drawn) - 1) / 2
    for place, (name, arrays) in enumerate(drawn.items()):
        _draw_method(axes, place, 10 ** (_NUDGE * (place - centre)), name, arrays)
    lines = dict(references or {})
    for place, (name, height) in enumerate(lines.items()):
        # Named in the legend: beside their lines, two that are close would overprint each other.
        style = REFERENCES[place % len(REFERENCES)]
        text = _folded(f"{name}: {100 * height:.1f} %")
        axes.axhline(height, color=GREY, linewidth=1.2, linestyle=style, label=text, zorder=1)
    heights = [array for arrays in drawn.values() for array in arrays[1:]]
    _scale(axes, np.concatenate([*heights, list(lines.values())]))
    levels = np.unique(np.concatenate([arrays[0] for arrays in drawn.values()]))
    axes.set_xticks(levels, [f"{level:g}" for level in levels])
    axes.minorticks_off()
    label(axes, x=f"worst-case epsilon{at_delta(delta)}", y=score)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _folded(name: str) -> str:
    """Wrap a long name, so that the legend leaves room for the curves."""
    return "\n".join(textwrap.wrap(name, _LEGEND_WIDTH))


def _draw_method(axes: Axes, place: int, nudge: float, name: str, arrays: Sequence[Floats]) -> None:
    order = np.argsort(arrays[0])
    epsilon, mean, least, most = (array[order] for array in arrays)
    axes.errorbar(
        epsilon * nudge,
        mean,
        yerr=np.maximum([mean - least, most - mean], 0),
        label=_folded(name),
        color=PALETTE[place % len(PALETTE)],
        linestyle=DASHES[place % len(DASHES)],
        marker=MARKERS[place % len(MARKERS)],
        markersize=5,
        linewidth=1.6,
        elinewidth=1.0,
        capsize=2.5,
    )


def _scale(axes: Axes, heights: Floats) -> None:
    from matplotlib.ticker import FuncFormatter

    low, high = float(heights.min()), float(heights.max())
    if high < NEARLY_RIGHT:
        pad = 0.06 * max(high - low, 0.02)
        axes.set_ylim(max(0.0, low - pad), min(1.0, high + pad))
    else:
        axes.set_yscale("function", functions=(_stretched, _back))
        bottom, top = max(0.0, low - 0.05), min(_CEILING, 1 - 0.6 * (1 - min(high, _CEILING)))
        axes.set_ylim(bottom, top)
        axes.set_yticks([tick for tick in _TICKS if bottom <= tick <= top])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))


def _stretched(accuracy: Floats) -> Floats:
    return np.asarray(-np.log10(np.maximum(1 - np.asarray(accuracy), 1 - _CEILING)))


def _back(place: Floats) -> Floats:
    return np.asarray(1 - 10.0 ** -np.asarray(place))


def figure_svg(figure: Figure) -> str:
    """Return a figure as an `<svg>` element for a page: no prolog, full width.

    Parameters
    ----------
    figure : Figure, a secret one stays marked, and no report accepts it

    Returns
    -------
    str, the same for the same figure

    Examples
    --------
    >>> figure_svg(trade_off_figure([1, 2], {"sigma 40": [0.5, 0.7]}))[:4]
    '<svg'
    """
    return inline_svg(_drawn(figure, "svg").decode("utf-8"), public=False)


def save_figure(figure: Figure, path: PathLike, *, secret: bool = False) -> Path:
    """Write a figure as PNG, SVG or PDF, by the suffix of `path`, atomically.

    Parameters
    ----------
    figure : Figure
    path : path
    secret : bool, mark the figure as secret first; one of the owner's analysis is already

    Returns
    -------
    Path
        A secret figure is readable by its owner only: mode 0600.
    """
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _NO_DATES:
        raise refuse("path", target.name, "a file name that ends in .png, .svg or .pdf")
    if secret:
        mark_secret(figure)  # before anything is written: the file's mode follows from the mark
    write_atomically(target, _drawn(figure, kind), mode=0o600 if is_secret(figure) else 0o644)
    return target


def _drawn(figure: Figure, kind: str) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    settings: dict[Any, Any] = {"svg.hashsalt": "tacit", "svg.fonttype": "none", "pdf.fonttype": 42}
    look: dict[str, Any] = {"dpi": 160, "edgecolor": figure.get_edgecolor()}
    with matplotlib.rc_context(settings):
        figure.draw_without_rendering()  # the layout settles when it is drawn once more
        figure.savefig(buffer, format=kind, metadata=_NO_DATES[kind], **look)
    return buffer.getvalue()
