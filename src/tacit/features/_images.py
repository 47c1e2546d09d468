"""What the image transformers share: checked input, blocks of bounded memory, one row at a time.

A block of n images is held as planes `(height, width, n)`: every step is an elementwise operation
over the last axis, or a sum of planes in a fixed order. IEEE 754 fixes the result of each such
operation, so a row's features are the same bits alone, in company, and on every machine. (A matrix
product or a library sine gives no such promise: its last bit may depend on the row's neighbours.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit.errors import InvalidArgument
from tacit.features._shapes import Shape, shape_pair

Planes = NDArray[np.float32]

BLOCK = 512  # images at a time: the planes of a 28 x 28 block stay in the processor's cache


def image_rows(X: ArrayLike, shape: Shape) -> NDArray[Any]:
    """Return images as an array `(n, height * width)` of finite real numbers; nothing is copied.

    The messages never quote a pixel: the images may be private.
    """
    height, width = shape
    try:
        array = np.asarray(X)
    except ValueError:
        array = np.empty(0)
    if array.shape[1:] not in ((height * width,), shape):
        raise InvalidArgument(
            f"Expected X to be images of image_shape={shape}: an array (n, {height * width}) or "
            f"(n, {height}, {width}), got shape {array.shape}."
        )
    if array.dtype.kind not in "buif":
        raise InvalidArgument(f"Expected X to hold real numbers, got dtype {array.dtype}.")
    return array.reshape(len(array), height * width)


def planes_of(rows: NDArray[Any], shape: Shape) -> Planes:
    """Turn rows into planes, each image scaled by its own brightest pixel to at most 1.

    The scale makes bytes, fractions and any exposure alike, and no square can overflow after it.
    """
    wide = np.float32 if rows.dtype.itemsize <= 2 or rows.dtype == np.float32 else np.float64
    pixels = np.ascontiguousarray(rows.T).astype(wide, copy=False)
    if not np.isfinite(pixels).all():
        raise InvalidArgument("Expected X to hold finite numbers only; remove NaN and inf.")
    brightest = np.abs(pixels).max(axis=0)
    brightest[brightest == 0] = 1
    scaled: Planes = (pixels / brightest).astype(np.float32, copy=False)
    return scaled.reshape(*shape, len(rows))


class ImageTransformer(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A public view of images: `fit` checks and learns nothing, `transform` works row by row."""

    image_shape: Shape

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check the parameters and the shape of X; nothing is learned from its values."""
        self._check()
        image_rows(X, shape_pair(image_shape=self.image_shape))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the features, an array `(n, n_features_out)`."""
        self._check()
        shape = shape_pair(image_shape=self.image_shape)
        rows = image_rows(X, shape)
        result = np.empty((len(rows), self._n_features_out), dtype=np.float32)
        for start in range(0, len(rows), BLOCK):
            block = slice(start, start + BLOCK)
            planes = self._transform_planes(planes_of(rows[block], shape))
            result[block] = planes.reshape(-1, planes.shape[-1]).T
        return result

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return names such as `hog0`, `hog1`: the class's name and a number."""
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{k}" for k in range(self._n_features_out)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

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
