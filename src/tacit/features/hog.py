"""Histograms of oriented gradients (Dalal and Triggs, 2005), vectorised over images.

Strokes are described by where they are and which way they run, not by their pixels: a public,
data-independent view in which a few hundred examples make a good teacher. No arc tangent and no
matrix product is needed: a gradient is split between its two nearest directions by the
parallelogram rule, and cells are sums of planes in a fixed order, so that every row's bits depend
on that row alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np

from tacit._checks import Floats, at_least, non_negative, positive, refuse
from tacit.features._images import ImageTransformer, Planes
from tacit.features._shapes import Shape, shape_pair

_FAINTEST = 0.05  # cells with less contrast than this, of a brightest pixel of 1, count for less


@dataclass(eq=False, repr=False)
class HOG(ImageTransformer):
    """Describe each image by the directions of its gradients in a grid of overlapping cells.

    A gradient g between the directions d_k and d_k+1 is g = alpha d_k + beta d_k+1 with alpha and
    beta >= 0, and votes alpha for k and beta for k + 1. Cells weigh votes by a tent of half-width
    `overlap` times their distance. With h the histogram of a cell and E the binomial 3 x 3 average
    of |h|^2 around it, the features are f = sqrt(h / sqrt(E + 0.05^2)), scaled to unit length: the
    inner product of two images is then the Hellinger affinity of their histograms. A blank image is
    all zeros. Sources: Dalal and Triggs (2005); the parallelogram rule as in Liu (2007).

    - `image_shape`: (height, width) of the images in X, which are `(n, height * width)` or
      `(n, height, width)`, of bytes or numbers.
    - `cells`: cells along each side.
    - `orientations`: directions around the whole circle, an even number.
    - `overlap`: half-width of a cell's tent in distances between cells; 1 is bilinear.
    - `margin`: share of the image at each side that the grid leaves out.

    >>> edge = np.zeros((1, 8, 8))
    >>> edge[:, :, 4:] = 1       # dark on the left, bright on the right
    >>> histogram = HOG(image_shape=(8, 8), cells=2, orientations=4).transform(edge)
    >>> histogram.reshape(4, 4)[0].tolist()   # directions by cells: all votes point right
    [0.5, 0.5, 0.5, 0.5]
    """

    image_shape: Shape = (28, 28)
    _: KW_ONLY
    cells: int = 8
    orientations: int = 12
    overlap: float = 1.5
    margin: float = 1 / 14

    def _check(self) -> None:
        height, width = shape_pair(image_shape=self.image_shape)
        at_least(1, cells=self.cells)
        if at_least(4, orientations=self.orientations) % 2:
            raise refuse("orientations", self.orientations, "an even number >= 4")
        positive(overlap=self.overlap)
        if non_negative(margin=self.margin) >= 0.5:
            raise refuse("margin", self.margin, "a share below 0.5")
        for side in (height, width):
            if not self._windows(side).any(axis=1).all():
                raise refuse(
                    "cells",
                    self.cells,
                    f"few enough for every cell to reach a pixel of image_shape={self.image_shape}",
                )

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
    """Yield the planes of votes for each direction k 360 / orientations degrees, in order.

    By the parallelogram rule the vote for d_k is max(0, min(g x d_k+1, d_k-1 x g)) / sin(angle
    between them), where u x v is the two-dimensional cross product. One buffer serves all
    directions: use each before asking for the next.
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
    features /= np.sqrt(energy / 16 + _FAINTEST**2)
    total = np.zeros(n, dtype=np.float32)
    for feature in features.reshape(-1, n):
        total += feature
    total[total == 0] = 1
    features /= total
    return np.sqrt(features, out=features)
