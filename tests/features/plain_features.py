"""Deskewing and HOG written down pixel by pixel from their definitions: slow, and the oracle."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Image = NDArray[np.float64]


def brightest_is_one(image: NDArray) -> Image:
    image = np.asarray(image, dtype=np.float64)
    return image / np.abs(image).max() if image.any() else image


def upright(
    image: NDArray,
    *,
    canvas: tuple[int, int] | None = None,
    resize: float = 0.5,
    spread: tuple[float, float] = (0.196, 0.16),
) -> Image:
    """One image, deskewed by scipy.ndimage at the coordinates of the definition."""
    image = brightest_is_one(image)
    height, width = image.shape
    canvas = canvas or image.shape
    ink = np.maximum(image, 0)
    if not ink.any():
        return np.zeros(canvas)
    y, x = np.indices(image.shape)
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    centre_y, centre_x = np.average(y, weights=ink), np.average(x, weights=ink)
    (variance_y, covariance), (_, variance_x) = np.cov(
        np.stack([y.ravel(), x.ravel()]), aweights=ink.ravel(), ddof=0
    )
    variance_y = max(variance_y, 1 / 12)
    skew = min(1.0, max(-1.0, covariance / variance_y))
    variance_x = max(variance_x - skew * covariance, 1 / 12)
    ratios = np.sqrt([variance_y, variance_x]) / (np.array(spread) * image.shape)
    a, b = 1 + resize * (np.clip(ratios, 0.4, 1.6) - 1)
    v, u = np.indices(canvas)
    v = (v - (canvas[0] - 1) / 2) * height / canvas[0] * a
    u = (u - (canvas[1] - 1) / 2) * width / canvas[1] * b
    at = [centre_y + v + (height - 1) / 2, centre_x + u + skew * v + (width - 1) / 2]
    return ndimage.map_coordinates(image, at, order=1, mode="grid-constant")


def gradient_at(image: Image, y: int, x: int) -> tuple[float, float]:
    height, width = image.shape
    below, above = image[min(y + 1, height - 1), x], image[max(y - 1, 0), x]
    right, left = image[y, min(x + 1, width - 1)], image[y, max(x - 1, 0)]
    return below - above, right - left


def votes_of(down: float, across: float, orientations: int) -> list[float]:
    """Solve g = alpha d_k + beta d_k+1 for the two directions on either side of the gradient."""
    votes = [0.0] * orientations
    if down == across == 0:
        return votes
    step = 2 * math.pi / orientations
    k = math.floor(math.atan2(down, across) % (2 * math.pi) / step)
    basis = [[f(j * step) for j in (k, k + 1)] for f in (math.cos, math.sin)]
    alpha, beta = np.linalg.solve(basis, [across, down])
    votes[k % orientations] += alpha
    votes[(k + 1) % orientations] += beta
    return votes


def tent(position: int, cell: int, size: int, cells: int, overlap: float, margin: float) -> float:
    step = size * (1 - 2 * margin) / cells
    centre = size * margin + (cell + 0.5) * step  # of the cell; a pixel's centre is at + 0.5
    return max(0.0, 1 - abs(position + 0.5 - centre) / (overlap * step))


def histograms_of(
    image: Image, cells: int, orientations: int, overlap: float, margin: float
) -> NDArray:
    height, width = image.shape
    result = np.zeros((orientations, cells, cells))
    for y in range(height):
        for x in range(width):
            votes = votes_of(*gradient_at(image, y, x), orientations)
            for i in range(cells):
                for j in range(cells):
                    weight = tent(y, i, height, cells, overlap, margin)
                    weight *= tent(x, j, width, cells, overlap, margin)
                    result[:, i, j] += weight * np.array(votes)
    return result


def hog(
    image: NDArray,
    *,
    cells: int = 8,
    orientations: int = 12,
    overlap: float = 1.5,
    margin: float = 1 / 14,
) -> NDArray:
    """One image's features, directions by rows by columns, flattened."""
    histograms = histograms_of(brightest_is_one(image), cells, orientations, overlap, margin)
    energy = (histograms**2).sum(axis=0)
    binomial = np.outer([1, 2, 1], [1, 2, 1]) / 16
    around = ndimage.convolve(energy, binomial, mode="constant")
    features = np.sqrt(histograms / np.sqrt(around + 0.05**2)).ravel()
    length = np.linalg.norm(features)
    return features / length if length else features
