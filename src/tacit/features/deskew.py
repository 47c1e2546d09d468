"""Deskewing: every image upright, centred and of similar size, by its own moments.

A hand's slant, position and size say little about what was written. The affine map that undoes
them is read off each image's own ink, so the view is public and data-independent: no other image,
and nothing fitted, has a part in it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, non_negative, positive, refuse
from tacit.features._images import ImageTransformer, Planes
from tacit.features._shapes import Shape, shape_pair

_PIXEL_VARIANCE = 1 / 12  # of a uniform density one pixel wide: no ink is thinner than its pixel
_STEEPEST_SKEW = 1.0  # 45 degrees; more slant than that is a horizontal stroke, not a slant
_RESIZE_RANGE = (0.4, 1.6)


@dataclass(frozen=True, slots=True)
class Ink:
    """Where each image's ink lies: centre, variance of its rows, slant, variance once upright."""

    centre_y: Floats
    centre_x: Floats
    variance_y: Floats
    variance_x: Floats
    skew: Floats


@dataclass(eq=False, repr=False)
class Deskew(ImageTransformer):
    """Straighten, centre and half-way resize each image by the moments of its own ink.

    With centre c, variances v and covariance v_xy of the ink about the image's middle, skew
    s = v_xy / v_y, and the ratios r_y = sqrt(v_y) / (spread_y height) and
    r_x = sqrt(v_x - s v_xy) / (spread_x width), the pixel of the result at (y, x) from the middle
    is the image, interpolated bilinearly, at
    (c_y + a y, c_x + b x + s a y), a = 1 + resize (r_y - 1), b = 1 + resize (r_x - 1).
    Ink is bright on a dark ground; what falls outside the image is dark. Source: moment
    normalisation, as in Casey (1970), and LeCun et al. (1998) for the deskewed MNIST.

    - `image_shape`: (height, width) of the images in X, which are `(n, height * width)` or
      `(n, height, width)`, of bytes or numbers.
    - `canvas`: (height, width) of the result; None for `image_shape`.
    - `resize`: 0 leaves the size as it is, 1 makes all images equally large.
    - `spread`: the standard deviations that the ink shall have, as a share of height and width.

    >>> strokes = np.zeros((1, 9, 9))
    >>> strokes[0, range(1, 8), range(1, 8)] = 1   # a stroke that leans by 45 degrees
    >>> upright = Deskew(image_shape=(9, 9), resize=0).transform(strokes).reshape(9, 9)
    >>> upright.argmax(axis=1)[1:8].tolist()
    [4, 4, 4, 4, 4, 4, 4]
    """

    image_shape: Shape = (28, 28)
    _: KW_ONLY
    canvas: Shape | None = None
    resize: float = 0.5
    spread: tuple[float, float] = (0.196, 0.16)

    def _check(self) -> None:
        shape_pair(image_shape=self.image_shape)
        shape_pair(canvas=self._canvas)
        if non_negative(resize=self.resize) > 1:
            raise refuse("resize", self.resize, "a number from 0 to 1")
        if not isinstance(self.spread, tuple | list) or len(self.spread) != 2:
            raise refuse("spread", self.spread, "two shares, of height and of width")
        for share in self.spread:
            positive(spread=share)

    @property
    def _canvas(self) -> Any:
        return self.image_shape if self.canvas is None else self.canvas

    @property
    def _n_features_out(self) -> int:
        height, width = shape_pair(canvas=self._canvas)
        return height * width

    def _transform_planes(self, planes: Planes) -> Planes:
        height, width = planes.shape[:2]
        canvas_height, canvas_width = self._canvas
        ink = ink_of(planes)
        spread_y, spread_x = self.spread
        step_y = self._step(ink.variance_y, spread_y * height) * (height / canvas_height)
        step_x = self._step(ink.variance_x, spread_x * width) * (width / canvas_width)
        down = step_y * from_middle(canvas_height)[:, None]
        across = step_x * from_middle(canvas_width)[:, None]
        upright = resample_rows(planes, ink.centre_y + down)
        return resample_columns(upright, ink.centre_x + ink.skew * down, across)

    def _step(self, variance: Floats, wanted: float) -> Floats:
        """Pixels of the image per pixel of the result, but for the canvas."""
        ratio: Floats = np.clip(np.sqrt(variance) / wanted, *_RESIZE_RANGE)
        return 1 + self.resize * (ratio - 1)


def from_middle(size: int) -> Floats:
    """Coordinates of `size` pixels about their middle: -1, 0, 1 for three."""
    return np.arange(float(size)) - (size - 1) / 2


def ink_of(planes: Planes) -> Ink:
    """Measure centre, variances and skew of each image; negative pixels are no ink."""
    height, width = planes.shape[:2]
    mass, first, second = np.zeros((3, height, planes.shape[2]), dtype=np.float32)
    for x, at in enumerate(from_middle(width)):
        column = np.maximum(planes[:, x], 0)
        mass += column
        first += column * float(at)
        second += column * float(at * at)
    total = _moment(mass, 0)
    total[total == 0] = 1  # a blank image stays blank, wherever its centre is put
    centre_y, centre_x = _moment(mass, 1) / total, _moment(first, 0) / total
    variance_y = np.maximum(_moment(mass, 2) / total - centre_y**2, _PIXEL_VARIANCE)
    covariance = _moment(first, 1) / total - centre_y * centre_x
    skew = np.clip(covariance / variance_y, -_STEEPEST_SKEW, _STEEPEST_SKEW)
    variance_x = _moment(second, 0) / total - centre_x**2 - skew * covariance
    return Ink(centre_y, centre_x, variance_y, np.maximum(variance_x, _PIXEL_VARIANCE), skew)


def _moment(rows: Planes, power: int) -> Floats:
    """Sum over the rows y of rows[y] y^power, in order, which fixes the last bit."""
    total = np.zeros(rows.shape[1])
    for row, at in zip(rows, from_middle(len(rows)), strict=True):
        total += row * float(at**power)
    return total


def resample_rows(planes: Planes, rows: Floats) -> Planes:
    """Interpolate between rows: `rows[k]` is each image's k-th row position about the middle."""
    height, width, n = planes.shape
    padded = np.zeros((height + 2, width, n), dtype=np.float32)
    padded[1:-1] = planes
    upper, share = _whole_and_share(rows + (height + 1) / 2, height)
    index = (upper * (width * n))[:, None, :] + np.arange(width * n).reshape(width, n)
    return _between(padded, index, width * n, share[:, None, :])


def resample_columns(planes: Planes, starts: Floats, across: Floats) -> Planes:
    """Interpolate between columns, at `starts[y] + across[x]` about the middle."""
    height, width, n = planes.shape
    padded = np.zeros((height, width + 2, n), dtype=np.float32)
    padded[:, 1:-1] = planes
    columns = starts.astype(np.float32)[:, None, :] + across.astype(np.float32)
    columns += np.float32((width + 1) / 2)
    left, share = _whole_and_share(columns, width)
    left *= n
    left += np.arange(n)
    left += (np.arange(height) * ((width + 2) * n))[:, None, None]
    return _between(padded, left, n, share)


def _whole_and_share(
    positions: NDArray[Any], size: int
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Split positions in an image padded by one dark pixel into an index and a fraction."""
    inside = np.clip(positions, 0, size + 1)
    index = np.minimum(inside.astype(np.int32), size)
    return index.astype(np.intp), (inside - index).astype(np.float32)


def _between(source: Planes, index: NDArray[np.intp], stride: int, share: Planes) -> Planes:
    """Interpolate linearly between the pixel at `index` and the one `stride` further on."""
    pixels = source.reshape(-1)
    here = pixels.take(index)
    index += stride
    there = pixels.take(index)
    there -= here
    there *= share
    there += here
    return there
