"""Generated scans with organs in them, so that tests and newcomers need nobody's data.

An organ is an ellipsoid, bent and wrinkled a little, somewhere near the middle; inside it, several
classes lie one behind the other along its longest axis, as the parts of a hippocampus do. The scan
shows it with a coil's shading, a second structure beside it, and noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit._checks import Floats, at_least, non_negative
from tacit.errors import InvalidArgument
from tacit.masks.volumes import Volumes

_WAVES = 4  # waves of the organ's surface and of the shading
_BRIGHT = 1.0  # the organ's contrast, in units of which `noise` is given


def generated_volumes(
    n: int,
    shape: Sequence[int] = (24, 32, 24),
    *,
    n_classes: int = 2,
    noise: float = 0.15,
    seed: int = 0,
) -> Volumes:
    """Make n scans of the given shape (2D or 3D) with masks of n_classes (0 is background).

    Volume i depends on the seed and on i alone. Intensities are raw, on a scale that differs from
    scan to scan as a scanner's would: normalise them (`Volumes.normalised`).

    >>> scans = generated_volumes(2, (16, 20, 16), n_classes=3)
    >>> scans, [sorted(set(mask.ravel().tolist())) for mask in scans.masks]
    (Volumes(volumes=2, dimensions=3, n_classes=3), [[0, 1, 2], [0, 1, 2]])
    """
    sides = tuple(at_least(8, shape=side) for side in shape)
    if len(sides) not in (2, 3):
        raise InvalidArgument(f"Expected shape={tuple(shape)} to have two or three sides.")
    classes, spread = at_least(2, n_classes=n_classes), non_negative(noise=noise)
    numbers = range(at_least(1, n=n))
    streams = [np.random.default_rng([at_least(0, seed=seed), i]) for i in numbers]
    pairs = [_scan(stream, sides, classes, spread) for stream in streams]
    return Volumes(
        images=tuple(image.astype(np.float32) for image, _ in pairs),
        masks=tuple(mask.astype(np.uint8) for _, mask in pairs),
        cases=tuple(f"generated_{i:03d}" for i in numbers),
        n_classes=classes,
        dimensions=len(sides),
    )


def _scan(
    rng: np.random.Generator, sides: tuple[int, ...], classes: int, noise: float
) -> tuple[Floats, Floats]:
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, side) for side in sides], indexing="ij"))
    bent = grid + 0.06 * np.stack([_waves(rng, grid) for _ in sides])
    place = _turned(rng, bent, rng.uniform(-0.15, 0.15, len(sides)))
    radii = np.array([0.6, 0.4, 0.35])[: len(sides)] * rng.uniform(0.8, 1.2, len(sides))
    scaled = place / radii.reshape(-1, *[1] * len(sides))
    distance = np.sqrt((scaled**2).sum(axis=0))
    part = np.floor((scaled[0] + 1) / 2 * (classes - 1)).clip(0, classes - 2) + 1
    mask = np.where(distance < 1, part, 0)
    # A voxel at the border shows a bit of both sides.
    organ = 1 / (1 + np.exp(8 * (distance - 1)))
    beside = np.exp(-8 * ((place[0] + place[-1] - 0.9) ** 2))
    image = organ * (_BRIGHT + 0.15 * part) + 0.7 * beside + 0.15 * _waves(rng, grid)
    image += noise * rng.normal(size=sides)
    return 10 ** rng.uniform(1, 4) * (image + 2), mask


def _waves(rng: np.random.Generator, grid: Floats) -> Floats:
    """Return a smooth random field of about unit size."""
    field = np.zeros(grid.shape[1:])
    for _ in range(_WAVES):
        direction = rng.normal(size=len(grid)) * 2
        field += np.cos(np.tensordot(direction, grid, 1) + rng.uniform(0, 2 * np.pi))
    return np.asarray(field / np.sqrt(_WAVES / 2))


def _turned(rng: np.random.Generator, grid: Floats, centre: Floats) -> Floats:
    """Move the grid to the organ's own axes: its centre, and a small random turn."""
    near = np.eye(len(grid)) + 0.2 * rng.normal(size=(len(grid), len(grid)))
    turn, upper = np.linalg.qr(near)
    turn = turn * np.sign(np.diag(upper))  # otherwise an axis may point the other way
    return np.asarray(np.tensordot(turn.T, grid - centre.reshape(-1, *[1] * len(centre)), 1))
