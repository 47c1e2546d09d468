"""How good a mask is: overlap and distance of surfaces, class by class.

Pure functions of two masks. Compute them on scans whose truth is public, or keep them secret. A
class that neither mask has: Dice 1, distance 0. That only one has: Dice 0, distance infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, positive
from tacit.errors import InvalidArgument
from tacit.masks.volumes import Volumes, holds_classes
from tacit.report import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_FAR = 95.0  # percentile of the robust Hausdorff distance


def dice_scores(predicted: ArrayLike, truth: ArrayLike, *, n_classes: int) -> Floats:
    """Return 2 |A and B| / (|A| + |B|), (n, classes - 1), without the background."""
    ours, theirs, classes = _pair(predicted, truth, n_classes)
    axes = tuple(range(1, ours.ndim))
    columns = []
    for one in range(1, classes):
        a, b = ours == one, theirs == one
        sizes = a.sum(axis=axes) + b.sum(axis=axes)
        both = (a & b).sum(axis=axes)
        columns.append(np.where(sizes > 0, 2 * both / np.maximum(sizes, 1), 1.0))
    return np.stack(columns, axis=1)


def organ_dice(predicted: ArrayLike, truth: ArrayLike) -> Floats:
    """Return the Dice score of the foreground of each mask.

    Parameters
    ----------
    predicted, truth : arrays of shape (n, *spatial), masks of class indices, 0 the background

    Returns
    -------
    array of shape (n,)
        From 0 to 1; 1 where both masks are empty. Secret where the truth is.
    """
    ours, theirs = np.asarray(predicted) > 0, np.asarray(truth) > 0
    return dice_scores(ours.astype(np.uint8), theirs.astype(np.uint8), n_classes=2)[:, 0]


def surface_distances(
    predicted: ArrayLike,
    truth: ArrayLike,
    *,
    n_classes: int,
    spacing: Sequence[float] | None = None,
) -> tuple[Floats, Floats]:
    """Return mean and 95th percentile of the surface distances, in units of `spacing`.

    Each is (n, n_classes - 1). A surface is the voxels of a class with a neighbour of another
    class, or at the border; distances go from each to the nearest of the other mask. The mean is
    over both directions together, the percentile the larger of the two directions' (as MONAI's).
    """
    ours, theirs, classes = _pair(predicted, truth, n_classes)
    sides = [positive(spacing=side) for side in spacing or [1.0] * (ours.ndim - 1)]
    if len(sides) != ours.ndim - 1:
        raise InvalidArgument(f"Expected a spacing of {ours.ndim - 1} sides, got {len(sides)}.")
    pairs = [
        [_distances(a == one, b == one, sides) for one in range(1, classes)]
        for a, b in zip(ours, theirs, strict=True)
    ]
    table = np.array(pairs, dtype=np.float64).reshape(len(ours), classes - 1, 2)
    return table[..., 0], table[..., 1]


def _distances(a: NDArray[Any], b: NDArray[Any], spacing: list[float]) -> tuple[float, float]:
    if not (a.any() and b.any()):
        apart = np.inf if a.any() or b.any() else 0.0
        return apart, apart
    from scipy.ndimage import binary_erosion, distance_transform_edt

    edges = [mask & ~binary_erosion(mask) for mask in (a, b)]
    to_a, to_b = (distance_transform_edt(~edge, sampling=spacing) for edge in edges)
    there, back = to_b[edges[0]], to_a[edges[1]]
    far = max(np.percentile(there, _FAR), np.percentile(back, _FAR))
    return float(np.concatenate([there, back]).mean()), float(far)


def _pair(
    predicted: ArrayLike, truth: ArrayLike, n_classes: int
) -> tuple[NDArray[Any], NDArray[Any], int]:
    ours, theirs = np.asarray(predicted), np.asarray(truth)
    classes = at_least(2, n_classes=n_classes)
    if ours.shape != theirs.shape or ours.ndim < 2 or 0 in ours.shape:
        raise InvalidArgument(
            f"Expected two masks of one shape (n, *spatial), got {ours.shape} and {theirs.shape}."
        )
    for name, array in (("predicted", ours), ("truth", theirs)):
        if not holds_classes(array, classes):
            raise InvalidArgument(f"Expected {name} to hold class indices 0 .. {classes - 1}.")
    return ours, theirs, classes


def mask_metrics(
    predicted: Sequence[NDArray[Any]], truth: Volumes, names: Sequence[str]
) -> dict[str, Any]:
    """Return Dice and surface distances of each class, averaged over scans.

    A class that only one of the two masks has counts with Dice 0 and under `missed`, at no
    distance; one that neither has counts as Dice 1.

    Parameters
    ----------
    predicted : sequence of arrays, masks of class indices, one a scan, on the scan's own grid
    truth : Volumes, the same scans with their masks; the result is secret where these are
    names : sequence of str, the classes, background first

    Returns
    -------
    dict
        `scans`, their number; `dice`, of the foreground; `classes`: for each but the background
        `dice`, `surface_distance_mm`, `hausdorff95_mm` and `missed`. Of empty masks: `empty_truth`
        and `empty_predicted`, how many; `empty_mask_alone`, the Dice of always predicting nothing;
        `dice_where_there_is`, over scans with something to find, None without any.
    """
    pairs = zip(predicted, truth.masks or (), truth.spacings, strict=True)
    return mask_means([mask_scores(*each, n_classes=len(names)) for each in pairs], names)


@dataclass(frozen=True, slots=True, eq=False)
class MaskScores:
    """How good one mask is; secret where its truth is.

    `table`: Dice, mean distance and the 95th percentile of distances (rows) of each class but the
    background (columns); `dice`: of the foreground.
    """

    table: Floats
    dice: float
    empty_truth: bool
    empty_predicted: bool


def mask_scores(
    ours: NDArray[Any], theirs: NDArray[Any], spacing: Sequence[float], *, n_classes: int
) -> MaskScores:
    """Compare one mask with its truth."""
    dice = dice_scores(ours[None], theirs[None], n_classes=n_classes)[0]
    near, far = surface_distances(ours[None], theirs[None], n_classes=n_classes, spacing=spacing)
    return MaskScores(
        np.stack([dice, near[0], far[0]]),
        float(organ_dice(ours[None], theirs[None])[0]),
        not np.any(theirs),
        not np.any(ours),
    )


def mask_means(scores: Sequence[MaskScores], names: Sequence[str]) -> dict[str, Any]:
    """Return what `mask_metrics` does, from the scores of each mask."""
    table = np.array([each.table for each in scores])  # (scans, 3, classes - 1)
    classes = {name: _of_class(table[:, :, place]) for place, name in enumerate(names[1:])}
    organ = np.array([each.dice for each in scores])
    nothing = np.array([each.empty_truth for each in scores])
    return {
        "scans": len(scores),
        "dice": float(organ.mean()),
        "classes": classes,
        # Empty against empty counts as 1, which is what empty masks do to a mean.
        "empty_truth": int(nothing.sum()),
        "empty_predicted": sum(each.empty_predicted for each in scores),
        "empty_mask_alone": float(nothing.mean()),
        "dice_where_there_is": None if nothing.all() else float(organ[~nothing].mean()),
    }


def _of_class(columns: NDArray[Any]) -> dict[str, Any]:
    dice, average, far = columns.T
    there = np.isfinite(average)
    return {
        "dice": float(dice.mean()),
        "surface_distance_mm": float(average[there].mean()) if there.any() else None,
        "hausdorff95_mm": float(far[there].mean()) if there.any() else None,
        "missed": int((~there).sum()),
    }


MOST_SCANS = 6  # more rows than this do not help a reader
_OPACITY = 0.5


_SIDE = 1.7  # inches of a picture's longer side


def mask_figure(
    scans: Sequence[ArrayLike],
    masks: Mapping[str, Sequence[ArrayLike]],
    *,
    names: Sequence[str] = (),
) -> Figure:
    """Draw public scans, one a row: the input, then each column of masks (class indices) over it.

    Parameters
    ----------
    scans : sequence of arrays of shape (*spatial)
        Public scans, in 2D or 3D, of which at most six are drawn; of a volume, the slice across its
        last axis where the first column has the largest foreground.
    masks : mapping of str to sequence of arrays
        Columns by title, a mask for each scan and of its shape.
    names : sequence of str, the classes, background first, for a key; none by default

    Returns
    -------
    Figure, matplotlib's
    """
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    if not len(scans) or not masks or any(len(column) != len(scans) for column in masks.values()):
        raise InvalidArgument("Expected scans, and as many masks in each column.")
    columns, shown = ("input", *masks), min(len(scans), MOST_SCANS)
    size = (_SIDE * len(columns), _SIDE * shown + (0.6 if names else 0.3))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    grid = figure.subplots(shown, len(columns), squeeze=False)
    colours = [to_rgba(colour, _OPACITY) for colour in COLOURS]
    for row, scan, *drawn in zip(grid, scans, *masks.values(), strict=False):
        _draw_row(row, np.asarray(scan, dtype=np.float64), list(map(np.asarray, drawn)), colours)
    for axes, title in zip(grid[0], columns, strict=True):
        axes.set_title(title, fontsize=9, color=INK)
    keys = zip(names[1:], cycle(colours), strict=False)
    if handles := [Patch(color=colour, label=str(name)) for name, colour in keys]:
        look: dict[str, Any] = {"ncols": 6, "frameon": False, "fontsize": 8}
        figure.legend(handles=handles, loc="outside lower center", **look)
    return figure


def _draw_row(row: Any, scan: NDArray[Any], masks: list[NDArray[Any]], colours: list[Any]) -> None:
    """Draw with the first axis to the right and the second one up, as voxel indices go."""
    if scan.ndim not in (2, 3) or any(mask.shape != scan.shape for mask in masks):
        raise InvalidArgument("Expected masks of their scan's shape, in 2D or 3D.")
    look = {"origin": "lower", "interpolation": "nearest"}
    palette, where = np.array([(0.0, 0.0, 0.0, 0.0), *colours]), _slice(masks[0])
    for axes, mask in zip(row, (None, *masks), strict=True):
        axes.imshow(scan[where].T, cmap="gray", **look)
        if mask is not None:
            classes = np.where(mask > 0, (mask - 1) % len(colours) + 1, 0)
            axes.imshow(palette[classes[where].T], **look)
        axes.set_axis_off()


def _slice(mask: NDArray[Any]) -> Any:
    """Return the slice of a volume that shows most of the mask."""
    if mask.ndim == 2:
        return ...
    sizes = (mask > 0).sum(axis=(0, 1))
    return (..., int(sizes.argmax()) if sizes.any() else mask.shape[2] // 2)
