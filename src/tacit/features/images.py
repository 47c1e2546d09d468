"""Public features of images: upright and centred (`Deskew`), then directions of strokes (`HOG`).

Nothing is fitted. A block of n images is held as planes `(height, width, n)`: every step is an
elementwise operation over the last axis, or a sum of planes in a fixed order, whose results IEEE
754 fixes, so a row's features have the same bits alone, in a batch, and on every machine. (A matrix
product or a library sine gives no such promise.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tacit._checks import (
    Floats,
    Shape,
    as_array,
    at_least,
    blocks,
    non_negative,
    positive,
    refuse,
    shape_pair,
)
from tacit.errors import InvalidArgument

Planes = NDArray[np.float32]

BLOCK = 512  # images at a time: the planes of a 28 x 28 block stay in the processor's cache


def _image_rows(X: ArrayLike, shape: Shape) -> NDArray[Any]:
    """Return images as (n, height * width) finite real numbers; errors quote no pixel."""
    height, width = shape
    array = as_array(X)
    if array.shape[1:] not in ((height * width,), shape):
        raise InvalidArgument(
            f"Expected X to be images of image_shape={shape}: an array (n, {height * width}) or "
            f"(n, {height}, {width}), got shape {array.shape}."
        )
    if array.dtype.kind not in "buif":
        raise InvalidArgument(f"Expected X to hold real numbers, got dtype {array.dtype}.")
    return array.reshape(len(array), height * width)


def planes_of(rows: NDArray[Any], shape: Shape) -> Planes:
    """Turn rows into planes, each image scaled by its own brightest pixel to at most 1."""
    wide = np.float32 if rows.dtype.itemsize <= 2 or rows.dtype == np.float32 else np.float64
    pixels = np.ascontiguousarray(rows.T).astype(wide, copy=False)
    if not np.isfinite(pixels).all():
        raise InvalidArgument("Expected X to hold finite numbers only; remove NaN and inf.")
    brightest = np.abs(pixels).max(axis=0)
    brightest[brightest == 0] = 1
    scaled: Planes = (pixels / brightest).astype(np.float32, copy=False)
    return scaled.reshape(*shape, len(rows))


class ImageTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Image features: `fit` checks and learns nothing, `transform` works row by row."""

    image_shape: Shape

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check the parameters and the shape of X; nothing is learned from its values."""
        self._rows(X)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return features, as secret as X; each row's bits from its image alone."""
        rows = self._rows(X)
        result = np.empty((len(rows), self._n_features_out), dtype=np.float32)
        for block in blocks(len(rows), BLOCK):
            planes = self._transform_planes(planes_of(rows[block], self.image_shape))
            result[block] = planes.reshape(-1, planes.shape[-1]).T
        return result

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        self._check()
        return _image_rows(X, shape_pair(image_shape=self.image_shape))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.three_d_array = True
        return tags

    @abstractmethod
    def _check(self) -> None:
        """Raise unless the parameters are usable."""

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """How many features a row becomes."""

    @abstractmethod
    def _transform_planes(self, planes: Planes) -> Planes:
        """Transform a block of images."""


PIXEL_VARIANCE = 1 / 12  # of a uniform density one pixel wide: no ink is thinner than its pixel
STEEPEST_SKEW = 1.0  # 45 degrees; more slant than that is a horizontal stroke, not a slant
RESIZE_RANGE = (0.4, 1.6)


class Ink(NamedTuple):
    """Moments of each image's ink: centre, variance of its rows, slant, variance once upright."""

    centre_y: Floats
    centre_x: Floats
    variance_y: Floats
    variance_x: Floats
    skew: Floats


@dataclass(eq=False, repr=False)
class Deskew(ImageTransformer):
    """Straighten, centre and half-way resize each image by the moments of its own ink.

    With centre c, variances v and covariance v_xy of the ink about the image's middle, skew s =
    v_xy / v_y, and the ratios r_y = sqrt(v_y) / (spread_y height) and r_x = sqrt(v_x - s v_xy) /
    (spread_x width), the pixel of the result at (y, x) from the middle is the image, interpolated
    bilinearly, at (c_y + a y, c_x + b x + s a y), a = 1 + resize (r_y - 1), b = 1 + resize (r_x -
    1). Ink is bright on a dark ground. Source: moment normalisation, as in Casey (1970), and LeCun
    et al. (1998) for the deskewed MNIST.

    Parameters
    ----------
    image_shape : pair of int
        (height, width) of the images in X, which are `(n, height * width)` or
        `(n, height, width)`, of bytes or numbers.
    canvas : pair of int, optional, (height, width) of the result; None for `image_shape`
    resize : float, from 0, which leaves the size as it is, to 1, which makes all equally large
    spread : pair of float, the ink's standard deviations as a share of height and width
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
        down = step_y * _from_middle(canvas_height)[:, None]
        across = step_x * _from_middle(canvas_width)[:, None]
        upright = resample(planes, (ink.centre_y + down)[:, None])
        starts = (ink.centre_x + ink.skew * down).astype(np.float32)
        columns = across.astype(np.float32)[:, None] + starts
        return resample(upright.swapaxes(0, 1), columns).swapaxes(0, 1)

    def _step(self, variance: Floats, wanted: float) -> Floats:
        """Pixels of the image per pixel of the result, before the canvas."""
        ratio: Floats = np.clip(np.sqrt(variance) / wanted, *RESIZE_RANGE)
        return 1 + self.resize * (ratio - 1)


def _from_middle(size: int) -> Floats:
    """Coordinates of `size` pixels about their middle: -1, 0, 1 for three."""
    return np.arange(float(size)) - (size - 1) / 2


def ink_of(planes: Planes) -> Ink:
    """Measure centre, variances and skew of each image; negative pixels count as 0."""
    height, width = planes.shape[:2]
    mass, first, second = np.zeros((3, height, planes.shape[2]), dtype=np.float32)
    for x, at in enumerate(_from_middle(width)):
        column = np.maximum(planes[:, x], 0)
        mass += column
        first += column * float(at)
        second += column * float(at * at)
    total = _moment(mass, 0)
    total[total == 0] = 1  # a blank image stays blank, wherever its centre is put
    centre_y, centre_x = _moment(mass, 1) / total, _moment(first, 0) / total
    variance_y = np.maximum(_moment(mass, 2) / total - centre_y**2, PIXEL_VARIANCE)
    covariance = _moment(first, 1) / total - centre_y * centre_x
    skew = np.clip(covariance / variance_y, -STEEPEST_SKEW, STEEPEST_SKEW)
    variance_x = _moment(second, 0) / total - centre_x**2 - skew * covariance
    return Ink(centre_y, centre_x, variance_y, np.maximum(variance_x, PIXEL_VARIANCE), skew)


def _moment(rows: Planes, power: int) -> Floats:
    """Sum over the rows y of rows[y] y^power, in order, which fixes the last bit."""
    total = np.zeros(rows.shape[1])
    for row, at in zip(rows, _from_middle(len(rows)), strict=True):
        total += row * float(at**power)
    return total


def resample(planes: Planes, positions: NDArray[Any]) -> Planes:
    """Interpolate along the first axis, linearly, at positions about its middle."""
    size, *line = planes.shape
    padded = np.zeros((size + 2, *line), dtype=np.float32)  # one dark pixel at each end
    padded[1:-1] = planes
    inside = np.clip(positions + positions.dtype.type((size + 1) / 2), 0, size + 1)
    whole = np.minimum(inside.astype(np.int32), size)
    share = (inside - whole).astype(np.float32)
    pixels, stride = padded.reshape(-1), math.prod(line)
    index: NDArray[np.intp] = whole.astype(np.intp) * stride + np.arange(stride).reshape(line)
    here = pixels.take(index)
    index += stride
    there = pixels.take(index)
    there -= here
    there *= share
    return np.add(there, here, out=there)


FAINTEST = 0.05  # cells with less contrast than this, of a brightest pixel of 1, count for less


@dataclass(eq=False, repr=False)
class HOG(ImageTransformer):
    """Describe each image by the directions of its gradients in a grid of overlapping cells.

    A gradient g = alpha d_k + beta d_k+1 with alpha and beta >= 0 votes alpha for direction k and
    beta for k + 1. Cells weigh votes by a tent of half-width `overlap` times their distance. With h
    the histogram of a cell and E the binomial 3 x 3 average of |h|^2 around it, the features are f
    = sqrt(h / sqrt(E + 0.05^2)), scaled to unit length: inner products are Hellinger affinities. A
    blank image is all zeros. Source: Dalal and Triggs (2005); the parallelogram rule as in Liu
    (2007).

    Parameters
    ----------
    image_shape : pair of int, as in `Deskew`
    cells : int, cells along each side
    orientations : int, directions around the whole circle, an even number from 4 on
    overlap : float, half-width of a cell's tent in distances between cells; 1 is bilinear
    margin : float, share of the image at each side that the grid leaves out, from 0 to below 0.5
    """

    image_shape: Shape = (28, 28)
    _: KW_ONLY
    cells: int = 8
    orientations: int = 12
    overlap: float = 1.5
    margin: float = 1 / 14

    def _check(self) -> None:
        shape = shape_pair(image_shape=self.image_shape)
        at_least(1, cells=self.cells)
        if at_least(4, orientations=self.orientations) % 2:
            raise refuse("orientations", self.orientations, "an even number >= 4")
        positive(overlap=self.overlap)
        if non_negative(margin=self.margin) >= 0.5:
            raise refuse("margin", self.margin, "a share below 0.5")
        if not all(self._windows(side).any(axis=1).all() for side in shape):
            reach = f"few enough for every cell to reach a pixel of image_shape={self.image_shape}"
            raise refuse("cells", self.cells, reach)

    @property
    def _n_features_out(self) -> int:
        return self.orientations * self.cells**2

    def _windows(self, size: int) -> Floats:
        return tent_windows(size, self.cells, overlap=self.overlap, margin=self.margin)

    def _transform_planes(self, planes: Planes) -> Planes:
        height, width, n = planes.shape
        rows, columns = self._windows(height), self._windows(width)
        shape = (self.orientations, self.cells, self.cells, n)
        histograms = np.empty(shape, dtype=np.float32)
        for k, votes in enumerate(direction_votes(planes, self.orientations)):
            by_column = pool(votes, rows).swapaxes(0, 1)
            histograms[k] = pool(by_column, columns).swapaxes(0, 1)
        return normalise(histograms)


def tent_windows(size: int, cells: int, *, overlap: float, margin: float) -> Floats:
    """Weights `(cells, size)`: how much each pixel along a side counts for each cell."""
    step = size * (1 - 2 * margin) / cells
    centres = size * margin + (np.arange(cells) + 0.5) * step - 0.5
    distance = np.abs(np.arange(size) - centres[:, None])
    return np.maximum(0, 1 - distance / (overlap * step))


def gradients(planes: Planes) -> tuple[Planes, Planes]:
    """Differences down and across, over two pixels, and over one at the border."""
    down, across = np.empty_like(planes), np.empty_like(planes)
    for result, source in ((down, planes), (across.swapaxes(0, 1), planes.swapaxes(0, 1))):
        np.subtract(source[2:], source[:-2], out=result[1:-1])
        np.subtract(source[1], source[0], out=result[0])
        np.subtract(source[-1], source[-2], out=result[-1])
    return down, across


def direction_votes(planes: Planes, orientations: int) -> Iterator[Planes]:
    """Yield planes of votes for the directions k 360 / orientations, in one reused buffer.

    The vote for d_k is max(0, min(g x d_k+1, d_k-1 x g)) / sin(angle between them), u x v the
    two-dimensional cross product.
    """
    down, across = gradients(planes)
    half, angle = orientations // 2, 2 * math.pi / orientations
    crosses = []  # g x d_k; the opposite direction has the opposite product
    for k in range(half):
        sine, cosine = (f(k * angle) / math.sin(angle) for f in (math.sin, math.cos))
        crosses.append(across * float(sine) - down * float(cosine))
    crosses += [-cross for cross in crosses]
    votes = np.empty_like(planes)
    for k in range(orientations):
        np.minimum(
            crosses[(k + 1) % orientations], crosses[(k - 1) % orientations - half], out=votes
        )
        yield np.maximum(votes, 0, out=votes)


def pool(planes: Planes, windows: Floats) -> Planes:
    """Weighted sums of planes along the first axis, one for each window, in a fixed order."""
    pooled = np.zeros((len(windows), *planes.shape[1:]), dtype=np.float32)
    weighted = np.empty(planes.shape[1:], dtype=np.float32)
    for cell, window in enumerate(windows):
        for k in np.flatnonzero(window):
            np.multiply(planes[k], float(window[k]), out=weighted)
            pooled[cell] += weighted
    return pooled


def normalise(histograms: Planes) -> Planes:
    """Divide each cell by the contrast around it, take roots, scale each image to length 1."""
    cells_y, cells_x, n = histograms.shape[1:]
    energy = np.zeros((cells_y + 2, cells_x + 2, n), dtype=np.float32)
    for histogram in histograms:
        energy[1:-1, 1:-1] += histogram * histogram
    for _ in range(2):  # down, then across: the binomial weights 1, 2, 1 are separable
        energy = (energy[:-2] + 2 * energy[1:-1] + energy[2:]).swapaxes(0, 1)
    features = histograms
    features /= np.sqrt(energy / 16 + FAINTEST**2)
    total = np.zeros(n, dtype=np.float32)
    for feature in features.reshape(-1, n):
        total += feature
    total[total == 0] = 1
    features /= total
    return np.sqrt(features, out=features)


_CANVAS_SIDE = 28  # the grid of 8 x 8 cells needs about this many pixels, whatever the image has


def digit_features(image_shape: Shape = (28, 28)) -> Any:
    """Make the pipeline Deskew, HOG: 768 features of unit length for images of written characters.

    All choices (12 directions, 8 x 8 cells, the sizes) were made on USPS digits, for
    `tacit.teachers.KernelRidgeTeachers`.

    Parameters
    ----------
    image_shape : pair of int, (height, width); smaller images are drawn on a canvas of 28 x 28

    Returns
    -------
    Pipeline, of scikit-learn; public, and nothing in it is fitted

    Examples
    --------
    >>> import numpy as np
    >>> digit_features((8, 8)).fit_transform(np.eye(8)[None]).shape
    (1, 768)
    """
    from sklearn.pipeline import make_pipeline

    height, width = shape_pair(image_shape=image_shape)
    canvas = (max(height, _CANVAS_SIDE), max(width, _CANVAS_SIDE))
    return make_pipeline(Deskew(image_shape, canvas=canvas), HOG(canvas))
