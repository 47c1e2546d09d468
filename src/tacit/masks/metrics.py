"""How good masks are on scans declared public, class by class, as plain data for metrics.json.

Measured on each scan's own grid, distances in millimetres by its own spacing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.masks.scores import dice_scores, organ_dice, surface_distances
from tacit.masks.volumes import Volumes


def mask_metrics(
    predicted: Sequence[NDArray[Any]], truth: Volumes, names: Sequence[str]
) -> dict[str, Any]:
    """Return Dice and surface distances of each class, averaged over scans.

    dice: of all that is not background. A class that only one of the two masks has is at no
    distance: it counts with Dice 0, and under `missed`; one that neither has counts as Dice 1.

    >>> scan, organ = np.zeros((1, 6, 6)), np.zeros((6, 6), int)
    >>> organ[2:4, 2:4] = 1
    >>> one = Volumes(tuple(scan), (organ,), dimensions=2)
    >>> mask_metrics([organ], one, ["background", "organ"])["classes"]["organ"]["dice"]
    1.0
    """
    count = len(names)
    rows, organ = [], []
    pairs = zip(predicted, truth.masks or (), truth.spacings, strict=True)
    for ours, theirs, spacing in pairs:
        dice = dice_scores(ours[None], theirs[None], n_classes=count)[0]
        found = surface_distances(ours[None], theirs[None], n_classes=count, spacing=spacing)
        rows.append(np.stack([dice, found.average[0], found.hausdorff95[0]]))
        organ.append(organ_dice(ours[None], theirs[None])[0])
    table = np.array(rows)  # (scans, 3, classes - 1)
    classes = {name: _of_class(table[:, :, place]) for place, name in enumerate(names[1:])}
    return {"scans": len(rows), "dice": float(np.mean(organ)), "classes": classes}


def _of_class(columns: NDArray[Any]) -> dict[str, Any]:
    dice, average, far = columns.T
    there = np.isfinite(average)
    return {
        "dice": float(dice.mean()),
        "surface_distance_mm": float(average[there].mean()) if there.any() else None,
        "hausdorff95_mm": float(far[there].mean()) if there.any() else None,
        "missed": int((~there).sum()),
    }
