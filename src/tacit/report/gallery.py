"""Pictures of public inputs with what was released about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 40
"""More pictures than this do not help a reader."""


def gallery_figure(
    images: ArrayLike, captions: Sequence[str], *, columns: int = 10, title: str = ""
) -> Figure:
    """Draw public images in a grid, each with its caption; at most 40 are shown.

    >>> import numpy as np
    >>> figure = gallery_figure(np.zeros((3, 8, 8)), ["0", "1", "2"])
    >>> [axes.get_title() for axes in figure.axes]
    ['0', '1', '2']
    """
    from matplotlib.figure import Figure

    pictures = np.asarray(images, dtype=np.float64)
    if pictures.ndim != 3 or len(pictures) != len(captions) or not len(captions):
        raise InvalidArgument(
            f"Expected images (n, height, width) and as many captions, got {pictures.shape} "
            f"and {len(captions)}."
        )
    shown = min(len(pictures), _MOST)
    rows = math.ceil(shown / columns)
    figure = Figure(figsize=(0.85 * columns, 1.15 * rows + (0.4 if title else 0)))
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    for place in range(shown):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.imshow(pictures[place], cmap="gray_r", interpolation="nearest")
        axes.set_title(captions[place], fontsize=8)
        axes.set_axis_off()
    figure.tight_layout(rect=(0, 0, 1, 0.94 if title else 1))
    return figure
