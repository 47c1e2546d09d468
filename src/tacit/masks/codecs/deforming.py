"""More public masks from few: small random shifts, stretches and bends.

A hundred masks span a hundred directions; a new mask leaves them. Deformed copies are public as
their originals are, and fill the directions in which shapes vary locally.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, non_negative
from tacit.masks.codecs.base import public_masks, spatial_sides


def deformed(
    masks: ArrayLike,
    copies: int,
    *,
    dimensions: int | None = None,
    shift: float = 0.5,
    stretch: float = 0.04,
    bend: float = 0.5,
    wavelength: float = 4.0,
    random_state: int = 0,
) -> Floats:
    """Return `copies` deformed versions of every public mask, (copies * n, ...), copy by copy.

    shift, bend: deviations in voxels of a translation and of a smooth random displacement whose
    blur is `wavelength` voxels; stretch: of the entries of a linear map about the middle.
    dimensions: how many of the last axes are spatial, all of them unless given; channels move
    together. Values are interpolated linearly, 0 outside.

    >>> square = np.zeros((1, 8, 8)); square[0, 2:6, 2:6] = 1
    >>> deformed(square, 3).shape
    (3, 8, 8)
    """
    from scipy.ndimage import map_coordinates

    array = public_masks(masks)
    sides = spatial_sides(array.shape[1:], dimensions)
    sizes = [non_negative(shift=shift), non_negative(stretch=stretch), non_negative(bend=bend)]
    rng = np.random.default_rng(at_least(0, random_state=random_state))
    made = np.empty((at_least(0, copies=copies), *array.shape))
    for copy in made:
        for mask, out in zip(array, copy, strict=True):
            places = _places(sides, sizes, wavelength, rng)
            planes = out.reshape(-1, *sides)
            for plane, target in zip(mask.reshape(-1, *sides), planes, strict=True):
                target[...] = map_coordinates(plane, places, order=1)
    return made.reshape(-1, *array.shape[1:])


def _places(
    sides: tuple[int, ...], sizes: list[float], wavelength: float, rng: np.random.Generator
) -> Floats:
    """Return where each voxel's value is taken from."""
    from scipy.ndimage import gaussian_filter

    shift, stretch, bend = sizes
    axes = np.meshgrid(*(np.arange(side) - (side - 1) / 2 for side in sides), indexing="ij")
    offsets = np.stack(axes).reshape(len(sides), -1)
    linear = np.eye(len(sides)) + rng.normal(scale=stretch, size=(len(sides), len(sides)))
    middle = (np.array(sides)[:, None] - 1) / 2
    places = linear @ offsets + middle + rng.normal(scale=shift, size=middle.shape)
    waves = [gaussian_filter(rng.normal(size=sides), wavelength) for _ in sides]
    bent = [bend * (wave / max(float(wave.std()), 1e-12)).ravel() for wave in waves]
    return np.asarray(places + bent).reshape(len(sides), *sides)
