"""Images that are no digits: directions of gradients at several scales, and large pixels.

Nothing is straightened and nothing is learned; `tacit.features.patches` adds learned features.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from tacit._checks import Floats, Shape, at_least, refuse, shape_pair
from tacit.features.images import HOG, ImageTransformer, Planes, pool


@dataclass(eq=False, repr=False)
class ScaledHOG(ImageTransformer):
    """Describe each image by `HOG` in grids of several sizes, and by a few large pixels.

    Nothing is learned. Each grid has length 1, and so have the pixels (means with those of the
    mirror image are a little shorter). Chosen on the training part of Fashion-MNIST. Source: Dalal
    and Triggs (2005).

    Parameters
    ----------
    image_shape : pair of int, as in `HOG`
    cells : tuple of int, cells along each side, a grid for each number
    pixels : int
        Along each side the image is also averaged to so many pixels, which are scaled to unit
        length; 0 leaves them out.
    mirror : bool, average the features with the mirror image's, for things symmetric in a mirror
    """

    image_shape: Shape = (28, 28)
    _: KW_ONLY
    cells: tuple[int, ...] = (8, 4)
    pixels: int = 14
    mirror: bool = False

    def grids(self) -> list[HOG]:
        """Return the grids, one for each of `cells`.

        Returns
        -------
        list of HOG
        """
        return [HOG(self.image_shape, cells=count) for count in self.cells]

    def _check(self) -> None:
        if not isinstance(self.cells, tuple | list) or not self.cells:
            raise refuse("cells", self.cells, "some numbers of cells along each side")
        for grid in self.grids():
            grid._check()
        if at_least(0, pixels=self.pixels) > min(shape_pair(image_shape=self.image_shape)):
            raise refuse("pixels", self.pixels, f"at most those of {self.image_shape}")

    @property
    def _n_features_out(self) -> int:
        return sum(grid._n_features_out for grid in self.grids()) + self.pixels**2

    def _transform_planes(self, planes: Planes) -> Planes:
        made = self._described(planes)
        if not self.mirror:
            return made
        other = self._described(np.ascontiguousarray(planes[:, ::-1]))
        return ((made + other) / 2).astype(np.float32, copy=False)

    def _described(self, planes: Planes) -> Planes:
        n = planes.shape[2]
        parts = [grid._transform_planes(planes).reshape(-1, n) for grid in self.grids()]
        if self.pixels:
            parts.append(_large_pixels(planes, self.pixels))
        return np.concatenate(parts)


def box_windows(size: int, pixels: int) -> Floats:
    """Weights `(pixels, size)`: 1 where a small pixel belongs to a large one.

    >>> box_windows(4, 2).tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    owner = np.arange(size) * pixels // size
    return np.asarray(owner == np.arange(pixels)[:, None], dtype=np.float64)


def _large_pixels(planes: Planes, pixels: int) -> Planes:
    """Return sums of pixels, of unit length; squares are added in a fixed order."""
    height, width, n = planes.shape
    by_column = pool(planes, box_windows(height, pixels)).swapaxes(0, 1)
    large = pool(by_column, box_windows(width, pixels)).swapaxes(0, 1).reshape(-1, n)
    total = np.zeros(n, dtype=np.float32)
    for plane in large:
        total += plane * plane
    total[total == 0] = 1
    return np.asarray(large / np.sqrt(total))
