"""Releases that help each other: queries with similar public images have similar codes.

Post-processing, free of any cost. Each coordinate of the codes is a Gaussian process over the
queries whose covariance mixes a kernel of public features with independence; the mixture that the
releases themselves find most likely is used. Without similarity it is the Wiener shrinkage of
docs/theory/high-dimensional.md#what-to-keep.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, finite_array
from tacit.errors import InvalidArgument
from tacit.masks.codecs.shrinkage import second_moments, wiener_weights

_MIXTURES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)


def smooth_releases(
    codes: ArrayLike,
    features: ArrayLike,
    spectrum: ArrayLike,
    deviations: ArrayLike,
    *,
    keep: float = 0.3,
) -> Floats:
    """Return posterior mean codes (queries, length) given all releases: shrunk and smoothed.

    For a coordinate with second moment lambda, noise sigma and covariance C = r K + (1 - r) I,
    K the kernel of the public `features` (queries, ...) with mean diagonal 1:
    lambda C (lambda C + sigma^2 I)^-1 code. r maximises the likelihood of the releases.
    Coordinates whose Wiener weight is not above `keep` are set to 0: they are mostly noise, and
    would decide r. Decode with sigma=0.

    >>> codes = smooth_releases([[2.0, 9.0], [0.0, -9.0]], [[1.0], [1.0]], [1.0, 0.1], [1.0, 1.0])
    >>> codes.round(3).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    noisy = finite_array(codes=codes)
    moments = second_moments(spectrum)
    if noisy.ndim != 2 or noisy.shape[1] != moments.size:
        raise InvalidArgument(f"Expected codes (queries, {moments.size}), got {noisy.shape}.")
    weights = wiener_weights(moments, deviations)
    roots, vectors = np.linalg.eigh(_kernel(features, len(noisy)))
    roots = np.maximum(roots, 0.0)
    kept = np.flatnonzero(weights > keep)
    smooth = np.zeros(noisy.shape)
    if kept.size:
        noise = np.square(np.broadcast_to(np.asarray(deviations, np.float64), moments.shape)[kept])
        rotated = vectors.T @ noisy[:, kept]
        shares = _best_mixture(rotated, roots, moments[kept], noise)
        smooth[:, kept] = vectors @ (rotated * shares)
    return smooth


def _kernel(features: ArrayLike, n_queries: int) -> Floats:
    """Return the centred linear kernel of standardised features, with mean diagonal 1."""
    rows = finite_array(features=features)
    if rows.ndim < 2 or len(rows) != n_queries:
        raise InvalidArgument(f"Expected features of {n_queries} queries, got {rows.shape}.")
    rows = rows.reshape(n_queries, -1)
    rows = rows - rows.mean(axis=0)
    kernel = rows @ rows.T
    scale = float(np.trace(kernel)) / n_queries
    return np.asarray(kernel / scale) if scale > 0 else np.eye(n_queries)


def _best_mixture(rotated: Floats, roots: Floats, moments: Floats, noise: Floats) -> Floats:
    """Return the shrinkage (queries, length) of the mixture with the highest likelihood."""
    best, shares = -np.inf, np.zeros(rotated.shape)
    for mixture in _MIXTURES:
        signal = (mixture * roots + 1 - mixture)[:, None] * moments
        variance = signal + noise
        fit = -float((np.log(variance) + np.square(rotated) / variance).sum())
        if fit > best:
            best, shares = fit, signal / variance
    return shares
