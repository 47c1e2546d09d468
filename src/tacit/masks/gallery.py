"""Pictures of public scans with masks over them: what was released, what the student says, truth.

The caller decides what is public: a scan or a mask that is handed over here will be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidArgument
from tacit.report import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SCANS = 6
"""More rows than this do not help a reader."""
_OPACITY = 0.5
_SIDE = 1.7  # inches of a picture's longer side


def mask_figure(
    scans: Sequence[ArrayLike],
    masks: Mapping[str, Sequence[ArrayLike]],
    *,
    names: Sequence[str] = (),
    most: int = MOST_SCANS,
) -> Figure:
    """Draw public scans, one a row: the input, then each column of masks (class indices) over it.

    Scans `(*spatial)` in 2D or 3D; of a volume, the slice across its last axis where the first
    column has most that is not background. `names`: the classes, background first, for a key.

    >>> scan, organ = np.zeros((6, 6, 4)), np.zeros((6, 6, 4), int)
    >>> organ[2:4, 2:4, 3] = 1
    >>> figure = mask_figure([scan], {"released": [organ], "student": [organ]})
    >>> [axes.get_title() for axes in figure.axes]
    ['input', 'released', 'student']
    """
    rows = _checked(scans, masks, most)
    from matplotlib.figure import Figure

    columns = ["input", *masks]
    size = (_SIDE * len(columns), _SIDE * len(rows) + (0.6 if names else 0.3))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for place, (scan, drawn) in enumerate(rows):
        where = _slice(drawn[0])
        for column, (axes, title) in enumerate(zip(grid[place], columns, strict=True)):
            _draw(axes, scan[where], None if column == 0 else drawn[column - 1][where])
            if place == 0:
                axes.set_title(title, fontsize=9, color=INK)
    _key(figure, names)
    return figure


def _checked(
    scans: Sequence[ArrayLike], masks: Mapping[str, Sequence[ArrayLike]], most: int
) -> list[tuple[NDArray[Any], list[NDArray[Any]]]]:
    if not len(scans) or not masks or any(len(column) != len(scans) for column in masks.values()):
        raise InvalidArgument("Expected scans, and as many masks in each column.")
    rows = []
    for place in range(min(len(scans), most)):
        scan = np.asarray(scans[place], dtype=np.float64)
        drawn = [np.asarray(column[place]) for column in masks.values()]
        if scan.ndim not in (2, 3) or any(mask.shape != scan.shape for mask in drawn):
            raise InvalidArgument("Expected masks of their scan's shape, in 2D or 3D.")
        rows.append((scan, drawn))
    return rows


def _slice(mask: NDArray[Any]) -> tuple[Any, ...]:
    """Return where to cut a volume: where the mask has most."""
    if mask.ndim == 2:
        return (slice(None), slice(None))
    sizes = (mask > 0).sum(axis=(0, 1))
    best = int(sizes.argmax()) if sizes.any() else mask.shape[2] // 2
    return (slice(None), slice(None), best)


def _draw(axes: Any, picture: NDArray[Any], mask: NDArray[Any] | None) -> None:
    """Draw with the first axis to the right and the second one up, as voxel indices go."""
    axes.imshow(picture.T, cmap="gray", origin="lower", interpolation="nearest")
    if mask is not None:
        axes.imshow(_coloured(mask).swapaxes(0, 1), origin="lower", interpolation="nearest")
    axes.set_axis_off()


def _coloured(mask: NDArray[Any]) -> NDArray[np.float64]:
    from matplotlib.colors import to_rgb

    colours = np.zeros((*mask.shape, 4))
    for one in np.unique(mask[mask > 0]):
        rgb = to_rgb(COLOURS[(int(one) - 1) % len(COLOURS)])
        colours[mask == one] = (*rgb, _OPACITY)
    return colours


def _key(figure: Any, names: Sequence[str]) -> None:
    """Name the colours of the classes below the pictures."""
    if not names:
        return
    from matplotlib.patches import Patch

    handles = [
        Patch(color=COLOURS[place % len(COLOURS)], alpha=_OPACITY, label=str(name))
        for place, name in enumerate(names[1:])
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
