"""Scattering: moduli of wavelets of wavelets, averaged; nothing is learned.

A row's features depend on that row alone, bit for bit: pixels and filters are rounded to whole
steps of public grids, whose products float64 adds exactly in any order; all else is one operation
for each number, or an exact sum of whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit._checks import Floats, Integers, Shape, at_least, refuse, shape_pair
from tacit.features.images import ImageTransformer, Planes

_BELL = 0.8
"""Deviation of the narrowest bell, in pixels."""
_WAVE = 3 * math.pi / 4
"""Frequency of the finest waves, for each pixel."""
_REACH = 3.5
"""Deviations beyond which a bell is taken for 0."""
_STRIDE = 4  # of the places where answers are added up
_MOST_PIXELS, _MOST_ANGLES = 1024, 16
_PIXEL_STEPS, _FILTER_STEPS, _ROOT_STEPS = 2.0**14, 2.0**20, 2.0**16
"""With at most 2^10 pixels, all sums of products, and of squares of roots, stay below 2^53."""


@dataclass(eq=False, repr=False)
class Scattering(ImageTransformer):
    """Describe each image by wavelets of wavelets, averaged around every fourth pixel.

    For A angles and P positions there are (1 + 2 A + A^2) P numbers: averages of the image, of its
    waves' moduli at two scales, and of those of the larger waves in the finer moduli. Roots are
    taken, and each of these four groups is centred and scaled to length 1. It cannot be exported to
    ONNX. Source: Bruna and Mallat (2013).

    Parameters
    ----------
    image_shape : pair of int
        (height, width) of the images in X, from 8 pixels a side to 1,024 in all: the cost of one
        image grows with the square of its pixels.
    angles : int, into how many directions half a turn is divided, from 2 to 16

    Examples
    --------
    >>> Scattering((8, 8), angles=2).transform(np.eye(8)[None]).shape
    (1, 36)
    """

    image_shape: Shape = (28, 28)
    _: KW_ONLY
    angles: int = 8

    def _check(self) -> None:
        height, width = shape_pair(image_shape=self.image_shape)
        if min(height, width) < 2 * _STRIDE or height * width > _MOST_PIXELS:
            raise refuse(
                "image_shape",
                self.image_shape,
                f"sides of at least {2 * _STRIDE} pixels and at most {_MOST_PIXELS} pixels in all; "
                "make larger images smaller first",
            )
        if at_least(2, angles=self.angles) > _MOST_ANGLES:
            raise refuse("angles", self.angles, f"at most {_MOST_ANGLES}")

    @property
    def _n_features_out(self) -> int:
        places = math.prod(len(range(_STRIDE // 2, side, _STRIDE)) for side in self.image_shape)
        return (1 + 2 * self.angles + self.angles**2) * places

    def _transform_planes(self, planes: Planes) -> Planes:
        height, width, n = planes.shape
        filters = _filters(height, width, int(self.angles))
        pixels = planes.reshape(-1, n).astype(np.float64)
        fine = _sizes(filters.fine, pixels).reshape(self.angles, -1, n)
        groups = [
            _applied(filters.under_bell, pixels),
            np.concatenate([_applied(filters.under_bell, one) for one in fine]),
            self._added(filters, _sizes(filters.coarse, pixels)),
            np.concatenate([self._added(filters, _sizes(filters.coarse, one)) for one in fine]),
        ]
        return np.concatenate([_evened(group) for group in groups]).astype(np.float32)

    def _added(self, filters: _Filters, sizes: Floats) -> Floats:
        """Return averages of coarse moduli, angle by angle."""
        by_angle = sizes.reshape(self.angles, -1, sizes.shape[1])
        return np.concatenate([_applied(filters.under_coarse_bell, one) for one in by_angle])


class _Filters(NamedTuple):
    """Public matrices in whole steps, from all pixels of a grid to some positions."""

    fine: Floats
    """(2 x angles x pixels, pixels): waves and their quarter turns, at every pixel."""
    coarse: Floats
    """(2 x angles x every other pixel, pixels): waves of twice the length."""
    under_bell: Floats
    under_coarse_bell: Floats


@lru_cache(maxsize=2)
def _filters(height: int, width: int, angles: int) -> _Filters:
    """Return the filters of an image's shape; they take some seconds at the most."""
    everywhere, half = (height, width, 1, 0), (height, width, 2, 0)
    fine = [_morlet(0, angle, angles) for angle in range(angles)]
    coarse = [_morlet(1, angle, angles) for angle in range(angles)]
    bell = _bell(2 * _BELL, 0.0, 1.0, 0.0)[0]
    narrow = _bell(_BELL, 0.0, 1.0, 0.0)[0]  # the same bell among every other pixel
    halves = (-(-height // 2), -(-width // 2))
    return _Filters(
        _matrix(_both(fine), everywhere),
        _matrix(_both(coarse), half),
        _matrix([bell], (height, width, _STRIDE, _STRIDE // 2)),
        _matrix([narrow], (*halves, _STRIDE // 2, _STRIDE // 4)),
    )


def _both(waves: list[tuple[Floats, Floats]]) -> list[Floats]:
    """Return the real parts of all, then the imaginary ones."""
    return [real for real, _ in waves] + [imaginary for _, imaginary in waves]


def _bell(deviation: float, turn: float, slant: float, frequency: float) -> tuple[Floats, Floats]:
    """Return a Gabor wave whose Gaussian is 1/slant times as long across as along, as two parts."""
    reach = math.ceil(_REACH * deviation / slant)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    along = x * math.cos(turn) + y * math.sin(turn)
    across = y * math.cos(turn) - x * math.sin(turn)
    bell = np.exp(-(along**2 + (slant * across) ** 2) / (2 * deviation**2))
    bell /= bell.sum()
    return bell * np.cos(frequency * along), bell * np.sin(frequency * along)


def _morlet(scale: int, angle: int, angles: int) -> tuple[Floats, Floats]:
    """Return a wave without a mean: zero on an even image."""
    shape = (_BELL * 2**scale, math.pi * angle / angles, 4 / max(angles, 4))
    real, imaginary = _bell(*shape, _WAVE / 2**scale)
    bell, _ = _bell(*shape, 0.0)
    return real - bell * real.sum(), imaginary


def _matrix(kernels: list[Floats], grid: tuple[int, int, int, int]) -> Floats:
    """Return the kernels on a grid (height, width, stride, first), in whole steps, mirrored."""
    height, width, stride, first = grid
    rows, columns = np.meshgrid(
        np.arange(first, height, stride), np.arange(first, width, stride), indexing="ij"
    )
    made = np.zeros((len(kernels), rows.size, height * width))
    for kernel, matrix in zip(kernels, made, strict=True):
        reach = len(kernel) // 2
        for (down, right), weight in np.ndenumerate(kernel):
            near = _mirrored(rows + down - reach, height) * width
            near += _mirrored(columns + right - reach, width)
            matrix[np.arange(rows.size), near.ravel()] += weight
    return np.rint(made.reshape(-1, height * width) * _FILTER_STEPS)


def _mirrored(places: Integers, size: int) -> Integers:
    places = places % (2 * size)
    return np.minimum(places, 2 * size - 1 - places)


def _applied(matrix: Floats, pixels: Floats) -> Floats:
    """Return the matrix times each column: whole numbers, added exactly in any order."""
    steps = np.rint(pixels * _PIXEL_STEPS)
    return np.asarray((matrix @ steps) * (1 / (_PIXEL_STEPS * _FILTER_STEPS)))


def _sizes(matrix: Floats, pixels: Floats) -> Floats:
    """Return the moduli of waves and their quarter turns."""
    answers = _applied(matrix, pixels)
    real, imaginary = answers.reshape(2, -1, answers.shape[1])
    return np.asarray(np.sqrt(real * real + imaginary * imaginary))


def _evened(group: Floats) -> Floats:
    """Return roots, centred and scaled to length 1 by each column's own exact sums."""
    steps = np.rint(np.sign(group) * np.sqrt(np.abs(group)) * _ROOT_STEPS)
    total, squares = steps.sum(axis=0), np.square(steps).sum(axis=0)
    lengths = np.sqrt(np.maximum(squares - total * (total / len(steps)), 0.0))
    centred = steps - total / len(steps)
    return np.asarray(centred / np.where(lengths > 0, lengths, 1.0))
